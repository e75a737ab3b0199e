package rpc

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
)

// BenchmarkStateRoot makes the trie of a subnet of 256 neurons with weights, as
// each block does in which something changed.
func BenchmarkStateRoot(b *testing.B) {
	l, err := local.Open(b.Context(), filepath.Join(b.TempDir(), "l.db"), local.Config{BlockTime: time.Hour, Keep: 4})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	owner := ledgertest.Key(b, "owner")
	if err := l.EnsureSubnet(b.Context(), 1, local.Subnet{OwnerHotkey: owner, OwnerColdkey: ledgertest.Key(b, "cold")}); err != nil {
		b.Fatal(err)
	}
	w := ledger.Weights{}
	for i := range 255 {
		uid, err := l.Register(b.Context(), 1, ledgertest.Key(b, string(rune('a'+i%26))+string(rune('a'+i/26))), ledgertest.Key(b, "cold"))
		if err != nil {
			b.Fatal(err)
		}
		w.UIDs, w.Values = append(w.UIDs, uid), append(w.Values, uint16(i+1))
	}
	if err := l.SetWeights(b.Context(), 1, owner, w); err != nil {
		b.Log(err)
	}
	s, err := New(Config{Ledger: l, Genesis: "bench", Replay: l, BlockTime: l.BlockTime()})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s.sealer.tries = nil
		if _, err := s.trieOf(b.Context(), 0, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPooledRoot seals a block in which only the pools changed, of a subnet of 256 neurons.
func BenchmarkPooledRoot(b *testing.B) {
	now := time.Unix(1_800_000_000, 0)
	l, err := local.Open(b.Context(), filepath.Join(b.TempDir(), "l.db"), local.Config{BlockTime: time.Second, Keep: 256, Now: func() time.Time { return now }})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	h, err := local.Hyperparameters(local.PresetDemo)
	if err != nil {
		b.Fatal(err)
	}
	h.Tempo = 50_000
	cold := ledgertest.Key(b, "cold")
	if err := l.EnsureSubnet(b.Context(), 1, local.Subnet{OwnerHotkey: ledgertest.Key(b, "owner"), OwnerColdkey: cold, Hyper: &h, Pool: 1e15, Moving: 1e9}); err != nil {
		b.Fatal(err)
	}
	for i := range 255 {
		if _, err := l.Register(b.Context(), 1, ledgertest.Key(b, string(rune('a'+i%26))+string(rune('a'+i/26))), cold); err != nil {
			b.Fatal(err)
		}
	}
	s, err := New(Config{Ledger: l, Genesis: "bench", Replay: l, BlockTime: l.BlockTime(), Now: func() time.Time { return now }})
	if err != nil {
		b.Fatal(err)
	}
	n := uint64(0)
	seal := func() {
		now = now.Add(time.Second)
		if _, err := s.hash(b.Context(), n); err != nil {
			b.Fatal(err)
		}
		n++
	}
	for range 3 {
		seal()
	}
	for b.Loop() {
		seal()
	}
}
