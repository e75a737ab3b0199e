package score

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Result is one problem of a run with a result. A nil Score is a problem that
// failed or timed out: an empty record.
type Result struct {
	Category string
	Score    *Score
}

// Components is the aggregate of a run, as it is reported at completion.
type Components struct {
	GroundTruthRate    float64 `json:"ground_truth_rate"`
	SuccessRate        float64 `json:"success_rate"`
	FormatScore        float64 `json:"format_score"`
	FieldMatching      float64 `json:"field_matching"`
	TotalProblems      int     `json:"total_problems"`
	SuccessfulProblems int     `json:"successful_problems"`
	ScoredProblems     int     `json:"scored_problems"`
}

// Aggregate sums results over a suite of total problems: rates are shares of
// the whole suite, at most 1.
func Aggregate(total int, results []Result) Components {
	c := Components{TotalProblems: total, ScoredProblems: len(results)}
	var gt int
	var format, rule float64
	for _, r := range results {
		if r.Score == nil {
			continue
		}
		format += r.Score.Format
		if r.Score.Success(r.Category) {
			c.SuccessfulProblems++
		}
		if r.Score.Outcome != nil {
			rule += r.Score.Rule
			if r.Score.GT >= 1 {
				gt++
			}
		}
	}
	if total > 0 {
		n := float64(total)
		c.GroundTruthRate = min(1, float64(gt)/n)
		c.SuccessRate = min(1, float64(c.SuccessfulProblems)/n)
		c.FormatScore = min(1, format/n)
		c.FieldMatching = min(1, rule/n)
	}
	return c
}

// Verdict is a judge's quality of one problem's reasoning, in [0, 1]; nil means that every
// attempt failed. Problems that were never judged have none.
type Verdict = *float64

// Quality is the mean of the verdicts, to four decimals. A failed judge counts
// 0 in Compat; FixJudgeFailure leaves it out, and the mean of nothing is nil:
// unknown, where Compat says 0.
func Quality(fix Fix, verdicts []Verdict) Verdict {
	sum, n := 0.0, 0
	for _, v := range verdicts {
		switch {
		case v != nil:
			sum += min(1, max(0, *v))
			n++
		case !fix.has(FixJudgeFailure):
			n++
		}
	}
	if n == 0 {
		if fix.has(FixJudgeFailure) {
			return nil
		}
		return new(float64)
	}
	q := round4(sum / float64(n))
	return &q
}

// Coefficient is the factor that reasoning quality q puts on a success rate:
// 0.3 at 0, rising to 1 at 0.8.
func Coefficient(q float64) float64 {
	q = min(1, max(0, q))
	if q >= 0.8 {
		return 1
	}
	const low, knee = 0.3, 0.8
	gain := float64(q * (1 - low)) // keep the order of operations
	return round4(low + float64(gain/knee))
}

// Final is a run's score.
func Final(rate, q float64) float64 { return round4(rate * Coefficient(q)) }

// Law is how the bar of a challenger decays while a leader sits: a margin over
// the leader's score that halves every HalfLifeS seconds, from Initial down to
// Floor, the measured noise.
type Law struct {
	Initial   float64 `json:"initial"`
	Floor     float64 `json:"floor"`
	HalfLifeS float64 `json:"half_life_s"`
}

// Check reports what is wrong with a law: with less it would not fall
// monotonely.
func (l Law) Check() error {
	switch {
	case !(l.Floor >= 0) || math.IsInf(l.Floor, 0):
		return errors.New("law.floor: want a number of at least 0")
	case !(l.Initial >= l.Floor) || math.IsInf(l.Initial, 0):
		return errors.New("law.initial: want at least law.floor")
	case !(l.HalfLifeS > 0) || math.IsInf(l.HalfLifeS, 0):
		return errors.New("law.half_life_s: want more than 0 seconds")
	}
	return nil
}

