// Package roster decides who sits in an arena of claim scripts and what that
// earns: a sticky top three, and medians over validators. It is pure.
package roster

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
)

const (
	// ArenaRule is an arena's rule: a sticky top three.
	ArenaRule = "roster"
	// StepRule is the name under which agon calc recomputes a step.
	StepRule = "caster.roster"
	// Places is how many places a roster has.
	Places = 3
)

// Outcomes of a step.
const (
	Entered   = "entered"
	Unchanged = "unchanged"
)

// DefaultSplit is what the places earn, in order. What an empty place
// would earn is burned.
var DefaultSplit = [Places]float64{0.6, 0.3, 0.1}

// Enters decides the only question of the sticky roster: a challenger
// enters iff the first place is empty or its score is strictly more than the
// first's and the margin. The second and third place cannot be challenged, so
// a copy of the first, which scores the same, never enters. Scores that are not
// numbers never enter. bar is nil on an empty first place.
func Enters(score float64, first *float64, margin float64) (bar *float64, enters bool) {
	if first == nil {
		return nil, !math.IsNaN(score)
	}
	b := *first + margin
	return &b, score > b
}

// shift puts c first and moves the others down; the last one leaves. Who
// stood on the roster already stands there once: nobody is paid for two places.
func shift[T any](places []T, c T, same func(a, b T) bool) []T {
	out := []T{c}
	for _, p := range places {
		if !same(p, c) && len(out) < Places {
			out = append(out, p)
		}
	}
	return out
}

// TopThree is the rule of the sticky top three. Numbers: margin, how much more
// than the first's a challenger's score must be; share_1, share_2 and share_3,
// what the places earn; same_coldkey, 1 where one coldkey may hold several places.
func TopThree() incentive.Rule {
	d := DefaultSplit
	return incentive.Rule{
		CopyRate: &incentive.CopyRate{One: 0.45, Five: 0.80, Discordance: 0.3, Tasks: 50},
		Numbers:  map[string]float64{"margin": 0, "same_coldkey": 0, "share_1": d[0], "share_2": d[1], "share_3": d[2]},
		Check: func(n map[string]float64) error {
			if n["margin"] < 0 || n["margin"] >= 1 {
				return fmt.Errorf("margin: %v is not from 0 to less than 1", n["margin"])
			}
			split := rosterSplit(n)
			return CheckSplit(split[:])
		},
		Decide: func(c incentive.Challenge) incentive.Verdict {
			first := c.First()
			bar, enters := Enters(c.Challenger.Score, first, c.Numbers["margin"])
			v := incentive.Verdict{
				Rule: StepRule, Bar: bar, Takes: enters,
				Numbers: map[string]float64{"score": c.Challenger.Score, "margin": c.Numbers["margin"], "places": float64(len(c.Seats))},
			}
			if first != nil {
				v.Numbers["first"], v.Numbers["bar"] = *first, *bar
			}
			return v
		},
		Seats: func(n map[string]float64, entered []incentive.Entry) []incentive.Entry {
			return rosterSeats(entered, n["same_coldkey"] == 0)
		},
		Unpaid: func(n map[string]float64, seats []incentive.Entry) string {
			split := rosterSplit(n)
			if split[0]+split[1]+split[2] < 1-1e-9 && len(seats) >= Places {
				return "the arena's shares leave it over"
			}
			switch len(seats) {
			case 1:
				return "the second and the third place are empty, for only a new first enters"
			case 2:
				return "the third place is empty, for only a new first enters"
			}
			return ""
		},
		Reasons:  []string{StepRule},
		Sentence: sentence,
		Shares: func(n map[string]float64, seats []incentive.Entry, _ time.Time) []float64 {
			split := rosterSplit(n)
			return split[:min(len(seats), Places)]
		},
	}
}

func rosterSplit(n map[string]float64) [Places]float64 {
	return [Places]float64{n["share_1"], n["share_2"], n["share_3"]}
}

// rosterSeats rebuilds a roster from its entries, oldest first: it has no state
// besides who entered when. each: a coldkey holds one place.
func rosterSeats(entered []incentive.Entry, each bool) (out []incentive.Entry) {
	for _, e := range entered {
		out = shift(out, e, func(a, b incentive.Entry) bool {
			return a.Submission == b.Submission || a.Miner == b.Miner && a.Miner != "" || each && a.Coldkey == b.Coldkey && a.Coldkey != ""
		})
	}
	return out
}

// CheckSplit says what is wrong with a split: three shares from 0 to 1 that do
// not grow and sum to at most 1.
func CheckSplit(split []float64) error {
	if len(split) != Places {
		return fmt.Errorf("split: %d shares, want %d", len(split), Places)
	}
	sum := 0.0
	for _, s := range split {
		if !(s >= 0 && s <= 1) {
			return fmt.Errorf("split: %v is not a share from 0 to 1", s)
		}
		sum += s
	}
	if sum > 1+1e-9 {
		return fmt.Errorf("split: the shares sum to %v, more than 1", sum)
	}
	if !slices.IsSortedFunc(split, func(a, b float64) int {
		switch {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	}) {
		return fmt.Errorf("split: a lower place earns more than a higher one")
	}
	return nil
}

// sentence says a decision: only a new first enters the roster.
func sentence(d agon.Decision) string {
	score := incentive.Figure(d.Score)
	switch {
	case d.Outcome == agon.TookSeat && d.Bar == nil:
		return "Took the first place: " + score + "; the roster was empty."
	case d.Outcome == agon.TookSeat:
		return "Took the first place: " + score + " against " + incentive.Figure(d.Numbers["first"]) + "; the others moved down."
	case d.Bar == nil || !(d.Score > 0):
		return ""
	}
	return "Kept out: " + score + ". Only a new first enters the roster, and the old first moves down: it needs more than " + incentive.Figure(*d.Bar) + "."
}
