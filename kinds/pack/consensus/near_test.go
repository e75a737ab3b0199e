package consensus

import (
	"strings"
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

// A pack stays its first miner's for seven windows after that miner has committed
// another one; then it is free. That follows from the ledger alone: a validator
// without a state sees the same.
func TestOwnedPack(t *testing.T) {
	w := newWorld(t, 40_000)
	w.to(5)
	p := w.commit(0, policyA, 1)
	w.to(110, 0)
	w.commit(0, policyB, 1)
	w.to(120)
	if again := w.commit(1, policyA, 1); again.Hash != p.Hash {
		t.Fatal("another pack")
	}
	owned := func() bool {
		w.t.Helper()
		for _, x := range w.nodes[0].Status().Excluded {
			if x.Miner == w.miners[1] && x.Of == w.miners[0] && strings.HasPrefix(x.Reason, "pack_owned") {
				return true
			}
		}
		return false
	}
	for _, c := range []struct {
		block uint64
		owned bool
	}{{130, true}, {450, true}, {889, true}, {910, false}} {
		w.dirs[0] = t.TempDir()
		w.start(0)
		w.to(c.block, 0)
		if owned() != c.owned {
			t.Errorf("block %d: %+v", c.block, w.nodes[0].Status().Excluded)
		}
	}
	if s := w.nodes[0].Status(); s.Packs != 2 {
		t.Errorf("%d packs", s.Packs)
	}
}
