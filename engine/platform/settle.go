package platform

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/internal/plain"
)

// FindingIncomplete marks a submission that could not be decided because of
// faults of ours. Its miner may send the same files again to have what is
// missing replayed; what was scored stays.
const FindingIncomplete = "incomplete"

// settle ends the attempt a of a run with result r; code is what was played: everything that follows from it, in
// the same transaction. It returns how many runs were queued by it.
func (p *Platform) settle(tx *store.Tx, run store.Run, code agon.Digest, a store.Attempt, r client.Result) (reply client.ResultReply, queued int, err error) {
	now := p.now()
	if !a.Live() {
		a.Late = true
		reply = client.ResultReply{State: run.State, Late: true}
		a.Reason = cut(fmt.Sprintf("%s; reported late: %s %s", a.Reason, r.Fault, r.Reason), maxReason)
		a.Reply, err = encode(reply)
		if err != nil {
			return reply, 0, err
		}
		return reply, 0, tx.EndAttempt(a)
	}
	arena, err := tx.Arena(run.Arena)
	if err != nil {
		return reply, 0, err
	}
	a.State, a.EndedAt = store.AttemptDone, now
	if !r.Fault.Ours() {
		out, err := p.outcast(tx, a.Validator)
		if err != nil {
			return reply, 0, err
		}
		if out { // its leases of before are played by others
			r.Fault, r.Reason = agon.FaultValidator, "the validator's standing is below the bar: its results do not count"
		}
	}
	if r.Fault == agon.FaultNone {
		if why := p.misjudged(arena, r); why != "" {
			r.Fault, r.Reason = agon.FaultValidator, why
		}
	}
	if r.Fault.Ours() {
		a.Fault, a.Reason = r.Fault, cut(r.Reason, maxReason)
		counts := r.Fault != agon.FaultValidator || !client.GivenBack(r.Outcome)
		to := retryState(arena, run, counts)
		a.Reply, err = encode(client.ResultReply{State: to})
		if err != nil {
			return reply, 0, err
		}
		if r.Fault == agon.FaultProvider {
			if err := tx.Count(store.ScopeProvider, failedProvider(r.Receipts), faultKey(r.Fault)); err != nil {
				return reply, 0, err
			}
		}
		again, err := p.lose(tx, run, a, r.Fault, r.Reason, counts)
		if again {
			queued++
		}
		return client.ResultReply{State: to}, queued, err
	}

	if err := agon.CheckTransition(run.State, agon.RunScored, agon.ByHolder); err != nil {
		return reply, 0, err
	}
	scores := p.zeros(arena, run, r)
	if r.Fault == agon.FaultNone {
		if scores, err = checkScores(run, r.Scores); err != nil {
			return reply, 0, err
		}
	}
	policy, err := PlayedPolicy(run.PolicyDigest, r.Driver)
	if err != nil {
		return reply, 0, err
	}
	for i, s := range scores {
		key, err := ScoreKey(code, run.Tasks[i].Digest, s.Scorer, policy, run.Seed)
		if err != nil {
			return reply, 0, err
		}
		if err := tx.InsertScore(s, a.N, key); err != nil {
			return reply, 0, err
		}
	}
	reply = client.ResultReply{State: agon.RunScored, Counted: true}
	a.Fault, a.Reason, a.Counted = r.Fault, cut(r.Reason, maxReason), true
	if a.Reply, err = encode(reply); err != nil {
		return reply, 0, err
	}
	if err := tx.EndAttempt(a); err != nil {
		return reply, 0, err
	}
	if err := p.countFault(tx, a); err != nil {
		return reply, 0, err
	}
	// What pairs, appeals, replays and later sets cost is not the submission's.
	if r.Cost > 0 && !run.Half() && store.AppealOf(run.Group) == "" && store.ReplayOf(run.Group) == "" && store.CanaryOf(run.Group) == "" && run.Title == nil {
		if err := tx.AddCost(run.Submission, r.Cost); err != nil {
			return reply, 0, err
		}
	}
	incumbent := run.Rival != nil && run.Rival.Side == agon.SideIncumbent // it sits by other plays than this one
	if script := slices.ContainsFunc(r.Receipts, agon.Receipt.Scripted); !incumbent && (script || slices.ContainsFunc(r.Receipts, agon.Receipt.Modelled)) {
		if err := tx.Answered(run.Submission, a.Validator, script); err != nil {
			return reply, 0, err
		}
	}
	drawn := 0
	switch {
	case store.ReplayOf(run.Group) != "": // it is a second or third word itself
	case store.CanaryOf(run.Group) != "": // what it comes to is known
	case r.Fault == agon.FaultNone:
		err = p.share(tx, arena, run, a)
	default:
		drawn, err = p.shareFault(tx, arena, run, a)
	}
	if err != nil {
		return reply, 0, err
	}
	to := run
	to.State, to.Fault, to.Reason, to.Deadline, to.EndedAt = agon.RunScored, r.Fault, a.Reason, now, now
	queued, err = p.end(tx, arena, run, to)
	return reply, queued + drawn, err
}

