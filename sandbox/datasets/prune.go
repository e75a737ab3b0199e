package datasets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/sandbox/rootfs"
)

// Pruned is what Prune removed.
type Pruned struct {
	Datasets []string `json:"datasets"` // digests
	Bytes    int64    `json:"bytes"`    // on the disk
}

// partsStay is how long a fetch that was stopped may be taken up again.
const partsStay = 7 * 24 * time.Hour

// Prune removes the data sets used longest ago, with the files that no other has,
// until what is left takes at most quota bytes of the disk. One that a box sees
// stays, and so do those in keep, by digest. With a quota of 0, what stopped
// fetches left goes, too.
func (s *Store) Prune(ctx context.Context, quota int64, keep ...string) (*Pruned, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	users, sizes := map[string]int{}, map[string]int64{}
	var total int64
	for _, d := range list {
		for id := range d.ids() {
			if users[id]++; users[id] == 1 {
				sizes[id] = onDisk(s.file(id))
				total += sizes[id]
			}
		}
	}
	out := &Pruned{Datasets: []string{}}
	for _, d := range slices.Backward(list) {
		if total <= quota {
			break
		}
		if slices.Contains(keep, d.Digest) {
			continue
		}
		gone, err := s.remove(strings.TrimPrefix(d.Digest, "sha256:"))
		if err != nil {
			return out, fmt.Errorf("prune: %w", err)
		}
		if !gone {
			continue
		}
		out.Datasets = append(out.Datasets, d.Digest)
		for id := range d.ids() {
			if users[id]--; users[id] == 0 {
				total -= sizes[id]
				out.Bytes += sizes[id]
			}
		}
	}
	return out, s.sweep(users, quota == 0)
}

// ids are the stored files of a data set.
func (d *Dataset) ids() map[string]bool {
	out := map[string]bool{}
	for _, f := range d.manifest.Files {
		if f.Link == "" {
			out[f.id()] = true
		}
	}
	return out
}

// onDisk is what a file takes.
func onDisk(at string) int64 {
	var st unix.Stat_t
	if unix.Lstat(at, &st) != nil {
		return 0
	}
	return st.Blocks * 512
}

// remove takes a tree away unless somebody holds it. The caller holds the lock.
func (s *Store) remove(hex string) (bool, error) {
	tree := s.tree(hex)
	f, err := os.Open(tree)
	if err != nil {
		return false, err
	}
	defer f.Close()
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, err
	}
	trash := filepath.Join(s.dir, "trees", newPrefix+"old-"+hex)
	if err := os.Rename(tree, trash); err != nil {
		return false, err
	}
	for _, p := range []string{s.index(hex), s.names(hex)} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	_ = rootfs.Forget(tree)
	return true, os.RemoveAll(trash)
}

// sweep removes files of no data set, and what killed calls left. The caller holds the lock.
func (s *Store) sweep(users map[string]int, parts bool) error {
	now := time.Now() //nolint:forbidigo // marks on the disk are compared
	for _, dir := range []string{"files", "trees", "index"} {
		ents, err := os.ReadDir(filepath.Join(s.dir, dir))
		if err != nil {
			return fmt.Errorf("prune: %w", err)
		}
		for _, e := range ents {
			at := filepath.Join(s.dir, dir, e.Name())
			fi, err := e.Info()
			if err != nil {
				continue
			}
			hex, _, _ := strings.Cut(e.Name(), ".")
			part := strings.HasPrefix(e.Name(), partPrefix)
			switch {
			case strings.HasPrefix(e.Name(), newPrefix):
			case part && (parts || now.Sub(fi.ModTime()) > partsStay):
			case dir == "files" && !part && users[e.Name()] == 0:
			case dir == "index" && !s.ready(hex):
			default:
				continue
			}
			if err := os.RemoveAll(at); err != nil {
				return fmt.Errorf("prune: %w", err)
			}
		}
	}
	return nil
}

// Check reads a data set of the cache again and names the files that are not what
// the manifest says, sorted. A data set of which a file is wrong is taken away, so that it is
// fetched anew, unless somebody holds it.
func (s *Store) Check(ctx context.Context, d *Dataset) (wrong []string, err error) {
	hex := strings.TrimPrefix(d.Digest, "sha256:")
	tree, release, err := s.hold(hex)
	if err != nil {
		return nil, err
	}
	wrong, ids, err := compare(ctx, d.manifest, tree)
	release()
	if err != nil || len(wrong) == 0 {
		return wrong, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return wrong, err
	}
	defer unlock()
	if _, err := s.remove(hex); err != nil {
		return wrong, fmt.Errorf("remove data set: %w", err)
	}
	for _, id := range ids {
		_ = os.Remove(s.file(id))
	}
	return wrong, nil
}

// compare names what of a tree differs from its manifest, and the stored files of that.
func compare(ctx context.Context, m *Manifest, tree string) (wrong, ids []string, err error) {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return nil, nil, fmt.Errorf("open data set: %w", err)
	}
	defer root.Close()
	for _, x := range m.Files {
		if x.Link != "" {
			if to, err := root.Readlink(x.Path); err != nil || to != x.Link {
				wrong = append(wrong, x.Path)
			}
			continue
		}
		got, err := sumFile(ctx, root, x.Path)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil || got.id() != x.id() {
			wrong, ids = append(wrong, x.Path), append(ids, x.id())
		}
	}
	return wrong, ids, nil
}

// Export writes a data set as a directory that can be published: behind any web
// server as https://…, or as dir:DIR. dir must not exist.
func (s *Store) Export(ctx context.Context, d *Dataset, dir string) (err error) {
	tree, release, err := s.hold(strings.TrimPrefix(d.Digest, "sha256:"))
	if err != nil {
		return err
	}
	defer release()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("export data set: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	for _, f := range d.manifest.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := filepath.Join(dir, filesName, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(path.Dir(to), 0o755); err != nil {
			return fmt.Errorf("export data set: %w", err)
		}
		if f.Link != "" {
			err = os.Symlink(f.Link, to)
		} else {
			err = copyFile(filepath.Join(tree, filepath.FromSlash(f.Path)), to)
		}
		if err != nil {
			return fmt.Errorf("export data set: %w", err)
		}
	}
	return writeFile(filepath.Join(dir, manifestName), d.manifest.canonical())
}
