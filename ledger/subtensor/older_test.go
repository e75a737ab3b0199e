package subtensor_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// older is the metadata of 218 with what runtimes before alpha (143, 185) had
// otherwise: stake is a hotkey's on all subnets, and its calls name no subnet;
// nothing says by which epochs weights are revealed.
func older(t *testing.T) []byte {
	t.Helper()
	m, err := scale.Decode(chainMetadata(t, 218))
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Pallet("SubtensorModule")
	if err != nil {
		t.Fatal(err)
	}
	_, one, err := m.Storage("SubtensorModule", "LastTxBlock") // hotkey -> u64
	if err != nil {
		t.Fatal(err)
	}
	stake := *one
	stake.Name = "TotalHotkeyStake"
	p.Storage = slices.DeleteFunc(p.Storage, func(s scale.Storage) bool {
		return slices.Contains([]string{"TotalHotkeyAlpha", "SubnetOwnerHotkey", "RevealPeriodEpochs"}, s.Name)
	})
	p.Storage = append(p.Storage, stake)
	cut := 0
	for i := range p.Calls.Cases {
		if c := &p.Calls.Cases[i]; c.Name == "add_stake" || c.Name == "remove_stake" {
			c.Fields = slices.DeleteFunc(c.Fields, func(f scale.Field) bool { return f.Name == "netuid" })
			cut += len(c.Fields)
		}
	}
	if cut != 4 {
		t.Fatalf("the calls of stake have %d fields", cut)
	}
	b, err := m.Encode(14)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBeforeAlpha registers, stakes, plans and sets weights on a runtime whose
// stake belongs to no subnet.
func TestBeforeAlpha(t *testing.T) {
	l := newLedger(t)
	n := nodeOf(t, l, l, older(t), 185)
	c := client(t, subtensor.Config{URLs: []string{n.http.URL}})
	hot, cold := ledgertest.Key(t, "a"), ledgertest.Key(t, "a-cold")
	if err := l.Fund(t.Context(), cold, 100e9); err != nil {
		t.Fatal(err)
	}
	m, err := l.Metagraph(t.Context(), netuid)
	if err != nil {
		t.Fatal(err)
	}
	h := m.Hyper
	h.StakeThreshold, h.WeightsRateLimit, h.CommitReveal, h.MinAllowedWeights = 5e9, 0, false, 1
	if err := l.SetHyperparameters(t.Context(), netuid, h); err != nil {
		t.Fatal(err)
	}
	uid, err := c.Register(t.Context(), netuid, hot, cold)
	if err != nil {
		t.Fatal(err)
	}
	plan := func() ledger.Plan {
		t.Helper()
		m, err := c.Metagraph(t.Context(), netuid)
		if err != nil {
			t.Fatal(err)
		}
		return ledger.PlanWeights(m, hot, 0)
	}
	if p := plan(); p.Ready || !slices.ContainsFunc(p.Reasons, func(r ledger.Reason) bool { return r.Name == ledger.ErrNotEnoughStake.Name }) {
		t.Errorf("without stake: %+v", p)
	}
	if err := c.AddStake(t.Context(), netuid, hot, cold, 9e9); err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveStake(t.Context(), netuid, hot, cold, 2e9); err != nil {
		t.Fatal(err)
	}
	if m, err = c.Metagraph(t.Context(), netuid); err != nil {
		t.Fatal(err)
	}
	if got, ok := m.Neuron(hot); !ok || got.Stake != 7e9 || got.Coldkey != cold || m.Hyper.StakeThreshold != 5e9 {
		t.Errorf("neuron %+v, threshold %d", got, m.Hyper.StakeThreshold)
	}
	if err := l.SetValidator(t.Context(), netuid, hot, true, 7e9); err != nil {
		t.Fatal(err)
	}
	if p := plan(); !p.Ready || p.Call != ledger.CallSetWeights {
		t.Errorf("with stake: %+v", p)
	}
	if err := c.SetWeights(t.Context(), netuid, hot, ledger.Weights{UIDs: []uint16{0}, Values: []uint16{65535}}); err != nil {
		t.Fatal(err)
	}
	if m, err = c.Metagraph(t.Context(), netuid); err != nil || len(m.Weights) != 1 || m.Weights[0].UID != uid {
		t.Errorf("weights %+v: %v", m.Weights, err)
	}
	// Such a runtime bounds reveals by blocks: what is committed here would be lost.
	var refused *ledger.Error
	if err := c.CommitWeights(t.Context(), netuid, hot, ledger.Hash{1}); !errors.As(err, &refused) || refused.Name != "CommitRevealByBlocks" {
		t.Errorf("commit: %v", err)
	}
}
