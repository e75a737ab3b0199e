// Package runsc runs boxes under gVisor: what runs inside talks to a kernel of
// its own, written in a memory-safe language and itself confined, instead of the
// host's. It needs root, cgroups, and a runsc built by Ensure.
//
// The network is gVisor's own stack with a loopback device only. The one thing
// that leads out is a unix socket which the box's first process relays doors
// over (see link and entry). Running gVisor in a namespace whose listeners the
// host owns would need none of that, but then every socket call of hostile code
// would reach the host's TCP stack, which is what gVisor is there to prevent.
//
// Under gVisor all processes of a box are one process of the host: reaching the
// memory limit ends the box, not one command (Info has "memory_box").
package runsc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
	"github.com/agon-arena/agon/sandbox/internal/layers"
	"github.com/agon-arena/agon/sandbox/internal/oci"
	"github.com/agon-arena/agon/sandbox/internal/proc"
	"github.com/agon-arena/agon/sandbox/internal/seccomp"
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
	info  agon.Driver
	cg    *cgroup.Host
	store *layers.Store
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
	// Where the box sees its first process and the link.
	entryPath  = "/.box/entry"
	linkDir    = "/.box/net"
	linkSocket = "s"
)

// New looks whether gVisor can work here, without starting a box. It makes this
// process the reaper of its orphaned descendants, as gVisor's processes become
// our children when the client that starts them ends.
func New(_ context.Context, c Config) (*Driver, error) {
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
	for _, p := range []string{bin, entryOf(bin)} {
		if _, err := os.Stat(p); err != nil {
			return nil, fmt.Errorf("%w: %w; run: agon setup", sandbox.ErrHost, err)
		}
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
	return &Driver{bin: bin, cg: cg, store: store, info: agon.Driver{
		Name: "runsc", Version: Version(),
		Limits: []string{"memory", "memory_box", "pids", "cpu", "cpu_time", "disk", "inodes", "output", "wall", "seccomp", "userns", "kernel"},
	}}, nil
}

// Info implements sandbox.Driver.
func (d *Driver) Info() agon.Driver { return d.info }

// Start implements sandbox.Driver.
func (d *Driver) Start(ctx context.Context, spec sandbox.Spec) (_ sandbox.Box, err error) {
	spec, err = spec.Complete()
	if err != nil {
		return nil, err
	}
	b := &Box{d: d, spec: spec, running: map[*run]bool{}, dead: make(chan struct{})}
	defer func() {
		if err != nil {
			_ = b.Close()
			if ctx.Err() != nil {
				err = ctx.Err()
			}
		}
	}()
	if b.space, err = d.store.New(spec.Limits, spec.UID, spec.GID); err != nil {
		return nil, err
	}
	b.group = d.cg.Group(b.space.ID)
	conf, err := b.bundle()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(conf)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(b.path("config.json"), raw, 0o600); err != nil {
		return nil, fmt.Errorf("%w: write bundle: %w", sandbox.ErrHost, err)
	}
	if err := b.launch(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// bundle prepares the box's files and returns its configuration.
func (b *Box) bundle() (*specs.Spec, error) {
	spec := b.spec
	own := []sandbox.Mount{{Kind: sandbox.MountReadOnly, Source: entryOf(b.d.bin), Target: entryPath, Exec: true}}
	args := []string{entryPath, filepath.Join(linkDir, linkSocket)}
	dir := filepath.Join(b.space.MountDir(), "net")
	if err := os.Mkdir(dir, 0o711); err != nil {
		return nil, fmt.Errorf("%w: make link: %w", sandbox.ErrHost, err)
	}
	var err error
	if b.link, err = listen(filepath.Join(dir, linkSocket), len(spec.Doors)); err != nil {
		return nil, fmt.Errorf("%w: make link: %w", sandbox.ErrHost, err)
	}
	if b.doors, err = netns.Serve(spec.Doors, func(i int) (net.Listener, error) { return b.link.doors[i], nil }); err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	for _, d := range spec.Doors {
		args = append(args, d.Listen)
	}
	own = append(own, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: dir, Target: linkDir})
	spec.Mounts = append(own, spec.Mounts...)

	o := oci.Options{Group: b.group.Path(), Pids: hostPids, HostTmp: true, Seccomp: seccomp.OCIOwnKernel()}
	// gVisor's own memory file systems do not bound their inodes; the host's do.
	hasTmp := false
	for _, m := range spec.Mounts {
		hasTmp = hasTmp || m.Target == "/tmp"
	}
	if !hasTmp {
		if o.Tmp, err = b.space.Add(sandbox.Mount{Kind: sandbox.MountTmp, Target: "/tmp", SizeBytes: oci.TmpBytes}); err != nil {
			return nil, err
		}
	}
	if o.Shm, err = b.space.Add(sandbox.Mount{Kind: sandbox.MountTmp, Target: "/dev/shm", SizeBytes: oci.ShmBytes}); err != nil {
		return nil, err
	}
	for _, m := range spec.Mounts {
		src, err := b.space.Add(m)
		if err != nil {
			return nil, err
		}
		o.Sources = append(o.Sources, src)
	}
	if o.Root, err = b.space.RootFS(spec.Rootfs, layers.NetFiles(spec), spec.Mounts); err != nil {
		return nil, err
	}
	// Nothing of this is inherited by commands: each brings its own description.
	o.First = oci.Process(args, []string{"GOMAXPROCS=2", "GOMEMLIMIT=32MiB"}, "/", sandbox.PauseUID, sandbox.PauseUID, spec.Limits.DiskBytes)
	caps := []string{"CAP_KILL", "CAP_NET_BIND_SERVICE"}
	o.First.Capabilities = &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps, Inheritable: caps, Ambient: caps}
	// gVisor takes the limits of all commands from here. One user's processes
	// are counted together; the first process is another user's.
	n := uint64(spec.Limits.Pids)
	o.First.Rlimits = append(o.First.Rlimits, specs.POSIXRlimit{Type: "RLIMIT_NPROC", Hard: n, Soft: n})
	spec.Limits.MemoryBytes += sentryBytes
	return oci.Bundle(spec, o), nil
}

func (b *Box) path(name string) string { return filepath.Join(b.space.Dir(), name) }

// client is a call of runsc for this box. The arguments say: gVisor's own
// network, no host sockets but those mounted, nothing kept elsewhere.
func (b *Box) client(logFile string, args ...string) *exec.Cmd {
	network := "--network=none"
	if b.spec.Network {
		network = "--network=host"
	}
	full := append([]string{
		"--root", b.path("runsc"), "--log", logFile, "--log-format", "json", "--panic-log", b.path("panic.log"),
		"--platform=systrap", network, "--host-uds=open", "--overlay2=none", "--oci-seccomp", "--host-settings=ignore",
		"--gofer-network-namespace=new", "--watchdog-action=log",
	}, args...)
	cmd := exec.Command(b.d.bin, full...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=" + b.space.Dir()}
	cmd.Dir = "/"
	return cmd
}

// launch starts gVisor and waits for the box's first process to answer.
func (b *Box) launch(ctx context.Context) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	b.life = w
	logFile, pidFile := b.path("start.log"), b.path("start.pid")
	cmd := b.client(logFile, "run", "--detach", "--bundle", b.space.Dir(), "--pid-file", pidFile, b.space.ID)
	cmd.Stdin = r
	err = b.call(ctx, cmd)
	_ = r.Close()
	if err != nil {
		if text := lastError(logFile); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return fmt.Errorf("%w: start box: %w", sandbox.ErrHost, err)
	}
	pid, err := readPID(pidFile)
	if err != nil {
		return fmt.Errorf("%w: start box: %w", sandbox.ErrHost, err)
	}
	if b.init, err = proc.Open(pid); err != nil {
		return fmt.Errorf("%w: gVisor is gone: %w", sandbox.ErrHost, err)
	}
	b.helpers = b.adopted()
	go b.watch()
	t := time.NewTimer(readyTime)
	defer t.Stop()
	select {
	case <-b.link.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.dead:
		return fmt.Errorf("%w: start box: the first process ended", sandbox.ErrHost)
	case <-t.C:
		return fmt.Errorf("%w: start box: the first process does not answer", sandbox.ErrHost)
	}
}

// call runs a short-lived client and kills it when ctx ends.
func (b *Box) call(ctx context.Context, cmd *exec.Cmd) error {
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

func readPID(file string) (int, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("read pid file: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("read pid file: %.40q", raw)
	}
	return pid, nil
}

// lastError returns the last message of a runtime's JSON log.
func lastError(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
	var l struct{ Msg string }
	if json.Unmarshal(lines[len(lines)-1], &l) != nil {
		return ""
	}
	return l.Msg[:min(len(l.Msg), 500)]
}
