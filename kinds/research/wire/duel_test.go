package wire_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/research/coordinator"
)

// pairSeeds notes the seeds that the sides of a duel were given.
type pairSeeds map[string][]string

func (p pairSeeds) add(j coordinator.Job) {
	lease, _, _ := strings.Cut(j.ID, ".")
	seed := j.Spec.Env["AGON_SEED"]
	p[lease+"."+seed] = append(p[lease+"."+seed], seed)
}

// Validators that speak only the wire make whole duels: paired replays of
// challenger and incumbent, on one seed and by one validator. Nothing takes the
// best by its replays alone.
func TestWireDuel(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) {
		m["rules"] = map[string]any{"agree": 2, "replays": 4, "absolute": 1, "band": 0.5, "alpha": 0.3, "pairs": 8}
	})
	alice, bob := f.miner("alice"), f.miner("bob")
	v1, v2 := f.validator("v1"), f.validator("v2")
	replayed := func(s coordinator.Submission, x float64) {
		t.Helper()
		f.answer(v1, s.ID, "accepted", x)
		f.answer(v2, s.ID, "accepted", x)
		if got := f.submission(s.ID); got.Status != "accepted" || got.Best != nil {
			t.Fatalf("after its replays: %+v", got)
		}
	}
	seeds := pairSeeds{}
	n := 0
	first := f.submit(alice, task.ID, patch("2"))
	replayed(first, 90)
	f.get("/api/v1/tasks/"+task.ID+"/best", 404, nil)
	f.duelsBy(func(j coordinator.Job, challenger bool) map[string]float64 {
		n++
		seeds.add(j)
		if j.Submission.ID != first.ID || (j.Submission.Patch == patch("2")) != challenger || j.Submission.Status != "pending_verification" || j.Submission.Best != nil {
			t.Errorf("job %s: %+v", j.ID, j.Submission)
		}
		if challenger {
			return map[string]float64{"size": 90 + float64(n%3)/10}
		}
		appliesNothing(t, task, j.Submission.Patch)
		return map[string]float64{"size": 100}
	}, "v1", "v2")
	got := f.submission(first.ID)
	if got.Best == nil || !got.Best.Took || got.Best.Rule != "research.first" || n < 8 {
		t.Fatalf("%d jobs: %+v", n, got.Best)
	}
	for pair, list := range seeds {
		if len(list) != 2 || list[0] == "" || list[0] != list[1] {
			t.Errorf("pair %s has the seeds %q", pair, list)
		}
	}
	// Better by less than the band: accepted, and not the best.
	small := f.submit(bob, task.ID, patch("3"))
	replayed(small, 89.8)
	incumbents, ofIncumbent := 0, map[string]bool{}
	f.duelsBy(func(j coordinator.Job, challenger bool) map[string]float64 {
		if challenger != (j.Submission.ID == small.ID) {
			t.Errorf("job %s is of submission %s", j.ID, j.Submission.ID)
		}
		if challenger {
			return map[string]float64{"size": 89.8}
		}
		incumbents++
		ofIncumbent[j.ID] = true
		if j.Submission.ID != first.ID || j.Submission.Patch != patch("2") {
			t.Errorf("the incumbent's job: %+v", j.Submission)
		}
		return map[string]float64{"size": 90}
	}, "v1", "v2")
	if got := f.submission(small.ID); got.Best == nil || got.Best.Took || got.Best.Incumbent != first.ID || incumbents == 0 {
		t.Fatalf("%d of the incumbent: %+v", incumbents, got.Best)
	}
	// The incumbent's own list has what was replayed of it, by the id of each job.
	var rows []coordinator.Verification
	f.get("/api/v1/verifications?submission_id="+first.ID, 200, &rows)
	parts := 0
	for _, r := range rows {
		if ofIncumbent[r.ID] && r.Observed["size"] == 90 && r.Status == "accepted" && r.Duel {
			parts++
		}
	}
	if parts != incumbents {
		t.Errorf("%d of %d replays of the incumbent are listed", parts, incumbents)
	}
	var list []coordinator.Record
	f.get("/api/v1/tasks/"+task.ID+"/records", 200, &list)
	if len(list) != 1 || coordinator.VerifyRecord(list[0]) != nil {
		t.Errorf("%+v", list)
	}
}

// appliesNothing wants git to take a patch and the tree to stay as it was.
func appliesNothing(t *testing.T, task coordinator.TaskView, patch string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "w")
	for _, args := range [][]string{{"clone", "-q", task.Repository, dir}, {"-C", dir, "apply", "-"}, {"-C", dir, "diff", "--exit-code"}} {
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		cmd.Stdin = strings.NewReader(patch)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v %s\n%s", args, err, out, patch)
		}
	}
}

