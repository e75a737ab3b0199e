package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// DefaultQuota bounds a cache of trees, in bytes.
const DefaultQuota = 20 << 30

const usedPrefix = ".used-"

// Used notes now as the last use of a cached tree, beside it: a tree never changes.
func Used(dir string, now time.Time) error {
	mark := usedMark(dir)
	err := os.Chtimes(mark, now, now)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.WriteFile(mark, nil, 0o644); err == nil {
			err = os.Chtimes(mark, now, now)
		}
	}
	// Others' caches can be used, not marked.
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil
	}
	return err
}

// Forget removes what Used noted of a tree that is gone.
func Forget(dir string) error {
	if err := os.Remove(usedMark(dir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// UsedMark is the file by whose time Used notes it.
func UsedMark(dir string) string { return usedMark(dir) }

func usedMark(dir string) string {
	return filepath.Join(filepath.Dir(dir), usedPrefix+filepath.Base(dir))
}

// Cached is one tree of a cache.
type Cached struct {
	Dir   string
	Bytes int64
	Used  time.Time // last use, else when it was made
	Busy  bool      // a living box is mounted over it
}

// List returns the trees of a cache, least recently used first.
func List(cache string) ([]Cached, error) {
	ents, err := os.ReadDir(cache)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read cache: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	var out []Cached
	for _, e := range ents {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		c := Cached{Dir: filepath.Join(cache, e.Name())}
		for _, p := range []string{usedMark(c.Dir), c.Dir} {
			if fi, err := os.Lstat(p); err == nil {
				c.Used = fi.ModTime()
				break
			}
		}
		c.Bytes = Size(c.Dir)
		c.Busy = mentions(string(mounts), c.Dir)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Cached) int { return a.Used.Compare(b.Used) })
	return out, nil
}

// mentions tells whether a mount table names dir or something below it.
func mentions(mounts, dir string) bool {
	for rest := mounts; ; {
		i := strings.Index(rest, dir)
		if i < 0 {
			return false
		}
		rest = rest[i+len(dir):]
		if rest == "" || strings.ContainsRune(" /,:\n", rune(rest[0])) {
			return true
		}
	}
}

// Size counts the bytes that a tree takes on the disk; hard links count once for each name.
func Size(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be seen is not counted
		}
		if fi, err := d.Info(); err == nil {
			if st, ok := fi.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
		}
		return nil
	})
	return n
}

// Prune removes the least recently used trees of a cache until it holds at most
// quota bytes. Trees in keep, and those that a box is mounted over, stay. It
// returns what it removed. A removed tree is renamed first, so that nobody finds
// half of one.
func Prune(cache string, quota int64, keep ...string) ([]Cached, error) {
	all, err := List(cache)
	if err != nil {
		return nil, err
	}
	var total int64
	for _, c := range all {
		total += c.Bytes
	}
	var gone []Cached
	for _, c := range all {
		if total <= quota {
			break
		}
		if c.Busy || slices.Contains(keep, c.Dir) {
			continue
		}
		trash := filepath.Join(cache, ".new-old-"+filepath.Base(c.Dir)) // swept by Ensure if we die here
		if err := os.Rename(c.Dir, trash); err != nil {
			return gone, fmt.Errorf("prune %s: %w", c.Dir, err)
		}
		if err := removeAll(trash); err != nil {
			return gone, fmt.Errorf("prune: %w", err)
		}
		_ = Forget(c.Dir)
		total -= c.Bytes
		gone = append(gone, c)
	}
	return gone, nil
}

// Pruned is what Prune removed.
type Pruned struct {
	Images []string `json:"images"` // digests
	Bytes  int64    `json:"bytes"`
}

// Prune removes the least recently used images, with their trees and the layers
// that no other image needs, until what is left has at most quota bytes. An image
// that a box stands on stays, and so do those in keep, by digest.
func (s *Images) Prune(ctx context.Context, quota int64, keep ...string) (*Pruned, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	if err := s.sweep(list); err != nil {
		return nil, err
	}
	cached, err := List(s.trees())
	if err != nil {
		return nil, err
	}
	trees := map[string][]Cached{}
	for _, c := range cached {
		if h := filepath.Base(c.Dir); len(h) > 64 {
			trees["sha256:"+h[:64]] = append(trees["sha256:"+h[:64]], c)
		}
	}
	users := map[string]int{}
	total, treeBytes := int64(0), map[string]int64{}
	for _, img := range list {
		for _, d := range img.blobs() {
			if users[d.digest]++; users[d.digest] == 1 {
				total += d.size
			}
		}
		for _, c := range trees[img.Digest] {
			treeBytes[img.Digest] += c.Bytes
		}
		total += treeBytes[img.Digest]
	}
	out := &Pruned{Images: []string{}}
	var away errgroup.Group // removing waits for the disk most of the time
	away.SetLimit(8)
	for _, img := range slices.Backward(list) {
		if total <= quota {
			break
		}
		if slices.Contains(keep, img.Digest) || slices.ContainsFunc(trees[img.Digest], func(c Cached) bool { return c.Busy }) {
			continue
		}
		freed := treeBytes[img.Digest]
		for _, c := range trees[img.Digest] {
			trash := filepath.Join(s.trees(), ".new-old-"+filepath.Base(c.Dir)) // swept the next time if we die here
			if err := os.Rename(c.Dir, trash); err != nil {
				return out, errors.Join(fmt.Errorf("prune: %w", err), away.Wait())
			}
			away.Go(func() error { return removeAll(trash) })
			_ = Forget(c.Dir)
		}
		if err := os.Remove(s.recordAt(img.Digest)); err != nil {
			return out, errors.Join(fmt.Errorf("prune: %w", err), away.Wait())
		}
		for _, d := range img.blobs() {
			if users[d.digest]--; users[d.digest] == 0 {
				_ = os.Remove(s.blob(d.digest)) // swept the next time
				freed += d.size
			}
		}
		total -= freed
		out.Bytes += freed
		out.Images = append(out.Images, img.Digest)
	}
	if err := away.Wait(); err != nil {
		return out, fmt.Errorf("prune: %w", err)
	}
	return out, nil
}

// blobs are all stored bytes of an image.
func (img *Image) blobs() []layer {
	return append(slices.Clone(img.layers), layer{img.Digest, 0}, layer{digestOf(img.config), int64(len(img.config))})
}

// sweep removes what killed imports left: halves, and blobs of no image of list, which
// are all. The caller holds the lock.
func (s *Images) sweep(list []*Image) error {
	used := map[string]bool{}
	for _, img := range list {
		for _, d := range img.blobs() {
			used[strings.TrimPrefix(d.digest, "sha256:")] = true
		}
	}
	ents, err := os.ReadDir(filepath.Join(s.dir, "blobs", "sha256"))
	if err != nil {
		return err
	}
	for _, e := range ents {
		if !used[e.Name()] {
			_ = os.Remove(filepath.Join(s.dir, "blobs", "sha256", e.Name()))
		}
	}
	return sweepTemp(s.trees())
}
