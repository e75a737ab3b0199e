package agon

import (
	"fmt"
	"time"
)

// RunSpec is one thing to play: a submission on a list of tasks for one replica.
type RunSpec struct {
	Run     string    `json:"run"`
	Arena   string    `json:"arena"`
	Tasks   []TaskRef `json:"tasks"`
	Replica int       `json:"replica"`
	// Stage names the stage of the arena that the run is of; empty: it has none.
	Stage string `json:"stage,omitempty"`
	// Seed is derived from arena, submission, tasks and replica (engine/seeds); kinds derive further seeds from it.
	Seed   int64  `json:"seed"`
	Policy Policy `json:"policy"`
	// Rival is the incumbent to replay beside the submission (a duel); nil: none.
	Rival *Rival `json:"rival,omitempty"`
	// Title is set where somebody who sits is played on the set of a later period.
	Title *Title `json:"title,omitempty"`
}

// Title says on which set somebody who sits is played, and what its seed comes
// of: the secret of that period, and a block after its begin.
type Title struct {
	Period int64  `json:"period"`
	Beacon string `json:"beacon,omitempty"` // the block's hash; "": the ledger has none
}

// Rival names what a duel is with: a submission's files, or the task's
// unpatched base where Submission is empty.
type Rival struct {
	Submission string `json:"submission"`
	Digest     Digest `json:"digest,omitempty"`
	Round      int    `json:"round"` // of duels with it, from 1
	Pairs      int    `json:"pairs"` // paired replays to make
	// Side is set where the run plays one side only, like any other run, and is
	// paired with that of the other side by its seed: SideChallenger or SideIncumbent.
	Side string `json:"side,omitempty"`
}

// Sides of a pair.
const (
	SideChallenger = "challenger"
	SideIncumbent  = "incumbent"
)

// Half reports whether a run plays one side of a pair, and nothing else.
func (s RunSpec) Half() bool { return s.Rival != nil && s.Rival.Side != "" }

// RunState is a state of the machine below.
type RunState string

// Run is a RunSpec under way.
type Run struct {
	RunSpec
	Submission string    `json:"submission"`
	State      RunState  `json:"state"`
	Fault      Fault     `json:"fault"`            // of the last attempt that ended
	Reason     string    `json:"reason,omitempty"` // why it failed or was cancelled
	Deadline   time.Time `json:"deadline"`         // when the present state is left at the latest
	Attempts   int       `json:"attempts"`         // leases so far
	Scores     []Score   `json:"scores,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	RetryAt    time.Time `json:"retry_at,omitzero"` // queued: not played again before, since its provider failed
	// Aside: the submission's result leaves it out. Pairs, appeals, replays, canaries
	// and later sets play such runs; a reader of the API sees no difference.
	Aside bool `json:"-"`
}

// Attempt is one lease of a run by one validator.
type Attempt struct {
	Run        string    `json:"run"`
	N          int       `json:"n"` // from 1
	Validator  string    `json:"validator"`
	State      string    `json:"state"` // leased, playing, judging, done, expired, cancelled
	Fault      Fault     `json:"fault"`
	Reason     string    `json:"reason,omitempty"`
	Driver     Driver    `json:"driver"`
	CostMicros Micros    `json:"cost_micros"`
	Evidence   Digest    `json:"evidence,omitempty"` // tree of files the play left
	Counted    bool      `json:"counted"`            // this attempt's result is the run's
	Late       bool      `json:"late"`               // reported after the lease was lost
	LeasedAt   time.Time `json:"leased_at"`
	LeaseUntil time.Time `json:"lease_until"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	BoxMS      int64     `json:"box_ms"` // wall time inside boxes
	// Statement is the gateway's word of how many calls were made and what they
	// cost. Mark is "unattested" where the result came without evidence and statement.
	Statement *Statement `json:"statement,omitempty"`
	Mark      string     `json:"mark,omitempty"`
}

// Driver says what enforced the box of an attempt.
type Driver struct {
	Name    string   `json:"name"` // runsc, runc, bwrap
	Version string   `json:"version"`
	Limits  []string `json:"limits"` // limits it can enforce here: memory, pids, cpu, disk, inodes, output, wall, seccomp, userns
	// Images are the digests of the images that boxes of the attempt stood on, sorted;
	// none where all stood on the machine's own tree.
	Images []string `json:"images,omitempty"`
	// Datasets are the digests of the data sets that boxes of the attempt were shown, sorted.
	Datasets []string `json:"datasets,omitempty"`
	// GPUs are those that boxes of the attempt were given, none to share, sorted by id.
	GPUs []GPU `json:"gpus,omitempty"`
}

// Record is what a play left, as the kind tells it. It carries no verdict and
// no fault: what an agent says about itself is in Outcome and moves nothing.
type Record struct {
	// Outcome is the kind's word for what the agent did: "ok", "empty", "invalid", "raised", "exited", "timeout", …
	Outcome string `json:"outcome"`
	// Detail is one line for the miner; agent text in it is already cut and cleaned.
	Detail string `json:"detail,omitempty"`
	// Files holds small results by name (patch.diff, stdout.txt …), read safely from the box.
	Files map[string][]byte `json:"-"`
	// Tasks holds per-task outcomes where a run has several tasks; nil means one task.
	Tasks map[string]string `json:"tasks,omitempty"`
}

