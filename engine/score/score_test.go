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

func TestSum(t *testing.T) {
	tasks := []agon.TaskRef{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "d"}}
	yes := func(k string) agon.Score { return agon.Score{Task: k, Value: 1, Solved: true} }
	no := func(k string) agon.Score { return agon.Score{Task: k} }
	for name, c := range map[string]struct {
		tasks         []agon.TaskRef
		scores        []agon.Score
		score         float64 // -1: nil
		solved, count int
	}{
		"all":              {tasks, []agon.Score{yes("a"), no("b"), yes("c"), yes("d")}, 0.75, 3, 4},
		"one lacks":        {tasks, []agon.Score{yes("a"), no("b"), yes("c")}, -1, 0, 3},
		"none":             {tasks, nil, -1, 0, 0},
		"no tasks":         {nil, []agon.Score{yes("a")}, -1, 0, 0},
		"foreign task":     {tasks[:1], []agon.Score{yes("a"), yes("z")}, 1, 1, 1},
		"replicas":         {tasks[:1], []agon.Score{yes("a"), no("a")}, 0.5, 0, 1},
		"replicas, solved": {tasks[:1], []agon.Score{yes("a"), yes("a")}, 1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := Sum(c.tasks, c.scores)
			if got.Total != len(c.tasks) || got.Scored != c.count || (got.Score == nil) != (c.score < 0) || (got.Solved == nil) != (got.Score == nil) {
				t.Fatalf("got %+v", got)
			}
			if got.Score != nil && (*got.Score != c.score || *got.Solved != c.solved) {
				t.Errorf("score %v, solved %d", *got.Score, *got.Solved)
			}
		})
	}
}

// What nobody could score counts neither for nor against.
func TestUnscored(t *testing.T) {
	no := agon.Score{Task: "c", Value: 0.5, Metrics: map[string]float64{MetricUnscored: 1}}
	list := []agon.Score{{Task: "a", Value: 1, Solved: true}, {Task: "b", Value: 0}, no}
	if v, solved, total := OfTasks(list); v != 0.5 || solved != 1 || total != 2 {
		t.Errorf("%v %d of %d", v, solved, total)
	}
	refs := []agon.TaskRef{{Key: "a"}, {Key: "b"}, {Key: "c"}}
	if got := Sum(refs, list); got.Score == nil || *got.Score != 0.5 || got.Scored != 3 {
		t.Errorf("%+v", got)
	}
	if got := Sum(refs, list[:2]); got.Score != nil {
		t.Errorf("a part is not a score: %+v", got)
	}
	if got := Sum(refs[2:], list[2:]); got.Score != nil {
		t.Errorf("nothing was scored: %+v", got)
	}
}
