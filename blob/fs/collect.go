package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

var _ blob.Collector = (*Store)(nil)

// renew makes a stored blob look as if it was put now. A file that Sweep took
// away meanwhile is not found.
func renew(path string) error {
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, now, unix.AT_SYMLINK_NOFOLLOW)
}

// atOnce is how many of the 256 directories are listed or swept at once.
const atOnce = 4

// List implements blob.Collector.
func (s *Store) List(ctx context.Context, fn func(blob.Kept) error) error {
	var one sync.Mutex
	return s.eachDir(ctx, func(_ *os.File, list []blob.Kept) error {
		one.Lock()
		defer one.Unlock()
		for _, k := range list {
			if err := fn(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachDir calls fn with each of the directories and its blobs, for some of them at once.
func (s *Store) eachDir(ctx context.Context, fn func(*os.File, []blob.Kept) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range dirs {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			dir, err := os.Open(filepath.Join(s.dir, prefix(i)))
			if err != nil {
				return ignoreMissing(err)
			}
			defer dir.Close()
			list, err := keptIn(dir, prefix(i))
			if err != nil {
				return fmt.Errorf("list blobs: %w", err)
			}
			return fn(dir, list)
		})
	}
	return g.Wait()
}

// keptIn lists the blobs of a directory.
func keptIn(dir *os.File, prefix string) ([]blob.Kept, error) {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	list := make([]blob.Kept, 0, len(names))
	for _, name := range names {
		d := agon.Digest(agon.DigestPrefix + prefix + name)
		if name[0] == '.' || d.Validate() != nil {
			continue
		}
		k, err := look(dir, name)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			k.Digest = d
			list = append(list, k)
		}
	}
	return list, nil
}

// look tells how large a file of a directory is, and when it was written.
func look(dir *os.File, name string) (k blob.Kept, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return k, &iofs.PathError{Op: "stat", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return blob.Kept{Bytes: st.Size, At: time.Unix(st.Mtim.Unix())}, nil
}

// goneName begins the names of blobs that Sweep has moved out of the way.
const goneName = ".gone-"

// Sweep implements blob.Collector. A blob is moved out of the way, looked at, and
// moved back if it was put again in between: so a Put in any process either
// renews the file before it moves, or finds none and writes it anew. Files are
// removed without waiting for the disk: what a crash brings back is swept again.
func (s *Store) Sweep(ctx context.Context, before time.Time, garbage func(blob.Kept) bool, swept func(blob.Kept)) error {
	mark, err := os.CreateTemp(s.dir, sweepName+"*")
	if err != nil {
		return fmt.Errorf("sweep blobs: %w", err)
	}
	defer mark.Close()
	if ok, err := lockFile(mark); err != nil || !ok {
		return errors.Join(fmt.Errorf("sweep blobs: cannot lock %s", mark.Name()), err)
	}
	var one sync.Mutex
	err = s.eachDir(ctx, func(dir *os.File, list []blob.Kept) error {
		one.Lock()
		list = slices.DeleteFunc(list, func(k blob.Kept) bool { return !garbage(k) || !k.At.Before(before) })
		one.Unlock()
		for _, k := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			gone, err := sweepOne(dir, k.Digest, before)
			if err != nil {
				return fmt.Errorf("sweep blob %s: %w", k.Digest, err)
			}
			if gone {
				one.Lock()
				swept(k)
				one.Unlock()
			}
		}
		return nil
	})
	if err != nil {
		return err // the next Open takes back what lies around
	}
	return os.Remove(mark.Name())
}

// sweepOne removes a blob of a directory that was last put before a time; false: it stays.
func sweepOne(dir *os.File, d agon.Digest, before time.Time) (bool, error) {
	fd, name := int(dir.Fd()), d.Hex()[2:]
	away := goneName + name
	if err := unix.Renameat(fd, name, fd, away); err != nil {
		return false, ignoreMissing(err)
	}
	k, err := look(dir, away)
	if err != nil { // missing: a server that starts has taken it back
		return false, ignoreMissing(err)
	}
	if !k.At.Before(before) {
		// Whoever wrote it anew meanwhile wrote the same bytes.
		return false, ignoreMissing(unix.Renameat(fd, away, fd, name))
	}
	if err := unix.Unlinkat(fd, away, 0); err != nil {
		return false, ignoreMissing(err)
	}
	return true, nil
}

// sweepName begins the names of files that a Sweep holds locked.
const sweepName = "sweep-"

// takeBack moves back what a Sweep was looking at when it was killed: the blob may
// have been put again right before it was moved.
func (s *Store) takeBack() error {
	marks, err := filepath.Glob(filepath.Join(s.dir, sweepName+"*"))
	if err != nil || len(marks) == 0 {
		return err
	}
	for i := range dirs {
		dir := filepath.Join(s.dir, prefix(i))
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return fmt.Errorf("take back blobs: %w", err)
		}
		for _, e := range entries {
			if name, ok := strings.CutPrefix(e.Name(), goneName); ok {
				if err := ignoreMissing(os.Rename(filepath.Join(dir, e.Name()), filepath.Join(dir, name))); err != nil {
					return fmt.Errorf("take back a blob: %w", err)
				}
			}
		}
	}
	for _, name := range marks {
		if err := removeUnheld(name); err != nil {
			return fmt.Errorf("take back blobs: %w", err)
		}
	}
	return nil
}

// removeUnheld removes a file whose process is dead.
func removeUnheld(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return ignoreMissing(err)
	}
	defer f.Close()
	if ok, err := lockFile(f); err != nil || !ok {
		return err
	}
	return ignoreMissing(os.Remove(name))
}
