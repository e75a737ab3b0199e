// Package ridges holds the rules of the Ridges subnet as pure functions: what an
// improvement is worth, how it decays, which code is hidden, what is tried again,
// and how problems, agents and tickets are named. Sources are Ridges' public
// repository at the versions that its documentation calls A (2025-07), A2
// (2025-08), B (2025-12) and C (2026-08).
package ridges

import (
	"cmp"
	"math"
	"slices"
)

// Thresholds of version C.
const (
	ScoreThreshold = 0.03 // relative gain of the score that qualifies
	CostThreshold  = 0.06 // relative saving that qualifies at no lower score
	HalfLifeHours  = 336  // of a reward
	windowHours    = 12   // the legacy receiver earns for so long; the unit of the time multiplier
)

// Improvement is what a candidate is beside the approved leader.
type Improvement struct {
	Qualified bool
	Score     *float64 // relative gain of the score; nil: no leader, or no valid scores
	Cost      *float64 // relative saving; nil: it cannot be told
	Units     float64  // what the improvement is worth; equal steps add up
}

// Improve compares a score from 0 to 1 and a cost in dollars with the leader's.
// nil is a leader or a cost that is not known.
func Improve(score float64, cost, leader, leaderCost *float64) Improvement {
	switch {
	case !(score >= 0) || math.IsInf(score, 0):
		return Improvement{}
	case leader == nil:
		return Improvement{Qualified: true, Units: 100 * score}
	case !(*leader >= 0) || math.IsInf(*leader, 0):
		return Improvement{}
	}
	gain := 0.0
	switch {
	case *leader > 0:
		gain = (score - *leader) / *leader
	case score > 0:
		gain = ScoreThreshold
	}
	out := Improvement{Score: &gain}
	if gain > 0 {
		out.Units = math.Log(1+gain) / math.Log(1+ScoreThreshold)
	}
	saves := false
	if known(cost) && known(leaderCost) && *leaderCost > 0 {
		saved := (*leaderCost - *cost) / *leaderCost
		out.Cost = &saved
		if most := 1 / CostThreshold; saved >= 1 {
			out.Units += most
		} else if saved > 0 {
			out.Units += min(math.Log(1-saved)/math.Log(1-CostThreshold), most)
		}
		saves = atLeast(saved, CostThreshold)
	}
	out.Qualified = atLeast(gain, ScoreThreshold) || score >= *leader && saves
	return out
}

func known(v *float64) bool { return v != nil && *v >= 0 && !math.IsInf(*v, 0) }

// atLeast is a >= b but for the rounding of sums.
func atLeast(a, b float64) bool {
	return a >= b || math.Abs(a-b) <= max(1e-9*max(math.Abs(a), math.Abs(b)), 1e-12)
}

// TimeMultiplier rewards a leader that stood for long: hours since its approval.
func TimeMultiplier(hours float64) float64 { return 1 + math.Sqrt(max(hours, 0)/windowHours) }

// Decayed is what is left of a reward after hours.
func Decayed(reward, hours float64) float64 {
	return reward * math.Exp2(-max(hours, 0)/HalfLifeHours)
}

// Threshold is the bar of version A2 for approval. It falls with x, epochs of 30
// minutes since the leader's approval: floor + (t0 - floor)·exp(-k·x).
type Threshold struct{ Floor, Start, K float64 }

// ThresholdOf makes it from the leader's score, the score of the leader before it
// (nil: none) and what a judge gave for innovation. leader is nil where nobody
// is approved: then it does not fall.
func ThresholdOf(leader, before *float64, innovation float64) Threshold {
	if leader == nil {
		return Threshold{Floor: 0, Start: 0.85, K: 0.05}
	}
	curr, prev := *leader, 0.0
	if before != nil {
		prev = *before
	}
	t := curr + 0.30*max(0, curr-prev)*(1+0.84*prev) + max(0, 0.25*innovation)
	return Threshold{Floor: curr, Start: min(1, max(0, t)), K: 0.05 * max(0.1, 1-0.84*curr)}
}

// At is the bar after x epochs.
func (t Threshold) At(x float64) float64 {
	return t.Floor + (t.Start-t.Floor)*math.Exp(-t.K*max(x, 0))
}

