// Package warm keeps boxes in which Python has already imported what an arena
// declares, so that a short script starts in milliseconds. Each invocation is a
// fork that can start nothing, signal nobody and write nothing.
//
// A warm box serves one submission only. Nothing survives from one invocation to
// the next; whenever that is in doubt the box is thrown away and the next
// invocation gets a fresh one.
package warm

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/seccomp"
)

//go:embed zygote.py
var zygote string

// Config describes the warm box of one submission.
type Config struct {
	// Driver makes the boxes. Required.
	Driver sandbox.Driver
	// Spec is the box, with Rootfs, Limits, Doors and Hostnames. It may have
	// read-only mounts only.
	Spec sandbox.Spec
	// Script is the path of the submission's script in the box. Required.
	Script string
	// Imports are the modules that the arena declares; importing them must have
	// no effect that a script may not share.
	Imports []string
	// MaxResult and MaxOutput bound an invocation's result and printed bytes;
	// 0 means 1 MiB and 64 KiB.
	MaxResult, MaxOutput int64
	// MemoryBytes bounds the address space of an invocation; 0 means no bound but the box's.
	MemoryBytes int64
	// MaxUses throws a box away after so many invocations; 0 means 10,000.
	MaxUses int
}

// Pool invokes the script of one submission, one invocation at a time. Safe for
// concurrent use: more callers wait.
type Pool struct {
	c    Config
	mu   sync.Mutex // held during an invocation
	box  *keeper
	made int
}

// Result is how an invocation ended.
type Result struct {
	// Status is "ok", "error" (the script failed: see Code), "timeout",
	// "too_large" or "died". All but "ok" are the script's own doing.
	Status string
	// Value is the result of the entry point, exact JSON.
	Value json.RawMessage
	// Code, Exception and Message say what the script raised. Its own words.
	Code, Exception, Message string
	// Output is what the script printed.
	Output []byte
	Wall   time.Duration
	// Kept tells whether the box serves the next invocation too.
	Kept bool
}

const (
	startTime = 60 * time.Second
	maxHead   = 64 << 10
	grace     = 10 * time.Second // beyond an invocation's wall time
	maxDepth  = 256
)

// New checks the configuration. The first box starts with the first invocation,
// or with Warm.
func New(c Config) (*Pool, error) {
	if c.Driver == nil || c.Script == "" {
		return nil, fmt.Errorf("%w: warm box without driver or script", sandbox.ErrSpec)
	}
	for _, m := range c.Spec.Mounts {
		if m.Kind != sandbox.MountReadOnly {
			return nil, fmt.Errorf("%w: warm box: mount %s can be written", sandbox.ErrSpec, m.Target)
		}
	}
	if c.MaxResult <= 0 {
		c.MaxResult = 1 << 20
	}
	if c.MaxOutput <= 0 {
		c.MaxOutput = 64 << 10
	}
	if c.MaxUses <= 0 {
		c.MaxUses = 10_000
	}
	// What the keeper sends is bounded frame by frame.
	c.Spec.Limits.OutputBytes = 1 << 42
	return &Pool{c: c}, nil
}

// Warm starts a box if there is none.
func (p *Pool) Warm(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.ready(ctx)
	return err
}

// Boxes is how many boxes were started so far.
func (p *Pool) Boxes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// Close ends the box.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drop()
}

func (p *Pool) drop() error {
	k := p.box
	p.box = nil
	if k == nil {
		return nil
	}
	return k.close()
}

func (p *Pool) ready(ctx context.Context) (*keeper, error) {
	if p.box != nil && p.box.uses < p.c.MaxUses && !p.box.gone() {
		return p.box, nil
	}
	if err := p.drop(); err != nil {
		return nil, err
	}
	k, err := start(ctx, p.c)
	if err != nil {
		return nil, err
	}
	p.box, p.made = k, p.made+1
	return k, nil
}

