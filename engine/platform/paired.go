package platform

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
)

// Rules that seat by pairs (incentive.Rule.Pairing). A pair is two runs of the
// same tasks and seed, one of the challenger and one of who sits, by the same
// validator; each is a run like any other, so that a validator plays halves as
// it plays everything, and each has its own budget, evidence and fault. An empty
// seat is held by a baseline, whose score is a number of the arena.

// decidePaired decides a challenge by what has been played of it, or queues what
// is asked for next. It reports false while halves are under way, or while the
// entry waits for the next period; then the arena's later entries wait with it.
func (p *Platform) decidePaired(tx *store.Tx, a agon.Arena, e store.Entry, rule incentive.Rule) (decided bool, queued int, err error) {
	numbers := rule.Of(a.IncentiveNumbers)
	streams := int(numbers[incentive.NumValidators])
	if live, err := tx.LiveHalves(e.ID, streams); live || err != nil {
		return false, 0, err
	}
	_, seats, err := p.seats(tx, a)
	if err != nil {
		return false, 0, err
	}
	seats, barred := rivals(a, e, seats)
	d := agon.Decision{Arena: a.ID, Challenger: e.ID, Score: *e.Score, Outcome: agon.KeptSeat, Rule: incentive.PairedRule, At: p.now()}
	if len(seats) > 0 {
		d.Incumbent = seats[0].Submission
	}
	ungauged, err := p.ungauged(tx, a, e.ID)
	if err != nil {
		return false, 0, err
	}
	switch {
	case barred:
		d.Rule = incentive.ScriptedRule
	case worthless(e) != "":
		d.Rule = worthless(e)
	case ungauged != nil:
		d.Rule, d.Numbers = incentive.GateRule, ungauged
	case e.Solved == nil || *e.Solved < 1:
		d.Rule, d.Numbers = incentive.ZeroRule, map[string]float64{"score": *e.Score, "solved": 0}
	}
	if d.Rule != incentive.PairedRule {
		return true, 0, p.book(tx, a, e, d)
	}
	halves, err := tx.Halves(e.ID)
	if err != nil {
		return false, 0, err
	}
	if len(halves) == 0 && numbers[incentive.NumEntries] > 0 {
		now, err := p.period(tx, a)
		if err != nil {
			return false, 0, err
		}
		n, err := tx.CountContests(a.ID, incentive.PairedRule, now.Opens)
		if err != nil {
			return false, 0, err
		}
		if n >= int64(numbers[incentive.NumEntries]) {
			return false, 0, nil // the sweeper looks again (awaken)
		}
	}
	if len(halves) == 0 {
		if err := p.behave(tx, a, &e, d.Incumbent); err != nil {
			return false, 0, err
		}
	}
	c := incentive.Contested{Numbers: numbers, Solved: *e.Solved}
	if c.Attempt, err = p.attemptOf(tx, a, e); err != nil {
		return false, 0, err
	}
	k := p.cfg.Kinds[a.Kind]
	var rounds, restarts int
	c.Streams, c.Spent, rounds, restarts = pairsOf(k, numbers, d.Incumbent, halves)
	c.Attempt += restarts // the seat changed hands meanwhile: that was a try of its own
	v := rule.Pairing.Decide(c)
	d.Numbers = v.Numbers
	if v.Outcome == incentive.OutcomeMore {
		absent := absentStreams(halves, streams, rounds)
		open := 0
		for s := range streams {
			if slices.Contains(absent, s) && !slices.Contains(v.Settled, s) {
				v.Settled = append(v.Settled, s)
			} else if !slices.Contains(v.Settled, s) {
				open++
			}
		}
		can := int(v.Numbers["seated_by"])+open >= int(numbers[incentive.NumAgree])
		if len(absent) > 0 {
			d.Numbers["absent"] = float64(len(absent))
		}
		if rounds < maxRounds(numbers, v.Numbers["seated_by"] > 0) && can && open > 0 {
			n, err := p.queuePairs(tx, a, e, d.Incumbent, rounds, streams, v)
			return false, n, err
		}
		d.Numbers["outcome"] = 0 // validators were missing, or faults of ours left too few pairs
	}
	if v.Outcome == incentive.OutcomeSeated {
		d.Outcome = agon.TookSeat
		played := make([]store.Run, 0, len(halves))
		for _, h := range halves {
			played = append(played, h.Run)
		}
		r, err := p.review(tx, a, played, true)
		if err != nil {
			return false, 0, err
		}
		if waits := p.judgedSeat(a, r, &d); waits {
			return false, 0, nil
		}
		if ungauged, err = p.ungaugedOf(a, played); err != nil {
			return false, 0, err
		}
		if ungauged != nil {
			d.Outcome, d.Rule = agon.KeptSeat, incentive.GateRule
			maps.Copy(d.Numbers, ungauged)
		}
		if waits, err := p.vettedSeat(tx, a, &e, &d); waits || err != nil {
			return false, 0, err
		}
	}
	return true, 0, p.book(tx, a, e, d)
}

