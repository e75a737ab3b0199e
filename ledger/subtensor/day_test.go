package subtensor_test

import (
	"path/filepath"
	"runtime"
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

// follow lets blocks pass and reads each, a metagraph every hundredth, and says
// how much the heap grew after the first tenth.
func follow(tb testing.TB, blocks int) (grown int64) {
	tb.Helper()
	l, s := newBed(tb)
	c := client(tb, subtensor.Config{URLs: []string{"ws" + strings.TrimPrefix(s.URL, "http")}})
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var start int64
	for i := range blocks {
		if i == blocks/10 {
			start = heap()
		}
		if _, err := l.Step(tb.Context(), 1); err != nil {
			tb.Fatal(err)
		}
		n, err := c.Block(tb.Context())
		if err != nil || n != uint64(i+1) {
			tb.Fatalf("block %d, want %d: %v", n, i+1, err)
		}
		if i%100 == 0 {
			if _, err := c.Metagraph(tb.Context(), netuid); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return heap() - start
}

// TestFollowedMemory: what client and node keep does not grow with the blocks.
// BenchmarkFollow does the same over as many as -benchtime says.
func TestFollowedMemory(t *testing.T) {
	if grown := follow(t, 1000); grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func BenchmarkFollow(b *testing.B) {
	b.ReportMetric(float64(follow(b, b.N)), "heap-growth-bytes")
}
