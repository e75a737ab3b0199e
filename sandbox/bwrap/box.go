package bwrap

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
	"github.com/agon-arena/agon/sandbox/internal/layers"
	"github.com/agon-arena/agon/sandbox/internal/proc"
	"github.com/agon-arena/agon/sandbox/internal/seccomp"
	"github.com/agon-arena/agon/sandbox/internal/stdio"
	"github.com/agon-arena/agon/sandbox/netns"
)

// Box implements sandbox.Box.
type Box struct {
	d     *Driver
	spec  sandbox.Spec
	space *layers.Space
	group *cgroup.Group // nil without cgroups
	ns    *netns.NS
	doors *netns.Doors
	args  []string // bubblewrap's, for the file system
	// what the space held before the first command: copies do not count
	base, baseNodes int64
	// held by each command where mount points could be moved by another
	alone sync.Mutex

	mu      sync.Mutex // guards what follows
	end     sandbox.End
	cpu     time.Duration // used by ended commands
	running map[*run]bool
	once    sync.Once
	closed  error
	wg      sync.WaitGroup // commands in progress
}

// run is one command: a bubblewrap process and, once it told, the first process
// of the command's pid namespace.
type run struct {
	mu    sync.Mutex
	cmd   *exec.Cmd
	init  *proc.Handle
	dying bool
	limit string
	lost  string
	cpu   time.Duration // as last seen, without cgroups
}

// kill ends the command's whole pid namespace and notes why, the first time.
func (r *run) kill(limit, lost string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dying {
		r.dying, r.limit, r.lost = true, limit, lost
	}
	if r.init != nil {
		_ = r.init.Kill()
	} else if r.cmd.Process != nil {
		_ = r.cmd.Process.Kill() // its children die with it
	}
}

const (
	tick          = 100 * time.Millisecond
	hostDiskFloor = 64 << 20
)

// ID names the box in host paths and cgroups.
func (b *Box) ID() string { return b.space.ID }

// HostPID returns the host's number of the bubblewrap process of a running
// command, 0 if there is none.
func (b *Box) HostPID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.running {
		r.mu.Lock()
		p := r.cmd.Process
		told := r.init != nil
		r.mu.Unlock()
		if p != nil && told {
			return p.Pid
		}
	}
	return 0
}

// End implements sandbox.Box.
func (b *Box) End() sandbox.End {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end
}

// Exec implements sandbox.Box.
func (b *Box) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	return b.exec(ctx, cmd, false)
}

