// Package validator plays runs: it leases them, plays them in boxes, judges
// the records, reports results and sets weights. The same Player serves
// `agon validator`, `agon up` and `agon try`.
package validator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/sandbox/libraries"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// Trees resolves tree digests to read-only directories. Safe for concurrent use.
type Trees interface {
	Tree(ctx context.Context, d agon.Digest) (dir string, err error)
}

// TreeHolder is a Trees that removes trees which are not in use.
type TreeHolder interface {
	Trees
	// Hold is Tree; the directory stays until release is called, which may be
	// done more than once.
	Hold(ctx context.Context, d agon.Digest) (dir string, release func(), err error)
}

// Gateway opens sessions.
type Gateway interface {
	Open(ctx context.Context, p gateway.Policy, r gateway.Recorder) (gateway.Session, error)
}

// Sealer is a Gateway that closes attempts and signs what was called in them.
// Every gateway of agon is one; at and key are those of the run's policy.
type Sealer interface {
	SealAt(ctx context.Context, at, key, run string, attempt int) (*agon.Statement, error)
}

// Player plays single attempts. All fields but Tools, Roots and CheckTask must be set.
type Player struct {
	Driver  sandbox.Driver
	Gateway Gateway
	Kinds   map[string]kind.Kind
	Trees   Trees
	Now     func() time.Time
	// Tools serves kinds whose scripts call tools; nil: no such kind is played.
	Tools *ToolHost
	// Roots has the images that tasks name; nil: no such task is played.
	Roots *rootfs.Roots
	// Datasets has the data sets that tasks name; nil: no such task is played.
	Datasets *datasets.Store
	// Libraries installs the packages that an arena gives its agents; nil where
	// arenas with such are not played.
	Libraries *libraries.Store
	// GPUs are this machine's; nil: no task that asks for one is played.
	GPUs *GPUs
	// Keeps holds what attempts left that this machine stopped; nil: those begin anew.
	Keeps *Keeps
	// CheckTask says what is wrong with a task for its kind; nil: nothing is.
	CheckTask func(*task.Task) error
}

// Job is one attempt to make.
type Job struct {
	Run        agon.RunSpec
	Attempt    int
	Arena      agon.Arena
	Submission agon.Submission
	// OnState is called when playing and judging begin. Optional.
	OnState func(agon.RunState)
	// OnEvent sees each event as it happens. Optional.
	OnEvent func(agon.Event)
}

// Attempt is how one attempt ended.
type Attempt struct {
	Fault    agon.Fault
	Reason   string
	Outcome  string
	Detail   string
	Scores   []agon.Score // one per task; all zero when the fault is the agent's; none when it is ours
	Driver   agon.Driver
	Cost     agon.Micros
	BoxTime  time.Duration
	Wall     time.Duration
	Files    map[string][]byte
	Receipts []agon.Receipt
	// Statement closes the receipts; nil where the gateway signs none.
	Statement *agon.Statement
	Observed  Observed
	// Kept says that it was stopped and can go on here.
	Kept bool
	rec  *recorder
}

// Events returns the log: all of it where no platform is sent it, as with Play.
func (a *Attempt) Events() []agon.Event { return a.rec.rest() }

// Phases returns the events of its phases, sent or not.
func (a *Attempt) Phases() []agon.Event { return a.rec.phases() }

// Play makes one attempt. It always returns an Attempt; ctx ending makes it
// the validator's fault.
func (p *Player) Play(ctx context.Context, job Job) *Attempt {
	return p.play(ctx, job, &recorder{run: job.Run.Run, attempt: job.Attempt, now: p.Now, sink: job.OnEvent})
}