// Invoke runs entry(payload) of the script in a fresh process, for at most wall.
// An error is the host's (wrapping sandbox.ErrHost) or ctx's; what the script
// does is in the Result.
func (p *Pool) Invoke(ctx context.Context, entry string, payload json.RawMessage, wall time.Duration) (Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	k, err := p.ready(ctx)
	if err != nil {
		return Result{}, err
	}
	r, err := k.invoke(ctx, p.c, entry, payload, wall)
	if err != nil || !r.Kept {
		if e := p.drop(); err == nil {
			err = e
		}
	}
	return r, err
}

// keeper is a running box and the two pipes to the process in it.
type keeper struct {
	box    sandbox.Box
	in     *os.File
	out    *io.PipeReader
	cancel context.CancelFunc
	done   chan struct{} // closed when the process has ended and exit is set
	exit   sandbox.Exit
	err    error
	uses   int
}

func start(ctx context.Context, c Config) (_ *keeper, err error) {
	box, err := c.Driver.Start(ctx, c.Spec)
	if err != nil {
		return nil, err
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		_ = box.Close()
		return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	outR, outW := io.Pipe()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k := &keeper{box: box, in: inW, out: outR, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		// The keeper runs as long as the box; invocations have wall limits of their own.
		k.exit, k.err = box.Exec(life, sandbox.Cmd{
			Args: []string{"python3", "-I", "-B", "-c", zygote}, Stdin: inR, Stdout: outW, Untrusted: true, Wall: 24 * time.Hour,
		})
		_ = outW.Close()
		_ = inR.Close()
	}()
	defer func() {
		if err != nil {
			_ = k.close()
		}
	}()
	conf, err := json.Marshal(map[string]any{
		"filter": base64.StdEncoding.EncodeToString(seccomp.Leaf()), "imports": append([]string{}, c.Imports...),
		"result": c.MaxResult, "output": c.MaxOutput, "memory": c.MemoryBytes, "empty": []string{"/tmp", "/dev/shm"},
	})
	if err != nil {
		return nil, err
	}
	var hello struct {
		Ready  bool
		Failed []string
	}
	err = k.within(ctx, startTime, func() error {
		if err := k.send(conf); err != nil {
			return err
		}
		return k.receive(&hello)
	})
	if err != nil {
		return nil, fmt.Errorf("%w: start warm box: %w", sandbox.ErrHost, err)
	}
	if !hello.Ready || len(hello.Failed) > 0 {
		return nil, fmt.Errorf("%w: start warm box: modules of the arena: %.500q", sandbox.ErrSpec, hello.Failed)
	}
	return k, nil
}

func (k *keeper) gone() bool {
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}

func (k *keeper) close() error {
	k.cancel()
	_ = k.in.Close()
	_ = k.out.CloseWithError(io.ErrClosedPipe)
	err := k.box.Close()
	<-k.done
	return err
}

// within bounds an exchange; on timeout the pipes are closed and the box is of no more use.
func (k *keeper) within(ctx context.Context, d time.Duration, f func() error) error {
	errTime := errors.New("the keeper does not answer")
	stop := context.AfterFunc(ctx, func() { k.abort(ctx.Err()) })
	defer stop()
	t := time.AfterFunc(d, func() { k.abort(errTime) })
	defer t.Stop()
	err := f()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (k *keeper) abort(why error) {
	_ = k.in.Close()
	_ = k.out.CloseWithError(why)
	k.cancel()
}

func (k *keeper) send(data []byte) error {
	buf := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(data)), uint64(len(data)))
	_, err := k.in.Write(append(buf, data...))
	return err
}

