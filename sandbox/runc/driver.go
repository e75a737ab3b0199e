// Package runc runs boxes with an OCI runtime: a container per box with user,
// pid, ipc, uts, mount, cgroup and network namespaces, cgroup limits, seccomp,
// an overlay root and no capability. It needs root.
//
// A box's first process only waits; commands join its namespaces one by one
// under another user, which can neither signal nor trace nor rewrite it. If it
// dies without us and without the box's own limits, somebody outside did it.
package runc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
	"github.com/agon-arena/agon/sandbox/internal/layers"
	"github.com/agon-arena/agon/sandbox/internal/proc"
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
	bin   string
	info  agon.Driver
	cg    *cgroup.Host
	store *layers.Store
}

// startTimeout bounds one call of the runtime.
const startTimeout = 60 * time.Second

// New looks whether runc can work here, without starting a box. It makes this
// process the reaper of its orphaned descendants: commands are started by a
// short-lived runtime process and become our children when that ends.
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
	out, err := exec.CommandContext(ctx, bin, "--version").Output()
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
	store, err := layers.Open(c.StateDir)
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("%w: become reaper of orphans: %w", sandbox.ErrHost, err)
	}
	return &Driver{bin: bin, cg: cg, store: store, info: agon.Driver{
		Name: "runc", Version: version(string(out)),
		Limits: []string{"memory", "pids", "cpu", "cpu_time", "disk", "inodes", "output", "wall", "seccomp", "userns"},
	}}, nil
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
	sources := make([]string, len(spec.Mounts))
	for i, m := range spec.Mounts {
		if m.Kind == sandbox.MountTmp {
			continue
		}
		if sources[i], err = b.space.Add(m); err != nil {
			return nil, err
		}
	}
	root, err := b.space.RootFS(spec.Rootfs, layers.NetFiles(spec), spec.Mounts)
	if err != nil {
		return nil, err
	}
	conf, err := json.Marshal(bundle(spec, root, sources, b.group.Path()))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(b.path("config.json"), conf, 0o600); err != nil {
		return nil, fmt.Errorf("%w: write bundle: %w", sandbox.ErrHost, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.launch(); err != nil {
		return nil, err
	}
	go b.watch()
	if !spec.Network {
		// The namespace has to be one of the box's own user namespace, or the
		// runtime could not enter it again for commands. So it is the runtime
		// that makes it, and we who open the doors in it, before any command runs.
		if b.ns, err = netns.Of(b.init.PID); err != nil {
			return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
		}
		if b.doors, err = b.ns.Open(spec.Doors); err != nil {
			return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
		}
	}
	return b, nil
}

func (b *Box) path(name string) string { return filepath.Join(b.space.Dir(), name) }

// launch starts the first process. It reads from a pipe that we hold and ends
// when the pipe does: a box does not outlive this process even if that is killed.
func (b *Box) launch() error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	defer func() { _ = r.Close() }()
	b.life = w
	pid, _, err := b.runtime("start", stdio{in: r}, "run", "--detach", "--bundle", b.space.Dir())
	if err != nil {
		return fmt.Errorf("%w: start box: %w", sandbox.ErrHost, err)
	}
	if b.init, err = proc.Open(pid); err != nil {
		return fmt.Errorf("%w: the box's first process is gone: %w", sandbox.ErrHost, err)
	}
	return nil
}

type stdio struct{ in, out, err *os.File }

// errClient says that the runtime's client was ended by a signal: nobody inside
// a box can send it one.
var errClient = errors.New("runtime client was killed")

// runtime calls "runc … args --pid-file F id" and returns the pid it wrote. The
// error text is the runtime's own message; text is it alone. It is not ended
// half-way by a caller who gives up: what it had started would be lost to us.
func (b *Box) runtime(name string, io stdio, args ...string) (pid int, text string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	logFile, pidFile := b.path(name+".log"), b.path(name+".pid")
	defer func() { _, _ = os.Remove(logFile), os.Remove(pidFile) }()
	full := append([]string{"--root", b.path("runc"), "--log", logFile, "--log-format", "json"}, args...)
	full = append(full, "--pid-file", pidFile, b.space.ID)
	cmd := exec.CommandContext(ctx, b.d.bin, full...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir = "/"
	// Given as files, not readers: the command inherits them directly and
	// nothing waits for its daemons to let go of them.
	if io.in != nil {
		cmd.Stdin = io.in
	}
	if io.out != nil {
		cmd.Stdout, cmd.Stderr = io.out, io.err
	}
	err = cmd.Run()
	if err != nil {
		text = lastError(logFile)
		var exit *exec.ExitError
		if errors.As(err, &exit) && !exit.Exited() {
			return 0, text, errClient // or it took longer than startTimeout
		}
		if text != "" {
			err = errors.New(text)
		}
		return 0, text, err
	}
	raw, err := os.ReadFile(pidFile)
	if err != nil {
		return 0, "", fmt.Errorf("read pid file: %w", err)
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid <= 1 {
		return 0, "", fmt.Errorf("read pid file: %q", raw)
	}
	return pid, "", nil
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
	if len(l.Msg) > 500 {
		l.Msg = l.Msg[:500]
	}
	return l.Msg
}
