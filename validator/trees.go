package validator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

// TreeCache materialises trees below a directory, once per digest. The
// directories are read-only by convention: boxes mount them under overlays.
type TreeCache struct {
	Dir    string // on the same file system for all trees
	Source blob.Store

	mu   sync.Mutex // guards busy
	busy map[agon.Digest]*sync.Mutex
}

// Tree implements Trees.
func (c *TreeCache) Tree(ctx context.Context, d agon.Digest) (string, error) {
	if err := d.Validate(); err != nil {
		return "", err
	}
	c.mu.Lock()
	if c.busy == nil {
		c.busy = map[agon.Digest]*sync.Mutex{}
	}
	m := c.busy[d]
	if m == nil {
		m = &sync.Mutex{}
		c.busy[d] = m
	}
	c.mu.Unlock()
	m.Lock()
	defer m.Unlock()
	dir := filepath.Join(c.Dir, d.Hex())
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("look for tree %s: %w", d, err)
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return "", fmt.Errorf("make tree cache: %w", err)
	}
	if err := prefetch(ctx, c.Source, d); err != nil {
		return "", fmt.Errorf("fetch tree %s: %w", d, err)
	}
	if err := blob.Materialise(ctx, c.Source, d, dir, blob.TreeLimits{}); err != nil {
		return "", fmt.Errorf("materialise tree %s: %w", d, err)
	}
	return dir, nil
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
