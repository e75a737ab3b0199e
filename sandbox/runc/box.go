package runc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
	"github.com/agon-arena/agon/sandbox/internal/layers"
	"github.com/agon-arena/agon/sandbox/internal/oci"
	"github.com/agon-arena/agon/sandbox/internal/proc"
	pipes "github.com/agon-arena/agon/sandbox/internal/stdio"
	"github.com/agon-arena/agon/sandbox/netns"
)

// Box implements sandbox.Box.
type Box struct {
	d     *Driver
	spec  sandbox.Spec
	space *layers.Space
	group *cgroup.Group
	ns    *netns.NS
	doors *netns.Doors
	life  *os.File      // the first process lives while this is open
	init  *proc.Handle  // the first process
	dead  chan struct{} // closed when it has ended and end is set

	execs atomic.Int64
	dirty atomic.Bool // untrusted code has run

	mu      sync.Mutex // guards what follows
	end     sandbox.End
	closing bool
	cause   string // own limit for which we ended the whole box
	killed  string // what from outside made us end it
	running map[*run]bool
	once    sync.Once
	closed  error
}

// run is a command in progress.
type run struct {
	pid   int    // 0 until it has started
	limit string // own limit that ended it
	lost  string
}

// tick is how often limits that the kernel does not enforce are looked at.
const tick = 100 * time.Millisecond

// hostDiskFloor is the room on the host below which a box on disk is ended.
const hostDiskFloor = 64 << 20

// ID names the box in host paths and cgroups.
func (b *Box) ID() string { return b.space.ID }

// HostPID is the host's number of the box's first process.
func (b *Box) HostPID() int { return b.init.PID }

// watch waits for the first process to end and says how the box ended.
func (b *Box) watch() {
	_ = b.init.Wait(context.Background())
	// It became our child when the runtime's client ended.
	_, _ = unix.Wait4(b.init.PID, nil, 0, nil)
	b.mu.Lock()
	b.end.Ended = true
	switch m := b.group.Memory(); {
	case b.killed != "":
		b.end.Killed = b.killed
	case b.cause != "":
		b.end.Limit = b.cause
	case b.closing:
	case m.Kills > 0 && m.Own:
		b.end.Limit = "memory"
	case m.Kills > 0:
		b.end.Killed = "host_oom"
	default:
		b.end.Killed = "killed"
	}
	b.mu.Unlock()
	close(b.dead)
}

// End implements sandbox.Box.
func (b *Box) End() sandbox.End {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end
}

// Exec implements sandbox.Box.
func (b *Box) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	if len(cmd.Args) == 0 {
		return sandbox.Exit{}, fmt.Errorf("%w: no command", sandbox.ErrSpec)
	}
	dir := cmd.Dir
	if dir == "" {
		dir = "/"
	}
	env, err := sandbox.CommandEnv(b.spec.Env, cmd.Env, dir)
	if err != nil {
		return sandbox.Exit{}, err
	}
	uid, gid := b.spec.UID, b.spec.GID
	if cmd.UID != 0 {
		if cmd.UID < 1 || cmd.UID >= sandbox.PauseUID {
			return sandbox.Exit{}, fmt.Errorf("%w: uid %d", sandbox.ErrSpec, cmd.UID)
		}
		uid, gid = cmd.UID, cmd.UID
	}
	r := &run{}
	b.mu.Lock()
	if b.closing || b.end.Ended {
		e := b.end
		b.mu.Unlock()
		return sandbox.Exit{Code: -1, Limit: e.Limit, Lost: e.Killed}, fmt.Errorf("%w: the box has ended", sandbox.ErrHost)
	}
	b.running[r] = true
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.running, r)
		b.mu.Unlock()
	}()

	over := make(chan string, 4)
	say := func(limit string) func() {
		return func() {
			select {
			case over <- limit:
			default:
			}
		}
	}
	stdin, stopIn, err := pipes.In(cmd.Stdin)
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	defer func() { _ = stdin.Close(); stopIn() }()
	stdout, err := pipes.New(cmd.Stdout, b.spec.Limits.OutputBytes, say("output"))
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	stderr, err := pipes.New(cmd.Stderr, b.spec.Limits.OutputBytes, say("output"))
	if err != nil {
		stdout.Discard()
		return sandbox.Exit{}, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	stdout.Start()
	stderr.Start()
	defer stdout.Finish()
	defer stderr.Finish()

	wasDirty := b.dirty.Load()
	if cmd.Untrusted {
		b.dirty.Store(true)
	}
	before, refused := b.group.Memory(), b.group.PidsRefused()
	start := time.Now() //nolint:forbidigo // measures a real process
	h, exit, err := b.spawn(r, oci.Process(cmd.Args, env, dir, uid, gid, b.spec.Limits.DiskBytes),
		stdio{in: stdin, out: stdout.W, err: stderr.W}, wasDirty, before, refused)
	_ = stdin.Close()
	_ = stdout.W.Close()
	_ = stderr.W.Close()
	if h == nil {
		return exit, err
	}
	defer func() { _ = h.Close() }()
	wall := cmd.Wall
	if wall <= 0 {
		wall = time.Duration(b.spec.Limits.WallMS) * time.Millisecond
	}
	err = b.supervise(ctx, h, wall, over)
	var ws unix.WaitStatus
	var ru unix.Rusage
	for {
		_, werr := unix.Wait4(h.PID, &ws, 0, &ru)
		if !errors.Is(werr, unix.EINTR) {
			break
		}
	}
	exit = sandbox.Exit{
		Code: ws.ExitStatus(), Wall: time.Since(start),
		CPU:    time.Duration(ru.Utime.Nano() + ru.Stime.Nano()),
		MaxRSS: ru.Maxrss << 10,
	}
	if ws.Signaled() {
		exit.Signal = int(ws.Signal())
		exit.Code = 128 + exit.Signal
	}
	// Output that was written before the end may pass the bound only now.
	stdout.Finish()
	stderr.Finish()
	b.explain(r, &exit, over, before)
	if err != nil && exit.Limit == "" {
		exit.Lost = "cancelled"
		return exit, err
	}
	return exit, nil
}

