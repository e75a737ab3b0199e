package platform

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/store"
)

// Coordinator is what a kind may keep beside the engine's books: its own
// documents, written in the platform's transactions. Every method may be called
// from many goroutines; those with a transaction must not do I/O beside it, and
// an error ends the transaction.
type Coordinator interface {
	// Trust returns how far the validator behind each run is believed, 0 to 1 by
	// run id; a run that is missing is believed wholly. Only for arenas with a contest.
	Trust(tx *store.Tx, a agon.Arena, runs []store.Run) (map[string]float64, error)
	// Settled is called in the same transaction whenever a submission of an arena
	// with a contest has its result (d is nil), is decided, or is excluded.
	Settled(tx *store.Tx, a agon.Arena, e store.Entry, d *agon.Decision) error
	// Seatable says why a submission may not take the seat, whatever it scored;
	// "" means that it may.
	Seatable(tx *store.Tx, e store.Entry) (why string, err error)
	// FixedWeights returns the weights that an operator gives an arena instead of
	// its rule; with none the rule counts.
	FixedWeights(ctx context.Context, a agon.Arena) ([]FixedWeight, error)
}

// An Entrance is a Coordinator that says how its arenas are entered; whoever
// tries to submit to one without it is shown this.
type Entrance interface{ Entrance() string }

// A Historian is a Coordinator whose contests hang on what was decided before.
type Historian interface {
	// Contest returns an arena's contest as the next decision has to take it.
	Contest(tx *store.Tx, a agon.Arena) (agon.Contest, error)
}

// Arenas with a contest: replicas go to different validators, whose results
// weigh by trust, and the kind sums and decides (kind.Decider).

// groupOf names the runs that must go to different validators: the replays of
// a submission, and those of one round of a duel.
func groupOf(a agon.Arena, s agon.RunSpec) string {
	switch {
	case s.Stage != "" && len(s.Tasks) > 0:
		return store.StageGroup(s.Stage, s.Tasks[0].Key)
	case a.Contest == nil && a.Replicas > 1 && len(s.Tasks) > 0:
		return "replica " + s.Tasks[0].Key
	case a.Contest == nil:
		return ""
	case s.Rival == nil:
		return "replay"
	}
	return "duel " + strconv.Itoa(s.Rival.Round) + " " + s.Rival.Submission
}

// decider is the arena's kind, if it decides by itself.
func (p *Platform) decider(a agon.Arena) kind.Decider {
	if a.Contest == nil {
		return nil
	}
	d, _ := p.cfg.Kinds[a.Kind].(kind.Decider)
	return d
}

// contest fills in what the view of a contest has besides the runs.
func (p *Platform) contest(tx *store.Tx, a agon.Arena, e store.Entry, runs []store.Run, v *agon.View) error {
	if a.Contest == nil {
		return nil
	}
	if v.Champion != nil {
		held, err := tx.Entry(v.Champion.Submission)
		if err != nil {
			return err
		}
		v.Rival = &agon.Rival{Submission: held.ID, Digest: held.Digest}
	}
	if c := p.cfg.Coordinators[a.Kind]; c != nil {
		trust, err := c.Trust(tx, a, runs)
		if err != nil {
			return err
		}
		v.Trust = trust
	}
	if len(runs) == 0 {
		return nil // nothing is decided on admission, and the count grows with the coldkey's entries
	}
	if h, ok := p.cfg.Coordinators[a.Kind].(Historian); ok {
		now, err := h.Contest(tx, a)
		if err != nil {
			return err
		}
		v.Arena.Contest = &now
	}
	by, err := tx.Counted(runs)
	if err != nil {
		return err
	}
	v.By = make(map[string]string, len(by))
	for run, at := range by {
		v.By[run] = at.Validator
	}
	n, err := tx.CountChallenges(a.ID, e.Coldkey, e.Seq)
	v.Attempts = int(n)
	return err
}

// contestView is the view of a submission with all of its runs.
func (p *Platform) contestView(tx *store.Tx, a agon.Arena, e store.Entry, runs []store.Run) (agon.View, error) {
	seat, err := tx.Seat(a.ID)
	if err != nil {
		return agon.View{}, err
	}
	v := agon.View{Arena: a, Submission: e.Submission, Champion: seat}
	for _, r := range runs {
		v.Runs = append(v.Runs, r.Run)
	}
	return v, p.contest(tx, a, e, runs, &v)
}

// sum asks a kind that sums by itself. ok is false where it does not, or where
// faults of ours left no result.
func (p *Platform) sum(tx *store.Tx, a agon.Arena, e store.Entry, runs []store.Run) (kind.Sum, bool, error) {
	d := p.decider(a)
	if d == nil {
		return kind.Sum{}, false, nil
	}
	v, err := p.contestView(tx, a, e, runs)
	if err != nil {
		return kind.Sum{}, false, err
	}
	s, ok := d.Sum(v)
	return s, ok, nil
}

