// Package container is a box that an OCI runtime runs: what the drivers runsc
// and runc share, which is all but the arguments of their runtimes and the way to
// the network. One call of the runtime starts a box; commands are started by its
// first process (see entry), so that a command costs no call of the runtime.
//
// The first process is another user than the commands, which can neither signal
// nor trace it. If it dies without us and without the box's own limits, somebody
// outside did it.
package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
	"github.com/agon-arena/agon/sandbox/internal/layers"
	"github.com/agon-arena/agon/sandbox/internal/proc"
	"github.com/agon-arena/agon/sandbox/netns"
)

// Runtime is what a driver does in its own way for one box. Its methods are
// called once each, in this order, but Dial, and Close even after failures.
type Runtime interface {
	// Bundle prepares the box's files and describes the container. The first
	// process is the entry program at EntryPath.
	Bundle(b *Box) (*specs.Spec, error)
	// Launch starts the container from the bundle in b.Dir() with stdin as the
	// first process's input, and returns the host's number of the process whose
	// end is the box's. It opens the doors unless the first process does.
	Launch(ctx context.Context, b *Box, stdin *os.File) (pid int, err error)
	// Dial connects to a port inside.
	Dial(ctx context.Context, b *Box, port int) (net.Conn, error)
	// Close frees what Bundle and Launch made, when nothing runs any more.
	Close() error
}

// Config makes a box.
type Config struct {
	Spec    sandbox.Spec // complete
	Store   *layers.Store
	Cgroups *cgroup.Host
	Runtime Runtime
	// Own says that the box has a kernel of its own: all its processes are one
	// process of the host, so that commands are killed and measured inside.
	Own bool
}

// Where boxes see their first process, and how long things may take.
const (
	EntryPath = "/.box/entry"
	readyTime = 30 * time.Second
	killTime  = 10 * time.Second
	// tick is how often limits that the kernel does not enforce are looked at.
	tick = 100 * time.Millisecond
	// hostDiskFloor is the room on the host below which a box on disk is ended.
	hostDiskFloor = 64 << 20
)

