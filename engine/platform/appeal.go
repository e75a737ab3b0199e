package platform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// maxAppeals bounds the open appeals of a coldkey in an arena: each is played.
const maxAppeals = 3

// Appeal has a decided submission played once more, each run by another
// validator than the one whose result counts, on the same tasks and seeds. The
// operator answers until the deadline; without an answer it is granted.
func (p *Platform) Appeal(ctx context.Context, c Caller, id, reason string) (*agon.Appeal, error) {
	if err := needReason(reason); err != nil {
		return nil, err
	}
	var a store.Appeal
	queued := 0
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		e, err := tx.Entry(id)
		if err != nil {
			return found(err, "submission", id)
		}
		if c.Hotkey == "" || e.Miner != c.Hotkey {
			return refuse(403, "not_miner", "only the miner of a submission appeals")
		}
		if e.State != agon.SubmissionScored && e.State != agon.SubmissionExcluded {
			return refuse(409, "not_final", "submission %s is %s: appeal when it is decided", id, e.State)
		}
		if old, err := tx.Appeal(id); err == nil {
			e := refuse(409, "appealed", "submission %s has been appealed: %s", id, old.State)
			e.Mend = "a submission is appealed once; agon submission view " + id + " shows how it stands"
			return e
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		n, err := tx.CountAppeals(e.Arena, e.Coldkey)
		if err != nil {
			return err
		}
		if n >= maxAppeals {
			x := refuse(429, "too_many_appeals", "coldkey %s has %d open appeals here", e.Coldkey, n)
			x.Limit, x.Mend = fmt.Sprintf("%d open appeals", maxAppeals), "wait for an answer"
			return x
		}
		arena, err := tx.Arena(e.Arena)
		if err != nil {
			return err
		}
		if arena.Contest != nil {
			return refuse(409, "reopen", "arena %s has its replays repeated by its coordinator", arena.ID)
		}
		runs, err := tx.RunsOf(id)
		if err != nil {
			return err
		}
		var specs []agon.RunSpec
		tasks := 0
		for _, r := range runs {
			if r.State == agon.RunScored {
				specs = append(specs, r.RunSpec)
				tasks += len(r.Tasks)
			}
		}
		now := p.now()
		a = store.Appeal{Coldkey: e.Coldkey, Appeal: agon.Appeal{
			Submission: id, Arena: e.Arena, Miner: e.Miner, Reason: cut(reason, maxReason), State: agon.AppealOpen, At: now, Deadline: now.Add(p.cfg.AnswerFor),
			Compared: agon.Comparison{Tasks: tasks},
		}}
		if err := tx.InsertAppeal(a); err != nil {
			return err
		}
		if queued, err = p.queueIn(tx, arena, e, specs, store.AppealGroup(id)); err != nil {
			return err
		}
		if a.Alone, err = p.alone(tx, a.Appeal); err != nil {
			return err
		}
		return p.logAction(tx, c, "appeal", id, reason, fmt.Sprintf("%d runs are played again", queued))
	})
	if err != nil {
		return nil, err
	}
	p.news(queued)
	return &a.Appeal, nil
}

// appealOf is the appeal of a submission, or nil without one.
func (p *Platform) appealOf(tx *store.Tx, submission string) (*agon.Appeal, error) {
	a, err := tx.Appeal(submission)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		a.Alone, err = p.alone(tx, a.Appeal)
	}
	return &a.Appeal, err
}

// alone reports whether the plays of an appeal wait for a second validator, which
// nobody is now.
func (p *Platform) alone(tx *store.Tx, a agon.Appeal) (bool, error) {
	if a.State != agon.AppealOpen || a.Compared.Played >= a.Compared.Tasks {
		return false, nil
	}
	n, err := tx.Serving(a.Arena, p.now().Add(-p.cfg.SeenFor))
	return n < 2, err
}

