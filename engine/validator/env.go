package validator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/sandbox/libraries"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// env is the kind.Env of one attempt. It hands out boxes and doors, watches
// them, and keeps what it saw in Observed.
type env struct {
	p    *Player
	kind kind.Kind // nil outside an attempt
	job  Job
	rec  *recorder

	mu       sync.Mutex // guards all below
	phase    Phase
	obs      Observed
	boxes    []*watchedBox
	sessions []gateway.Session
	tools    []*tools.Session
	trees    []func() // let go of what the attempt holds: trees, registries
	images   map[string]bool
	datasets []datasets.Ref  // of the run's tasks that were read
	shown    map[string]bool // digests of those that a box saw
	gpus     held            // has a lock of its own
	boxTime  time.Duration
	closed   bool
}

func (e *env) setPhase(p Phase) {
	e.mu.Lock()
	e.phase = p
	e.mu.Unlock()
}

// stage is how far the attempt came.
func (e *env) stage(o Observed) kind.Stage {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.phase == PhaseJudge && o.JudgeStarted:
		return kind.StageJudge
	case e.phase == PhaseJudge:
		return kind.StageGrading
	case o.AgentStarted:
		return kind.StagePlay
	}
	return kind.StagePreparing
}

func (e *env) note(f agon.Fault, reason string) {
	e.mu.Lock()
	e.obs.Notes = append(e.obs.Notes, Note{e.phase, f, reason})
	e.mu.Unlock()
}

// errEnded refuses what is asked of an attempt that has ended.
var errEnded = errors.New("attempt has ended")

// ended returns errEnded once close has begun.
func (e *env) ended() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errEnded
	}
	return nil
}

// Progress implements kind.Env.
func (e *env) Progress(typ, taskKey string, data any) { e.rec.Record(typ, taskKey, data) }

// Tree implements kind.Env.
func (e *env) Tree(ctx context.Context, d agon.Digest) (string, error) {
	if err := e.ended(); err != nil {
		return "", err
	}
	dir, err := e.hold(ctx, d)
	if errors.Is(err, errEnded) {
		return "", err
	}
	if err != nil {
		e.note(agon.FaultPlatform, "fetching tree: "+err.Error())
		return "", fmt.Errorf("fetch tree %s: %w", d, err)
	}
	if slices.ContainsFunc(e.job.Run.Tasks, func(t agon.TaskRef) bool { return t.Digest == d }) {
		list, err := task.DatasetsIn(dir)
		if err != nil {
			e.note(agon.FaultTask, "data sets: "+err.Error())
			return "", fmt.Errorf("read task: %w", err)
		}
		e.mu.Lock()
		for _, r := range list {
			if !slices.Contains(e.datasets, r) {
				e.datasets = append(e.datasets, r)
			}
		}
		e.mu.Unlock()
	}
	return dir, nil
}

// withDatasets shows the data sets of the run's tasks to a box.
func (e *env) withDatasets(ctx context.Context, spec sandbox.Spec) (sandbox.Spec, error) {
	e.mu.Lock()
	list := slices.Clone(e.datasets)
	e.mu.Unlock()
	if spec.Apart || len(list) == 0 {
		return spec, nil
	}
	if e.p.Datasets == nil {
		e.note(agon.FaultValidator, "this validator plays no data sets")
		return spec, errors.New("this validator plays no data sets")
	}
	spec.Mounts = slices.Clone(spec.Mounts)
	for _, r := range list {
		tree, release, err := e.p.Datasets.Ensure(ctx, r)
		switch {
		case err == nil:
		case errors.Is(err, datasets.ErrDataset), errors.Is(err, datasets.ErrNoDataset):
			e.note(agon.FaultTask, "data set "+r.Name+": "+err.Error())
			return spec, fmt.Errorf("data set %s: %w", r.Name, err)
		default: // a server that does not answer, a full disk
			if ctx.Err() == nil {
				e.note(agon.FaultValidator, "data set "+r.Name+": "+err.Error())
			}
			return spec, fmt.Errorf("data set %s: %w", r.Name, err)
		}
		e.mu.Lock()
		closed := e.closed
		if !closed {
			e.trees = append(e.trees, release)
			if e.shown == nil {
				e.shown = map[string]bool{}
			}
			e.shown[r.Digest] = true
		}
		e.mu.Unlock()
		if closed {
			release()
			return spec, errEnded
		}
		spec.Mounts = append(spec.Mounts, datasets.Mount(r.Name, tree))
	}
	return spec, nil
}

