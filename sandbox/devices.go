package sandbox

import (
	"fmt"
	"path"
	"strings"

	"github.com/agon-arena/agon"
)

// DeviceGiver is a Driver that can give boxes devices. It is not one of the limits that
// Info names: they are part of every score's key, and this changes no score.
type DeviceGiver interface{ GivesDevices() bool }

// GivesDevices reports whether a driver can give boxes devices.
func GivesDevices(d Driver) bool {
	g, ok := d.(DeviceGiver)
	return ok && g.GivesDevices()
}

// Devices are devices of the host that a box is given, and what comes with them.
// They are the host's own and trusted: a task or a contestant never names one.
type Devices struct {
	// IDs name the cards, for logs.
	IDs []string
	// Nodes are character devices. The box sees them under the path of the host.
	Nodes []DeviceNode
	// Mounts are files of the host that the devices need, such as their driver's
	// libraries, shown read-only, each at its Target.
	Mounts []DeviceMount
	// Env is added to the box's environment ("K=V").
	Env []string
	// Hooks run on the host, as root, when the container is created, and only those
	// that the operator has named (package sandbox/gpu). gVisor runs none.
	Hooks []DeviceHook
	// Proxy says that gVisor passes the devices on by its nvproxy, which knows the calls
	// of NVIDIA's driver; it cannot pass on others.
	Proxy bool
}

// DeviceNode is a character device.
type DeviceNode struct {
	Path         string // below /dev, on the host and in the box
	Major, Minor int64
}

// DeviceMount shows one file or directory of the host.
type DeviceMount struct {
	Source, Target string
}

// DeviceHook is a program of the host.
type DeviceHook struct {
	Path string
	Args []string // the first is the program's own name
	Env  []string
}

// Bounds of Devices.
const (
	maxDeviceNodes  = 256
	maxDeviceMounts = 512
	maxDeviceEnv    = 64
	maxDeviceHooks  = 16
)

// check compares devices with what the limits ask for. Errors wrap ErrSpec.
func (d *Devices) check(l agon.Limits) error {
	bad := func(format string, a ...any) error { return fmt.Errorf("%w: %s", ErrSpec, fmt.Sprintf(format, a...)) }
	switch {
	case d == nil && l.GPUs == 0:
		return nil
	case d == nil:
		return bad("limit gpus is %d, but the box was given no device", l.GPUs)
	case int64(len(d.IDs)) != l.GPUs:
		return bad("limit gpus is %d, but the box was given %d", l.GPUs, len(d.IDs))
	case len(d.Nodes) == 0 || len(d.Nodes) > maxDeviceNodes:
		return bad("%d device nodes: want 1 to %d", len(d.Nodes), maxDeviceNodes)
	case len(d.Mounts) > maxDeviceMounts || len(d.Env) > maxDeviceEnv || len(d.Hooks) > maxDeviceHooks:
		return bad("devices have %d mounts, %d variables and %d hooks, at most %d, %d and %d",
			len(d.Mounts), len(d.Env), len(d.Hooks), maxDeviceMounts, maxDeviceEnv, maxDeviceHooks)
	}
	for _, n := range d.Nodes {
		if path.Clean(n.Path) != n.Path || !strings.HasPrefix(n.Path, "/dev/") || len(n.Path) > 200 || n.Major < 0 || n.Minor < 0 {
			return bad("device node %.200q: want a clean path below /dev", n.Path)
		}
	}
	for _, m := range d.Mounts {
		if !path.IsAbs(m.Source) || !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target {
			return bad("device mount %.200q at %.200q: want clean absolute paths", m.Source, m.Target)
		}
	}
	return nil
}

// WithDevices is the spec in which the files and variables of its devices are mounts
// and variables like any other. Drivers call it once, after Complete. What the caller
// mounts at the same place or names itself comes first.
func (s Spec) WithDevices() (Spec, error) {
	if s.Devices == nil {
		return s, nil
	}
	taken := map[string]bool{}
	for _, m := range s.Mounts {
		taken[m.Target] = true
	}
	var mounts []Mount
	for _, m := range s.Devices.Mounts {
		if taken[m.Target] {
			continue
		}
		taken[m.Target] = true
		for _, p := range []string{"/proc", "/dev", "/sys"} {
			if m.Target == p || strings.HasPrefix(m.Target, p+"/") {
				return Spec{}, fmt.Errorf("%w: device mount at %.200q: %s belongs to the driver", ErrSpec, m.Target, p)
			}
		}
		mounts = append(mounts, Mount{Kind: MountReadOnly, Source: m.Source, Target: m.Target, Exec: true})
	}
	s.Mounts = append(mounts, s.Mounts...)
	s.Env = append(append([]string(nil), s.Devices.Env...), s.Env...)
	var err error
	s.Env, err = checkEnv(s.Env, true)
	return s, err
}
