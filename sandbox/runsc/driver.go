// Package runsc runs boxes under gVisor: what runs inside talks to a kernel of
// its own, written in a memory-safe language and itself confined, instead of the
// host's. It needs root, cgroups, and a runsc built by Ensure.
//
// The network is gVisor's own stack with a loopback device only. The one thing
// that leads out is a unix socket which the box's first process relays doors
// over (see link and sandbox/internal/entry). Running gVisor in a namespace whose listeners the
// host owns would need none of that, but then every socket call of hostile code
// would reach the host's TCP stack, which is what gVisor is there to prevent.
//
// Under gVisor all processes of a box are one process of the host: reaching the
// memory limit ends the box, not one command (Info has "memory_box").
package runsc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
	"github.com/agon-arena/agon/sandbox/internal/container"
	"github.com/agon-arena/agon/sandbox/internal/entry"
	"github.com/agon-arena/agon/sandbox/internal/layers"
	"github.com/agon-arena/agon/sandbox/internal/oci"
	"github.com/agon-arena/agon/sandbox/netns"
)

// Config makes a driver.
type Config struct {
	// StateDir holds the boxes of this process. It must not be shared with
	// code that runs in boxes. Required.
	StateDir string
	// Binary is the runtime that Ensure returned; empty takes what Find finds.
	Binary string
}

// Driver implements sandbox.Driver.
type Driver struct {
	bin   string
	entry string // the box's first process
	info  agon.Driver
	cg    *cgroup.Host
	store *layers.Store
	live  atomic.Int64 // boxes that are not closed

	images images // of warm boxes
}

const (
	// startTimeout bounds the start of a box.
	startTimeout = 60 * time.Second
	// hostPids bounds gVisor's own threads. Where they run out it dies, so this
	// is far above what the box may have, which RLIMIT_NPROC bounds inside.
	hostPids = 2048
	// sentryBytes are added to a box's memory for gVisor itself, so that a limit
	// means the same under every driver.
	sentryBytes = 64 << 20
	// collect is how much garbage, in percent of what is in use, gVisor may make
	// before it collects: a start is hardly anything else. Where the box's memory
	// gets short it collects more often.
	collect = 300
	// Where the box sees the link.
	linkDir    = "/.box/net"
	linkSocket = "s"
)

// New looks whether gVisor can work here, without starting a box. It makes this
// process the reaper of its orphaned descendants, as gVisor's processes become
// our children when the client that starts them ends.
func New(ctx context.Context, c Config) (*Driver, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: gVisor boxes need root", sandbox.ErrHost)
	}
	bin := c.Binary
	if bin == "" {
		var ok bool
		if bin, ok = Find(BuildConfig{}); !ok {
			return nil, fmt.Errorf("%w: runsc is not built; run: agon setup", sandbox.ErrHost)
		}
	}
	if _, err := os.Stat(bin); err != nil {
		return nil, fmt.Errorf("%w: %w; run: agon setup", sandbox.ErrHost, err)
	}
	first, err := entry.Ensure(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	cg, err := cgroup.Detect()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	if cg.V2 == "" && (cg.V1["memory"] == "" || cg.V1["pids"] == "" || cg.V1["cpu"] == "") {
		return nil, fmt.Errorf("%w: no memory, pids and cpu cgroups are mounted", sandbox.ErrHost)
	}
	store, err := layers.Open(c.StateDir)
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("%w: become reaper of orphans: %w", sandbox.ErrHost, err)
	}
	return &Driver{bin: bin, entry: first, cg: cg, store: store, info: agon.Driver{
		Name: "runsc", Version: Version(),
		Limits: []string{"memory", "memory_box", "pids", "cpu", "cpu_time", "disk", "inodes", "output", "wall", "seccomp", "userns", "kernel"},
	}}, nil
}

// Info implements sandbox.Driver.
func (d *Driver) Info() agon.Driver { return d.info }

// GivesDevices implements sandbox.DeviceGiver.
func (d *Driver) GivesDevices() bool { return true }

// SupportsNvidia reports whether this gVisor knows the calls of a version of NVIDIA's
// kernel driver. Boxes with GPUs start under no other.
func (d *Driver) SupportsNvidia(ctx context.Context, version string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, d.bin, "nvproxy", "list-supported-drivers").Output()
	if err != nil {
		return false, fmt.Errorf("list the drivers that runsc knows: %w", err)
	}
	return slices.Contains(strings.Fields(string(out)), version), nil
}

