package play

import (
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/cost"
)

func TestPair(t *testing.T) {
	s := func(solved bool, micros float64) agon.Score {
		return agon.Score{Solved: solved, Value: 0.7, Metrics: map[string]float64{cost.Metric: micros}}
	}
	for name, x := range map[string]struct {
		c, i agon.Score
		want float64
	}{
		"cheaper":               {s(true, 800), s(true, 1000), 1},
		"dearer":                {s(true, 1200), s(true, 1000), -1},
		"within a tenth":        {s(true, 910), s(true, 1000), 0},
		"within the least":      {s(true, 10), s(true, 50), 0},
		"not measured":          {s(true, 0), s(true, 1000), 0},
		"the seat's not":        {s(true, 1000), s(true, 0), 0},
		"cheap and unqualified": {s(false, 1), s(true, 1000), -1},
		"qualified":             {s(true, 5000), s(false, 1), 1},
		"neither":               {s(false, 1), s(false, 1000), 0},
	} {
		c, i := (&Kind{}).Pair(x.c, x.i, 50, 0.1)
		if c-i != x.want {
			t.Errorf("%s: %v and %v", name, c, i)
		}
	}
}
