package local

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
)

// What an owner and a miner are told that a day pays is what an epoch pays, by its
// part of the day: with a pool and without, where a second mechanism has its part, too.
func TestForecastIsPaid(t *testing.T) {
	for name, c := range map[string]struct {
		pool   uint64
		second bool
	}{"stable": {}, "pool": {pool: 1e15}, "two mechanisms": {pool: 1e15, second: true}} {
		l := open(t, filepath.Join(t.TempDir(), "l.db"), Config{Preset: PresetLocal, Stepped: true})
		ctx := t.Context()
		h, err := Hyperparameters(PresetLocal)
		if err != nil {
			t.Fatal(err)
		}
		h.Tempo, h.WeightsRateLimit, h.CommitReveal = 100, 0, false
		owner, cold := ledgertest.Key(t, "owner"), ledgertest.Key(t, "owner-cold")
		if err := l.EnsureSubnet(ctx, 1, Subnet{OwnerHotkey: owner, OwnerColdkey: cold, Hyper: &h, Pool: c.pool, Moving: min(c.pool, 1e9)}); err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"val", "best", "good"} {
			if _, err := l.Register(ctx, 1, ledgertest.Key(t, who), ledgertest.Key(t, who+"-cold")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Step(ctx, 1); err != nil { // weights given in the block of a registration do not count
			t.Fatal(err)
		}
		val := ledgertest.Key(t, "val")
		if err := l.SetValidator(ctx, 1, val, true, 1e12); err != nil {
			t.Fatal(err)
		}
		if err := l.SetWeights(ctx, 1, val, ledger.Weights{UIDs: []uint16{2, 3}, Values: []uint16{3, 1}}); err != nil {
			t.Fatal(err)
		}
		if c.second {
			if err := l.SetRule(ctx, 1, cold, "mechanism_count", 2); err != nil {
				t.Fatal(err)
			}
			if err := l.SetMechanismSplit(ctx, 1, cold, []uint16{49151, 16384}); err != nil {
				t.Fatal(err)
			}
		}
		// A whole epoch is looked at, from the one before.
		var had [4]uint64
		var m *ledger.Metagraph
		for _, blocks := range []uint64{105, 100} {
			if m != nil {
				for i, n := range m.Neurons {
					had[i] = n.Stake
				}
			}
			if _, err := l.Step(ctx, blocks); err != nil {
				t.Fatal(err)
			}
			if m, err = l.Metagraph(ctx, 1); err != nil {
				t.Fatal(err)
			}
		}
		e := ledger.EconomyOf(m, 12*time.Second)
		day, err := e.Day()
		if err != nil {
			t.Fatal(err)
		}
		for uid, share := range map[int]float64{2: 0.75, 3: 0.25} {
			want := ledger.Part(e.Of(0, day.Miners), share) / 72 // an epoch is 100 of 7200 blocks
			if got := m.Neurons[uid].Stake - had[uid]; want == 0 || got < want-want/1000 || got > want+want/1000 {
				t.Errorf("%s: uid %d had %d in an epoch, the forecast says %d", name, uid, got, want)
			}
		}
	}
}
