package rootfs

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// file is one archive entry; kind defaults to a regular file.
type file struct {
	name string
	kind byte
	body string // content or link target
	mode int64
}

func archive(t testing.TB, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Typeflag: f.kind, Mode: f.mode, Format: tar.FormatPAX}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(f.body))
		} else {
			h.Linkname = f.body
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(f.body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tree lists what flatten made: path, then content, link target or "/" for a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		switch {
		case rel == ".":
		case d.IsDir():
			out[rel] = "/"
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			out[rel] = "-> " + to
			return err
		default:
			b, err := os.ReadFile(p)
			out[rel] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// stacked opens plain archives as the layers of an image.
func stacked(layers ...[]byte) (n int, open func(int) (io.ReadCloser, error)) {
	return len(layers), func(i int) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layers[i])), nil }
}

func TestFlatten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	n, layers := stacked(
		archive(t,
			file{"etc/", tar.TypeDir, "", 0o755}, file{"etc/keep", 0, "keep", 0o644}, file{"etc/gone", 0, "gone", 0},
			file{"bin", tar.TypeSymlink, "usr/bin", 0}, file{"usr/bin/su", 0, "su", 0o4755}, file{"./opt/old/x", 0, "x", 0},
			file{"/abs", 0, "abs", 0}, file{"swap", 0, "file", 0}, file{"dir/f", 0, "f", 0},
			file{"dev/null", tar.TypeChar, "", 0}, file{"fifo", tar.TypeFifo, "", 0}, file{"shut/", tar.TypeDir, "", 0o500}, file{"shut/in", 0, "in", 0o200},
		),
		archive(t,
			file{"etc/.wh.gone", 0, "", 0}, file{"opt/new", 0, "new", 0}, file{"opt/.wh..wh..opq", 0, "", 0},
			file{"bin/tool", 0, "tool", 0}, file{"hard", tar.TypeLink, "etc/keep", 0}, file{"swap/", tar.TypeDir, "", 0}, file{"swap/in", 0, "in", 0},
			file{"dir", 0, "now a file", 0}, file{".wh.absent", 0, "", 0},
		),
	)
	if err := flatten(n, layers, dir, newBudget()); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"etc": "/", "etc/keep": "keep", "bin": "-> usr/bin", "usr": "/", "usr/bin": "/", "usr/bin/su": "su", "usr/bin/tool": "tool",
		"opt": "/", "opt/new": "new", "abs": "abs", "hard": "keep", "swap": "/", "swap/in": "in", "dir": "now a file", "dev": "/",
		"shut": "/", "shut/in": "in",
	}
	got := tree(t, dir)
	for p, v := range want {
		if got[p] != v {
			t.Errorf("%s: %q, want %q", p, got[p], v)
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%s should not be there", p)
		}
	}
	fi, err := os.Stat(filepath.Join(dir, "usr/bin/su"))
	if err != nil || fi.Mode()&fs.ModeSetuid != 0 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
}

