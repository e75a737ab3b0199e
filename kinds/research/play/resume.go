package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
)

// A task that is resumable says that its benchmark can go on after it was stopped: from a
// file that it leaves in the box. The validator reads the file when it must stop, and lays it
// into the box of the next attempt. Only the same validator goes on, with the same entry, task
// and seed. The time that was spent counts, of the budget and to the benchmark (SpentVar).
//
// A pair of a duel is never resumed, since both of its sides must have one machine for
// themselves at one time: of a duel that was stopped, the pairs that had ended count, and the
// one under way is played again, both sides from their beginning.

// Variables of a resumable benchmark.
const (
	StateVar = "AGON_STATE" // path of the file that it may leave, and finds again
	SpentVar = "AGON_SPENT" // seconds of wall time that earlier attempts have used
)

const (
	stateMount      = "/agon/state" // a directory of its own, of the benchmark's box only
	stateFile       = stateMount + "/state"
	defaultMaxState = 16 << 20
	maxPairsKept    = 90
)

// progress is how far a stopped play was, as it keeps it.
type progress struct {
	Stops   int   `json:"stops"`    // how often it was stopped
	SpentMS int64 `json:"spent_ms"` // of the benchmark, over all attempts
	// Of a duel: what the challenger came to on the first seed, the pairs that have ended
	// and the number of the next one.
	Metrics map[string]float64 `json:"metrics,omitempty"`
	Pairs   []DuelPair         `json:"pairs,omitempty"`
	Next    int                `json:"next,omitempty"`
}

// readProgress reads what a play has kept. What it could not have written itself is refused.
func readProgress(b []byte) (progress, error) {
	var g progress
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&g); err != nil {
		return progress{}, fmt.Errorf("read what was kept: %w", err)
	}
	if g.Stops < 1 || g.SpentMS < 0 || g.SpentMS > MaxBudgetSeconds*1000 || len(g.Pairs) > maxPairsKept || g.Next < len(g.Pairs) || g.Next > maxPairsKept || g.Next > 0 && g.Metrics == nil {
		return progress{}, errors.New("read what was kept: numbers out of range")
	}
	return g, nil
}

// resume is the part of a player that goes on from an earlier attempt.
type resume struct {
	keeper kind.Keeper // nil: what is stopped begins anew
	progress
	state []byte        // nil: there is none
	after time.Duration // preflight stops the benchmark then; 0: nothing does
}

// bound is the time in which a benchmark runs.
func (r *resume) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.after == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.after)
}

// resumes reads what an earlier attempt of the run has left here.
func (p *player) resumes(ctx context.Context) error {
	k, ok := p.env.(kind.Keeper)
	if !ok || !p.t.Resumable {
		return nil
	}
	p.resume.keeper = k
	kept, ok, err := k.Kept(ctx)
	if err != nil || !ok {
		return err
	}
	g, err := readProgress(kept.Doc)
	if err != nil || len(kept.State) > p.t.MaxStateBytes {
		p.line("what an earlier attempt has kept is of no use: it begins anew")
		return nil
	}
	p.resume.progress = g
	if len(kept.State) > 0 {
		p.resume.state = kept.State
	}
	p.line(fmt.Sprintf("resumed stops=%d spent_ms=%d state_bytes=%d pairs=%d", g.Stops, g.SpentMS, len(kept.State), len(g.Pairs)))
	p.env.Progress(agon.EventNote, p.key, map[string]any{"text": "goes on from what an earlier attempt has left here", "stops": g.Stops, "spent_ms": g.SpentMS})
	return nil
}

// stateful gives the benchmark's box the place for its state.
func (p *player) stateful(spec *sandbox.Spec) {
	if p.t.Resumable {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountScratch, Target: stateMount})
	}
}

// stops reports whether the benchmark of a side may be stopped and go on: that of a replay, not of a pair.
func (p *player) stops() bool { return p.resume.keeper != nil && p.run.Rival == nil }

// spent is the time that earlier attempts have used of the benchmark's.
func (p *player) spent() time.Duration {
	if !p.stops() {
		return 0
	}
	return time.Duration(p.resume.SpentMS) * time.Millisecond
}

// stateEnv is what a resumable benchmark knows of its past.
func (p *player) stateEnv() []string {
	if !p.t.Resumable {
		return nil
	}
	return []string{StateVar + "=" + stateFile, fmt.Sprintf("%s=%.3f", SpentVar, p.spent().Seconds())}
}

