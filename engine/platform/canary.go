package platform

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
)

// Canaries are plays of decided submissions whose outcome is known: one, or two
// against each other on the same tasks and seed, as halves of a pair are. They
// come to validators through the same queue and with the same fields as other runs,
// each validator plays one, and nothing of the contest hangs on them. What a
// validator makes of them counts in its standing.

const (
	maxCanaryPlays   = 50
	maxCanaries      = 200  // that one list shows
	defaultTolerance = 0.05 // of scores, which are 0 to 1
)

// MakeCanary has a run of a decided submission, or it and its rival's on the same
// tasks, played once more by validators whose word is measured so; by the operator.
func (p *Platform) MakeCanary(ctx context.Context, c Caller, run string, r client.CanaryRequest) (*agon.Canary, error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	if err := needReason(r.Reason); err != nil {
		return nil, err
	}
	bad := func(field, format string, args ...any) error {
		e := refuse(422, "bad_"+field, format, args...)
		e.Field = field
		return e
	}
	tolerance := defaultTolerance
	if r.Tolerance != nil {
		tolerance = *r.Tolerance
	}
	switch {
	case !(tolerance >= 0 && tolerance < 1):
		return nil, bad("tolerance", "%v: want 0 to less than 1", tolerance)
	case r.Known != nil && !(math.Abs(*r.Known) <= 1):
		return nil, bad("known", "%v: want a score of 0 to 1, or a gain of -1 to 1", *r.Known)
	case r.Validators < 1 || r.Validators > maxCanaryPlays:
		return nil, bad("validators", "%d validators: want 1 to %d", r.Validators, maxCanaryPlays)
	}
	var out agon.Canary
	queued := 0
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		queued = 0
		mine, err := p.knownRun(tx, run)
		if err != nil {
			return err
		}
		a, err := tx.Arena(mine.Arena)
		if err != nil {
			return err
		}
		if a.Contest != nil || mine.Stage != "" {
			return refuse(409, "no_canary", "arena %s has canaries of its own, or stages: name another", a.ID)
		}
		out = agon.Canary{ID: newID(), Arena: a.ID, Submission: mine.Submission, Rival: r.Rival, Known: valueOf(mine.Scores), Tolerance: tolerance, Plays: r.Validators, At: p.now(), Actor: c.Hotkey, Reason: cut(r.Reason, maxReason), Hits: []agon.CanaryHit{}}
		var theirs *store.Run
		if r.Rival != "" {
			runs, err := tx.RunsOf(r.Rival)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(runs, func(o store.Run) bool {
				return o.State == agon.RunScored && o.Arena == a.ID && reflect.DeepEqual(o.Tasks, mine.Tasks)
			})
			if i < 0 {
				return bad("rival", "submission %s has no scored run on these tasks in arena %s", r.Rival, a.ID)
			}
			other, err := p.knownRun(tx, runs[i].RunSpec.Run)
			if err != nil {
				return err
			}
			theirs, out.Known = &other, out.Known-valueOf(other.Scores)
		}
		if r.Known != nil {
			out.Known = *r.Known
		}
		if err := tx.InsertCanary(out); err != nil {
			return err
		}
		for range r.Validators {
			n, err := p.queueCanary(tx, a, out.ID, mine, theirs)
			if queued += n; err != nil {
				return err
			}
		}
		return p.logAction(tx, c, "canary", mine.Submission, r.Reason, fmt.Sprintf("%d runs", queued))
	})
	if err != nil {
		return nil, err
	}
	p.news(queued)
	return &out, nil
}

// knownRun returns a scored run of a decided submission, with the scores that count.
func (p *Platform) knownRun(tx *store.Tx, id string) (store.Run, error) {
	r, err := tx.Run(id)
	if err != nil {
		return r, found(err, "run", id)
	}
	e, err := tx.Entry(r.Submission)
	if err != nil {
		return r, err
	}
	if e.State != agon.SubmissionScored || r.State != agon.RunScored || r.Title != nil {
		return r, refuse(409, "not_final", "run %s is %s, of a submission that is %s: a canary's outcome is known", id, r.State, e.State)
	}
	runs, err := tx.RunsOf(r.Submission)
	if err != nil {
		return r, err
	}
	i := slices.IndexFunc(runs, func(o store.Run) bool { return o.RunSpec.Run == id })
	if i < 0 {
		err := refuse(409, "not_final", "run %s is not one of those that its submission is scored by", id)
		if len(runs) > 0 {
			err.Mend = "take run " + runs[0].RunSpec.Run + ", or another whose page has a score that counts"
		}
		return r, err
	}
	return runs[i], nil
}

