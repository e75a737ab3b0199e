// Package incentive decides who holds a seat and what weights follow. It is
// pure: the platform stores what it decides.
package incentive

import (
	"math"
	"time"

	"github.com/agon-arena/agon"
)

// Names of rules, as decisions and arenas carry them.
const (
	// WinnerTakesAllRule is an arena's rule: one seat, the incumbent stored as state.
	WinnerTakesAllRule = "winner_takes_all"
	// TakeoverRule is the name under which agon calc recomputes a takeover.
	TakeoverRule = "coding.takeover"
	// ScriptedRule is the reason why a scripted sample never takes a seat.
	ScriptedRule = "scripted"
)

// Numbers of the takeover rule.
const (
	// Margin is by what factor a challenger must reach the incumbent's score.
	Margin = 1.015
	// Tolerance absorbs rounding in the comparison with the bar.
	Tolerance = 1e-9
)

// Takeover decides whether score takes the seat. bar is nil on an empty seat,
// else min(1, incumbent × Margin). A challenger takes the seat iff score > 0,
// score > incumbent and score ≥ bar − Tolerance; ties keep the seat. Scores
// that are not numbers never take it.
func Takeover(score float64, incumbent *float64) (bar *float64, takes bool) {
	if incumbent == nil {
		return nil, score > 0
	}
	b := math.Min(1, *incumbent*Margin)
	return &b, score > 0 && score > *incumbent && score >= b-Tolerance
}

// Challenge is one submission whose every task has a result.
type Challenge struct {
	Arena      string
	Submission string
	Score      float64 // 0..1
	Scripted   bool
	Incumbent  *agon.Seat // nil: the seat is empty
	At         time.Time
}

// WinnerTakesAll decides a challenge. The decision explains itself: rule,
// numbers and bar are enough to recompute it with agon calc.
func WinnerTakesAll(c Challenge) agon.Decision {
	d := agon.Decision{
		Arena: c.Arena, Challenger: c.Submission, Score: c.Score, At: c.At,
		Outcome: agon.KeptSeat, Rule: TakeoverRule,
		Numbers: map[string]float64{"score": c.Score, "margin": Margin, "tolerance": Tolerance},
	}
	var incumbent *float64
	if c.Incumbent != nil {
		d.Incumbent = c.Incumbent.Submission
		incumbent = &c.Incumbent.Score
		d.Numbers["incumbent"] = *incumbent
	}
	bar, takes := Takeover(c.Score, incumbent)
	d.Bar = bar
	if bar != nil {
		d.Numbers["bar"] = *bar
	}
	switch {
	case c.Scripted:
		d.Rule = ScriptedRule
	case takes:
		d.Outcome = agon.TookSeat
	}
	return d
}

// Shares is how an arena's reward is split among hotkeys; shares need not sum
// to one. An empty map means that nobody earned it: the ledger package turns
// shares into the weights of a subnet and burns what nobody earned.
type Shares map[string]float64

// SeatShares gives the holder of the one seat everything.
func SeatShares(seat *agon.Seat) Shares {
	if seat == nil {
		return nil
	}
	return Shares{seat.Miner: 1}
}
