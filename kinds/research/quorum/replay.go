// Package quorum says what several replays of a submission say together: which
// of them agree, how far a validator is believed, whether a challenger beats the
// incumbent in pairs, and how a ballot of peers stands. It is pure.
package quorum

import (
	"cmp"
	"math"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/score"
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

// Pair is one replay of challenger and incumbent on the same machine and seed.
type Pair struct {
	Challenger float64 `json:"challenger"`
	Incumbent  float64 `json:"incumbent"`
	// Challenger2 and Incumbent2 are of the second metric, where a contest has one.
	Challenger2 float64 `json:"challenger2,omitempty"`
	Incumbent2  float64 `json:"incumbent2,omitempty"`
	// Base: the incumbent's program gave no number, and the unpatched base stood in for it.
	Base bool `json:"base,omitempty"`
}

// gain is how much better a is than b in a direction; negative for worse.
func gain(direction string, a, b float64) float64 {
	if direction == agon.Maximize {
		return a - b
	}
	return b - a
}

// BandAt is what a gain over an incumbent's value must pass.
func BandAt(c agon.Contest, incumbent float64) float64 {
	return max(c.Band, c.BandRelative*math.Abs(incumbent))
}

// Noisy reports that a contest's metric has noise: one pair does not decide.
func Noisy(c agon.Contest) bool { return c.Band > 0 || c.BandRelative > 0 }

// Beats reports whether the challenger wins a pair: by more than the band, or
// inside the band by the second metric.
func Beats(c agon.Contest, p Pair) bool {
	g, band := gain(c.Direction, p.Challenger, p.Incumbent), BandAt(c, p.Incumbent)
	return g > band || c.Secondary != "" && g >= -band && Better(c.Secondary, p.Challenger2, p.Incumbent2)
}

// Duel is how a sequence of pairs stands.
type Duel struct {
	Done bool `json:"done"`
	Wins bool `json:"wins"`
	// Evidence is the e-value against "no better than the incumbent by the
	// band", Need what it must reach: 1 / Alpha.
	Evidence float64 `json:"evidence"`
	Need     float64 `json:"need"`
	Alpha    float64 `json:"alpha"` // charged to this attempt
	Pairs    int     `json:"pairs"`
	Won      int     `json:"won"` // pairs that the challenger won
	MaxPairs int     `json:"max_pairs"`
	Gain     float64 `json:"gain"`    // mean gain, in the metric's unit; positive is better
	GainSE   float64 `json:"gain_se"` // its standard error; 0 with fewer than two pairs
	Gain2    float64 `json:"gain2"`   // mean gain of the second metric
	Band     float64 `json:"band"`
}

// bets are the shares staked on each pair. Their mean wealth is the evidence:
// under the hypothesis each pair is won with at most even chance, so wealth
// starting at 1 is a supermartingale and passes 1/alpha with chance alpha at
// most, whenever one stops.
var bets = [...]float64{0.4, 0.7, 0.9}

// AttemptAlpha is the part of alpha charged to the nth attempt of a coldkey
// (from 1): the parts of all attempts sum to alpha.
func AttemptAlpha(alpha float64, n int) float64 {
	n = max(n, 1)
	return alpha * 6 / (math.Pi * math.Pi * float64(n) * float64(n))
}

// RunDuel is the rule of a takeover: pairs in the order they were made, by the
// nth attempt of a coldkey. A task without noise (Band 0) is decided by its
// first pair; else pairs are played until the evidence suffices, until it no
// longer can, or until MaxPairs.
func RunDuel(c agon.Contest, attempt int, pairs []Pair) (d Duel) {
	d = Duel{Alpha: AttemptAlpha(c.Alpha, attempt), Band: c.Band, Evidence: 1}
	if len(pairs) > 0 {
		d.Band = BandAt(c, pairs[0].Incumbent)
	}
	d.Need = 1 / d.Alpha
	gains, gains2 := make([]float64, 0, len(pairs)), make([]float64, 0, len(pairs))
	for _, p := range pairs {
		gains = append(gains, gain(c.Direction, p.Challenger, p.Incumbent))
		if c.Secondary != "" {
			gains2 = append(gains2, gain(c.Secondary, p.Challenger2, p.Incumbent2))
		}
	}
	defer func() { d.Gain2, _ = score.MeanSE(gains2[:min(d.Pairs, len(gains2))]) }()
	if !Noisy(c) {
		d.MaxPairs, d.Pairs = 1, min(len(gains), 1)
		if d.Pairs == 1 {
			d.Done, d.Gain = true, gains[0]
			if d.Wins = Beats(c, pairs[0]); d.Wins {
				d.Won, d.Evidence = 1, d.Need
			} else {
				d.Evidence = 0
			}
		}
		return d
	}
	// Enough pairs that a challenger who wins four fifths of them can pass.
	d.MaxPairs = max(c.Pairs, int(math.Ceil(math.Log(d.Need*float64(len(bets)))/0.26)))
	wealth := [len(bets)]float64{}
	for i := range wealth {
		wealth[i] = 1
	}
	best := math.Log(1 + bets[len(bets)-1])
	for i, p := range pairs {
		if d.Done || i >= d.MaxPairs {
			break
		}
		d.Pairs++
		win := -1.0
		if Beats(c, p) {
			win = 1
			d.Won++
		}
		d.Evidence = 0
		for k := range wealth {
			wealth[k] *= 1 + bets[k]*win
			d.Evidence += wealth[k] / float64(len(wealth))
		}
		left := float64(d.MaxPairs - d.Pairs)
		switch {
		case d.Evidence >= d.Need:
			d.Done, d.Wins = true, true
		case d.Pairs >= d.MaxPairs || math.Log(d.Evidence)+left*best < math.Log(d.Need):
			d.Done = true
		}
	}
	d.Gain, d.GainSE = score.MeanSE(gains[:d.Pairs])
	return d
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