// settled reports to the kind's coordinator how a submission stands now.
func (p *Platform) settled(tx *store.Tx, a agon.Arena, submission string, d *agon.Decision) error {
	c := p.cfg.Coordinators[a.Kind]
	if a.Contest == nil || c == nil {
		return nil
	}
	e, err := tx.Entry(submission)
	if err != nil {
		return err
	}
	return c.Settled(tx, a, e, d)
}

// decideContest lets the kind decide, or queues what it wants played before.
// Then the submission has no result for as long, so that it stays in its place.
// It reports false where results are being judged again.
func (p *Platform) decideContest(tx *store.Tx, a agon.Arena, e store.Entry, k kind.Decider) (done bool, queued int, err error) {
	runs, err := tx.RunsOf(e.ID)
	if err != nil {
		return false, 0, err
	}
	v, err := p.contestView(tx, a, e, runs)
	if err != nil {
		return false, 0, err
	}
	var verdict kind.Verdict
	if _, err := tx.Decision(e.ID); err == nil { // it was reopened: what was decided stands
		if err := p.setState(tx, e.ID, agon.SubmissionScored, e.Findings); err != nil {
			return false, 0, err
		}
		return true, 0, p.settled(tx, a, e.ID, nil)
	} else if !errors.Is(err, store.ErrNotFound) {
		return false, 0, err
	}
	if e.Scripted {
		verdict.Rule = incentive.ScriptedRule
	} else if rule := worthless(e); rule != "" {
		verdict.Rule = rule
	} else if c := p.cfg.Coordinators[a.Kind]; c != nil {
		if verdict.Rule, err = c.Seatable(tx, e); err != nil {
			return false, 0, err
		}
	}
	if verdict.Rule == "" {
		if verdict, err = k.Decide(v); err != nil {
			return false, 0, err
		}
	}
	if len(verdict.More) > 0 && len(runs)+len(verdict.More) <= p.cfg.MaxRuns {
		if err := tx.SetEntryResult(e.ID, nil, nil, nil); err != nil {
			return false, 0, err
		}
		queued, err = p.queue(tx, a, e, verdict.More)
		return true, queued, err
	}
	d := agon.Decision{
		Arena: a.ID, Challenger: e.ID, Score: *e.Score, Outcome: agon.KeptSeat, Rule: verdict.Rule, Bar: verdict.Bar, Numbers: verdict.Numbers, At: p.now(),
	}
	if v.Champion != nil {
		d.Incumbent = v.Champion.Submission
	}
	if verdict.Takes {
		d.Outcome = agon.TookSeat
		r, err := p.review(tx, a, runs, true)
		if err != nil {
			return false, 0, err
		}
		if r.exempt+r.judged+r.unjudged > 0 {
			r.unattested = 0 // one of ours has replayed it
		}
		if waits := p.judgedSeat(a, r, &d); waits {
			return false, 0, nil
		}
	}
	if d.Outcome == agon.TookSeat {
		if err := tx.PutSeat(agon.Seat{Arena: a.ID, Submission: e.ID, Miner: e.Miner, Score: *e.Score, Since: d.At}); err != nil {
			return false, 0, err
		}
	}
	if err := tx.InsertDecision(d); err != nil {
		return false, 0, err
	}
	if err := p.setState(tx, e.ID, agon.SubmissionScored, e.Findings); err != nil {
		return false, 0, err
	}
	return true, 0, p.settled(tx, a, e.ID, &d)
}

// Reopen has a submission of a contest replayed once more by as many
// validators as must agree, by the operator. What was measured stays, and so
// does a decision.
func (p *Platform) Reopen(ctx context.Context, c Caller, id string) (queued int, err error) {
	if err := operatorOnly(c); err != nil {
		return 0, err
	}
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		queued = 0
		e, err := tx.Entry(id)
		if err != nil {
			return found(err, "submission", id)
		}
		a, err := tx.Arena(e.Arena)
		if err != nil {
			return err
		}
		if a.Contest == nil {
			return refuse(409, "no_contest", "arena %s has no replays to repeat", a.ID)
		}
		if e.State != agon.SubmissionScored && e.State != agon.SubmissionExcluded {
			return refuse(409, "not_final", "submission %s is %s: its replays are under way", id, e.State)
		}
		runs, err := tx.RunsOf(id)
		if err != nil {
			return err
		}
		replica := 0
		for _, r := range runs {
			if r.Rival == nil {
				replica = max(replica, r.Replica+1)
			}
		}
		var specs []agon.RunSpec
		for i := range a.Contest.Agree {
			specs = append(specs, agon.RunSpec{Tasks: a.Tasks, Replica: replica + i, Policy: a.Policy})
		}
		e.Findings = slices.DeleteFunc(e.Findings, func(f agon.Finding) bool { return f.Code == FindingIncomplete })
		if err := p.setState(tx, id, agon.SubmissionPlaying, e.Findings); err != nil {
			return err
		}
		if err := tx.SetEntryResult(id, nil, nil, nil); err != nil {
			return err
		}
		queued, err = p.queue(tx, a, e, specs)
		return err
	})
	if err == nil && queued > 0 {
		p.waiters.news(queued)
		p.hub.changed("")
	}
	return queued, err
}
