package rootfs

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/agon-arena/agon/sandbox/internal/entry"
)

// ownTree is the machine's real tree.
func ownTree(t *testing.T) string {
	t.Helper()
	own, err := Ensure(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entry.Launcher(t.Context(), ""); errors.Is(err, entry.ErrNoGo) {
		t.Skipf("LOUD: %v; this test did not run", err)
	}
	return own
}

// in runs a command in a tree, as a root that is not a box yet.
func in(t *testing.T, tree string, args ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("LOUD: only root can change the root; this test did not run")
	}
	if !strings.HasPrefix(args[0], "/") {
		args = append([]string{"/bin/sh", "-c", `exec "$@"`, "sh"}, args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Chroot: tree}, "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin:/opt/agon/bin", "HOME=/tmp", "LD_PRELOAD=/none.so", "PYTHONHOME=/none"}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, errs.String())
	}
	return strings.TrimSpace(string(out))
}

// An image with nothing but a file: agon's own programs run in it.
func TestLayerInAnEmptyImage(t *testing.T) {
	own := ownTree(t)
	cache := t.TempDir()
	s := OpenImages(cache, nil)
	img, err := s.Import(t.Context(), makeImage(t, "gzip", archive(t, file{"opt/agon/bin/python3", 0, "the image's", 0o755}, file{"data", 0, "data", 0o644}, file{"etc/passwd", 0, "app:x:501:502::/:/bin/sh\n", 0o644})).layout(t))
	if err != nil {
		t.Fatal(err)
	}
	roots := NewRoots(own, s)
	x, err := roots.Of(t.Context(), img.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if x.Image != img.Digest || x.WorkingDir != "/srv" || x.UID != 501 || x.GID != 502 || x.Path != "/usr/bin:/opt/agon/bin" || strings.Join(x.Env, " ") != "LANG=C.UTF-8" {
		t.Errorf("%+v", x)
	}
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"hello", []string{"/bin/sh", "-c", "echo hello"}},
		{"data", []string{"sh", "-c", "cat /data"}},
		{"/opt/agon/bin/python3 /opt/agon", []string{x.Python, "-c", "import sys; print(sys.executable, sys.prefix)"}},
		{"ok", []string{x.Python, "-c", "import requests, pytest, ctypes, ssl, sqlite3, json; print('ok')"}},
		{"2", []string{x.Python, "-c", "import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', 'print(1+1)'], text=True).strip())"}},
	} {
		if got := in(t, x.Dir, tt.args...); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.want)
		}
	}
	again, err := roots.Of(t.Context(), "elsewhere@"+img.Digest)
	if err != nil || again.Dir != x.Dir {
		t.Errorf("%s, %v", again.Dir, err)
	}
	p, err := x.Interpreter("")
	if err != nil || !p.Own || !bytes.Contains(p.Program, []byte(ownInterp)) {
		t.Fatalf("%+v, %v", p.Env, err)
	}
	copied := filepath.Join(x.Dir, "tmp", "copy")
	if err := os.WriteFile(copied, p.Program, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/tmp/copy", "-s", "-S", "-c", "import unittest, zlib; print('ok')")
	cmd.SysProcAttr, cmd.Dir, cmd.Env = &syscall.SysProcAttr{Chroot: x.Dir}, "/", p.Env
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Errorf("%v: %s", err, out)
	}
	if err := os.Remove(copied); err != nil {
		t.Fatal(err)
	}
	// An image that makes room: for what is needed, and of nothing that was asked for within the hour.
	other, err := s.Import(t.Context(), makeImage(t, "gzip", archive(t, file{"data", 0, "other", 0o644}, file{"etc/passwd", 0, "app:x:501:502::/:/bin/sh\n", 0o644})).layout(t))
	if err != nil {
		t.Fatal(err)
	}
	ref := "x@" + other.Digest
	if roots.Ready(ref) || !roots.Ready("x@"+img.Digest) || roots.Ready("x@sha256:"+strings.Repeat("0", 64)) {
		t.Error("what is ready is not what was opened")
	}
	roots.Bounded(1)
	for _, gone := range []bool{false, true} {
		if err := roots.Warm(t.Context(), ref, []string{ref}); err != nil {
			t.Fatal(err)
		}
		if !roots.Ready(ref) || roots.Ready("x@"+img.Digest) == gone {
			t.Errorf("the new one is ready: %t; the old one is gone: %t, want %t", roots.Ready(ref), !roots.Ready("x@"+img.Digest), gone)
		}
		for r, o := range roots.open {
			roots.open[r] = opened{o.Root, o.at.Add(-2 * inUse)}
		}
	}
	// The tree goes with its image; the machine's own, whose files it shared, stays whole.
	if gone, err := s.Prune(t.Context(), 0); err != nil || len(gone.Images) != 1 {
		t.Errorf("%+v, %v", gone, err)
	}
	if left := inCache(t, cache); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	if got := in(t, own, "/usr/bin/python3", "-I", "-c", "print(1)"); got != "1" {
		t.Errorf("%q", got)
	}
}

