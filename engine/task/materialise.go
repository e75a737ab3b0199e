package task

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

// ErrChanged is returned when a task's files are no longer what Load read.
var ErrChanged = errors.New("task changed since it was loaded")

// Materialise writes t's complete tree, links and modes included, to dst,
// which must not exist. dst appears at once and whole, or not at all.
// Loading it again gives the same digest.
func Materialise(t *Task, dst string) error {
	if _, err := os.Lstat(dst); err == nil {
		return fmt.Errorf("materialise task %s: %w: %s", t.Key, fs.ErrExist, dst)
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return fmt.Errorf("materialise task %s: %w", t.Key, err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dst), ".task-*")
	if err != nil {
		return fmt.Errorf("materialise task %s: %w", t.Key, err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := t.write(tmp); err != nil {
		return fmt.Errorf("materialise task %s: %w", t.Key, err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("materialise task %s: %w", t.Key, err)
	}
	if err := os.Rename(tmp, dst); err != nil {
		return fmt.Errorf("materialise task %s: %w", t.Key, err)
	}
	return nil
}

// write puts the files into dir. Links come last, so that no file is written through one.
func (t *Task) write(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, f := range t.files {
		if f.mode == blob.ModeLink {
			continue
		}
		b, err := readLimited(t.fsys, f.path, MaxFile)
		if err != nil {
			return err
		}
		if agon.Sum(b) != f.digest {
			return fmt.Errorf("%w: %s", ErrChanged, f.path)
		}
		if err := writeFile(root, f.path, b, f.mode); err != nil {
			return err
		}
	}
	for _, f := range t.files {
		if f.mode != blob.ModeLink {
			continue
		}
		if err := root.MkdirAll(path.Dir(f.path), 0o755); err != nil {
			return err
		}
		if err := root.Symlink(f.target, f.path); err != nil {
			return err
		}
	}
	return nil
}

// writeFile creates one file with its directories, modes independent of the umask.
func writeFile(root *os.Root, name string, b []byte, mode string) error {
	perm := fs.FileMode(0o644)
	if mode == blob.ModeExec {
		perm = 0o755
	}
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Chmod(perm); err != nil {
		return err
	}
	return f.Close()
}