// hold finds a tree, which stays until the attempt ends.
func (e *env) hold(ctx context.Context, d agon.Digest) (string, error) {
	h, ok := e.p.Trees.(TreeHolder)
	if !ok {
		return e.p.Trees.Tree(ctx, d)
	}
	dir, release, err := h.Hold(ctx, d)
	if err != nil {
		return "", err
	}
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.trees = append(e.trees, release)
	}
	e.mu.Unlock()
	if closed {
		release()
		return "", errEnded
	}
	return dir, nil
}

// Task implements kind.Env.
func (e *env) Task(ctx context.Context, t agon.TaskRef) (*task.Task, error) {
	dir, err := e.Tree(ctx, t.Digest)
	if err != nil {
		return nil, err
	}
	tk, err := task.LoadDir(dir, t.Key)
	if err == nil && e.p.CheckTask != nil {
		err = e.p.CheckTask(tk)
	}
	if err != nil {
		e.note(agon.FaultTask, "reading task: "+err.Error())
		return nil, fmt.Errorf("load task %s: %w", t.Key, err)
	}
	return tk, nil
}

// Root implements kind.Env.
func (e *env) Root(ctx context.Context, image string) (rootfs.Root, error) {
	if e.p.Roots == nil {
		e.note(agon.FaultValidator, "this validator plays no images")
		return rootfs.Root{}, errors.New("this validator plays no images")
	}
	x, err := e.p.Roots.Of(ctx, image)
	switch {
	case err == nil && x.Image == "":
	case err == nil:
		e.mu.Lock()
		if e.images == nil {
			e.images = map[string]bool{}
		}
		e.images[x.Image] = true
		e.mu.Unlock()
	case errors.Is(err, rootfs.ErrImage), errors.Is(err, rootfs.ErrTooLarge):
		e.note(agon.FaultTask, "image: "+err.Error())
	default: // a registry that does not answer, a full disk
		e.note(agon.FaultValidator, "image: "+err.Error())
	}
	return x, err
}

// Box implements kind.Env.
func (e *env) Box(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	phase, closed := e.phase, e.closed
	e.mu.Unlock()
	if closed {
		return nil, errEnded
	}
	if libs := e.job.Run.Policy.Libraries; libs != nil && len(spec.Doors) > 0 { // an agent's
		var err error
		if spec, err = e.withLibraries(ctx, spec, libs.List); err != nil {
			if ctx.Err() == nil && !errors.Is(err, errEnded) {
				e.note(agon.FaultValidator, "libraries for agents: "+err.Error())
			}
			return nil, err
		}
	}
	spec, err := e.withDatasets(ctx, spec)
	if err != nil {
		return nil, err
	}
	if spec, err = e.withGPUs(ctx, spec); err != nil {
		return nil, err
	}
	start := e.p.Now()
	b, err := e.p.Driver.Start(ctx, spec)
	if err != nil {
		if ctx.Err() == nil {
			e.note(agon.FaultValidator, "starting a box: "+err.Error())
		}
		return nil, err
	}
	w := &watchedBox{Box: b, e: e, phase: phase, start: start, name: spec.Name}
	e.mu.Lock()
	// The attempt may have ended while the box was started: then nobody else closes it.
	if closed = e.closed; !closed {
		e.boxes = append(e.boxes, w)
	}
	e.mu.Unlock()
	if closed {
		return nil, errors.Join(errEnded, b.Close())
	}
	e.rec.Record(agon.EventBox, "", map[string]any{
		"role": spec.Name, "phase": phase, "action": "start",
		"driver": e.p.Driver.Info().Name, "limits": spec.Limits,
		"ms": e.p.Now().Sub(start).Milliseconds(),
	})
	return w, nil
}

// withLibraries shows the arena's libraries to a box.
func (e *env) withLibraries(ctx context.Context, spec sandbox.Spec, list agon.Digest) (sandbox.Spec, error) {
	if e.p.Libraries == nil {
		return spec, errors.New("this validator installs none")
	}
	tree, err := e.hold(ctx, list)
	if err != nil {
		return spec, fmt.Errorf("fetch the list: %w", err)
	}
	b, err := os.ReadFile(filepath.Join(tree, libraries.File))
	if err != nil {
		return spec, fmt.Errorf("read the list: %w", err)
	}
	dir, err := e.p.Libraries.Ensure(ctx, b)
	if err != nil {
		return spec, err
	}
	m, env, err := libraries.Mount(spec.Rootfs, dir)
	if err != nil {
		return spec, err
	}
	spec.Mounts, spec.Env = append(slices.Clone(spec.Mounts), m), append(slices.Clone(spec.Env), env...)
	if w := spec.Warm; w != nil { // it looks for packages when it starts
		spec.Warm = &sandbox.Warm{Args: w.Args, Env: append(slices.Clone(w.Env), env...)}
	}
	return spec, nil
}

