package platform

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

// word is what is known of a validator.
func (p *Platform) word(tx *store.Tx, validator string) (w score.Word, r store.ValidatorRecord, err error) {
	if r, err = tx.RecordOf(validator, p.now().Add(-standingFor)); err != nil {
		return w, r, err
	}
	w.Judged, w.Contradicted = int(r.JudgedAgain+r.Judged), int(r.Contradicted)
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
	against, err := tx.Contradicted(at.Validator, p.now().Add(-standingFor))
	if err != nil {
		return err
	}
	if against > 0 {
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
	for _, r := range runs {
		if r.State != agon.RunScored || r.Fault != agon.FaultNone {
			continue
		}
		attempts, err := tx.Attempts(r.RunSpec.Run)
		if err != nil {
			return v, err
		}
		i := slices.IndexFunc(attempts, func(t store.Attempt) bool { return t.Counted })
		if i < 0 {
			continue
		}
		t := attempts[i]
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
		list, err := tx.JudgingsOf(r.RunSpec.Run)
		if err != nil {
			return v, err
		}
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
		if p.seen.due(a.ID, name, now, p.cfg.SeenFor/4) {
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
		for _, a := range arenas {
			j, err := tx.NextJudging(a.ID, store.Claimant{Validator: c.Hotkey, Coldkey: owners[placeOf(a)], Driver: r.Driver, Without: imageDigests(r.MissingImages)})
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

// BeatJudging extends a judge lease; a lost one is no error: the reply says stop.
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

// JudgingResult takes what a judge made of the evidence. Sending it again is
// answered alike; what a lost lease reports is refused.
func (p *Platform) JudgingResult(ctx context.Context, c Caller, id string, r client.JudgeResult) (*client.JudgeReply, error) {
	token := r.Token
	r.Token = ""
	if len(r.Reason) > maxDetail || badDriver(r.Driver) {
		e := refuse(422, "bad_result", "the reason or the driver's description is too long")
		e.Field, e.Limit = "reason", fmt.Sprintf("%d bytes", maxDetail)
		return nil, e
	}
	if r.Fault != agon.FaultNone && !(slices.Contains(agon.Faults, r.Fault) && r.Fault.Ours()) {
		e := refuse(422, "bad_result", "fault %q: a judging fails by a fault of ours or not at all", cut(string(r.Fault), 40))
		e.Field = "fault"
		return nil, e
	}
	b, err := json.Marshal(r)
	if err != nil {
		e := refuse(422, "bad_result", "a number is not finite")
		e.Field = "scores"
		return nil, e
	}
	hash := agon.Sum(b).Hex()
	reply := &client.JudgeReply{}
	queued := 0
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		queued = 0
		j, err := heldJudging(ctx, tx, c, id, token)
		if err != nil {
			return err
		}
		if j.ResultHash != "" {
			if j.ResultHash != hash {
				return refuse(409, "result_conflict", "this lease has reported another result before")
			}
			reply.State = j.State
			return nil
		}
		if j.State != agon.JudgingLeased {
			return refuse(409, "lease_lost", "this lease has ended")
		}
		run, err := tx.Run(j.Run)
		if err != nil {
			return err
		}
		if r.Fault != agon.FaultNone {
			j.Reason, j.Driver = cut(r.Reason, maxReason), r.Driver
			queued, err = p.judgeFailed(tx, j, fmt.Sprintf("%s: %s", r.Fault, r.Reason))
			reply.State = agon.JudgingQueued
			return err
		}
		if j.Scores, err = checkScores(run, r.Scores); err != nil {
			return err
		}
		j.ResultHash, j.Driver = hash, r.Driver
		reply.State = agon.JudgingDone
		queued, err = p.judged(tx, run, j)
		return err
	})
	if err != nil {
		return nil, err
	}
	deferred(ctx).kept()
	p.judges.news(1)
	p.judges.freed(c.Hotkey)
	if queued > 0 {
		p.news(queued)
	}
	p.hub.changed("")
	return reply, nil
}

// judgeFailed gives a judging back, or gives it up.
func (p *Platform) judgeFailed(tx *store.Tx, j store.Judging, reason string) (int, error) {
	from := j.State
	if j.Tries >= judgeTries {
		if err := p.skip(tx, j, from, cut("given up: "+reason, maxReason)); err != nil {
			return 0, err
		}
		return p.afterJudging(tx, j)
	}
	if err := agon.CheckJudging(from, agon.JudgingQueued, agon.ByScheduler); err != nil {
		return 0, err
	}
	j.State, j.Validator, j.TokenHash, j.Reason, j.Deadline = agon.JudgingQueued, "", "", cut(reason, maxReason), p.now().Add(p.cfg.QueueFor)
	return 0, tx.MoveJudging(from, j)
}

// alike reports whether two judgings of the same evidence are of one mind.
func alike(by kind.Rejudging, x, y []agon.Score) bool {
	return len(x) == len(y) && !slices.ContainsFunc(x, func(s agon.Score) bool {
		i := slices.IndexFunc(y, func(o agon.Score) bool { return o.Task == s.Task })
		return i < 0 || !by.Alike(s, y[i])
	})
}

// middle is, task by task, the score in the middle of three.
func middle(lists ...[]agon.Score) (out []agon.Score) {
	for _, s := range lists[0] {
		same := []agon.Score{}
		for _, l := range lists {
			if i := slices.IndexFunc(l, func(o agon.Score) bool { return o.Task == s.Task }); i >= 0 {
				same = append(same, l[i])
			}
		}
		slices.SortStableFunc(same, func(x, y agon.Score) int {
			solved := func(b bool) int {
				if b {
					return 1
				}
				return 0
			}
			return cmp.Or(cmp.Compare(x.Value, y.Value), solved(x.Solved)-solved(y.Solved))
		})
		out = append(out, same[(len(same)-1)/2]) // of two, the lower
	}
	return out
}

// judged settles what a judging says.
func (p *Platform) judged(tx *store.Tx, run store.Run, j store.Judging) (int, error) {
	if err := agon.CheckJudging(j.State, agon.JudgingDone, agon.ByHolder); err != nil {
		return 0, err
	}
	a, err := tx.Arena(run.Arena)
	if err != nil {
		return 0, err
	}
	by := p.rejudging(a)
	first, err := tx.Scores(j.Run)
	if err != nil {
		return 0, err
	}
	from := j.State
	j.State, j.EndedAt, j.Verdict = agon.JudgingDone, p.now(), agon.VerdictAgrees
	if !alike(by, first, j.Scores) {
		j.Verdict = agon.VerdictContradicts
	}
	if j.K == 3 {
		list, err := tx.JudgingsOf(j.Run)
		if err != nil {
			return 0, err
		}
		second := list[0]
		settled := middle(first, second.Scores, j.Scores)
		for _, s := range settled {
			if err := tx.Rule(j.Run, s); err != nil {
				return 0, err
			}
		}
		player, judge := !alike(by, first, settled), !alike(by, second.Scores, settled)
		switch {
		case player && judge: // three minds: nobody is named
		case player:
			j.Against = j.Player
		case judge:
			j.Against = second.Validator
		}
	}
	if err := tx.MoveJudging(from, j); err != nil {
		return 0, err
	}
	if err := noteJudging(tx, j); err != nil {
		return 0, err
	}
	if j.K == 2 && j.Verdict == agon.VerdictContradicts {
		queued, err := p.judgeAgain(tx, run, j.Attempt, j.Player, agon.JudgeSettle, 3)
		if err != nil || queued {
			return 0, err
		}
	}
	return p.afterJudging(tx, j)
}

// noteJudging puts a judging into the log.
func noteJudging(tx *store.Tx, j store.Judging) error {
	body, err := json.Marshal(map[string]any{
		"arena": j.Arena, "run": j.Run, "attempt": j.Attempt, "k": j.K, "why": j.Why, "player": j.Player, "validator": j.Validator, "verdict": j.Verdict, "against": j.Against,
		"result": j.ResultHash,
	})
	if err != nil {
		return fmt.Errorf("encode judging: %w", err)
	}
	return tx.InsertNote(store.Note{Type: store.FactJudging, ID: j.ID, At: j.EndedAt, Body: body})
}

// afterJudging looks how a run stands whose judging has ended, and decides what
// waited for it.
func (p *Platform) afterJudging(tx *store.Tx, j store.Judging) (int, error) {
	list, err := tx.JudgingsOf(j.Run)
	if err != nil {
		return 0, err
	}
	if len(list) == 2 && list[0].Verdict == agon.VerdictContradicts && list[1].State == agon.JudgingSkipped {
		// Contradicted, and nobody can settle it: of two words the lower counts.
		first, err := tx.Scores(j.Run)
		if err != nil {
			return 0, err
		}
		for _, s := range middle(first, list[0].Scores) {
			if err := tx.Rule(j.Run, s); err != nil {
				return 0, err
			}
		}
	}
	a, err := tx.Arena(j.Arena)
	if err != nil {
		return 0, err
	}
	e, err := tx.Entry(j.Subject)
	if err != nil {
		return 0, err
	}
	if e.State != agon.SubmissionQueued && e.State != agon.SubmissionPlaying {
		return 0, nil
	}
	if e.Score != nil {
		if err := p.resum(tx, a, e); err != nil {
			return 0, err
		}
	}
	return p.decideReady(tx, a)
}

// resum sums a submission again whose scores have changed.
func (p *Platform) resum(tx *store.Tx, a agon.Arena, e store.Entry) error {
	runs, err := tx.RunsOf(e.ID)
	if err != nil {
		return err
	}
	sum, err := p.sumOf(tx, a, e, runs)
	if err != nil {
		return err
	}
	return tx.SetEntryResult(e.ID, &sum.Score, &sum.Solved, &sum.Total)
}

// sumOf is what the runs of a submission come to.
func (p *Platform) sumOf(tx *store.Tx, a agon.Arena, e store.Entry, runs []store.Run) (kind.Sum, error) {
	sum, ok, err := p.sum(tx, a, e, runs)
	if err != nil || ok {
		return sum, err
	}
	if runs, _, err = agreed(tx, a, runs); err != nil {
		return sum, err
	}
	if k, ok := p.cfg.Kinds[a.Kind].(kind.Tallier); ok {
		v, err := p.contestView(tx, a, e, runs)
		if err != nil {
			return sum, err
		}
		return k.Tally(v), nil
	}
	sum.Score, sum.Solved, sum.Total = aggregate(a, runs)
	return sum, nil
}

// sweepJudgings takes back judge leases that ran out, and ends judgings that
// nobody is there for any more.
func (p *Platform) sweepJudgings(ctx context.Context) error {
	var list []store.Judging
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		live, err := tx.LiveJudgings(sweepBatch)
		if err != nil {
			return err
		}
		list = list[:0]
		for _, j := range live {
			over := !j.Deadline.After(p.now())
			if j.Why == agon.JudgeFault { // it ends with the run that plays it again
				if over, err = p.replayLeft(tx, j); err != nil {
					return err
				}
				if over {
					list = append(list, j)
				}
				continue
			}
			if j.State == agon.JudgingQueued && !over && p.now().Sub(j.CreatedAt) > p.cfg.SeenFor {
				there, err := tx.HasJudge(j, p.now().Add(-p.cfg.SeenFor))
				if err != nil {
					return err
				}
				over = !there
			}
			if over {
				list = append(list, j)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, old := range list {
		queued := 0
		err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
			queued = 0
			j, err := tx.Judging(old.ID)
			if err != nil || j.State != old.State || !j.Deadline.Equal(old.Deadline) {
				return err
			}
			if j.Why == agon.JudgeFault {
				return p.dropReplay(tx, j)
			}
			if j.State == agon.JudgingLeased {
				queued, err = p.judgeFailed(tx, j, "the judge was not heard of")
				return err
			}
			if err := p.skip(tx, j, j.State, "no other validator took it"); err != nil {
				return err
			}
			queued, err = p.afterJudging(tx, j)
			return err
		})
		if err != nil {
			return fmt.Errorf("judging %s: %w", old.ID, err)
		}
		p.judges.news(1)
		if queued > 0 {
			p.news(queued)
		}
		p.hub.changed("")
	}
	return nil
}

// Standings of validators are public, with the cases that count against each.
func (p *Platform) ValidatorStandings(ctx context.Context) (*client.Standings, error) {
	out := &client.Standings{Bar: score.StandingBar, Validators: []client.ValidatorStanding{}}
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		out.Validators = out.Validators[:0]
		runs, err := tx.CountedRuns()
		if err != nil {
			return err
		}
		names, err := tx.KnownJudges()
		if err != nil {
			return err
		}
		for v := range runs {
			names = append(names, v)
		}
		slices.Sort(names)
		pairs, err := tx.AgreedPairs()
		if err != nil {
			return err
		}
		for _, v := range slices.Compact(names) {
			w, r, err := p.word(tx, v)
			if err != nil {
				return err
			}
			s := client.ValidatorStanding{
				Hotkey: v, Runs: runs[v], JudgedAgain: r.JudgedAgain, Judged: r.Judged, Contradicted: r.Contradicted,
				Canaries: w.Canaries, Missed: w.Missed, Standing: round4(score.Stands(w)),
				Pairs: []client.Agreed{}, Cases: []client.Case{},
			}
			s.Named, s.Excluded = w.Contradicted > 0, score.Stands(w) < score.StandingBar
			for _, x := range pairs {
				if x.Player == v {
					s.Pairs = append(s.Pairs, client.Agreed{By: x.Validator, Judged: x.Judged, Agrees: x.Agrees})
				}
			}
			cases, err := tx.Cases(v, maxCases)
			if err != nil {
				return err
			}
			for _, j := range cases {
				s.Cases = append(s.Cases, client.Case{Run: j.Run, Arena: j.Arena, Role: caseRole(v, j), At: j.EndedAt, URL: "/v1/runs/" + j.Run + "/judgings"})
			}
			out.Validators = append(out.Validators, s)
		}
		return nil
	})
	return out, err
}

func caseRole(v string, j store.Judging) string {
	if j.Player == v {
		return "player"
	}
	return "judge"
}

func round4(f float64) float64 { return math.Round(f*1e4) / 1e4 }

// Judgings are what others made of a run's result, for those who may read how it went.
func (p *Platform) Judgings(ctx context.Context, c Caller, run string) ([]agon.Rejudging, error) {
	var r store.Run
	var e store.Entry
	var a agon.Arena
	var list []store.Judging
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if r, err = tx.Run(run); err != nil {
			return found(err, "run", run)
		}
		if e, err = tx.Entry(r.Submission); err != nil {
			return err
		}
		if a, err = tx.Arena(r.Arena); err != nil {
			return err
		}
		list, err = tx.JudgingsOf(run)
		return err
	})
	if err != nil {
		return nil, err
	}
	v, err := p.viewOf(ctx, c, e.Submission)
	if err != nil {
		return nil, err
	}
	told, out := p.tellingOf(a, r.Tasks, v), []agon.Rejudging{}
	for _, j := range list {
		j.Reason, j.Scores = told.words(j.Reason), told.scores(j.Scores)
		out = append(out, j.Rejudging)
	}
	return out, nil
}
