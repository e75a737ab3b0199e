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
		if _, err := s.trieOf(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
	}
}
