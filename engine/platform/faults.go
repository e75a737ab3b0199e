package platform

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/store"
)

// A fault of the agent leaves no evidence to judge again: a validator that lies
// downwards only has to say so. So a share of these results, and those of a
// submission that takes a seat or would but for them, are played again by another validator,
// on the same tasks and seed. Where the agent scores there, a third plays it,
// and the middle of the three counts. A replay is a judging that a run carries
// out: it waits, is read and is linked like every other.

// replayable reports whether a run can be played again for its fault: what
// duels, pairs, stages, appeals, contests and later sets play has its own repetitions.
func replayable(a agon.Arena, run store.Run) bool {
	return a.Contest == nil && run.Rival == nil && run.Title == nil && run.Stage == "" && !run.Half() && store.AppealOf(run.Group) == "" && store.ReplayOf(run.Group) == "" && store.CanaryOf(run.Group) == ""
}

// shareFault draws whether a fault of the agent that has just counted is played
// again. It returns how many runs were queued.
func (p *Platform) shareFault(tx *store.Tx, a agon.Arena, run store.Run, at store.Attempt) (int, error) {
	share := a.RejudgeShare()
	if share <= 0 || !replayable(a, run) {
		return 0, nil
	}
	_, known, err := p.word(tx, at.Validator)
	if err != nil {
		return 0, err
	}
	if known.Contradicted > 0 {
		share *= suspectShare
	}
	if p.draw() >= share {
		return 0, nil
	}
	queued, err := p.replay(tx, a, run, at.N, at.Validator, 2)
	if queued {
		return 1, err
	}
	return 0, err
}

// replay queues a run once more for another validator. It reports false where
// nobody else is there, or the day's budget is used up.
func (p *Platform) replay(tx *store.Tx, a agon.Arena, run store.Run, attempt int, player string, k int) (bool, error) {
	now := p.now()
	if k == 2 {
		n, err := tx.DrawnReplays(a.ID, now.Add(-24*time.Hour))
		if err != nil || n >= int64(cmp.Or(a.RejudgePerDay, agon.DefaultRejudgePerDay)) {
			return false, err
		}
	}
	there, err := tx.HasReplayer(run.RunSpec.Run, now.Add(-p.cfg.SeenFor))
	if err != nil || !there {
		return false, err
	}
	e, err := tx.Entry(run.Submission)
	if err != nil {
		return false, err
	}
	err = tx.InsertJudging(store.Judging{
		Rejudging:  agon.Rejudging{ID: newID(), Run: run.RunSpec.Run, Attempt: attempt, Arena: a.ID, K: k, Why: agon.JudgeFault, Player: player, CreatedAt: now},
		Submission: run.Submission, Subject: run.Submission, Deadline: now.Add(p.cfg.QueueFor),
	})
	if err != nil {
		return false, err
	}
	_, err = p.queueIn(tx, a, e, []agon.RunSpec{run.RunSpec}, store.ReplayGroup(run.RunSpec.Run))
	return err == nil, err
}

// endReplay takes what another validator made of a fault.
func (p *Platform) endReplay(tx *store.Tx, a agon.Arena, played store.Run) (int, error) {
	origin := store.ReplayOf(played.Group)
	list, err := tx.JudgingsOf(origin)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(list, func(j store.Judging) bool { return !j.State.Final() })
	if i < 0 {
		return 0, nil
	}
	j := list[i]
	if played.State != agon.RunScored {
		if err := p.skip(tx, j, j.State, "nobody played it again: "+played.Reason); err != nil {
			return 0, err
		}
		return p.afterJudging(tx, j)
	}
	attempts, err := tx.Attempts(played.RunSpec.Run)
	if err != nil {
		return 0, err
	}
	n := slices.IndexFunc(attempts, func(t store.Attempt) bool { return t.Counted })
	if n < 0 {
		return 0, fmt.Errorf("replay %s was scored by no attempt", played.RunSpec.Run)
	}
	t := attempts[n]
	if err := agon.CheckJudging(j.State, agon.JudgingLeased, agon.ByScheduler); err != nil {
		return 0, err
	}
	from := j.State
	j.State, j.Validator, j.Driver, j.LeasedAt, j.Tries, j.ResultHash = agon.JudgingLeased, t.Validator, t.Driver, t.LeasedAt, len(attempts), t.ResultHash
	j.Reason = cut(fmt.Sprintf("played again as run %s: %s %s", played.RunSpec.Run, cmp.Or(string(t.Fault), "no fault"), t.Reason), maxReason)
	if err := tx.MoveJudging(from, j); err != nil {
		return 0, err
	}
	if j.Scores, err = tx.Scores(played.RunSpec.Run); err != nil {
		return 0, err
	}
	return p.faultPlayed(tx, a, j, list[0])
}

