package platform

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
)

// mostTitles bounds how many of those who sit are played on a new set.
const mostTitles = 8

// entitle has those who sit and are paid played on the set of the period that has
// begun, if they entered before it.
func (p *Platform) entitle(tx *store.Tx, a agon.Arena, cur store.SeedPeriod) (queued int, err error) {
	if cur.TurnedAt.IsZero() || cur.BeaconBlock > 0 && cur.Beacon == "" {
		return 0, nil
	}
	rule, seats, err := p.seats(tx, a)
	if err != nil || len(seats) == 0 {
		return 0, err
	}
	shares, _, err := rule.Split(a.IncentiveNumbers, seats, p.now())
	if err != nil {
		return 0, err
	}
	titles, err := tx.Titles(a.ID)
	if err != nil {
		return 0, err
	}
	for i, seat := range seats[:min(len(seats), mostTitles)] {
		has := slices.ContainsFunc(titles, func(x store.Title) bool { return x.Period == cur.N && x.Submission == seat.Submission })
		if has || i > 0 && shares[i] == 0 {
			continue
		}
		e, err := tx.Entry(seat.Submission)
		if err != nil {
			return queued, err
		}
		if e.Beacon != nil && e.Beacon.Period >= cur.N {
			continue
		}
		t := store.Title{Arena: a.ID, Period: cur.N, Submission: e.ID}
		if err := tx.PutTitle(t); err != nil {
			return queued, err
		}
		n, err := p.playTitle(tx, a, e, cur, t)
		if queued += n; err != nil {
			return queued, err
		}
	}
	return queued, nil
}

// mostTitleTries bounds how often what faults of ours took is played again.
const mostTitleTries = 3

// playTitle queues what is to be played next of somebody who sits on a new set,
// or writes down what it scored there.
func (p *Platform) playTitle(tx *store.Tx, a agon.Arena, e store.Entry, cur store.SeedPeriod, t store.Title) (queued int, err error) {
	a.Tasks = inSet(a.Tasks, cur.Tasks)
	runs, err := tx.TitleRuns(e.ID, cur.N)
	if err != nil {
		return 0, err
	}
	v := agon.View{Arena: a, Submission: e.Submission}
	if runs, _, err = agreed(tx, a, runs); err != nil {
		return 0, err
	}
	for _, r := range runs {
		v.Runs = append(v.Runs, r.Run)
	}
	if c := p.cfg.Coordinators[a.Kind]; c != nil && a.Contest != nil {
		if v.Trust, err = c.Trust(tx, a, runs); err != nil {
			return 0, err
		}
	}
	k := p.cfg.Kinds[a.Kind]
	if k == nil {
		return 0, fmt.Errorf("unknown kind %q", a.Kind)
	}
	plan, err := k.Plan(v)
	specs := replicate(a, plan.Runs)
	if err != nil || len(runs)+len(specs) > p.cfg.MaxRuns {
		p.cfg.Log.Error("plan who sits on a new set", "arena", a.ID, "submission", e.ID, "error", err)
		specs = nil
	}
	if len(specs) == 0 {
		for _, r := range missingRuns(runs) { // lost to faults of ours
			if t.Tries < mostTitleTries {
				specs = append(specs, agon.RunSpec{Tasks: r.Tasks, Replica: r.Replica, Policy: r.Policy, Rival: r.Rival})
			}
		}
		if len(specs) > 0 {
			t.Tries++
			if err := tx.PutTitle(t); err != nil {
				return 0, err
			}
		}
	}
	if len(specs) > 0 {
		for i := range specs {
			r := &specs[i]
			r.Title = &agon.Title{Period: cur.N, Beacon: cur.Beacon}
			if r.Seed, err = seeds.Of(cur.Secret, seeds.SourceOf(a, *r, e.ID, agon.Beacon{})); err != nil {
				return queued, err
			}
			more := groupOf(a, *r)
			if more == "" { // one validator may play them all
				more = strconv.Itoa(len(runs) + i)
			}
			n, err := p.queueIn(tx, a, e, specs[i:i+1], store.TitleGroup(cur.N, more))
			if queued += n; err != nil {
				return queued, err
			}
		}
		return queued, nil
	}
	t.Done = true
	if err := p.titleScore(tx, a, e, v, runs, &t); err != nil {
		return 0, err
	}
	if err := tx.PutTitle(t); err != nil {
		return 0, err
	}
	_, seats, err := p.seats(tx, a)
	if err != nil || len(seats) == 0 {
		return 0, err
	}
	return 0, tx.PutSeat(seatOf(a.ID, seats[0]))
}

