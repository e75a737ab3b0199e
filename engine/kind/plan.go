package kind

import (
	"fmt"

	"github.com/agon-arena/agon"
)

// EachTask is the Plan of kinds that play every task of an arena once, each in
// a run of its own: it asks for a run of each task that none covers, and is done
// when every task has a run that ended.
func EachTask(v agon.View) agon.Plan {
	covered, final := map[string]bool{}, map[string]bool{}
	for _, r := range v.Runs {
		for _, t := range r.Tasks {
			covered[t.Key] = true
			if r.State.Final() {
				final[t.Key] = true
			}
		}
	}
	var p agon.Plan
	done := 0
	for _, t := range v.Arena.Tasks {
		if final[t.Key] {
			done++
		}
		if !covered[t.Key] {
			p.Runs = append(p.Runs, agon.RunSpec{Arena: v.Arena.ID, Tasks: []agon.TaskRef{t}, Policy: v.Arena.Policy})
		}
	}
	p.Done = done == len(v.Arena.Tasks)
	p.Why = fmt.Sprintf("%d of %d tasks have ended, %d to plan", done, len(v.Arena.Tasks), len(p.Runs))
	return p
}
