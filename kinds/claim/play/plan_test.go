package play

import (
	"fmt"
	"testing"

	"github.com/agon-arena/agon"
)

// Hidden tasks are played in runs of their own: what a script read in one it could say in
// the trace of a public one, which everybody may read and which becomes a row to train on.
func TestPlanPartsHiddenTasksFromPublicOnes(t *testing.T) {
	var v agon.View
	for i := range 3*perRun + 5 {
		v.Arena.Tasks = append(v.Arena.Tasks, agon.TaskRef{Key: fmt.Sprintf("s/%d", i), Hidden: i%3 == 0})
	}
	p := plan(v)
	seen := map[string]int{}
	for _, r := range p.Runs {
		if len(r.Tasks) == 0 || len(r.Tasks) > perRun {
			t.Errorf("a run of %d tasks", len(r.Tasks))
		}
		for _, x := range r.Tasks {
			seen[x.Key]++
			if x.Hidden != r.Tasks[0].Hidden {
				t.Errorf("%s is hidden: %v, %s of the same run: %v", x.Key, x.Hidden, r.Tasks[0].Key, r.Tasks[0].Hidden)
			}
		}
	}
	for _, x := range v.Arena.Tasks {
		if seen[x.Key] != 1 {
			t.Errorf("%s stands in %d runs", x.Key, seen[x.Key])
		}
	}
}