// receive reads a frame of the keeper's own words into v.
func (k *keeper) receive(v any) error {
	var n [8]byte
	if _, err := io.ReadFull(k.out, n[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint64(n[:])
	if size > maxHead {
		return fmt.Errorf("a frame of %d bytes", size)
	}
	buf := make([]byte, size)
	if _, err := io.ReadFull(k.out, buf); err != nil {
		return err
	}
	return json.Unmarshal(buf, v)
}

// head is what the keeper saw of an invocation.
type head struct {
	End            string
	Signal, Code   int
	Whole          bool
	Doubts         []string
	MS             float64
	Result, Output int64
}

func (k *keeper) invoke(ctx context.Context, c Config, entry string, payload json.RawMessage, wall time.Duration) (Result, error) {
	if len(payload) == 0 {
		payload = json.RawMessage("null")
	}
	req, err := json.Marshal(map[string]any{"entry": entry, "payload": payload, "wall_ms": wall.Milliseconds(), "script": c.Script})
	if err != nil {
		return Result{}, fmt.Errorf("%w: encode invocation: %w", sandbox.ErrSpec, err)
	}
	k.uses++
	var h head
	var value, output []byte
	err = k.within(ctx, wall+grace, func() error {
		if err := k.send(req); err != nil {
			return err
		}
		if err := k.receive(&h); err != nil {
			return err
		}
		if h.Result < 0 || h.Output < 0 || h.Result > c.MaxResult || h.Output > c.MaxOutput {
			return errors.New("the keeper passed its bounds")
		}
		value, output = make([]byte, h.Result), make([]byte, h.Output)
		if _, err := io.ReadFull(k.out, value); err != nil {
			return err
		}
		_, err := io.ReadFull(k.out, output)
		return err
	})
	if err != nil {
		return k.lost(ctx, err)
	}
	r := Result{Output: output, Wall: time.Duration(h.MS * float64(time.Millisecond))}
	// After an end by force it is not known what was half done.
	r.Kept = h.End == "" && h.Signal == 0 && h.Code == 0 && len(h.Doubts) == 0
	switch {
	case h.End == "wall":
		r.Status = "timeout"
	case h.End != "":
		r.Status = "too_large"
	case !h.Whole:
		r.Status = "died"
	default:
		if err := r.parse(value); err != nil {
			r.Status, r.Kept = "died", false
		}
	}
	return r, nil
}

// lost says whose doing it is that the keeper ended or fell silent: ctx's, the
// host's where the box was ended from outside, else the script's, the only code
// that ran.
func (k *keeper) lost(ctx context.Context, cause error) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	k.abort(cause)
	<-k.done
	if e := k.box.End(); e.Killed != "" {
		return Result{}, fmt.Errorf("%w: warm box: %s", sandbox.ErrHost, e.Killed)
	}
	if k.exit.Lost != "" && k.exit.Lost != "cancelled" {
		return Result{}, fmt.Errorf("%w: warm box: %s", sandbox.ErrHost, k.exit.Lost)
	}
	return Result{Status: "died"}, nil
}

// parse reads the frame that the script's own process wrote: hostile bytes.
func (r *Result) parse(b []byte) error {
	if err := strict(b); err != nil {
		return err
	}
	var f struct {
		Status string          `json:"status"`
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code      string `json:"code"`
			Exception string `json:"exception"`
			Message   string `json:"message"`
		} `json:"error"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return err
	}
	switch {
	case f.Status == "ok" && f.Result != nil && f.Error == nil:
		r.Status, r.Value = "ok", f.Result
	case f.Status == "error" && f.Result == nil && f.Error != nil:
		r.Status, r.Code, r.Exception, r.Message = "error", f.Error.Code, f.Error.Exception, f.Error.Message
	default:
		return errors.New("neither result nor error")
	}
	return nil
}

// strict refuses what two readers could read differently: names that are there
// twice, more than one value, deep nesting.
func strict(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var seen []map[string]bool // per open object; nil for an array
	key := false               // the next token may be a name
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch v := t.(type) {
		case json.Delim:
			switch v {
			case '{':
				seen, key = append(seen, map[string]bool{}), true
			case '[':
				seen, key = append(seen, nil), false
			default:
				seen = seen[:len(seen)-1]
				key = len(seen) > 0 && seen[len(seen)-1] != nil
			}
			if len(seen) > maxDepth {
				return errors.New("nested too deeply")
			}
		case string:
			if key {
				top := seen[len(seen)-1]
				if top[v] {
					return fmt.Errorf("name %.60q is there twice", v)
				}
				top[v], key = true, false
			} else {
				key = len(seen) > 0 && seen[len(seen)-1] != nil
			}
		default:
			key = len(seen) > 0 && seen[len(seen)-1] != nil
		}
		if len(seen) == 0 && d.More() {
			return errors.New("more than one value")
		}
	}
}
