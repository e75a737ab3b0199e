package rootfs

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Bounds of an unpacked tree, all layers together.
const (
	maxTreeBytes   = 4 << 30
	maxTreeEntries = 400_000
	maxLayers      = 128
	maxDepth       = 128 // directories of a path
)

// ErrTooLarge is returned when an image passes a bound.
var ErrTooLarge = errors.New("image too large")

// budget is what may still be unpacked.
type budget struct{ bytes, entries, maxBytes, maxEntries int64 }

func newBudget() *budget { return bounded(maxTreeBytes, maxTreeEntries) }

func bounded(bytes, entries int64) *budget { return &budget{bytes, entries, bytes, entries} }

// flatten unpacks so many layers, each a plain archive, over one another into
// dir, which must not exist. Files get this process's owner; set-id bits,
// devices, sockets and FIFOs are left out. Nothing is written outside dir,
// whatever the layers say. On error dir may be partly filled: the caller removes it.
func flatten(n int, open func(i int) (io.ReadCloser, error), dir string, b *budget) error {
	if n > maxLayers {
		return fmt.Errorf("%w: %d layers, at most %d", ErrTooLarge, n, maxLayers)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for i := range n {
		rc, err := open(i)
		if err != nil {
			return fmt.Errorf("open layer %d: %w", i, err)
		}
		err = unpack(root, rc, b, map[string]bool{})
		if cerr := rc.Close(); err == nil {
			err = cerr // a layer that is not what its digest says
		}
		if err != nil {
			return fmt.Errorf("unpack layer %d: %w", i, err)
		}
	}
	return nil
}

// Unpack writes an archive of at most so many bytes and entries into dir, which
// exists. Nothing is written outside of it; devices, FIFOs and set-id bits are left out.
func Unpack(dir string, r io.Reader, bytes, entries int64) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return unpack(root, r, bounded(bytes, entries), nil)
}

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// unpack writes one tar stream below root. made, when not nil, turns OCI
// whiteouts on and holds the paths that this layer made itself, which an
// opaque mark must not remove.
func unpack(root *os.Root, r io.Reader, b *budget, made map[string]bool) error {
	tr := tar.NewReader(io.LimitReader(r, b.maxBytes+b.maxEntries*1024))
	var dirs []*tar.Header // modes are set last: a directory may be read-only
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if b.entries--; b.entries < 0 {
			return fmt.Errorf("%w: more than %d entries", ErrTooLarge, b.maxEntries)
		}
		p := path.Clean(strings.TrimLeft(h.Name, "/"))
		if p == "." {
			continue
		}
		if !filepath.IsLocal(p) || strings.ContainsRune(p, 0) {
			return fmt.Errorf("archive entry %.200q leaves the tree", h.Name)
		}
		if strings.Count(p, "/") >= maxDepth {
			return fmt.Errorf("%w: %.200q lies more than %d directories deep", ErrTooLarge, h.Name, maxDepth)
		}
		dir, base := path.Split(p)
		dir = path.Clean(dir)
		if made != nil && strings.HasPrefix(base, whiteout) {
			if err := erase(root, dir, base, made); err != nil {
				return fmt.Errorf("apply whiteout %.200q: %w", p, bare(err))
			}
			continue
		}
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make %.200q: %w", dir, bare(err))
		}
		if made != nil {
			for q := p; q != "."; q = path.Dir(q) {
				made[q] = true
			}
		}
		h.Name = p
		if h.Typeflag == tar.TypeDir {
			dirs = append(dirs, h)
		}
		if err := unpackOne(root, tr, h, b); err != nil {
			return fmt.Errorf("unpack %.200q: %w", p, bare(err))
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		err := root.Chmod(dirs[i].Name, dirs[i].FileInfo().Mode()&(fs.ModePerm|fs.ModeSticky)|0o500)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// bare is an error of the file system without its paths, which hostile archives choose.
func bare(err error) error {
	var link *os.LinkError
	var at *fs.PathError
	switch {
	case errors.As(err, &link):
		return fmt.Errorf("%s: %w", link.Op, link.Err)
	case errors.As(err, &at):
		return fmt.Errorf("%s: %w", at.Op, at.Err)
	}
	return err
}

func unpackOne(root *os.Root, r io.Reader, h *tar.Header, b *budget) error {
	old, err := root.Lstat(h.Name)
	exists := err == nil
	if h.Typeflag == tar.TypeDir {
		if exists && old.IsDir() {
			return nil
		}
		if exists {
			if err := root.Remove(h.Name); err != nil {
				return err
			}
		}
		return root.Mkdir(h.Name, 0o755)
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeSymlink, tar.TypeLink:
	default: // devices, FIFOs and the like have no place in a box's root
		return nil
	}
	if exists {
		if err := root.RemoveAll(h.Name); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, h.Name)
	case tar.TypeLink:
		to := path.Clean(strings.TrimLeft(h.Linkname, "/"))
		if !filepath.IsLocal(to) {
			return fmt.Errorf("hard link to %.200q leaves the tree", h.Linkname)
		}
		return root.Link(to, h.Name)
	}
	if h.Size > b.bytes {
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.maxBytes)
	}
	b.bytes -= h.Size
	f, err := root.OpenFile(h.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Chmod(h.FileInfo().Mode()&fs.ModePerm | 0o400)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if t := h.ModTime; err == nil && t.Unix() > 0 {
		// Byte code is taken for old where the time of its source has changed.
		err = root.Chtimes(h.Name, t, t)
	}
	return err
}

// erase applies one whiteout mark to what lower layers made.
func erase(root *os.Root, dir, base string, made map[string]bool) error {
	if base != opaque {
		p := path.Join(dir, strings.TrimPrefix(base, whiteout))
		if !filepath.IsLocal(p) || p == "." || p == dir {
			return fmt.Errorf("whiteout %.200q leaves the tree", path.Join(dir, base))
		}
		if err := root.RemoveAll(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f, err := root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	_ = f.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		if p := path.Join(dir, n); !made[p] {
			if err := root.RemoveAll(p); err != nil {
				return err
			}
		}
	}
	return nil
}
