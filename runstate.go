package agon

import (
	"fmt"
	"time"
)

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
