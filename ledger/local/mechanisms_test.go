package local

import (
	"bytes"
	"encoding/hex"
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
)

// Two mechanisms share a subnet's emission 80 to 20: each has weights, bonds and
// incentive of its own, what they pay is added, and the rest is joined by their
// shares. The state is the same when it is made again from the log.
func TestMechanisms(t *testing.T) {
	ctx := t.Context()
	l, err := Open(ctx, filepath.Join(t.TempDir(), "l.db"), Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h, err := Hyperparameters(PresetDemo)
	if err != nil {
		t.Fatal(err)
	}
	h.EmissionStaked, h.OwnerCut, h.Tempo = true, 0, 100
	owner, cold := ledgertest.Key(t, "owner"), ledgertest.Key(t, "owner-cold")
	if err := l.EnsureSubnet(ctx, 1, Subnet{OwnerHotkey: owner, OwnerColdkey: cold, Hyper: &h}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"val", "left", "right"} {
		if _, err := l.Register(ctx, 1, ledgertest.Key(t, name), ledgertest.Key(t, name+"-cold")); err != nil {
			t.Fatal(err)
		}
	}
	val := ledgertest.Key(t, "val")
	if err := l.SetValidator(ctx, 1, val, true, 100*tao); err != nil {
		t.Fatal(err)
	}
	if err := l.SetMechanismWeights(ctx, 1, 1, val, ledger.Weights{UIDs: []uint16{3}, Values: []uint16{1}}); !errors.Is(err, ledger.ErrMechanismNotExists) {
		t.Errorf("a mechanism that is not there: %v", err)
	}
	for want, err := range map[error]error{
		ledger.ErrBadOrigin:    l.SetRule(ctx, 1, val, "mechanism_count", 2),
		ledger.ErrInvalidValue: l.SetMechanismSplit(ctx, 1, cold, []uint16{65534, 1}),
		nil:                    l.SetRule(ctx, 1, cold, "mechanism_count", 2),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if err := l.SetMechanismSplit(ctx, 1, cold, []uint16{52428, 13107}); err != nil {
		t.Fatal(err)
	}
	step(t, l, 1)
	for id, uid := range []uint16{2, 3} {
		if err := l.SetMechanismWeights(ctx, 1, uint8(id), val, ledger.Weights{UIDs: []uint16{uid}, Values: []uint16{7}}); err != nil {
			t.Fatal(err)
		}
	}
	before := graph(t, l, 1)
	step(t, l, 100)
	m := graph(t, l, 1)
	second, ok := m.Mechanism(1)
	if _, third := m.Mechanism(2); !ok || third || second.Weights[0].UIDs[0] != 3 || m.Weights[0].UIDs[0] != 2 {
		t.Fatalf("mechanisms %+v", m.Mechanisms)
	}
	if m.Neurons[2].Incentive != 65535 || m.Neurons[3].Incentive != 0 || second.Neurons[2].Incentive != 0 || second.Neurons[3].Incentive != 65535 {
		t.Errorf("incentive %+v %+v", m.Neurons[2:], second.Neurons[2:])
	}
	if m.Neurons[2].Consensus != 52427 || m.Neurons[3].Consensus != 13106 && m.Neurons[3].Consensus != 13107 { // floor(65535 · w): w has 64 bits of fraction
		t.Errorf("consensus %d and %d", m.Neurons[2].Consensus, m.Neurons[3].Consensus)
	}
	paid := func(uid int) uint64 { return m.Neurons[uid].Stake - before.Neurons[uid].Stake }
	pot := paid(1) + paid(2) + paid(3)
	if pot != 100*tao && pot != 99*tao && pot != 101*tao {
		t.Errorf("%d rao are paid", pot)
	}
	near := func(what string, got, want uint64) {
		if got+5 < want || got > want+5 {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	near("the first mechanism's miner", paid(2), pot/2*4/5)
	near("the second's", paid(3), pot/2/5)
	near("the validator of both", paid(1), pot/2)
	for id, uid := range []uint16{2, 3} {
		rows, err := l.MechanismBonds(ctx, 1, uint8(id))
		if err != nil || len(rows) != 1 || rows[0].UID != 1 || len(rows[0].UIDs) != 1 || rows[0].UIDs[0] != uid {
			t.Errorf("bonds of mechanism %d: %+v %v", id, rows, err)
		}
	}
	b, err := l.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.Replay(ctx, 0)
	if err != nil || !bytes.Equal(b, again) {
		t.Errorf("made again from the log the state is another: %v", err)
	}
	// A registration later has a book on each, and who goes takes all along.
	if _, err := l.Register(ctx, 1, ledgertest.Key(t, "late"), ledgertest.Key(t, "late-cold")); err != nil {
		t.Fatal(err)
	}
	if second, _ = graph(t, l, 1).Mechanism(1); second.Neurons[4].LastUpdate != second.Block {
		t.Errorf("a new neuron: %+v", second.Neurons[4])
	}
	if err := l.SetRule(ctx, 1, cold, "mechanism_count", 1); err != nil {
		t.Fatal(err)
	}
	if m = graph(t, l, 1); m.Mechanisms != nil || m.MechanismSplit != nil || m.Weights[0].UIDs[0] != 2 {
		t.Errorf("with one mechanism: %+v", m)
	}
}

// What is promised on a mechanism is hashed with its storage index, and
// revealed there; timelocked weights of a mechanism are opened into it.
func TestMechanismCommits(t *testing.T) {
	ctx := t.Context()
	l, err := Open(ctx, filepath.Join(t.TempDir(), "l.db"), Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h, err := Hyperparameters(PresetDemo)
	if err != nil {
		t.Fatal(err)
	}
	h.CommitReveal = true
	owner, cold := ledgertest.Key(t, "owner"), ledgertest.Key(t, "owner-cold")
	if err := l.EnsureSubnet(ctx, 1, Subnet{OwnerHotkey: owner, OwnerColdkey: cold, Hyper: &h}); err != nil {
		t.Fatal(err)
	}
	if err := l.SetRule(ctx, 1, cold, "mechanism_count", 2); err != nil {
		t.Fatal(err)
	}
	step(t, l, 1)
	w, salt := ledger.Weights{UIDs: []uint16{0}, Values: []uint16{65535}}, []uint16{1, 2}
	hash, err := ledger.CommitHash(owner, 1+ledger.MechanismStep, w, salt)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.CommitMechanismWeights(ctx, 1, 1, owner, hash); err != nil {
		t.Fatal(err)
	}
	if err := l.CommitTimelockedMechanism(ctx, 1, 1, owner, sealed(t, owner, 1000, []uint16{0}, []uint16{5}), 1000, 4); !errors.Is(err, ledger.ErrCommittingTooFast) {
		t.Errorf("a second promise at once: %v", err)
	}
	m := graph(t, l, 1)
	second, _ := m.Mechanism(1)
	if len(m.Neurons[0].Commits) != 0 || len(second.Neurons[0].Commits) != 1 || second.Neurons[0].Commits[0].Hash != hash {
		t.Fatalf("commits %+v and %+v", m.Neurons[0].Commits, second.Neurons[0].Commits)
	}
	step(t, l, 20)
	if err := l.RevealWeights(ctx, 1, owner, w, salt); !errors.Is(err, ledger.ErrNoWeightsCommit) {
		t.Errorf("revealed on the first mechanism: %v", err)
	}
	if err := l.RevealMechanismWeights(ctx, 1, 1, owner, w, salt); err != nil {
		t.Fatal(err)
	}
	if err := l.CommitTimelockedMechanism(ctx, 1, 1, owner, sealed(t, owner, 1000, []uint16{0}, []uint16{5}), 1000, 4); err != nil {
		t.Fatal(err)
	}
	at := graph(t, l, 1).Block
	step(t, l, 20)
	signature, err := hex.DecodeString(round1000)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.AddRound(ctx, 1000, signature); err != nil {
		t.Fatal(err)
	}
	m = graph(t, l, 1)
	second, _ = m.Mechanism(1)
	if len(m.Weights) != 0 || len(second.Weights) != 1 || !reflect.DeepEqual(second.Weights[0].UIDs, []uint16{0}) || second.Weights[0].Block <= at {
		t.Errorf("weights %+v and %+v", m.Weights, second.Weights)
	}
}