// A validator that dies in a duel loses it: another makes it anew, and what
// comes late counts no more.
func TestWireDuelLost(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) { m["rules"] = map[string]any{"agree": 1, "replays": 3} })
	s := f.submit(f.miner("alice"), task.ID, patch("2"))
	v1 := f.validator("v1")
	f.answer(v1, s.ID, "accepted", 90)
	jobs := f.scan(v1)
	if len(jobs) != 2 {
		t.Fatalf("%d jobs of a duel of one pair", len(jobs))
	}
	say := func(j coordinator.Job, x float64) (int, string) {
		return f.post(v1, "/api/v1/validator/jobs/"+j.ID+"/result", map[string]any{"submission_id": j.Submission.ID, "status": "accepted", "observed_metrics": map[string]float64{"size": x}})
	}
	if status, b := say(jobs[0], 90); status != 200 || !strings.Contains(b, `"id":"`+jobs[0].ID+`"`) {
		t.Fatalf("%d %s", status, b)
	}
	if again := f.scan(v1); len(again) != 1 || again[0].ID != jobs[1].ID {
		t.Fatalf("what is left of the duel: %+v", again)
	}
	f.clock.Add(45 * time.Minute)
	if err := f.p.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, b := say(jobs[1], 1000); status != 200 {
		t.Fatalf("late: %d %s", status, b)
	}
	if got := f.submission(s.ID); got.Best != nil {
		t.Fatalf("a late duel counts: %+v", got.Best)
	}
	f.duels(80, "v2") // the base is better than the challenger
	if got := f.submission(s.ID); got.Best == nil || got.Best.Took {
		t.Fatalf("%+v", got.Best)
	}
}

// Hidden data and programs in boxes of their own are for agon's own validators:
// others could not measure them as they should be.
func TestWireLeavesOut(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) { m["isolate"] = true })
	f.submit(f.miner("alice"), task.ID, patch("2"))
	if jobs := f.scan(f.validator("v1")); len(jobs) != 0 {
		t.Errorf("%d jobs of an isolated task", len(jobs))
	}
	other := f.task(func(m map[string]any) { m["slug"] = "other-toy" })
	s := f.submit(f.miner("alice"), other.ID, patch("2"))
	if jobs := f.scan(f.validator("v1")); len(jobs) != 1 || jobs[0].Submission.ID != s.ID {
		t.Errorf("%+v", jobs)
	}
}

// Row 67: pareto. Inside the noise band the second metric decides; outside, the first.
func TestPareto(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) {
		m["ranking_mode"], m["secondary_metric_name"], m["secondary_metric_direction"] = "pareto", "bytes", "minimize"
		m["rules"] = map[string]any{"agree": 1, "replays": 3, "absolute": 1, "band": 0.5, "alpha": 0.3, "pairs": 8}
	})
	at := map[string][2]float64{"": {100, 50}}
	enter := func(name, x string, size, bytes float64) coordinator.Submission {
		t.Helper()
		s := f.submit(f.miner(name), task.ID, patch(x))
		at[s.ID] = [2]float64{size, bytes}
		for _, j := range f.scan(f.validator("v1")) {
			if code, b := f.post(f.validator("v1"), "/api/v1/validator/jobs/"+j.ID+"/result", map[string]any{"submission_id": j.Submission.ID, "status": "accepted", "observed_metrics": map[string]float64{"size": size}}); code != 422 || !strings.Contains(b, "bytes") {
				t.Fatalf("without the second metric: %d %s", code, b)
			}
			if code, b := f.post(f.validator("v1"), "/api/v1/validator/jobs/"+j.ID+"/result", map[string]any{"submission_id": j.Submission.ID, "status": "accepted", "observed_metrics": map[string]float64{"size": size, "bytes": bytes}}); code != 200 {
				t.Fatalf("%d %s", code, b)
			}
		}
		f.duelsBy(func(j coordinator.Job, challenger bool) map[string]float64 {
			v := at[j.Submission.ID]
			if !challenger && j.Submission.ID == s.ID {
				v = at[""]
			}
			return map[string]float64{"size": v[0], "bytes": v[1]}
		}, "v1")
		return f.submission(s.ID)
	}
	for i, c := range []struct {
		size, bytes float64
		took        bool
	}{
		{90, 60, true},    // passes the band, though larger
		{89.8, 60, false}, // inside, as large
		{89.8, 70, false}, // inside and larger
		{90.3, 40, true},  // inside and smaller
		{90.7, 30, false}, // inside of it again, but the two together have left the band
		{90.5, 35, true},  // together as large as the band
		{90.6, 20, false}, // nothing of it is left
		{91, 10, false},   // worse than the band
		{88, 90, true},
	} {
		s := enter(fmt.Sprintf("m%d", i), fmt.Sprint(i+2), c.size, c.bytes)
		if s.Best == nil || s.Best.Took != c.took {
			t.Errorf("%v: %+v", c, s.Best)
		}
	}
	var snap coordinator.Snapshot
	f.get("/api/v1/reward-snapshot", 200, &snap)
	if x := snap.Competitions[0]; x.Scoring != "pareto" || len(x.Credits) != 4 {
		t.Errorf("%+v", x)
	}
}
