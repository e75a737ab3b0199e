// Package tree removes directory trees that hostile code may have made and that
// may still hold mounts: it never crosses into a mount, not even a bind mount of
// the same file system, which os.RemoveAll and rm --one-file-system would empty.
package tree

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrMounted is returned when a mount point is met. What lies in it is untouched.
var ErrMounted = errors.New("a mount is in the way")

// maxDepth is how deep descriptors are held; deeper directories are moved up.
const maxDepth = 32

// Remove removes dir and everything below it. Nothing is not an error. Directories
// without permissions and of any depth are removed; a mount stops it with ErrMounted.
// Nobody else may change the tree meanwhile.
func Remove(dir string) error {
	dir = filepath.Clean(dir)
	base := filepath.Base(dir)
	if !filepath.IsAbs(dir) || base == "/" {
		return fmt.Errorf("remove %q: not an absolute path below the root", dir)
	}
	parent, err := unix.Open(filepath.Dir(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	defer func() { _ = unix.Close(parent) }()
	r := &remover{top: -1}
	if err := r.remove(parent, base, 0); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

type remover struct {
	top   int // descriptor of the tree
	moved int
}

// open opens a directory that is not a mount point.
func open(parent int, name string) (int, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	}
	fd, err := unix.Openat2(parent, name, how)
	if errors.Is(err, unix.EACCES) {
		// A directory that its owner shut.
		if err = unix.Fchmodat(parent, name, 0o700, 0); err == nil {
			fd, err = unix.Openat2(parent, name, how)
		}
	}
	if errors.Is(err, unix.EXDEV) {
		err = fmt.Errorf("%s: %w", name, ErrMounted)
	}
	return fd, err
}

func (r *remover) remove(parent int, name string, depth int) error {
	var st unix.Stat_t
	err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return gone(unlink(parent, name, 0))
	}
	if depth >= maxDepth {
		r.moved++
		return unix.Renameat(parent, name, r.top, fmt.Sprintf(".moved-%d", r.moved))
	}
	fd, err := open(parent, name)
	if err != nil {
		return gone(err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() { _ = f.Close() }()
	if depth == 0 {
		r.top = fd
	}
	if unix.Fstat(fd, &st) == nil && st.Mode&0o300 != 0o300 {
		_ = unix.Fchmod(fd, 0o700)
	}
	for {
		names, err := f.Readdirnames(512)
		for _, n := range names {
			if err := r.remove(fd, n, depth+1); err != nil {
				return err
			}
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, unix.ENOENT) { // removed by another sweep
			return err
		}
		// Entries may have been passed over while others went, or moved here.
		switch err := unlink(parent, name, unix.AT_REMOVEDIR); {
		case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return err
			}
		default:
			return gone(err)
		}
	}
}

// unlink calls a busy entry what it is: a mount point.
func unlink(parent int, name string, flags int) error {
	err := unix.Unlinkat(parent, name, flags)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%s: %w", name, ErrMounted)
	}
	return err
}

func gone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
