package platform

import (
	"context"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// Run returns one run with its attempts.
func (p *Platform) Run(ctx context.Context, c Caller, id string) (*client.Run, error) {
	var v view
	var r store.Run
	var e store.Entry
	var a agon.Arena
	var list []store.Attempt
	var gone []string
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if r, err = tx.Run(id); err != nil {
			return found(err, "run", id)
		}
		if r.State.Final() {
			if gone, err = tx.Gone(id); err != nil {
				return err
			}
		}
		if a, err = tx.Arena(r.Arena); err != nil {
			return err
		}
		if r.Scores, err = tx.Scores(id); err != nil {
			return err
		}
		if e, err = tx.Entry(r.Submission); err != nil {
			return err
		}
		if list, err = tx.Attempts(id); err != nil {
			return err
		}
		v, err = p.viewIn(tx, c, e.Submission)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := p.runView(a, r, e.Name, list, v)
	out.Gone = gone
	return &out, nil
}
