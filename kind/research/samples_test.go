package research

import (
	"io/fs"
	"os"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/samples"
	"github.com/agon-arena/agon/task"
	"github.com/agon-arena/agon/tasks"
)

// shipped loads a task of the set "cpu" and lays it out for boxes.
func (w *world) shipped(name string) *task.Task {
	w.t.Helper()
	sub, err := fs.Sub(tasks.FS, "research/cpu/"+name)
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
	w.tasks[tk.Key] = tk
	return tk
}

// Every shipped task has at least two honest improvements and three cheats,
// and each comes to what it says.
func TestSamples(t *testing.T) {
	for _, name := range []string{"compress", "kernel", "charlm"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tk := w.shipped(name)
			task, _, err := OpenTask(tk)
			if err != nil {
				t.Fatal(err)
			}
			list, err := samples.Research(name)
			if err != nil {
				t.Fatal(err)
			}
			honest, cheats := 0, 0
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
					r.Tasks = []agon.TaskRef{{Key: tk.Key}}
					if task.Rules.Band > 0 && s.Expect.Status == StatusAccepted {
						r.Rival = &agon.Rival{Round: 1, Pairs: 1} // time: beside the base, on this machine
					}
					rec, obs := w.play(sub, r)
					if obs.Status != s.Expect.Status || obs.Reason != s.Expect.Reason {
						t.Fatalf("%s %q, want %s %q\n%s", obs.Status, obs.Reason, s.Expect.Status, s.Expect.Reason, rec.Files[LogFile])
					}
					if obs.Status != StatusAccepted {
						return
					}
					better := agon.Better(task.MetricDirection, obs.Metrics[task.MetricName], task.Baseline*0.98)
					if r.Rival != nil {
						better = faster(t, obs, 1)
						if better != s.Expect.Better {
							r.Rival.Pairs = 3 // one pair on a busy machine proves nothing
							_, obs = w.play(sub, r)
							better = faster(t, obs, 3)
						}
					}
					if better != s.Expect.Better {
						t.Errorf("%v, base %v, pairs %v: better is %t", obs.Metrics, task.Baseline, obs.Duel, better)
					}
				})
			}
			if honest < 2 || cheats < 3 {
				t.Errorf("%d improvements and %d cheats", honest, cheats)
			}
		})
	}
}

// faster reports whether the challenger is clearly faster in most pairs.
func faster(t *testing.T, obs Observed, pairs int) bool {
	t.Helper()
	if len(obs.Duel) != pairs {
		t.Fatalf("%d pairs, want %d", len(obs.Duel), pairs)
	}
	n := 0
	for _, p := range obs.Duel {
		if p.Challenger < 0.75*p.Incumbent {
			n++
		}
	}
	return 2*n > pairs
}