// pairWait bounds how long a half waits for its validator: one that does not
// serve the arena must not hold up everybody behind the challenge.
const pairWait = 2 * time.Hour

// absentStreams are those from which two rounds in a row brought nothing: nobody
// plays them, and the others go on without.
func absentStreams(halves []store.Half, streams, rounds int) (out []int) {
	asked, got := map[[2]int]bool{}, map[[2]int]bool{}
	for _, h := range halves {
		k := [2]int{store.PairStream(h.Group), h.Rival.Round}
		asked[k] = true
		got[k] = got[k] || h.State == agon.RunScored
	}
	for s := range streams {
		last := 0 // rounds in a row, the newest first, that were asked for and brought nothing
		for r := rounds; r > 0 && !got[[2]int{s, r}]; r-- {
			if asked[[2]int{s, r}] {
				last++
			}
		}
		if last >= 2 {
			out = append(out, s)
		}
	}
	return out
}

// maxRounds bounds how often pairs are asked for: twice as often as would do if
// no pair were lost to faults of ours. While one validator has seated the
// challenger, another may play what all of them have left.
func maxRounds(n map[string]float64, seated bool) int {
	pairs := n[incentive.NumMaxPairs]
	if seated {
		pairs *= n[incentive.NumValidators]
	}
	return 2*int(pairs/n[incentive.NumBatch]) + 4
}

// attemptOf counts the challenges of the coldkey, or of the cluster of copies
// that the entry belongs to, whichever are more; this one included.
func (p *Platform) attemptOf(tx *store.Tx, a agon.Arena, e store.Entry) (int, error) {
	own, err := tx.CountChallenges(a.ID, e.Coldkey, e.Seq)
	if err != nil {
		return 0, err
	}
	cluster, err := tx.ClusterOf(e.ID)
	if errors.Is(err, store.ErrNotFound) {
		return int(max(own, 1)), nil
	}
	if err != nil {
		return 0, err
	}
	all, err := tx.CountCluster(a.ID, cluster, e.Seq)
	return int(max(own, all, 1)), err
}

// book stores a decision and who sits after it.
func (p *Platform) book(tx *store.Tx, a agon.Arena, e store.Entry, d agon.Decision) error {
	for name, x := range d.Numbers {
		if finite(&x) == nil { // JSON has no such numbers, and a rule's slip must not stop an arena
			delete(d.Numbers, name)
		}
	}
	if err := tx.InsertDecision(d); err != nil {
		return err
	}
	if err := p.setState(tx, e.ID, agon.SubmissionScored, e.Findings); err != nil || d.Outcome != agon.TookSeat {
		return err
	}
	_, seats, err := p.seats(tx, a)
	if err != nil || len(seats) == 0 {
		return err
	}
	return tx.PutSeat(seatOf(a.ID, seats[0]))
}

