package play

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/sandbox"
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

// summed is a world that adds up what programs of isolated benchmarks take, as the host measures it.
type summed struct {
	*world
	programs time.Duration
	n        int
}

func (s *summed) Box(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	b, err := s.world.Box(ctx, spec)
	if err != nil || spec.Name != "program" {
		return b, err
	}
	return &timed{b, s}, nil
}

type timed struct {
	sandbox.Box
	s *summed
}

func (t *timed) Exec(ctx context.Context, c sandbox.Cmd) (sandbox.Exit, error) {
	x, err := t.Box.Exec(ctx, c)
	t.s.programs += x.Wall // one program at a time
	t.s.n++
	return x, err
}

// BenchmarkSuite replays the shipped suite of 22 kernels. overhead_pct is what the whole replay
// takes beyond the sum of its programs.
func BenchmarkSuite(b *testing.B) {
	w := newWorld(b)
	tk := w.shipped("kernels")
	const comment = "--- a/suite/kernels.py\n+++ b/suite/kernels.py\n@@ -1,3 +1,4 @@\n \"\"\"Twenty-two kernels, each the plain way: make them faster.\"\"\"\n+# as it was\n \n \n"
	sub, r := w.submission(comment, Claim{}), w.run()
	r.Tasks = []agon.TaskRef{{Key: tk.Key, Digest: tk.Digest}}
	var took time.Duration
	s := &summed{world: w}
	for b.Loop() {
		from := time.Now()
		rec, err := w.kind.Play(b.Context(), s, sub, r)
		if err != nil || rec.Outcome != agon.OutcomeOK || s.n == 0 {
			b.Fatalf("%v %s %s", err, rec.Detail, rec.Files[LogFile])
		}
		took += time.Since(from)
	}
	b.ReportMetric(100*(took.Seconds()/s.programs.Seconds()-1), "overhead_pct")
	b.ReportMetric(float64(s.programs.Milliseconds())/float64(s.n), "program_ms")
}