// Door implements kind.Env.
func (e *env) Door(ctx context.Context, taskKey string, listen ...string) ([]sandbox.Door, error) {
	s, err := e.session(ctx, e.agentPolicy(taskKey, nil), e.rec)
	if err != nil {
		return nil, err
	}
	return doorsTo(s, listen), nil
}

// agentPolicy is what an agent may ask of the gateway for one task, on its run's
// account, in these dialects; none named means those of the kind.
func (e *env) agentPolicy(taskKey string, dialects []string) gateway.Policy {
	pol := e.job.Run.Policy
	if len(dialects) == 0 {
		dialects = kind.Dialects(e.kind)
	}
	return gateway.Policy{
		Run: e.job.Run.Run, Attempt: e.job.Attempt, Task: taskKey, Payer: gateway.PayerRun,
		Models: pol.Models, Aliases: pol.Aliases, Budget: pol.Budget, Dialects: slices.Clone(dialects),
		Fields: pol.Fields, Usage: pol.Usage, Tools: pol.Tools, At: pol.Gateway, Key: pol.GatewayKey,
	}
}

// session opens a gateway session for the agent; it ends with the attempt.
func (e *env) session(ctx context.Context, p gateway.Policy, rec gateway.Recorder) (gateway.Session, error) {
	s, err := e.open(ctx, p, rec)
	if err != nil && !errors.Is(err, errEnded) {
		e.note(agon.FaultValidator, "opening a gateway session: "+err.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("open gateway session: %w", err)
	}
	return s, nil
}

// open opens a gateway session that ends with the attempt. One that was opened
// while the attempt ended is closed at once.
func (e *env) open(ctx context.Context, p gateway.Policy, rec gateway.Recorder) (gateway.Session, error) {
	if err := e.ended(); err != nil {
		return nil, err
	}
	s, err := e.p.Gateway.Open(ctx, p, rec)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.sessions = append(e.sessions, s)
	}
	e.mu.Unlock()
	if closed {
		return nil, errors.Join(errEnded, s.Close())
	}
	return s, nil
}

func doorsTo(s gateway.Session, listen []string) []sandbox.Door {
	doors := make([]sandbox.Door, len(listen))
	for i, l := range listen {
		doors[i] = sandbox.Door{Listen: l, Target: s.BaseURL(), Header: s.Header()}
	}
	return doors
}

