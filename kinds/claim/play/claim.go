package play

import (
	"context"
	"fmt"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/gateway"
)

// scorer names the grading code; the judge's version is added.
const scorer = "claim-1"

// SupportInput is what a judge of support sees.
type SupportInput struct {
	Claim string
	// ReferenceOption and Option are what the two verdicts mean.
	ReferenceOption, ReferenceJustification string
	Option, Justification                   string
	// Citations holds the first of note, URL and receipt id of each citation.
	Citations []string
}

// SupportVerdict is a judge's answer.
type SupportVerdict struct {
	OK        bool
	Rationale string
	// Votes of a panel, and how many of them are as OK says; 0 where none were counted.
	Votes, For int
}

// SupportJudge says whether a justification with the right verdict carries the
// reference's key facts. It is asked only then. An error means that it could
// not say: it is never a verdict. Safe for concurrent use.
type SupportJudge interface {
	// Version changes whenever the same input could be judged differently.
	Version() string
	// Policy is what a judge's session may do; Task is filled in.
	Policy() gateway.Policy
	// Support judges. open opens the platform's session on the first call and
	// returns the same one later: a cached answer needs none.
	Support(ctx context.Context, open func() (gateway.Session, error), in SupportInput) (SupportVerdict, error)
}

// Config is what the kind needs to know of this host.
type Config struct {
	// Rootfs is the directory of the root file system of boxes, with python3.
	// Only Play needs it.
	Rootfs string
	// Judge judges support; nil means LexicalJudge, which needs no model.
	Judge SupportJudge
	// UID is the miner's number in tool receipts; nil means 1.
	UID func(agon.Submission) int
}

// Kind implements kind.Kind for claim arenas.
type Kind struct{ cfg Config }

var (
	_ kind.Kind   = (*Kind)(nil)
	_ kind.Copier = (*Kind)(nil)
)

// New returns the kind.
func New(cfg Config) *Kind {
	if cfg.Judge == nil {
		cfg.Judge = LexicalJudge{}
	}
	if cfg.UID == nil {
		cfg.UID = func(agon.Submission) int { return 1 }
	}
	return &Kind{cfg: cfg}
}

// Name returns "claim".
func (k *Kind) Name() string { return Name }

// Scorer names the grading code and the judge's prompts.
func (k *Kind) Scorer() string { return scorer + "+" + k.cfg.Judge.Version() }

// Outcomes of a pair of script and claim besides those of package agon, in Record.Tasks and
// pairs.json. Each word but agon.OutcomeOK is worth 0 and spoils nothing but its own pair.
const (
	OutcomeTooLarge = "result_too_large"
	OutcomeDied     = "worker_died"              // the process ended without a result
	OutcomeBox      = "box_died"                 // a limit of the box ended everything in it
	OutcomeBudget   = "session_budget_exhausted" // of queries: a call used up the money
)

// perRun is how many claims one run has: they share a warm box, and are played
// again together when our side fails.
const perRun = 24

// Plan asks for runs over the tasks that no run covers yet, and is done when
// every task is in a run that ended.
func (k *Kind) Plan(v agon.View) (agon.Plan, error) { return plan(v), nil }

func plan(v agon.View) agon.Plan {
	covered, final := map[string]bool{}, map[string]bool{}
	for _, r := range v.Runs {
		for _, t := range r.Tasks {
			covered[t.Key] = true
			final[t.Key] = final[t.Key] || r.State.Final()
		}
	}
	var p agon.Plan
	var open [2][]agon.TaskRef // public, hidden: a run that plays both could say in the one's trace what it read in the other
	done := 0
	for _, t := range v.Arena.Tasks {
		if final[t.Key] {
			done++
		}
		if !covered[t.Key] {
			i := map[bool]int{true: 1}[t.Hidden]
			open[i] = append(open[i], t)
		}
	}
	for _, tasks := range open {
		for list := range slices.Chunk(tasks, perRun) {
			p.Runs = append(p.Runs, agon.RunSpec{Arena: v.Arena.ID, Tasks: list, Policy: v.Arena.Policy})
		}
	}
	p.Done = done == len(v.Arena.Tasks)
	p.Why = fmt.Sprintf("%d of %d tasks have ended, %d runs to plan", done, len(v.Arena.Tasks), len(p.Runs))
	return p
}

// LoadTask reads the claim and its reference answer from a task's tree.
func LoadTask(t *task.Task) (Claim, Reference, error) {
	b, err := t.ReadFile(ClaimFile, MaxClaimFile)
	if err != nil {
		return Claim{}, Reference{}, err
	}
	c, err := ParseClaim(b)
	if err != nil {
		return c, Reference{}, fmt.Errorf("task %s: %w", t.Key, err)
	}
	if b, err = t.ReadFile(ReferenceFile, MaxClaimFile); err != nil {
		return c, Reference{}, err
	}
	ref, err := ParseReference(b, c.Payload)
	if err != nil {
		return c, ref, fmt.Errorf("task %s: %w", t.Key, err)
	}
	return c, ref, nil
}