func TestFlattenHostile(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	small := func() *budget { return bounded(100, 10) }
	for _, tt := range []struct {
		name  string
		files []file
	}{
		{"parent", []file{{"../x", 0, "x", 0}}},
		{"parent inside", []file{{"a/../../x", 0, "x", 0}}},
		{"through a link", []file{{"l", tar.TypeSymlink, outside, 0}, {"l/secret", 0, "x", 0}}},
		{"through a relative link", []file{{"l", tar.TypeSymlink, "../../../../../../../.." + outside, 0}, {"l/secret", 0, "x", 0}}},
		{"hard link out", []file{{"h", tar.TypeLink, "../secret", 0}}},
		{"hard link through a link", []file{{"l", tar.TypeSymlink, outside, 0}, {"h", tar.TypeLink, "l/secret", 0}}},
		{"whiteout out", []file{{"l", tar.TypeSymlink, outside, 0}, {"l/.wh.secret", 0, "", 0}}},
		{"whiteout of the parent", []file{{"a/.wh...", 0, "", 0}}},
		{"opaque out", []file{{"l", tar.TypeSymlink, outside, 0}, {"l/.wh..wh..opq", 0, "", 0}}},
		{"too large", []file{{"a", 0, strings.Repeat("x", 101), 0}}},
		{"too large together", []file{{"a", 0, strings.Repeat("x", 60), 0}, {"b", 0, strings.Repeat("x", 60), 0}}},
		{"too deep", []file{{strings.Repeat("a/", 200) + "a", 0, "", 0}}},
		{"too many", slices.Repeat([]file{{"a", 0, "", 0}}, 11)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, layers := stacked(archive(t, tt.files...))
			err := flatten(n, layers, filepath.Join(t.TempDir(), "root"), small())
			if err == nil {
				t.Error("unpacked")
			}
			if b, rerr := os.ReadFile(secret); rerr != nil || string(b) != "secret" {
				t.Fatalf("touched a file outside: %q, %v", b, rerr)
			}
		})
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(archive(f, file{"a/b", 0, "x", 0}, file{"l", tar.TypeSymlink, "a", 0}, file{"a/.wh.b", 0, "", 0}, file{"a/.wh..wh..opq", 0, "", 0}))
	f.Add(archive(f, file{"../x", 0, "x", 0}, file{"h", tar.TypeLink, "/etc/passwd", 0}))
	f.Fuzz(func(t *testing.T, b []byte) {
		base, err := os.MkdirTemp("", "agon-fuzz-")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(base) }()
		dir := filepath.Join(base, "root")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = root.Close() }()
		_ = unpack(root, bytes.NewReader(b), bounded(1<<16, 100), map[string]bool{})
		ents, err := os.ReadDir(base)
		if err != nil || len(ents) != 1 {
			t.Fatalf("wrote outside: %v, %v", ents, err)
		}
		_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSetuid) != 0 {
				t.Fatalf("made %s", p)
			}
			return nil
		})
	})
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	for p, text := range map[string]string{
		"sources.list": "# deb http://x bookworm main\ndeb http://mirror/debian bookworm main contrib\ndeb-src http://mirror/debian bookworm main\n" +
			"deb [arch=amd64 signed-by=/k] https://download.example/linux/debian bookworm stable\ndeb [arch=amd64] http://mirror/debian bookworm-updates main\ndeb http://x\n",
		"sources.list.d/debian.sources": "Types: deb deb-src\nURIs: http://a/debian\nSuites: bookworm bookworm-backports\nComponents: main\nSigned-By: /usr/share/k.gpg\n\n" +
			"Types: deb\nURIs: http://b/sec\nSuites: bookworm-security\n# comment\nComponents: main\nEnabled: no\n\nTypes: deb\nURIs: http://c\nSuites: nodistro\nComponents: main\n",
		"sources.list.d/off.list.disabled": "deb http://d bookworm main\n",
	} {
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"deb [arch=amd64] http://mirror/debian bookworm-updates main",
		"deb [signed-by=/usr/share/k.gpg] http://a/debian bookworm main",
		"deb http://mirror/debian bookworm main contrib",
	}
	if got := hostSources(dir, "bookworm"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := hostSources(t.TempDir(), "bookworm"); got != nil {
		t.Errorf("got %q", got)
	}
}

// TestEnsure uses the real tree: 15 to 60 s where it is not cached.
func TestEnsure(t *testing.T) {
	dir, err := Ensure(t.Context(), Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Ensure(t.Context(), Config{})
	if err != nil || again != dir {
		t.Fatalf("%s, %v", again, err)
	}
	for _, p := range []string{"usr/bin/python3", "usr/bin/python", "usr/bin/git", "usr/bin/patch", "usr/bin/diff", "repo", "sandbox", "tests", "agon", "work", "etc/hosts", "etc/resolv.conf"} {
		if _, err := os.Lstat(filepath.Join(dir, p)); err != nil {
			t.Error(err)
		}
	}
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrPermission) {
				return nil // root's own directories, when the test is not root
			}
			return err
		}
		fi, err := d.Info()
		if err == nil && fi.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeDevice|fs.ModeNamedPipe) != 0 && !(fi.IsDir() && fi.Mode()&fs.ModeSetgid == 0) {
			t.Errorf("%s is %v", p, fi.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestEnsureFails(t *testing.T) {
	dir := t.TempDir()
	c := Config{Dir: filepath.Join(dir, "rootfs")}
	abandoned := filepath.Join(dir, "images", "trees", ".new-abandoned")
	if err := os.MkdirAll(abandoned, 0o700); err != nil {
		t.Fatal(err)
	}
	c.Image = "not a reference"
	if _, err := Ensure(t.Context(), c); err == nil {
		t.Error("built from nothing")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Image = "127.0.0.1:1/none"
	if _, err := Ensure(ctx, c); err == nil {
		t.Error("built with a dead context")
	}
	c.Image = makeImage(t, "gzip", baseLayer(t)).layout(t)
	tree, err := Ensure(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ents, err := os.ReadDir(filepath.Dir(tree))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range ents {
		if e.Name() != filepath.Base(tree) && e.Name() != ".used-"+filepath.Base(tree) {
			t.Errorf("left %s", e.Name())
		}
	}
	// The layout holds another image now.
	at := strings.TrimPrefix(c.Image, "oci:")
	other := strings.TrimPrefix(makeImage(t, "gzip", upperLayer(t)).layout(t), "oci:")
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, at); err != nil {
		t.Fatal(err)
	}
	if now, err := Ensure(t.Context(), c); err != nil || now == tree {
		t.Errorf("%s, %v", now, err)
	}
}
