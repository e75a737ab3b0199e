package platform

import (
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// BenchmarkGate reads runs of a hidden task in an arena of 400, as their rival and as
// nobody, and says which part of it who may read what took: gate-%.
func BenchmarkGate(b *testing.B) {
	f := newFixture(b, 400)
	for i := range f.arena.Tasks {
		f.arena.Tasks[i].Hidden = i%2 == 1
	}
	f.kind.replicas = 1
	must(b, f.EnsureArena(bg, f.arena))
	s := f.submit(miner1, "x")
	f.playAll(val1, func(*client.Lease) float64 { return 0.5 })
	var runs []store.Run
	lists := map[string][]store.Attempt{}
	f.read(func(tx *store.Tx) (err error) {
		runs, err = tx.RunsOf(s.ID)
		for _, r := range runs {
			if lists[r.RunSpec.Run], err = tx.Attempts(r.RunSpec.Run); err != nil {
				return err
			}
		}
		return err
	})
	a, err := f.FullArena(bg, "demo")
	must(b, err)
	e := agon.Submission{ID: s.ID, Arena: "demo", Miner: miner1, Netuid: netuid, State: agon.SubmissionScored}
	who := []Caller{{}, {Hotkey: miner2}}
	const turn = 20 // reads, then as many gates: a machine that is busy for a while slows both
	var gate, read time.Duration
	b.ResetTimer()
	for from := 0; from < b.N; from += turn {
		to := min(b.N, from+turn)
		start := time.Now()
		for i := from; i < to; i++ {
			if _, err := f.Run(bg, who[i%2], runs[i%len(runs)].RunSpec.Run); err != nil {
				b.Fatal(err)
			}
		}
		read += time.Since(start)
		b.StopTimer()
		f.read(func(tx *store.Tx) error {
			start := time.Now()
			for i := from; i < to; i++ {
				r := runs[i%len(runs)]
				v, err := f.viewIn(tx, who[i%2], e)
				if err != nil {
					return err
				}
				_ = f.runView(a.Arena, r, "x", lists[r.RunSpec.Run], v)
			}
			gate += time.Since(start)
			return nil
		})
		b.StartTimer()
	}
	b.ReportMetric(100*float64(gate)/float64(read), "gate-%")
}
