package platform

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/store"
)

// A validator's word is not the score. A random share of results, and all of a
// submission that would take a seat, are judged again from the stored evidence
// by another validator. The first result stands until that contradicts it;
// then a third settles it by the middle of the three. What was said stays on
// record; what counts is in rulings. A decision waits for its judgings. Where
// nobody else is there, it goes on and says so.

const (
	judgeTries   = 3                   // leases of a judging before it is given up
	judgeMaxHold = 2 * time.Hour       // of one such lease, heartbeats or not
	judgeHeld    = 4                   // judgings that one validator may hold
	standingFor  = 90 * 24 * time.Hour // how long a case counts
	suspectShare = 5                   // how many times as often results of a contradicted validator are drawn
	maxCases     = 50                  // that one standing links
)

// Numbers that every decision carries which would move a seat.
const (
	numJudged   = "judged_again" // results of the challenger that others judged again
	numUnjudged = "not_judged"   // those that nobody else was there to judge
)

// CanaryBook is a Coordinator that plays validators runs whose outcome is known.
type CanaryBook interface {
	// CanariesOf counts those that a validator played, and those that it got wrong.
	CanariesOf(tx *store.Tx, validator string) (played, missed int, err error)
}

// rejudging is how results of an arena are judged again.
func (p *Platform) rejudging(a agon.Arena) kind.Rejudging {
	if k, ok := p.cfg.Kinds[a.Kind].(kind.Rejudged); ok {
		return k.Rejudging()
	}
	return kind.Rejudging{}
}

// draw returns a random number in [0, 1) that nobody can know before.
func (p *Platform) draw() float64 {
	if p.cfg.Draw != nil {
		return p.cfg.Draw()
	}
	return float64(binary.LittleEndian.Uint64(randomBytes(8))>>11) / (1 << 53)
}

// readWord reads what is known of a validator.
func (p *Platform) readWord(tx *store.Tx, validator string) (w score.Word, r store.ValidatorRecord, err error) {
	if r, err = tx.RecordOf(validator, p.now().Add(-standingFor)); err != nil {
		return w, r, err
	}
	w.Judged, w.Contradicted = int(r.JudgedAgain+r.Judged), int(r.Contradicted)
	if err := p.canariesOf(tx, validator, &w); err != nil {
		return w, r, err
	}
	for _, c := range p.cfg.Coordinators {
		if b, ok := c.(CanaryBook); ok {
			played, missed, err := b.CanariesOf(tx, validator)
			if err != nil {
				return w, r, err
			}
			w.Canaries += played
			w.Missed += missed
		}
	}
	return w, r, nil
}

// outcast reports whether a validator's results do not count.
func (p *Platform) outcast(tx *store.Tx, validator string) (bool, error) {
	w, _, err := p.word(tx, validator)
	return score.Stands(w) < score.StandingBar, err
}

// believed refuses a validator whose standing is below the bar.
func (p *Platform) believed(ctx context.Context, validator string) error {
	var w score.Word
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		w, _, err = p.word(tx, validator)
		return err
	})
	if err != nil || score.Stands(w) >= score.StandingBar {
		return err
	}
	e := refuse(403, "low_standing", "validator %s stands at %.2f: others contradicted %d of %d of its cases, and it missed %d of %d canaries", validator, score.Stands(w), w.Contradicted, w.Judged, w.Missed, w.Canaries)
	e.Limit, e.Mend = fmt.Sprintf("%.2f", score.StandingBar), "look at the cases: agon validator standing"
	return e
}

// subjectOf is the submission whose decision waits for a run.
func subjectOf(r store.Run) string {
	if r.Half() {
		return store.PairChallenger(r.Group)
	}
	return r.Submission
}

// judgeAgain queues a judging of a counted attempt. It reports false where
// nobody else is there to do it; then nothing is queued.
func (p *Platform) judgeAgain(tx *store.Tx, run store.Run, attempt int, player, why string, k int) (bool, error) {
	now := p.now()
	j := store.Judging{
		Rejudging:  agon.Rejudging{ID: newID(), Run: run.RunSpec.Run, Attempt: attempt, Arena: run.Arena, K: k, Why: why, Player: player, CreatedAt: now},
		Submission: run.Submission, Subject: subjectOf(run), Deadline: now.Add(p.cfg.QueueFor),
	}
	if err := tx.InsertJudging(j); err != nil {
		return false, err
	}
	there, err := tx.HasJudge(j, now.Add(-p.cfg.SeenFor))
	if err != nil || there {
		tx.Then(func() { p.judges.news(1) })
		return there, err
	}
	return false, p.skip(tx, j, agon.JudgingQueued, "no other validator was there")
}

// skip ends a judging that nobody could do.
func (p *Platform) skip(tx *store.Tx, j store.Judging, from agon.JudgingState, reason string) error {
	if j.State = agon.JudgingSkipped; from == "" {
		from = agon.JudgingQueued
	}
	if err := agon.CheckJudging(from, j.State, agon.ByScheduler); err != nil {
		return err
	}
	j.Reason, j.EndedAt, j.Validator = cut(reason, maxReason), p.now(), ""
	return tx.MoveJudging(from, j)
}