// Start implements sandbox.Driver.
func (d *Driver) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	spec, err := spec.Complete()
	if err != nil {
		return nil, err
	}
	if d := spec.Devices; d != nil && (!d.Proxy || len(d.Hooks) > 0) {
		return nil, fmt.Errorf("%w: gVisor passes on NVIDIA's GPUs only, and runs no hooks of a device; set AGON_DRIVER=runc", sandbox.ErrHost)
	}
	if spec, err = spec.WithDevices(); err != nil {
		return nil, err
	}
	if spec.Network || spec.Root || spec.Devices != nil {
		spec.Warm = nil // what such a box has, no image can
	}
	for {
		m := &machine{d: d, among: d.live.Add(1)}
		b, err := container.Start(ctx, container.Config{Spec: spec, Store: d.store, Cgroups: d.cg, Runtime: m, Own: true})
		switch {
		case err == nil:
			return b, nil
		case m.image == nil || ctx.Err() != nil:
			return nil, err // and no Box, not even a nil one
		}
		d.images.drop(m.image, fmt.Errorf("make a box of an image: %w", err))
		spec.Warm = nil
	}
}

// machine implements container.Runtime.
type machine struct {
	d     *Driver
	among int64 // boxes that there were at the start, this one too
	link  *link
	doors *netns.Doors

	making bool       // the box is one that an image is taken of
	begun  *image     // that is taken because of this box; nil: none
	key    key        // of its image, if the spec has a warm program
	image  *image     // that the box is made of; nil: it is started
	files  []*os.File // of image
}

// Bundle implements container.Runtime.
func (m *machine) Bundle(b *container.Box) (*specs.Spec, error) {
	spec := b.Spec
	args := []string{filepath.Join(linkDir, linkSocket)}
	dir := filepath.Join(b.Space.MountDir(), "net")
	if err := os.Mkdir(dir, 0o711); err != nil {
		return nil, fmt.Errorf("%w: make link: %w", sandbox.ErrHost, err)
	}
	var err error
	if m.link, err = listen(filepath.Join(dir, linkSocket), len(spec.Doors)); err != nil {
		return nil, fmt.Errorf("%w: make link: %w", sandbox.ErrHost, err)
	}
	if m.doors, err = netns.Serve(spec.Doors, func(i int) (net.Listener, error) { return m.link.doors[i], nil }); err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	spec.Mounts = append([]sandbox.Mount{
		container.EntryMount(m.d.entry),
		{Kind: sandbox.MountReadOnly, Source: dir, Target: linkDir},
	}, spec.Mounts...)

	o := oci.Options{Group: b.Group.Path(), Pids: hostPids, HostTmp: true}
	// gVisor's own memory file systems do not bound their inodes; the host's do.
	hasTmp := false
	for _, m := range spec.Mounts {
		hasTmp = hasTmp || m.Target == "/tmp"
	}
	if !hasTmp {
		if o.Tmp, err = b.Space.Add(sandbox.Mount{Kind: sandbox.MountTmp, Target: "/tmp", SizeBytes: oci.TmpBytes}); err != nil {
			return nil, err
		}
	}
	if o.Shm, err = b.Space.Add(sandbox.Mount{Kind: sandbox.MountTmp, Target: "/dev/shm", SizeBytes: oci.ShmBytes}); err != nil {
		return nil, err
	}
	for _, m := range spec.Mounts {
		src, err := b.Space.Add(m)
		if err != nil {
			return nil, err
		}
		o.Sources = append(o.Sources, src)
	}
	if o.Root, err = b.Space.RootFS(spec.Rootfs, layers.NetFiles(spec), spec.Mounts, spec.Root); err != nil {
		return nil, err
	}
	spec.Limits.MemoryBytes += sentryBytes
	first := func() *specs.Process { return container.First(spec, args, "CAP_KILL", "CAP_NET_BIND_SERVICE") }
	o.First = first()
	conf := oci.Bundle(spec, o)
	if spec.Warm != nil {
		if err := m.choose(b.Spec, conf); err != nil || m.making || m.image != nil {
			return conf, err // it hears later where the doors are
		}
	}
	for _, d := range spec.Doors {
		args = append(args, d.Listen)
	}
	conf.Process = first()
	return conf, nil
}

