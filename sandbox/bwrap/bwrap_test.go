package bwrap_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/agon-arena/agon/sandbox/bwrap"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	netns.MaybeChild()
	os.Exit(m.Run())
}

func setup(t testing.TB) (*bwrap.Driver, string, string) {
	t.Helper()
	root, err := rootfs.Ensure(t.Context(), rootfs.Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	d, err := bwrap.New(t.Context(), bwrap.Config{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return d, root, dir
}

// TestConformance runs as whoever the tests run as.
func TestConformance(t *testing.T) {
	d, root, dir := setup(t)
	sandboxtest.Run(t, sandboxtest.Config{Driver: d, Rootfs: root, StateDir: dir})
	if os.Geteuid() != 0 {
		for _, l := range []string{"memory", "disk", "inodes", "cpu", "cpu_time"} {
			if slices.Contains(d.Info().Limits, l) {
				t.Errorf("claims %q without root", l)
			}
		}
	}
}

// TestWithoutRoot runs TestConformance again as a user without any privilege.
func TestWithoutRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("TestConformance already runs without root")
	}
	const uid = 54321
	dir, err := os.MkdirTemp("", "agon-bwrap-") // not t.TempDir: its parents are shut for others
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin, tmp := filepath.Join(dir, "bwrap.test"), filepath.Join(dir, "tmp")
	copyFile(t, "/proc/self/exe", bin)
	for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(tmp, 0o755), os.Chown(tmp, uid, uid)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rootfs.Ensure(t.Context(), rootfs.Config{Log: os.Stderr}); err != nil {
		t.Fatal(err) // the other user takes root's tree
	}
	cmd := exec.CommandContext(t.Context(), bin, "-test.run=^TestConformance$", "-test.v", "-test.count=1")
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + tmp, "TMPDIR=" + tmp}
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	t.Log(string(out))
	if err != nil || !strings.Contains(string(out), "--- PASS: TestConformance") || strings.Contains(string(out), "SKIP") {
		t.Fatalf("without root: %v", err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkBox(b *testing.B) {
	d, root, _ := setup(b)
	sandboxtest.Benchmark(b, d, root)
}