// pairsOf puts the halves of a challenge of rival into pairs by validator, in
// the order in which they were asked for. A pair of which one half was lost to a
// fault of ours, or whose halves two validators played, is left out: no
// contestant can bring that about. It also tells what they cost, how many rounds
// were asked for, and how many other rivals were played before this one.
func pairsOf(k kind.Kind, n map[string]float64, rival string, halves []store.Half) (out []incentive.Stream, spent agon.Micros, rounds, restarts int) {
	type slot struct {
		stream, round, replica int
	}
	type pair struct{ challenger, incumbent *store.Half }
	pairs := map[slot]*pair{}
	others := map[string]bool{}
	for i := range halves {
		h := &halves[i]
		spent += h.Cost
		rounds = max(rounds, h.Rival.Round)
		against := h.Rival.Submission
		if h.Rival.Side == agon.SideIncumbent {
			against = h.Submission
		}
		if against != rival {
			others[against] = true
			continue
		}
		s := slot{store.PairStream(h.Group), h.Rival.Round, h.Replica}
		if pairs[s] == nil {
			pairs[s] = &pair{}
		}
		if h.Rival.Side == agon.SideIncumbent {
			pairs[s].incumbent = h
		} else {
			pairs[s].challenger = h
		}
	}
	slots := make([]slot, 0, len(pairs))
	for s := range pairs {
		slots = append(slots, s)
	}
	slices.SortFunc(slots, func(x, y slot) int {
		return cmp.Or(cmp.Compare(x.stream, y.stream), cmp.Compare(x.round, y.round), cmp.Compare(x.replica, y.replica))
	})
	at, last := map[string]int{}, map[int]int{} // by validator; by stream, its last round
	for _, s := range slots {
		x := pairs[s]
		ch := x.challenger
		if ch == nil || ch.State != agon.RunScored || ch.Validator == "" {
			continue
		}
		if rival != "" && (x.incumbent == nil || x.incumbent.State != agon.RunScored || x.incumbent.Validator != ch.Validator) {
			continue
		}
		i, ok := at[ch.Validator]
		if !ok {
			i = len(out)
			at[ch.Validator] = i
			out = append(out, incentive.Stream{Validator: ch.Validator})
			last[i] = -1
		}
		out[i].Index = s.stream
		if last[i] != s.round {
			last[i] = s.round
			out[i].Rounds = append(out[i].Rounds, nil)
		}
		now := &out[i].Rounds[len(out[i].Rounds)-1]
		for _, c := range score.Given(ch.Scores) {
			held := agon.Score{Task: c.Task, Value: n[incentive.NumBaseline]}
			if rival != "" {
				j := slices.IndexFunc(x.incumbent.Scores, func(o agon.Score) bool { return o.Task == c.Task })
				if j < 0 {
					continue
				}
				if held = x.incumbent.Scores[j]; score.Unscored(held) {
					continue
				}
			}
			*now = append(*now, kind.Compare(k, n, c, held, rival == ""))
			if x, ok := k.(kind.Coster); ok && rival != "" {
				out[i].Costs = append(out[i].Costs, incentive.Spent{Challenger: x.Cost(c), Incumbent: x.Cost(held)})
			}
		}
	}
	return out, spent, rounds, len(others)
}

// queuePairs queues the next round: pairs for each stream that is open, on tasks drawn with
// replacement, so that evidence may be read after any of them.
func (p *Platform) queuePairs(tx *store.Tx, a agon.Arena, e store.Entry, rival string, rounds, streams int, v incentive.PairedVerdict) (int, error) {
	k := p.cfg.Kinds[a.Kind]
	plan, err := k.Plan(agon.View{Arena: a, Submission: e.Submission})
	if err != nil {
		return 0, fmt.Errorf("plan pairs: %w", err)
	}
	each := 1 // tasks of a run, as the kind has them
	for _, r := range plan.Runs {
		each = max(each, len(r.Tasks))
	}
	var held *store.Entry
	if rival != "" {
		x, err := tx.Entry(rival)
		if err != nil {
			return 0, err
		}
		held = &x
	}
	round, queued := rounds+1, 0
	drawn, err := p.seedOf(tx, a, &e, seedTasks, int64(round))
	if err != nil {
		return 0, err
	}
	tasksOf := draw(a.Tasks, drawn, v.More, each)
	for s := range streams {
		if slices.Contains(v.Settled, s) {
			continue
		}
		var mine, theirs []agon.RunSpec
		for i, tasks := range tasksOf {
			r := agon.RunSpec{
				Tasks: tasks, Replica: i, Policy: a.Policy,
				Rival: &agon.Rival{Submission: rival, Round: round, Side: agon.SideChallenger},
			}
			if r.Seed, err = p.seedOf(tx, a, &e, seeds.TaskOf(a, r), int64(round)); err != nil {
				return queued, err
			}
			o := r
			if held != nil {
				r.Rival.Digest = held.Digest
				o.Rival = &agon.Rival{Submission: e.ID, Digest: e.Digest, Round: round, Side: agon.SideIncumbent}
				theirs = append(theirs, o)
			}
			mine = append(mine, r)
		}
		group := store.PairGroup(e.ID, s)
		n, err := p.queueIn(tx, a, e, mine, group)
		if queued += n; err != nil {
			return queued, err
		}
		if held != nil {
			n, err := p.queueIn(tx, a, *held, theirs, group)
			if queued += n; err != nil {
				return queued, err
			}
		}
	}
	return queued, nil
}

