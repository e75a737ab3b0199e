package platform

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/store"
)

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
	return p.tally(a, runs, func() (agon.View, error) { return p.contestView(tx, a, e, runs) })
}

// tally sums up runs that all have their score, where the kind does not decide itself: by the kind's
// own sum, which looks at view, else by the mean over all tasks.
func (p *Platform) tally(a agon.Arena, runs []store.Run, view func() (agon.View, error)) (sum kind.Sum, err error) {
	k, ok := p.cfg.Kinds[a.Kind].(kind.Tallier)
	if !ok {
		sum.Score, sum.Solved, sum.Total = aggregate(a, runs)
		return sum, nil
	}
	v, err := view()
	if err != nil {
		return sum, err
	}
	return k.Tally(v), nil
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
			s.Named, s.Excluded = w.Contradicted > 0 || w.Missed > 1+w.Canaries/10, score.Stands(w) < score.StandingBar
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
			missed, err := p.missedCases(tx, v)
			if err != nil {
				return err
			}
			s.Cases = append(s.Cases, missed...)
			out.Validators = append(out.Validators, s)
		}
		seen, err := tx.SeenGPUs("", p.now().Add(-p.cfg.SeenFor))
		withGPUs(out.Validators, seen)
		return err
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
