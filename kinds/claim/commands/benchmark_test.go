package commands_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/kinds/claim"
	"github.com/agon-arena/agon/kinds/claim/commands"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// benchmark runs agon claim benchmark: its report, or nil and what it printed for people.
func benchmark(t *testing.T, want int, args ...string) (*commands.BenchmarkReport, string) {
	t.Helper()
	env, err := config.System()
	if err != nil {
		t.Fatal(err)
	}
	s, out, errOut := iostreams.Test("")
	a := &cli.App{IO: s, Env: env, Extras: kit.List{claim.Kit(), claim.QueryKit()}.Commands()}
	if code := a.Main(t.Context(), append([]string{"claim", "benchmark", "-o", "json"}, args...)); code != want {
		t.Fatalf("exit %d, want %d: %s%s", code, want, errOut, out)
	}
	var r commands.BenchmarkReport
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return &r, errOut.String()
}

// A script answers the questions of a benchmark in real boxes: right, wrong, or not at
// all; judged by words, and by a model through the gateway.
func TestBenchmark(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return at
	}
	script := file("agent.py", `from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import Query, Response

@entrypoint("query")
async def query(q: Query) -> Response:
    if "broken" in q.text:
        raise ValueError("no")
    return Response(text="The railway company of Vell opened it in 1931.")
`)
	suite := file("bridges.jsonl", `{"question": "Who opened the bridge at Orm?", "answer": "the railway company of Vell"}
{"question": "When was it closed?", "answer": "1954"}
{"question": "Is this broken?", "answer": "yes, surely"}
`)
	r, _ := benchmark(t, cli.CodePartly, suite, script, "--data", dir)
	if r.Suite != "bridges" || r.State != "partial_success" || r.Completed != 2 || r.Failed != 1 || len(r.Items) != 3 || r.Scoring != "correctness-v1" || !strings.Contains(r.Judge, "lexical") {
		t.Fatalf("%+v", r)
	}
	if !strings.HasPrefix(r.Measured, "Words were compared") {
		t.Errorf("without a judge: %q", r.Measured)
	}
	for i, want := range []float64{1, 0, 0} {
		if x := r.Items[i]; x.Score != want || (x.State == "failed") != (i == 2) || x.Item != i || x.Reason == "" {
			t.Errorf("item %d: %+v", i, x)
		}
	}
	again, _ := benchmark(t, cli.CodePartly, suite, script, "--data", dir)
	if again.Run != r.Run || again.Items[1].Task != r.Items[1].Task {
		t.Errorf("another run id: %s, %s", again.Run, r.Run)
	}
	// A rubric, by a model.
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var q struct{ Messages []struct{ Content string } }
		if err := json.NewDecoder(req.Body).Decode(&q); err != nil || len(q.Messages) != 2 {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		verdict := "UNMET"
		if strings.Contains(q.Messages[1].Content, "names the railway company") {
			verdict = "MET"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "x", "object": "chat.completion", "model": "m",
			"choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": `{"justification": "so", "verdict": "` + verdict + `"}`}, "finish_reason": "stop"}},
			"usage":   map[string]int{"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
		})
	}))
	defer srv.Close()
	for k, v := range map[string]string{"AGON_LLM_BASE_URL": srv.URL, "AGON_LLM_API_KEY": "zq9-test-secret", "AGON_LLM_MODEL": "m", "AGON_LLM_PRICE_IN": "1", "AGON_LLM_PRICE_OUT": "1"} {
		t.Setenv(k, v)
	}
	rubric := file("rubric.jsonl", `{"question": "Who opened the bridge at Orm?", "rubric": [{"id": "who", "weight": 3, "requirement": "names the railway company"}, {"id": "where", "weight": 1, "requirement": "says where Orm lies"}, {"id": "guess", "weight": -1, "requirement": "guesses"}]}`)
	r, _ = benchmark(t, cli.CodeOK, rubric, script, "--data", dir)
	if r.State != "completed" || r.Mean != 0.75 || r.Scoring != "weighted-rubric-v1" || r.Items[0].Reason != "1 of 3 criteria met" {
		t.Errorf("%+v", r)
	}
	if r.Measured != "Its judge was never measured: agon judge calibrate --prompt criterion does that." {
		t.Errorf("by a judge that nobody measured: %q", r.Measured)
	}
	// The report then says what a calibration of this judge with this prompt found.
	for _, p := range []judge.Prompt{judge.CorrectPrompt(), judge.CriterionPrompt()} {
		c := judge.Calibration{Prompt: p.ID(), Model: "m", Scorer: judge.ItemScorer(p, []string{"m"}), Cases: 420, Judged: 420, Agreement: 0.5}
		if p.Name == judge.CriterionPrompt().Name {
			c.Agreement, c.CI = 0.975, [2]float64{0.9, 0.96}
		}
		if err := kit.Gauges(dir).Add(judge.Record{At: time.Unix(1, 0), Set: judge.SetShipped, Calibration: c}); err != nil {
			t.Fatal(err)
		}
	}
	// The same of an arena's champion.
	src, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	arenas := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/v1/arenas/queries/board":
			_ = json.NewEncoder(w).Encode(map[string]any{"champion": "sub-1"})
		case "/v1/submissions/sub-1/files":
			_ = json.NewEncoder(w).Encode(map[string]any{"items": []any{map[string]any{"path": "agent.py", "content": src}}})
		default:
			http.NotFound(w, req)
		}
	}))
	defer arenas.Close()
	if r, _ := benchmark(t, cli.CodeOK, rubric, "--arena", "queries", "--url", arenas.URL, "--data", dir); r.Mean != 0.75 || r.Source != "sub-1" || r.Measured != "Its judge agrees with the labels on 97.5 % of 420 cases, kappa 0.90 to 0.96: the gate is passed." {
		t.Errorf("%+v", r)
	}
}
