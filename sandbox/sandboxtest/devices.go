package sandboxtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/sandbox"
)

// fakeDevices makes two nodes on the host that stand for cards (they are /dev/zero by
// other names), and gives a box the first of them.
func fakeDevices(t *testing.T) (given *sandbox.Devices, other string) {
	t.Helper()
	var paths []string
	for range 2 {
		p := fmt.Sprintf("/dev/agontest-%d-%d", os.Getpid(), len(paths))
		_ = os.Remove(p)
		if err := unix.Mknod(p, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(p) })
		if err := os.Chmod(p, 0o666); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	lib := filepath.Join(t.TempDir(), "lib")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lib, "libfake.so.1"), []byte("a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	return &sandbox.Devices{
		IDs: []string{"fake"}, Nodes: []sandbox.DeviceNode{{Path: paths[0], Major: 1, Minor: 5}},
		Mounts: []sandbox.DeviceMount{{Source: lib, Target: "/opt/agon-gpu"}}, Env: []string{"LD_LIBRARY_PATH=/opt/agon-gpu"},
	}, paths[1]
}

// testDevices wants a driver to give a box the devices of its spec and no other, or to
// refuse them: what it cannot bound it must not pass on.
func testDevices(t *testing.T, s *suite) {
	if os.Geteuid() != 0 {
		spec := s.spec(func(sp *sandbox.Spec) {
			sp.Limits.GPUs, sp.Devices = 1, &sandbox.Devices{IDs: []string{"fake"}, Nodes: []sandbox.DeviceNode{{Path: "/dev/zero", Major: 1, Minor: 5}}}
		})
		if _, err := s.Driver.Start(t.Context(), spec); !errors.Is(err, sandbox.ErrHost) {
			t.Errorf("a device without root: %v, want ErrHost", err)
		}
		return
	}
	given, other := fakeDevices(t)
	with := func(sp *sandbox.Spec) { sp.Limits.GPUs, sp.Devices = 1, given }
	if _, err := s.Driver.Start(t.Context(), s.spec(func(sp *sandbox.Spec) { sp.Limits.GPUs = 1 })); !errors.Is(err, sandbox.ErrSpec) {
		t.Errorf("gpus without a device: %v, want ErrSpec", err)
	}
	if !sandbox.GivesDevices(s.Driver) || s.Driver.Info().Name == "runsc" { // gVisor passes on NVIDIA's alone
		_, err := s.Driver.Start(t.Context(), s.spec(with))
		if !errors.Is(err, sandbox.ErrHost) || !strings.Contains(err.Error(), "runc") {
			t.Errorf("a device that %s cannot give: %v, want ErrHost and what can", s.Driver.Info().Name, err)
		}
		return
	}
	b := s.start(t, with)
	look := fmt.Sprintf("cat %s/libfake.so.1; head -c 4 %s | od -An -tx1; echo $LD_LIBRARY_PATH; (: > /opt/agon-gpu/x) 2>/dev/null && echo writable; ls %s 2>&1 >/dev/null; ls /dev",
		"/opt/agon-gpu", given.Nodes[0].Path, other)
	r := sh(t, b, look)
	if !strings.HasPrefix(r.out, "a library 00 00 00 00\n/opt/agon-gpu\n") || strings.Contains(r.out, "writable") ||
		strings.Contains(r.out, filepath.Base(other)+"\n") || !strings.Contains(r.out, filepath.Base(given.Nodes[0].Path)) {
		t.Errorf("a box with a device: %q", r.out)
	}
	// A box beside it has none, and nobody in one makes a node.
	r = sh(t, s.start(t, nil), "ls /dev; mknod /tmp/z c 1 5 2>&1; echo $LD_LIBRARY_PATH")
	if strings.Contains(r.out, "agontest") || strings.Contains(r.out, "agon-gpu") || !strings.Contains(r.out, "mknod:") {
		t.Errorf("a box without devices: %q", r.out)
	}
}