// Bar is what a challenger must reach at now against a leader of score who
// took the seat at setAt (Unix seconds): score + floor + (initial − floor) ·
// 2^(−(now − setAt)/half life). A clock that runs backwards counts as no time.
func (l Law) Bar(score, setAt, now float64) float64 {
	return score + l.Floor + float64((l.Initial-l.Floor)*math.Exp2(-max(0, now-setAt)/l.HalfLifeS))
}

// MaxWeight is the greatest weight that a ledger takes.
const MaxWeight = 65535

// Finisher is a version that ended a race with a score.
type Finisher struct {
	Hotkey  string
	Version string // agent_version_id
	Score   float64
}

// Weights turns the finishers of a race into a weight per uid of the metagraph
// (hotkeys by uid; uid 0 takes what is burned). Half of the finishers are paid:
// the first gets the share top, the others 1, 2, … from the last up, the rest
// burns. top and burn must sum to 1. The result is not clamped: where the best
// hotkey sits at uid 0 its weight and the burn add up beyond MaxWeight; Clamp
// before setting. Nil for an empty metagraph.
func Weights(finishers []Finisher, metagraph []string, top, burn float64) ([]int64, error) {
	if !(math.Abs(top+burn-1) <= 1e-9) || top < 0 || burn < 0 {
		return nil, fmt.Errorf("t_top and t_burn: want at least 0 each and a sum of 1, got %v and %v", top, burn)
	}
	ranked := slices.Clone(finishers)
	for _, f := range ranked {
		if math.IsNaN(f.Score) {
			return nil, fmt.Errorf("race_score of %.80q is not a number", f.Version)
		}
	}
	slices.SortStableFunc(ranked, func(a, b Finisher) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Version, b.Version))
	})
	paid := len(ranked) / 2
	tail := map[string]int64{} // by hotkey
	for r := 2; r <= paid; r++ {
		tail[ranked[r-1].Hotkey] = int64(paid + 1 - r) // of two versions the lower rank's stands
	}
	uid := make(map[string]int, len(metagraph))
	for i, hk := range metagraph {
		if _, ok := uid[hk]; !ok {
			uid[hk] = i
		}
	}
	if paid > 0 {
		// With the full tail first: ratios that do not fit are an error even
		// where absent hotkeys would have made room.
		if _, _, err := split(top, burn, int64(paid)*int64(paid-1)/2); err != nil {
			return nil, err
		}
	}
	if len(metagraph) == 0 {
		return nil, nil
	}
	out := make([]int64, len(metagraph))
	if paid == 0 {
		out[0] = MaxWeight
		return out, nil
	}
	first := ranked[0].Hotkey
	delete(tail, first)
	var sum int64
	for hk, w := range tail {
		if i, ok := uid[hk]; ok {
			sum += w
			out[i] = w
		}
	}
	t, b, err := split(top, burn, sum)
	if err != nil {
		return nil, err
	}
	out[0] = b
	if i, ok := uid[first]; ok {
		if i == 0 {
			out[0] += t
		} else {
			out[i] = t
		}
	}
	return out, nil
}

// split finds the weights of the first and of the burn so that their shares
// hold beside a tail that sums to s.
func split(top, burn float64, s int64) (t, b int64, err error) {
	if burn >= top {
		if top == 0 {
			return 0, MaxWeight, nil
		}
		whole := float64(MaxWeight+s) / burn
		return int64(math.RoundToEven(float64(top * whole))), MaxWeight, nil
	}
	whole := MaxWeight / top
	b = int64(math.RoundToEven(float64(burn*whole))) - s
	if b < 0 {
		return 0, 0, fmt.Errorf("t_burn %v leaves less than the tail of %d needs", burn, s)
	}
	return MaxWeight, b, nil
}

// Clamp cuts weights to what a ledger takes.
func Clamp(weights []int64) []uint16 {
	out := make([]uint16, len(weights))
	for i, w := range weights {
		out[i] = uint16(min(MaxWeight, max(0, w)))
	}
	return out
}