// Model implements kind.Env.
func (e *env) Model(ctx context.Context, p gateway.Policy) (gateway.Session, error) {
	p.Run, p.Attempt, p.Payer = e.job.Run.Run, e.job.Attempt, gateway.PayerJudge
	p.At, p.Key = e.job.Run.Policy.Gateway, e.job.Run.Policy.GatewayKey
	s, err := e.open(ctx, p, e.rec)
	if err != nil && !errors.Is(err, errEnded) {
		e.note(agon.FaultProvider, "opening the judge's session: "+err.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("open judge session: %w", err)
	}
	return s, nil
}

// close ends every box and session and completes Observed.
func (e *env) close() (Observed, agon.Micros, []agon.Receipt, time.Duration) {
	e.mu.Lock()
	e.closed = true
	boxes := e.boxes
	e.mu.Unlock()
	for _, b := range boxes {
		b.Close()
	}
	var receipts []agon.Receipt
	cost, ev := e.closeTools() // before the gateway's sessions, on which calls may be under way
	e.mu.Lock()
	sessions := e.sessions
	e.mu.Unlock()
	for _, s := range sessions {
		if err := s.Close(); err != nil {
			e.note(agon.FaultValidator, "closing a gateway session: "+err.Error())
		}
		g := s.Evidence()
		ev.Calls += g.Calls
		ev.ProviderErrors += g.ProviderErrors
		ev.AgentErrors += g.AgentErrors
		// One session that the provider left in the lurch is enough; that
		// another one went on excuses nobody.
		if g.CanaryFailed {
			ev.Recovered = g.Recovered && (ev.Recovered || !ev.CanaryFailed)
			ev.CanaryFailed = true
		}
		if g.LastError != "" {
			ev.LastError = g.LastError
		}
		cost += s.Spent()
		receipts = append(receipts, s.Receipts()...)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, release := range e.trees { // after the boxes that mount them
		release()
	}
	e.gpus.free()
	e.trees = nil
	e.obs.Gateway = ev
	return e.obs, cost, receipts, e.boxTime
}

// sealFor bounds how long a closed attempt waits for its statement.
const sealFor = time.Minute

// seal asks for the attempt's closing statement. An attempt that was stopped
// asks too: the gateway must not go on for it.
func (e *env) seal(ctx context.Context, notes []Note) (*agon.Statement, []Note) {
	g, ok := e.p.Gateway.(Sealer)
	if !ok {
		return nil, notes
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sealFor)
	defer cancel()
	pol := e.job.Run.Policy
	s, err := g.SealAt(ctx, pol.Gateway, pol.GatewayKey, e.job.Run.Run, e.job.Attempt)
	if err != nil {
		notes = append(notes, Note{e.phase, agon.FaultValidator, "closing the attempt at the gateway: " + err.Error()})
	}
	return s, notes
}

// watchedBox dates the agent's first instruction and keeps exits and ends.
type watchedBox struct {
	sandbox.Box
	e     *env
	phase Phase
	start time.Time
	name  string
	once  sync.Once
	err   error
}

func (w *watchedBox) Exec(ctx context.Context, c sandbox.Cmd) (sandbox.Exit, error) {
	if c.Untrusted {
		w.e.mu.Lock()
		if w.phase == PhasePlay {
			w.e.obs.AgentStarted = true
		} else {
			w.e.obs.JudgeStarted = true
		}
		w.e.mu.Unlock()
	}
	x, err := w.Box.Exec(ctx, c)
	switch {
	case ctx.Err() != nil:
		// The attempt was stopped; Interrupted says so.
	case errors.Is(err, sandbox.ErrHost):
		w.e.note(agon.FaultValidator, "executing in a box: "+err.Error())
	case err == nil && (c.Untrusted || x.Lost != ""):
		w.e.mu.Lock()
		w.e.obs.Exits = append(w.e.obs.Exits, PhasedExit{w.phase, x})
		w.e.mu.Unlock()
	}
	return x, err
}

func (w *watchedBox) Layer(ctx context.Context, target string) (*sandbox.Layer, error) {
	l, err := w.Box.Layer(ctx, target)
	w.finish()
	return l, err
}

func (w *watchedBox) Close() error {
	w.once.Do(func() { w.err = w.Box.Close(); w.record() })
	return w.err
}

func (w *watchedBox) finish() { w.once.Do(w.record) }

func (w *watchedBox) record() {
	end := w.Box.End()
	took := w.e.p.Now().Sub(w.start)
	w.e.mu.Lock()
	w.e.obs.Ends = append(w.e.obs.Ends, PhasedEnd{w.phase, end})
	w.e.boxTime += took
	w.e.mu.Unlock()
	w.e.rec.Record(agon.EventBox, "", map[string]any{
		"role": w.name, "phase": w.phase, "action": "end", "end": end, "ms": took.Milliseconds(),
	})
}

// recorder stamps events and keeps them until they are acknowledged.
type recorder struct {
	run     string
	attempt int
	now     func() time.Time

	mu    sync.Mutex // guards below
	seq   int64
	kept  []agon.Event     // in order; those that were acknowledged are gone
	turns []agon.Event     // of phases: a few, held to the end
	sink  func(agon.Event) // optional, called in order under mu
}

// Record implements gateway.Recorder.
func (r *recorder) Record(typ, taskKey string, data any) { r.add(typ, taskKey, data) }

// add records an event and returns it as it was stamped.
func (r *recorder) add(typ, taskKey string, data any) agon.Event {
	b, err := json.Marshal(data)
	if err != nil {
		b, _ = json.Marshal(map[string]string{"error": "event could not be encoded: " + err.Error()})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	ev := agon.Event{Run: r.run, Attempt: r.attempt, Task: taskKey, Seq: r.seq, At: r.now().UTC(), Type: typ, Data: b}
	r.kept = append(r.kept, ev)
	if typ == agon.EventPhase {
		r.turns = append(r.turns, ev)
	}
	if r.sink != nil {
		r.sink(ev)
	}
	return ev
}

// unsent returns the next events that were not acknowledged: at most limit of
// them and, but for a single one, at most size bytes of data. more tells that
// others wait behind them.
func (r *recorder) unsent(limit, size int) (out []agon.Event, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, bytes := 0, 0
	for n < len(r.kept) && n < limit {
		bytes += len(r.kept[n].Data) + eventOverhead
		if n > 0 && bytes > size {
			break
		}
		n++
	}
	return slices.Clone(r.kept[:n]), n < len(r.kept)
}

// eventOverhead bounds what an event takes on the wire besides its data.
const eventOverhead = 512

// rest returns all events that were not acknowledged.
func (r *recorder) rest() []agon.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.kept)
}

// phases returns the events of phases, acknowledged or not.
func (r *recorder) phases() []agon.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.turns)
}

// ack drops the oldest n events: the platform has them.
func (r *recorder) ack(n int) {
	r.mu.Lock()
	r.kept = slices.Delete(r.kept, 0, n) // it clears what it drops
	r.mu.Unlock()
}
