package tree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("kept"), 0o600))
	must(t, os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755))
	for i := range 2000 { // more than one read of a directory
		must(t, os.WriteFile(fmt.Sprintf("%s/a/f%d", dir, i), nil, 0o600))
	}
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "a/dirlink")))
	must(t, os.Mkdir(filepath.Join(dir, "shut"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "shut/x"), nil, 0o600))
	must(t, os.Chmod(filepath.Join(dir, "shut"), 0))
	deep(t, dir, 3000)
	must(t, Remove(dir))
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "kept" {
		t.Errorf("outside: %q, %v", b, err)
	}
	must(t, Remove(dir))
	must(t, Remove("/no/such/parent/x"))
	for _, p := range []string{"/", "relative", "", "."} {
		if Remove(p) == nil {
			t.Errorf("%q was accepted", p)
		}
	}
}

// deep nests directories below dir, each under a path too long to name.
func deep(t *testing.T, dir string, n int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range n {
		must(t, unix.Mkdirat(fd, "d", 0o755))
		next, err := unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		must(t, unix.Close(fd))
		fd = next
	}
	must(t, unix.Close(fd))
}

// A mount below the tree keeps everything in it, however it was made.
func TestRemoveStopsAtMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("LOUD: mounting needs root; this test did not run")
	}
	for _, tt := range []struct {
		name  string
		mount func(src, at string) error
		file  bool
	}{
		{"bind of the same file system", func(src, at string) error { return unix.Mount(src, at, "", unix.MS_BIND, "") }, false},
		{"recursive bind", func(src, at string) error { return unix.Mount(src, at, "", unix.MS_BIND|unix.MS_REC, "") }, false},
		{"other file system", func(_, at string) error {
			if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(at, "precious"), []byte("kept"), 0o600)
		}, false},
		{"overlay", func(src, at string) error {
			return unix.Mount("overlay", at, "overlay", unix.MS_RDONLY, "lowerdir="+src+":/usr/share/misc")
		}, false},
		{"file", func(src, at string) error {
			return unix.Mount(filepath.Join(src, "precious"), at, "", unix.MS_BIND, "")
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src, dir := t.TempDir(), filepath.Join(t.TempDir(), "box")
			precious := filepath.Join(src, "precious")
			must(t, os.WriteFile(precious, []byte("kept"), 0o600))
			at := filepath.Join(dir, "m/point")
			must(t, os.MkdirAll(filepath.Dir(at), 0o755))
			if tt.file {
				must(t, os.WriteFile(at, nil, 0o600))
			} else {
				must(t, os.Mkdir(at, 0o755))
			}
			must(t, tt.mount(src, at))
			if err := Remove(dir); !errors.Is(err, ErrMounted) {
				t.Errorf("got %v", err)
			}
			if err := Remove(at); !errors.Is(err, ErrMounted) {
				t.Errorf("the mount point itself: %v", err)
			}
			for _, p := range []string{precious, filepath.Join(at, "precious")} {
				if tt.file && p != precious {
					continue
				}
				if b, err := os.ReadFile(p); err != nil || string(b) != "kept" {
					t.Errorf("%s: %q, %v", p, b, err)
				}
			}
			must(t, unix.Unmount(at, unix.MNT_DETACH))
			must(t, Remove(dir))
			if b, err := os.ReadFile(precious); err != nil || string(b) != "kept" {
				t.Errorf("after unmounting: %q, %v", b, err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
