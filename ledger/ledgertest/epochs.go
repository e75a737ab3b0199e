package ledgertest

import (
	"slices"
	"testing"

	"github.com/agon-arena/agon/ledger"
)

// nextEpoch lets blocks pass to the first block of the next epoch.
func nextEpoch(t *testing.T, b *Bench) *ledger.Metagraph {
	t.Helper()
	m := metagraph(t, b)
	next, err := m.NextEpoch()
	if err != nil {
		t.Fatal(err)
	}
	b.Advance(next - m.Block)
	after := metagraph(t, b)
	if after.EpochIndex() != m.EpochIndex()+1 {
		t.Fatalf("epoch %d at block %d, %d at block %d", m.EpochIndex(), m.Block, after.EpochIndex(), after.Block)
	}
	return after
}

// testEpochs checks what an epoch decides: permits by stake, incentive by weights.
func testEpochs(t *testing.T, b *Bench) {
	v, _ := register(t, b, "v")
	_, muid := register(t, b, "m")
	b.Hyper(func(h *ledger.Hyperparameters) { h.Tempo, h.WeightsRateLimit = 20, 1 })
	b.Validator(v, 100)
	m := nextEpoch(t, b)
	if n, _ := m.Neuron(v); !n.Permit {
		t.Errorf("the only stake has no permit: %+v", n)
	}
	if n, _ := m.Neuron(Key(t, "m")); n.Permit {
		t.Errorf("a hotkey without stake has a permit: %+v", n)
	}
	b.Advance(1)
	want(t, "set", b.Ledger.SetWeights(t.Context(), b.Netuid, v, ledger.Weights{UIDs: []uint16{muid}, Values: []uint16{1}}), nil)
	m = nextEpoch(t, b)
	n, _ := m.Neuron(Key(t, "m"))
	val, _ := m.Neuron(v)
	if n.Incentive != 65535 || n.Consensus != 65535 || val.Dividends != 65535 || val.ValidatorTrust != 65535 || n.Emission == 0 || n.Emission < val.Emission-1 {
		t.Errorf("miner %+v, validator %+v", n, val)
	}
}

func testCommitReveal(t *testing.T, b *Bench) {
	ctx := t.Context()
	l, ok := b.Ledger.(ledger.WeightCommitter)
	if !ok {
		t.Fatalf("%T commits no weights", b.Ledger)
	}
	v, uid := register(t, b, "v")
	w := ledger.Weights{UIDs: []uint16{0, uid}, Values: []uint16{65535, 7}, VersionKey: 3}
	salt := []uint16{1, 2, 3}
	hash, err := ledger.CommitHash(v, b.Netuid, w, salt)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "where weights are set directly", l.CommitWeights(ctx, b.Netuid, v, hash), ledger.ErrCommitRevealDisabled)
	want(t, "reveal where weights are set directly", l.RevealWeights(ctx, b.Netuid, v, w, salt), ledger.ErrCommitRevealDisabled)
	b.Hyper(func(h *ledger.Hyperparameters) {
		h.Tempo, h.WeightsRateLimit, h.CommitReveal, h.RevealPeriod, h.WeightsVersionKey = 20, 5, true, 2, 3
	})
	b.Validator(v, 100)
	b.Advance(5)
	want(t, "root", l.CommitWeights(ctx, 0, v, hash), ledger.ErrRootWeights)
	want(t, "stranger", l.CommitWeights(ctx, b.Netuid, Key(t, "x"), hash), ledger.ErrNotRegistered)
	want(t, "nothing committed", l.RevealWeights(ctx, b.Netuid, v, w, salt), ledger.ErrNoWeightsCommit)
	nextEpoch(t, b)
	want(t, "commit", l.CommitWeights(ctx, b.Netuid, v, hash), nil)
	at := metagraph(t, b)
	if n, _ := at.Neuron(v); len(n.Commits) != 1 || n.Commits[0].Hash != hash || n.Commits[0].Epoch != at.EpochIndex() || n.LastUpdate != n.Commits[0].Block {
		t.Errorf("after a commit: %+v", n)
	}
	want(t, "commit at once again", l.CommitWeights(ctx, b.Netuid, v, hash), ledger.ErrCommittingTooFast)
	want(t, "reveal in the same epoch", l.RevealWeights(ctx, b.Netuid, v, w, salt), ledger.ErrRevealTooEarly)
	nextEpoch(t, b)
	want(t, "reveal an epoch early", l.RevealWeights(ctx, b.Netuid, v, w, salt), ledger.ErrRevealTooEarly)
	nextEpoch(t, b)
	want(t, "another salt", l.RevealWeights(ctx, b.Netuid, v, w, salt[:2]), ledger.ErrRevealMismatch)
	want(t, "reveal", l.RevealWeights(ctx, b.Netuid, v, w, salt), nil)
	m := metagraph(t, b)
	if len(m.Weights) != 1 || m.Weights[0].UID != uid || !slices.Equal(m.Weights[0].Values, w.Values) {
		t.Errorf("weights %+v", m.Weights)
	}
	if n, _ := m.Neuron(v); len(n.Commits) != 0 || n.LastUpdate >= m.Epoch.LastBlock {
		t.Errorf("after a reveal: %+v", n)
	}
	want(t, "reveal twice", l.RevealWeights(ctx, b.Netuid, v, w, salt), ledger.ErrNoWeightsCommit)

	// What is checked of the weights is checked when they are revealed.
	bad := ledger.Weights{UIDs: []uint16{0, 0}, Values: []uint16{1, 1}, VersionKey: 3}
	if hash, err = ledger.CommitHash(v, b.Netuid, bad, nil); err != nil {
		t.Fatal(err)
	}
	want(t, "commit of bad weights", l.CommitWeights(ctx, b.Netuid, v, hash), nil)
	nextEpoch(t, b)
	nextEpoch(t, b)
	want(t, "reveal of bad weights", l.RevealWeights(ctx, b.Netuid, v, bad, nil), ledger.ErrDuplicateUIDs)
	nextEpoch(t, b)
	want(t, "too late", l.RevealWeights(ctx, b.Netuid, v, bad, nil), ledger.ErrExpiredCommit)
}

// testPlan holds plans against what the ledger then does.
func testPlan(t *testing.T, b *Bench) {
	ctx := t.Context()
	b.Hyper(func(h *ledger.Hyperparameters) { h.Tempo, h.WeightsRateLimit, h.MaxValidators = 30, 12, 1 })
	b.Advance(1)
	v, uid := register(t, b, "v")
	b.Validator(v, 100)
	set := func() error {
		return b.Ledger.SetWeights(ctx, b.Netuid, v, ledger.Weights{UIDs: []uint16{0, uid}, Values: []uint16{1, 1}})
	}
	for range 3 {
		p := ledger.PlanWeights(metagraph(t, b), v, 0)
		if p.Ready || p.Earliest <= p.Block || len(p.Reasons) != 1 || p.Reasons[0].Name != ledger.ErrSettingWeightsTooFast.Name {
			t.Fatalf("plan %+v", p)
		}
		b.Advance(p.Earliest - p.Block - 1)
		want(t, "a block before the plan's", set(), ledger.ErrSettingWeightsTooFast)
		b.Advance(1)
		if p = ledger.PlanWeights(metagraph(t, b), v, 0); !p.Ready {
			t.Fatalf("plan %+v", p)
		}
		want(t, "at the plan's block", set(), nil)
	}
}
