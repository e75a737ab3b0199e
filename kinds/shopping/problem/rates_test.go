package problem

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon/kinds/shopping/encode"
	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/search"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// playAll calls a sample for each problem, in this process's own Python and
// without a box: the samples are ours. A line of JSON an episode.
const playAll = `import importlib.util, json, sys
sys.path.insert(0, sys.argv[1])
spec = importlib.util.spec_from_file_location("sample", sys.argv[2])
agent = importlib.util.module_from_spec(spec)
spec.loader.exec_module(agent)
for line in sys.stdin:
    print(json.dumps(agent.agent_main(json.loads(line))))
`

// What the demo's generator makes is not a test of parsing: what a sample without a
// model solves of it, what the first hit solves, and what a solver that
// understands the words finds with the arena's own tools. The problems are those
// that the bars are for: every form, every difficulty.
func TestWhatIsSolved(t *testing.T) {
	x, err := demoIndex()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Index: x, Encoder: encode.Ngram{}, NoVectors: true, Seed: 4243, Label: "rates", Counts: Suite(60, true)}
	made, err := Make(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var list []shop.Problem
	forms := map[string]int{}
	for i := range made {
		p := made[i].Problem
		list = append(list, p)
		forms[p.Category]++
		if p.Unanswerable {
			forms["unanswerable"]++
		}
		for _, it := range p.Reward.Items {
			if len(it.Exclude) > 0 {
				forms["negative"]++
			}
			if len(it.Price)+len(it.Service)+len(it.Attributes)+len(it.SKUOptions)+len(it.Exclude) > 3 {
				forms["of four or more constraints"]++
			}
		}
	}
	for _, f := range []string{shop.CategoryProduct, shop.CategoryShop, shop.CategoryVoucher, "unanswerable", "negative", "of four or more constraints"} {
		if forms[f] == 0 {
			t.Errorf("none of %d problems is %s", len(list), f)
		}
	}
	tools := IndexTools(x)
	var solved []json.RawMessage
	for i := range made {
		ids, err := Solve(t.Context(), tools, made[i].Reading)
		if err != nil {
			t.Fatal(err)
		}
		solved = append(solved, answerOf(t, ids))
	}
	server := httptest.NewServer(http.StripPrefix("/search", &search.Service{Index: x, Strict: true}))
	defer server.Close()
	for _, s := range []struct {
		name     string
		episodes []json.RawMessage
		lo, hi   float64
	}{
		{"rules", playSample(t, server.URL, "rules", list), .02, .25},
		{"greedy", playSample(t, server.URL, "greedy", list), 0, .15},
		{"always gives up", giveUp(t, len(list)), 0, .15},
		{"reference solver", solved, 1, 1},
	} {
		n := 0
		for i, e := range s.episodes {
			got, err := score.New(score.Config{Fix: score.Strict, Encoder: encode.Ngram{}}).Score(t.Context(), &list[i], x, e)
			if err != nil {
				t.Fatalf("%s, problem %d: %v", s.name, i, err)
			}
			if got.Success(list[i].Category) {
				n++
			} else if s.lo == 1 {
				t.Errorf("%s does not solve %q", s.name, list[i].Query)
			}
		}
		rate := float64(n) / float64(len(list))
		t.Logf("%-16s solves %2d of %d: %.3f", s.name, n, len(list), rate)
		if rate < s.lo || rate > s.hi {
			t.Errorf("%s solves %.3f, want %.2f to %.2f", s.name, rate, s.lo, s.hi)
		}
	}
}

// answerOf is the episode that recommends ids; no ids: that gives up.
func answerOf(t *testing.T, ids []string) json.RawMessage {
	t.Helper()
	var calls []map[string]any
	status := "failure"
	if len(ids) > 0 {
		status = "success"
		list := ids[0]
		for _, id := range ids[1:] {
			list += "," + id
		}
		calls = append(calls, map[string]any{"name": "recommend_product", "parameters": map[string]any{"product_ids": list}})
	}
	calls = append(calls, map[string]any{"name": "terminate", "parameters": map[string]any{"status": status}})
	b, err := json.Marshal([]any{map[string]any{"completion": map[string]any{"message": map[string]any{"think": "done", "tool_call": calls}}, "extra_info": map[string]any{"timestamp": 1}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func giveUp(t *testing.T, n int) []json.RawMessage {
	t.Helper()
	out := make([]json.RawMessage, n)
	for i := range out {
		out[i] = answerOf(t, nil)
	}
	return out
}

// playSample plays a sample of the demo on problems, through HTTP.
func playSample(t *testing.T, url, name string, list []shop.Problem) []json.RawMessage {
	t.Helper()
	var in bytes.Buffer
	for i := range list {
		b, err := json.Marshal(list[i].Public())
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(b, '\n'))
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-c", playAll, filepath.Join("..", "play", "runtime"), filepath.Join("..", "data", "samples", name, "agent.py"))
	cmd.Stdin, cmd.Env = &in, append(os.Environ(), "SANDBOX_PROXY_URL="+url, "PYTHONDONTWRITEBYTECODE=1")
	var diag bytes.Buffer
	cmd.Stderr = &diag
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, diag.Bytes())
	}
	var episodes []json.RawMessage
	for line := range bytes.Lines(out) {
		episodes = append(episodes, json.RawMessage(line))
	}
	if len(episodes) != len(list) {
		t.Fatalf("%s: %d episodes of %d problems\n%s", name, len(episodes), len(list), diag.Bytes())
	}
	return episodes
}
