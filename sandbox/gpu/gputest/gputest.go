// Package gputest is the suite that every gpu.Driver passes, and a stand-in for
// hardware. It is for tests alone: nothing that plays a run imports it.
package gputest

import (
	"context"
	"errors"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/gpu"
)

// Run tests a driver of a machine with at least two GPUs.
func Run(t *testing.T, d gpu.Driver) {
	list, err := d.Devices(t.Context())
	if err != nil || len(list) < 2 {
		t.Fatalf("devices: %+v, %v: the suite needs two", list, err)
	}
	t.Run("devices", func(t *testing.T) {
		if err := agon.CheckGPUs(gpu.Facts(list)); err != nil {
			t.Error(err)
		}
		for i, x := range list {
			if x.ID != agon.GPUID(x.UUID) {
				t.Errorf("device %d: id %s is not that of %s", i, x.ID, x.UUID)
			}
			if i > 0 && list[i-1].Index >= x.Index {
				t.Errorf("devices are not in order: %d after %d", x.Index, list[i-1].Index)
			}
		}
	})
	t.Run("attach", func(t *testing.T) { testAttach(t, d, list) })
	t.Run("sample", func(t *testing.T) {
		s, err := d.Sample(t.Context(), list[0])
		if err != nil || s.At.IsZero() || s.ClockMHz <= 0 || s.ClockMHz > s.MaxMHz || s.MemoryMHz <= 0 {
			t.Errorf("%+v, %v", s, err)
		}
	})
	t.Run("timer", func(t *testing.T) { testTimer(t, d, list[0]) })
}

func testAttach(t *testing.T, d gpu.Driver, list []gpu.Device) {
	attach := func(ds ...gpu.Device) *sandbox.Devices {
		t.Helper()
		a, err := d.Attach(t.Context(), ds)
		if err != nil {
			t.Fatal(err)
		}
		spec := sandbox.Spec{Name: "x", Rootfs: "/", Devices: a, Limits: agon.Limits{GPUs: int64(len(ds))}}
		if spec, err = spec.Complete(); err != nil {
			t.Fatal(err)
		}
		if _, err := spec.WithDevices(); err != nil {
			t.Fatal(err)
		}
		spec.Limits.GPUs++
		if _, err := spec.Complete(); !errors.Is(err, sandbox.ErrSpec) {
			t.Errorf("a box with one device fewer than its limit says: %v", err)
		}
		return a
	}
	has := func(a *sandbox.Devices) map[string]bool {
		out := map[string]bool{}
		for _, n := range a.Nodes {
			if out[n.Path] {
				t.Errorf("%s is there twice", n.Path)
			}
			out[n.Path] = true
		}
		return out
	}
	first, second, both := has(attach(list[0])), has(attach(list[1])), has(attach(list[0], list[1]))
	own := 0
	for p := range first {
		if !second[p] {
			own++
		}
		if !both[p] {
			t.Errorf("two devices lack %s, which one of them has", p)
		}
	}
	if own != 1 || len(both) != len(first)+1 {
		t.Errorf("nodes: %v, %v, %v: want one of its own for each card", first, second, both)
	}
	unknown := list[0]
	unknown.UUID, unknown.Index, unknown.Minor = "GPU-00000000-0000-0000-0000-000000000000", 99, 99
	if _, err := d.Attach(t.Context(), []gpu.Device{unknown}); !errors.Is(err, sandbox.ErrHost) {
		t.Errorf("a device that is not here: %v, want ErrHost", err)
	}
}

func testTimer(t *testing.T, d gpu.Driver, x gpu.Device) {
	tm, err := d.Timer(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	defer tm.Close()
	if _, err := tm.Stop(t.Context()); !errors.Is(err, gpu.ErrDriver) {
		t.Errorf("stop without start: %v", err)
	}
	for range 2 {
		if err := tm.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		took, err := tm.Stop(t.Context())
		if err != nil || took < 0 {
			t.Fatalf("%v, %v", took, err)
		}
	}
	for range 2 {
		if err := tm.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := tm.Start(t.Context()); err == nil {
		t.Error("a closed timer starts")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if late, err := d.Timer(ctx, x); err == nil {
		if err := late.Start(ctx); err == nil {
			t.Error("a timer works for a caller that has gone")
		}
		_ = late.Close()
	}
}
