package container

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
	"github.com/agon-arena/agon/sandbox/internal/stdio"
)

// Exec implements sandbox.Box.
func (b *Box) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	if len(cmd.Args) == 0 {
		return sandbox.Exit{}, fmt.Errorf("%w: no command", sandbox.ErrSpec)
	}
	q := request{Op: "exec", Args: cmd.Args, Dir: cmd.Dir, UID: b.Spec.UID, GID: b.Spec.GID}
	if q.Dir == "" {
		q.Dir = "/"
	}
	var err error
	if q.Env, err = sandbox.CommandEnv(b.Spec.Env, cmd.Env, q.Dir); err != nil {
		return sandbox.Exit{}, err
	}
	if cmd.UID != 0 {
		if cmd.UID < 1 || cmd.UID >= sandbox.PauseUID {
			return sandbox.Exit{}, fmt.Errorf("%w: uid %d", sandbox.ErrSpec, cmd.UID)
		}
		q.UID, q.GID = cmd.UID, cmd.UID
	}
	r := &run{}
	// A kill that is under way for an earlier command must not take this one with it,
	// unexplained: it waits for the end of that kill.
	b.kills.RLock()
	started := sync.OnceFunc(b.kills.RUnlock)
	defer started()
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

	over := make(chan string, 1)
	cut := func() {
		select {
		case over <- "output":
		default:
		}
	}
	stdin, stopIn, err := stdio.In(cmd.Stdin)
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	defer func() { _ = stdin.Close(); stopIn() }()
	stdout, err := stdio.New(cmd.Stdout, b.Spec.Limits.OutputBytes, cut)
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	stderr, err := stdio.New(cmd.Stderr, b.Spec.Limits.OutputBytes, cut)
	if err != nil {
		stdout.Discard()
		return sandbox.Exit{}, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	stdout.Start()
	stderr.Start()
	defer stdout.Finish()
	defer stderr.Finish()
	if err := ctx.Err(); err != nil {
		return sandbox.Exit{Code: -1, Lost: "cancelled"}, err
	}

	wasDirty := b.dirty.Load()
	if cmd.Untrusted {
		b.dirty.Store(true)
	}
	before := usage{b.Group.Memory(), b.Group.CPU()}
	start := time.Now() //nolint:forbidigo // measures a real process
	id, answer, err := b.control.ask(q, stdin, stdout.W, stderr.W)
	started()
	_ = stdin.Close()
	_ = stdout.W.Close()
	_ = stderr.W.Close()
	switch {
	case errors.Is(err, errTooLong):
		return sandbox.Exit{Code: 126}, nil
	case err != nil:
		// The first process has ended, or does not listen and has to go.
		_ = b.init.Kill()
		return b.ended(), nil
	}
	defer b.control.forget(id)

	wall := cmd.Wall
	if wall <= 0 {
		wall = time.Duration(b.Spec.Limits.WallMS) * time.Millisecond
	}
	a, alive, ctxErr := b.supervise(ctx, answer, wall, over)
	took := time.Since(start)
	if alive && a.Errno != 0 {
		return b.notStarted(unix.Errno(a.Errno), r, wasDirty, before.memory, ctxErr)
	}
	exit := b.exit(a, alive, before)
	exit.Wall = took
	// Output that was written before the end may pass the bound only now.
	stdout.Finish()
	stderr.Finish()
	b.explain(r, &exit, alive, over, before.memory)
	if ctxErr != nil && exit.Limit == "" {
		exit.Lost = "cancelled"
		return exit, ctxErr
	}
	return exit, nil
}

// usage is what the box had used before a command.
type usage struct {
	memory cgroup.Memory
	cpu    time.Duration
}

// supervise returns when the command has ended, killing everything in the box
// when a limit is passed or ctx ends. It returns false if the box ended instead.
func (b *Box) supervise(ctx context.Context, answer <-chan Answer, wall time.Duration, over <-chan string) (_ Answer, alive bool, _ error) {
	timer := time.NewTimer(wall)
	defer timer.Stop()
	poll := time.NewTicker(tick)
	defer poll.Stop()
	if b.Spec.Limits.CPUMS == 0 && !b.Space.Soft() && !b.Own {
		poll.Stop()
	}
	// An answer that a kill does not bring within this will not come.
	var patience <-chan time.Time
	why := [2]string{}
	stop := func(limit, lost string) {
		if patience == nil {
			why = [2]string{limit, lost}
		}
		b.killAll(limit, lost)
		if patience == nil {
			patience = time.After(killTime)
		}
	}
	cancelled := ctx.Done()
	var err error
	for {
		select {
		case a := <-answer:
			return a, true, err
		case <-b.dead:
			select {
			case a := <-answer: // it ended just before
				return a, true, err
			default:
				return Answer{}, false, err
			}
		case <-cancelled:
			err, cancelled = ctx.Err(), nil
			stop("", "cancelled")
		case <-timer.C:
			stop("wall", "")
		case l := <-over:
			stop(l, "")
		case <-patience:
			b.killBox(why[0], why[1])
		case <-poll.C:
			if limit, lost := killer(b.Group.Memory(), cgroup.Memory{}); b.Own && limit+lost != "" && !b.init.Ending() {
				b.killBox(limit, lost) // gVisor without a part of it serves nobody
			}
			if l := b.Spec.Limits.CPUMS; l > 0 && b.Group.CPU() > time.Duration(l)*time.Millisecond {
				stop("cpu", "")
			} else if b.Space.Soft() {
				b.checkDisk(stop)
			}
		}
	}
}