func valueOf(list []agon.Score) float64 {
	sum := 0.0
	for _, s := range list {
		sum += s.Value
	}
	return sum / math.Max(1, float64(len(list)))
}

// queueCanary queues one play of a canary, or the two halves of one duel.
func (p *Platform) queueCanary(tx *store.Tx, a agon.Arena, id string, mine store.Run, theirs *store.Run) (int, error) {
	e, err := tx.Entry(mine.Submission)
	if err != nil {
		return 0, err
	}
	spec := agon.RunSpec{Tasks: mine.Tasks, Replica: mine.Replica, Policy: mine.Policy, Seed: mine.Seed}
	if theirs == nil {
		return p.queueIn(tx, a, e, []agon.RunSpec{spec}, store.CanaryGroup(id))
	}
	held, err := tx.Entry(theirs.Submission)
	if err != nil {
		return 0, err
	}
	o := spec
	spec.Rival = &agon.Rival{Submission: held.ID, Digest: held.Digest, Round: 1, Side: agon.SideChallenger}
	o.Rival = &agon.Rival{Submission: e.ID, Digest: e.Digest, Round: 1, Side: agon.SideIncumbent}
	if spec.Seed, err = p.seedOf(tx, a, &e, seeds.TaskOf(a, spec), 1); err != nil {
		return 0, err
	}
	o.Seed = spec.Seed
	n, err := p.queueIn(tx, a, e, []agon.RunSpec{spec}, store.CanaryGroup(id))
	if err != nil {
		return n, err
	}
	m, err := p.queueIn(tx, a, held, []agon.RunSpec{o}, store.CanaryGroup(id))
	return n + m, err
}

// endCanary notes what a validator made of a canary, once it has played all of it.
func (p *Platform) endCanary(tx *store.Tx, run store.Run) error {
	if run.State != agon.RunScored {
		return nil // lost through us
	}
	c, err := tx.Canary(store.CanaryOf(run.Group))
	if err != nil {
		return err
	}
	attempts, err := tx.Attempts(run.RunSpec.Run)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(attempts, func(t store.Attempt) bool { return t.Counted })
	if i < 0 {
		return fmt.Errorf("canary %s was scored by no attempt", run.RunSpec.Run)
	}
	plays, err := tx.CanaryPlays(c.ID, attempts[i].Validator)
	if err != nil {
		return err
	}
	h := agon.CanaryHit{Canary: c.ID, Arena: c.Arena, Validator: attempts[i].Validator, Known: c.Known, At: p.now()}
	sides := 0
	for _, x := range plays {
		switch x.Submission {
		case c.Submission:
			h.Run, h.Observed = x.Run, h.Observed+x.Value
			sides++
		case c.Rival:
			h.Observed -= x.Value
			sides++
		}
	}
	want := 1
	if c.Rival != "" {
		want = 2
	}
	if sides != want {
		return nil // its other half is not played yet
	}
	h.Missed = math.Abs(h.Observed-h.Known) > c.Tolerance+1e-9
	return tx.HitCanary(h)
}

// Canaries lists those of an arena with what validators made of them; for the operator.
func (p *Platform) Canaries(ctx context.Context, c Caller, arena string) (out []agon.Canary, err error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		if _, err := tx.Arena(arena); err != nil {
			return noArena(tx, err, arena)
		}
		if out, err = tx.Canaries(arena, maxCanaries); err != nil {
			return err
		}
		for i := range out {
			if out[i].Hits, err = tx.HitsOf(out[i].ID); err != nil {
				return err
			}
			if out[i].Hits == nil {
				out[i].Hits = []agon.CanaryHit{}
			}
		}
		return nil
	})
	if out == nil {
		out = []agon.Canary{}
	}
	return out, err
}

// canariesOf adds the canaries of a validator to what is known of its word.
func (p *Platform) canariesOf(tx *store.Tx, validator string, w *score.Word) error {
	played, missed, err := tx.CountCanaries(validator, p.now().Add(-standingFor))
	w.Canaries += played
	w.Missed += missed
	return err
}

// missedCases are the canaries that a validator got wrong, as cases against it.
func (p *Platform) missedCases(tx *store.Tx, validator string) (out []client.Case, err error) {
	list, err := tx.MissedBy(validator, p.now().Add(-standingFor), maxCases)
	for _, h := range list {
		known, seen := h.Known, h.Observed
		out = append(out, client.Case{Run: h.Run, Arena: h.Arena, Role: "canary", At: h.At, URL: "/v1/runs/" + h.Run, Known: &known, Observed: &seen})
	}
	return out, err
}
