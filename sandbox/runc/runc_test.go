package runc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/runc"
	"github.com/agon-arena/agon/sandbox/sandboxtest"
)

func setup(t testing.TB) (*runc.Driver, string, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("LOUD: runc boxes need root; these tests did not run")
	}
	root, err := rootfs.Ensure(t.Context(), rootfs.Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	d, err := runc.New(t.Context(), runc.Config{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return d, root, dir
}

func TestConformance(t *testing.T) {
	d, root, dir := setup(t)
	sandboxtest.Run(t, sandboxtest.Config{Driver: d, Rootfs: root, StateDir: dir})
}

func BenchmarkBox(b *testing.B) {
	d, root, _ := setup(b)
	sandboxtest.Benchmark(b, d, root)
}

func TestNoBinary(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("LOUD: runc boxes need root; these tests did not run")
	}
	if _, err := runc.New(context.Background(), runc.Config{StateDir: t.TempDir(), Binary: "no-such-runtime"}); err == nil {
		t.Fatal("made a driver of nothing")
	}
}

// script makes a stand-in for the runtime.
func script(t *testing.T, text string) string {
	t.Helper()
	real, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir() + "/runc"
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n"+strings.ReplaceAll(text, "REAL", real)+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}

func boxes(t *testing.T, dir string) int {
	t.Helper()
	ents, err := os.ReadDir(dir + "/boxes")
	if err != nil {
		t.Fatal(err)
	}
	return len(ents)
}

// A runtime that fails must leave nothing and be called the host's failure.
func TestBrokenRuntime(t *testing.T) {
	_, root, _ := setup(t)
	for _, text := range []string{
		"[ \"$1\" = --version ] && exec echo 'runc version 9'; exit 1",
		"[ \"$1\" = --version ] && exec echo 'runc version 9'; kill -9 $$",
		"[ \"$1\" = --version ] && exec echo 'runc version 9'; exit 0",
	} {
		dir := t.TempDir()
		d, err := runc.New(t.Context(), runc.Config{StateDir: dir, Binary: script(t, text)})
		if err != nil {
			t.Fatal(err)
		}
		if d.Info().Version != "9" {
			t.Errorf("version %q", d.Info().Version)
		}
		if _, err = d.Start(t.Context(), sandbox.Spec{Name: "x", Rootfs: root}); !errors.Is(err, sandbox.ErrHost) {
			t.Errorf("got %v", err)
		}
		if n := boxes(t, dir); n != 0 {
			t.Errorf("left %d boxes", n)
		}
	}
}

// The runtime's client is killed while it starts a box: nobody inside can do that.
func TestClientKilled(t *testing.T) {
	_, root, _ := setup(t)
	for _, how := range []string{
		`case "$*" in *" run "*) kill -9 $$;; esac; exec REAL "$@"`,
		`case "$*" in *" run "*) REAL "$@"; kill -9 $$;; esac; exec REAL "$@"`, // the box runs already
	} {
		dir := t.TempDir()
		d, err := runc.New(t.Context(), runc.Config{StateDir: dir, Binary: script(t, how)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Start(t.Context(), sandbox.Spec{Name: "x", Rootfs: root}); !errors.Is(err, sandbox.ErrHost) {
			t.Errorf("got %v", err)
		}
		if n := boxes(t, dir); n != 0 {
			t.Errorf("left %d boxes", n)
		}
	}
}

// When the host runs out of memory it may be a small box that is killed.
func TestHostOutOfMemory(t *testing.T) {
	_, root, _ := setup(t)
	h, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	// A group above the box that is smaller than it stands for the host.
	h.Parent = fmt.Sprintf("agon-test-%d", os.Getpid())
	base, file := h.V1["memory"], "memory.limit_in_bytes"
	if h.V2 != "" {
		base, file = h.V2, "memory.max"
	}
	d, err := runc.New(t.Context(), runc.Config{StateDir: t.TempDir(), CgroupParent: h.Parent})
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Start(t.Context(), sandbox.Spec{Name: "x", Rootfs: root, Limits: agon.Limits{MemoryBytes: 512 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, h.Parent, file), []byte("50000000"), 0); err != nil {
		t.Fatal(err)
	}
	e, err := b.Exec(t.Context(), sandbox.Cmd{Args: []string{"python3", "-c", "b = bytearray(200 << 20)"}, Untrusted: true})
	if err != nil || e.Lost != "host_oom" || e.Limit != "" {
		t.Errorf("%+v, %v", e, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := h.Group("").Remove(); err != nil {
		t.Error(err)
	}
}

// smallDisk is a state directory on a file system of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestHostDiskFull(t *testing.T) {
	_, root, _ := setup(t)
	t.Run("while preparing", func(t *testing.T) {
		dir := smallDisk(t, "64k")
		d, err := runc.New(t.Context(), runc.Config{StateDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/fill", make([]byte, 64<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Start(t.Context(), sandbox.Spec{Name: "x", Rootfs: root}); !errors.Is(err, sandbox.ErrHost) {
			t.Errorf("got %v", err)
		}
		if n := boxes(t, dir); n != 0 {
			t.Errorf("left %d boxes", n)
		}
	})
	t.Run("while running", func(t *testing.T) {
		dir := smallDisk(t, "100m")
		d, err := runc.New(t.Context(), runc.Config{StateDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		// A quota larger than the host's disk cannot lie in memory.
		b, err := d.Start(t.Context(), sandbox.Spec{
			Name: "x", Rootfs: root, Limits: agon.Limits{DiskBytes: 4 << 30},
			Mounts: []sandbox.Mount{{Kind: sandbox.MountScratch, Target: "/work"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		e, err := b.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", "dd if=/dev/zero of=/work/x bs=1M count=60; sleep 1000"}, Untrusted: true})
		if err != nil || e.Lost != "host_disk" || e.Limit != "" {
			t.Errorf("%+v, %v", e, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if end := b.End(); end.Killed != "host_disk" {
			t.Errorf("end %+v", end)
		}
	})
}
