package runsc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
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
	link  *link
	doors *netns.Doors
	life  *os.File      // the first process lives while this is open
	init  *proc.Handle  // gVisor's kernel, the "sentry"
	dead  chan struct{} // closed when it has ended and end is set
	// helpers are processes of gVisor that became our children.
	helpers []int

	execs atomic.Int64
	dirty atomic.Bool // untrusted code has run

	mu      sync.Mutex // guards what follows
	end     sandbox.End
	closing bool
	cause   string // own limit for which we ended the whole box
	lost    string // reason outside the box for which we ended it
	running map[*run]bool
	once    sync.Once
	closed  error
}

// run is a command in progress.
type run struct {
	limit string // own limit that ended it
	lost  string
}

const (
	// tick is how often limits that the kernel does not enforce are looked at.
	tick = 100 * time.Millisecond
	// hostDiskFloor is the room on the host below which a box on disk is ended.
	hostDiskFloor = 64 << 20
	// startFailed is how runsc exits when a command did not start.
	startFailed = 128
)

// ID names the box in host paths and cgroups.
func (b *Box) ID() string { return b.space.ID }

// HostPID is the host's number of the process that is the box.
func (b *Box) HostPID() int { return b.init.PID }

// watch waits for gVisor to end and says how the box ended.
func (b *Box) watch() {
	_ = b.init.Wait(context.Background())
	// It became our child when the client that started it ended.
	var ws unix.WaitStatus
	var err error
	for {
		if _, err = unix.Wait4(b.init.PID, &ws, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	m := b.group.Memory()
	b.mu.Lock()
	b.end.Ended = true
	switch {
	case b.cause != "":
		b.end.Limit = b.cause
	case b.lost != "":
		b.end.Killed = b.lost
	case b.closing:
	case m.Kills > 0 && m.Own:
		b.end.Limit = "memory"
	case m.Kills > 0:
		b.end.Killed = "host_oom"
	case err == nil && ws.Signaled() && ws.Signal() == unix.SIGKILL:
		// Nothing inside can send this signal to the host's process.
		b.end.Killed = "killed"
	case b.dirty.Load():
		// gVisor ended by itself: a defect of it that code inside reached. If
		// that were the host's fault, it would be a way to buy another try.
		b.end.Limit = "kernel"
	default:
		b.end.Killed = "driver_died"
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
	cut := func() {
		select {
		case over <- "output":
		default:
		}
	}
	stdin, stopIn, err := pipes.In(cmd.Stdin)
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	defer func() { _ = stdin.Close(); stopIn() }()
	stdout, err := pipes.New(cmd.Stdout, b.spec.Limits.OutputBytes, cut)
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	stderr, err := pipes.New(cmd.Stderr, b.spec.Limits.OutputBytes, cut)
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
	name := fmt.Sprintf("exec%d", b.execs.Add(1))
	file, logFile, pidFile := b.path(name+".json"), b.path(name+".log"), b.path(name+".pid")
	defer func() { _, _, _ = os.Remove(file), os.Remove(logFile), os.Remove(pidFile) }()
	raw, err := json.Marshal(oci.Process(cmd.Args, env, dir, uid, gid, b.spec.Limits.DiskBytes))
	if err != nil {
		return sandbox.Exit{}, err
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return sandbox.Exit{}, fmt.Errorf("%w: write process: %w", sandbox.ErrHost, err)
	}
	c := b.client(logFile, "exec", "--process", file, "--pid-file", pidFile, b.space.ID)
	c.Stdin, c.Stdout = stdin, stdout.W
	c.Stderr = stderr.W
	if err := ctx.Err(); err != nil {
		return sandbox.Exit{Code: -1, Lost: "cancelled"}, err
	}
	start, cpu := time.Now(), b.group.CPU() //nolint:forbidigo // measures a real process
	if err := c.Start(); err != nil {
		return sandbox.Exit{}, fmt.Errorf("%w: start command: %w", sandbox.ErrHost, err)
	}
	_ = stdin.Close()
	_ = stdout.W.Close()
	_ = stderr.W.Close()
	wall := cmd.Wall
	if wall <= 0 {
		wall = time.Duration(b.spec.Limits.WallMS) * time.Millisecond
	}
	ctxErr := b.supervise(ctx, c, wall, over)
	exit := sandbox.Exit{Wall: time.Since(start), CPU: b.group.CPU() - cpu, MaxRSS: b.group.Memory().Peak}
	ps := c.ProcessState
	exit.Code = ps.ExitCode()
	_, notBegun := os.Stat(pidFile)
	// Output that was written before the end may pass the bound only now.
	stdout.Finish()
	stderr.Finish()
	begun, err := b.explain(r, &exit, over, ps, notBegun != nil, wasDirty, logFile)
	if ctxErr != nil && exit.Limit == "" {
		exit.Lost = "cancelled"
		return exit, ctxErr
	}
	if !begun && err == nil {
		err = fmt.Errorf("%w: start command: %s", sandbox.ErrHost, lastError(logFile))
	}
	return exit, err
}

// supervise returns when the client has ended, killing everything in the box
// when a limit is passed or ctx ends. The error is that of ctx.
func (b *Box) supervise(ctx context.Context, c *exec.Cmd, wall time.Duration, over <-chan string) error {
	done := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(done)
	}()
	timer := time.NewTimer(wall)
	defer timer.Stop()
	poll := time.NewTicker(tick)
	defer poll.Stop()
	cancelled := ctx.Done()
	dead := b.dead
	var err error
	for {
		select {
		case <-done:
			return err
		case <-dead:
			// The client learns of it by itself, but need not be believed to.
			dead = nil
			time.AfterFunc(2*time.Second, func() {
				select {
				case <-done:
				default:
					_ = c.Process.Kill()
				}
			})
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
			// The kernel may have killed only a part of gVisor.
			if m := b.group.Memory(); m.Kills > 0 && !b.init.Ending() {
				if m.Own {
					b.killBox("memory", "")
				} else {
					b.killBox("", "host_oom")
				}
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
		b.killBox("", "host_disk")
	}
}

// killAll ends every command in the box and notes why. The first process stays,
// so that the box can be read and used again; if the rest does not die, all of
// gVisor goes.
func (b *Box) killAll(limit, lost string) {
	b.note(limit, lost)
	if err := b.link.killAll(); err != nil {
		b.killBox(limit, lost)
	}
}

func (b *Box) note(limit, lost string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.running {
		if r.limit == "" && r.lost == "" {
			r.limit, r.lost = limit, lost
		}
	}
}

// killBox ends gVisor and notes why.
func (b *Box) killBox(limit, lost string) {
	b.note(limit, lost)
	b.mu.Lock()
	if b.cause == "" && b.lost == "" {
		b.cause, b.lost = limit, lost
	}
	b.mu.Unlock()
	_ = b.init.Kill()
}

// explain completes how a command ended, from what was seen outside the box
// only. It returns false if the command could not be started for no reason of
// its own or of code that ran before.
func (b *Box) explain(r *run, exit *sandbox.Exit, over <-chan string, ps *os.ProcessState, notBegun, dirty bool, logFile string) (bool, error) {
	b.mu.Lock()
	limit, lost := r.limit, r.lost
	b.mu.Unlock()
	if limit == "" && lost == "" {
		select {
		case limit = <-over: // passed the bound with its last words
		default:
		}
	}
	if b.ended() {
		<-b.dead
		e := b.End()
		exit.Code, exit.Signal = 128+int(unix.SIGKILL), int(unix.SIGKILL)
		if limit == "" && lost == "" {
			limit, lost = e.Limit, e.Killed
		}
		if limit == "" && lost == "" {
			lost = "closed"
		}
		exit.Limit, exit.Lost = limit, lost
		return true, nil
	}
	if limit != "" || lost != "" {
		exit.Limit, exit.Lost = limit, lost
		if limit != "output" || exit.Code != 0 {
			exit.Code, exit.Signal = 128+int(unix.SIGKILL), int(unix.SIGKILL)
		}
		return true, nil
	}
	if !ps.Exited() { // the client was killed, which nobody inside can do
		exit.Code, exit.Lost = -1, "driver_died"
		return true, nil
	}
	if !notBegun {
		return true, nil
	}
	text := lastError(logFile)
	switch {
	case exit.Code != startFailed:
		return true, nil // so short that it ended before its pid was written
	case strings.Contains(text, "no such file or directory"), strings.Contains(text, "not found"), strings.Contains(text, "not a directory"):
		exit.Code = 127
	case strings.Contains(text, "permission denied"), strings.Contains(text, "exec format error"), strings.Contains(text, "is a directory"), dirty:
		exit.Code = 126
	default:
		return false, nil
	}
	return true, nil
}

// ended tells whether gVisor has ended or is ending.
func (b *Box) ended() bool { return b.init.Ending() }

// Dial implements sandbox.Box.
func (b *Box) Dial(ctx context.Context, port int) (net.Conn, error) {
	if b.spec.Network {
		return nil, errSpecNetwork
	}
	return b.link.dial(ctx, port)
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
	if b.group == nil {
		return nil
	}
	if b.init != nil {
		_ = b.init.Kill()
		select {
		case <-b.dead:
		case <-time.After(20 * time.Second):
			return fmt.Errorf("%w: end box: gVisor does not die", sandbox.ErrHost)
		}
	}
	if err := b.group.Kill(0, 10*time.Second); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	for _, p := range b.helpers {
		reap(p)
	}
	return nil
}

// adopted lists the processes of the box that have become our children, gVisor's
// own apart. Their numbers cannot be anybody else's until we have waited for them.
func (b *Box) adopted() (out []int) {
	for _, p := range b.group.Procs() {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
		if err != nil || p == b.init.PID {
			continue
		}
		f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		if len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			out = append(out, p)
		}
	}
	return out
}

// reap waits for a killed child.
func reap(pid int) {
	for range 200 {
		got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if got == pid || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Close implements sandbox.Box.
func (b *Box) Close() error {
	b.once.Do(func() {
		err := b.stop()
		if b.link != nil {
			err = errors.Join(err, b.link.close())
		}
		if b.doors != nil {
			err = errors.Join(err, b.doors.Close())
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
