// Package fake is a sandbox.Driver without a sandbox: commands are Go
// functions, files are maps, and every way in which a box can fail can be asked
// for. It isolates nothing and runs no foreign code; it is for tests only.
package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
)

// Config scripts the driver. The zero value makes boxes whose every command exits 0.
type Config struct {
	// Info overrides what Info returns; the zero value names driver "fake".
	Info agon.Driver
	// Start, if set, is called before a box is made; its error is returned by
	// Start. Wrap sandbox.ErrHost or sandbox.ErrSpec, or call Box.SetEnd, Box.SetFile.
	Start func(ctx context.Context, box *Box) error
	// Exec plays a command. It may write to cmd.Stdout and cmd.Stderr (bounded
	// by Limits.OutputBytes like in a real box), use box files and call
	// box.Kill. nil exits 0. It should return when ctx ends: ctx ends at the
	// wall limit, when the box is closed or killed. The Exit of a killed or
	// timed-out box is set by the fake, whatever Exec returns.
	Exec func(ctx context.Context, box *Box, cmd sandbox.Cmd) sandbox.Exit
	// ExecErr, if set and not nil for a command, makes Exec fail without running it.
	ExecErr func(box *Box, cmd sandbox.Cmd) error
	// Dial connects to a port inside; nil refuses.
	Dial func(ctx context.Context, box *Box, port int) (net.Conn, error)
	// Files are put in every new box, by absolute path.
	Files map[string][]byte
}

// Driver implements sandbox.Driver. Safe for concurrent use.
type Driver struct {
	c Config

	mu    sync.Mutex
	boxes []*Box // in order of Start
	open  int
}

// New makes a driver.
func New(c Config) *Driver {
	if c.Info.Name == "" {
		c.Info = agon.Driver{Name: "fake", Version: "1", Limits: []string{
			"memory", "pids", "cpu", "disk", "inodes", "output", "wall", "exec_pidns",
		}}
	}
	return &Driver{c: c}
}

// Info implements sandbox.Driver.
func (d *Driver) Info() agon.Driver { return d.c.Info }

// Start implements sandbox.Driver.
func (d *Driver) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := &Box{d: d, Spec: spec, files: map[string][]byte{}, unsafe: map[string]bool{}, dead: make(chan struct{})}
	for p, data := range d.c.Files {
		b.files[path.Clean(p)] = data
	}
	for _, m := range spec.Mounts {
		if m.Kind != sandbox.MountLayer {
			continue
		}
		if m.Layer == nil {
			return nil, fmt.Errorf("%w: mount %s has no layer", sandbox.ErrSpec, m.Target)
		}
		from := d.box(m.Layer.Dir)
		if from == nil {
			return nil, fmt.Errorf("%w: layer %s is gone", sandbox.ErrSpec, m.Layer.Dir)
		}
		for p, data := range from.snapshot() {
			if p == m.Target || strings.HasPrefix(p, m.Target+"/") {
				b.files[p] = data
			}
		}
	}
	if d.c.Start != nil {
		if err := d.c.Start(ctx, b); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	b.id = fmt.Sprintf("fake:%d", len(d.boxes))
	d.boxes = append(d.boxes, b)
	d.open++
	d.mu.Unlock()
	return b, nil
}

// Boxes returns every box started so far, closed ones too.
func (d *Driver) Boxes() []*Box {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*Box(nil), d.boxes...)
}

// Open returns how many boxes were not closed: a test's leak check.
func (d *Driver) Open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

func (d *Driver) box(id string) *Box {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.boxes {
		if b.id == id {
			return b
		}
	}
	return nil
}

// Box is a fake box.
type Box struct {
	// Spec is what Start got.
	Spec sandbox.Spec

	d    *Driver
	id   string
	dead chan struct{} // closed when the box is killed or closed

	mu     sync.Mutex // guards all below
	files  map[string][]byte
	unsafe map[string]bool
	cmds   []sandbox.Cmd
	end    sandbox.End
	ended  bool // dead is closed
}

// SetFile puts a file in the box.
func (b *Box) SetFile(p string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files[path.Clean(p)] = append([]byte(nil), data...)
	delete(b.unsafe, path.Clean(p))
}

// SetUnsafe makes ReadFile of p fail with sandbox.ErrUnsafe, as a link would.
func (b *Box) SetUnsafe(p string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unsafe[path.Clean(p)] = true
}

// RemoveFile takes a file away.
func (b *Box) RemoveFile(p string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.files, path.Clean(p))
}

// Cmds returns the commands run so far, in order of their start.
func (b *Box) Cmds() []sandbox.Cmd {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]sandbox.Cmd(nil), b.cmds...)
}

// Kill ends the box as if from outside: "killed", "driver_died", "host_oom" or
// "host_disk". Running commands end with Exit.Lost = how, later ones with ErrHost.
func (b *Box) Kill(how string) { b.SetEnd(sandbox.End{Ended: true, Killed: how}) }

