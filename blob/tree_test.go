package blob_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
)

var ctx = context.Background()

func newStore(t testing.TB) *blobfs.Store {
	t.Helper()
	s, err := blobfs.Open(t.TempDir(), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, dir, name, content string, perm fs.FileMode) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte(content), perm), os.Chmod(p, perm)); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// sample is a tree with everything that trees may hold.
func sample(t *testing.T) string {
	dir := t.TempDir()
	write(t, dir, "a.txt", "alpha\r\n", 0o640)
	write(t, dir, "bin/run.sh", "#!/bin/sh\n", 0o711)
	write(t, dir, "empty", "", 0o600)
	write(t, dir, "déjà/vu <&>.bin", "\x00\xff", 0o600)
	symlink(t, "../../etc/passwd", filepath.Join(dir, "bin", "escape"))
	symlink(t, "a.txt", filepath.Join(dir, "link"))
	return dir
}

func TestTreeRoundTrip(t *testing.T) {
	s := newStore(t)
	dir := sample(t)
	d, err := blob.PutTree(ctx, s, dir, blob.TreeLimits{})
	if err != nil {
		t.Fatal(err)
	}
	// The digest is a promise to other machines: it may never change.
	const want = "sha256:62606fafba1732ab9b6d26f1808809e76b86390f06edad7d2d9dcb239353e781"
	if d != want {
		t.Errorf("digest %s, want %s", d, want)
	}
	if sum, err := blob.SumTree(ctx, dir, blob.TreeLimits{}); err != nil || sum != d {
		t.Errorf("SumTree: %s, %v", sum, err)
	}
	out := filepath.Join(t.TempDir(), "tree")
	if err := blob.Materialise(ctx, s, d, out, blob.TreeLimits{}); err != nil {
		t.Fatal(err)
	}
	if again, err := blob.SumTree(ctx, out, blob.TreeLimits{}); err != nil || again != d {
		t.Errorf("materialised tree: %s, %v", again, err)
	}
	files, err := blob.GetFiles(ctx, s, d, blob.TreeLimits{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	if again, err := blob.PutFiles(ctx, s, files, blob.TreeLimits{}); err != nil || again != d {
		t.Errorf("PutFiles in another order: %s, %v", again, err)
	}
	if again, err := blob.SumFiles(files, blob.TreeLimits{}); err != nil || again != d {
		t.Errorf("SumFiles: %s, %v", again, err)
	}
	if target, err := os.Readlink(filepath.Join(out, "bin/escape")); err != nil || target != "../../etc/passwd" {
		t.Errorf("link: %q, %v", target, err)
	}
	for name, mode := range map[string]fs.FileMode{"a.txt": 0o644, "bin/run.sh": 0o755} {
		if fi, err := os.Stat(filepath.Join(out, name)); err != nil || fi.Mode() != mode {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
	if err := blob.Materialise(ctx, s, d, out, blob.TreeLimits{}); err == nil {
		t.Error("materialise over a directory that exists: no error")
	}
}

func TestPutTreeRefuses(t *testing.T) {
	tests := map[string]struct {
		make   func(t *testing.T, dir string)
		limits blob.TreeLimits
		want   string
	}{
		"fifo": {make: func(t *testing.T, dir string) {
			if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, want: "not a regular file"},
		"too many files": {make: func(t *testing.T, dir string) {
			write(t, dir, "a", "", 0o600)
			write(t, dir, "b", "", 0o600)
		}, limits: blob.TreeLimits{Files: 1}, want: "over 1 files"},
		"file too large": {
			make:   func(t *testing.T, dir string) { write(t, dir, "a", "12345", 0o600) },
			limits: blob.TreeLimits{FileBytes: 4}, want: "over 4 bytes",
		},
		"tree too large": {make: func(t *testing.T, dir string) {
			write(t, dir, "a", "123", 0o600)
			write(t, dir, "b", "456", 0o600)
		}, limits: blob.TreeLimits{Bytes: 5}, want: "over 2 bytes"},
		"control character": {make: func(t *testing.T, dir string) { write(t, dir, "a\x1b[2Jb", "", 0o600) }, want: "control"},
		"not UTF-8":         {make: func(t *testing.T, dir string) { write(t, dir, "a\xff", "", 0o600) }, want: "path"},
		"backslash":         {make: func(t *testing.T, dir string) { write(t, dir, `a\..\b`, "", 0o600) }, want: "backslash"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tt.make(t, dir)
			_, err := blob.PutTree(ctx, newStore(t), dir, tt.limits)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestPutTreeDoesNotFollow: a link to a directory is a link, not its content.
func TestPutTreeDoesNotFollow(t *testing.T) {
	secret := t.TempDir()
	write(t, secret, "key", "secret", 0o600)
	dir := t.TempDir()
	symlink(t, secret, filepath.Join(dir, "d"))
	s := newStore(t)
	d, err := blob.PutTree(ctx, s, dir, blob.TreeLimits{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := blob.GetManifest(ctx, s, d, blob.TreeLimits{})
	if err != nil || len(m.Files) != 1 || m.Files[0].Mode != blob.ModeLink {
		t.Fatalf("manifest %+v, %v", m, err)
	}
}

func entry(path, mode, content string) blob.Entry {
	return blob.Entry{Path: path, Mode: mode, Size: int64(len(content)), Digest: agon.Sum([]byte(content))}
}

// TestMaterialiseHostile: nothing of a bad manifest reaches the disk.
func TestMaterialiseHostile(t *testing.T) {
	tests := map[string][]blob.Entry{
		"dot dot":           {entry("../x", blob.ModeFile, "x")},
		"absolute":          {entry("/etc/x", blob.ModeFile, "x")},
		"inner dot dot":     {entry("a/../../x", blob.ModeFile, "x")},
		"empty path":        {entry("", blob.ModeFile, "x")},
		"dot":               {entry(".", blob.ModeFile, "x")},
		"through a link":    {entry("d", blob.ModeLink, "/tmp"), entry("d/x", blob.ModeFile, "x")},
		"file below a file": {entry("d", blob.ModeFile, "x"), entry("d/x", blob.ModeFile, "x")},
		"twice":             {entry("d", blob.ModeFile, "x"), entry("d", blob.ModeLink, "x")},
		"unknown mode":      {entry("d", "device", "x")},
		"wrong size":        {{Path: "d", Mode: blob.ModeFile, Size: 7, Digest: agon.Sum([]byte("x"))}},
		"negative size":     {{Path: "d", Mode: blob.ModeFile, Size: -1, Digest: agon.Sum([]byte("x"))}},
		"missing blob":      {entry("d", blob.ModeFile, "never stored")},
		"bad digest":        {{Path: "d", Mode: blob.ModeFile, Digest: "sha256:../../x"}},
		"empty link":        {entry("d", blob.ModeLink, "")},
		"NUL in link":       {entry("d", blob.ModeLink, "a\x00b")},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			for _, c := range []string{"x", "/tmp", "", "a\x00b"} {
				if _, err := s.Put(ctx, []byte(c)); err != nil {
					t.Fatal(err)
				}
			}
			b, err := blob.Manifest{Files: files}.Canonical()
			if err != nil {
				t.Fatal(err)
			}
			d, err := s.Put(ctx, b)
			if err != nil {
				t.Fatal(err)
			}
			parent := t.TempDir()
			if err := blob.Materialise(ctx, s, d, filepath.Join(parent, "out"), blob.TreeLimits{}); err == nil {
				t.Fatal("no error")
			}
			left, err := os.ReadDir(parent)
			if err != nil || len(left) != 0 {
				t.Fatalf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestParseManifestWantsCanonical(t *testing.T) {
	good, err := blob.Manifest{Files: []blob.Entry{entry("b", blob.ModeFile, "x"), entry("a", blob.ModeExec, "")}}.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blob.ParseManifest(good, blob.TreeLimits{}); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]string{
		"white space":   strings.Replace(string(good), ",", ", ", 1),
		"unknown field": strings.Replace(string(good), `{"files"`, `{"x":1,"files"`, 1),
		"trailing":      string(good) + "{}",
		"null":          `{"files":null}`,
		"empty":         ``,
		"array":         `[]`,
	} {
		if _, err := blob.ParseManifest([]byte(b), blob.TreeLimits{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	good, err := blob.Manifest{Files: []blob.Entry{entry("a/b", blob.ModeFile, "x"), entry("c", blob.ModeLink, "a/b")}}.Canonical()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"files":[]}`))
	f.Add([]byte(`{"files":[{"path":"../x","mode":"file","size":1,"digest":"sha256:"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := blob.ParseManifest(b, blob.TreeLimits{Files: 100})
		if err != nil {
			return
		}
		again, err := m.Canonical()
		if err != nil || string(again) != string(b) {
			t.Fatalf("accepted bytes that are not canonical: %q", b)
		}
		for _, e := range m.Files {
			if !filepath.IsLocal(e.Path) {
				t.Fatalf("accepted path %q", e.Path)
			}
		}
	})
}

func TestFS(t *testing.T) {
	fsys := blob.FS([]blob.File{{Path: "a/b/c.txt", Content: []byte("c")}, {Path: "a/d"}, {Path: "e", Mode: blob.ModeExec}, {Path: "../x"}})
	if err := fstest.TestFS(fsys, "a/b/c.txt", "a/d", "e"); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkPutTree(b *testing.B) {
	dir := b.TempDir()
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("f", i+1)), make([]byte, 2000+i), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		s := newStore(b)
		if _, err := blob.PutTree(ctx, s, dir, blob.TreeLimits{}); err != nil {
			b.Fatal(err)
		}
	}
}
