package local

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
)

// whole makes a subnet of 256 neurons, 64 of them validators that weigh all, on
// each of its mechanisms.
func whole(b *testing.B, l *Ledger, mechanisms int, reserve uint64) {
	b.Helper()
	ctx := b.Context()
	h := l.hyper
	h.WeightsRateLimit, h.ActivityCutoffFactor = 0, 1<<40
	owner, cold := ledgertest.Key(b, "owner"), ledgertest.Key(b, "owner-cold")
	if err := l.EnsureSubnet(ctx, 1, Subnet{OwnerHotkey: owner, OwnerColdkey: cold, Hyper: &h, Pool: reserve, Moving: tao}); err != nil {
		b.Fatal(err)
	}
	if err := l.SetRule(ctx, 1, cold, "mechanism_count", int64(mechanisms)); err != nil {
		b.Fatal(err)
	}
	all := ledger.Weights{UIDs: []uint16{0}, Values: []uint16{0}}
	for i := 1; i < 256; i++ {
		if _, err := l.Register(ctx, 1, ledgertest.Key(b, fmt.Sprint(i)), ledgertest.Key(b, "cold")); err != nil {
			b.Fatal(err)
		}
		all.UIDs, all.Values = append(all.UIDs, uint16(i)), append(all.Values, uint16(i*251))
	}
	if l.blockTime == 0 {
		step(b, l, 1)
	}
	for i := 1; i <= 64; i++ {
		hotkey := ledgertest.Key(b, fmt.Sprint(i))
		if err := l.SetValidator(ctx, 1, hotkey, true, uint64(i)*tao); err != nil {
			b.Fatal(err)
		}
		for id := range mechanisms {
			if err := l.SetMechanismWeights(ctx, 1, uint8(id), hotkey, all); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkWholeYear is a year of blocks of 12 seconds, 7,300 epochs, of a subnet
// of 256 neurons with two mechanisms, on which each epoch pays: with a TAO of
// stake a TAO, and with a pool, into which each block emits, and the root network's claims.
func BenchmarkWholeYear(b *testing.B) {
	for name, reserve := range map[string]uint64{"stable": 0, "alpha": 1_000_000 * tao} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				l := stepped(b, PresetLocal)
				whole(b, l, 2, reserve)
				if reserve > 0 {
					must(b, l.AddStake(b.Context(), ledger.Root, key(b, "1"), key(b, "cold"), 500*tao))
				}
				step(b, l, 2_628_000)
			}
		})
	}
}

// BenchmarkStateAt reads a subnet of 256 neurons and 64 dense validators as it
// was 1,000 blocks before, where one block in ten changed it; no block is read
// twice in a row.
func BenchmarkStateAt(b *testing.B) {
	ctx := b.Context()
	now := time.Unix(1_000_000, 0)
	l, err := Open(ctx, filepath.Join(b.TempDir(), "l.db"), Config{Preset: PresetLocal, BlockTime: time.Second, Genesis: now, Keep: 1100, Now: func() time.Time { return now }})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	now = now.Add(time.Second)
	whole(b, l, 1, 0)
	for range 110 {
		now = now.Add(10 * time.Second)
		if err := l.Fund(ctx, ledgertest.Key(b, "cold"), tao); err != nil {
			b.Fatal(err)
		}
	}
	newest := l.block()
	i := uint64(0)
	for b.Loop() {
		past, err := l.At(ctx, newest-1000+i%50*10)
		if err != nil {
			b.Fatal(err)
		}
		if m, err := past.Metagraph(ctx, 1); err != nil || len(m.Neurons) != 256 {
			b.Fatal(err)
		}
		i++
	}
}