// spawn starts a command. A nil handle means that it did not start: exit and
// err then say what Exec returns.
func (b *Box) spawn(r *run, p any, io stdio, dirty bool, before cgroup.Memory, refused int64) (*proc.Handle, sandbox.Exit, error) {
	name := fmt.Sprintf("exec%d", b.execs.Add(1))
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, sandbox.Exit{}, err
	}
	file := b.path(name + ".json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return nil, sandbox.Exit{}, fmt.Errorf("%w: write process: %w", sandbox.ErrHost, err)
	}
	defer func() { _ = os.Remove(file) }()
	pid, text, err := b.runtime(name, io, "exec", "--detach", "--process", file)
	if err == nil {
		b.mu.Lock()
		r.pid = pid // from now on only Exec waits for it
		b.mu.Unlock()
		h, oerr := proc.Open(pid)
		if oerr == nil {
			return h, sandbox.Exit{}, nil
		}
		err = oerr // the box was closed at this moment and the process reaped with it
	}
	if b.init.Ending() {
		return nil, b.ended(), nil
	}
	if errors.Is(err, errClient) {
		// What it had started is out of our hands: the box is over.
		b.mu.Lock()
		b.killed = "driver_died"
		b.mu.Unlock()
		_ = b.stop()
		return nil, sandbox.Exit{Code: -1, Lost: "driver_died"}, nil
	}
	// What the box's own code left behind can keep a command from starting:
	// full process table, full memory, a directory that is gone.
	after := b.group.Memory()
	switch {
	case after.Kills > before.Kills && after.Own:
		return nil, sandbox.Exit{Code: 137, Signal: 9, Limit: "memory"}, nil
	case after.Kills > before.Kills:
		return nil, sandbox.Exit{Code: 137, Signal: 9, Lost: "host_oom"}, nil
	case b.group.PidsRefused() > refused:
		return nil, sandbox.Exit{Code: 126, Limit: "pids"}, nil
	case strings.Contains(text, "executable file not found") || strings.Contains(text, "no such file or directory"):
		return nil, sandbox.Exit{Code: 127}, nil
	case strings.Contains(text, "permission denied") || strings.Contains(text, "exec format error") || dirty:
		return nil, sandbox.Exit{Code: 126}, nil
	}
	return nil, sandbox.Exit{}, fmt.Errorf("%w: start command: %w", sandbox.ErrHost, err)
}

// supervise returns when the process has ended, killing everything in the box
// when a limit is passed or ctx ends. The error is that of ctx.
func (b *Box) supervise(ctx context.Context, h *proc.Handle, wall time.Duration, over <-chan string) error {
	done := make(chan struct{})
	go func() {
		_ = h.Wait(context.Background())
		close(done)
	}()
	timer := time.NewTimer(wall)
	defer timer.Stop()
	poll := time.NewTicker(tick)
	defer poll.Stop()
	if b.spec.Limits.CPUMS == 0 && !b.space.Soft() {
		poll.Stop()
	}
	cancelled := ctx.Done()
	var err error
	for {
		select {
		case <-done:
			return err
		case <-cancelled:
			err, cancelled = ctx.Err(), nil
			b.killAll("", "cancelled")
		case <-timer.C:
			b.killAll("wall", "")
		case l := <-over:
			b.killAll(l, "")
		case <-poll.C:
			if l := b.spec.Limits.CPUMS; l > 0 && b.group.CPU() > time.Duration(l)*time.Millisecond {
				b.killAll("cpu", "")
			} else if b.space.Soft() {
				b.checkDisk()
			}
		}
	}
}

