// Package runc runs boxes with an OCI runtime: a container per box with user,
// pid, ipc, uts, mount, cgroup and network namespaces, cgroup limits, seccomp,
// an overlay root and no capability. It needs root.
//
// What it shares with gVisor boxes is in sandbox/internal/container.
package runc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
	"github.com/agon-arena/agon/sandbox/internal/container"
	"github.com/agon-arena/agon/sandbox/internal/entry"
	"github.com/agon-arena/agon/sandbox/internal/layers"
	"github.com/agon-arena/agon/sandbox/netns"
)

// Config makes a driver.
type Config struct {
	// StateDir holds the boxes of this process. It must not be shared with
	// code that runs in boxes. Required.
	StateDir string
	// Binary is the runtime; empty looks for "runc".
	Binary string
	// CgroupParent is the group that boxes' groups are made in, one name;
	// empty means "agon". Sweep looks in that one only.
	CgroupParent string
}

// Driver implements sandbox.Driver.
type Driver struct {
	bin   string   // what is executed
	image *os.File // the runtime in memory, which bin names; may be nil
	entry string   // the box's first process
	info  agon.Driver
	cg    *cgroup.Host
	store *layers.Store
	// bounds says that the memory of sockets is bounded, without which memory is not.
	bounds bool
}

// startTimeout bounds one call of the runtime.
const startTimeout = 60 * time.Second

// New looks whether runc can work here, without starting a box. It makes this
// process the reaper of its orphaned descendants: a box is started by a
// short-lived runtime process and becomes our child when that ends. The first
// process of boxes is built if it is not cached, which takes seconds.
func New(ctx context.Context, c Config) (*Driver, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: runc boxes need root", sandbox.ErrHost)
	}
	if c.Binary == "" {
		c.Binary = "runc"
	}
	bin, err := exec.LookPath(c.Binary)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is missing; install it with: apt-get install runc", sandbox.ErrHost, c.Binary)
	}
	// From memory where that works; see sealed.
	var out []byte
	image, err := sealed(bin)
	if err == nil {
		// The name holds in a child too, until it executes.
		name := fmt.Sprintf("/proc/self/fd/%d", image.Fd())
		if out, err = exec.CommandContext(ctx, name, "--version").Output(); err == nil {
			bin = name
		} else {
			_ = image.Close()
			image = nil
		}
	}
	if image == nil {
		out, err = exec.CommandContext(ctx, bin, "--version").Output()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: run %s --version: %w", sandbox.ErrHost, bin, err)
	}
	cg, err := cgroup.Detect()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	if c.CgroupParent != "" {
		cg.Parent = c.CgroupParent
	}
	if cg.V2 == "" && (cg.V1["memory"] == "" || cg.V1["pids"] == "" || cg.V1["cpu"] == "") {
		return nil, fmt.Errorf("%w: no memory, pids and cpu cgroups are mounted", sandbox.ErrHost)
	}
	first, err := entry.Ensure(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	store, err := layers.Open(c.StateDir)
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("%w: become reaper of orphans: %w", sandbox.ErrHost, err)
	}
	d := &Driver{bin: bin, image: image, entry: first, cg: cg, store: store, info: agon.Driver{
		Name: "runc", Version: version(string(out)),
		Limits: []string{"memory", "pids", "cpu", "cpu_time", "disk", "inodes", "output", "wall", "seccomp", "userns"},
	}}
	if d.bounds = errors.Join(cg.BoundsSockets(), netns.CanBound()) == nil; !d.bounds {
		d.info.Limits[0] = "memory_soft"
	}
	return d, nil
}

// version takes "1.1.5+ds1" out of "runc version 1.1.5+ds1\n…".
func version(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	f := strings.Fields(line)
	if len(f) == 0 {
		return "unknown"
	}
	return f[len(f)-1]
}

// Info implements sandbox.Driver.
func (d *Driver) Info() agon.Driver { return d.info }

// GivesDevices implements sandbox.DeviceGiver.
func (d *Driver) GivesDevices() bool { return true }

// Start implements sandbox.Driver.
func (d *Driver) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	spec, err := spec.Complete()
	if err != nil {
		return nil, err
	}
	if spec, err = spec.WithDevices(); err != nil {
		return nil, err
	}
	b, err := container.Start(ctx, container.Config{Spec: spec, Store: d.store, Cgroups: d.cg, Runtime: &machine{d: d}})
	if err != nil {
		return nil, err // and no Box, not even a nil one
	}
	return b, nil
}

// machine implements container.Runtime.
type machine struct {
	d     *Driver
	ns    *netns.NS
	doors *netns.Doors
}

// Launch implements container.Runtime.
func (m *machine) Launch(_ context.Context, b *container.Box, stdin *os.File) (int, error) {
	pid, err := m.run(b, stdin)
	if err != nil || b.Spec.Network {
		return pid, err
	}
	// The namespace has to be one of the box's own user namespace, so it is the
	// runtime that makes it, and we who open the doors in it, before any command runs.
	if m.ns, err = netns.Of(pid); err != nil {
		return pid, err
	}
	if m.d.bounds {
		if err := errors.Join(m.ns.Bound(), b.Group.BoundSockets(b.Spec.Limits.MemoryBytes)); err != nil {
			return pid, err
		}
	}
	b.Sockets = m.ns.Sockets
	m.doors, err = m.ns.Open(b.Spec.Doors)
	return pid, err
}

// Dial implements container.Runtime.
func (m *machine) Dial(ctx context.Context, _ *container.Box, port int) (net.Conn, error) {
	return m.ns.Dial(ctx, port)
}

// Close implements container.Runtime.
func (m *machine) Close() error {
	var err error
	if m.doors != nil {
		err = m.doors.Close()
	}
	if m.ns != nil {
		err = errors.Join(err, m.ns.Close())
	}
	return err
}

// errClient says that the runtime's client was ended by a signal: nobody inside
// a box can send it one.
var errClient = errors.New("runtime client was killed")

// run calls "runc run --detach" and returns the pid it wrote. It is not ended
// half-way by a caller who gives up: what it had started would be lost to us.
func (m *machine) run(b *container.Box, stdin *os.File) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	logFile, pidFile := b.Path("start.log"), b.Path("start.pid")
	cmd := exec.CommandContext(ctx, m.d.bin, "--root", b.Path("runc"), "--log", logFile, "--log-format", "json",
		"run", "--detach", "--bundle", b.Dir(), "--pid-file", pidFile, b.ID())
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GOGC=off"}
	cmd.Dir = "/"
	cmd.Stdin = stdin
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && !exit.Exited() {
			return 0, errClient // or it took longer than startTimeout
		}
		if text := container.LastError(logFile); text != "" {
			err = errors.New(text)
		}
		return 0, err
	}
	return container.ReadPID(pidFile)
}
