package platform

import (
	"fmt"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/store"
)

// Arenas that have every run played by several validators (agon.Arena.Replicas):
// each replica goes to another one, and results of a validator that disagrees
// with the others are excluded by score.Concord.

// FindingDisagreement names a validator whose results of a submission are excluded.
const FindingDisagreement = "validator_disagreement"

// replicate makes the replicas of planned runs.
func replicate(a agon.Arena, specs []agon.RunSpec) []agon.RunSpec {
	if a.Replicas < 2 || len(a.Stages) > 0 { // a stage says itself how many it wants
		return specs
	}
	var out []agon.RunSpec
	for _, s := range specs {
		for i := range a.Replicas {
			r := s
			r.Replica = s.Replica*a.Replicas + i
			out = append(out, r)
		}
	}
	return out
}

// agreed returns the runs of a submission without the scores of validators that
// disagree with the others, and how each validator stands. What is excluded is
// still played: it is not played again.
func agreed(tx *store.Tx, a agon.Arena, runs []store.Run) ([]store.Run, []score.Standing, error) {
	if a.Played() < 3 {
		return runs, nil, nil
	}
	who := make([]string, len(runs))
	counted, err := tx.Counted(runs)
	if err != nil {
		return nil, nil, err
	}
	var opinions []score.Opinion
	for i, r := range runs {
		if r.State != agon.RunScored || !counts(a, r) {
			continue
		}
		who[i] = counted[r.RunSpec.Run].Validator
		for _, s := range score.Given(r.Scores) {
			o := score.Opinion{Validator: who[i], Item: s.Task}
			if s.Solved {
				o.Value = 1
			}
			opinions = append(opinions, o)
		}
	}
	list := score.Concord(opinions)
	out := append([]store.Run(nil), runs...)
	for _, s := range list {
		for i := range out {
			if s.Flagged && who[i] == s.Validator {
				out[i].Scores = nil
			}
		}
	}
	return out, list, nil
}

// disagreements tells of validators whose results were excluded.
func disagreements(list []score.Standing) []agon.Finding {
	var out []agon.Finding
	for _, s := range list {
		if s.Flagged {
			out = append(out, agon.Finding{Code: FindingDisagreement, Field: s.Validator, Warning: true, Message: fmt.Sprintf(
				"validator %s disagrees with the majority on %d of %d tasks (the others disagree among themselves on %.0f %%): its results are excluded", s.Validator, s.Deviates, s.Items, 100*s.Others)})
		}
	}
	return out
}

// counts reports whether a run is of what an arena counts: of its last stage, if it has stages.
func counts(a agon.Arena, r store.Run) bool {
	return len(a.Stages) == 0 || r.Stage == a.Stages[len(a.Stages)-1].Name
}