// faultPlayed settles what a replay of a fault says; second is the replay before it where j is the third.
func (p *Platform) faultPlayed(tx *store.Tx, a agon.Arena, j, second store.Judging) (int, error) {
	if err := agon.CheckJudging(j.State, agon.JudgingDone, agon.ByHolder); err != nil {
		return 0, err
	}
	j.State, j.EndedAt, j.Verdict = agon.JudgingDone, p.now(), agon.VerdictAgrees
	if earns(j.Scores) {
		j.Verdict = agon.VerdictContradicts
	}
	if j.K == 3 {
		first, err := tx.Scores(j.Run)
		if err != nil {
			return 0, err
		}
		settled := middle(first, second.Scores, j.Scores)
		for _, s := range settled {
			s.Run = j.Run
			if err := tx.Rule(j.Run, s); err != nil {
				return 0, err
			}
		}
		if earns(settled) {
			chance, err := p.byChance(tx, j)
			if err != nil {
				return 0, err
			}
			if !chance {
				j.Against = j.Player
			}
		}
	}
	if err := tx.MoveJudging(agon.JudgingLeased, j); err != nil {
		return 0, err
	}
	if err := noteJudging(tx, j); err != nil {
		return 0, err
	}
	if j.K == 2 && j.Verdict == agon.VerdictContradicts {
		run, err := tx.Run(j.Run)
		if err != nil {
			return 0, err
		}
		queued, err := p.replay(tx, a, run, j.Attempt, j.Player, 3)
		if err != nil {
			return 0, err
		}
		if queued {
			return 1, nil
		}
	}
	return p.afterJudging(tx, j)
}

func earns(list []agon.Score) bool {
	return slices.ContainsFunc(list, func(s agon.Score) bool { return s.Value > 0 })
}

// byChance reports whether a fault that two others have not seen may still have
// been true: agents crash by chance, and a miner could have them crash to ruin
// validators. So who crashes elsewhere too is not proof against anybody, and the
// agents of one owner are a case against a validator once. The score is mended in any case.
func (p *Platform) byChance(tx *store.Tx, j store.Judging) (bool, error) {
	elsewhere, err := tx.FaultElsewhere(j.Submission, j.Player)
	if err != nil || elsewhere {
		return elsewhere, err
	}
	return tx.HasFaultCase(j.Player, j.Submission, p.now().Add(-standingFor))
}

// faultsMatter has faults of the agent played again where a seat is at stake:
// those of a submission that would take one had it solved these tasks.
// It reports true while that is under way.
func (p *Platform) faultsMatter(tx *store.Tx, a agon.Arena, e store.Entry, rule incentive.Rule, c incentive.Challenge) (bool, error) {
	if a.UnjudgedSeats {
		return false, nil
	}
	runs, err := tx.RunsOf(e.ID)
	if err != nil {
		return false, err
	}
	var faults []store.Run
	for i, r := range runs {
		if r.State != agon.RunScored || r.Fault != agon.FaultAgent || !replayable(a, r) {
			continue
		}
		list, err := tx.JudgingsOf(r.RunSpec.Run)
		if err != nil {
			return false, err
		}
		if len(list) > 0 {
			continue // the decision waits for those that are open
		}
		faults = append(faults, r)
		runs[i].Scores = slices.Clone(r.Scores)
		for n := range runs[i].Scores {
			runs[i].Scores[n].Value, runs[i].Scores[n].Solved = 1, true
		}
	}
	if len(faults) == 0 {
		return false, nil
	}
	sum, err := p.sumOf(tx, a, e, runs)
	if err != nil {
		return false, err
	}
	c.Challenger.Score, c.Challenger.Solved, c.Challenger.Total = sum.Score, sum.Solved, sum.Total
	if rule.Plays {
		if c.Challenger.Plays, err = playsOf(tx, a, runs); err != nil {
			return false, err
		}
	}
	if v := rule.Decide(c); !v.Takes || !(sum.Score > 0) {
		return false, nil
	}
	wait := false
	for _, r := range faults {
		attempts, err := tx.Attempts(r.RunSpec.Run)
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(attempts, func(t store.Attempt) bool { return t.Counted })
		if i < 0 {
			continue
		}
		queued, err := p.replay(tx, a, r, attempts[i].N, attempts[i].Validator, 2)
		if err != nil {
			return false, err
		}
		wait = wait || queued
	}
	if wait {
		tx.Then(func() { p.news(1) })
	}
	return wait, nil
}

// replayLeft reports whether a replay waits in the queue and nobody is there any more to play it.
func (p *Platform) replayLeft(tx *store.Tx, j store.Judging) (bool, error) {
	if j.State != agon.JudgingQueued || p.now().Sub(j.CreatedAt) <= p.cfg.SeenFor {
		return false, nil
	}
	there, err := tx.HasReplayer(j.Run, p.now().Add(-p.cfg.SeenFor))
	return !there, err
}

// dropReplay ends a replay that nobody is there for.
func (p *Platform) dropReplay(tx *store.Tx, j store.Judging) error {
	run, err := tx.LiveReplay(j.Run)
	if err != nil || run.State != agon.RunQueued {
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	}
	return p.expireQueued(tx, run)
}