// exec runs a command. A trial tells apart what keeps bubblewrap from starting.
func (b *Box) exec(ctx context.Context, cmd sandbox.Cmd, trial bool) (exit sandbox.Exit, err error) {
	if len(cmd.Args) == 0 {
		return exit, fmt.Errorf("%w: no command", sandbox.ErrSpec)
	}
	if err := ctx.Err(); err != nil {
		return sandbox.Exit{Code: -1, Lost: "cancelled"}, err
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	env, err := sandbox.CommandEnv(b.spec.Env, cmd.Env, cmd.Dir)
	if err != nil {
		return exit, err
	}
	if cmd.UID < 0 || cmd.UID >= sandbox.PauseUID {
		return exit, fmt.Errorf("%w: uid %d", sandbox.ErrSpec, cmd.UID)
	}
	if b.space.Pinned() {
		b.alone.Lock()
		defer b.alone.Unlock()
		if err := b.space.Repin(); err != nil {
			return sandbox.Exit{Code: 126}, nil // the box's own code moved a mount point
		}
	}
	r := &run{}
	p, err := b.prepare(r, cmd, env)
	if err != nil {
		return exit, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	defer p.close()

	b.mu.Lock()
	if b.end.Ended {
		e := b.end
		b.mu.Unlock()
		return sandbox.Exit{Code: -1, Limit: e.Limit, Lost: e.Killed}, fmt.Errorf("%w: the box has ended", sandbox.ErrHost)
	}
	b.running[r] = true
	b.wg.Add(1)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.running, r)
		b.mu.Unlock()
		b.wg.Done()
	}()

	var before cgroup.Memory
	var cpuBefore time.Duration
	var refused int64
	if b.group != nil {
		before, cpuBefore, refused = b.group.Memory(), b.group.CPU(), b.group.PidsRefused()
	}
	start := time.Now() //nolint:forbidigo // measures a real process
	r.mu.Lock()
	err = r.cmd.Start()
	r.mu.Unlock()
	p.started()
	if err != nil {
		return exit, fmt.Errorf("%w: start bwrap: %w", sandbox.ErrHost, err)
	}
	told := make(chan bool, 1)
	go b.status(r, p, told)
	wall := cmd.Wall
	if wall <= 0 {
		wall = time.Duration(b.spec.Limits.WallMS) * time.Millisecond
	}
	b.supervise(ctx, r, p, wall)
	began := <-told // the status pipe is closed by now
	state := r.cmd.ProcessState
	exit = sandbox.Exit{Wall: time.Since(start), Code: state.ExitCode(), CPU: state.UserTime() + state.SystemTime()}
	if ru, ok := state.SysUsage().(*syscall.Rusage); ok {
		exit.MaxRSS = ru.Maxrss << 10
	}
	r.mu.Lock()
	if r.init != nil {
		// bubblewrap may end a little before the namespace is empty.
		wctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if r.init.Wait(wctx) != nil {
			_ = r.init.Kill()
		}
		cancel()
		_ = r.init.Close()
	}
	o := observed{limit: r.limit, lost: r.lost, killed: r.dying, began: began, trial: trial}
	exit.CPU = max(exit.CPU, r.cpu)
	r.mu.Unlock()
	p.out.Finish()
	p.err.Finish()
	if o.limit == "" && o.lost == "" {
		select {
		case o.limit = <-p.over:
		default:
		}
	}
	if b.group != nil {
		exit.CPU = b.group.CPU() - cpuBefore
		after := b.group.Memory()
		o.oom, o.ownOOM, o.pids = after.Kills > before.Kills, after.Own, b.group.PidsRefused() > refused
	}
	b.mu.Lock()
	b.cpu += exit.CPU
	b.mu.Unlock()
	ws, _ := state.Sys().(syscall.WaitStatus)
	if o.signaled = ws.Signaled(); o.signaled {
		exit.Signal, exit.Code = int(ws.Signal()), 128+int(ws.Signal())
	} else if exit.Code > 128 && exit.Code < 128+65 {
		exit.Signal = exit.Code - 128 // how bubblewrap reports its child's signal
	}
	o.diskFull = exit.Code != 0 && b.space.Soft() && b.space.HostFree() < hostDiskFloor
	o.start = startCode(p.err.First())
	exit, err = classify(o, exit)
	switch {
	case errors.Is(err, errCancelled):
		return exit, context.Cause(ctx)
	case errors.Is(err, errNotStarted):
		return exit, fmt.Errorf("%w: start command: %.300s", sandbox.ErrHost, p.err.First())
	}
	if o.lost == "" && exit.Lost == "killed" {
		b.mu.Lock()
		b.end = sandbox.End{Ended: true, Killed: "killed"}
		b.mu.Unlock()
	}
	return exit, nil
}

// startCode is the code that shells give a command that could not be executed,
// 0 if bubblewrap failed before. Only for commands that did not begin: until
// then the text is bubblewrap's own.
func startCode(stderr []byte) int {
	s := string(stderr)
	switch {
	case !strings.HasPrefix(s, "bwrap: execvp") && !strings.HasPrefix(s, "bwrap: Can't chdir"):
		return 0
	case strings.Contains(s, "Permission denied"), strings.Contains(s, "Exec format error"):
		return 126
	}
	return 127
}

// plumbing is what a command's pipes are made of.
type plumbing struct {
	out, err *stdio.Out
	over     chan string
	child    []*os.File // ends of the child, closed after the start
	statusR  *os.File
	blockW   *os.File
	stopIn   func()
}

func (p *plumbing) started() {
	for _, f := range p.child {
		_ = f.Close()
	}
	p.child = nil
	_ = p.out.W.Close()
	_ = p.err.W.Close()
}

func (p *plumbing) close() {
	p.started()
	p.out.Finish()
	p.err.Finish()
	p.stopIn()
	_ = p.statusR.Close()
	_ = p.blockW.Close()
}

