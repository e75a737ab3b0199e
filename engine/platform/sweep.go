package platform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// sweepBatch bounds how many overdue runs one round moves.
const sweepBatch = 200

// keepUploads is how long bytes that a validator put can become evidence of a
// lease that has not reported; far longer than any lease is held.
const keepUploads = 14 * 24 * time.Hour

// purgeEvery is how often used-up nonces are forgotten.
const purgeEvery = time.Minute

func (p *Platform) sweepLoop(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	tick := time.NewTicker(p.cfg.SweepEvery)
	defer tick.Stop()
	var purged time.Time
	last := p.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := p.clockMoved(ctx, last); err != nil && ctx.Err() == nil {
			p.cfg.Log.ErrorContext(ctx, "renew leases after the clock moved", "err", err)
		}
		last = p.now()
		if err := p.rotate(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.ErrorContext(ctx, "turn the sets of arenas", "err", err)
		}
		if err := p.awaitBeacons(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.ErrorContext(ctx, "begin submissions", "err", err)
		}
		if err := p.recalibrated(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.ErrorContext(ctx, "decide by judges that were measured", "err", err)
		}
		if err := p.Sweep(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.ErrorContext(ctx, "sweep", "err", err)
		}
		if now := p.now(); now.Sub(purged) >= purgeEvery || now.Before(purged) {
			purged = now
			if err := p.purge(ctx); err != nil && ctx.Err() == nil {
				p.cfg.Log.ErrorContext(ctx, "purge nonces", "err", err)
			}
			if err := p.periods(ctx); err != nil && ctx.Err() == nil {
				p.cfg.Log.ErrorContext(ctx, "begin period", "err", err)
			}
		}
	}
}

// clockMoved gives holders of leases a full lease from now where the clock went
// far since the round before, which was at last: forward, because it was set or
// the machine slept, when nobody could send a heartbeat; back, when leases would
// be held for as long as it went.
func (p *Platform) clockMoved(ctx context.Context, last time.Time) error {
	far := max(p.cfg.Lease/2, 5*time.Second) + 2*p.cfg.SweepEvery
	if d := p.now().Sub(last); d > far || d < -far {
		p.cfg.Log.WarnContext(ctx, "the clock moved, or this process stood still: leases are held for a full time from now", "by", d.Round(time.Second))
		return p.renewLeases(ctx, time.Time{})
	}
	return nil
}

// purgeBatch bounds how many nonces, or values that were kept, one transaction forgets: a busy minute
// leaves hundreds of thousands, and claims wait behind the writer.
const purgeBatch = 500

func (p *Platform) purge(ctx context.Context) error {
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error { return tx.PurgeUploads(p.now().Add(-keepUploads)) })
	if err != nil {
		return err
	}
	for _, purge := range []func(*store.Tx, time.Time, int) (int64, error){(*store.Tx).PurgeNonces, (*store.Tx).PurgeKept} {
		for n := int64(purgeBatch); n == purgeBatch; {
			err := p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
				n, err = purge(tx, p.now(), purgeBatch)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// periods begins new periods, decides what waited for one, shows the secrets of
// those that have ended, and grants appeals that nobody answered.
func (p *Platform) periods(ctx context.Context) error {
	queued := 0
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		arenas, err := tx.Arenas()
		if err != nil {
			return err
		}
		for _, a := range arenas {
			if _, err := p.period(tx, a); err != nil {
				return err
			}
		}
		if err := p.reveal(tx); err != nil {
			return err
		}
		if queued, err = p.awaken(tx); err != nil {
			return err
		}
		return p.overdueAppeals(tx)
	})
	if err == nil && queued > 0 {
		p.news(queued)
	}
	return err
}

// Sweep moves every run whose deadline has passed: lost leases back to the
// queue or to failed, runs that nobody took to failed; and the same for judgings.
// Start calls it on a clock; it is safe to call at any time.
func (p *Platform) Sweep(ctx context.Context) error {
	if err := p.sweepJudgings(ctx); err != nil {
		return err
	}
	for {
		var ids []string
		queued := false
		err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
			if ids, err = tx.Overdue(p.now(), sweepBatch); err != nil {
				return err
			}
			if p.retryNewsDue() {
				queued, err = tx.AnyRetry(p.now())
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, id := range ids {
			again, err := p.overdue(ctx, id)
			if err != nil {
				return fmt.Errorf("run %s: %w", id, err)
			}
			queued = queued || again
			p.hub.changed(id)
		}
		if queued {
			p.waiters.news(1)
		}
		if len(ids) < sweepBatch {
			return nil
		}
	}
}

// retryNewsDue says when to look again who may have a retried run: it changes
// when a validator has not been seen for long enough, which no event tells.
func (p *Platform) retryNewsDue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if now.Sub(p.retryNews) < p.cfg.SeenFor/20 {
		return false
	}
	p.retryNews = now
	return true
}

