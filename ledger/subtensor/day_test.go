package subtensor_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/keeper"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// TestDay lets a validator keep its weights for a day of blocks over JSON-RPC,
// on a subnet that commits and reveals: one promise and one reveal per tempo.
func TestDay(t *testing.T) {
	l, s := newBed(t)
	c := client(t, subtensor.Config{URLs: []string{"ws" + strings.TrimPrefix(s.URL, "http")}})
	v := ledgertest.Key(t, "v")
	if _, err := c.Register(t.Context(), netuid, v, ledgertest.Key(t, "v-cold")); err != nil {
		t.Fatal(err)
	}
	if err := l.SetValidator(t.Context(), netuid, v, true, 100); err != nil {
		t.Fatal(err)
	}
	m, err := l.Metagraph(t.Context(), netuid)
	if err != nil {
		t.Fatal(err)
	}
	h := m.Hyper
	h.Tempo, h.WeightsRateLimit, h.CommitReveal, h.RevealPeriod = 360, 100, true, 1
	if err := l.SetHyperparameters(t.Context(), netuid, h); err != nil {
		t.Fatal(err)
	}
	k, err := keeper.Open(keeper.Config{Ledger: c, Netuid: netuid, Hotkey: v, Path: filepath.Join(t.TempDir(), "keeper.json")})
	if err != nil {
		t.Fatal(err)
	}
	const day, step = 7200, 60
	done := map[keeper.Action]int{}
	for range day / step {
		if _, err := l.Step(t.Context(), step); err != nil {
			t.Fatal(err)
		}
		r, err := k.Tick(t.Context(), func(*ledger.Metagraph) ([]uint16, []uint16, error) { return []uint16{0, 1}, []uint16{65535, 7}, nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range r.Actions {
			done[a]++
		}
	}
	if epochs := day / 360; done[keeper.ActionCommitted] < epochs-1 || done[keeper.ActionRevealed] < epochs-2 || done[keeper.ActionLost] != 0 {
		t.Errorf("a day: %v", done)
	}
	if m, err = l.Metagraph(t.Context(), netuid); err != nil || len(m.Weights) != 1 || m.Weights[0].Values[1] != 7 {
		t.Errorf("weights %+v %v", m.Weights, err)
	}
}

func BenchmarkMetagraph(b *testing.B) {
	l, s := newBed(b)
	for i := range 255 {
		if _, err := l.Register(b.Context(), netuid, ledgertest.Key(b, "n"+string(rune('a'+i/26))+string(rune('a'+i%26))), ledgertest.Key(b, "cold")); err != nil {
			b.Fatal(err)
		}
	}
	c := client(b, subtensor.Config{URLs: []string{"ws" + strings.TrimPrefix(s.URL, "http")}})
	for b.Loop() {
		if _, err := c.Metagraph(b.Context(), netuid); err != nil {
			b.Fatal(err)
		}
	}
}