// restore lays the state of an earlier attempt into the benchmark's box, before anything of
// a miner runs in it.
func (p *player) restore(ctx context.Context, b sandbox.Box) error {
	if !p.stops() || p.resume.state == nil {
		return nil
	}
	_, err := p.script(ctx, b, job{Do: "apply", Write: [][3]any{{stateFile, len(p.resume.state), 0o644}}}, bytes.NewReader(p.resume.state))
	return err
}

// leave keeps the state of a benchmark that was stopped after it has run for a time. Without
// a state, or with one that is too large or not a regular file, the last one stands; without any
// the next attempt begins anew, and no time is counted.
func (p *player) leave(b sandbox.Box, ran time.Duration) {
	if !p.stops() {
		return
	}
	state, err := b.ReadFile(stateFile, int64(p.t.MaxStateBytes))
	switch {
	case err != nil:
		p.line("no state is left: " + plain.Short(err.Error(), 200))
		state = p.resume.state
	case state == nil:
		state = []byte{}
	}
	if state == nil {
		return
	}
	g := p.resume.progress
	g.Stops, g.SpentMS = g.Stops+1, min(g.SpentMS+ran.Milliseconds(), MaxBudgetSeconds*1000)
	p.keep(g, state)
}

// leaveDuel keeps the pairs of a duel that was stopped.
func (p *player) leaveDuel(obs *Observed, next int) {
	if p.resume.keeper == nil || len(obs.Duel) == 0 {
		return
	}
	p.keep(progress{Stops: p.resume.Stops + 1, Metrics: obs.Metrics, Pairs: obs.Duel, Next: next}, nil)
}

func (p *player) keep(g progress, state []byte) {
	b, err := json.Marshal(g)
	if err == nil {
		err = p.resume.keeper.Keep(kind.Kept{Doc: b, State: state})
	}
	if err != nil {
		p.env.Progress(agon.EventNote, p.key, map[string]any{"text": "a stopped run is not kept: " + err.Error()})
	}
}

// exhausted ends an attempt that has gone on from another and ran out of time. A stop costs
// time that is not the miner's doing, so the run is played again from its beginning; that is
// a try of the run, so it does not go on for ever.
func (p *player) exhausted(e *ended) error {
	if e.outcome != agon.OutcomeTimeout || p.resume.Stops == 0 || !p.stops() {
		return e
	}
	return p.resume.keeper.Anew("a run that was stopped ran out of time when it went on: it is played from its beginning")
}

// preflightResume stops the base's benchmark after half of its time and lets it go on.
func (p *player) preflightResume(ctx context.Context, rep *PreflightReport, seed int64, half time.Duration, within float64) error {
	if !p.t.Resumable {
		return nil
	}
	m := &memory{}
	p.resume = resume{keeper: m, after: half}
	defer func() { p.resume = resume{} }()
	var obs Observed
	_, err := p.measureBase(ctx, seed, &obs)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		rep.add("resume", "warn", "the benchmark ended before it was stopped: it is too short to try")
		return nil
	case m.kept == nil:
		rep.add("resume", "fail", "the task is resumable, and its benchmark has left no %s of at most %d bytes in %d ms", StateVar, p.t.MaxStateBytes, half.Milliseconds())
		return nil
	}
	g, err := readProgress(m.kept.Doc)
	if err != nil {
		return err
	}
	p.resume = resume{keeper: m, progress: g, state: m.kept.State}
	got, err := p.measureBase(ctx, seed, &obs)
	var e *ended
	switch {
	case errors.As(err, &e):
		rep.add("resume", "fail", "a benchmark that goes on after a stop gives no number: %s", e.notes)
	case errors.Is(err, errAnew):
		rep.add("resume", "fail", "a benchmark that goes on after a stop runs out of time")
	case err != nil:
		return err
	case abs(got[p.t.MetricName]-rep.Baseline) > within:
		rep.add("resume", "fail", "stopped after half of its time and gone on the base gives %v, in one go %v", got[p.t.MetricName], rep.Baseline)
	default:
		rep.add("resume", "ok", "stopped after half of its time and gone on the base gives %v; %d bytes of state", got[p.t.MetricName], len(m.kept.State))
	}
	return nil
}

// memory is a kind.Keeper of preflight.
type memory struct{ kept *kind.Kept }

var errAnew = errors.New("it would be played from its beginning")

func (m *memory) Kept(context.Context) (kind.Kept, bool, error) { return kind.Kept{}, false, nil }

func (m *memory) Keep(k kind.Kept) error {
	m.kept = &k
	return nil
}

func (m *memory) Anew(string) error { return errAnew }
