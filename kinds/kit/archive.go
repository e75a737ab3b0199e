package kit

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// Bounds of archives that a person names on the command line.
const (
	MaxArchive        = 1 << 30
	maxArchiveEntries = 1_000_000
)

// Unpacked is path itself where it is not an archive (.tar, .tar.gz, .tgz, .zip), else
// the directory below work into which it was unpacked. One directory around
// everything is taken away.
func Unpacked(work, path string) (string, error) {
	if !IsArchive(path) {
		return path, nil
	}
	at, err := os.MkdirTemp(work, "archive-")
	if err != nil {
		return "", err
	}
	name := filepath.Base(path)
	for _, end := range archives {
		if s, ok := strings.CutSuffix(name, end); ok && s != "" {
			name = s
			break
		}
	}
	dir := filepath.Join(at, "here", name) // tasks are called as their directories are
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := Unpack(dir, path); err != nil {
		return "", &agon.Error{Code: "bad_archive", Status: 422, Field: "file", Message: fmt.Sprintf("unpack %s: %v", path, err), Mend: "give a .tar, .tar.gz or .zip of a directory"}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(list) == 1 && list[0].IsDir() {
		dir = filepath.Join(dir, list[0].Name())
	}
	return dir, nil
}

// archives are the ends of names that archives have, the longest first.
var archives = []string{".tar.gz", ".tgz", ".tar", ".zip"}

// IsArchive tells whether path is a file that is called like an archive.
func IsArchive(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && slices.ContainsFunc(archives, func(end string) bool { return strings.HasSuffix(path, end) })
}

// Unpack lays out a .tar, .tar.gz or .zip.
// Nothing is written outside dir; devices and pipes are left out.
func Unpack(dir, source string) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	size := fi.Size()
	if !fi.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	if size > MaxArchive {
		return fmt.Errorf("%d bytes, at most %d", size, MaxArchive)
	}
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil {
		return errors.New("neither .tar, .tar.gz nor .zip")
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var r io.Reader = f
	switch {
	case string(magic) == "PK\x03\x04":
		if r, err = zipAsTar(f, size); err != nil {
			return err
		}
	case magic[0] == 0x1f && magic[1] == 0x8b:
		if r, err = gzip.NewReader(f); err != nil {
			return err
		}
	}
	return rootfs.Unpack(dir, r, 2*MaxArchive, maxArchiveEntries)
}

// zipAsTar reads the files of a zip archive as a tar archive, which has the bounds.
func zipAsTar(f *os.File, size int64) (io.Reader, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, err
	}
	pr, pw := io.Pipe()
	go func() {
		w := tar.NewWriter(pw)
		err := func() error {
			for _, x := range z.File {
				if !x.Mode().IsRegular() {
					continue
				}
				if err := w.WriteHeader(&tar.Header{Name: x.Name, Typeflag: tar.TypeReg, Mode: int64(x.Mode().Perm()), Size: int64(x.UncompressedSize64)}); err != nil {
					return err
				}
				in, err := x.Open()
				if err != nil {
					return err
				}
				_, err = io.Copy(w, in)
				if err = errors.Join(err, in.Close()); err != nil {
					return err
				}
			}
			return w.Close()
		}()
		_ = pw.CloseWithError(err) // never fails
	}()
	return pr, nil
}
