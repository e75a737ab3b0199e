package rpc

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
)

// On a ledger whose subnets have pools each block's header names the pools too: a
// stranger reads their reserves, prices and pots by proofs.
func TestHeadersOfPools(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Preset: local.PresetDemo, BlockTime: time.Second, Keep: 64, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := New(Config{Ledger: l, Genesis: "pools", Replay: l, BlockTime: l.BlockTime(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	x := stranger{t, s}
	const tao = 1_000_000_000
	hot, cold := ledgertest.Key(t, "owner"), ledgertest.Key(t, "owner-cold")
	for netuid := uint16(1); netuid <= 2; netuid++ {
		if err := l.EnsureSubnet(t.Context(), netuid, local.Subnet{OwnerHotkey: hot, OwnerColdkey: cold, Pool: 1000 * tao, Moving: tao}); err != nil {
			t.Fatal(err)
		}
	}
	keys := map[string][]byte{}
	for _, item := range []string{"SubnetTAO", "SubnetAlphaIn", "SubnetAlphaOut", "SubnetMovingPrice", "PendingServerEmission", "RootProp"} {
		if keys[item], err = s.meta.StorageKey("SubtensorModule", item, uint64(1)); err != nil {
			t.Fatal(err)
		}
	}
	if keys["total"], err = s.meta.StorageKey("SubtensorModule", "TotalIssuance"); err != nil {
		t.Fatal(err)
	}
	if keys["balance"], err = s.meta.StorageKey("System", "Account", cold); err != nil {
		t.Fatal(err)
	}
	roots, reserves := map[string]bool{}, map[string]bool{}
	for n := uint64(1); n <= 45; n++ { // two epochs of 20 blocks
		now = now.Add(time.Second)
		switch {
		case n == 7:
			if err := l.AddStake(t.Context(), 1, hot, cold, 10*tao); err != nil {
				t.Fatal(err)
			}
		case n == 12:
			if err := l.AddStake(t.Context(), 0, hot, cold, 10*tao); err != nil {
				t.Fatal(err)
			}
		case n > 20 && n%3 > 0:
			continue // several blocks are sealed at once
		}
		hash, h, _ := x.block(n - 1)
		roots[h.StateRoot] = true
		if n == 1 {
			continue // the genesis names the ledger
		}
		s.sealing.Lock()
		s.sealer.tries = nil // a proof begins with the whole state
		s.sealing.Unlock()
		for _, key := range keys {
			x.read(hash, h, key)
		}
		reserves[string(x.read(hash, h, keys["SubnetTAO"]))] = true
	}
	if len(roots) < 28 || len(reserves) < 28 {
		t.Errorf("%d roots and %d reserves", len(roots), len(reserves))
	}
}
