package play

import (
	"io/fs"
	"os"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/research/data"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// shipped loads a task of the set "cpu" and lays it out for boxes.
func (w *world) shipped(name string) *task.Task {
	w.t.Helper()
	sub, err := fs.Sub(data.FS, "tasks/cpu/"+name)
	if err != nil {
		w.t.Fatal(err)
	}
	tk, err := task.Load(sub, "cpu/"+name)
	if err != nil {
		w.t.Fatal(err)
	}
	dir := files(w.t, nil) + "/task"
	if err := task.Materialise(tk, dir); err != nil {
		w.t.Fatal(err)
	}
	if tk, err = task.LoadDir(dir, tk.Key); err != nil {
		w.t.Fatal(err)
	}
	w.put(tk)
	return tk
}

// Every shipped task has at least two honest improvements and three cheats,
// and each comes to what it says. The suite is as long as all others together:
// its samples are replayed when AGON_TEST_SUITE is set.
func TestSamples(t *testing.T) {
	names := []string{"sortnet", "golomb", "capset", "kissing", "matmul", "circles", "compress", "kernel", "charlm"}
	if os.Getenv("AGON_TEST_SUITE") != "" {
		names = append(names, "kernels")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tk := w.shipped(name)
			task, _, err := OpenTask(tk.Dir)
			if err != nil {
				t.Fatal(err)
			}
			list, err := data.Samples(name)
			if err != nil {
				t.Fatal(err)
			}
			honest, cheats, kernel := 0, 0, 0.0
			for _, s := range list {
				if s.Expect.Better {
					honest++
				} else {
					cheats++
				}
				t.Run(s.Name, func(t *testing.T) {
					w.t = t
					dir := files(t, map[string]string{PatchFile: string(s.Patch), ClaimFile: string(s.Claim)})
					sub := agon.Submission{ID: s.Name, Digest: agon.Sum([]byte(dir))}
					w.trees[sub.Digest] = dir
					if f, err := w.kind.Check(t.Context(), nil, os.DirFS(dir)); err != nil || len(f) > 0 && s.Expect.Status != StatusRejected {
						t.Fatalf("check: %v %v", f, err)
					}
					r := w.run()
					r.Tasks = []agon.TaskRef{{Key: tk.Key, Digest: tk.Digest}}
					rec, obs := w.play(sub, r)
					if obs.Status != s.Expect.Status || obs.Reason != s.Expect.Reason {
						t.Fatalf("%s %q, want %s %q\n%s", obs.Status, obs.Reason, s.Expect.Status, s.Expect.Reason, rec.Files[LogFile])
					}
					if obs.Status != StatusAccepted {
						return
					}
					metric, bar := task.MetricName, task.Baseline*0.98
					if task.MetricDirection == agon.Maximize {
						bar = task.Baseline * 1.02
					}
					if name == "kernel" {
						// Wall time on a busy machine proves nothing; TestDuel has the pairs.
						if kernel == 0 {
							kernel = kernelBase(w, r)
						}
						metric, bar = "cpu_seconds", kernel
					}
					better := quorum.Better(task.MetricDirection, obs.Metrics[metric], bar)
					// Processor time is noisy where others play: a gain is looked for in five pairs.
					for try := 1; name == "kernel" && s.Expect.Better && !better && try < 5; try++ {
						bar = kernelBase(w, r)
						_, obs = w.play(sub, r)
						better = quorum.Better(task.MetricDirection, obs.Metrics[metric], bar)
					}
					if better != s.Expect.Better {
						t.Errorf("%v against %v: better is %t", obs.Metrics, bar, better)
					}
				})
			}
			if honest < 2 || cheats < 3 {
				t.Errorf("%d improvements and %d cheats", honest, cheats)
			}
		})
	}
}

// kernelBase is three quarters of the processor time that the base takes here.
func kernelBase(w *world, r agon.RunSpec) float64 {
	const comment = "--- a/kernel/kernel.py\n+++ b/kernel/kernel.py\n@@ -1,3 +1,4 @@\n \"\"\"Reads two polynomials, writes their product.\"\"\"\n+# as it was\n import sys\n \n"
	rec, obs := w.play(w.submission(comment, Claim{}), r)
	if obs.Status != StatusAccepted || obs.Metrics["cpu_seconds"] == 0 {
		w.t.Fatalf("the base gives no number: %+v\n%s", obs, rec.Files[LogFile])
	}
	return 0.75 * obs.Metrics["cpu_seconds"]
}
