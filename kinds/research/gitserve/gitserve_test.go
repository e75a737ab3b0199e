package gitserve

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

var files = []File{
	{"README.md", ModeFile, []byte("hello\r\nworld\n")},
	{"src/a.py", ModeFile, []byte("print(1)\n")},
	{"src.py", ModeFile, nil},
	{"src/run.sh", ModeExec, []byte("#!/bin/sh\n")},
	{"src/\u00e9t\u00e9.txt", ModeFile, bytes.Repeat([]byte{0, 1, 2}, 50_000)},
	{"link", ModeLink, []byte("src/a.py")},
}

// A real git clones what is served, whole and shallow, finds it sound and has
// the same commit as git itself makes of the same files.
func TestClone(t *testing.T) {
	repo, err := Build(files, "main")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.StripPrefix("/x.git", repo))
	defer s.Close()
	for _, args := range [][]string{{"clone", "-q"}, {"clone", "-q", "--depth", "1"}, {"-c", "protocol.version=0", "clone", "-q"}} {
		dir := t.TempDir()
		git(t, dir, append(args, s.URL+"/x.git", "c")...)
		c := filepath.Join(dir, "c")
		git(t, c, "checkout", "-q", "main")
		if got := git(t, c, "rev-parse", "HEAD"); got != repo.Commit() {
			t.Errorf("HEAD is %s, want %s", got, repo.Commit())
		}
		git(t, c, "fsck", "--strict")
		if got := git(t, c, "status", "--porcelain"); got != "" {
			t.Errorf("status: %s", got)
		}
		if b, err := os.ReadFile(filepath.Join(c, "README.md")); err != nil || string(b) != "hello\r\nworld\n" {
			t.Errorf("%q %v", b, err)
		}
		git(t, c, "fetch", "-q")
	}
}

func TestBuildRefuses(t *testing.T) {
	for name, f := range map[string][]File{
		"dots":   {{"../x", ModeFile, nil}},
		"git":    {{"a/.GIT/hooks/x", ModeFile, nil}},
		"twice":  {{"a", ModeFile, nil}, {"a", ModeFile, nil}},
		"nested": {{"a", ModeFile, nil}, {"a/b", ModeFile, nil}},
		"mode":   {{"a", "160000", nil}},
	} {
		if _, err := Build(f, "main"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte("0032want 0123456789012345678901234567890123456789\n00000009done\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRequest(bytes.NewReader(b))
		if err == nil && len(r.wants) > 64 {
			t.Fatal("too many wants")
		}
	})
}
