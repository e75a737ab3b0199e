package datasets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Bounds of a data set.
const (
	ChunkBytes  = 8 << 20   // of a file, each with a digest; the last one of a file may be shorter
	MaxBytes    = 128 << 30 // all files together
	MaxFiles    = 200_000   // with links
	maxManifest = 64 << 20  // bytes
	maxPath     = 1024      // bytes
	maxDepth    = 64        // directories of a path
	maxLicence  = 200       // bytes
)

// manifestVersion is that of the form below.
const manifestVersion = 1

// Manifest says what a data set holds. Its one form is that of canonical; the
// SHA-256 of those bytes names the data set.
type Manifest struct {
	Version int    `json:"agon_dataset"`
	Chunk   int64  `json:"chunk"` // ChunkBytes
	Licence string `json:"licence,omitempty"`
	Files   []File `json:"files"` // by path
}

// File is one file or link.
type File struct {
	Path   string   `json:"path"`
	Size   int64    `json:"size,omitempty"`
	Exec   bool     `json:"exec,omitempty"`
	Chunks []string `json:"chunks,omitempty"` // SHA-256 of each, hex
	// Link is where a link leads, relative to where it stands and never out of the data set.
	Link string `json:"link,omitempty"`
}

func (m *Manifest) canonical() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(m) // strings and numbers
	return b.Bytes()
}

func (m *Manifest) bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

func hexOf(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// parseManifest reads the manifest of which want is the digest, in hex.
func parseManifest(b []byte, want string) (*Manifest, error) {
	if hexOf(b) != want {
		return nil, bad("the manifest is not the one that sha256:%s names", want)
	}
	m := &Manifest{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, bad("its manifest: %v", err)
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	if !bytes.Equal(b, m.canonical()) {
		return nil, bad("its manifest is not in its one form")
	}
	return m, nil
}

// check says what is wrong with a manifest.
func (m *Manifest) check() error {
	switch {
	case m.Version != manifestVersion:
		return bad("its manifest is of version %d, this agon reads %d", m.Version, manifestVersion)
	case m.Chunk != ChunkBytes:
		return bad("its chunks have %d bytes, want %d", m.Chunk, ChunkBytes)
	case len(m.Files) == 0:
		return bad("it has no file")
	case len(m.Files) > MaxFiles:
		return bad("it has %d files, at most %d", len(m.Files), MaxFiles)
	case len(m.Licence) > maxLicence || strings.ContainsFunc(m.Licence, func(c rune) bool { return c < ' ' || c == utf8.RuneError }):
		return bad("its licence: want a line of at most %d bytes", maxLicence)
	}
	var sum int64
	kinds := map[string]bool{} // true: a file or a link
	for i, f := range m.Files {
		if err := checkPath(f.Path); err != nil {
			return err
		}
		if i > 0 && m.Files[i-1].Path >= f.Path {
			return bad("its files are not sorted: %.200q", f.Path)
		}
		for d := path.Dir(f.Path); d != "."; d = path.Dir(d) {
			if kinds[d] {
				return bad("%.200q is a file and a directory", d)
			}
			if known, ok := kinds[d]; ok && !known {
				break
			}
			kinds[d] = false
		}
		if _, ok := kinds[f.Path]; ok {
			return bad("%.200q is a file and a directory", f.Path)
		}
		kinds[f.Path] = true
		if f.Link != "" {
			if f.Size != 0 || f.Exec || len(f.Chunks) > 0 {
				return bad("%.200q is a link and a file", f.Path)
			}
			if err := checkLink(f.Path, f.Link); err != nil {
				return err
			}
			continue
		}
		if f.Size < 0 || f.Size > MaxBytes || sum > MaxBytes-f.Size {
			return bad("it has more than %d bytes", int64(MaxBytes))
		}
		sum += f.Size
		if n := (f.Size + ChunkBytes - 1) / ChunkBytes; int64(len(f.Chunks)) != n {
			return bad("%.200q of %d bytes has %d chunks, want %d", f.Path, f.Size, len(f.Chunks), n)
		}
		for _, c := range f.Chunks {
			if !digestForm().MatchString("sha256:" + c) {
				return bad("%.200q: %.100q is not the digest of a chunk", f.Path, c)
			}
		}
	}
	return nil
}

func checkPath(p string) error {
	if p == "" || len(p) > maxPath || p == "." || path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") || strings.Count(p, "/") >= maxDepth || !utf8.ValidString(p) || strings.ContainsFunc(p, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return bad("%.200q is not a path of a file in it", p)
	}
	return nil
}

// checkLink demands that a link stays inside: it goes up first, from where it
// really stands, and then only down, by way of links of which the same is true.
func checkLink(at, to string) error {
	rest, up := to, 0
	for strings.HasPrefix(rest, "../") {
		rest, up = rest[3:], up+1
	}
	if up > strings.Count(at, "/") || checkPath(rest) != nil {
		return bad("the link %.200q leads to %.200q: want a relative path that stays inside", at, to)
	}
	return nil
}

// id names the stored bytes of a file, which data sets share.
func (f File) id() string {
	return hexOf([]byte(strconv.FormatInt(f.Size, 10) + "\n" + strconv.FormatBool(f.Exec) + "\n" + strings.Join(f.Chunks, "\n")))
}

// span is where chunk i of a file lies.
func (f File) span(i int) (from, n int64) {
	from = int64(i) * ChunkBytes
	return from, min(ChunkBytes, f.Size-from)
}

var zeroChunk = sync.OnceValue(func() string { return hexOf(make([]byte, ChunkBytes)) })

// manifestOf reads the files of a directory, or one file.
func manifestOf(ctx context.Context, at, licence string) (*Manifest, *os.Root, error) {
	fi, err := os.Stat(at)
	if err != nil {
		return nil, nil, bad("%v", err)
	}
	m := &Manifest{Version: manifestVersion, Chunk: ChunkBytes, Licence: licence, Files: []File{}}
	top, only := at, ""
	if !fi.IsDir() {
		top, only = path.Dir(at), path.Base(at)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", at, err)
	}
	if only != "" {
		f, err := sumFile(ctx, root, only)
		m.Files = []File{f}
		err = errors.Join(err, m.check())
		return m, root, err
	}
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case len(m.Files) >= MaxFiles:
			return bad("it has more than %d files", MaxFiles)
		case d.Type()&fs.ModeSymlink != 0:
			to, err := root.Readlink(p)
			if err != nil {
				return err
			}
			m.Files = append(m.Files, File{Path: p, Link: to})
			return checkLink(p, to)
		}
		f, err := sumFile(ctx, root, p)
		m.Files = append(m.Files, f)
		return err
	})
	if err != nil {
		_ = root.Close()
		return nil, nil, err
	}
	sortFiles(m.Files)
	if err := m.check(); err != nil {
		_ = root.Close()
		return nil, nil, err
	}
	return m, root, nil
}

