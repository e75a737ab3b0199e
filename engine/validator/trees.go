package validator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// DefaultTreeLimit bounds a cache of trees, in bytes.
const DefaultTreeLimit = 10 << 30

// TreeCache materialises trees below a directory, once per digest, and removes
// the least recently used when they take more than Limit bytes. The directories
// are read-only by convention: boxes mount them under overlays.
type TreeCache struct {
	// Dir holds nothing but the trees of this cache, all on one file system.
	Dir    string
	Source blob.Store
	// Limit bounds the trees together, in bytes on the disk; 0 =
	// DefaultTreeLimit. Only trees that are held may take more.
	Limit int64
	// Log reports what could not be removed; nil: nobody.
	Log *slog.Logger
	// Now is the clock; nil = time.Now.
	Now func() time.Time

	mu     sync.Mutex                // guards below
	held   map[agon.Digest]*heldTree // those in use or being made
	looked bool                      // Dir was looked through since the start
	fresh  int64                     // bytes of trees made since Dir was last looked through
}

// heldTree is a tree that must stay.
type heldTree struct {
	users  int        // guarded by TreeCache.mu
	making sync.Mutex // held by who looks for the tree, or makes it
}

var _ TreeHolder = (*TreeCache)(nil)

// Tree implements Trees. The tree stays for as long as the cache is in use.
func (c *TreeCache) Tree(ctx context.Context, d agon.Digest) (string, error) {
	dir, _, err := c.Hold(ctx, d)
	return dir, err
}

// Hold implements TreeHolder.
func (c *TreeCache) Hold(ctx context.Context, d agon.Digest) (dir string, release func(), err error) {
	if err := d.Validate(); err != nil {
		return "", nil, err
	}
	c.mu.Lock()
	if c.held == nil {
		c.held = map[agon.Digest]*heldTree{}
	}
	h := c.held[d]
	if h == nil {
		h = &heldTree{}
		c.held[d] = h
	}
	h.users++
	c.mu.Unlock()
	release = sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(c.held, d)
		}
	})
	dir = filepath.Join(c.Dir, d.Hex())
	h.making.Lock()
	made, err := c.make(ctx, d, dir)
	h.making.Unlock()
	if err != nil {
		release()
		return "", nil, err
	}
	if err := errors.Join(rootfs.Used(dir, c.now()), c.bound(dir, made)); err != nil && c.Log != nil {
		c.Log.Warn("pruning trees", "dir", c.Dir, "err", err) // the tree is there all the same
	}
	return dir, release, nil
}

func (c *TreeCache) now() time.Time {
	if c.Now == nil {
		return time.Now() //nolint:forbidigo // the default of Now
	}
	return c.Now()
}

// make materialises d as dir, unless it is there.
func (c *TreeCache) make(ctx context.Context, d agon.Digest, dir string) (made bool, err error) {
	if _, err := os.Stat(dir); err == nil {
		return false, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("look for tree %s: %w", d, err)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return false, fmt.Errorf("make tree cache: %w", err)
	}
	if err := prefetch(ctx, c.Source, d); err != nil {
		return false, fmt.Errorf("fetch tree %s: %w", d, err)
	}
	if err := blob.Materialise(ctx, c.Source, d, dir, blob.TreeLimits{}); err != nil {
		return false, fmt.Errorf("materialise tree %s: %w", d, err)
	}
	return true, nil
}

// slack is the part of the limit that may be made before Dir is looked through
// again: looking costs a walk over every tree.
const slack = 16

// bound keeps the trees within the limit after dir was used, or made.
func (c *TreeCache) bound(dir string, made bool) error {
	limit := c.Limit
	if limit <= 0 {
		limit = DefaultTreeLimit
	}
	var size int64
	if made {
		size = rootfs.Size(dir)
	}
	c.mu.Lock()
	first := !c.looked
	c.looked = true
	c.fresh += size
	due := first || c.fresh > limit/slack
	if due {
		c.fresh = 0
	}
	c.mu.Unlock()
	if !due {
		return nil
	}
	var err error
	if first {
		err = c.sweep()
	}
	return errors.Join(err, c.prune(limit-limit/slack))
}

