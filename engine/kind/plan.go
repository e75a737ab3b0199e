package kind

import (
	"fmt"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/score"
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

// StageRefused is the code of the finding that ends a submission at a stage.
const StageRefused = "stage"

// Staged is the Plan of kinds that play tasks one by one, in an arena with stages:
// each stage's tasks as often as it wants, and the next stage once the bar of the
// one before was reached.
func Staged(v agon.View) agon.Plan {
	if len(v.Arena.Stages) == 0 {
		return EachTask(v)
	}
	for i, s := range v.Arena.Stages {
		n, ended, scored := 0, 0, map[string]int{}
		var scores []agon.Score
		for _, r := range v.Runs {
			if r.Stage != s.Name {
				continue
			}
			n++
			if r.State.Final() {
				ended++
			}
			if r.State == agon.RunScored {
				scores = append(scores, r.Scores...)
				for _, t := range r.Tasks {
					scored[t.Key]++
				}
			}
		}
		switch {
		case n == 0:
			p := agon.Plan{Why: "stage " + s.Name + " begins"}
			for _, t := range v.Arena.Tasks {
				if !slices.Contains(s.Tasks, t.Key) {
					continue
				}
				for rep := range max(s.Evaluations, 1) {
					p.Runs = append(p.Runs, agon.RunSpec{Arena: v.Arena.ID, Tasks: []agon.TaskRef{t}, Stage: s.Name, Replica: rep, Policy: v.Arena.Policy})
				}
			}
			return p
		case ended < n:
			return agon.Plan{Why: fmt.Sprintf("stage %s: %d of %d runs have ended", s.Name, ended, n)}
		case i == len(v.Arena.Stages)-1:
			return agon.Plan{Done: true, Why: "the last stage has ended"}
		}
		for _, t := range s.Tasks {
			if scored[t] == 0 {
				return agon.Plan{Done: true, Why: "stage " + s.Name + " has no score of a task"} // through a fault of ours
			}
		}
		got, bar := score.OfStage(s, scores), s.Bar(v.Top)
		if got < bar-1e-9 {
			return agon.Plan{Done: true, Why: "stage " + s.Name + " was not passed", Refuse: &agon.Finding{
				Code: StageRefused, Field: s.Name, Limit: fmt.Sprintf("%.4g", bar),
				Message: fmt.Sprintf("stage %s: %.4g is below its bar of %.4g", s.Name, got, bar),
			}}
		}
	}
	return agon.Plan{Done: true}
}
