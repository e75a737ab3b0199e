package platform

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// What the operator may do beyond opening and closing arenas. Every act names
// its reason and is written down in the transaction that it is part of.

// FindingBanned marks a submission that the operator has banned.
const FindingBanned = "banned"

func banned(e store.Entry) bool {
	return slices.ContainsFunc(e.Findings, func(f agon.Finding) bool { return f.Code == FindingBanned })
}

func (p *Platform) logAction(tx *store.Tx, c Caller, what, target, reason, change string) error {
	return tx.LogAction(agon.OperatorAction{At: p.now(), Actor: c.Hotkey, What: what, Target: target, Reason: cut(reason, maxReason), Change: change})
}

func needReason(reason string) error {
	if strings.TrimSpace(reason) == "" || len(reason) > maxReason {
		e := refuse(422, "no_reason", "say why, in at most %d bytes", maxReason)
		e.Field, e.Limit = "reason", fmt.Sprintf("%d bytes", maxReason)
		return e
	}
	return nil
}

// Retune changes an arena's numbers, with a reason.
func (p *Platform) Retune(ctx context.Context, c Caller, arena string, r client.Retune, reason string) error {
	if err := operatorOnly(c); err != nil {
		return err
	}
	if err := needReason(reason); err != nil {
		return err
	}
	if err := checkRetune(r); err != nil {
		return err
	}
	return p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		a, err := tx.Arena(arena)
		if err != nil {
			return found(err, "arena", arena)
		}
		var change []string
		set := func(name string, to *int, v *int) {
			if v != nil && *to != *v {
				change = append(change, fmt.Sprintf("%s %d to %d", name, *to, *v))
				*to = *v
			}
		}
		set("max_leases", &a.MaxLeases, r.MaxLeases)
		set("attempts", &a.Attempts, r.Attempts)
		set("submissions_per_coldkey", &a.SubmissionsPerColdkey, r.SubmissionsPerColdkey)
		if r.BudgetMicros != nil && a.Policy.Budget.Micros != *r.BudgetMicros {
			change = append(change, fmt.Sprintf("budget_micros %d to %d", a.Policy.Budget.Micros, *r.BudgetMicros))
			a.Policy.Budget.Micros = *r.BudgetMicros
		}
		if len(change) == 0 {
			return nil
		}
		if err := tx.PutArena(a); err != nil {
			return err
		}
		return p.logAction(tx, c, "retune", arena, reason, strings.Join(change, ", "))
	})
}

// checkRetune refuses numbers that no arena can have.
func checkRetune(r client.Retune) error {
	bad := func(field, limit string) error {
		e := badField(field, "%s must be %s", field, limit)
		e.Limit = limit
		return e
	}
	switch {
	case r.MaxLeases != nil && (*r.MaxLeases < 1 || *r.MaxLeases > 1000):
		return bad("max_leases", "1 to 1000")
	case r.Attempts != nil && (*r.Attempts < 0 || *r.Attempts > 5):
		return bad("attempts", "0 to 5")
	case r.SubmissionsPerColdkey != nil && *r.SubmissionsPerColdkey < 0:
		return bad("submissions_per_coldkey", "0 or more")
	case r.BudgetMicros != nil && *r.BudgetMicros < 0:
		return bad("budget_micros", "0 or more")
	}
	return nil
}

// Ban takes a submission out of its arena: its runs end, a seat that it holds
// goes to whom the rule seats without it, and no corpus takes its rows.
func (p *Platform) Ban(ctx context.Context, c Caller, id, reason string) error {
	if err := operatorOnly(c); err != nil {
		return err
	}
	if err := needReason(reason); err != nil {
		return err
	}
	queued := 0
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		queued = 0
		e, err := tx.Entry(id)
		if err != nil {
			return found(err, "submission", id)
		}
		if banned(e) {
			return refuse(409, "banned", "submission %s is banned already", id)
		}
		a, err := tx.Arena(e.Arena)
		if err != nil {
			return err
		}
		// First of all: the end of its runs must not look like a fault of ours, which is given back.
		f := agon.Finding{Code: FindingBanned, Message: "banned by the operator: " + cut(reason, maxReason)}
		if err := tx.SetEntryState(id, e.State, append(e.Findings, f)); err != nil {
			return err
		}
		runs, err := tx.RunsOf(id)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if r.State.Final() {
				continue
			}
			n, err := p.cancel(tx, r.RunSpec.Run, "banned: "+reason)
			if err != nil {
				return err
			}
			queued += n
		}
		if e, err = tx.Entry(id); err != nil { // its end may have decided it
			return err
		}
		if err := p.setState(tx, id, agon.SubmissionExcluded, e.Findings); err != nil {
			return err
		}
		_, seats, err := p.seats(tx, a)
		if err != nil {
			return err
		}
		if len(seats) == 0 {
			err = tx.DropSeat(a.ID)
		} else {
			err = tx.PutSeat(seatOf(a.ID, seats[0]))
		}
		if err != nil {
			return err
		}
		n, err := p.decideReady(tx, a) // those behind it wait no longer
		if err != nil {
			return err
		}
		queued += n
		return p.logAction(tx, c, "ban", id, reason, "")
	})
	if err != nil {
		return err
	}
	p.news(queued)
	return nil
}

// Retry queues again what a submission lacks through faults of ours.
func (p *Platform) Retry(ctx context.Context, c Caller, id, reason string) (queued int, err error) {
	if err := operatorOnly(c); err != nil {
		return 0, err
	}
	if err := needReason(reason); err != nil {
		return 0, err
	}
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		e, err := tx.Entry(id)
		if err != nil {
			return found(err, "submission", id)
		}
		a, err := tx.Arena(e.Arena)
		if err != nil {
			return err
		}
		if queued, err = p.revive(tx, a, &e); err != nil {
			return err
		}
		if queued == 0 {
			return refuse(409, "nothing_to_retry", "submission %s lacks no run through a fault of ours, or has been retried enough", id)
		}
		return p.logAction(tx, c, "retry", id, reason, fmt.Sprintf("%d runs", queued))
	})
	if err != nil {
		return 0, err
	}
	p.news(queued)
	return queued, nil
}

// Actions returns what the operator did, newest first; for operators.
func (p *Platform) Actions(ctx context.Context, c Caller, limit int) (out []agon.OperatorAction, err error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		out, err = tx.Actions(min(max(limit, 1), maxPage))
		return err
	})
	return out, err
}

// news tells those who wait for work and those who watch.
func (p *Platform) news(queued int) {
	if queued > 0 {
		p.waiters.news(queued)
	}
	p.hub.changed("")
}
