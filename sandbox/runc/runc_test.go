package runc_test

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/agon-arena/agon/sandbox"
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

// A runtime that fails must leave nothing and be called the host's failure.
func TestBrokenRuntime(t *testing.T) {
	_, root, _ := setup(t)
	dir := t.TempDir()
	bin := dir + "/runc"
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n[ \"$1\" = --version ] && exec echo 'runc version 9'\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := runc.New(t.Context(), runc.Config{StateDir: dir, Binary: bin})
	if err != nil {
		t.Fatal(err)
	}
	if d.Info().Version != "9" {
		t.Errorf("version %q", d.Info().Version)
	}
	_, err = d.Start(t.Context(), sandbox.Spec{Name: "x", Rootfs: root})
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte(sandbox.ErrHost.Error())) {
		t.Errorf("got %v", err)
	}
	if ents, _ := os.ReadDir(dir + "/boxes"); len(ents) != 0 {
		t.Errorf("left %v", ents)
	}
}
