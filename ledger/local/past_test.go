package local

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
)

// The state of each of the last blocks is what was read when it was the newest;
// it changes no more, takes no calls, and older ones are discarded.
func TestAt(t *testing.T) {
	const keep = 200
	l, err := Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), Config{Preset: PresetDemo, Stepped: true, Keep: keep})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := t.Context()
	owner := ledgertest.Key(t, "owner")
	if err := l.EnsureSubnet(ctx, 1, Subnet{OwnerHotkey: owner, OwnerColdkey: ledgertest.Key(t, "cold")}); err != nil {
		t.Fatal(err)
	}
	look := func(from ledger.Full) string {
		m, err := from.Metagraph(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	seen := map[uint64]string{}
	for block := range uint64(500) {
		if block%7 == 3 {
			if _, err := l.Register(ctx, 1, ledgertest.Key(t, string(rune('a'+block%26))+string(rune('a'+block/26))), ledgertest.Key(t, "cold")); err != nil {
				t.Fatal(err)
			}
			if err := l.SetWeights(ctx, 1, owner, ledger.Weights{UIDs: []uint16{0, 1}, Values: []uint16{uint16(block), 9}}); err != nil {
				t.Fatal(err)
			}
		}
		seen[block] = look(l)
		if _, err := l.Step(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, block := range []uint64{499, 450, 451, 333, 332, 310, 301, 450} {
		past, err := l.At(ctx, block)
		if err != nil {
			t.Fatalf("block %d: %v", block, err)
		}
		if got := look(past); got != seen[block] {
			t.Errorf("block %d was %s, is %s", block, seen[block], got)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := past.SetWeights(ended, 1, owner, ledger.Weights{UIDs: []uint16{0}, Values: []uint16{1}}); err == nil {
			t.Error("a block that is over takes weights")
		}
	}
	if now, err := l.At(ctx, 500); err != nil || look(now) != look(l) {
		t.Errorf("the newest block: %v", err)
	}
	if _, err := l.At(ctx, 100); !errors.Is(err, ledger.ErrDiscarded) {
		t.Errorf("block 100 of 500: %v", err)
	}
	plain, err := Open(ctx, filepath.Join(t.TempDir(), "l.db"), Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := plain.At(ctx, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a ledger that keeps nothing: %v", err)
	}
}
