package incentive

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agon-arena/agon"
)

const (
	// RosterArenaRule is an arena's rule: a sticky top three.
	RosterArenaRule = "roster"
	// RosterRule is the name under which agon calc recomputes a step.
	RosterRule = "caster.roster"
	// RosterPlaces is how many places a roster has.
	RosterPlaces = 3
)

// Outcomes of a step.
const (
	RosterEntered   = "entered"
	RosterUnchanged = "unchanged"
)

// DefaultRosterSplit is what the places earn, in order. What an empty place
// would earn is burned.
var DefaultRosterSplit = [RosterPlaces]float64{0.6, 0.3, 0.1}

// RosterEnters decides the only question of the sticky roster: a challenger
// enters iff the first place is empty or its score is strictly more than the
// first's and the margin. The second and third place cannot be challenged, so
// a copy of the first, which scores the same, never enters. Scores that are no
// numbers never enter. bar is nil on an empty first place.
func RosterEnters(score float64, first *float64, margin float64) (bar *float64, enters bool) {
	if first == nil {
		return nil, !math.IsNaN(score)
	}
	b := *first + margin
	return &b, score > b
}

// Place is an occupied place of a roster.
type Place struct {
	Submission string  `json:"submission"`
	Miner      string  `json:"miner"`
	Score      float64 `json:"score"`
}

// shift puts c first and moves the others down; the last one leaves. Who
// stood on the roster already stands there once: nobody is paid for two places.
func shift[T any](places []T, c T, same func(a, b T) bool) []T {
	out := []T{c}
	for _, p := range places {
		if !same(p, c) && len(out) < RosterPlaces {
			out = append(out, p)
		}
	}
	return out
}

// RosterChallenge is one submission whose every task has a result.
type RosterChallenge struct {
	Arena    string
	Place    Place
	Scripted bool
	Margin   float64
	At       time.Time
}

// RosterStep decides a challenge. places are those of the roster in order, at
// most three, without gaps; the slice is not changed. The decision explains
// itself: rule, numbers and bar are enough to recompute it.
func RosterStep(places []Place, c RosterChallenge) ([]Place, agon.Decision) {
	d := agon.Decision{
		Arena: c.Arena, Challenger: c.Place.Submission, Score: c.Place.Score, At: c.At,
		Outcome: agon.KeptSeat, Rule: RosterRule,
		Numbers: map[string]float64{"score": c.Place.Score, "margin": c.Margin, "places": float64(len(places))},
	}
	var first *float64
	if len(places) > 0 {
		first, d.Incumbent = &places[0].Score, places[0].Submission
		d.Numbers["first"] = *first
	}
	bar, enters := RosterEnters(c.Place.Score, first, c.Margin)
	d.Bar = bar
	if bar != nil {
		d.Numbers["bar"] = *bar
	}
	switch {
	case c.Scripted:
		d.Rule = ScriptedRule
	case enters:
		d.Outcome = agon.TookSeat
		return shift(places, c.Place, func(a, b Place) bool { return a.Submission == b.Submission || a.Miner == b.Miner && a.Miner != "" }), d
	}
	return places, d
}

// RosterReplay rebuilds a roster from its entries, oldest first. A roster has
// no state besides who entered when.
func RosterReplay(entered []Place) []Place {
	var out []Place
	for _, p := range entered {
		out = shift(out, p, func(a, b Place) bool { return a.Submission == b.Submission || a.Miner == b.Miner && a.Miner != "" })
	}
	return out
}

// RosterShares splits the reward over the places. burned is what empty places
// leave over, and what split leaves below 1: it is nobody's and must be
// burned, not spread. Miners may hold one place each.
func RosterShares(places []Place, split [RosterPlaces]float64) (shares Shares, burned float64) {
	shares, burned = Shares{}, 1
	for i, p := range places {
		if i < RosterPlaces && split[i] > 0 {
			shares[p.Miner] += split[i]
			burned -= split[i]
		}
	}
	if burned = math.Max(0, burned); burned < 1e-12 {
		burned = 0 // the rest of adding binary fractions
	}
	return shares, burned
}

// CheckSplit says what is wrong with a split: three shares from 0 to 1 that do
// not grow and sum to at most 1.
func CheckSplit(split []float64) error {
	if len(split) != RosterPlaces {
		return fmt.Errorf("split: %d shares, want %d", len(split), RosterPlaces)
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