// prepare makes the command with its pipes. bubblewrap gets its arguments, the
// filter, a status pipe and a pipe to wait on as extra descriptors.
func (b *Box) prepare(r *run, cmd sandbox.Cmd, env []string) (_ *plumbing, err error) {
	p := &plumbing{over: make(chan string, 4), stopIn: func() {}}
	var opened []io.Closer
	defer func() {
		if err != nil {
			for _, c := range opened {
				_ = c.Close()
			}
			p.stopIn()
		}
	}()
	over := func() {
		select {
		case p.over <- "output":
		default:
		}
	}
	in, stopIn, err := stdio.In(cmd.Stdin)
	if err != nil {
		return nil, err
	}
	p.stopIn = stopIn
	opened = append(opened, in)
	uid, gid := b.spec.UID, b.spec.GID
	if cmd.UID != 0 {
		uid, gid = cmd.UID, cmd.UID
	}
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--uid", strconv.Itoa(uid), "--gid", strconv.Itoa(gid), "--hostname", "box",
		"--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv",
	}
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		args = append(args, "--setenv", k, v)
	}
	args = append(args, b.args...)
	args = append(args, "--chdir", cmd.Dir)
	argsR, err := filled([]byte(strings.Join(args, "\x00") + "\x00"))
	if err != nil {
		return nil, err
	}
	opened = append(opened, argsR)
	filter, err := filled(seccomp.Bytes())
	if err != nil {
		return nil, err
	}
	opened = append(opened, filter)
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	opened = append(opened, statusR, statusW)
	blockR, blockW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	opened = append(opened, blockR, blockW)
	p.statusR, p.blockW = statusR, blockW
	p.child = []*os.File{in, argsR, filter, statusW, blockR}
	if p.out, err = stdio.New(cmd.Stdout, b.spec.Limits.OutputBytes, over); err != nil {
		return nil, err
	}
	if p.err, err = stdio.New(cmd.Stderr, b.spec.Limits.OutputBytes, over); err != nil {
		p.out.Discard()
		return nil, err
	}
	p.out.Start()
	p.err.Start()

	b.mu.Lock()
	cpu := b.cpu
	b.mu.Unlock()
	argv := append(b.chain(cpu), "--args", "3", "--seccomp", "4", "--json-status-fd", "5", "--block-fd", "6", "--")
	argv = append(argv, cmd.Args...)
	r.cmd = &exec.Cmd{
		Path: argv[0], Args: argv, Dir: "/", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		Stdin: in, Stdout: p.out.W, Stderr: p.err.W,
		ExtraFiles: []*os.File{argsR, filter, statusW, blockR},
	}
	return p, nil
}

// filled returns the reading end of a memory file with the given content.
func filled(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("box", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "box")
	if _, err = f.Write(data); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// status reads what bubblewrap tells: first the pid of the namespace's first
// process, which is held until its limits are set, at the end its exit code.
func (b *Box) status(r *run, p *plumbing, told chan<- bool) {
	began := false
	defer func() { told <- began }()
	s := bufio.NewScanner(io.LimitReader(p.statusR, 64<<10))
	for s.Scan() {
		var m struct {
			ChildPID int  `json:"child-pid"`
			ExitCode *int `json:"exit-code"`
		}
		if json.Unmarshal(bytes.TrimSpace(s.Bytes()), &m) != nil {
			continue
		}
		if m.ExitCode != nil {
			began = true // only told of commands that could be executed
		}
		if m.ChildPID <= 1 {
			continue
		}
		h, err := proc.Open(m.ChildPID)
		r.mu.Lock()
		if err == nil && r.init == nil {
			r.init = h
			if !b.d.store.Root() {
				// Counted per user namespace, so it must be set inside:
				// earlier it would count all processes of this user.
				n := uint64(b.spec.Limits.Pids + 1)
				_ = unix.Prlimit(m.ChildPID, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}, nil)
			}
			if r.dying {
				_ = h.Kill()
			}
		}
		r.mu.Unlock()
		_, _ = p.blockW.Write([]byte{1})
	}
}

