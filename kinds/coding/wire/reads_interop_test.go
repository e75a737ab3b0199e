//go:build interop

package wire

import (
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
)

//go:embed reads_interop.py
var readsProgram string

// What observers read is what the models of Ridges' own platform write: the same keys, and values that they take.
func TestRidgesReads(t *testing.T) {
	repo := interoptest.Checkout(t, "ridges", "api/src/main.py", "github.com/ridgesai/ridges")
	python := interoptest.Python(t, "ridges")
	w, agent, id := grown(t)
	got := map[string]string{}
	for _, p := range []string{
		"/retrieval/queue?stage=screener_1", "/retrieval/top-agents", "/retrieval/agent-by-id?agent_id=" + agent, "/retrieval/agent-by-hotkey?miner_hotkey=" + w.keys['a'].SS58(),
		"/retrieval/all-agents-by-hotkey?miner_hotkey=" + w.keys['a'].SS58(), "/retrieval/agents-by-coldkey?miner_coldkey=" + w.cold['a'], "/retrieval/evaluations-for-agent?agent_id=" + agent,
		"/retrieval/top-scores-over-time", "/retrieval/perfectly-solved-over-time", "/retrieval/network-statistics", "/scoring/weights", "/scoring/screener-info", "/scoring/latest-set-info",
		"/evaluation-sets/", "/evaluation-sets/all-latest-set-problems", "/evaluation-sets/7", "/evaluation-sets/7/overview", "/evaluation-sets/7/leaderboard", "/evaluation-sets/7/approved-agents",
		"/agent/get-by-evaluation-run-id?evaluation_run_id=" + id, "/evaluation/get-by-evaluation-run-id?evaluation_run_id=" + id, "/evaluation-run/get-by-id?evaluation_run_id=" + id,
		"/evaluation-run/get-logs-by-id?type=agent&evaluation_run_id=" + id, "/validator/connected-validators-info",
	} {
		code, _, text := w.get(p)
		if code != 200 {
			t.Errorf("%s: %d %s", p, code, text)
		}
		got[p] = text
	}
	in, err := json.Marshal(got)
	must(t, err)
	cmd := exec.Command(python, "-c", readsProgram)
	cmd.Dir = repo
	cmd.Env = append(os.Environ(), "PYTHONPATH="+repo, "GIT_COMMIT="+strings.Repeat("0", 40))
	cmd.Stdin = strings.NewReader(string(in))
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%.3000s", err, log.String()[max(0, log.Len()-3000):])
	}
	for line := range strings.Lines(string(out)) {
		t.Error(line)
	}
}
