package coordinator

import (
	"context"

	"github.com/agon-arena/agon/engine/store"
)

// IdeaFilter selects idea rewards; empty fields select all.
type IdeaFilter struct{ Task, Submission, Proposer, Implementer string }

// Ideas lists idea rewards, newest first. Submission matches either side.
func (c *Coordinator) Ideas(ctx context.Context, f IdeaFilter) ([]Idea, error) {
	out := []Idea{}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableIdeas, store.DocFilter{Task: f.Task, Owner: f.Proposer})
		if err != nil {
			return err
		}
		for _, r := range rows {
			x, err := decode[Idea](r)
			if err != nil {
				return err
			}
			if f.Submission != "" && x.Submission != f.Submission && x.Proposal != f.Submission || f.Implementer != "" && x.Implementer != f.Implementer {
				continue
			}
			if out = append(out, x); len(out) >= MaxLimit {
				return nil
			}
		}
		return nil
	})
	return out, err
}
