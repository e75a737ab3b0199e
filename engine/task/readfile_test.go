package task

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// A file of a task's tree is read within its bound and within the tree; a link
// out of it, a pipe and a directory are refused, and none of them waits.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	for name, text := range map[string]string{filepath.Join(dir, "hole.json"): "12345", outside: "secret"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("hole.json", filepath.Join(dir, "in")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	tk := &Task{Dir: dir}
	tk.Key = "set/a"
	for _, c := range []struct {
		name  string
		limit int64
		err   string
	}{
		{"hole.json", 5, ""},
		{"in", 5, ""},
		{"hole.json", 4, "hole.json is larger than 4 bytes"},
		{"out", 100, "escapes"},
		{"../" + filepath.Base(filepath.Dir(outside)) + "/secret", 100, "escapes"},
		{"pipe", 100, "pipe is not a regular file"},
		{".", 100, ". is not a regular file"},
		{"none", 100, "no such file"},
	} {
		b, err := tk.ReadFile(c.name, c.limit)
		switch {
		case c.err == "" && (err != nil || string(b) != "12345"):
			t.Errorf("%s: %q, %v", c.name, b, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v, want %s", c.name, err, c.err)
		}
	}
}

// A task of an fs.FS has no tree on the host: its files are read from there, those
// that Load saw and no others, and not when they changed since.
func TestReadFileOfShippedTask(t *testing.T) {
	fsys := fstest.MapFS{
		"task.toml":      {Data: []byte("version = \"1.0\"\n[task]\nname = \"golf/a\"\n[metadata]\nlicence = \"MIT\"\n[agon]\nkind = \"golf\"\n")},
		"instruction.md": {Data: []byte("Play.\n")},
		"hole.json":      {Data: []byte("12345")},
		"moved.json":     {Data: []byte("12345")},
		"gone.json":      {Data: []byte("12345")},
	}
	tk, err := Load(fsys, "set/a")
	if err != nil {
		t.Fatal(err)
	}
	fsys["moved.json"] = &fstest.MapFile{Data: []byte("54321")}
	fsys["later.json"] = &fstest.MapFile{Data: []byte("12345")}
	delete(fsys, "gone.json")
	for _, c := range []struct {
		name  string
		limit int64
		err   string
	}{
		{"hole.json", 5, ""},
		{"hole.json", 4, "hole.json is larger than 4 bytes"},
		{"moved.json", 5, ErrChanged.Error()},
		{"later.json", 5, fs.ErrNotExist.Error()},
		{"gone.json", 5, fs.ErrNotExist.Error()},
		{"../hole.json", 5, fs.ErrNotExist.Error()},
		{".", 5, fs.ErrNotExist.Error()},
	} {
		b, err := tk.ReadFile(c.name, c.limit)
		switch {
		case c.err == "" && (err != nil || string(b) != "12345"):
			t.Errorf("%s: %q, %v", c.name, b, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v, want %s", c.name, err, c.err)
		}
	}
	if _, err := (&Task{Key: "set/b"}).ReadFile("hole.json", 5); err == nil {
		t.Error("a task that nothing was loaded into has a file")
	}
}
