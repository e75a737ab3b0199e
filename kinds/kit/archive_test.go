package kit

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"
)

func TestUnpacked(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	tgz := func(files ...string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, f := range files {
			if err := w.WriteHeader(&tar.Header{Name: f, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f))}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(f)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	var zipped bytes.Buffer
	zw := zip.NewWriter(&zipped)
	if w, err := zw.Create("task.toml"); err != nil {
		t.Fatal(err)
	} else if _, err := w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		content []byte
		base    string // of the directory; "": refused
	}{
		{"mine.tar.gz", tgz("task.toml", "tests/test.sh"), "mine"},
		{"wrapped.tgz", tgz("hello/task.toml"), "hello"},
		{"flat.zip", zipped.Bytes(), "flat"},
		{"out.tar.gz", tgz("../../task.toml"), ""},
		{"bad.zip", []byte("PK\x03\x04"), ""},
		{"short.tar", []byte("x"), ""},
	} {
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Unpacked(work, path)
		if c.base == "" {
			if err == nil {
				t.Errorf("%s was taken", c.name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if _, err := os.Stat(filepath.Join(got, "task.toml")); err != nil || filepath.Base(got) != c.base {
			t.Errorf("%s: %s, %v; want a directory %s with task.toml", c.name, got, err, c.base)
		}
	}
	if got, err := Unpacked(work, dir); err != nil || got != dir {
		t.Errorf("a directory: %s, %v", got, err)
	}
}
