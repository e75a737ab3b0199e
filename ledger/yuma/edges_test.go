package yuma

import (
	"math"
	"testing"
)

// Half of the stake is not more than half: where the stake below a score is just
// the minority, the next score is the median, whichever is looked at first.
func TestMedianAtTheEdge(t *testing.T) {
	low, high := one/5, one/5*4
	for name, rows := range map[string]matrix{
		"the lower first":  {{{0, low}}, {{0, high}}},
		"the higher first": {{{0, high}}, {{0, low}}},
	} {
		if got := medians(rows, []fx{half, half}, 1, half); got[0] != high {
			t.Errorf("%s: %v of %v and %v", name, got[0], low, high)
		}
	}
}

// Alpha of a bond lies between its bounds by a sigmoid of the distance from consensus.
func TestLiquidAlphaInside(t *testing.T) {
	at := func(f float64) fx { return fx(f * float64(one)) }
	for _, diff := range []float64{0, 0.25, 0.5, 0.75} {
		want := 0.7 + 0.2/(1+math.Exp(-10*(diff-0.5)))
		got := float64(liquidAlpha(at(0.2+diff), at(0.1), at(0.2), at(0.7), at(0.9), 10*one)) / float64(one)
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%v from consensus: alpha %v, want %v", diff, got, want)
		}
	}
}