// share draws whether a result that has just counted is judged again.
func (p *Platform) share(tx *store.Tx, a agon.Arena, run store.Run, at store.Attempt) error {
	share := a.RejudgeShare()
	if at.Evidence == "" || share <= 0 || p.rejudging(a).Exempt != "" {
		return nil
	}
	_, known, err := p.word(tx, at.Validator)
	if err != nil {
		return err
	}
	if known.Contradicted > 0 {
		share *= suspectShare
	}
	if p.draw() >= share {
		return nil
	}
	n, err := tx.SharedJudgings(a.ID, p.now().Add(-24*time.Hour))
	if err != nil || n >= int64(cmp.Or(a.RejudgePerDay, agon.DefaultRejudgePerDay)) {
		return err
	}
	_, err = p.judgeAgain(tx, run, at.N, at.Validator, agon.JudgeShare, 2)
	return err
}

// review is how far the results of a challenge have been judged again.
type review struct {
	wait               bool // judgings are under way
	judged, unjudged   int
	unattested, exempt int
}

// mark adds what a reader of the decision should know.
func (v review) mark(n map[string]float64) map[string]float64 {
	if n == nil {
		n = map[string]float64{}
	}
	if v.judged+v.unjudged == 0 {
		return n
	}
	n[numJudged], n[numUnjudged] = float64(v.judged), float64(v.unjudged)
	return n
}

// review looks whether all results of a challenge were judged again, and queues
// what was not: every one where a seat would move (seat), else those of
// validators that are no longer believed.
func (p *Platform) review(tx *store.Tx, a agon.Arena, runs []store.Run, seat bool) (v review, err error) {
	exempt := p.rejudging(a).Exempt != ""
	seat = seat && !a.UnjudgedSeats
	bad := map[string]bool{}
	runs = slices.DeleteFunc(slices.Clone(runs), func(r store.Run) bool { return r.State != agon.RunScored || r.Fault != agon.FaultNone })
	counted, err := tx.Counted(runs)
	if err != nil {
		return v, err
	}
	judgings, err := tx.JudgingsOfRuns(slices.DeleteFunc(slices.Clone(runs), func(r store.Run) bool { return exempt || counted[r.RunSpec.Run].Evidence == "" }))
	if err != nil {
		return v, err
	}
	for _, r := range runs {
		t, ok := counted[r.RunSpec.Run]
		if !ok {
			continue
		}
		if t.Evidence == "" {
			v.unattested++
			continue
		}
		if exempt {
			v.exempt++
			continue
		}
		if _, known := bad[t.Validator]; !known && !seat {
			if bad[t.Validator], err = p.outcast(tx, t.Validator); err != nil {
				return v, err
			}
		}
		list := judgings[r.RunSpec.Run]
		switch {
		case len(list) == 0 && !seat && !bad[t.Validator]:
		case len(list) == 0:
			why := agon.JudgeSeat
			if !seat {
				why = agon.JudgeStanding
			}
			queued, err := p.judgeAgain(tx, r, t.N, t.Validator, why, 2)
			if err != nil {
				return v, err
			}
			v.wait = v.wait || queued
			if !queued {
				v.unjudged++
			}
		case slices.ContainsFunc(list, func(j store.Judging) bool { return !j.State.Final() }):
			v.wait = true
		case list[0].State == agon.JudgingDone:
			v.judged++
		default:
			v.unjudged++
		}
	}
	return v, nil
}

// reviewed is review for a submission's own runs.
func (p *Platform) reviewed(tx *store.Tx, a agon.Arena, submission string, seat bool) (review, error) {
	runs, err := tx.RunsOf(submission)
	if err != nil {
		return review{}, err
	}
	return p.review(tx, a, runs, seat)
}

// ClaimJudging takes the oldest result that the caller may judge again. It
// waits like Claim, and returns nil when nothing came.
func (p *Platform) ClaimJudging(ctx context.Context, c Caller, r client.ClaimRequest) (*client.JudgeLease, error) {
	n, err := p.speak(c, r)
	if err != nil {
		return nil, err
	}
	l, err := p.claimJudging(ctx, c, r)
	if l != nil {
		l.Protocol = n
	}
	return l, err
}

