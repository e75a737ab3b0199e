package play

import (
	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/pack/cost"
)

var (
	_ kind.Pairer = (*Kind)(nil)
	_ kind.Coster = (*Kind)(nil)
)

// Cost implements kind.Coster: what the agent's calls cost. The judge's are not in it.
func (k *Kind) Cost(s agon.Score) float64 { return s.Metrics[cost.Metric] / 1e6 }

// Pair implements kind.Pairer: who qualifies beats who does not; of two that do,
// the cheaper one wins, by more than both bands.
func (k *Kind) Pair(challenger, incumbent agon.Score, bandAbs, bandRel float64) (c, i float64) {
	if challenger.Solved && incumbent.Solved {
		if k.Cost(challenger) <= 0 || k.Cost(incumbent) <= 0 {
			return 0, 0 // a cost that was not measured is not a low one
		}
		p := incentive.Banded(challenger.Metrics[cost.Metric], incumbent.Metrics[cost.Metric], bandAbs, bandRel)
		return p.Challenger, p.Incumbent
	}
	value := func(s agon.Score) float64 {
		if s.Solved {
			return 1
		}
		return 0
	}
	return value(challenger), value(incumbent)
}
