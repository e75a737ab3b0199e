package runsc_test

import (
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/agon-arena/agon"
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

// images has the suites play boxes that were made of images: make images.
var images = flag.Bool("images", false, "play the suites in boxes made of images")

// suite is what the suites are played with.
func suite(t *testing.T) sandboxtest.Config {
	d, root, dir := setup(t)
	c := sandboxtest.Config{Driver: d, Rootfs: root, StateDir: dir}
	if *images {
		of := &runsc.Imaged{Driver: d, T: t}
		t.Cleanup(func() { t.Logf("%d boxes were made of images", of.Made()) })
		c.Driver = of
	}
	return c
}

func TestConformance(t *testing.T) { sandboxtest.Run(t, suite(t)) }

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

// gVisor says which versions of NVIDIA's driver it knows. Where the kernel has none, a
// box with such devices does not start: that is the machine's failure, and nothing stays.
func TestNvidiaDriver(t *testing.T) {
	d, root, dir := setup(t)
	for version, want := range map[string]bool{"570.124.06": true, "1.2.3": false} {
		if ok, err := d.SupportsNvidia(t.Context(), version); ok != want || err != nil {
			t.Errorf("driver %s is known: %v, %v; want %v", version, ok, err, want)
		}
	}
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		t.Log("LOUD: this machine has NVIDIA's driver; the refusal without one was not tested")
		return
	}
	given := &sandbox.Devices{IDs: []string{"x"}, Proxy: true, Nodes: []sandbox.DeviceNode{{Path: "/dev/nvidiactl", Major: 195, Minor: 255}, {Path: "/dev/nvidia0", Major: 195}}}
	_, err := d.Start(t.Context(), sandbox.Spec{Name: "x", Rootfs: root, Devices: given, Limits: agon.Limits{GPUs: 1}})
	if !errors.Is(err, sandbox.ErrHost) {
		t.Errorf("a GPU without a driver: %v, want ErrHost", err)
	}
	if ents, err := os.ReadDir(dir + "/boxes"); err != nil || len(ents) != 0 {
		t.Errorf("left %v, %v", ents, err)
	}
}