// seedTasks names the seed with which a round draws its tasks.
const seedTasks = "tasks"

// draw draws n of the tasks with replacement, in runs of at most each tasks of
// which none has one twice. All validators draw alike.
func draw(tasks []agon.TaskRef, seed int64, n, each int) (out [][]agon.TaskRef) {
	r := rand.New(rand.NewPCG(uint64(seed), 1)) //nolint:gosec // it must be the same everywhere, and nobody knows its seed before
	for range n {
		t := tasks[r.IntN(len(tasks))]
		i := slices.IndexFunc(out, func(run []agon.TaskRef) bool {
			return len(run) < each && !slices.ContainsFunc(run, func(o agon.TaskRef) bool { return o.Key == t.Key })
		})
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], t)
	}
	return out
}

// endHalf looks whether the round that a half belonged to is over.
func (p *Platform) endHalf(tx *store.Tx, a agon.Arena, group string) (int, error) {
	e, err := tx.Entry(store.PairChallenger(group))
	if err != nil {
		return 0, err
	}
	if e.State != agon.SubmissionQueued && e.State != agon.SubmissionPlaying {
		return 0, nil
	}
	return p.decideReady(tx, a)
}

// awaken decides what waited for the next period.
func (p *Platform) awaken(tx *store.Tx) (queued int, err error) {
	list, err := tx.Arenas()
	if err != nil {
		return 0, err
	}
	for _, a := range list {
		if rule, err := p.rule(a); err != nil || rule.Pairing == nil {
			continue
		}
		n, err := p.decideReady(tx, a)
		if queued += n; err != nil {
			return queued, err
		}
	}
	return queued, nil
}

// contestNumbers is how a challenge stands that is not decided yet: what the entry needs, and
// what it has. nil: it has no pairs, or its arena asks for none.
func (p *Platform) contestNumbers(tx *store.Tx, e store.Entry) (map[string]float64, error) {
	if e.State != agon.SubmissionPlaying && e.State != agon.SubmissionQueued {
		return nil, nil
	}
	a, err := tx.Arena(e.Arena)
	if err != nil {
		return nil, err
	}
	rule, err := p.rule(a)
	if err != nil || rule.Pairing == nil {
		return nil, err
	}
	_, seats, err := p.seats(tx, a)
	if err != nil {
		return nil, err
	}
	seats, barred := rivals(a, e, seats)
	if barred {
		return nil, nil
	}
	rival := ""
	if len(seats) > 0 {
		rival = seats[0].Submission
	}
	halves, err := tx.Halves(e.ID)
	if err != nil {
		return nil, err
	}
	c := incentive.Contested{Numbers: rule.Of(a.IncentiveNumbers), Solved: 1}
	if c.Attempt, err = p.attemptOf(tx, a, e); err != nil {
		return nil, err
	}
	var restarts int
	c.Streams, c.Spent, _, restarts = pairsOf(p.cfg.Kinds[a.Kind], c.Numbers, rival, halves)
	c.Attempt += restarts
	n := rule.Pairing.Decide(c).Numbers
	delete(n, "outcome")
	for name, x := range n {
		if finite(&x) == nil {
			delete(n, name)
		}
	}
	return n, nil
}
