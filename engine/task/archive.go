package task

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// MaxArchive is the most bytes of a source distribution as it is published.
const MaxArchive = 20 << 20

// errArchive marks a source distribution that is not what one may be.
var errArchive = errors.New("bad source distribution")

// Unpack reads a published archive of an index (see unpackSdist).
func Unpack(index, pkg, version string, b []byte) (map[string][]byte, error) {
	top := ""
	if index == "go" {
		top = pkg + "@" + version
	}
	return unpack(b, top, MaxFiles, MaxFile, MaxBytes)
}

// unpack reads an archive whose files stand below the folder top; "": below one
// folder, whatever its name.
func unpack(b []byte, top string, maxFiles int, maxFile, maxBytes int64) (map[string][]byte, error) {
	if len(b) > MaxArchive {
		return nil, fmt.Errorf("%w: %d bytes, limit %d bytes", errArchive, len(b), MaxArchive)
	}
	u := unpacker{folder: top, maxFiles: maxFiles, maxFile: maxFile, maxBytes: maxBytes, files: map[string][]byte{}}
	var err error
	switch {
	case bytes.HasPrefix(b, []byte("\x1f\x8b")):
		err = u.tarGz(b)
	case bytes.HasPrefix(b, []byte("PK\x03\x04")):
		err = u.zip(b)
	default:
		err = errors.New("neither .tar.gz nor .zip")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errArchive, err)
	}
	if len(u.files) == 0 {
		return nil, fmt.Errorf("%w: no files", errArchive)
	}
	return u.files, nil
}

type unpacker struct {
	maxFiles          int
	maxFile, maxBytes int64

	files   map[string][]byte
	folder  string // that the archive must have, "": any
	top     string // the one top directory
	entries int
	total   int64
}

func (u *unpacker) tarGz(b []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return err
	}
	// Headers and padding need room as well as files.
	limited := &io.LimitedReader{R: z, N: u.maxBytes + int64(u.maxFiles)*4096}
	r := tar.NewReader(limited)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) && limited.N > 0 {
			return nil
		}
		if limited.N <= 0 {
			return fmt.Errorf("more than %d bytes when unpacked", u.maxBytes)
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeReg:
			if err := u.file(h.Name, h.Size, r); err != nil {
				return err
			}
		case tar.TypeDir:
			if err := u.count(); err != nil {
				return err
			}
		case tar.TypeXGlobalHeader:
		default:
			return fmt.Errorf("entry %.100q is not a regular file (type %q)", h.Name, h.Typeflag)
		}
	}
}

func (u *unpacker) zip(b []byte) error {
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	for _, f := range r.File {
		mode := f.Mode()
		switch {
		case mode.IsDir():
			if err := u.count(); err != nil {
				return err
			}
			continue
		case mode&fs.ModeType != 0:
			return fmt.Errorf("entry %.100q is not a regular file", f.Name)
		}
		if f.UncompressedSize64 > uint64(u.maxFile) {
			return fmt.Errorf("entry %.100q is larger than %d bytes", f.Name, u.maxFile)
		}
		rc, err := f.Open()
		if err != nil {
			return err
		}
		err = u.file(f.Name, int64(f.UncompressedSize64), rc)
		if err := errors.Join(err, rc.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) count() error {
	if u.entries++; u.entries > u.maxFiles {
		return fmt.Errorf("more than %d entries", u.maxFiles)
	}
	return nil
}

// file takes one regular file of the archive. size is what the archive says;
// what is really there counts.
func (u *unpacker) file(name string, size int64, r io.Reader) error {
	if err := u.count(); err != nil {
		return err
	}
	name = strings.TrimPrefix(name, "./")
	if err := checkPath(name); err != nil {
		return fmt.Errorf("entry %.100q: %w", name, err)
	}
	top, rel, ok := strings.Cut(name, "/")
	if u.folder != "" {
		top = u.folder
		rel, ok = strings.CutPrefix(name, u.folder+"/")
	}
	if !ok || u.top != "" && top != u.top {
		return fmt.Errorf("entry %.100q is outside the one top directory", name)
	}
	u.top = top
	if size > u.maxFile {
		return fmt.Errorf("entry %.100q is larger than %d bytes", name, u.maxFile)
	}
	if compiled(rel) {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(r, u.maxFile+1))
	if err != nil {
		return fmt.Errorf("entry %.100q: %w", name, err)
	}
	if int64(len(b)) > u.maxFile {
		return fmt.Errorf("entry %.100q is larger than %d bytes", name, u.maxFile)
	}
	if u.total += int64(len(b)); u.total > u.maxBytes {
		return fmt.Errorf("more than %d bytes when unpacked", u.maxBytes)
	}
	if _, dup := u.files[rel]; dup {
		return fmt.Errorf("entry %.100q is there twice", name)
	}
	u.files[rel] = b
	return nil
}

// compiled reports whether p is Python's byte code.
func compiled(p string) bool {
	switch path.Ext(p) {
	case ".pyc", ".pyo":
		return true
	}
	return strings.Contains("/"+p, "/__pycache__/")
}