// checkDisk enforces quotas that lie on the host's disk.
func (b *Box) checkDisk() {
	bytes, nodes := b.space.Usage()
	if bytes > b.spec.Limits.DiskBytes || nodes > b.spec.Limits.Inodes {
		b.killAll("disk", "")
		return
	}
	if b.space.HostFree() < hostDiskFloor {
		b.mu.Lock()
		b.killed = "host_disk"
		b.mu.Unlock()
		b.killAll("", "host_disk")
		_ = b.init.Kill()
	}
}

// killAll ends every command in the box and notes why. The first process stays,
// so that the box can be read and used again; if the rest does not die, it goes too.
func (b *Box) killAll(limit, lost string) {
	b.mu.Lock()
	for r := range b.running {
		if r.limit == "" && r.lost == "" {
			r.limit, r.lost = limit, lost
		}
	}
	b.mu.Unlock()
	if err := b.group.Kill(b.init.PID, 5*time.Second); err != nil {
		b.mu.Lock()
		b.cause = limit
		b.mu.Unlock()
		_ = b.init.Kill()
	}
}

// explain says why a command ended, from what was seen outside the box only.
func (b *Box) explain(r *run, exit *sandbox.Exit, over <-chan string, before cgroup.Memory) {
	b.mu.Lock()
	limit, lost := r.limit, r.lost
	b.mu.Unlock()
	if limit == "" && lost == "" {
		select {
		case limit = <-over: // passed the bound with its last words
		default:
		}
	}
	if limit != "" || lost != "" {
		exit.Limit, exit.Lost = limit, lost
		return
	}
	if exit.Signal == int(unix.SIGKILL) && b.init.Ending() {
		e := b.ended()
		exit.Limit, exit.Lost = e.Limit, e.Lost
		return
	}
	if exit.Code == 0 {
		return
	}
	if b.space.Soft() && b.space.HostFree() < hostDiskFloor {
		exit.Lost = "host_disk" // within its quota, but there was no room
		return
	}
	if after := b.group.Memory(); after.Kills > before.Kills {
		if after.Own {
			exit.Limit = "memory"
		} else {
			exit.Lost = "host_oom"
		}
	}
}

// ended is how commands end that die with the first process.
func (b *Box) ended() sandbox.Exit {
	<-b.dead
	e := b.End()
	x := sandbox.Exit{Code: 137, Signal: 9, Limit: e.Limit, Lost: e.Killed}
	if x.Limit == "" && x.Lost == "" {
		x.Lost = "closed"
	}
	return x
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
	if err := b.stop(); err != nil {
		return nil, err
	}
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

// stop kills everything inside and waits for it.
func (b *Box) stop() error {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	if b.life != nil {
		_ = b.life.Close()
	}
	if b.init != nil {
		// The first process is not gone before all others are reaped. Those
		// that no Exec waits for, because their start was cut short, are ours too.
		strays := b.group.Procs()
		_ = b.init.Kill()
		timeout := time.After(20 * time.Second)
		for dead := false; !dead; {
			select {
			case <-b.dead:
				dead = true
			case <-timeout:
				return fmt.Errorf("%w: end box: its first process does not die", sandbox.ErrHost)
			case <-time.After(5 * time.Millisecond):
				b.reap(strays)
			}
		}
		b.reap(strays)
	}
	if b.group != nil {
		// Nothing is left unless a start was cut short.
		strays := b.group.Procs()
		if err := b.group.Kill(0, 10*time.Second); err != nil {
			return fmt.Errorf("%w: %w", sandbox.ErrHost, err)
		}
		b.reap(strays)
	}
	return nil
}

// reap takes the exit status of processes that nobody waits for.
func (b *Box) reap(pids []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range pids {
		waited := b.init != nil && p == b.init.PID
		for r := range b.running {
			waited = waited || r.pid == p
		}
		if !waited {
			_, _ = unix.Wait4(p, nil, unix.WNOHANG, nil)
		}
	}
}

// Close implements sandbox.Box.
func (b *Box) Close() error {
	b.once.Do(func() {
		err := b.stop()
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
		if b.init != nil {
			_ = b.init.Close()
		}
		b.mu.Lock()
		b.end.Ended, b.end.Closed = true, true
		b.mu.Unlock()
		if err != nil {
			b.closed = fmt.Errorf("close box: %w", err)
		}
	})
	return b.closed
}
