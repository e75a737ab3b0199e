// Package quorum says what several replays of a submission say together: which
// of them agree, how far a validator is believed, whether a challenger beats the
// incumbent in pairs, and how a ballot of peers stands. It is pure.
package quorum

import (
	"cmp"
	"math"
	"slices"

	"github.com/agon-arena/agon"
)

// Verdicts of one replay, as the number in a score's metric of that name.
const (
	VerdictAccepted = 0 // it ran and gave a number
	VerdictRejected = 1 // the patch, or the task's own check, says no
	VerdictError    = 2 // no number came of it
)

// Replay is what one validator's replay of a submission says.
type Replay struct {
	Run     string  `json:"run"`
	Verdict int     `json:"verdict"`
	Value   float64 `json:"value"` // of the metric; meaningless unless accepted
	Trust   float64 `json:"trust"` // in the validator, 0..1
}

// Agreement is what several replays say together.
type Agreement struct {
	Decided bool    `json:"decided"`
	Verdict int     `json:"verdict"`
	Value   float64 `json:"value"` // median of the runs that agree
	// Runs are the ids of the replays that agree, sorted.
	Runs []string `json:"runs"`
	// Spread is the largest less the smallest value of those, Support their trust together.
	Spread  float64 `json:"spread"`
	Support float64 `json:"support"`
	// More is how many further replays could decide; 0 when decided, or when c.Replays are used up.
	More int `json:"more"`
}

// slack absorbs the rounding of sums of trust.
const slack = 1e-9

// Agree finds the best supported group of replays that agree: the same verdict
// and, for accepted ones, values within the tolerance of each other. It decides
// when the trust of a group reaches c.Agree. Of two groups with equal support
// the one with the smaller spread, then the one that is worse for the
// contestant counts. tried is how many replays ended or are under way.
func Agree(c agon.Contest, list []Replay, tried int) Agreement {
	best := Agreement{Support: -1}
	better := func(g Agreement) bool {
		switch {
		case g.Support > best.Support+slack:
			return true
		case g.Support < best.Support-slack:
			return false
		case g.Spread != best.Spread:
			return g.Spread < best.Spread
		case g.Verdict != best.Verdict:
			return g.Verdict > best.Verdict
		}
		return Better(c.Direction, best.Value, g.Value)
	}
	for _, v := range []int{VerdictRejected, VerdictError} {
		g := Agreement{Verdict: v}
		for _, r := range list {
			if r.Verdict == v {
				g.Runs = append(g.Runs, r.Run)
				g.Support += r.Trust
			}
		}
		if len(g.Runs) > 0 && better(g) {
			best = g
		}
	}
	var runs []Replay
	for _, r := range list {
		if r.Verdict == VerdictAccepted && !math.IsNaN(r.Value) && !math.IsInf(r.Value, 0) {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b Replay) int { return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Run, b.Run)) })
	for i := range runs {
		g := Agreement{Verdict: VerdictAccepted}
		j := i
		for ; j < len(runs) && Within(c, runs[i].Value, runs[j].Value); j++ {
			g.Runs = append(g.Runs, runs[j].Run)
			g.Support += runs[j].Trust
		}
		g.Value, g.Spread = weightedMedian(runs[i:j]), runs[j-1].Value-runs[i].Value
		if better(g) {
			best = g
		}
	}
	if best.Support < 0 {
		best = Agreement{Verdict: VerdictError}
	}
	slices.Sort(best.Runs)
	best.Decided = best.Support+slack >= float64(c.Agree)
	if !best.Decided {
		need := int(math.Ceil(float64(c.Agree) - best.Support - slack))
		best.More = max(0, min(need, c.Replays-tried))
	}
	return best
}

// Within reports whether two values agree by the tolerance of c.
func Within(c agon.Contest, a, b float64) bool {
	d := math.Abs(a - b)
	return d == 0 || d <= c.Absolute+c.Relative*max(math.Abs(a), math.Abs(b))
}

// weightedMedian is the middle of values sorted before: of two middles the mean.
func weightedMedian(runs []Replay) float64 {
	var total float64
	for _, r := range runs {
		total += r.Trust
	}
	if total <= 0 {
		n := len(runs)
		return (runs[(n-1)/2].Value + runs[n/2].Value) / 2
	}
	sum := 0.0
	for i, r := range runs {
		sum += r.Trust
		switch {
		case math.Abs(sum-total/2) <= slack && i+1 < len(runs):
			return r.Value/2 + runs[i+1].Value/2
		case sum > total/2:
			return r.Value
		}
	}
	return runs[len(runs)-1].Value
}

// Canary is one replay of a submission whose score the operator knows.
type Canary struct {
	Known    float64 `json:"known"`
	Observed float64 `json:"observed"`
	// Verdict of the replay; Want is the known one.
	Verdict int `json:"verdict"`
	Want    int `json:"want"`
}

// Trust is how far a validator is believed after its canaries: the chance, by a
// uniform prior with two hits in advance, that it tells the truth, squared so
// that one lie already costs it the vote of a full validator. Without canaries it is 1.
func Trust(c agon.Contest, list []Canary) float64 {
	misses := 0
	for _, x := range list {
		if x.Verdict != x.Want || (x.Want == VerdictAccepted && !Within(c, x.Known, x.Observed)) {
			misses++
		}
	}
	if misses == 0 {
		return 1
	}
	p := float64(len(list)-misses+2) / float64(len(list)+3)
	return p * p
}
