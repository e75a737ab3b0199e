package platform

import (
	"context"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// latelyRuns is how many of an arena's newest runs its health is told from.
const latelyRuns = 2000

// Health is how an arena does now, told from its newest runs; money is that of
// the last day.
func (p *Platform) Health(ctx context.Context, c Caller, arena string) (l store.Lately, err error) {
	if err := operatorOnly(c); err != nil {
		return l, err
	}
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		l, err = tx.LatelyOf(arena, latelyRuns, p.now().Add(-24*time.Hour))
		return err
	})
	return l, err
}

// RequeueRun takes a run from the validator that holds it and puts it back into
// the queue, by the operator: nothing of the attempt counts, and no retry of the
// run is used up.
func (p *Platform) RequeueRun(ctx context.Context, c Caller, id, reason string) error {
	if err := operatorOnly(c); err != nil {
		return err
	}
	if reason == "" || len(reason) > maxReason {
		return refuse(422, "no_reason", "say why, in at most %d bytes", maxReason)
	}
	queued := false
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		queued = false
		run, err := tx.Run(id)
		if err != nil {
			return found(err, "run", id)
		}
		if run.State.Final() || run.State == agon.RunQueued {
			e := refuse(409, "bad_transition", "run %s is %s: nobody holds it", id, run.State)
			e.Mend = "a run that failed on our side is played again with its submission's retry"
			return e
		}
		a, err := tx.LiveAttempt(id)
		if err != nil {
			return err
		}
		a.State = store.AttemptExpired
		if queued, err = p.lose(tx, run, a, agon.FaultPlatform, "the operator took it back: "+reason, false); err != nil {
			return err
		}
		return p.logAction(tx, c, "requeue", id, reason, "")
	})
	if err != nil {
		return err
	}
	if queued {
		p.waiters.news(1)
	}
	p.hub.changed(id)
	return nil
}