func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode reply: %w", err)
	}
	return string(b), nil
}

// failedProvider names the upstream of the last call that failed upstream.
func failedProvider(list []agon.Receipt) string {
	for _, r := range slices.Backward(list) {
		if r.Outcome == "provider_error" || r.Outcome == "truncated" {
			return cut(r.Provider, 80)
		}
	}
	return "unknown"
}

// countFault books a fault: by arena, and a fault of ours by validator.
func (p *Platform) countFault(tx *store.Tx, a store.Attempt) error {
	if a.Fault == agon.FaultNone {
		return nil
	}
	if err := tx.Count(store.ScopeArena, a.Arena, faultKey(a.Fault)); err != nil {
		return err
	}
	if a.Fault.Ours() {
		return tx.Count(store.ScopeValidator, a.Validator, faultKey(a.Fault))
	}
	return nil
}

// retryState is where a run goes when an attempt ends by a fault of ours.
func retryState(a agon.Arena, run store.Run, counts bool) agon.RunState {
	used := run.Retries
	if counts {
		used++
	}
	if used > a.Attempts || run.Attempts >= maxLeasesOfRun {
		return agon.RunFailed
	}
	return agon.RunQueued
}

// lose ends a live attempt by a fault of ours, and requeues its run or fails
// it. counts is false where the retry is not used up: the platform itself lost
// the lease. It reports whether something is in the queue now.
func (p *Platform) lose(tx *store.Tx, run store.Run, a store.Attempt, f agon.Fault, reason string, counts bool) (bool, error) {
	arena, err := tx.Arena(run.Arena)
	if err != nil {
		return false, err
	}
	now := p.now()
	to := run
	to.State = retryState(arena, run, counts)
	if err := agon.CheckTransition(run.State, to.State, agon.ByScheduler); err != nil {
		return false, err
	}
	if counts {
		to.Retries++
	}
	if a.State == store.AttemptExpired {
		reason = kind.Coded(p.cfg.Kinds[arena.Kind], kind.Failure{Fault: f, Stage: stageOf(run.State), Lost: true}, reason)
	}
	to.Fault, to.Reason, to.Deadline = f, cut(reason, maxReason), now
	a.Fault, a.Reason, a.EndedAt = f, to.Reason, now
	if err := tx.EndAttempt(a); err != nil {
		return false, err
	}
	if err := p.countFault(tx, a); err != nil {
		return false, err
	}
	if to.State == agon.RunQueued {
		wait, _ := agon.StateDeadline(agon.RunQueued, p.cfg.Lease, p.cfg.QueueFor)
		to.Deadline = now.Add(wait)
		to.RetryAt = p.notBefore(f, to.Retries)
		return true, tx.MoveRun(run.RunSpec.Run, run.State, to)
	}
	to.EndedAt = now
	n, err := p.end(tx, arena, run, to)
	return n > 0, err
}

// stageOf is how far a run had come, as its state says.
func stageOf(s agon.RunState) kind.Stage {
	switch s {
	case agon.RunPlaying:
		return kind.StagePlay
	case agon.RunJudging:
		return kind.StageJudge
	}
	return kind.StageWaiting
}

