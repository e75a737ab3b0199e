package platform

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/agon-arena/agon/client"
)

// heap is what is alive.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// settlePairs plays scripts on tasks to the last decision and returns by how
// much the heap grew between the second script's decision and the last one's.
func settlePairs(t testing.TB, scripts, tasks int) (grew int64) {
	f := scriptArena(t, tasks)
	for i := range scripts {
		_, err := f.Submit(bg, Caller{Hotkey: miner1}, "demo", client.SubmitRequest{
			Name: "x", Licence: "MIT", Files: []client.File{{Path: "agent.py", Content: []byte(script(i, nil))}},
		})
		must(t, err)
	}
	decided := func() int {
		b, err := f.Board(bg, "demo")
		must(t, err)
		return len(b.Decisions)
	}
	var early int64
	pairs := 0
	for {
		l, err := f.Claim(bg, Caller{Hotkey: val1}, client.ClaimRequest{Kinds: []string{"script"}, Driver: "runc"})
		must(t, err)
		if l == nil {
			break
		}
		r := scored(l, 0.5)
		for i := range r.Scores {
			r.Scores[i].Detail = fmt.Sprintf("%0200d", i) // as long as a judge's reason
		}
		f.result(val1, l, r)
		if pairs += len(l.Run.Tasks); early == 0 && pairs >= 2*tasks {
			early = heap()
		}
	}
	if pairs != scripts*tasks || decided() != scripts {
		t.Fatalf("%d pairs and %d decisions, want %d and %d", pairs, decided(), scripts*tasks, scripts)
	}
	return heap() - early
}

// Pairs of script and task settle, and memory does not grow with their
// number: a pair that stays would leave its reason of 200 bytes at least.
func TestPairsSettleInFlatMemory(t *testing.T) {
	if grew := settlePairs(t, 12, 200); grew > 2000*200 {
		t.Errorf("the heap grew by %d KiB", grew>>10)
	}
}

// BenchmarkPairsSettle settles ten thousand.
func BenchmarkPairsSettle(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(float64(settlePairs(b, 20, 500))/1024, "KiB-grown")
	}
	b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "pairs/s")
}