func (p *Player) play(ctx context.Context, job Job, rec *recorder) *Attempt {
	start := p.Now()
	a := &Attempt{Driver: p.Driver.Info(), rec: rec}
	defer func() { a.Wall = p.Now().Sub(start) }()
	k, ok := p.Kinds[job.Arena.Kind]
	if !ok {
		a.Fault, a.Reason = agon.FaultValidator, "this validator does not play "+job.Arena.Kind
		return a
	}
	if d := job.Run.Policy.Driver; d != "" && d != a.Driver.Name {
		a.Fault, a.Reason = agon.FaultValidator, fmt.Sprintf("the arena demands box driver %s, this is %s", d, a.Driver.Name)
		return a
	}
	e := &env{p: p, kind: k, job: job, rec: rec, phase: PhasePlay}
	rec.Record(agon.EventPhase, "", map[string]any{"phase": agon.RunPlaying, "driver": a.Driver, "policy": job.Run.Policy, "seed": job.Run.Seed})
	if job.OnState != nil {
		job.OnState(agon.RunPlaying)
	}
	record, playErr := guard(func() (agon.Record, error) { return k.Play(ctx, e, job.Submission, job.Run) })
	var scores []agon.Score
	var judgeErr error
	// A record that is the agent's failure needs no judge: it scores 0.
	if playErr == nil && agon.Ordinary(record.Outcome) && ctx.Err() == nil {
		e.setPhase(PhaseJudge)
		rec.Record(agon.EventPhase, "", map[string]any{"phase": agon.RunJudging, "outcome": record.Outcome})
		if job.OnState != nil {
			job.OnState(agon.RunJudging)
		}
		scores, judgeErr = guard(func() ([]agon.Score, error) { return k.Judge(ctx, e, job.Run, record) })
		if judgeErr == nil {
			judgeErr = checkScores(job.Run.Tasks, scores)
			if judgeErr != nil {
				e.note(agon.FaultPlatform, judgeErr.Error())
			}
		}
	}
	obs, cost, receipts, boxTime := e.close()
	if a.Statement, obs.Notes = e.seal(ctx, obs.Notes); a.Statement != nil {
		slices.SortFunc(receipts, func(x, y agon.Receipt) int { return cmp.Compare(x.N, y.N) })
	}
	obs.Interrupted = ctx.Err() != nil
	var err error
	if a.Kept, err = e.keeps(obs.Interrupted); err != nil {
		rec.Record(agon.EventNote, "", map[string]any{"text": err.Error()}) // it is removed by its age
	}
	solved := len(scores) > 0
	for _, s := range scores {
		solved = solved && s.Solved
	}
	a.Observed, a.Cost, a.Receipts, a.BoxTime = obs, cost, receipts, boxTime
	a.Driver.Images = slices.Sorted(maps.Keys(e.images))
	a.Driver.Datasets = slices.Sorted(maps.Keys(e.shown))
	a.Driver.GPUs = e.gpus.given()
	a.Outcome, a.Detail, a.Files = record.Outcome, record.Detail, record.Files
	a.Fault, a.Reason = AssignFault(obs, record, playErr, judgeErr, solved)
	a.Reason = kind.Coded(k, kind.Failure{Fault: a.Fault, Stage: e.stage(obs), Outcome: record.Outcome}, a.Reason)
	switch {
	case a.Fault.Ours():
	case a.Fault == agon.FaultAgent:
		for _, t := range job.Run.Tasks {
			a.Scores = append(a.Scores, agon.Score{Run: job.Run.Run, Task: t.Key, Scorer: k.Scorer(), Detail: record.Detail})
		}
	default:
		a.Scores = scores
	}
	for i := range a.Scores {
		a.Scores[i].Run, a.Scores[i].Scorer = job.Run.Run, k.Scorer()
		rec.Record(agon.EventScore, a.Scores[i].Task, a.Scores[i])
	}
	final := map[string]any{"phase": agon.RunScored, "outcome": a.Outcome, "cost_micros": a.Cost, "box_ms": a.BoxTime.Milliseconds()}
	if a.Fault != agon.FaultNone {
		final["fault"], final["reason"] = a.Fault, a.Reason
	}
	if a.Fault.Ours() {
		final["phase"] = "attempt_failed"
	}
	rec.Record(agon.EventPhase, "", final)
	return a
}

// guard turns a kind's panic into an error: one broken kind or record must not
// end the validator.
func guard[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("kind panicked: %v", r)
		}
	}()
	return f()
}

// checkScores demands exactly one finite score in [0, 1] for each task.
func checkScores(tasks []agon.TaskRef, scores []agon.Score) error {
	if len(scores) != len(tasks) {
		return fmt.Errorf("judge gave %d scores for %d tasks", len(scores), len(tasks))
	}
	want := make([]string, len(tasks))
	for i, t := range tasks {
		want[i] = t.Key
	}
	got := make([]string, len(scores))
	for i, s := range scores {
		if math.IsNaN(s.Value) || s.Value < 0 || s.Value > 1 {
			return fmt.Errorf("judge gave score %v for %s: want 0 to 1", s.Value, s.Task)
		}
		got[i] = s.Task
	}
	sort.Strings(want)
	sort.Strings(got)
	for i := range want {
		if want[i] != got[i] {
			return errors.New("judge's scores name other tasks than the run")
		}
	}
	return nil
}

// Env returns an environment outside any attempt, for controls such as agon
// task check. done ends everything it handed out.
func (p *Player) Env(spec agon.RunSpec) (_ kind.Env, done func()) {
	e := &env{p: p, job: Job{Run: spec, Attempt: 1}, rec: &recorder{run: spec.Run, attempt: 1, now: p.Now}, phase: PhaseJudge}
	return e, func() { e.close() }
}