// notBefore is when a run that an attempt lost may be taken again, zero for at once. A
// provider that fails is given time: else an outage of a minute uses up all attempts.
func (p *Platform) notBefore(f agon.Fault, lost int) time.Time {
	waits := p.cfg.ProviderWaits
	if f != agon.FaultProvider || len(waits) == 0 {
		return time.Time{}
	}
	return p.now().Add(waits[min(max(lost, 1), len(waits))-1])
}

// end moves a run to a final state and, if it was the last one under way, asks
// the kind what comes next: more runs, or the decision. It returns how many
// runs were queued.
func (p *Platform) end(tx *store.Tx, arena agon.Arena, from, to store.Run) (int, error) {
	if err := tx.MoveRun(from.RunSpec.Run, from.State, to); err != nil {
		return 0, err
	}
	if err := tx.Count(store.ScopeArena, arena.ID, string(to.State)); err != nil {
		return 0, err
	}
	if store.CanaryOf(from.Group) != "" {
		return 0, p.endCanary(tx, to)
	}
	if from.Half() {
		return p.endHalf(tx, arena, from.Group)
	}
	if id := store.AppealOf(from.Group); id != "" {
		return 0, p.endAppeal(tx, id)
	}
	if n := store.TitleOf(from.Group); n >= 0 {
		return p.endTitle(tx, arena, from.Submission, n)
	}
	if store.ReplayOf(from.Group) != "" {
		return p.endReplay(tx, arena, to)
	}
	live, err := tx.AnyLive(from.Submission)
	if err != nil || live {
		return 0, err
	}
	e, err := tx.Entry(from.Submission)
	if err != nil {
		return 0, err
	}
	if e.State != agon.SubmissionQueued && e.State != agon.SubmissionPlaying {
		return 0, nil
	}
	present := arena
	if arena, err = p.inPeriod(tx, arena, e); err != nil {
		return 0, err
	}
	runs, err := tx.RunsOf(e.ID)
	if err != nil {
		return 0, err
	}
	plan, perr := p.plan(tx, arena, e, runs)
	if perr == nil && len(plan.Runs) > 0 {
		return p.queue(tx, arena, e, plan.Runs)
	}
	if err := nameWorthless(tx, arena, &e, runs); err != nil {
		return 0, err
	}
	if perr == nil && plan.Refuse != nil {
		if err := p.setState(tx, e.ID, agon.SubmissionRefused, append(e.Findings, *plan.Refuse)); err != nil {
			return 0, err
		}
		if err := p.settled(tx, arena, e.ID, nil); err != nil {
			return 0, err
		}
		return p.decideReady(tx, arena)
	}
	sum, ok, err := p.sum(tx, arena, e, runs)
	if err != nil {
		return 0, err
	}
	if ok && perr == nil {
		if err := tx.SetEntryResult(e.ID, &sum.Score, &sum.Solved, &sum.Total); err != nil {
			return 0, err
		}
		if err := p.settled(tx, arena, e.ID, nil); err != nil {
			return 0, err
		}
		return p.decideReady(tx, present)
	}
	missing := missingRuns(runs)
	if len(missing) > 0 || perr != nil || p.decider(arena) != nil {
		f := incomplete(missing, perr)
		if err := p.setState(tx, e.ID, agon.SubmissionExcluded, append(e.Findings, f)); err != nil {
			return 0, err
		}
		if err := p.settled(tx, arena, e.ID, nil); err != nil {
			return 0, err
		}
		return p.decideReady(tx, present)
	}
	runs, standings, err := agreed(tx, arena, runs)
	if err != nil {
		return 0, err
	}
	if f := disagreements(standings); len(f) > 0 {
		if err := p.setState(tx, e.ID, e.State, append(e.Findings, f...)); err != nil {
			return 0, err
		}
	}
	if sum, err = p.tally(arena, runs, func() (agon.View, error) { return p.contestView(tx, arena, e, runs) }); err != nil {
		return 0, err
	}
	if err := tx.SetEntryResult(e.ID, &sum.Score, &sum.Solved, &sum.Total); err != nil {
		return 0, err
	}
	return p.decideReady(tx, present)
}

