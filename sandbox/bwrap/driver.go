// Package bwrap runs boxes with bubblewrap: no container stays between
// commands, each command is a new set of namespaces over the box's directories.
// It needs no root. As root it also gets cgroups and hard quotas; without, the
// limits that only an honest program keeps are not claimed (see Info).
package bwrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
	"github.com/agon-arena/agon/sandbox/internal/layers"
	"github.com/agon-arena/agon/sandbox/netns"
)

// Config makes a driver.
type Config struct {
	// StateDir holds the boxes of this process. Required.
	StateDir string
	// Binary is the program; empty looks for "bwrap".
	Binary string
}

// Driver implements sandbox.Driver.
type Driver struct {
	bin   string
	info  agon.Driver
	store *layers.Store
	cg    *cgroup.Host // nil where we may make no group
	// bounds says that the memory of sockets is bounded, without which memory is not.
	bounds bool
	tools  map[string]string
	// noProc says that boxes have an empty /proc (see mounts).
	noProc bool
}

// Sizes of the temporary directories that every box gets.
const (
	tmpBytes = 64 << 20
	shmBytes = 16 << 20
)

// New looks whether bubblewrap can work here, without starting a box. It marks
// descriptors that this process inherited so that boxes do not inherit them too.
// Programs that make boxes without root must call netns.MaybeChild first in main.
func New(ctx context.Context, c Config) (*Driver, error) {
	if c.Binary == "" {
		c.Binary = "bwrap"
	}
	d := &Driver{tools: map[string]string{}}
	var err error
	if d.bin, err = exec.LookPath(c.Binary); err != nil {
		return nil, fmt.Errorf("%w: %s is missing; install it with: apt-get install bubblewrap", sandbox.ErrHost, c.Binary)
	}
	for _, t := range []string{"sh", "nsenter", "setpriv", "prlimit"} {
		if d.tools[t], err = exec.LookPath(t); err != nil {
			return nil, fmt.Errorf("%w: %s is missing; install it with: apt-get install util-linux", sandbox.ErrHost, t)
		}
	}
	out, err := exec.CommandContext(ctx, d.bin, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%w: run %s --version: %w", sandbox.ErrHost, d.bin, err)
	}
	// Go opens nothing that children inherit, but whoever started us may have.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("%w: keep inherited files from boxes: %w (Linux 5.11 or newer is needed)", sandbox.ErrHost, err)
	}
	if d.store, err = layers.Open(c.StateDir); err != nil {
		return nil, err
	}
	f := strings.Fields(string(out))
	version := "unknown"
	if len(f) > 0 {
		version = f[len(f)-1]
	}
	limits := []string{"output", "wall", "seccomp", "userns", "exec_pidns", "pids"}
	if d.store.Root() {
		limits = append(limits, "disk", "inodes")
		if cg, err := cgroup.Detect(); err == nil && canGroup(cg) {
			d.cg = cg
			memory := "memory"
			if d.bounds = errors.Join(cg.BoundsSockets(), netns.CanBound()) == nil; !d.bounds {
				memory = "memory_soft"
			}
			limits = append(limits, memory, "cpu", "cpu_time")
		} else {
			// Without a cgroup nothing counts the processes of root's boxes.
			limits = append(limits[:len(limits)-3], "disk", "inodes", "memory_soft", "cpu_time_soft")
		}
	} else {
		limits = append(limits, "disk_soft", "inodes_soft", "memory_soft", "cpu_time_soft")
	}
	if !d.store.Root() && !d.mounts(ctx, "--proc") && d.mounts(ctx, "--tmpfs") {
		d.noProc = true
		limits = append(limits, "no_proc")
	}
	d.info = agon.Driver{Name: "bwrap", Version: version, Limits: limits}
	return d, nil
}

// mounts tells whether a box can have a /proc of a kind. A container engine covers
// parts of /proc, and then the kernel lets nobody without privileges mount a
// whole one (fs/namespace.c, mount_too_revealing). The container's own would show
// boxes our processes and their environments, so they get an empty one.
func (d *Driver) mounts(ctx context.Context, kind string) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, d.bin, "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", kind, "/proc", "--", d.tools["sh"], "-c", ":").Run() == nil
}

// canGroup tries to make a group.
func canGroup(h *cgroup.Host) bool {
	g := h.Group("probe-" + strconv.Itoa(os.Getpid()))
	err := g.Create(cgroup.Limits{MemoryBytes: 64 << 20, Pids: 16, CPUMilli: 1000})
	return g.Remove() == nil && err == nil
}

// Info implements sandbox.Driver.
func (d *Driver) Info() agon.Driver { return d.info }

