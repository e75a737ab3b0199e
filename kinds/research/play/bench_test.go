package play

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
)

// fresh reads the task again for each play, as the engine does.
type fresh struct{ *world }

func (f fresh) Task(_ context.Context, r agon.TaskRef) (*task.Task, error) {
	return task.LoadDir(f.tasks[r.Key].Dir, r.Key)
}

// BenchmarkReplay replays a small patch on a repository of 50 MB. overhead_ms
// is everything but the setup and benchmark commands themselves: task, base,
// patch, boxes, comparison, result.
func BenchmarkReplay(b *testing.B) {
	w := newWorld(b)
	r := rand.New(rand.NewPCG(5, 0))
	base := with(oneBase)
	block := make([]byte, 100_000)
	for i := range 500 {
		for j := range block {
			block[j] = 'a' + byte(r.UintN(26))
		}
		base[fmt.Sprintf("data/%02d/file%d.txt", i%40, i)] = string(block)
	}
	w.task(edit(oneTask, "benchmark_command", "setup_command = \"mkdir build\"\nbenchmark_command"), base)
	s := w.submission(scorePatch("2"), Claim{})
	w.play(s, w.run()) // the first one reads the base
	var over, stages time.Duration
	for b.Loop() {
		start := time.Now()
		rec, err := w.kind.Play(b.Context(), fresh{w}, s, w.run())
		if err != nil {
			b.Fatal(err)
		}
		scores, err := w.kind.Judge(b.Context(), w, w.run(), rec)
		if err != nil || scores[0].Metrics[MetricObserved] != 2 {
			b.Fatal(err, scores)
		}
		m := scores[0].Metrics
		ran := time.Duration(m["setup_ms"]+m["benchmark_ms"]) * time.Millisecond
		over += time.Since(start) - ran
		stages += ran
	}
	b.ReportMetric(float64(over.Milliseconds())/float64(b.N), "overhead_ms/op")
	b.ReportMetric(float64(stages.Milliseconds())/float64(b.N), "commands_ms/op")
}
