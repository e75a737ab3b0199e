package layers

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
)

func limits() agon.Limits { return agon.Limits{DiskBytes: 8 << 20, Inodes: 1000} }

func write(t *testing.T, p, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A hostile tree is copied without following or making anything odd.
func TestCopyTree(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	write(t, src+"/dir/a", "a")
	write(t, src+"/sparse", "x")
	for _, err := range []error{
		os.Symlink("/etc/passwd", src+"/abs"), os.Symlink("../../../etc", src+"/dir/up"), os.Chmod(src+"/dir/a", 0o4755),
		unix.Mkfifo(src+"/fifo", 0o644), os.Truncate(src+"/sparse", 1<<40), os.Mkdir(src+"/shut", 0o500),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := copyTree(src, dst, -1, -1); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(dst + "/abs"); to != "/etc/passwd" {
		t.Errorf("%q, %v", to, err)
	}
	if _, err := os.Lstat(dst + "/fifo"); err == nil {
		t.Error("copied a FIFO")
	}
	if fi, err := os.Lstat(dst + "/dir/a"); err != nil || fi.Mode() != 0o755 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	fi, err := os.Stat(dst + "/sparse")
	if err != nil || fi.Size() != 1<<40 || fi.Sys().(*syscall.Stat_t).Blocks > 64 {
		t.Errorf("sparse file: %+v, %v", fi, err)
	}
	deep := t.TempDir()
	if err := os.MkdirAll(deep+strings.Repeat("/d", maxCopyDepth+3), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := copyTree(deep, t.TempDir(), -1, -1); !errors.Is(err, sandbox.ErrSpec) {
		t.Errorf("deep: %v", err)
	}
}

// What an agent leaves deeper than a path is long can still be removed.
func TestRemoveDeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("n", 200)
	for range 400 { // 80 kB of path
		if err := unix.Mkdirat(fd, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		_ = unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	_ = unix.Close(fd)
	sp := &Space{pool: &storage{dir: dir}}
	if b, n := sp.Usage(); b < 1<<50 || n < 1<<50 {
		t.Errorf("a tree too deep to count is %d bytes, %d inodes", b, n)
	}
	if err := removeAll(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("still there")
	}
}

func TestPlace(t *testing.T) {
	if _, err := Open(t.TempDir() + "/a:b"); !errors.Is(err, sandbox.ErrHost) {
		t.Errorf("a colon, which overlay options cannot carry: %v", err)
	}
	if os.Geteuid() != 0 {
		return
	}
	// Below a directory that others may not pass through, mounts lie elsewhere.
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir + "/state")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.mnt, "/run/agon/") || !strings.HasPrefix(s.data, dir) {
		t.Errorf("%s, %s", s.mnt, s.data)
	}
	sp, err := s.New(limits(), 1000, 1000)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sp.Add(sandbox.Mount{Kind: sandbox.MountScratch, Target: "/work"})
	if err != nil || !passable(p) {
		t.Errorf("%s, %v", p, err)
	}
	if err := sp.Close(); err != nil {
		t.Error(err)
	}
	if ents, err := os.ReadDir(s.data); err != nil || len(ents) != 0 {
		t.Errorf("left %v, %v", ents, err)
	}
	if _, err := os.Lstat(s.mnt); err == nil {
		t.Errorf("left %s", s.mnt)
	}
}

// File systems without id maps (overlayfs itself, as in a container) are copied.
func TestOverlayOverOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("LOUD: mounts need root; this test did not run")
	}
	base := t.TempDir()
	src := base + "/merged"
	write(t, base+"/lower/f", "lower")
	for _, d := range []string{src, base + "/upper", base + "/work"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("overlay", src, "overlay", 0, "lowerdir="+base+"/lower,upperdir="+base+"/upper,workdir="+base+"/work"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(src, unix.MNT_DETACH) }()
	s, err := Open(base + "/state")
	if err != nil {
		t.Fatal(err)
	}
	sp, err := s.New(limits(), 1000, 1000)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sp.Add(sandbox.Mount{Kind: sandbox.MountOverlay, Source: src, Target: "/repo"})
	if err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(p + "/f")
	if err != nil || fi.Sys().(*syscall.Stat_t).Uid != HostBase+1000 {
		t.Errorf("%+v, %v", fi, err)
	}
	write(t, p+"/f", "changed")
	if b, err := os.ReadFile(src + "/f"); string(b) != "lower" {
		t.Errorf("the source changed: %q, %v", b, err)
	}
	if b, err := sp.ReadFile("/repo/f", 100); string(b) != "changed" {
		t.Errorf("%q, %v", b, err)
	}
	ro, err := sp.Add(sandbox.Mount{Kind: sandbox.MountReadOnly, Source: src, Target: "/ro"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ro+"/x", nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("wrote to a read-only mount: %v", err)
	}
	if err := sp.Close(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), base+"/state") {
		t.Errorf("left mounts: %v", err)
	}
}

func TestAbandoned(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	living := idPrefix(cmd.Process.Pid) + "000000" // at least a zombie until Wait
	if Abandoned(living) {
		t.Error("a living process's box")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	own := newID()
	foreign := own[:1] + "ffff" + own[5:]
	if own[1:5] == "ffff" {
		foreign = own[:1] + "0000" + own[5:]
	}
	for id, want := range map[string]bool{
		own: false, living: true, foreign: false, foreign[:5] + living[5:]: false, "": false, "b" + strings.Repeat("z", 24): false, "b" + strings.Repeat("0", 12): false, "other": false,
	} {
		if got := Abandoned(id); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}

func TestSweepLeavesOthers(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	sp, err := s.New(limits(), 1000, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sp.Close(); err != nil {
			t.Error(err)
		}
	}()
	write(t, s.data+"/not-a-box/x", "")
	write(t, s.data+"/b00000000000000000000000f/owner", "1 1\n")    // process 1 started at another time
	half := s.data + "/.new-" + sp.ID[:5] + "7fffffff" + sp.ID[13:] // of a process that is no more
	write(t, half+"/x", "")
	defer func() {
		if _, err := os.Lstat(half); err == nil {
			t.Error("a half-made directory stays")
		}
	}()
	ended := []string{}
	n, err := Sweep(dir, func(id string) error { ended = append(ended, id); return nil })
	// Boxes of other dead processes of this machine may be among them.
	if err != nil || n != len(ended) || !slices.Contains(ended, "b00000000000000000000000f") || slices.Contains(ended, sp.ID) {
		t.Errorf("%d, %v, %v", n, ended, err)
	}
	for _, p := range []string{s.data + "/not-a-box/x", sp.dir + "/owner"} {
		if _, err := os.Lstat(p); err != nil {
			t.Error(err)
		}
	}
}