// openRegular opens a regular file without waiting for one that is not.
func openRegular(root *os.Root, p string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(p, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = bad("%.200q is neither a file, a directory nor a link", p)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

func sumFile(ctx context.Context, root *os.Root, p string) (File, error) {
	f, fi, err := openRegular(root, p)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	out := File{Path: p, Size: fi.Size(), Exec: fi.Mode()&0o111 != 0}
	if out.Size > MaxBytes {
		return out, bad("%.200q has %d bytes, at most %d", p, out.Size, int64(MaxBytes))
	}
	buf := make([]byte, min(ChunkBytes, out.Size))
	for i := 0; int64(i)*ChunkBytes < out.Size; i++ {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		sum, err := sumChunk(f, out, i, buf)
		if err != nil {
			return out, fmt.Errorf("read %s: %w", p, err)
		}
		out.Chunks = append(out.Chunks, sum)
	}
	return out, nil
}

// sumChunk is the digest of chunk i as it stands in f; holes are not read.
func sumChunk(f *os.File, x File, i int, buf []byte) (string, error) {
	from, n := x.span(i)
	if n == ChunkBytes {
		if at, err := unix.Seek(int(f.Fd()), from, unix.SEEK_DATA); err != nil && errors.Is(err, unix.ENXIO) || err == nil && at >= from+n {
			return zeroChunk(), nil
		}
	}
	if _, err := io.ReadFull(io.NewSectionReader(f, from, n), buf[:n]); err != nil {
		return "", err
	}
	return hexOf(buf[:n]), nil
}
