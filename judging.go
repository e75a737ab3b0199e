package agon

import (
	"fmt"
	"time"
)

// JudgingState is a state of a judging: that another validator judges a result again.
type JudgingState string

// The states of a judging.
const (
	JudgingQueued  JudgingState = "queued"
	JudgingLeased  JudgingState = "leased"
	JudgingDone    JudgingState = "done"    // final
	JudgingSkipped JudgingState = "skipped" // final: nobody could
)

// JudgingStates lists every state in order.
var JudgingStates = []JudgingState{JudgingQueued, JudgingLeased, JudgingDone, JudgingSkipped}

// JudgingTransition is one allowed move.
type JudgingTransition struct {
	From, To JudgingState
	By       Actor
	Why      string
}

// JudgingTransitions is the whole machine. What is not listed is refused.
var JudgingTransitions = []JudgingTransition{
	{JudgingQueued, JudgingLeased, ByScheduler, "another validator claims it"},
	{JudgingQueued, JudgingSkipped, ByScheduler, "nobody else is there, or nobody took it before the deadline"},
	{JudgingLeased, JudgingDone, ByHolder, "scores reported"},
	{JudgingLeased, JudgingQueued, ByScheduler, "lease expired, or the judge could not"},
	{JudgingLeased, JudgingSkipped, ByScheduler, "tries used up"},
}

// Final reports whether nothing leaves s.
func (s JudgingState) Final() bool { return s == JudgingDone || s == JudgingSkipped }

// CheckJudging returns an error naming the move if it is not in the table.
func CheckJudging(from, to JudgingState, by Actor) error {
	for _, t := range JudgingTransitions {
		if t.From == from && t.To == to && t.By == by {
			return nil
		}
	}
	return fmt.Errorf("judging: %s may not move %s to %s", by, from, to)
}

// Why a result is judged again.
const (
	JudgeShare    = "share"    // drawn at random
	JudgeSeat     = "seat"     // its submission would take a seat
	JudgeStanding = "standing" // its validator is no longer believed
	JudgeFault    = "fault"    // it says that the agent was at fault: others play it again
	JudgeSettle   = "settle"   // the second judging contradicts the result
)

// Verdicts of a judging.
const (
	VerdictAgrees      = "agrees"
	VerdictContradicts = "contradicts"
)

// Rejudging is one judging of a run's result by another validator.
type Rejudging struct {
	ID      string `json:"id"`
	Run     string `json:"run"`
	Attempt int    `json:"attempt"`
	Arena   string `json:"arena"`
	// K is 2 for the judging after the first result, 3 for the one that settles.
	K         int          `json:"k"`
	Why       string       `json:"why"`
	Player    string       `json:"player"`
	Validator string       `json:"validator,omitempty"`
	State     JudgingState `json:"state"`
	Verdict   string       `json:"verdict,omitempty"` // on the first result
	// Against is the validator that the third judging shows to be wrong.
	Against   string    `json:"against,omitempty"`
	Scores    []Score   `json:"scores,omitempty"`
	Driver    Driver    `json:"driver"`
	Reason    string    `json:"reason,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// RejudgeShare is the share of results that is judged again.
func (a *Arena) RejudgeShare() float64 {
	if a.Rejudge == nil {
		return DefaultRejudge
	}
	return *a.Rejudge
}
