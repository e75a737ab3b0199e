package task

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
