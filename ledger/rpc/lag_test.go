package rpc

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
)

// A node whose finality lags tells an older final head, and what is read there
// is the state of that block; an older one than it keeps is discarded.
func TestLag(t *testing.T) {
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Preset: local.PresetDemo, Stepped: true, Keep: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.EnsureSubnet(t.Context(), 1, local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "cold")}); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Ledger: l, Genesis: "test", Replay: l, Lag: 3})
	if err != nil {
		t.Fatal(err)
	}
	who := ledgertest.Key(t, "owner")
	pub, err := auth.ParseSS58(who)
	if err != nil {
		t.Fatal(err)
	}
	nonce := uint64(0)
	for block := range uint64(40) {
		if block%2 == 0 {
			if ok, err := l.UseNonce(t.Context(), who, nonce); !ok || err != nil {
				t.Fatal(err)
			}
			nonce++
		}
		head := s.hashOf(block)
		final := s.hashOf(block - min(block, 3))
		if got := ask(t, s, `{"id":1,"method":"chain_getFinalizedHead","params":[]}`); !strings.Contains(got, hexHash(final)) {
			t.Fatalf("block %d: final head %s", block, got)
		}
		for at, want := range map[[32]byte]uint64{head: nonce, final: (block-min(block, 3))/2 + 1} {
			n, ok := s.numberOf(at)
			if !ok {
				t.Fatal("no block")
			}
			r, err := s.reading(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := r.nonceIn(t.Context(), r.ledger, pub); err != nil || got != want {
				t.Errorf("block %d of %d: nonce %d, want %d: %v", n, block, got, want, err)
			}
		}
		if _, err := l.Step(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	old := hexHash(s.hashOf(5))
	got := ask(t, s, fmt.Sprintf(`{"id":1,"method":"state_call","params":["NeuronInfoRuntimeApi_get_neurons_lite","0x0100","%s"]}`, old))
	if !strings.Contains(got, "4003") {
		t.Errorf("block 5 of 40: %s", got)
	}
}
