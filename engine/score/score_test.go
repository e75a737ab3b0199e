package score

import (
	"testing"

	"github.com/agon-arena/agon"
)

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
