package play

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// oneTask is a benchmark that reports what submission/score.txt says.
const oneTask = `slug = "one"
title = "One number"
benchmark_command = "python3 bench.py"
result_path = "out/result.json"
allowed_patch_paths = ["submission/*"]
metric_name = "score"
metric_direction = "maximize"
competition_mode = "standard"
time_budget_seconds = 20
baseline = 1.0
`

const oneBench = `import json, os
score = float(open("submission/score.txt").read())
os.makedirs("out", exist_ok=True)
json.dump({"metrics": {"score": score, "seed": float(os.environ["AGON_SEED"]), "big": 3}}, open("out/result.json", "w"))
print("score:", score)
`

var oneBase = map[string]string{"bench.py": oneBench, "submission/score.txt": "1.0\n"}

// with lays files over others.
func with(base map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for k, v := range base {
		out[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func scorePatch(x string) string {
	return fmt.Sprintf("--- a/submission/score.txt\n+++ b/submission/score.txt\n@@ -1 +1 @@\n-1.0\n+%s\n", x)
}

// newFile is a patch that adds a file.
func newFile(name, text string) string {
	return fmt.Sprintf("diff --git a/%s b/%s\nnew file mode 100644\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1,%d @@\n+%s\n",
		name, name, name, strings.Count(text, "\n")+1, strings.ReplaceAll(text, "\n", "\n+"))
}

func TestPlay(t *testing.T) {
	w := newWorld(t)
	w.task(oneTask, oneBase)
	rec, obs := w.play(w.submission(scorePatch("2.5"), Claim{}), w.run())
	if rec.Outcome != agon.OutcomeOK || obs.Status != StatusAccepted || obs.Metrics["score"] != 2.5 || obs.Metrics["big"] != 3 {
		t.Fatalf("%s %+v\n%s", rec.Outcome, obs, rec.Files[LogFile])
	}
	if got := obs.Metrics["seed"]; got != float64(obs.Seed) || got == 0 {
		t.Errorf("seed %v, want %d", got, obs.Seed)
	}
	if len(obs.Changed) != 1 || obs.Changed[0] != "submission/score.txt" || obs.Digest == "" {
		t.Errorf("changes %v %s", obs.Changed, obs.Digest)
	}
	scores, err := w.kind.Judge(t.Context(), w, w.run(), rec)
	if err != nil {
		t.Fatal(err)
	}
	s := scores[0]
	if s.Metrics[MetricObserved] != 2.5 || s.Metrics[MetricVerdict] != 0 || !s.Solved || s.Value <= 0.5 || s.Value >= 1 {
		t.Errorf("score %+v", s)
	}
}