// SetEnd ends the box in any way, for example End{Ended: true, Limit: "memory"}:
// running commands then end with Exit.Limit.
func (b *Box) SetEnd(e sandbox.End) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end = e
	if e.Ended && !b.ended {
		b.ended = true
		close(b.dead)
	}
}

// Exec implements sandbox.Box.
func (b *Box) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	b.mu.Lock()
	if b.ended {
		e := b.end
		b.mu.Unlock()
		return sandbox.Exit{Code: -1, Lost: e.Killed, Limit: e.Limit}, fmt.Errorf("%w: box has ended", sandbox.ErrHost)
	}
	b.cmds = append(b.cmds, cmd)
	b.mu.Unlock()
	if b.d.c.ExecErr != nil {
		if err := b.d.c.ExecErr(b, cmd); err != nil {
			return sandbox.Exit{}, err
		}
	}
	if b.d.c.Exec == nil {
		return sandbox.Exit{}, nil
	}
	wall := cmd.Wall
	if wall <= 0 {
		wall = time.Duration(b.Spec.Limits.WallMS) * time.Millisecond
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan string, 4) // own limits passed, first one counts
	if wall > 0 {
		t := time.AfterFunc(wall, func() { over <- "wall"; cancel() })
		defer t.Stop()
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-b.dead:
			cancel()
		case <-stop:
		}
	}()
	bound := func(w io.Writer) io.Writer {
		return &bounded{w: w, left: b.Spec.Limits.OutputBytes, limited: b.Spec.Limits.OutputBytes > 0, over: func() {
			select {
			case over <- "output":
			default:
			}
			cancel()
		}}
	}
	cmd.Stdout, cmd.Stderr = bound(cmd.Stdout), bound(cmd.Stderr)
	exit := b.d.c.Exec(ctx, b, cmd)
	b.mu.Lock()
	end := b.end
	b.mu.Unlock()
	select {
	case l := <-over:
		return sandbox.Exit{Code: 137, Signal: 9, Limit: l, Wall: exit.Wall}, nil
	default:
	}
	if end.Ended {
		exit = sandbox.Exit{Code: 137, Signal: 9, Limit: end.Limit, Lost: end.Killed}
		if end.Closed {
			exit.Lost = "closed"
		}
	}
	return exit, nil
}

// Dial implements sandbox.Box.
func (b *Box) Dial(ctx context.Context, port int) (net.Conn, error) {
	if b.d.c.Dial == nil {
		return nil, errors.New("connection refused")
	}
	return b.d.c.Dial(ctx, b, port)
}

// ReadFile implements sandbox.Box.
func (b *Box) ReadFile(p string, limit int64) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p = path.Clean(p)
	if b.unsafe[p] {
		return nil, fmt.Errorf("read %s: %w", p, sandbox.ErrUnsafe)
	}
	data, ok := b.files[p]
	if !ok {
		return nil, fmt.Errorf("read %s: %w", p, sandbox.ErrNotExist)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: %w: more than %d bytes", p, sandbox.ErrUnsafe, limit)
	}
	return append([]byte(nil), data...), nil
}

// Layer implements sandbox.Box. A later box with this layer sees the files
// below the target.
func (b *Box) Layer(_ context.Context, target string) (*sandbox.Layer, error) {
	for _, m := range b.Spec.Mounts {
		if m.Target == target && (m.Kind == sandbox.MountOverlay || m.Kind == sandbox.MountScratch || m.Kind == sandbox.MountLayer) {
			_ = b.Close()
			return &sandbox.Layer{Target: target, Lower: m.Source, Dir: b.id, Remove: func() error { return nil }}, nil
		}
	}
	return nil, fmt.Errorf("%w: no writable mount at %s", sandbox.ErrSpec, target)
}

// End implements sandbox.Box.
func (b *Box) End() sandbox.End {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end
}

// Close implements sandbox.Box.
func (b *Box) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end.Closed {
		return nil
	}
	b.end.Ended, b.end.Closed = true, true
	if !b.ended {
		b.ended = true
		close(b.dead)
	}
	b.d.mu.Lock()
	b.d.open--
	b.d.mu.Unlock()
	return nil
}

func (b *Box) snapshot() map[string][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := make(map[string][]byte, len(b.files))
	for p, d := range b.files {
		m[p] = d
	}
	return m
}

// bounded passes on at most left bytes, then calls over once and swallows the rest.
type bounded struct {
	mu      sync.Mutex
	w       io.Writer
	left    int64
	limited bool
	cut     bool
	over    func()
}

func (w *bounded) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	if w.limited && int64(n) > w.left {
		p = p[:w.left]
		if !w.cut {
			w.cut = true
			w.over()
		}
	}
	w.left -= int64(len(p))
	if w.w != nil && len(p) > 0 {
		_, _ = w.w.Write(p)
	}
	return n, nil
}

var (
	_ sandbox.Driver = (*Driver)(nil)
	_ sandbox.Box    = (*Box)(nil)
)
