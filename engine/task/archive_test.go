package task

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// tarGz makes an archive of entries; those without a type are regular files.
func tarGz(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range entries {
		body := h.Linkname
		if h.Typeflag == 0 {
			h.Typeflag, h.Linkname, h.Size = tar.TypeReg, "", int64(len(body))
		} else {
			body = ""
		}
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// f is a regular file whose content is carried in Linkname.
func f(name, content string) tar.Header { return tar.Header{Name: name, Linkname: content} }

func zipped(t testing.TB, files ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, h := range files {
		e, err := w.Create(h.Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Write([]byte(h.Linkname)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnpackSdist(t *testing.T) {
	files := []tar.Header{f("p-1/a.py", "a\n"), f("p-1/pkg/b.py", ""), f("p-1/__pycache__/a.cpython-311.pyc", "x"), f("p-1/old.pyc", "x")}
	dirs := append([]tar.Header{{Name: "p-1/", Typeflag: tar.TypeDir}}, files...)
	for name, b := range map[string][]byte{"tar": tarGz(t, files...), "tar with directories": tarGz(t, dirs...), "zip": zipped(t, files...)} {
		got, err := unpackSdist(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(got) != 2 || string(got["a.py"]) != "a\n" || got["pkg/b.py"] == nil {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestUnpackSdistRefuses(t *testing.T) {
	const files, file, total = 20, 3000, 40_000 // limits small enough for a test
	many := make([]tar.Header, 0, files+1)
	for i := range files + 1 {
		many = append(many, f(fmt.Sprintf("p/%d", i), ""))
	}
	big := strings.Repeat("0", file)
	var bomb []tar.Header
	for i := range total/file + 1 {
		bomb = append(bomb, f(fmt.Sprintf("p/%d", i), big))
	}
	whole := tarGz(t, f("p/a", strings.Repeat("ab", 1000)))
	rows := map[string][]byte{
		"empty":            {},
		"no archive":       []byte("hello"),
		"nothing in it":    tarGz(t),
		"cut off":          whole[:len(whole)/2],
		"archive too big":  make([]byte, MaxArchive+1),
		"link":             tarGz(t, tar.Header{Name: "p/l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}),
		"hard link":        tarGz(t, f("p/a", ""), tar.Header{Name: "p/l", Typeflag: tar.TypeLink, Linkname: "p/a"}),
		"device":           tarGz(t, tar.Header{Name: "p/d", Typeflag: tar.TypeChar}),
		"leaves":           tarGz(t, f("p/../../x", "")),
		"absolute":         tarGz(t, f("/etc/x", "")),
		"two tops":         tarGz(t, f("p/a", ""), f("q/b", "")),
		"no top":           tarGz(t, f("a", "")),
		"twice":            tarGz(t, f("p/a", "1"), f("p/a", "2")),
		"git":              tarGz(t, f("p/.git/hooks/post-checkout", "")),
		"control":          tarGz(t, f("p/a\x1b[2J", "")),
		"too many":         tarGz(t, many...),
		"file too big":     tarGz(t, f("p/a", big+"0")),
		"too big unpacked": tarGz(t, bomb...),
		"zip leaves":       zipped(t, f("p/../../x", "")),
		"zip too big":      zipped(t, f("p/a", big+"0")),
		"zip bomb":         zipped(t, bomb...),
	}
	for name, b := range rows {
		if got, err := unpack(b, "", files, file, total); !errors.Is(err, errArchive) {
			t.Errorf("%s: got %d files, %v", name, len(got), err)
		}
	}
}

func FuzzUnpackSdist(fz *testing.F) {
	fz.Add(tarGz(fz, f("p/a.py", "a\n"), f("p/b", "")))
	fz.Add(zipped(fz, f("p/a.py", "a\n")))
	fz.Fuzz(func(t *testing.T, b []byte) {
		files, err := unpackSdist(b)
		if err != nil {
			if !errors.Is(err, errArchive) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		for p := range files {
			if err := checkPath("top/" + p); err != nil {
				t.Fatalf("%q: %v", p, err)
			}
		}
	})
}
