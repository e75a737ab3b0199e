package pack

import (
	"math"
	"testing"

	"github.com/agon-arena/agon/kinds/pack/commands"
)

// Playing the same tape more often makes no interval narrower.
func TestDifferenceCountsScenarios(t *testing.T) {
	usd := func(m measure) float64 { return m.usd }
	side := func(rounds int, costs ...float64) (out []measure) {
		for _, c := range costs {
			for range rounds {
				out = append(out, measure{usd: c})
			}
		}
		return out
	}
	of := func(rounds int, tape string, a, b []float64) commands.Difference {
		c := commands.CompareOptions{Rounds: rounds, Cassette: tape}
		return difference("usd", usd, side(rounds, a...), side(rounds, b...), c)
	}
	once, often := of(1, "tape", []float64{3, 4, 5}, []float64{2, 4.5, 3}), of(100, "tape", []float64{3, 4, 5}, []float64{2, 4.5, 3})
	if math.Abs(once.Low-often.Low) > 1e-9 || math.Abs(once.High-often.High) > 1e-9 || once.Beyond || often.Beyond || math.Abs(often.Diff+5.0/6) > 1e-9 {
		t.Errorf("100 rounds: %+v, one: %+v", often, once)
	}
	if d := of(100, "tape", []float64{3}, []float64{2}); d.Beyond || d.High != math.MaxFloat64 {
		t.Errorf("one scenario of a tape: %+v", d)
	}
	// Costs that differ between scenarios widen the interval, but nobody saves more than everything.
	if s, ci := saving(of(1, "tape", []float64{3, 9, 1}, []float64{0.2, 0.3, 0.1})); s == nil || ci == nil || *s < 0.9 || ci[1] != 1 || ci[0] > *s {
		t.Errorf("saving %v, interval %v", s, ci)
	}
	if d := of(5, "", []float64{3}, []float64{2}); !d.Beyond {
		t.Errorf("one scenario that a model played five times: %+v", d)
	}
}
