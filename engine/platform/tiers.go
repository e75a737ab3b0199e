package platform

import (
	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/score"
)

// signTiers is the test of tiers where the kind has none of its own.
const signTiers = "Within a tier, differences are not statistically significant (exact sign test, paired by task)."

// ranked is a submission of a board, as its tier is worked out.
type ranked struct {
	values  map[string]float64 // by task; where the score is of some of them, of these
	numbers map[string]float64 // of its decision
	banded  bool               // its score is the mean of problems
}

// rankedOf takes the problems that the score is of: what public problems say of
// two whose rank hidden ones decide must not part them.
func rankedOf(a agon.Arena, total *float64, n *int, values map[string]float64) ranked {
	of, _ := countedOf(a, total, n, values)
	if of == nil {
		return ranked{values: values}
	}
	return ranked{values: of, banded: true}
}

func (p *Platform) tierer(a agon.Arena) kind.Tierer {
	k, _ := p.cfg.Kinds[a.Kind].(kind.Tierer)
	return k
}

// tierTest says by which test the tiers of an arena are made.
func (p *Platform) tierTest(a agon.Arena) string {
	switch k := p.tierer(a); {
	case k != nil:
		return k.TierTest(a)
	case a.Contest != nil:
		return ""
	}
	return signTiers
}

// tiers groups the scored submissions of an arena, the best first, by the kind's
// own test or the sign test; nil: neither says anything of them.
func (p *Platform) tiers(a agon.Arena, list []ranked) []int {
	if k := p.tierer(a); k != nil {
		out, head, tier := make([]int, len(list)), 0, 1
		for i, r := range list {
			if i > 0 && k.Told(a, list[head].numbers, r.numbers) {
				head, tier = i, tier+1
			}
			out[i] = tier
		}
		return out
	}
	banded, values := false, make([]map[string]float64, len(list))
	for i, r := range list {
		banded, values[i] = banded || r.banded, r.values
	}
	if !banded {
		return nil
	}
	return score.Tiers(values)
}