// FindingForged names a submission of which a grader says that it passed a test
// and a twin of it, which expects something false.
const FindingForged = "forged"

// FindingByHeart names a submission that gave another task's answer.
const FindingByHeart = "by_heart"

// nameWorthless writes on an entry that some of its scores were forged or known by
// heart, or takes that away where a replay has not found it again.
func nameWorthless(tx *store.Tx, a agon.Arena, e *store.Entry, runs []store.Run) error {
	runs, _, err := agreed(tx, a, runs)
	if err != nil {
		return err
	}
	var list []agon.Score
	for _, r := range runs {
		if r.State == agon.RunScored {
			list = append(list, r.Scores...)
		}
	}
	forged, byHeart, had := score.SaidOf(list, agon.MetricForged), score.SaidOf(list, agon.MetricByHeart), worthless(*e) != ""
	tasks := map[string]bool{}
	for _, s := range list {
		tasks[s.Task] = true
	}
	if len(forged)+len(byHeart) == 0 && !had {
		return nil
	}
	e.Findings = slices.DeleteFunc(slices.Clone(e.Findings), func(f agon.Finding) bool { return f.Code == FindingForged || f.Code == FindingByHeart })
	if len(forged) > 0 {
		e.Findings = append(e.Findings, agon.Finding{Code: FindingForged, Message: fmt.Sprintf(
			"it forged its grades on %d of %d tasks (%s): a test passed, and so did its twin, a copy of the test that expects something false and must fail; so nothing of it counts", len(forged), len(tasks), plain.Some(forged, 3))})
	}
	if len(byHeart) > 0 {
		e.Findings = append(e.Findings, agon.Finding{Code: FindingByHeart, Message: fmt.Sprintf(
			"it knows answers by heart: on %d of %d tasks (%s) it gave the answer to another task, down to names that this one does not have; so nothing of it counts", len(byHeart), len(tasks), plain.Some(byHeart, 3))})
	}
	return tx.SetEntryState(e.ID, e.State, e.Findings)
}

// unearned are the findings about how an entry came by its scores, and the rules
// that keep it out then.
var unearned = map[string]string{FindingForged: incentive.ForgedRule, FindingByHeart: incentive.ByHeartRule}

// worthless is the rule that keeps an entry out because of how it came by its
// scores; "": none does.
func worthless(e store.Entry) string {
	for _, f := range e.Findings {
		if rule := unearned[f.Code]; rule != "" {
			return rule
		}
	}
	return ""
}

// slot is one thing that needs a score: a list of tasks for one replica.
func slot(r store.Run) string {
	s := r.Stage + " " + strconv.Itoa(r.Replica)
	for _, t := range r.Tasks {
		s += "\n" + t.Key
	}
	return s
}

// missingRuns returns the last run of each slot that has no score.
func missingRuns(runs []store.Run) []store.Run {
	scored := map[string]bool{}
	last := map[string]store.Run{}
	for _, r := range runs {
		s := slot(r)
		scored[s] = scored[s] || r.State == agon.RunScored
		last[s] = r
	}
	var out []store.Run
	for _, r := range runs {
		if s := slot(r); !scored[s] && last[s].RunSpec.Run == r.RunSpec.Run {
			out = append(out, r)
		}
	}
	return out
}

// incomplete explains why a submission could not be decided.
func incomplete(missing []store.Run, perr error) agon.Finding {
	f := agon.Finding{Code: FindingIncomplete, Message: "not decided through no fault of the miner: "}
	if perr != nil {
		f.Message += perr.Error()
		return f
	}
	if len(missing) == 0 {
		f.Message += "its replays do not agree, and no more are allowed"
		return f
	}
	r := missing[0]
	f.Field = r.RunSpec.Run
	f.Message += fmt.Sprintf("%d of its runs ended without a score; run %s %s", len(missing), r.RunSpec.Run, r.State)
	if r.Fault != agon.FaultNone {
		f.Message += fmt.Sprintf(" (%s)", r.Fault)
	}
	if r.State == agon.RunFailed {
		f.Message += "; send the same files again to have them replayed"
	}
	return f
}

