package play

import (
	"fmt"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// Names of the rules in decisions.
const (
	RuleDuel     = "research.duel"     // paired replays against the incumbent
	RuleFirst    = "research.first"    // the seat was empty: the base is the incumbent
	RuleRejected = "research.rejected" // replays agree that it is not an entry
	RuleClaim    = "research.no_gain"  // the agreed number does not pass the incumbent's
	RuleBroken   = "research.duel_broken"
	RuleUnsteady = "research.unsteady"
)

// MetricVerdict is the name of the number in Score.Metrics that says how a
// replay ended (score.VerdictAccepted …). A score without it, the engine's own
// zero for a fault of the contestant, is an error.
const MetricVerdict = "verdict"

// maxBroken bounds the rounds of a duel that left no pair.
const maxBroken = 3

// duelReplica numbers the runs of duels apart from the replays.
const duelReplica = 1000

// Rules is the planning half of the kind: all pure, all from the View.
type Rules struct{}

var (
	_ kind.Decider = Rules{}
	_ kind.Tierer  = Rules{}
)

func contestOf(v agon.View) (agon.Contest, error) {
	if v.Arena.Contest == nil || len(v.Arena.Tasks) != 1 {
		return agon.Contest{}, fmt.Errorf("arena %s: a research arena has a contest and one task", v.Arena.ID)
	}
	return *v.Arena.Contest, nil
}

// Plan asks for replays by different validators until enough of them agree.
func (Rules) Plan(v agon.View) (agon.Plan, error) {
	c, err := contestOf(v)
	if err != nil {
		return agon.Plan{}, err
	}
	a, tried := agreement(c, v)
	if a.Decided || a.More == 0 {
		return agon.Plan{Done: true, Why: fmt.Sprintf("%d replays agree with trust %.2f of %d", len(a.Runs), a.Support, c.Agree)}, nil
	}
	plan := agon.Plan{Why: fmt.Sprintf("%d replays more can decide", a.More)}
	for i := range a.More {
		plan.Runs = append(plan.Runs, agon.RunSpec{Tasks: v.Arena.Tasks, Replica: tried + i, Policy: v.Arena.Policy})
	}
	return plan, nil
}

// agreement is what the replays of v say, and how many were tried. Replays
// that failed by our faults are not counted as tried more than twice.
func agreement(c agon.Contest, v agon.View) (quorum.Agreement, int) {
	var list []quorum.Replay
	tried := 0
	for _, r := range v.Runs {
		if r.Rival != nil {
			continue
		}
		tried++
		if x, ok := ReplayOf(r, v.Trust); ok {
			list = append(list, x)
		}
	}
	return quorum.Agree(c, list, tried), tried
}

// claimOf is what the miner claimed, as a replay among those that agree read it.
func claimOf(r agon.Run, agree []string) (float64, bool) {
	if !slices.Contains(agree, r.RunSpec.Run) || len(r.Scores) != 1 {
		return 0, false
	}
	x, ok := r.Scores[0].Metrics[MetricClaimed]
	return x, ok
}

// ReplayOf reads what a scored run says; ok is false for runs without a result.
func ReplayOf(r agon.Run, trust map[string]float64) (quorum.Replay, bool) {
	if r.State != agon.RunScored || len(r.Scores) != 1 {
		return quorum.Replay{}, false
	}
	x := quorum.Replay{Run: r.RunSpec.Run, Verdict: quorum.VerdictError, Trust: 1}
	if t, ok := trust[r.RunSpec.Run]; ok {
		x.Trust = t
	}
	m := r.Scores[0].Metrics
	if w, ok := m[MetricVerdict]; ok {
		x.Verdict = int(w)
	}
	if x.Verdict == quorum.VerdictAccepted {
		value, ok := m[MetricObserved]
		if !ok {
			x.Verdict = quorum.VerdictError
		}
		x.Value = value
	}
	return x, true
}

// Agreement tells what the replays of v say together.
func Agreement(v agon.View) (quorum.Agreement, error) {
	c, err := contestOf(v)
	if err != nil {
		return quorum.Agreement{}, err
	}
	a, _ := agreement(c, v)
	return a, nil
}

// Sum implements kind.Decider: the score is that of the replay nearest to the
// agreed median among those that agree.
func (Rules) Sum(v agon.View) (kind.Sum, bool) {
	c, err := contestOf(v)
	if err != nil {
		return kind.Sum{}, false
	}
	a, _ := agreement(c, v)
	if !a.Decided {
		return kind.Sum{}, false
	}
	if a.Verdict != quorum.VerdictAccepted {
		return kind.Sum{Total: 1}, true
	}
	s := kind.Sum{Total: 1, Solved: 1}
	near := -1.0
	for _, r := range v.Runs {
		if !slices.Contains(a.Runs, r.RunSpec.Run) {
			continue
		}
		d := r.Scores[0].Metrics[MetricObserved] - a.Value
		d = max(d, -d)
		if near < 0 || d < near {
			near, s.Score = d, r.Scores[0].Value
		}
	}
	return s, true
}

// Told implements kind.Tierer: a measurement is told from a worse one if it beats
// it by more than the contest's band, as in a duel. What was rejected is below all.
func (Rules) Told(a agon.Arena, better, worse map[string]float64) bool {
	x, ok := better["observed"]
	y, also := worse["observed"]
	if !ok || !also || a.Contest == nil {
		return ok && !also
	}
	c := *a.Contest
	c.Secondary = "" // a decision has the second metric of nobody else
	return quorum.Beats(c, quorum.Pair{Challenger: x, Incumbent: y})
}

// TierTest implements kind.Tierer.
func (Rules) TierTest(a agon.Arena) string {
	switch c := a.Contest; {
	case c == nil:
		return ""
	case !quorum.Noisy(*c):
		return "The metric is exact: within a tier, all were measured alike."
	case c.BandRelative > 0:
		return fmt.Sprintf("Within a tier, nobody beats the first by more than the metric's noise: %v, or %v %% of its value.", c.Band, 100*c.BandRelative)
	default:
		return fmt.Sprintf("Within a tier, nobody beats the first by more than the metric's noise, %v.", c.Band)
	}
}

// Decide implements kind.Decider: a challenger takes the seat by a duel with
// the incumbent, which is the unpatched base while the seat is empty.
func (Rules) Decide(v agon.View) (kind.Verdict, error) {
	c, err := contestOf(v)
	if err != nil {
		return kind.Verdict{}, err
	}
	a, _ := agreement(c, v)
	if a.Verdict != quorum.VerdictAccepted {
		return kind.Verdict{Rule: RuleRejected, Numbers: map[string]float64{"verdict": float64(a.Verdict), "support": a.Support}}, nil
	}
	numbers := map[string]float64{
		"observed": a.Value, "spread": a.Spread, "support": a.Support, "replays": float64(len(a.Runs)), "band": c.Band, "attempt": float64(max(v.Attempts, 1)),
	}
	for _, r := range v.Runs { // all replays of a submission read one claim
		if x, ok := claimOf(r, a.Runs); ok {
			numbers["claimed"] = x
			break
		}
	}
	rival := agon.Rival{}
	if v.Rival != nil {
		rival = *v.Rival
	}
	pairs, round, broken, again := duelsOf(c, v, rival.Submission, a.Value)
	d := quorum.RunDuel(c, v.Attempts, pairs)
	for k, x := range map[string]float64{
		"evidence": d.Evidence, "need": d.Need, "alpha": d.Alpha, "pairs": float64(d.Pairs), "won": float64(d.Won), "max_pairs": float64(d.MaxPairs),
		"gain": d.Gain, "gain_se": d.GainSE, "rounds": float64(round), "band": d.Band,
	} {
		numbers[k] = x
	}
	if c.Secondary != "" {
		numbers["gain2"], numbers["spent"] = d.Gain2, c.Spent
	}
	if d.Pairs > 0 { // what it was measured against: gain is how much better it is, in the metric
		numbers["rival"] = a.Value - d.Gain
		if c.Direction == agon.Minimize {
			numbers["rival"], numbers["minimize"] = a.Value+d.Gain, 1
		}
	}
	rule := RuleDuel
	if v.Rival == nil {
		rule = RuleFirst
	}
	switch {
	case d.Done && again != nil:
		numbers["first"], numbers["again"] = again[0], again[1]
		return kind.Verdict{Rule: RuleUnsteady, Numbers: numbers}, nil
	case d.Done && d.Wins && unsteady(c, v, rival, pairs[0]):
		return kind.Verdict{Rule: RuleUnsteady, Numbers: numbers}, nil
	case d.Done:
		return kind.Verdict{Takes: d.Wins, Rule: rule, Numbers: numbers}, nil
	case broken >= maxBroken:
		return kind.Verdict{Rule: RuleBroken, Numbers: numbers}, nil
	}
	// A round is one duel each by as many validators as must agree, so that no
	// single one makes most of the pairs.
	out := kind.Verdict{Rule: rule, Numbers: numbers}
	n := 1
	if quorum.Noisy(c) {
		n = max(1, (d.MaxPairs-d.Pairs+c.Agree-1)/c.Agree)
		n = min(n, 4)
	}
	for i := range c.Agree {
		r := rival
		r.Round, r.Pairs = round+1, n
		out.More = append(out.More, agon.RunSpec{Tasks: v.Arena.Tasks, Replica: duelReplica*(round+1) + i, Policy: v.Arena.Policy, Rival: &r})
	}
	return out, nil
}

// unsteady reports that a pair on a task without noise was won only because the champion's program
// gave a worse number than it was seated with: it draws numbers of its own, so the pair was luck, and a
// copy of it would win one such pair sooner or later. What counts is then what each was accepted with.
func unsteady(c agon.Contest, v agon.View, rival agon.Rival, p quorum.Pair) bool {
	if quorum.Noisy(c) || p.Base || v.Champion == nil || v.Champion.Submission != rival.Submission || p.Challenger == p.Incumbent {
		return false
	}
	s, ok := Rules{}.Sum(v)
	return ok && !(s.Score > v.Champion.Score)
}

// duel is what one validator's duel of a task says.
type duel struct {
	pairs []quorum.Pair
	again *float64 // the challenger's number on the first pair's seed, measured once more; nil: it was not
}

// steady reports that the challenger of a task without noise gave one number on one seed.
func (d duel) steady(c agon.Contest) bool {
	return d.again == nil || quorum.Within(c, *d.again, d.pairs[0].Challenger)
}

// wins reports that the challenger won the first pair with a number that it gives again.
func (d duel) wins(c agon.Contest) bool { return quorum.Beats(c, d.pairs[0]) && d.steady(c) }

// duelsOf returns the pairs of the duels with rival, by round and in the order
// of their runs, the rounds played, and how many of those left no pair. Pairs
// of validators that are not believed are left out. A challenger that gives no number in a
// duel, in its setup or before the first pair, has lost all of its pairs: else it would choose the
// machines that count. On a task without noise the duels of a round are one pair: see settle, which
// says what again is. observed is what the challenger was accepted with.
func duelsOf(c agon.Contest, v agon.View, rival string, observed float64) (pairs []quorum.Pair, rounds, broken int, again []float64) {
	byRound := map[int][]duel{}
	for _, r := range v.Runs {
		if r.Rival == nil || r.Rival.Submission != rival {
			continue
		}
		rounds = max(rounds, r.Rival.Round)
		if r.State != agon.RunScored || len(r.Scores) != 1 {
			continue
		}
		if t, ok := v.Trust[r.RunSpec.Run]; ok && t < 0.5 {
			continue
		}
		m := r.Scores[0].Metrics
		p := PairsOf(m)
		if x, ok := ReplayOf(r, nil); len(p) == 0 && ok && x.Verdict != quorum.VerdictAccepted {
			p = slices.Repeat([]quorum.Pair{{Challenger: observed, Incumbent: observed}}, max(1, r.Rival.Pairs))
		}
		for i := range p {
			p[i].By = v.By[r.RunSpec.Run]
		}
		if len(p) > 0 {
			d := duel{pairs: p}
			if x, ok := m[MetricDuelAgain]; ok {
				d.again = &x
			}
			byRound[r.Rival.Round] = append(byRound[r.Rival.Round], d)
		}
	}
	for i := 1; i <= rounds; i++ {
		duels := byRound[i]
		if len(duels) == 0 {
			broken++
			continue
		}
		if quorum.Noisy(c) {
			for _, d := range duels {
				pairs = append(pairs, d.pairs...)
			}
			continue
		}
		p, two, ok := settle(c, duels)
		if !ok {
			broken++
			continue
		}
		pairs = append(pairs, p)
		if again == nil {
			again = two
		}
	}
	return pairs, rounds, broken, again
}

// settle makes one pair of a round's duels of a task without noise; ok is false where no more than
// half of them agree. All of them are on one seed. So those that the challenger wins must give one
// number of it, and each validator sees it twice: a program that draws numbers of its own must be
// lucky in all of them. One that gave more than half of the validators two numbers has lost, and
// again holds two such.
func settle(c agon.Contest, duels []duel) (p quorum.Pair, again []float64, ok bool) {
	lost, moody := 0, 0
	for _, d := range duels {
		if !d.wins(c) {
			lost++
		}
		if !d.steady(c) {
			moody++
			again = []float64{*d.again, d.pairs[0].Challenger}
		}
	}
	if 2*moody <= len(duels) {
		again = nil
	}
	for _, d := range duels {
		alike := lost
		if d.wins(c) {
			alike = 0
			for _, e := range duels {
				if e.wins(c) && quorum.Within(c, d.pairs[0].Challenger, e.pairs[0].Challenger) {
					alike++
				}
			}
		}
		if 2*alike <= len(duels) {
			continue
		}
		if p = d.pairs[0]; !d.wins(c) && quorum.Beats(c, p) {
			p.Challenger, p.Challenger2 = p.Incumbent, p.Incumbent2
		}
		return p, again, true
	}
	return quorum.Pair{}, nil, false
}

// PairsOf reads the pairs of a duel from a score's metrics.
func PairsOf(m map[string]float64) []quorum.Pair {
	n := int(m[MetricDuelNumbers])
	if n < 0 || n > 90 {
		return nil
	}
	var out []quorum.Pair
	for i := range n {
		ch, ok1 := m[fmt.Sprintf("%s%d.challenger", MetricDuelPrefix, i)]
		in, ok2 := m[fmt.Sprintf("%s%d.incumbent", MetricDuelPrefix, i)]
		if !ok1 || !ok2 {
			return nil
		}
		out = append(out, quorum.Pair{
			Challenger: ch, Incumbent: in, Base: m[fmt.Sprintf("%s%d.base", MetricDuelPrefix, i)] == 1,
			Challenger2: m[fmt.Sprintf("%s%d.challenger2", MetricDuelPrefix, i)], Incumbent2: m[fmt.Sprintf("%s%d.incumbent2", MetricDuelPrefix, i)],
		})
	}
	return out
}

// PairMetrics writes the pairs of a duel as PairsOf reads them.
func PairMetrics(pairs []quorum.Pair) map[string]float64 {
	m := map[string]float64{}
	if len(pairs) > 0 {
		m[MetricDuelNumbers] = float64(len(pairs))
	}
	for i, p := range pairs {
		at := fmt.Sprintf("%s%d.", MetricDuelPrefix, i)
		m[at+"challenger"], m[at+"incumbent"] = p.Challenger, p.Incumbent
		if p.Base {
			m[at+"base"] = 1
		}
		if p.Challenger2 != 0 || p.Incumbent2 != 0 {
			m[at+"challenger2"], m[at+"incumbent2"] = p.Challenger2, p.Incumbent2
		}
	}
	return m
}
