package score

import (
	"github.com/agon-arena/agon"
)

// OfStage is the score of a submission at a stage.
func OfStage(s agon.Stage, list []agon.Score) float64 {
	if s.Consensus {
		list = Unanimous(list)
	}
	v, _, _ := OfTasks(list)
	return v
}

// Unanimous returns one score of each task, by the order in which tasks come: the
// worst that was given, so that a task is solved where all who played it say so.
func Unanimous(list []agon.Score) []agon.Score {
	at := map[string]int{}
	var out []agon.Score
	for _, s := range list {
		i, ok := at[s.Task]
		if !ok {
			at[s.Task] = len(out)
			out = append(out, s)
			continue
		}
		if Forged([]agon.Score{out[i]}) == 0 && (s.Value < out[i].Value || Forged([]agon.Score{s}) > 0) {
			s.Solved = s.Solved && out[i].Solved
			out[i] = s
		} else {
			out[i].Solved = out[i].Solved && s.Solved
		}
	}
	return out
}
