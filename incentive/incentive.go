// Package incentive decides who holds a seat and what weights follow. It is
// pure: the platform stores what it decides.
package incentive

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ledger"
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
// to one. An empty map means that nobody earned it.
type Shares map[string]float64

// SeatShares gives the holder of the one seat everything.
func SeatShares(seat *agon.Seat) Shares {
	if seat == nil {
		return nil
	}
	return Shares{seat.Miner: 1}
}

// Vector turns shares into the integer weights of a subnet, ordered by uid.
// What belongs to a hotkey that is not registered (any more), and everything
// when nobody earned anything, goes to the owner's uid, where the chain burns it.
func Vector(shares Shares, m *ledger.Metagraph) (uids, values []uint16, err error) {
	weights := make([]float64, len(m.Neurons))
	uidOf := make(map[string]uint16, len(m.Neurons))
	for _, n := range m.Neurons {
		if int(n.UID) >= len(weights) {
			return nil, nil, fmt.Errorf("metagraph of subnet %d: uid %d of %d neurons", m.Netuid, n.UID, len(weights))
		}
		uidOf[n.Hotkey] = n.UID
	}
	var burn, total float64
	hotkeys := slices.Sorted(maps.Keys(shares)) // sums of floats depend on the order
	for _, hotkey := range hotkeys {
		share := shares[hotkey]
		if math.IsNaN(share) || math.IsInf(share, 0) || share < 0 {
			return nil, nil, fmt.Errorf("share of %s: %v is not a weight", hotkey, share)
		}
		total += share
		if _, ok := uidOf[hotkey]; !ok {
			burn += share
		}
	}
	if total == 0 {
		burn = 1
	}
	if burn > 0 {
		owner, ok := uidOf[m.OwnerHotkey]
		if !ok {
			return nil, nil, fmt.Errorf("burn weights of subnet %d: the owner's hotkey is not registered", m.Netuid)
		}
		weights[owner] += burn
	}
	for _, hotkey := range hotkeys {
		if uid, ok := uidOf[hotkey]; ok {
			weights[uid] += shares[hotkey]
		}
	}
	return ledger.NormalizeWeights(weights)
}