// aggregate is the score of a submission over its scored runs.
func aggregate(a agon.Arena, runs []store.Run) (value float64, solved, total int) {
	var list []agon.Score
	for _, r := range runs {
		if r.State == agon.RunScored && counts(a, r) {
			list = append(list, r.Scores...)
		}
	}
	if n := len(a.Stages); n > 0 && a.Stages[n-1].Consensus {
		list = score.Unanimous(list)
	}
	return score.OfTasks(list)
}

// decideReady decides, in the order of admission, every submission that has
// its result and none undecided before it. So the outcome does not depend on
// who finished first, and nobody overtakes by being quick. Every run ends, so
// nobody is held up for ever.
// It returns how many runs were queued because a kind wants more before it decides.
func (p *Platform) decideReady(tx *store.Tx, present agon.Arena) (queued int, err error) {
	for {
		n, err := p.followTitles(tx, present)
		if queued += n; err != nil {
			return queued, err
		}
		e, err := tx.FirstUndecided(present.ID)
		if errors.Is(err, store.ErrNotFound) || (err == nil && e.Score == nil) {
			return queued, nil
		}
		if err != nil {
			return queued, err
		}
		if e.Beacon != nil {
			if waits, err := p.opening(tx, present, e.Beacon.Period); waits || err != nil {
				return queued, err
			}
		}
		a, err := p.inPeriod(tx, present, e)
		if err != nil {
			return queued, err
		}
		if waits, err := p.waits(tx, a, e); waits || err != nil {
			return queued, err
		}
		if g, err := p.gauge(a); err != nil || g.shut() {
			return queued, err // the sweeper looks again (recalibrated)
		}
		done, n, err := p.decideOne(tx, a, e)
		if queued += n; err != nil {
			return queued, err
		}
		if !done {
			// One that waits for a vetting holds up nobody.
			if vetting, err := tx.InVetting(e.ID); !vetting || err != nil {
				return queued, err
			}
		}
	}
}

// decideOne decides a submission as its arena does.
func (p *Platform) decideOne(tx *store.Tx, a agon.Arena, e store.Entry) (done bool, queued int, err error) {
	if d := p.decider(a); d != nil {
		return p.decideContest(tx, a, e, d)
	}
	if rule, rerr := p.rule(a); rerr == nil && rule.Pairing != nil {
		return p.decidePaired(tx, a, e, rule)
	}
	done, err = p.decide(tx, a, e)
	return done, 0, err
}

// waits reports whether a decision has to wait for results to be judged again.
func (p *Platform) waits(tx *store.Tx, a agon.Arena, e store.Entry) (bool, error) {
	open, err := tx.OpenJudgings(e.ID)
	if open || err != nil {
		return open, err
	}
	v, err := p.reviewed(tx, a, e.ID, false)
	return v.wait, err
}

// revive queues again what a submission lacks through faults of ours. A run
// that was scored, or cancelled by the operator, is never played again.
func (p *Platform) revive(tx *store.Tx, a agon.Arena, e *store.Entry) (int, error) {
	i := slices.IndexFunc(e.Findings, func(f agon.Finding) bool { return f.Code == FindingIncomplete })
	if e.State != agon.SubmissionExcluded || i < 0 || banned(*e) {
		return 0, nil
	}
	runs, err := tx.RunsOf(e.ID)
	if err != nil {
		return 0, err
	}
	tries := map[string]int{}
	for _, r := range runs {
		tries[slot(r)]++
	}
	var specs []agon.RunSpec
	for _, r := range missingRuns(runs) {
		// Someone who makes a provider fail at will must not keep validators busy for ever.
		if r.State != agon.RunFailed || tries[slot(r)] >= 3 {
			return 0, nil
		}
		specs = append(specs, r.RunSpec)
	}
	if len(specs) == 0 {
		return 0, nil
	}
	if err := p.hold(tx, a, *e); err != nil {
		return 0, err
	}
	e.State, e.Findings = agon.SubmissionPlaying, slices.Delete(slices.Clone(e.Findings), i, i+1)
	if err := p.setState(tx, e.ID, e.State, e.Findings); err != nil {
		return 0, err
	}
	return p.queue(tx, a, *e, specs)
}