// titleScore sums up what somebody who sits scored on a new set. Where faults of
// ours left no score, that of before stands.
func (p *Platform) titleScore(tx *store.Tx, a agon.Arena, e store.Entry, v agon.View, runs []store.Run, t *store.Title) error {
	if d := p.decider(a); d != nil {
		if s, ok := d.Sum(v); ok {
			t.Score, t.Solved, t.Total = s.Score, s.Solved, s.Total
			return nil
		}
	} else if len(runs) > 0 && len(missingRuns(runs)) == 0 {
		s, err := p.tally(a, runs, func() (agon.View, error) { return v, nil })
		t.Score, t.Solved, t.Total = s.Score, s.Solved, s.Total
		return err
	}
	t.Stale = true
	if t.Total = 0; e.Score != nil && e.Solved != nil && e.Total != nil {
		t.Score, t.Solved, t.Total = *e.Score, *e.Solved, *e.Total
	}
	titles, err := tx.Titles(a.ID)
	for _, x := range titles {
		if x.Submission == e.ID && x.Done && x.Period < t.Period {
			t.Score, t.Solved, t.Total = x.Score, x.Solved, x.Total
		}
	}
	return err
}

// endTitle looks what comes after a run of somebody who sits on a new set.
func (p *Platform) endTitle(tx *store.Tx, a agon.Arena, submission string, period int64) (queued int, err error) {
	runs, err := tx.TitleRuns(submission, period)
	if err != nil || slices.ContainsFunc(runs, func(r store.Run) bool { return !r.State.Final() }) {
		return 0, err
	}
	titles, err := tx.Titles(a.ID)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(titles, func(x store.Title) bool { return x.Period == period && x.Submission == submission && !x.Done })
	if i < 0 {
		return 0, nil
	}
	e, err := tx.Entry(submission)
	if err != nil {
		return 0, err
	}
	cur, err := tx.Period(a.ID, period)
	if err != nil {
		return 0, err
	}
	if queued, err = p.playTitle(tx, a, e, cur, titles[i]); err != nil || queued > 0 {
		return queued, err
	}
	return p.decideReady(tx, a)
}

// inPeriod is an arena with the set on which a submission is played: that of the
// period in which it was accepted.
func (p *Platform) inPeriod(tx *store.Tx, a agon.Arena, e store.Entry) (agon.Arena, error) {
	if a.Supply == nil || e.Beacon == nil || e.Beacon.Period < 0 {
		return a, nil
	}
	s, err := tx.Period(a.ID, e.Beacon.Period)
	if errors.Is(err, store.ErrNotFound) || err == nil && len(s.Tasks) == 0 {
		return a, nil
	}
	a.Tasks = inSet(a.Tasks, s.Tasks)
	return a, err
}

// opening reports whether nobody may challenge yet on the set of a period: it is
// not played yet, or who sits is being played on it.
func (p *Platform) opening(tx *store.Tx, a agon.Arena, period int64) (bool, error) {
	if a.Supply == nil || period < 0 {
		return false, nil
	}
	s, err := tx.Period(a.ID, period)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || s.TurnedAt.IsZero() || s.BeaconBlock > 0 && s.Beacon == "" {
		return err == nil && s.RevealedAt.IsZero(), err // one that ended without a set is nothing to wait for
	}
	return tx.AnyOpenTitle(a.ID, period)
}

// retitle gives those who ever sat the score of the latest set on which they were
// played, of those up to a period (below 0: of all). Who was not played on the
// newest one while others were has no place there any more.
func (p *Platform) retitle(tx *store.Tx, a agon.Arena, entered []incentive.Entry, period int64, plays bool) ([]incentive.Entry, error) {
	titles, err := tx.Titles(a.ID)
	if err != nil || len(titles) == 0 {
		return entered, err
	}
	newest, open := int64(-1), false
	for _, t := range titles {
		if (period < 0 || t.Period <= period) && t.Period >= newest {
			newest, open = t.Period, t.Period == newest && open || !t.Done
		}
	}
	var out []incentive.Entry
	for _, x := range entered {
		e, err := tx.Entry(x.Submission)
		if err != nil {
			return nil, err
		}
		on := int64(-1)
		if e.Beacon != nil {
			on = e.Beacon.Period
		}
		own := on
		for _, t := range titles { // oldest first
			if t.Submission == x.Submission && t.Done && (period < 0 || t.Period <= period) && t.Period > on {
				x.Score, x.Solved, x.Total, on = t.Score, t.Solved, t.Total, t.Period
			}
		}
		if plays && on > own {
			runs, err := tx.TitleRuns(x.Submission, on)
			if err != nil {
				return nil, err
			}
			if x.Plays, err = playsOf(tx, a, runs); err != nil {
				return nil, err
			}
		}
		if open || on >= newest {
			out = append(out, x)
		}
	}
	if len(out) == 0 {
		return entered, nil
	}
	return out, nil
}

// followTitles plays on the present set who has taken a seat since it began.
func (p *Platform) followTitles(tx *store.Tx, a agon.Arena) (int, error) {
	if a.Supply == nil {
		return 0, nil
	}
	cur, err := p.period(tx, a)
	if err != nil {
		return 0, err
	}
	return p.entitle(tx, a, cur)
}
