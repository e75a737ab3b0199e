package keeper

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
)

// A validator without a platform sets its weights on a subnet that wants them
// committed: they are promised, once a tempo, and revealed, over a restart too.
func TestKeptLedger(t *testing.T) {
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	v, err := auth.KeyFromURI("//v")
	if err != nil {
		t.Fatal(err)
	}
	hotkey := v.SS58()
	if err := l.EnsureSubnet(t.Context(), 3, local.Subnet{OwnerHotkey: hotkey, OwnerColdkey: hotkey}); err != nil {
		t.Fatal(err)
	}
	m, err := l.Metagraph(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	m.Hyper.Tempo, m.Hyper.WeightsRateLimit, m.Hyper.RevealPeriod = 20, 0, 1
	if err := l.SetHyperparameters(t.Context(), 3, m.Hyper); err != nil {
		t.Fatal(err)
	}
	step := func(n uint64) {
		t.Helper()
		if _, err := l.Step(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	weights := func() []uint16 {
		t.Helper()
		if m, err = l.Metagraph(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if len(m.Weights) == 0 {
			return nil
		}
		return m.Weights[0].Values
	}
	path := filepath.Join(t.TempDir(), "promises.json")
	open := func() *Kept {
		t.Helper()
		k, err := NewKept(l, 3, hotkey, path)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	step(1)
	k := open()
	want := ledger.Weights{UIDs: []uint16{0}, Values: []uint16{65535}}
	// Set directly where the subnet wants that.
	if err := k.SetWeights(t.Context(), 3, hotkey, want); err != nil || !slices.Equal(weights(), want.Values) {
		t.Fatalf("directly: %v, %v", weights(), err)
	}
	if err := k.Keep(t.Context()); err != nil || len(m.Neurons[0].Commits) != 0 {
		t.Errorf("a promise that nobody asked for: %v", err)
	}
	m.Hyper.CommitReveal = true
	if err := l.SetHyperparameters(t.Context(), 3, m.Hyper); err != nil {
		t.Fatal(err)
	}
	if err := k.SetWeights(t.Context(), 3, hotkey, want); err != nil {
		t.Fatal(err)
	}
	if weights(); len(m.Neurons[0].Commits) != 1 {
		t.Fatalf("%d promises", len(m.Neurons[0].Commits))
	}
	for range 2 {
		if err := k.SetWeights(t.Context(), 3, hotkey, want); err != nil {
			t.Errorf("again in the same tempo: %v", err)
		}
	}
	if weights(); len(m.Neurons[0].Commits) != 1 {
		t.Errorf("%d promises in one tempo", len(m.Neurons[0].Commits))
	}
	k = open() // another process
	step(20)
	if err := k.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if weights(); len(m.Neurons[0].Commits) != 0 || m.Weights[0].Block != m.Block {
		t.Errorf("not revealed: %+v, %+v", m.Neurons[0].Commits, m.Weights)
	}
	// Refusals keep their names.
	stranger, err := auth.KeyFromURI("//stranger")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewKept(l, 3, stranger.SS58(), filepath.Join(t.TempDir(), "other.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := other.SetWeights(t.Context(), 3, stranger.SS58(), want); !errors.Is(err, ledger.ErrNotRegistered) {
		t.Errorf("a stranger: %v", err)
	}
}
