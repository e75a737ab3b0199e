package gpu_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/gpu"
)

// boxes is a box driver by name only.
type boxes struct {
	sandbox.Driver
	gives bool
}

func (b boxes) Info() agon.Driver  { return agon.Driver{Name: "named"} }
func (b boxes) GivesDevices() bool { return b.gives }

// What a machine has and lacks is said, each with its mend; a whole one has no complaint.
func TestInspect(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*testing.T, *machine, *gpu.Machine)
		want string // "NAME STATE", and part of detail or mend
	}{
		"whole": {func(*testing.T, *machine, *gpu.Machine) {}, ""},
		"none": {func(t *testing.T, m *machine, _ *gpu.Machine) {
			os.RemoveAll(filepath.Join(m.root, "proc"))
			os.RemoveAll(filepath.Join(m.root, "sys"))
		}, "cards warn no GPU"},
		"other maker": {func(t *testing.T, m *machine, _ *gpu.Machine) {
			os.RemoveAll(filepath.Join(m.root, "proc"))
			m.write(t, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x1002\n")
		}, "cards warn 1 of AMD"},
		"no driver": {func(t *testing.T, m *machine, _ *gpu.Machine) { os.RemoveAll(filepath.Join(m.root, "proc")) }, "driver fail modprobe"},
		"smi":       {func(t *testing.T, m *machine, _ *gpu.Machine) { m.devices = "Failed to initialize NVML\n" }, "driver fail want 6 fields"},
		"clocks": {func(t *testing.T, m *machine, _ *gpu.Machine) {
			m.sample = strings.Replace(m.sample, "0x0000000000000006", "0x0", 1)
		}, "card 0 warn --lock-gpu-clocks"},
		"in use": {func(t *testing.T, m *machine, _ *gpu.Machine) {
			m.sample = strings.Replace(m.sample, ", 4,", ", 40000,", 1)
		}, "card 0 warn 40000 MiB"},
		"no cdi": {func(t *testing.T, m *machine, _ *gpu.Machine) {
			os.Remove(filepath.Join(m.root, "etc/cdi/nvidia.yaml"))
		}, "cdi fail nvidia-ctk"},
		"bwrap":    {func(t *testing.T, _ *machine, x *gpu.Machine) { x.Boxes = boxes{} }, "boxes fail gives no box a GPU"},
		"no boxes": {func(t *testing.T, _ *machine, x *gpu.Machine) { x.Boxes = nil }, "boxes fail no box driver"},
		"old gvisor": {func(t *testing.T, _ *machine, x *gpu.Machine) {
			x.Supported = func(context.Context, string) (bool, error) { return false, nil }
		}, "boxes fail does not know driver 570.86.15"},
		"no timer": {func(t *testing.T, m *machine, _ *gpu.Machine) { m.config.Cuda = "/nonexistent.so" }, "timer warn libcuda1"},
	} {
		m := newMachine(t)
		m.sample = "1410, 1593, 1410, 44, 71.21, 4, 0x0000000000000006\n"
		m.write(t, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
		m.write(t, "sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n")
		x := gpu.Machine{Boxes: boxes{gives: true}, Locks: gpu.Locks{Dir: t.TempDir()}}
		c.edit(t, m, &x)
		found := ""
		for _, f := range m.driver(t).Inspect(t.Context(), x) {
			line := strings.Join([]string{f.Name, f.State, f.Detail, f.Mend}, " ")
			if f.State != gpu.FindingOK {
				found += line + "\n"
			} else if f.Mend != "" {
				t.Errorf("%s: %q is well and has a mend", name, line)
			}
		}
		ok := found == ""
		if name, rest, _ := strings.Cut(c.want, " fail "); rest != "" {
			ok = strings.Contains(found, name+" fail ") && strings.Contains(found, rest)
		} else if name, rest, _ := strings.Cut(c.want, " warn "); rest != "" {
			ok = strings.Contains(found, name+" warn ") && strings.Contains(found, rest)
		}
		if !ok {
			t.Errorf("%s: %q, want %q", name, found, c.want)
		}
	}
}
