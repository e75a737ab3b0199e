package play

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
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

// third are the tasks with a third record after the second, by another method.
var third = []string{"sortnet", "golomb", "capset", "kissing", "matmul", "circles", "kernels", "speedrun", "pumps"}

// Every shipped task has at least two honest improvements and three cheats,
// and each comes to what it says. The suite is as long as all others together:
// its samples, and those of the speed run and of the pumps, are replayed when AGON_TEST_SUITE is set (make records).
func TestSamples(t *testing.T) {
	names := []string{"sortnet", "golomb", "capset", "kissing", "matmul", "circles", "compress", "kernel", "charlm"}
	if os.Getenv("AGON_TEST_SUITE") != "" {
		names = append(names, "kernels", "speedrun", "pumps")
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
			values := map[string]float64{}
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
					values[s.Name] = obs.Metrics[task.MetricName]
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
			want := 2
			if slices.Contains(third, name) {
				want = 3
			}
			if honest < want || cheats < 3 {
				t.Errorf("%d improvements and %d cheats", honest, cheats)
			}
			w.t = t
			w.lineage(&task, tk, list, values)
		})
	}
}

// lineage demands that each sample that names a record before it beats that one. Without
// noise one seed decides; with it a duel must take the seat, which is played where
// AGON_TEST_SUITE is set, else the one pair of the replays must be won.
func (w *world) lineage(task *Task, tk *task.Task, list []data.Sample, values map[string]float64) {
	w.t.Helper()
	for _, s := range list {
		if s.Expect.Beats == "" {
			continue
		}
		i := slices.IndexFunc(list, func(x data.Sample) bool { return x.Name == s.Expect.Beats })
		if i < 0 || !list[i].Expect.Better {
			w.t.Fatalf("%s beats %q, which is no honest sample", s.Name, s.Expect.Beats)
		}
		pairs := []quorum.Pair{{Challenger: values[s.Name], Incumbent: values[list[i].Name]}}
		whole := os.Getenv("AGON_TEST_SUITE") != "" || !quorum.Noisy(task.Rules)
		if whole && quorum.Noisy(task.Rules) {
			pairs = nil
			for round := 1; !quorum.RunDuel(task.Rules, 1, pairs).Done; round++ {
				more := w.duel(tk, s, list[i], round, 4)
				if len(more) == 0 {
					w.t.Fatalf("%s gives no number beside %s", list[i].Name, s.Name)
				}
				pairs = append(pairs, more...)
			}
		}
		if d := quorum.RunDuel(task.Rules, 1, pairs); whole && !d.Wins || d.Won == 0 {
			w.t.Errorf("%s does not take the seat from %s: %+v", s.Name, s.Expect.Beats, d)
		} else {
			w.t.Logf("%s (%v) takes the seat from %s: gain %v in %d pairs, evidence %v of %v", s.Name, values[s.Name], s.Expect.Beats, d.Gain, d.Pairs, d.Evidence, d.Need)
		}
	}
}

// duel plays a round of two samples against each other.
func (w *world) duel(tk *task.Task, challenger, incumbent data.Sample, round, pairs int) (out []quorum.Pair) {
	w.t.Helper()
	enter := func(s data.Sample) agon.Submission {
		dir := files(w.t, map[string]string{PatchFile: string(s.Patch), ClaimFile: string(s.Claim)})
		sub := agon.Submission{ID: s.Name, Digest: agon.Sum([]byte(dir))}
		w.trees[sub.Digest] = dir
		return sub
	}
	old := enter(incumbent)
	r := w.run()
	r.Tasks = []agon.TaskRef{{Key: tk.Key, Digest: tk.Digest}}
	r.Rival = &agon.Rival{Submission: old.ID, Digest: old.Digest, Round: round, Pairs: pairs}
	rec, obs := w.play(enter(challenger), r)
	if obs.Status != StatusAccepted {
		w.t.Fatalf("duel of %s: %s %q\n%s", challenger.Name, obs.Status, obs.Reason, rec.Files[LogFile])
	}
	for _, p := range obs.Duel {
		out = append(out, p.Pair)
	}
	return out
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

// Who remembers all that a set period has published gains nothing in the next one,
// whose secret draws other seeds.
func TestMemoriserOfPublishedSeeds(t *testing.T) {
	w := newWorld(t)
	tk := w.shipped("pumps")
	task, _, err := OpenTask(tk.Dir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := data.Samples("pumps")
	if err != nil {
		t.Fatal(err)
	}
	r := w.run()
	r.Tasks = []agon.TaskRef{{Key: tk.Key, Digest: tk.Digest}}
	r.Seed = 11 // of the period that has ended
	at := slices.IndexFunc(list, func(s data.Sample) bool { return s.Name == "known-seeds" })
	const known = "KNOWN = [1, 2, 3, 4, 5, 6, 7, 8]"
	patch := string(list[at].Patch)
	if strings.Count(patch, known) != 1 {
		t.Fatalf("the sample has no %q", known)
	}
	sub := w.submission(strings.Replace(patch, known, fmt.Sprintf("KNOWN = [%d]", ReplaySeed(tk.Digest, r.Seed)), 1), Claim{})
	play := func() float64 {
		t.Helper()
		rec, obs := w.play(sub, r)
		if obs.Status != StatusAccepted {
			t.Fatalf("%+v\n%s", obs, rec.Files[LogFile])
		}
		return obs.Metrics[task.MetricName]
	}
	published := play()
	r.Seed = 12
	next := play()
	t.Logf("published %.4f, next %.4f, base %.4f", published, next, task.Baseline)
	if published > 0.1 {
		t.Errorf("it does not remember what was published: %v", published)
	}
	if d := quorum.RunDuel(task.Rules, 1, []quorum.Pair{{Challenger: next, Incumbent: task.Baseline}}); d.Won > 0 {
		t.Errorf("in the next period it gains: %v against %v", next, task.Baseline)
	}
}
