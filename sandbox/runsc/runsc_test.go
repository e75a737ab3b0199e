package runsc_test

import (
	"errors"
	"os"
	"testing"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/runsc"
	"github.com/agon-arena/agon/sandbox/sandboxtest"
)

func setup(t testing.TB) (*runsc.Driver, string, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("LOUD: gVisor boxes need root; these tests did not run")
	}
	bin, err := runsc.Ensure(t.Context(), runsc.BuildConfig{Log: os.Stderr})
	if errors.Is(err, runsc.ErrNoGo) {
		t.Skipf("LOUD: %v; these tests did not run", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	root, err := rootfs.Ensure(t.Context(), rootfs.Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	d, err := runsc.New(t.Context(), runsc.Config{StateDir: dir, Binary: bin})
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
		t.Skip("LOUD: gVisor boxes need root; these tests did not run")
	}
	_, err := runsc.New(t.Context(), runsc.Config{StateDir: t.TempDir(), Binary: t.TempDir() + "/runsc"})
	if !errors.Is(err, sandbox.ErrHost) {
		t.Fatalf("got %v", err)
	}
}
