package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"time"

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

// List implements blob.Collector.
func (s *Store) List(ctx context.Context, fn func(blob.Kept) error) error {
	return s.each(ctx, func(d agon.Digest, e iofs.DirEntry) error {
		fi, err := e.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		return fn(blob.Kept{Digest: d, Bytes: fi.Size(), At: fi.ModTime()})
	})
}

// Sweep implements blob.Collector. A blob is moved out of the way, looked at, and
// moved back if it was put again in between: so a Put in any process either
// renews the file before it moves, or finds none and writes it anew. Files are
// removed without waiting for the disk: what a crash brings back is swept again.
func (s *Store) Sweep(ctx context.Context, before time.Time, garbage func(agon.Digest) bool, swept func(blob.Kept)) error {
	if err := os.MkdirAll(filepath.Join(s.dir, sweptDir), 0o700); err != nil {
		return fmt.Errorf("sweep blobs: %w", err)
	}
	return s.each(ctx, func(d agon.Digest, e iofs.DirEntry) error {
		if !garbage(d) {
			return nil
		}
		fi, err := e.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		if !fi.ModTime().Before(before) {
			return nil
		}
		path, away := s.path(d), filepath.Join(s.dir, sweptDir, d.Hex())
		if err := os.Rename(path, away); err != nil {
			if errors.Is(err, iofs.ErrNotExist) {
				return nil
			}
			return fmt.Errorf("sweep blob %s: %w", d, err)
		}
		if fi, err = os.Lstat(away); err != nil { // missing: a server that starts has taken it back
			return ignoreMissing(err)
		}
		if !fi.ModTime().Before(before) {
			// Whoever wrote it anew meanwhile wrote the same bytes.
			if err := ignoreMissing(os.Rename(away, path)); err != nil {
				return fmt.Errorf("sweep blob %s: put it back: %w", d, err)
			}
			return nil
		}
		if err := os.Remove(away); err != nil {
			return ignoreMissing(err)
		}
		swept(blob.Kept{Digest: d, Bytes: fi.Size(), At: fi.ModTime()})
		return nil
	})
}

// takeBack moves back what a Sweep was looking at when it was killed: the blob may
// have been put again right before it was moved.
func (s *Store) takeBack() error {
	dir := filepath.Join(s.dir, sweptDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take back blobs: %w", err)
	}
	for _, e := range entries {
		d := agon.Digest(agon.DigestPrefix + e.Name())
		if d.Validate() != nil {
			continue
		}
		if err := ignoreMissing(os.Rename(filepath.Join(dir, e.Name()), s.path(d))); err != nil {
			return fmt.Errorf("take back blob %s: %w", d, err)
		}
	}
	return nil
}
