package score

import (
	"math"
	"testing"

	"github.com/agon-arena/agon"
)

// One forged task makes all zero; one of three voices does not.
func TestForged(t *testing.T) {
	good := func(k string) agon.Score { return agon.Score{Task: k, Value: 1, Solved: true} }
	bad := func(k string) agon.Score {
		return agon.Score{Task: k, Metrics: map[string]float64{agon.MetricForged: 2}}
	}
	for name, c := range map[string]struct {
		scores []agon.Score
		value  float64
		solved int
	}{
		"none":         {[]agon.Score{good("a"), good("b")}, 1, 2},
		"one":          {[]agon.Score{good("a"), bad("b")}, 0, 0},
		"one of three": {[]agon.Score{good("a"), good("b"), bad("b"), good("c"), bad("c"), good("c"), good("b")}, (1 + 2.0/3 + 2.0/3) / 3, 1},
		"two of three": {[]agon.Score{good("a"), bad("b"), good("b"), bad("b")}, 0, 0},
	} {
		if v, solved, total := OfTasks(c.scores); math.Abs(v-c.value) > 1e-12 || solved != c.solved || total == 0 {
			t.Errorf("%s: %v, %d of %d; want %v, %d", name, v, solved, total, c.value, c.solved)
		}
	}
}

// What nobody could score counts neither for nor against.
func TestUnscored(t *testing.T) {
	no := agon.Score{Task: "c", Value: 0.5, Metrics: map[string]float64{MetricUnscored: 1}}
	list := []agon.Score{{Task: "a", Value: 1, Solved: true}, {Task: "b", Value: 0}, no}
	if v, solved, total := OfTasks(list); v != 0.5 || solved != 1 || total != 2 {
		t.Errorf("%v %d of %d", v, solved, total)
	}
}