// supervise waits for bubblewrap and enforces what the kernel does not.
func (b *Box) supervise(ctx context.Context, r *run, p *plumbing, wall time.Duration) {
	done := make(chan struct{})
	go func() {
		_ = r.cmd.Wait()
		close(done)
	}()
	timer := time.NewTimer(wall)
	defer timer.Stop()
	poll := time.NewTicker(tick)
	defer poll.Stop()
	if !b.space.Soft() && b.spec.Limits.CPUMS == 0 && b.ns == nil {
		poll.Stop()
	}
	cancelled := ctx.Done()
	var again <-chan time.Time // kill bubblewrap itself if the rest did not help
	for {
		select {
		case <-done:
			return
		case <-cancelled:
			cancelled = nil
			r.kill("", "cancelled")
		case <-timer.C:
			r.kill("wall", "")
		case l := <-p.over:
			r.kill(l, "")
		case <-again:
			_ = r.cmd.Process.Kill()
		case <-poll.C:
			b.poll(r)
		}
		r.mu.Lock()
		if r.dying && again == nil {
			again = time.After(5 * time.Second)
		}
		r.mu.Unlock()
	}
}

// poll looks at CPU time, at sockets, and at quotas that lie on the host's disk.
func (b *Box) poll(r *run) {
	if l := time.Duration(b.spec.Limits.CPUMS) * time.Millisecond; l > 0 && b.used(r) > l {
		r.kill("cpu", "")
		return
	}
	// What an unaccepted connection holds is charged to no group.
	if b.ns != nil {
		if n, err := b.ns.Sockets(); err == nil && n > netns.MaxSockets(b.spec.Limits.MemoryBytes) {
			r.kill("memory", "")
			return
		}
	}
	if !b.space.Soft() {
		return
	}
	bytes, nodes := b.space.Usage()
	if bytes-b.base > b.spec.Limits.DiskBytes || nodes-b.baseNodes > b.spec.Limits.Inodes {
		r.kill("disk", "")
		return
	}
	if b.space.HostFree() < hostDiskFloor {
		b.mu.Lock()
		b.end = sandbox.End{Ended: true, Killed: "host_disk"}
		b.mu.Unlock()
		r.kill("", "host_disk")
	}
}

// used is the CPU time of the box's commands.
func (b *Box) used(r *run) time.Duration {
	if b.group != nil {
		return b.group.CPU()
	}
	r.mu.Lock()
	if r.init != nil {
		r.cpu = max(r.cpu, proc.TreeCPU(r.init.PID))
	}
	cpu := r.cpu
	r.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cpu + cpu
}

// Dial implements sandbox.Box.
func (b *Box) Dial(ctx context.Context, port int) (net.Conn, error) {
	if b.ns == nil {
		return nil, fmt.Errorf("%w: the box has the host's network", sandbox.ErrSpec)
	}
	return b.ns.Dial(ctx, port)
}

// ReadFile implements sandbox.Box.
func (b *Box) ReadFile(path string, limit int64) ([]byte, error) {
	return b.space.ReadFile(path, limit)
}

// Layer implements sandbox.Box.
func (b *Box) Layer(_ context.Context, target string) (*sandbox.Layer, error) {
	b.stop()
	l, err := b.space.Layer(target)
	if err != nil {
		return nil, err
	}
	if err := b.Close(); err != nil {
		_ = l.Remove()
		return nil, err
	}
	return l, nil
}

// stop ends every command and waits for it. No command starts afterwards.
func (b *Box) stop() {
	b.mu.Lock()
	b.end.Ended = true
	for r := range b.running {
		r.kill("", "closed")
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// Close implements sandbox.Box.
func (b *Box) Close() error {
	b.once.Do(func() {
		b.stop()
		var err error
		if b.group != nil {
			err = errors.Join(err, b.group.Kill(0, 10*time.Second))
		}
		if b.doors != nil {
			err = errors.Join(err, b.doors.Close())
		}
		if b.ns != nil {
			err = errors.Join(err, b.ns.Close())
		}
		if b.group != nil {
			err = errors.Join(err, b.group.Remove())
		}
		if b.space != nil {
			err = errors.Join(err, b.space.Close())
		}
		b.mu.Lock()
		b.end.Closed = true
		b.mu.Unlock()
		if err != nil {
			b.closed = fmt.Errorf("close box: %w", err)
		}
	})
	return b.closed
}