// When is after how many epochs the bar has fallen to a score; +Inf: never.
func (t Threshold) When(score float64) float64 {
	switch {
	case score >= t.Start:
		return 0
	case score <= t.Floor || t.K <= 0:
		return math.Inf(1)
	}
	return -math.Log((score-t.Floor)/(t.Start-t.Floor)) / t.K
}

// Consensus is the score of version C over several validators: a problem counts
// if all of them saw it solved.
type Consensus struct {
	Validators int
	Counted    int
	Score      *float64 // nil: fewer than two validators, or nothing that all saw solved
	Comparable bool     // three validators stand behind it
}

// ConsensusOf takes the problems that each validator saw solved, by name, of so
// many in the set. A validator given twice counts once, with what it saw in both.
func ConsensusOf(problems int, solved map[string][]string) Consensus {
	count := map[string]int{}
	for _, list := range solved {
		list = slices.Clone(list)
		slices.Sort(list)
		for _, p := range slices.Compact(list) {
			count[p]++
		}
	}
	c := Consensus{Validators: len(solved), Comparable: len(solved) == 3}
	for _, n := range count {
		if n == len(solved) {
			c.Counted++
		}
	}
	if c.Validators >= 2 && c.Counted > 0 && problems > 0 {
		v := float64(c.Counted) / float64(problems)
		c.Score = &v
	}
	return c
}

// Bound is the best score that runs can still reach: impossible are those that
// ended unsolved or by the agent's fault.
func Bound(total, impossible int) float64 {
	if total <= 0 {
		return 0
	}
	return float64(total-impossible) / float64(total)
}

// Standing is what orders candidates of versions B and C.
type Standing struct {
	Score   float64
	Cost    *float64 // nil: unknown, which is after every known cost
	Created int64    // order of creation
}

// Before orders candidates: the better score, then the lower cost, then the older.
func (a Standing) Before(b Standing) int {
	if c := cmp.Compare(b.Score, a.Score); c != 0 {
		return c
	}
	switch {
	case a.Cost != nil && b.Cost != nil && *a.Cost != *b.Cost:
		return cmp.Compare(*a.Cost, *b.Cost)
	case a.Cost != nil && b.Cost == nil:
		return -1
	case a.Cost == nil && b.Cost != nil:
		return 1
	}
	return cmp.Compare(a.Created, b.Created)
}

// Coded is an agent as the rule of hidden code sees it.
type Coded struct {
	Score     *float64 `json:"score"` // nil: it has no score
	Benchmark bool     `json:"benchmark,omitempty"`
	Out       bool     `json:"out,omitempty"` // rejected or banned: it takes no place
}

// HiddenCode says whose code is not shown in a set: that of the first ten and of
// the three best distinct scores. cut is nil where fewer than ten agents stand: then all is hidden.
func HiddenCode(agents []Coded) (cut *float64, hidden []bool) {
	var scores []float64
	for _, a := range agents {
		if a.Score != nil && !a.Benchmark && !a.Out {
			scores = append(scores, *a.Score)
		}
	}
	slices.SortFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) })
	if len(scores) >= 10 {
		c := scores[9]
		if d := slices.Compact(slices.Clone(scores)); len(d) >= 3 {
			c = min(c, d[2])
		}
		cut = &c
	}
	hidden = make([]bool, len(agents))
	for i, a := range agents {
		hidden[i] = !a.Benchmark && a.Score != nil && (cut == nil || *a.Score >= *cut)
	}
	return cut, hidden
}

// MaxAttempts is how often a run is tried.
const MaxAttempts = 3

// Retryable says whether a run that ended with this code may be tried again: the
// faults of validators and platform, but those that another try would not mend.
func Retryable(code int) bool {
	return code >= 2000 && code < 4000 && !slices.Contains([]int{2060, 3000, 3010, 3020, 3030, 3040, 3060}, code)
}

// Grant gives the number of the next attempt, or 0 for none. attempts are those
// recorded; stopped is an agent that left the stage, done a run that has finished.
func Grant(code, attempts int, stopped, done bool) int {
	if !Retryable(code) || attempts < 1 || attempts >= MaxAttempts || stopped || done {
		return 0
	}
	return attempts + 1
}