// choose finds the image for a box, and has it made where that is worth it.
func (m *machine) choose(spec sandbox.Spec, conf *specs.Spec) (err error) {
	if m.key, err = keyOf(spec, conf); err != nil || m.making {
		return err
	}
	var begin bool
	if m.image, m.files, begin = m.d.images.want(m.key); begin {
		m.begun, m.image = m.image, nil
		go m.d.makeImage(m.begun, spec, m.key)
	}
	return nil
}

// client is a call of runsc for a box. The arguments say: gVisor's own network,
// no host sockets but those mounted, nothing kept elsewhere.
func (m *machine) client(b *container.Box, logFile string, args ...string) *exec.Cmd {
	network := "--network=none"
	if b.Spec.Network {
		network = "--network=host"
	}
	full := append([]string{
		"--root", b.Path("runsc"), "--log", logFile, "--log-format", "json", "--panic-log", b.Path("panic.log"),
		"--platform=systrap", network, "--host-uds=open", "--overlay2=none", "--host-settings=ignore",
		"--gofer-network-namespace=new", "--watchdog-action=log",
	}, args...)
	if b.Spec.Devices != nil {
		// What computes, and what asks how the device does; no graphics, no display. A driver
		// whose calls this gVisor does not know is refused, not guessed at.
		full = append([]string{"--nvproxy", "--nvproxy-allowed-driver-capabilities=compute,utility"}, full...)
	}
	if m.among > int64(runtime.NumCPU()) {
		// Waiting for a call by looking again and again is quickest where a
		// processor is idle; where boxes wait for processors it delays them all.
		full = append([]string{"--systrap-disable-fast-path"}, full...)
	}
	cmd := exec.Command(m.d.bin, full...)
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=" + b.Dir(),
		fmt.Sprintf("GOGC=%d", collect), fmt.Sprintf("GOMEMLIMIT=%d", sentryBytes+b.Spec.Limits.MemoryBytes/4),
	}
	cmd.Dir = "/"
	return cmd
}

// Launch implements container.Runtime.
func (m *machine) Launch(ctx context.Context, b *container.Box, stdin *os.File) (int, error) {
	if m.image != nil {
		return m.restore(ctx, b, stdin)
	}
	return m.run(ctx, b, stdin, "run")
}

// run starts the container by a call of runsc, how.
func (m *machine) run(ctx context.Context, b *container.Box, stdin *os.File, how ...string) (int, error) {
	logFile, pidFile := b.Path("start.log"), b.Path("start.pid")
	cmd := m.client(b, logFile, append(how, "--detach", "--bundle", b.Dir(), "--pid-file", pidFile, b.ID())...)
	cmd.Stdin = stdin
	if err := call(ctx, cmd); err != nil {
		return 0, withLog(err, logFile)
	}
	return container.ReadPID(pidFile)
}

// withLog adds what a call of runsc said last.
func withLog(err error, logFile string) error {
	if text := container.LastError(logFile); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// call runs a short-lived client and kills it when ctx ends.
func call(ctx context.Context, cmd *exec.Cmd) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	err := cmd.Wait()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Dial implements container.Runtime.
func (m *machine) Dial(ctx context.Context, b *container.Box, port int) (net.Conn, error) {
	key, conn := m.link.expect()
	defer m.link.forget(key)
	id, failed, err := b.AskDial(port, key)
	if err != nil {
		return nil, fmt.Errorf("dial port %d in the box: %w", port, err)
	}
	defer b.Forget(id)
	t := time.NewTimer(answerTime)
	defer t.Stop()
	select {
	case c := <-conn:
		return c, nil
	case a := <-failed:
		return nil, fmt.Errorf("dial port %d in the box: %.200q", port, a.Text)
	case <-ctx.Done():
		err = ctx.Err()
	case <-b.Gone():
		err = net.ErrClosed
	case <-t.C:
		err = errors.New("the box's first process does not answer")
	}
	return nil, fmt.Errorf("dial port %d in the box: %w", port, err)
}

// Close implements container.Runtime.
func (m *machine) Close() error {
	m.d.live.Add(-1)
	if m.begun != nil { // when all boxes are closed, nothing of ours is under way
		<-m.begun.done
	}
	var err error
	if m.link != nil {
		err = m.link.close()
	}
	if m.doors != nil {
		err = errors.Join(err, m.doors.Close())
	}
	return err
}
