package local

import (
	"errors"
	"testing"

	"github.com/agon-arena/agon/ledger"
)

// TestNull: under Null the most stake has the only permit, its numbers are kept and paid by as they are,
// bonds wait, and Yuma finds its permits again.
func TestNull(t *testing.T) {
	l := dynamic(t, 1_000*tao)
	ctx, owner := t.Context(), key(t, "owner-cold")
	rich, poor, a, b := enter(t, l, "rich", 300*tao), enter(t, l, "poor", 100*tao), enter(t, l, "a", 0), enter(t, l, "b", 0)
	epoch := func() *ledger.Metagraph {
		t.Helper()
		must(t, l.TriggerEpoch(ctx, 1))
		_, err := l.Step(ctx, 2)
		must(t, err)
		return graph(t, l, 1)
	}
	epoch() // permits
	for _, name := range []string{"rich", "poor"} {
		must(t, l.SetWeights(ctx, 1, key(t, name), ledger.Weights{UIDs: []uint16{a, b}, Values: []uint16{1, 1}}))
	}
	before := epoch()
	bonds, err := l.Bonds(ctx, 1)
	must(t, err)
	if before.Hyper.MaxValidators != 8 || !before.Neurons[poor].Permit || len(bonds) != 2 {
		t.Fatalf("under Yuma: %+v, bonds %v", before.Neurons, bonds)
	}
	if err := l.SetRule(ctx, 1, key(t, "poor-cold"), "null_consensus", 1); !errors.Is(err, ledger.ErrBadOrigin) {
		t.Errorf("by another than the owner: %v", err)
	}
	must(t, l.SetRule(ctx, 1, owner, "null_consensus", 1), l.SetRule(ctx, 1, owner, "null_consensus", 1))
	if err := l.SetRule(ctx, 1, owner, "max_allowed_validators", 2); !errors.Is(err, ledger.ErrInvalidValue) {
		t.Errorf("two validators under Null: %v", err)
	}
	w := ledger.Weights{UIDs: []uint16{a, b}, Values: []uint16{3, 1}}
	if err := l.SetWeights(ctx, 1, key(t, "poor"), w); !errors.Is(err, ledger.ErrNoPermit) {
		t.Errorf("weights of who has less stake: %v", err)
	}
	must(t, l.SetWeights(ctx, 1, key(t, "rich"), w))
	m := epoch()
	if m.Hyper.MaxValidators != 1 || !m.Neurons[rich].Permit || m.Neurons[poor].Permit || m.Weights[0].Values[0] != 3 {
		t.Errorf("under Null: %+v, weights %v", m.Neurons, m.Weights)
	}
	if x, y := m.Neurons[a], m.Neurons[b]; x.Incentive != 49151 || y.Incentive != 16383 || x.Emission < 2*y.Emission {
		t.Errorf("miners %+v and %+v", x, y)
	}
	if d := m.Neurons[poor].Dividends; d == 0 || d > m.Neurons[rich].Dividends/2 {
		t.Errorf("dividends %d and %d", m.Neurons[rich].Dividends, d)
	}
	if now, err := l.Bonds(ctx, 1); err != nil || len(now) != 2 || now[0].Values[0] != bonds[0].Values[0] {
		t.Errorf("bonds %v, of before %v: %v", now, bonds, err)
	}
	balanced(t, l, 1, 0)
	must(t, l.SetRule(ctx, 1, owner, "null_consensus", 0))
	if m = epoch(); m.Hyper.MaxValidators != 8 || !m.Neurons[poor].Permit {
		t.Errorf("back under Yuma: %+v", m.Hyper)
	}
	must(t, l.view(ctx, func(s *state) error {
		if s.Subnets[1].Null != nil {
			t.Error("what Yuma had is kept after its epoch")
		}
		return nil
	}))
}

// TestNullWaits: what is sealed is opened first, and of two epochs that are due one of Null runs alone.
func TestNullWaits(t *testing.T) {
	l := dynamic(t, 1_000*tao, 1_000*tao)
	ctx, owner := t.Context(), key(t, "owner-cold")
	must(t, l.view(ctx, func(s *state) error {
		sub := s.Subnets[1]
		sub.Sealed = []ledger.SealedCommit{{}}
		if err := s.setNull(1, sub, true); !errors.Is(err, ledger.ErrInvalidValue) || sub.Hyper.NullConsensus {
			t.Errorf("with weights that are sealed: %v", err)
		}
		sub.Sealed = nil
		return nil
	}))
	for _, n := range []uint16{1, 2} {
		must(t, l.SetRule(ctx, n, owner, "null_consensus", 1), l.TriggerEpoch(ctx, n))
	}
	at, err := l.Step(ctx, 1)
	must(t, err)
	_, err = l.Step(ctx, 1)
	must(t, err)
	second, err := l.Metagraph(ctx, 2)
	must(t, err)
	if first := graph(t, l, 1); first.Epoch.LastBlock != at || second.Epoch.LastBlock != at+1 {
		t.Errorf("epochs at %d and %d, due at %d", first.Epoch.LastBlock, second.Epoch.LastBlock, at)
	}
}
