package consensus

import (
	"context"
	"errors"
	"testing"

	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
)

// shaky is a ledger some of whose answers do not come.
type shaky struct {
	ledger.Ledger
	refuse  int // weights that are still refused
	set     int // weights that were
	history error
}

func (s *shaky) SetWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights) error {
	if s.refuse > 0 {
		s.refuse--
		return errors.New("the node is away")
	}
	s.set++
	return s.Ledger.SetWeights(ctx, netuid, hotkey, w)
}

func (s *shaky) History(ctx context.Context, netuid uint16, hotkey string, from uint64) ([]ledger.Commitment, error) {
	if s.history != nil {
		return nil, s.history
	}
	return s.Ledger.History(ctx, netuid, hotkey, from)
}

// Weights that the ledger did not take are set at the next step, and stand; then not again until they are due.
func TestWeightsAreTriedAgain(t *testing.T) {
	w := newWorld(t, 40_000)
	l := &shaky{Ledger: w.l, refuse: 100}
	w.conf = func(c *NodeConfig) { c.Ledger = l }
	w.start(0)
	w.to(5)
	w.commit(0, policyA, 1)
	w.window(0, 0)
	if s := w.nodes[0].Status(); s.Winner != w.miners[0] || l.set != 0 {
		t.Fatalf("winner %q, %d set", s.Winner, l.set)
	}
	l.refuse = 2
	for block := range uint64(5) {
		w.to(93+block, 0)
	}
	w.agree(w.miners[0], 0)
	if l.set != 1 {
		t.Errorf("weights were set %d times", l.set)
	}
	w.to(96+360, 0)
	if l.set != 2 {
		t.Errorf("after 360 blocks weights were set %d times", l.set)
	}
}

// A validator without any memory adopts, in the middle of a window, what the
// others agreed on in the one before.
func TestStartAdopts(t *testing.T) {
	w := newWorld(t, 40_000, 35_000)
	w.to(5)
	w.commit(0, policyA, 1)
	w.window(0, 0, 1)
	w.agree(w.miners[0], 0, 1)
	w.dirs[1] = t.TempDir()
	w.eval[1] = func(*packfile.Pack) (Evaluation, error) { return Evaluation{}, ErrProvider }
	w.start(1)
	w.to(130, 1)
	w.agree(w.miners[0], 0, 1)
	if s := w.nodes[1].Status(); s.Agreed != 0 || s.Published >= 0 {
		t.Errorf("%+v", s)
	}
}

// Where the ledger has no history, the present commitment's block makes a
// miner late and nobody early; miners of a coldkey on the list are passed over.
func TestDiscover(t *testing.T) {
	w := newWorld(t, 40_000)
	l := &shaky{Ledger: w.l, history: errors.New("pruned")}
	listed := ""
	w.conf = func(c *NodeConfig) { c.Ledger, c.Blacklist = l, []string{listed} }
	w.start(0)
	w.to(5)
	a := w.commit(0, policyA, 1)
	w.to(8)
	w.commit(1, policyB, 2)
	w.to(20)
	w.commit(0, policyA, 1) // again: only the history knows that it was the first
	m, err := w.l.Metagraph(t.Context(), testNet)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		history error
		listed  string
		packs   int
		block   uint64
	}{
		"no history": {l.history, "", 2, 20},
		"history":    {nil, "", 2, 5},
		"listed":     {nil, w.miners[0], 1, 0},
	} {
		l.history, listed = c.history, c.listed
		w.start(0)
		list, seen, err := w.nodes[0].discover(t.Context(), m)
		if err != nil || len(list) != c.packs || seen[w.miners[0]].Block != c.block || c.block > 0 && seen[w.miners[0]].Hash != a.Hash {
			t.Errorf("%s: %d packs, seen %+v, %v", name, len(list), seen, err)
		}
	}
}