// Start implements sandbox.Driver.
func (d *Driver) Start(ctx context.Context, spec sandbox.Spec) (_ sandbox.Box, err error) {
	spec, err = spec.Complete()
	if err != nil {
		return nil, err
	}
	if spec.Root {
		return nil, fmt.Errorf("%w: bubblewrap's boxes have no root of their own: images are built under runc or runsc", sandbox.ErrHost)
	}
	if spec.Devices != nil {
		return nil, fmt.Errorf("%w: bubblewrap gives no box a GPU, as nothing bounds who opens its nodes: use runsc or runc", sandbox.ErrHost)
	}
	b := &Box{d: d, spec: spec, running: map[*run]bool{}}
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
	if d.cg != nil {
		b.group = d.cg.Group(b.space.ID)
		l := spec.Limits
		// Two processes of a command are bubblewrap's own.
		if err := b.group.Create(cgroup.Limits{MemoryBytes: l.MemoryBytes, Pids: l.Pids + 2, CPUMilli: l.CPUMilli}); err != nil {
			return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
		}
		if d.bounds {
			if err := b.group.BoundSockets(l.MemoryBytes); err != nil {
				return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
			}
		}
	}
	if !spec.Network {
		if b.ns, err = netns.New(); err != nil {
			return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
		}
		if err := b.ns.Bound(); err != nil && d.bounds {
			return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
		}
		if b.doors, err = b.ns.Open(spec.Doors); err != nil {
			return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
		}
	}
	if b.args, err = b.fileSystem(); err != nil {
		return nil, err
	}
	if b.space.Soft() {
		b.base, b.baseNodes = b.space.Usage()
	}
	// What fails here is the host or the spec; later the box's own content can
	// make a start fail, and its code could imitate bubblewrap's messages.
	var text tail
	exit, err := b.exec(ctx, sandbox.Cmd{Args: []string{"/bin/sh", "-c", ":"}, Stdout: &text, Stderr: &text, Wall: time.Minute}, true)
	if err != nil {
		return nil, err
	}
	if exit.Code != 0 {
		return nil, fmt.Errorf("%w: start box: exit %d: %s", sandbox.ErrHost, exit.Code, text.String())
	}
	return b, nil
}