// Appeals are those of an arena, newest first, as its board tells of them.
func (p *Platform) Appeals(ctx context.Context, arena string) (out []agon.Appeal, err error) {
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		if out, err = appealsOf(tx, arena); err != nil {
			return err
		}
		for i := range out {
			if out[i].Alone, err = p.alone(tx, out[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// AnswerAppeal grants or denies an appeal, by the operator.
func (p *Platform) AnswerAppeal(ctx context.Context, c Caller, id string, grant bool, reason string) (*agon.Appeal, error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	if err := needReason(reason); err != nil {
		return nil, err
	}
	var a store.Appeal
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		if a, err = tx.Appeal(id); err != nil {
			return found(err, "appeal of submission", id)
		}
		if a.State != agon.AppealOpen {
			e := refuse(409, "answered", "the appeal of submission %s is %s already", id, a.State)
			e.Mend = "an answer stands; agon submission view " + id + " shows it"
			return e
		}
		a.State = agon.AppealDenied
		if grant {
			a.State = agon.AppealGranted
		}
		return p.answer(tx, c, &a, reason)
	})
	if err != nil {
		return nil, err
	}
	p.hub.changed("")
	return &a.Appeal, nil
}

func (p *Platform) answer(tx *store.Tx, c Caller, a *store.Appeal, reason string) error {
	a.AnsweredAt, a.Answer = p.now(), cut(reason, maxReason)
	if err := tx.SetAppeal(*a); err != nil {
		return err
	}
	if err := p.settlePurse(tx, a.Submission); err != nil {
		return err
	}
	return p.logAction(tx, c, "appeal "+a.State, a.Submission, reason, "")
}

// overdueAppeals grants what nobody has answered in time.
func (p *Platform) overdueAppeals(tx *store.Tx) error {
	list, err := tx.OpenAppeals(p.now())
	if err != nil {
		return err
	}
	for _, a := range list {
		a.State = agon.AppealGranted
		if err := p.answer(tx, Caller{Hotkey: "platform"}, &a, "the operator did not answer until the deadline"); err != nil {
			return err
		}
	}
	return nil
}

// endAppeal compares what was played again with what counts.
func (p *Platform) endAppeal(tx *store.Tx, submission string) error {
	a, err := tx.Appeal(submission)
	if err != nil {
		return err
	}
	again, err := tx.AppealRuns(submission)
	if err != nil {
		return err
	}
	counted, err := tx.RunsOf(submission)
	if err != nil {
		return err
	}
	c := agon.Comparison{Tasks: a.Compared.Tasks}
	for _, r := range again {
		i := slices.IndexFunc(counted, func(o store.Run) bool { return slot(o) == slot(r) && o.State == agon.RunScored })
		if i < 0 || r.State != agon.RunScored {
			continue
		}
		old := counted[i]
		before, err := requestsOfRun(tx, old)
		if err != nil {
			return err
		}
		after, err := requestsOfRun(tx, r)
		if err != nil {
			return err
		}
		for _, s := range r.Scores {
			j := slices.IndexFunc(old.Scores, func(o agon.Score) bool { return o.Task == s.Task })
			if j < 0 {
				continue
			}
			c.Played++
			if math.Abs(old.Scores[j].Value-s.Value) <= 1e-9 {
				c.Same++
			}
			if slices.Equal(before[s.Task], after[s.Task]) {
				c.Requests++
			}
			c.Before += old.Scores[j].Value
			c.After += s.Value
		}
	}
	if c.Played > 0 {
		c.Before /= float64(c.Played)
		c.After /= float64(c.Played)
	}
	a.Compared = c
	return tx.SetAppeal(a)
}

// creditOf is what is given back to a submission; nil: nothing.
func creditOf(tx *store.Tx, e store.Entry) (*agon.Credit, error) {
	lost, err := tx.LostMoney(e.ID)
	if err != nil {
		return nil, err
	}
	c := agon.Credit{Micros: lost}
	if lost > 0 {
		c.Why = "attempts that ended by a fault of ours cost nothing"
	}
	if !banned(e) && slices.ContainsFunc(e.Findings, func(f agon.Finding) bool { return f.Code == FindingIncomplete }) {
		c.Quota, c.Attempt, c.Why = true, true, "it could not be decided through a fault of ours"
	}
	a, err := tx.Appeal(e.ID)
	switch {
	case err == nil && a.State == agon.AppealGranted:
		c.Quota, c.Attempt, c.Why = true, true, "its appeal was granted"
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	back, err := givenBack(tx, e)
	if err != nil {
		return nil, err
	}
	if back != "" {
		paid, err := paidOf(tx, e.ID)
		if err != nil {
			return nil, err
		}
		if paid != nil {
			c.Back = paid.Back
		}
		if c.Fees, err = tx.BurntFees(e.ID); err != nil {
			return nil, err
		}
	}
	if !c.Quota && c.Micros == 0 {
		return nil, nil
	}
	return &c, nil
}

// appealsOf are the appeals of an arena for its board.
func appealsOf(tx *store.Tx, arena string) ([]agon.Appeal, error) {
	list, err := tx.Appeals(arena, maxPage)
	if err != nil {
		return nil, err
	}
	var out []agon.Appeal
	for _, a := range list {
		out = append(out, a.Appeal)
	}
	return out, nil
}
