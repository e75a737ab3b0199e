package quorum

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/agon-arena/agon"
)

// The chance is that of duels played with the rule itself.
func TestChance(t *testing.T) {
	c := agon.Contest{Direction: agon.Minimize, Agree: 2, Replays: 5, Band: 0.1, Pairs: 12, Alpha: 0.01}
	pair := func(won bool) Pair {
		if won {
			return Pair{Challenger: 1, Incumbent: 2}
		}
		return Pair{Challenger: 2, Incumbent: 2}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, p := range []float64{0.3, 0.6, 0.8, 0.95} {
		const rounds = 4000
		takes := 0
		for range rounds {
			var pairs []Pair
			for range RunDuel(c, 1, nil).MaxPairs {
				pairs = append(pairs, pair(r.Float64() < p))
			}
			if RunDuel(c, 1, pairs).Wins {
				takes++
			}
		}
		got := passing(p, 1/AttemptAlpha(c.Alpha, 1), RunDuel(c, 1, nil).MaxPairs)
		if want := float64(takes) / rounds; math.Abs(got-want) > 0.03 {
			t.Errorf("of pairs won at %v: %v, duels say %v", p, got, want)
		}
	}
	last := -1.0
	for won := range 7 {
		var pairs []Pair
		for i := range 6 {
			pairs = append(pairs, pair(i < won))
		}
		got := Chance(c, 1, pairs)
		if got <= last || got > 1 {
			t.Errorf("%d of 6 won: %v after %v", won, got, last)
		}
		last = got
	}
	if last < 0.65 || Chance(c, 1, []Pair{pair(false), pair(false), pair(false), pair(false), pair(false), pair(false)}) > 0.01 {
		t.Errorf("six won: %v", last)
	}
	if Chance(c, 9, []Pair{pair(true)}) >= Chance(c, 1, []Pair{pair(true)}) {
		t.Error("a late attempt has no less of a chance")
	}
	c.Band = 0
	if Chance(c, 1, []Pair{pair(true)}) != 1 || Chance(c, 1, []Pair{pair(false)}) != 0 || Chance(c, 1, nil) != 0 {
		t.Error("a task without noise is decided by one pair")
	}
}
