package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
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
	return s.eachAtOnce(ctx, func(d agon.Digest, e iofs.DirEntry) error {
		fi, err := e.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		one.Lock()
		defer one.Unlock()
		return fn(blob.Kept{Digest: d, Bytes: fi.Size(), At: fi.ModTime()})
	})
}

// eachAtOnce is each without an order: fn is called for several blobs at once.
func (s *Store) eachAtOnce(ctx context.Context, fn func(agon.Digest, iofs.DirEntry) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range dirs {
		g.Go(func() error { return s.eachOf(ctx, i, fn) })
	}
	return g.Wait()
}

// goneName begins the names of blobs that Sweep has moved out of the way.
const goneName = ".gone-"

// Sweep implements blob.Collector. A blob is moved out of the way, looked at, and
// moved back if it was put again in between: so a Put in any process either
// renews the file before it moves, or finds none and writes it anew. Files are
// removed without waiting for the disk: what a crash brings back is swept again.
func (s *Store) Sweep(ctx context.Context, before time.Time, garbage func(agon.Digest) bool, swept func(blob.Kept)) error {
	mark, err := os.CreateTemp(s.dir, sweepName+"*")
	if err != nil {
		return fmt.Errorf("sweep blobs: %w", err)
	}
	defer mark.Close()
	if ok, err := lockFile(mark); err != nil || !ok {
		return errors.Join(fmt.Errorf("sweep blobs: cannot lock %s", mark.Name()), err)
	}
	var one sync.Mutex
	err = s.eachAtOnce(ctx, func(d agon.Digest, e iofs.DirEntry) error {
		one.Lock()
		old := garbage(d)
		one.Unlock()
		if !old {
			return nil
		}
		k, err := s.sweepOne(d, e, before)
		if err != nil {
			return fmt.Errorf("sweep blob %s: %w", d, err)
		}
		if k != nil {
			one.Lock()
			defer one.Unlock()
			swept(*k)
		}
		return nil
	})
	if err != nil {
		return err // the next Open takes back what lies around
	}
	return os.Remove(mark.Name())
}

// sweepOne removes a blob that was last put before a time; nil: it stays.
func (s *Store) sweepOne(d agon.Digest, e iofs.DirEntry, before time.Time) (*blob.Kept, error) {
	fi, err := e.Info()
	if err != nil {
		return nil, ignoreMissing(err)
	}
	if !fi.ModTime().Before(before) {
		return nil, nil
	}
	path := s.path(d)
	away := filepath.Join(filepath.Dir(path), goneName+filepath.Base(path))
	if err := os.Rename(path, away); err != nil {
		return nil, ignoreMissing(err)
	}
	if fi, err = os.Lstat(away); err != nil { // missing: a server that starts has taken it back
		return nil, ignoreMissing(err)
	}
	if !fi.ModTime().Before(before) {
		// Whoever wrote it anew meanwhile wrote the same bytes.
		return nil, ignoreMissing(os.Rename(away, path))
	}
	if err := os.Remove(away); err != nil {
		return nil, ignoreMissing(err)
	}
	return &blob.Kept{Digest: d, Bytes: fi.Size(), At: fi.ModTime()}, nil
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
