package audit

import (
	"bytes"
	"encoding/json"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/translog"
)

// decision compares the decision on the submission with the log, and its score
// with the runs'.
func (k *checker) decision() {
	d := k.b.Submission.Decision
	if d == nil {
		return
	}
	e, ok := k.entry("decision", translog.TypeDecision, k.b.Submission.ID, nil)
	if ok {
		said := *d
		said.Sentence, said.At = "", d.At.UTC()
		if b, err := json.Marshal(said); err != nil || !bytes.Equal(b, e.Body) {
			k.wrong("decision", "what is shown is not what the log says: %.300s", e.Body)
		} else {
			k.ok("decision", "%s by %s, as the log says", d.Outcome, d.Rule)
		}
	}
	if s := k.b.Submission.Score; s != nil && *s != d.Score {
		k.wrong("decision", "it is about a score of %v, the submission has %v", d.Score, *s)
	}
	k.mean(d)
	k.paired(d)
}

// mean computes the submission's score from its runs, where the bundle has all.
func (k *checker) mean(d *agon.Decision) {
	if k.Run != "" {
		return // one run does not make the score
	}
	var list []agon.Score
	for i := range k.b.Runs {
		r := &k.b.Runs[i]
		if r.Run.State != agon.RunScored || r.Run.Rival != nil || r.Run.Title != nil {
			continue
		}
		list = append(list, r.Run.Scores...)
	}
	got, solved, total := score.OfTasks(list)
	switch {
	case total == 0:
		k.open("seat", "the bundle has no scores to compute the decision's from")
	case got == d.Score && k.b.Submission.Solved != nil && k.b.Submission.Total != nil && *k.b.Submission.Total == total && *k.b.Submission.Solved != solved:
		k.wrong("seat", "%d of %d tasks are solved, the submission says otherwise", solved, total)
	case got == d.Score && (k.b.Submission.Total == nil || *k.b.Submission.Total != total):
		k.open("seat", "the mean of %d tasks is the score, but the submission counts other tasks: this kind sums in a way of its own", total)
	case got == d.Score:
		k.ok("seat", "the score %.6g is the mean of its %d tasks", got, total)
	default:
		k.open("seat", "the mean of the tasks is %.6g, the decision is about %.6g: this kind sums in a way of its own, or replays were left out", got, d.Score)
	}
}