// overdue moves one run if it still is overdue.
func (p *Platform) overdue(ctx context.Context, id string) (queued bool, err error) {
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		queued = false
		run, err := tx.Run(id)
		if err != nil {
			return err
		}
		now := p.now()
		if run.State.Final() || run.Deadline.After(now) {
			return nil
		}
		if run.State == agon.RunQueued {
			return p.expireQueued(tx, run)
		}
		a, err := tx.LiveAttempt(id)
		if err != nil {
			return err
		}
		a.State = store.AttemptExpired
		if a.SeenAt.Before(p.started) {
			queued, err = p.lose(tx, run, a, agon.FaultPlatform, "the platform restarted and the holder did not come back", false)
			return err
		}
		reason := "lease expired: no heartbeat"
		if !a.LeasedAt.Add(run.MaxHold).After(now) {
			reason = fmt.Sprintf("lease expired: held for %s, the longest allowed", run.MaxHold)
		}
		queued, err = p.lose(tx, run, a, agon.FaultValidator, reason, true)
		return err
	})
	return queued, err
}

// expireQueued fails a run that nobody played in time.
func (p *Platform) expireQueued(tx *store.Tx, run store.Run) error {
	if err := agon.CheckTransition(run.State, agon.RunFailed, agon.ByScheduler); err != nil {
		return err
	}
	arena, err := tx.Arena(run.Arena)
	if err != nil {
		return err
	}
	to := run
	to.State, to.EndedAt, to.Deadline = agon.RunFailed, p.now(), p.now()
	if to.Fault == agon.FaultNone {
		to.Fault = agon.FaultPlatform
	}
	to.Reason = fmt.Sprintf("no validator took it within %s", p.cfg.QueueFor)
	_, err = p.end(tx, arena, run, to)
	return err
}

// renewLeases gives holders of leases a full lease from now: while the platform
// was away they could not send a heartbeat. Who was heard of since is left out.
func (p *Platform) renewLeases(ctx context.Context, since time.Time) error {
	return p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		list, err := tx.LiveOf("")
		if err != nil {
			return err
		}
		until := p.now().Add(p.cfg.Lease)
		for _, a := range list {
			if !since.IsZero() && (a.LeaseUntil.After(until) || !a.SeenAt.Before(since)) {
				continue
			}
			a.LeaseUntil = until
			if err := tx.BeatAttempt(a); err != nil {
				return err
			}
			s := agon.RunState(a.State)
			if err := tx.Touch(a.Run, s, s, until); err != nil {
				return err
			}
		}
		return nil
	})
}

// Abandon ends every lease that a validator holds, at once and without using
// up a retry. `agon up` calls it at its start for its own validator, whose
// boxes ended with the process that died. The validator's runs come back to it
// only if no other serves the arena.
func (p *Platform) Abandon(ctx context.Context, validator, why string) (int, error) {
	if validator == "" {
		return 0, errors.New("abandon leases: no validator named")
	}
	n := 0
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		n = 0
		list, err := tx.LiveOf(validator)
		if err != nil {
			return err
		}
		for _, a := range list {
			run, err := tx.Run(a.Run)
			if err != nil {
				return err
			}
			a.State = store.AttemptExpired
			if _, err := p.lose(tx, run, a, agon.FaultPlatform, why, false); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	if err == nil && n > 0 {
		p.waiters.news(n)
		p.hub.changed("")
	}
	return n, err
}

// CancelRun ends a run for good, by the operator.
func (p *Platform) CancelRun(ctx context.Context, c Caller, id, reason string) error {
	if err := operatorOnly(c); err != nil {
		return err
	}
	if reason == "" {
		reason = "cancelled by the operator"
	}
	queued := 0
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		if queued, err = p.cancel(tx, id, reason); err != nil {
			return err
		}
		return p.logAction(tx, c, "cancel", id, reason, "")
	})
	if err != nil {
		return err
	}
	if queued > 0 {
		p.waiters.news(queued)
	}
	p.hub.changed(id)
	return nil
}

// cancel ends a run by the operator's word; it returns how many runs its end queued.
func (p *Platform) cancel(tx *store.Tx, id, reason string) (int, error) {
	run, err := tx.Run(id)
	if err != nil {
		return 0, found(err, "run", id)
	}
	if err := agon.CheckTransition(run.State, agon.RunCancelled, agon.ByOperator); err != nil {
		e := refuse(409, "bad_transition", "run %s is %s already", id, run.State)
		e.Err = err
		return 0, e
	}
	arena, err := tx.Arena(run.Arena)
	if err != nil {
		return 0, err
	}
	now := p.now()
	a, err := tx.LiveAttempt(id)
	switch {
	case err == nil:
		a.State, a.Reason, a.EndedAt = store.AttemptCancelled, cut(reason, maxReason), now
		if err := tx.EndAttempt(a); err != nil {
			return 0, err
		}
	case !errors.Is(err, store.ErrNotFound):
		return 0, err
	}
	to := run
	to.State, to.Fault, to.Reason, to.EndedAt, to.Deadline = agon.RunCancelled, agon.FaultNone, cut(reason, maxReason), now, now
	return p.end(tx, arena, run, to)
}
