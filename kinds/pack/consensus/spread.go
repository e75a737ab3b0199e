package consensus

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/agon-arena/agon/engine/score"
)

// Spread is how far the validators' own measurements of one cost lie apart. The cost that is
// frozen is their median by stake, which a liar with less than half of it hardly moves; this
// says what luck may have done to it.
type Spread struct {
	Mean       float64 `json:"mean"`
	Low        float64 `json:"low"` // of the 95 % interval of the mean; 0 with one validator
	High       float64 `json:"high"`
	Validators int     `json:"validators"` // that are counted
}

// spreadOf is the spread of a miner's cost over those who call it qualified. Each has played
// once, so stake does not weigh here. Who is off by more than half or the double of the agreed
// cost measured something else, or lies, and is left out.
func spreadOf(list []Submission, miner string, agreed float64) *Spread {
	list = slices.SortedFunc(slices.Values(list), func(a, b Submission) int { return cmp.Compare(a.Hotkey, b.Hotkey) })
	var costs []float64 // in one order, so that sums are the same for everyone
	for _, s := range list {
		if c, given := s.Payload.Costs[miner]; given && s.Payload.Qualified[miner] && c >= agreed/2 && c <= 2*agreed {
			costs = append(costs, c)
		}
	}
	if len(costs) == 0 {
		return nil
	}
	b := score.Mean(costs)
	out := &Spread{Mean: b.Mean, Validators: b.N}
	if b.N > 1 {
		out.Low, out.High = max(0, b.Low), b.High
	}
	return out
}

// Text is the spread in words.
func (s *Spread) Text() string {
	switch {
	case s == nil:
		return ""
	case s.Validators == 1:
		return "measured by one validator: nothing says how much is luck"
	}
	return fmt.Sprintf("mean of %d validators $%.6f, 95 %% interval $%.6f to $%.6f", s.Validators, s.Mean, s.Low, s.High)
}