func TestRootsRefuse(t *testing.T) {
	s := OpenImages(t.TempDir(), nil)
	roots := NewRoots("/", s)
	for _, ref := range []string{"python:3.13", "oci:/nowhere", "python@sha256:abc", "sha256:abc", "archive:x.tar"} {
		if _, err := roots.Of(t.Context(), ref); !errors.Is(err, ErrImage) || !strings.Contains(err.Error(), "digest") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if x, err := roots.Of(t.Context(), ""); err != nil || x.Dir != "/" || x.Image != "" || x.Python != "python3" {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := roots.Of(t.Context(), "oci:/nowhere@sha256:"+strings.Repeat("a", 64)); !errors.Is(err, ErrImage) {
		t.Errorf("%v", err)
	}
}

func TestUserOf(t *testing.T) {
	tree := t.TempDir()
	if err := os.MkdirAll(filepath.Join(tree, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for f, text := range map[string]string{"passwd": "root:x:0:0::/:/bin/sh\napp:x:501:502::/:/bin/sh\nhigh:x:90000:1::/:/\n", "group": "staff:x:50:\n"} {
		if err := os.WriteFile(filepath.Join(tree, "etc", f), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for user, want := range map[string][2]int{
		"": {}, "root": {}, "0:0": {}, "app": {501, 502}, "501": {501, 502}, "app:staff": {501, 50}, "777": {777, 777}, "777:888": {777, 888}, "app:0": {},
		"nobody-here": {-1}, "high": {-1}, "app:no-group": {-1}, "-5": {-1}, "99999999999999999999": {-1},
	} {
		uid, gid, err := userOf(tree, user)
		if want[0] < 0 {
			if !errors.Is(err, ErrImage) {
				t.Errorf("%q: %d, %d, %v", user, uid, gid, err)
			}
			continue
		}
		if err != nil || uid != want[0] || gid != want[1] {
			t.Errorf("%q: %d, %d, %v; want %v", user, uid, gid, err, want)
		}
	}
}

func TestInterpreterOfImage(t *testing.T) {
	own := ownTree(t)
	s := OpenImages(t.TempDir(), nil)
	img, err := s.Import(t.Context(), makeImage(t, "", archive(t,
		file{"usr/local/bin/python3", tar.TypeSymlink, "python3.13", 0}, file{"usr/local/bin/python3.13", 0, "\x7fELF of the image", 0o755},
		file{"opt/env/bin/python", 0, "another", 0o755}, file{"etc/passwd", 0, "app:x:501:502::/:/bin/sh\n", 0o644},
	)).layout(t))
	if err != nil {
		t.Fatal(err)
	}
	x, err := NewRoots(own, s).Of(t.Context(), img.Digest)
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string][2]string{"": {"\x7fELF of the image", "PYTHONHOME=/usr/local"}, "/opt/env/bin/python": {"another", "PYTHONHOME=/opt/env"}} {
		p, err := x.Interpreter(want)
		if err != nil || string(p.Program) != text[0] || p.Own || len(p.Env) != 1 || p.Env[0] != text[1] {
			t.Errorf("%q: %+v, %v", want, p, err)
		}
	}
	if _, err := x.Interpreter("/opt/none"); !errors.Is(err, ErrImage) {
		t.Errorf("%v", err)
	}
}

func FuzzWithInterp(f *testing.F) {
	f.Add([]byte("\x7fELF\x00/lib64/ld-linux-x86-64.so.2\x00"))
	f.Add([]byte("\x7fELFld-linux"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if out, err := withInterp(b, ownInterp); err == nil && len(out) != len(b) {
			t.Fatal("another length")
		}
	})
}