const (
	trashPrefix = ".gone-"      // trees that are being removed
	tempPrefix  = ".tree-"      // trees that blob.Materialise is making
	tempAge     = 2 * time.Hour // from when on nobody is making one any more
)

// sweep removes what an earlier process left half made or half removed.
func (c *TreeCache) sweep() error {
	ents, err := os.ReadDir(c.Dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range ents {
		gone := strings.HasPrefix(e.Name(), trashPrefix)
		if strings.HasPrefix(e.Name(), tempPrefix) {
			fi, err := e.Info()
			gone = err == nil && c.now().Sub(fi.ModTime()) > tempAge
		}
		if gone {
			errs = append(errs, os.RemoveAll(filepath.Join(c.Dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// prune removes the least recently used trees until those that are left take at
// most goal bytes. Trees that are held stay.
func (c *TreeCache) prune(goal int64) error {
	list, err := rootfs.List(c.Dir)
	if err != nil {
		return err
	}
	var total int64
	for _, t := range list {
		total += t.Bytes
	}
	for _, t := range list {
		if total <= goal {
			return nil
		}
		name := filepath.Base(t.Dir)
		d := agon.Digest(agon.DigestPrefix + name)
		if d.Validate() != nil || t.Busy {
			continue
		}
		trash := filepath.Join(c.Dir, trashPrefix+name)
		gone, err := c.retire(d, t.Dir, trash)
		if err != nil {
			return err
		}
		if !gone {
			continue
		}
		if err := errors.Join(os.RemoveAll(trash), rootfs.Forget(t.Dir)); err != nil {
			return err
		}
		total -= t.Bytes
	}
	return nil
}

// retire renames a tree that is not held: from then on nobody finds it, and who
// wants it makes it anew.
func (c *TreeCache) retire(d agon.Digest, dir, trash string) (bool, error) {
	if err := os.RemoveAll(trash); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[d] != nil {
		return false, nil
	}
	err := os.Rename(dir, trash)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// prefetch asks for the blobs of a tree several at a time: a source that reads
// through to the platform then has them when they are wanted one by one.
func prefetch(ctx context.Context, s blob.Store, d agon.Digest) error {
	if _, remote := s.(RemoteBlobs); !remote {
		return nil
	}
	m, err := blob.GetManifest(ctx, s, d, blob.TreeLimits{})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for _, f := range m.Files {
		g.Go(func() error {
			_, err := s.Get(ctx, f.Digest)
			return err
		})
	}
	return g.Wait()
}

// RemoteBlobs is a blob.Store that reads through to the platform and keeps
// what it fetched in Local.
type RemoteBlobs struct {
	Local  blob.Store
	Remote interface {
		Blob(ctx context.Context, d agon.Digest) ([]byte, error)
	}
}

// Put implements blob.Store: it stores locally.
func (r RemoteBlobs) Put(ctx context.Context, b []byte) (agon.Digest, error) {
	return r.Local.Put(ctx, b)
}

// Has implements blob.Store for what is local.
func (r RemoteBlobs) Has(ctx context.Context, d agon.Digest) (bool, error) {
	return r.Local.Has(ctx, d)
}

// Get implements blob.Store. Bytes from the platform are checked against d.
func (r RemoteBlobs) Get(ctx context.Context, d agon.Digest) ([]byte, error) {
	b, err := r.Local.Get(ctx, d)
	if err == nil || (!errors.Is(err, blob.ErrNotFound) && !errors.Is(err, blob.ErrCorrupt)) {
		return b, err
	}
	b, err = r.Remote.Blob(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("fetch blob %s: %w", d, err)
	}
	if agon.Sum(b) != d {
		return nil, fmt.Errorf("fetch blob %s: %w", d, blob.ErrCorrupt)
	}
	if _, err := r.Local.Put(ctx, b); err != nil {
		return nil, fmt.Errorf("keep blob %s: %w", d, err)
	}
	return b, nil
}