// Box implements sandbox.Box.
type Box struct {
	Config
	Space *layers.Space
	Group *cgroup.Group
	// Sockets counts the box's internet sockets on the host, at most MaxSockets of
	// which it may have. Launch sets it where there are any.
	Sockets func() (int, error)

	control *control
	init    *proc.Handle  // the process that is the box
	dead    chan struct{} // closed when it has ended and end is set
	helpers []int         // the runtime's other processes that became our children
	dirty   atomic.Bool   // untrusted code has run

	kills   sync.RWMutex // held to kill all commands; shared to start one
	mu      sync.Mutex   // guards what follows
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

// Start makes a box; see sandbox.Driver.
func Start(ctx context.Context, c Config) (_ *Box, err error) {
	b := &Box{Config: c, running: map[*run]bool{}, dead: make(chan struct{})}
	defer func() {
		if err != nil {
			_ = b.Close()
			if ctx.Err() != nil {
				err = ctx.Err()
			}
		}
	}()
	defer c.Cgroups.KeepWarm()()
	if b.Space, err = c.Store.New(c.Spec.Limits, c.Spec.UID, c.Spec.GID); err != nil {
		return nil, err
	}
	b.Group = c.Cgroups.Group(b.Space.ID)
	conf, err := c.Runtime.Bundle(b)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(conf)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(b.Path("config.json"), raw, 0o600); err != nil {
		return nil, fmt.Errorf("%w: write bundle: %w", sandbox.ErrHost, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.launch(ctx); err != nil {
		return nil, fmt.Errorf("%w: start box: %w", sandbox.ErrHost, err)
	}
	return b, nil
}

// launch starts the container and waits for its first process. That ends when
// our end of its input does: a box does not outlive us even if we are killed.
func (b *Box) launch(ctx context.Context) error {
	k, stdin, err := newControl()
	if err != nil {
		return err
	}
	b.control = k
	pid, err := b.Runtime.Launch(ctx, b, stdin)
	_ = stdin.Close()
	if pid > 0 {
		h, oerr := proc.Open(pid)
		if oerr == nil {
			b.init = h
			b.helpers = b.adopted()
			go b.watch()
			if b.Sockets != nil {
				go b.countSockets()
			}
		} else if err == nil {
			err = oerr
		}
	}
	if err != nil {
		return err
	}
	t := time.NewTimer(readyTime)
	defer t.Stop()
	select {
	case <-k.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.dead:
		return errors.New("the first process ended")
	case <-t.C:
		return errors.New("the first process does not answer")
	}
}

// ID names the box in host paths and cgroups.
func (b *Box) ID() string { return b.Space.ID }

// Dir is the bundle's directory.
func (b *Box) Dir() string { return b.Space.Dir() }

// Path names a file of ours in the bundle's directory.
func (b *Box) Path(name string) string { return filepath.Join(b.Space.Dir(), name) }

// HostPID is the host's number of the process that is the box.
func (b *Box) HostPID() int { return b.init.PID }

// watch waits for the end and says how the box ended.
func (b *Box) watch() {
	_ = b.init.Wait(context.Background())
	// It became our child when the runtime's client ended.
	var ws unix.WaitStatus
	var err error
	for {
		if _, err = unix.Wait4(b.init.PID, &ws, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	m := b.Group.Memory()
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
		// Nothing inside can send this signal to it.
		b.end.Killed = "killed"
	case b.dirty.Load():
		// It ended by itself: a defect of gVisor or of the first process that
		// code inside reached. If that were the host's fault, it would be a way
		// to buy another try.
		b.end.Limit = "kernel"
	default:
		b.end.Killed = "driver_died"
	}
	b.mu.Unlock()
	close(b.dead)
}

// countSockets ends the commands of a box whose sockets could hold more than its
// memory. What an unaccepted connection holds is charged to no group, so their
// number is bounded, and daemons make sockets between commands too.
func (b *Box) countSockets() {
	most := netns.MaxSockets(b.Spec.Limits.MemoryBytes)
	poll := time.NewTicker(tick)
	defer poll.Stop()
	for {
		select {
		case <-b.dead:
			return
		case <-poll.C:
			if n, err := b.Sockets(); err == nil && n > most {
				b.killAll("memory", "")
			}
		}
	}
}

// End implements sandbox.Box.
func (b *Box) End() sandbox.End {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end
}

// killAll ends every command in the box and notes why. The first process stays,
// so that the box can be read and used again; if the rest does not die, it goes too.
func (b *Box) killAll(limit, lost string) {
	b.kills.Lock()
	defer b.kills.Unlock()
	b.note(limit, lost)
	var err error
	if b.Own {
		var a Answer
		if a, err = b.control.call(context.Background(), killTime, request{Op: "kill"}); err == nil && a.N != 0 {
			err = fmt.Errorf("%d processes are still there", a.N)
		}
	} else {
		err = b.Group.Kill(b.init.PID, killTime/2)
	}
	if err != nil {
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

// killBox ends the box and notes why.
func (b *Box) killBox(limit, lost string) {
	b.note(limit, lost)
	b.mu.Lock()
	if b.cause == "" && b.lost == "" {
		b.cause, b.lost = limit, lost
	}
	b.mu.Unlock()
	_ = b.init.Kill()
}

// Warm has the first process start a program ahead, and waits until it has done its work.
func (b *Box) Warm(ctx context.Context, w *sandbox.Warm) error {
	env, err := sandbox.CommandEnv(w.Env, []string{"AGON_WARM=3"}, "/")
	if err != nil {
		return err
	}
	a, err := b.control.call(ctx, readyTime, request{Op: "warm", Args: w.Args, Env: env, Dir: "/", UID: b.Spec.UID, GID: b.Spec.GID})
	if err == nil && a.Errno != 0 {
		err = fmt.Errorf("%s does not wait: %w", w.Args[0], unix.Errno(a.Errno))
	}
	return err
}

// Thaw tells the first process of a box that was made of an image where to listen. Its
// answer says that the box is ready, as the first words of one that was started do.
func (b *Box) Thaw(listen []string) error {
	_, _, err := b.control.ask(request{Op: "thaw", Args: listen})
	return err
}

// Dial implements sandbox.Box.
func (b *Box) Dial(ctx context.Context, port int) (net.Conn, error) {
	if b.Spec.Network {
		return nil, fmt.Errorf("%w: the box has the host's network", sandbox.ErrSpec)
	}
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("dial port %d in the box: no such port", port)
	}
	return b.Runtime.Dial(ctx, b, port)
}

// AskDial lets the first process connect to a port inside and then to the link's
// socket, where it says key. It returns the request's number and where an error
// arrives. Call Forget in the end.
func (b *Box) AskDial(port, key int) (id int, answer <-chan Answer, err error) {
	return b.control.ask(request{Op: "dial", Port: port, Key: key})
}

// Forget gives the answer to a request up.
func (b *Box) Forget(id int) { b.control.forget(id) }

// Gone is closed when the first process takes no more requests.
func (b *Box) Gone() <-chan struct{} { return b.control.done }

// ReadFile implements sandbox.Box.
func (b *Box) ReadFile(path string, limit int64) ([]byte, error) {
	return b.Space.ReadFile(path, limit)
}

// Layer implements sandbox.Box.
func (b *Box) Layer(_ context.Context, target string) (*sandbox.Layer, error) {
	if err := b.stop(); err != nil {
		return nil, err
	}
	l, err := b.Space.Layer(target)
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
	if b.Group == nil {
		return nil
	}
	// What a cut-short start left has become our child.
	strays := b.Group.Procs()
	if b.init != nil {
		_ = b.init.Kill()
		select {
		case <-b.dead:
		case <-time.After(2 * killTime):
			return fmt.Errorf("%w: end box: its first process does not die", sandbox.ErrHost)
		}
	}
	if err := b.Group.Kill(0, killTime); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	for _, p := range append(strays, b.helpers...) {
		if b.init == nil || p != b.init.PID {
			reap(p)
		}
	}
	return nil
}

// adopted lists the processes of the box that have become our children, the
// first one apart. Their numbers cannot be anybody else's until we have waited for them.
func (b *Box) adopted() []int {
	if !b.Own {
		return nil // the only one is the first process
	}
	return slices.DeleteFunc(b.Group.Procs(), func(p int) bool { return p == b.init.PID || parent(p) != os.Getpid() })
}

func parent(pid int) int {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(f[1])
	return n
}

// reap waits for a killed process, at most 200 ms, and takes it if it is our child.
func reap(pid int) {
	if h, err := proc.Open(pid); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		_ = h.Wait(ctx)
		cancel()
		_ = h.Close()
	}
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // not interrupted, as it does not wait
}

// Close implements sandbox.Box.
func (b *Box) Close() error {
	b.once.Do(func() {
		err := b.stop()
		if b.control != nil {
			b.control.close()
		}
		// Removing groups, mounts and a network namespace is waiting for the kernel, mostly.
		var group, space error
		var wg sync.WaitGroup
		if b.Group != nil {
			wg.Go(func() { group = b.Group.Remove() })
		}
		if b.Space != nil {
			wg.Go(func() { space = b.Space.Close() })
		}
		err = errors.Join(err, b.Runtime.Close())
		wg.Wait()
		err = errors.Join(err, group, space)
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
