package client

import (
	"slices"

	"github.com/agon-arena/agon"
)

// Reason is why tasks scored 0, and how many did.
type Reason struct {
	Text string // the judge's words, or how the run ended where it said none
	N    int
}

// maxReasons is how many reasons Zeros names.
const maxReasons = 5

// Zeros counts why tasks of runs scored 0, the most frequent reason first; at most five.
func Zeros(runs []Run) (out []Reason) {
	for _, r := range runs {
		for _, s := range r.Scores {
			why := s.Detail
			if s.Value > 0 || why == "" && r.Reason == "" {
				continue
			}
			if why == "" {
				why = r.Reason
			}
			i := slices.IndexFunc(out, func(c Reason) bool { return c.Text == why })
			if i < 0 {
				i = len(out)
				out = append(out, Reason{Text: why})
			}
			out[i].N++
		}
	}
	slices.SortStableFunc(out, func(a, b Reason) int { return b.N - a.N })
	return out[:min(len(out), maxReasons)]
}

// Withholds is why the arena does not decide s, whose plays have ended; "": it decides it, or s still plays.
func (a *Arena) Withholds(s *Submission) string {
	if s.State != agon.SubmissionPlaying || s.Score == nil || a.Judge == nil || a.Judge.Seats {
		return ""
	}
	return a.Judge.Sentence
}