func (p *Platform) claimJudging(ctx context.Context, c Caller, r client.ClaimRequest) (*client.JudgeLease, error) {
	arenas, err := p.claimable(ctx, c, r, false)
	if err != nil {
		return nil, err
	}
	if err := p.believed(ctx, c.Hotkey); err != nil {
		return nil, err
	}
	owners, err := p.ownersOf(ctx, c, arenas)
	if err != nil {
		return nil, err
	}
	p.noteJudge(ctx, c.Hotkey, arenas, owners, true)
	me := p.judges.join(c.Hotkey) // before looking, so that no news is missed
	defer p.judges.leave(me)
	timer := time.NewTimer(min(max(time.Duration(r.WaitMS)*time.Millisecond, 0), maxWait))
	defer timer.Stop()
	for {
		any := false
		err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
			any, err = tx.AnyJudging(ids(arenas))
			return err
		})
		if err != nil {
			return nil, err
		}
		if any {
			l, err := p.takeJudging(ctx, c, r, arenas, owners)
			if l != nil || err != nil {
				return l, err
			}
			p.judges.pass()
		}
		select {
		case <-me.ch:
		case <-timer.C:
			return nil, nil
		case <-p.draining:
			return nil, nil // the next server has what comes
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// noteJudge remembers whose a validator is, and that it judges. It writes rarely.
func (p *Platform) noteJudge(ctx context.Context, validator string, arenas []agon.Arena, owners map[place]string, judges bool) {
	now := p.now()
	name, at := "owner "+validator, time.Time{}
	if judges {
		name, at = "judge "+validator, now
	}
	var due []agon.Arena
	for _, a := range arenas {
		if p.seen.due(a.ID, name, "", now, p.cfg.SeenFor/4) {
			due = append(due, a)
		}
	}
	if len(due) == 0 {
		return
	}
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		for _, a := range due {
			if err := tx.SawJudge(a.ID, validator, owners[placeOf(a)], at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		p.cfg.Log.WarnContext(ctx, "note judge", "validator", validator, "err", err)
	}
}

func (p *Platform) takeJudging(ctx context.Context, c Caller, r client.ClaimRequest, arenas []agon.Arena, owners map[place]string) (l *client.JudgeLease, err error) {
	token := hex.EncodeToString(randomBytes(32))
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		l = nil
		if err := ctx.Err(); err != nil {
			return err
		}
		held, err := tx.HeldJudgings(c.Hotkey)
		if err != nil || held >= judgeHeld {
			return err
		}
		there, err := unheld(tx, arenas)
		if err != nil {
			return err
		}
		for _, a := range there {
			j, err := tx.NextJudging(a.ID, store.Claimant{Validator: c.Hotkey, Coldkey: owners[placeOf(a)], Driver: r.Driver, Without: imageDigests(r.MissingImages), GPUs: r.GPUs})
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if err := deferred(ctx).use(tx); err != nil {
				return err
			}
			from := j.State
			if err := agon.CheckJudging(from, agon.JudgingLeased, agon.ByScheduler); err != nil {
				return err
			}
			now := p.now()
			j.State, j.Validator, j.TokenHash = agon.JudgingLeased, c.Hotkey, tokenHash(token)
			j.LeasedAt, j.Deadline, j.Tries = now, now.Add(p.cfg.Lease), j.Tries+1
			if err := tx.MoveJudging(from, j); err != nil {
				return err
			}
			run, err := tx.Run(j.Run)
			if err != nil {
				return err
			}
			attempts, err := tx.Attempts(j.Run)
			if err != nil {
				return err
			}
			e, err := tx.Entry(run.Submission)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(attempts, func(t store.Attempt) bool { return t.N == j.Attempt })
			if i < 0 {
				return fmt.Errorf("judging %s: run %s has no attempt %d", j.ID, j.Run, j.Attempt)
			}
			a.Tasks = run.Tasks
			l = &client.JudgeLease{
				ID: j.ID, Token: token, Run: run.RunSpec, Attempt: j.Attempt, Arena: a, Submission: e.Submission,
				Outcome: attempts[i].Outcome, Evidence: attempts[i].Evidence, Until: j.Deadline, HeartbeatMS: int(p.cfg.Heartbeat.Milliseconds()),
			}
			return nil
		}
		return nil
	})
	if err == nil && l != nil {
		deferred(ctx).kept()
	}
	return l, err
}

// heldJudging finds a judging and checks who asks. Whether it is still leased is the caller's question.
func heldJudging(ctx context.Context, tx *store.Tx, c Caller, id, token string) (store.Judging, error) {
	j, err := tx.Judging(id)
	if err != nil {
		return j, found(err, "judge lease", id)
	}
	if j.Validator == "" || j.Validator != c.Hotkey || subtle.ConstantTimeCompare([]byte(tokenHash(token)), []byte(j.TokenHash)) != 1 {
		return j, refuse(403, "not_holder", "this lease belongs to another validator, or the token is wrong")
	}
	return j, deferred(ctx).use(tx)
}

// BeatJudging extends a judge lease; a lost one is not an error: the reply says stop.
func (p *Platform) BeatJudging(ctx context.Context, c Caller, id string, h client.JudgeHeartbeat) (*client.HeartbeatReply, error) {
	var reply client.HeartbeatReply
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		j, err := heldJudging(ctx, tx, c, id, h.Token)
		if err != nil {
			return err
		}
		if j.State != agon.JudgingLeased {
			reply = client.HeartbeatReply{Until: j.Deadline, Cancel: true}
			return nil
		}
		until := p.now().Add(p.cfg.Lease)
		if end := j.LeasedAt.Add(judgeMaxHold); until.After(end) {
			until = end
		}
		j.Deadline = until
		reply = client.HeartbeatReply{Until: until}
		return tx.MoveJudging(j.State, j)
	})
	if err != nil {
		return nil, err
	}
	deferred(ctx).kept()
	return &reply, nil
}