// checkDisk enforces quotas that lie on the host's disk.
func (b *Box) checkDisk(stop func(limit, lost string)) {
	bytes, nodes := b.Space.Usage()
	if bytes > b.Spec.Limits.DiskBytes || nodes > b.Spec.Limits.Inodes {
		stop("disk", "")
		return
	}
	if b.Space.HostFree() < hostDiskFloor {
		b.killBox("", "host_disk")
	}
}

// notStarted is how a command ends that could not be started. What the box's own
// code left behind can do that: full process table, full memory, a directory that is gone.
func (b *Box) notStarted(errno unix.Errno, r *run, dirty bool, before cgroup.Memory, ctxErr error) (sandbox.Exit, error) {
	b.mu.Lock()
	limit, lost := r.limit, r.lost
	b.mu.Unlock()
	if limit == "" && lost == "" {
		limit, lost = b.killed(before)
	}
	switch {
	case ctxErr != nil:
		return sandbox.Exit{Code: -1, Lost: "cancelled"}, ctxErr
	case limit != "" || lost != "":
		return sandbox.Exit{Code: 137, Signal: 9, Limit: limit, Lost: lost}, nil
	}
	switch errno {
	case unix.EAGAIN:
		return sandbox.Exit{Code: 126, Limit: "pids"}, nil
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG:
		return sandbox.Exit{Code: 127}, nil
	case unix.EACCES, unix.EPERM, unix.ENOEXEC, unix.EISDIR, unix.ELIBBAD, unix.ETXTBSY, unix.E2BIG:
		return sandbox.Exit{Code: 126}, nil
	}
	if dirty {
		return sandbox.Exit{Code: 126}, nil
	}
	return sandbox.Exit{}, fmt.Errorf("%w: start command: %w", sandbox.ErrHost, errno)
}

// exit is what the first process and the kernel say of an ended command.
func (b *Box) exit(a Answer, alive bool, before usage) sandbox.Exit {
	x := sandbox.Exit{Code: 128 + int(unix.SIGKILL), Signal: int(unix.SIGKILL), CPU: time.Duration(a.CPU), MaxRSS: a.MaxRSS}
	if b.Own || !alive {
		// What gVisor counts for its processes is not what they cost.
		x.CPU, x.MaxRSS = b.Group.CPU()-before.cpu, b.Group.Memory().Peak
	} else {
		// What the kernel says of a command leaves out children that it did not wait for:
		// work could be given to one. The box's processes are counted instead, but the first one.
		x.CPU = max(x.CPU, b.Group.CPU()-before.cpu-time.Duration(a.Self))
	}
	if !alive {
		return x
	}
	ws := unix.WaitStatus(a.Status)
	x.Code, x.Signal = ws.ExitStatus(), 0
	if ws.Signaled() {
		x.Signal = int(ws.Signal())
		x.Code = 128 + x.Signal
	}
	return x
}

// explain says why a command ended, from what was seen outside the box only.
func (b *Box) explain(r *run, exit *sandbox.Exit, alive bool, over <-chan string, before cgroup.Memory) {
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
		if limit != "output" || exit.Code != 0 {
			exit.Code, exit.Signal = 128+int(unix.SIGKILL), int(unix.SIGKILL)
		}
		return
	}
	if !alive || exit.Signal == int(unix.SIGKILL) && b.init.Ending() {
		e := b.ended()
		exit.Code, exit.Signal, exit.Limit, exit.Lost = e.Code, e.Signal, e.Limit, e.Lost
		return
	}
	if exit.Code == 0 {
		return
	}
	if b.Space.Soft() && b.Space.HostFree() < hostDiskFloor {
		exit.Lost = "host_disk" // within its quota, but there was no room
		return
	}
	exit.Limit, exit.Lost = b.killed(before)
}

// killed says which out-of-memory killer took something from a command that
// failed. A box with a kernel of its own dies of it: the kernel may have killed
// only a part of gVisor, and the parts serve all commands, so that the next one
// would fail of a kill that came before it.
func (b *Box) killed(before cgroup.Memory) (limit, lost string) {
	if b.Own {
		before = cgroup.Memory{}
	}
	limit, lost = killer(b.Group.Memory(), before)
	if b.Own && limit+lost != "" {
		b.killBox(limit, lost)
	}
	return limit, lost
}

// killer is whose limit a group's kills since before came of; empty without any.
func killer(now, before cgroup.Memory) (limit, lost string) {
	switch {
	case now.Kills <= before.Kills:
		return "", ""
	case now.Own:
		return "memory", ""
	}
	return "", "host_oom"
}

// ended is how commands end that die with the box.
func (b *Box) ended() sandbox.Exit {
	<-b.dead
	e := b.End()
	x := sandbox.Exit{Code: 137, Signal: 9, Limit: e.Limit, Lost: e.Killed}
	if x.Limit == "" && x.Lost == "" {
		x.Lost = "closed"
	}
	return x
}
