// Package score turns the scores of single tasks into the score of a
// submission. It is pure.
package score

import (
	"maps"
	"slices"

	"github.com/agon-arena/agon"
)

// OfTasks is the mean over tasks of the mean value of each, in a fixed order so
// that the sum is the same everywhere. A task is solved if all of its scores
// say so; one whose scores nobody could give is not a task. One forged task makes the whole zero, and so does one answered by
// heart: what else such a submission solved cannot be told from that.
func OfTasks(list []agon.Score) (value float64, solved, total int) {
	worthless := Forged(list)+ByHeart(list) > 0
	type sum struct {
		value  float64
		n      int
		solved bool
	}
	by := map[string]*sum{}
	for _, s := range Given(list) {
		x := by[s.Task]
		if x == nil {
			x = &sum{solved: true}
			by[s.Task] = x
		}
		x.value += s.Value
		x.n++
		x.solved = x.solved && s.Solved
	}
	for _, key := range slices.Sorted(maps.Keys(by)) {
		x := by[key]
		value += x.value / float64(x.n)
		if x.solved {
			solved++
		}
	}
	if total = len(by); total > 0 {
		value /= float64(total)
	}
	if worthless {
		value, solved = 0, 0
	}
	return value, solved, total
}

// MetricUnscored is a metric of a score that nobody could give through a failure
// of ours, such as a judge that did not answer. Its value counts nowhere.
const MetricUnscored = "unscored"

// Given leaves out the scores that nobody could give (MetricUnscored): they
// are counted neither for nor against.
func Given(list []agon.Score) []agon.Score {
	if !slices.ContainsFunc(list, Unscored) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), Unscored)
}

// Unscored reports whether nobody could give a score.
func Unscored(s agon.Score) bool { return s.Metrics[MetricUnscored] > 0 }

// MetricUnplayed marks a score of 0 that stands for a play which was stopped because it could
// change nothing any more: it counts, but says nothing of the agent.
const MetricUnplayed = "unplayed"

// Unplayed reports whether a score is of a play that was stopped (MetricUnplayed).
func Unplayed(s agon.Score) bool { return s.Metrics[MetricUnplayed] > 0 }

// Forged counts the tasks of whose scores the most say that they were forged
// (agon.MetricForged): of several validators, one alone cannot say it.
func Forged(list []agon.Score) int { return len(SaidOf(list, agon.MetricForged)) }

// ByHeart counts the tasks that were answered by heart (agon.MetricByHeart), in the same way.
func ByHeart(list []agon.Score) int { return len(SaidOf(list, agon.MetricByHeart)) }

// SaidOf are the keys, in order, of the tasks of whose scores the most have a metric above 0.
func SaidOf(list []agon.Score, metric string) (tasks []string) {
	excess := map[string]int{}
	for _, s := range list {
		if s.Metrics[metric] > 0 {
			excess[s.Task]++
		} else {
			excess[s.Task]--
		}
	}
	for task, x := range excess {
		if x > 0 {
			tasks = append(tasks, task)
		}
	}
	slices.Sort(tasks)
	return tasks
}