// MetricForged is a metric of a score whose grade was forged: how often. One
// such score makes the whole submission worth nothing.
const MetricForged = "forged"

// MetricByHeart is a metric of a score whose answer was known by heart: how many
// lines of it belong to another task, and can be had from nothing that this one
// shows. It too makes the whole submission worth nothing.
const MetricByHeart = "by_heart"

// Score is what a judge made of a record for one task.
type Score struct {
	Run     string             `json:"run"`
	Task    string             `json:"task"`  // TaskRef.Key
	Value   float64            `json:"value"` // 0..1
	Solved  bool               `json:"solved"`
	Metrics map[string]float64 `json:"metrics,omitempty"` // named, for example fail_to_pass, pass_to_pass, patch_bytes
	// Scorer names the version of the judging code; part of the key.
	Scorer string `json:"scorer"`
	Detail string `json:"detail,omitempty"` // for the miner; hidden tests are not named in it
}

// The states of a run (ARCHITECTURE.md draws them).
const (
	RunQueued    RunState = "queued"
	RunLeased    RunState = "leased"
	RunPlaying   RunState = "playing"
	RunJudging   RunState = "judging"
	RunScored    RunState = "scored"    // final
	RunFailed    RunState = "failed"    // final: a fault of ours, retries used up
	RunCancelled RunState = "cancelled" // final
)

// RunStates lists every state in order.
var RunStates = []RunState{RunQueued, RunLeased, RunPlaying, RunJudging, RunScored, RunFailed, RunCancelled}

// Actor is who may make a transition.
type Actor string

// Actors of the run machine.
const (
	ByScheduler Actor = "scheduler" // the platform, on a claim or a sweep
	ByHolder    Actor = "holder"    // the validator that holds the lease
	ByOperator  Actor = "operator"
)

// Transition is one allowed move.
type Transition struct {
	From, To RunState
	By       Actor
	Why      string
}

// Transitions is the whole machine. What is not listed is refused.
// An expired lease is the move back to queued (or to failed when the retries are used up).
var Transitions = []Transition{
	{RunQueued, RunLeased, ByScheduler, "a validator claims it"},
	{RunQueued, RunFailed, ByScheduler, "nobody could play it before the deadline"},
	{RunQueued, RunCancelled, ByOperator, "cancelled"},
	{RunLeased, RunPlaying, ByHolder, "the box starts"},
	{RunLeased, RunQueued, ByScheduler, "lease expired or given back, or a fault of ours: retry"},
	{RunLeased, RunFailed, ByScheduler, "a fault of ours, retries used up"},
	{RunLeased, RunScored, ByHolder, "result reported (progress reports may be lost)"},
	{RunLeased, RunCancelled, ByOperator, "cancelled"},
	{RunPlaying, RunJudging, ByHolder, "the play left a record"},
	{RunPlaying, RunQueued, ByScheduler, "lease expired or a fault of ours: retry"},
	{RunPlaying, RunFailed, ByScheduler, "a fault of ours, retries used up"},
	{RunPlaying, RunScored, ByHolder, "result reported"},
	{RunPlaying, RunCancelled, ByOperator, "cancelled"},
	{RunJudging, RunScored, ByHolder, "result reported"},
	{RunJudging, RunQueued, ByScheduler, "lease expired or a fault of ours: retry"},
	{RunJudging, RunFailed, ByScheduler, "a fault of ours, retries used up"},
	{RunJudging, RunCancelled, ByOperator, "cancelled"},
}

// Final reports whether nothing leaves s.
func (s RunState) Final() bool { return s == RunScored || s == RunFailed || s == RunCancelled }

// Held reports whether a lease holds s.
func (s RunState) Held() bool { return s == RunLeased || s == RunPlaying || s == RunJudging }

// CheckTransition returns an error naming the move if it is not in the table.
func CheckTransition(from, to RunState, by Actor) error {
	for _, t := range Transitions {
		if t.From == from && t.To == to && t.By == by {
			return nil
		}
	}
	return fmt.Errorf("run: %s may not move %s to %s", by, from, to)
}

// StateDeadline is the longest a run may stay in s before the sweeper moves it
// on; lease is the lease length of the arena, queueFor how long a run may wait.
func StateDeadline(s RunState, lease, queueFor time.Duration) (time.Duration, bool) {
	switch {
	case s == RunQueued:
		return queueFor, true
	case s.Held():
		return lease, true
	}
	return 0, false
}

// What of a run may be gone, since its operator keeps it for a time only.
const (
	GoneSteps    = "steps"    // events and receipts
	GoneEvidence = "evidence" // the files that an attempt left
	GoneOutput   = "output"   // those of them that hold what boxes printed
)
