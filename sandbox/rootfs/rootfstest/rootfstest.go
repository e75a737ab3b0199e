// Package rootfstest makes images for tests: by hand, without a daemon.
package rootfstest

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Layout writes an image of one layer as an OCI layout and returns how it is
// named: oci:DIR@sha256:…. A file whose name begins with "bin/" or holds "/bin/"
// may be executed; a text that begins with "-> " is a link. config may be nil.
func Layout(t testing.TB, files map[string]string, config *v1.Config) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	names := []string{}
	for n := range files {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		h := &tar.Header{Name: n, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(files[n]))}
		to, link := strings.CutPrefix(files[n], "-> ")
		switch {
		case link:
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, to, 0
		case strings.Contains("/"+n, "/bin/"):
			h.Mode = 0o755
		}
		err := w.WriteHeader(h)
		if err == nil && !link {
			_, err = io.WriteString(w, files[n])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, b.Bytes(), config)
}

// Tree is Layout of a directory on this machine, below dir in the image.
func Tree(t testing.TB, host fs.FS, dir string, config *v1.Config) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := fs.WalkDir(host, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == "." {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if fi.Mode()&fs.ModeSymlink != 0 {
			if link, err = fs.ReadLink(host, p); err != nil {
				return err
			}
		} else if !fi.Mode().IsRegular() && !fi.IsDir() {
			return nil
		}
		h, err := tar.FileInfoHeader(fi, link)
		if err != nil {
			return err
		}
		h.Name, h.Uid, h.Gid, h.Uname, h.Gname = path.Join(dir, p), 0, 0, "", ""
		if err := w.WriteHeader(h); err != nil || !fi.Mode().IsRegular() {
			return err
		}
		f, err := host.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return write(t, b.Bytes(), config)
}

func write(t testing.TB, plain []byte, config *v1.Config) string {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(plain)), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	c := v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH}
	if config != nil {
		c.Config = *config
	}
	have, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c.RootFS = have.RootFS
	if img, err = mutate.ConfigFile(img, &c); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agon-layout-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = at.AppendImage(img)
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return "oci:" + dir + "@" + d.String()
}
