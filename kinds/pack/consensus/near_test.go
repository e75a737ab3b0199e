package consensus

import (
	"testing"

	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// Copies by the arena's stricter measures are not played, and are asked about once.
func TestNear(t *testing.T) {
	w := newWorld(t, 40_000)
	asked := 0
	var first, second *packfile.Pack
	w.conf = func(c *NodeConfig) {
		c.Near = func(earlier, later *packfile.Pack) string {
			asked++
			if earlier.Hash == first.Hash && later.Hash == second.Hash {
				return "near_copy: by the stricter measures"
			}
			return ""
		}
	}
	w.start(0)
	w.to(5)
	first = w.commit(1, policyA, 1)
	w.to(6)
	second = w.commit(0, policyB, 0.1)
	w.to(10, 0)
	w.to(20, 0)
	s := w.nodes[0].Status()
	if len(s.Excluded) != 1 || s.Excluded[0].Miner != w.miners[0] || s.Excluded[0].Of != w.miners[1] || s.Excluded[0].Reason != "near_copy: by the stricter measures" || s.Packs != 1 || asked != 1 {
		t.Errorf("%+v, asked %d times", s, asked)
	}
}