// fileSystem prepares the mounts and returns bubblewrap's arguments for them.
func (b *Box) fileSystem() ([]string, error) {
	spec := b.spec
	var args []string
	mounts := spec.Mounts
	hasTmp := false
	for _, m := range mounts {
		hasTmp = hasTmp || m.Target == "/tmp"
	}
	if !hasTmp {
		mounts = append([]sandbox.Mount{{Kind: sandbox.MountTmp, Target: "/tmp", SizeBytes: tmpBytes}}, mounts...)
	}
	mounts = append([]sandbox.Mount{{Kind: sandbox.MountTmp, Target: "/dev/shm", SizeBytes: shmBytes}}, mounts...)
	var binds []string
	for _, m := range mounts {
		src, err := b.space.Add(m)
		if err != nil {
			return nil, err
		}
		if src == "" {
			continue // it comes with the mount around it
		}
		flag := "--bind"
		if m.Kind == sandbox.MountReadOnly {
			flag = "--ro-bind"
		}
		binds = append(binds, flag, src, m.Target)
	}
	files := layers.NetFiles(spec)
	if b.d.store.Root() {
		root, err := b.space.RootFS(spec.Rootfs, files, spec.Mounts, false)
		if err != nil {
			return nil, err
		}
		args = append(args, "--ro-bind", root, "/")
	} else {
		top, err := b.topLevel(files)
		if err != nil {
			return nil, err
		}
		args = append(args, top...)
	}
	if b.d.noProc {
		args = append(args, "--tmpfs", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
	} else {
		// The first process is of the commands' user: by its files they could make
		// the kernel choose it first when memory ends.
		args = append(args, "--proc", "/proc", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1", "--dev", "/dev")
		args = append(args, maskProc()...)
	}
	args = append(args, binds...)
	if !b.d.store.Root() {
		args = append(args, "--remount-ro", "/")
	}
	return append(args, "--remount-ro", "/dev"), nil
}

// maskProc covers what /proc tells of the host.
func maskProc() (args []string) {
	for _, p := range []string{
		"/proc/acpi", "/proc/asound", "/proc/scsi", "/proc/bus", "/proc/fs", "/proc/irq",
	} {
		if fi, err := os.Stat(p); err == nil && fi.IsDir() {
			args = append(args, "--tmpfs", p, "--remount-ro", p)
		}
	}
	for _, p := range []string{
		"/proc/sys/kernel/random/boot_id", "/proc/version",
		"/proc/cmdline", "/proc/config.gz", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/keys",
		"/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats", "/proc/modules", "/proc/sched_debug",
		"/proc/slabinfo", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo",
	} {
		if _, err := os.Stat(p); err == nil {
			args = append(args, "--ro-bind", "/dev/null", p)
		}
	}
	return args
}

// topLevel builds the root for those who cannot mount an overlay: a memory file
// system with every entry of the root file system's top bound in.
func (b *Box) topLevel(files layers.Files) ([]string, error) {
	if err := layers.CheckTargets(b.spec.Rootfs, b.spec.Mounts); err != nil {
		return nil, err
	}
	ents, err := os.ReadDir(b.spec.Rootfs)
	if err != nil {
		return nil, fmt.Errorf("%w: read rootfs: %w", sandbox.ErrHost, err)
	}
	covered := map[string]bool{"proc": true, "dev": true, "tmp": true, "sys": true}
	for _, m := range b.spec.Mounts {
		covered[strings.Split(strings.TrimPrefix(m.Target, "/"), "/")[0]] = true
	}
	var args []string
	for _, e := range ents {
		host, at := b.spec.Rootfs+"/"+e.Name(), "/"+e.Name()
		switch {
		case e.Type()&os.ModeSymlink != 0:
			to, err := os.Readlink(host)
			if err != nil {
				return nil, fmt.Errorf("%w: read rootfs: %w", sandbox.ErrHost, err)
			}
			args = append(args, "--symlink", to, at)
		case !e.IsDir():
			args = append(args, "--ro-bind", host, at)
		case covered[e.Name()] && emptyDir(host):
			args = append(args, "--dir", at) // a place for mount points
		default:
			args = append(args, "--ro-bind", host, at)
		}
	}
	for p, text := range files {
		f := b.space.Dir() + "/" + strings.ReplaceAll(p, "/", "-")
		if err := os.WriteFile(f, []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("%w: write %s: %w", sandbox.ErrHost, p, err)
		}
		if _, err := os.Lstat(b.spec.Rootfs + "/" + p); err == nil {
			args = append(args, "--ro-bind", f, "/"+p)
		}
	}
	return args, nil
}

func emptyDir(p string) bool {
	ents, err := os.ReadDir(p)
	return err == nil && len(ents) == 0
}

// chain returns the program that starts bubblewrap: a shell that enters the
// cgroup and sets resource limits, then changes user or namespaces; each step
// replaces the one before, so that the process we wait for is bubblewrap.
func (b *Box) chain(cpu time.Duration) []string {
	l := b.spec.Limits
	var script strings.Builder
	if b.group != nil {
		for _, f := range b.group.Join() {
			fmt.Fprintf(&script, "echo 0 > '%s' && ", f)
		}
	}
	limit := func(flag string, resource int, v, unit int64) {
		var host unix.Rlimit
		if unix.Getrlimit(resource, &host) == nil && uint64(v) > host.Max {
			v = int64(host.Max)
		}
		fmt.Fprintf(&script, "ulimit -%s %d && ", flag, (v+unit-1)/unit)
	}
	limit("n", unix.RLIMIT_NOFILE, 1024, 1)
	limit("f", unix.RLIMIT_FSIZE, l.DiskBytes, 512)
	if b.group == nil {
		limit("v", unix.RLIMIT_AS, l.MemoryBytes, 1024)
		if l.CPUMS > 0 {
			// A backstop for each process; the sum is looked at now and then.
			left := max(time.Duration(l.CPUMS)*time.Millisecond-cpu, 0) + time.Second
			limit("t", unix.RLIMIT_CPU, int64(left), int64(time.Second))
		}
	}
	script.WriteString(`exec "$@"`)
	out := []string{b.d.tools["sh"], "-c", script.String(), "box"}
	// 1 byte, which shells cannot say, and not 0: a core helper of the host runs
	// even at 0. Where the host allows none at all that cannot be raised.
	var host unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &host) == nil && host.Max > 0 {
		out = append(out, b.d.tools["prlimit"], "--core=1:1", "--")
	}
	if b.d.store.Root() {
		if b.ns != nil {
			out = append(out, b.d.tools["nsenter"], "--net="+b.ns.Path(), "--")
		}
		uid, gid := b.space.HostIDs()
		out = append(out, b.d.tools["setpriv"], "--reuid="+strconv.Itoa(uid), "--regid="+strconv.Itoa(gid),
			"--clear-groups", "--inh-caps=-all", "--")
	} else if b.ns != nil {
		out = append(out, b.d.tools["nsenter"], "--user", "--net", "--preserve-credentials",
			"--target="+strconv.Itoa(b.ns.ChildPID()), "--")
	}
	return append(out, b.d.bin)
}

// tail keeps the first bytes written to it, for error texts.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.b.Len() < 1000 {
		t.b.Write(p[:min(len(p), 1000)])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.b.String())
}
