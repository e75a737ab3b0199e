// Package fs is a blob.Store on a folder: one file per blob, named by its
// sha256, spread over 256 directories.
package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

// DefaultMaxBytes bounds one blob unless Options say otherwise.
const DefaultMaxBytes = 64 << 20

// tempDir holds files that are being written; Open empties it.
const tempDir = "tmp"

// dirs is how many directories blobs are spread over, by their first byte.
const dirs = 256

func prefix(i int) string { return fmt.Sprintf("%02x", i) }

// Options tune a Store. The zero value is useful.
type Options struct {
	// MaxBytes bounds one blob, on Put and on Get; 0 means DefaultMaxBytes.
	MaxBytes int64
	// Cache is for bytes that can be had again: writes are atomic but do not
	// wait for the disk. What a crash tore is found by its digest on Get.
	Cache bool
	// Quota bounds all blobs of a Cache together, in bytes on the disk: the
	// oldest are removed, and Get says ErrNotFound of them; 0 means no bound.
	Quota int64
	// Beside opens the folder of a process that may be at work: its temporary files and
	// journals are left alone.
	Beside bool
}

// Store keeps blobs below one directory. One process at a time should own the
// directory; others open it with Options.Beside: Open removes the temporary files of
// the others.
type Store struct {
	dir   string
	max   int64
	cache bool
	// locks serialise writers of the same digest by its first byte, so that a
	// second Put of the same bytes does not return before the first is durable.
	locks [256]sync.Mutex
	// journal makes small blobs durable; nil: each is synced on its own.
	journal *journal
	quota   *quota // nil: no bound
}

var _ blob.Store = (*Store)(nil)

// Open makes dir if it is missing and returns the store in it.
func Open(dir string, o Options) (*Store, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Quota != 0 && (!o.Cache || o.Quota < 0) {
		return nil, fmt.Errorf("open blob folder: a quota of %d bytes: only a cache takes one, above 0", o.Quota)
	}
	s := &Store{dir: dir, max: o.MaxBytes, cache: o.Cache}
	if o.Beside {
		return s, os.MkdirAll(filepath.Join(dir, tempDir), 0o700)
	}
	tmp := filepath.Join(dir, tempDir)
	if err := os.RemoveAll(tmp); err != nil {
		return nil, fmt.Errorf("clear %s: %w", tmp, err)
	}
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, fmt.Errorf("make blob folder: %w", err)
	}
	if o.Cache {
		if o.Quota > 0 {
			s.quota = &quota{limit: o.Quota}
			if err := s.quota.count(s); err != nil {
				return nil, err
			}
		}
		return s, s.syncDir(dir)
	}
	logs := filepath.Join(dir, journalDir)
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, fmt.Errorf("make blob folder: %w", err)
	}
	if err := errors.Join(s.syncDir(dir), s.recover(logs), s.takeBack()); err != nil {
		return nil, err
	}
	s.journal = &journal{dir: logs, maxBytes: journalBytes, maxCount: journalCount}
	return s, nil
}

func (s *Store) path(d agon.Digest) string {
	h := d.Hex()
	return filepath.Join(s.dir, h[:2], h[2:])
}

// Put stores b. It returns after the bytes and their name are on disk. Bytes
// that were damaged on disk are replaced.
func (s *Store) Put(ctx context.Context, b []byte) (agon.Digest, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if int64(len(b)) > s.max {
		return "", fmt.Errorf("put blob: %w: %d bytes, limit %d bytes", blob.ErrTooLarge, len(b), s.max)
	}
	d := agon.Sum(b)
	var n int
	if _, err := fmt.Sscanf(d.Hex()[:2], "%02x", &n); err != nil {
		return "", fmt.Errorf("put blob: %w", err)
	}
	s.locks[n].Lock()
	defer s.locks[n].Unlock()

	path := s.path(d)
	if old, err := s.read(path); err == nil && bytes.Equal(old, b) {
		if s.cache { // its quota removes by age
			return d, nil
		}
		err := renew(path)
		if err == nil {
			// The name may have been written by a process that died before it
			// made the directory durable.
			return d, s.syncDir(filepath.Dir(path))
		}
		if !errors.Is(err, iofs.ErrNotExist) {
			return "", fmt.Errorf("put blob %s: %w", d, err)
		}
	}
	if err := s.store(path, d, b); err != nil {
		return "", fmt.Errorf("put blob %s: %w: %w", d, blob.ErrAway, err)
	}
	return d, nil
}

// store writes a blob that is not there yet, or not whole.
func (s *Store) store(path string, d agon.Digest, b []byte) error {
	if err := s.makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if s.journal == nil || len(b) > smallBlob {
		if err := s.writeFile(path, b, !s.cache); err != nil || s.quota == nil {
			return err
		}
		return s.quota.add(s, int64(len(b)))
	}
	log, full, err := s.journal.add(d, b)
	if err != nil {
		return err
	}
	err = s.writeFile(path, b, false)
	log.users.Done()
	if full {
		// The blob is durable as it is: a file that stays is read again by Open.
		_ = log.retire(s.dir)
	}
	return err
}

// makeDir makes one of the 256 directories, durably, when it is first needed.
func (s *Store) makeDir(dir string) error {
	switch err := os.Mkdir(dir, 0o700); {
	case errors.Is(err, iofs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return s.syncDir(s.dir)
}

// writeFile is the atomic recipe: temporary file, fsync, rename, fsync of the
// directory; without the syncs where durable is false.
func (s *Store) writeFile(path string, b []byte, durable bool) (err error) {
	f, err := os.CreateTemp(filepath.Join(s.dir, tempDir), "put-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(0o400)
	}
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil || !durable {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func ignoreMissing(err error) error {
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Store) syncDir(dir string) error {
	if s.cache {
		return nil
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// read returns the bytes of a stored file, within the limit.
func (s *Store) read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, s.max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > s.max {
		return nil, fmt.Errorf("%w: limit %d bytes", blob.ErrTooLarge, s.max)
	}
	return b, nil
}

// Get returns the bytes of d, verified.
func (s *Store) Get(ctx context.Context, d agon.Digest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	b, err := s.read(s.path(d))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, fmt.Errorf("get blob %s: %w", d, blob.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", d, err)
	}
	if agon.Sum(b) != d {
		return nil, fmt.Errorf("get blob %s: %w", d, blob.ErrCorrupt)
	}
	return b, nil
}

// Has reports whether d is stored. It does not read the bytes.
func (s *Store) Has(ctx context.Context, d agon.Digest) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := d.Validate(); err != nil {
		return false, err
	}
	fi, err := os.Lstat(s.path(d))
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("stat blob %s: %w", d, err)
	}
	return fi.Mode().IsRegular(), nil
}

// Each calls fn for every stored digest, in order. It serves checks and
// collection of what nothing refers to.
func (s *Store) Each(ctx context.Context, fn func(agon.Digest) error) error {
	return s.each(ctx, func(d agon.Digest, _ iofs.DirEntry) error { return fn(d) })
}

func (s *Store) each(ctx context.Context, fn func(agon.Digest, iofs.DirEntry) error) error {
	for i := range dirs {
		if err := s.eachOf(ctx, i, fn); err != nil {
			return err
		}
	}
	return nil
}

// eachOf is each of one directory.
func (s *Store) eachOf(ctx context.Context, i int, fn func(agon.Digest, iofs.DirEntry) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, prefix(i)))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list blobs: %w", err)
	}
	for _, e := range entries {
		d := agon.Digest(agon.DigestPrefix + prefix(i) + e.Name())
		if d.Validate() != nil || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := fn(d, e); err != nil {
			return err
		}
	}
	return nil
}
