package run

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/cli"
)

// claimModel is an OpenAI-compatible server that proposes and answers.
func claimModel(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Messages []struct{ Content string } }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) != 2 {
			http.Error(w, "bad", 400)
			return
		}
		var doc struct {
			Lap    int
			Source struct{ Text string }
		}
		if err := json.Unmarshal([]byte(q.Messages[1].Content), &doc); err != nil {
			t.Error(err)
		}
		text := ""
		if strings.Contains(q.Messages[0].Content, "You write claims") {
			var claims []string
			for i := range 4 {
				claims = append(claims, fmt.Sprintf(`{"factoid":"f","claim":"Buoy number %d lies off Brenn.","true":true}`, 10*doc.Lap+i))
			}
			text = `{"claims":[` + strings.Join(claims, ",") + `]}`
		} else {
			b, _ := json.Marshal(doc.Source.Text[:30])
			text = `{"verdict":1,"justification":"It is in the list.","quotes":[` + string(b) + `],"ambiguous":false}`
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "x", "object": "chat.completion", "model": "m", "choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": text}, "finish_reason": "stop"}},
			"usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
		})
	}))
	t.Cleanup(srv.Close)
	return srv
}

// The whole way: a folder, a model behind the gateway, a champion of the seed's
// SDK in a real box, the loop, the files, and the same set again from the log.
func TestGenerateClaims(t *testing.T) {
	srv, dir := claimModel(t), t.TempDir()
	docs := filepath.Join(dir, "docs")
	if err := os.Mkdir(docs, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "date: 2026-01-01\n\n# Buoys\n\nThe harbour office keeps a list of all buoys off Brenn. Every buoy on the list has a number, and all of them lie off Brenn.\n"
	if err := os.WriteFile(filepath.Join(docs, "buoys.md"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	// It is wrong about every fourth buoy, after a search that must find the document.
	script := `from caster_miner_sdk.decorators import entrypoint
from caster_miner_sdk.api import search_web

@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    found = await search_web(request["claim_text"])
    n = int("".join(c for c in request["claim_text"] if c.isdigit()))
    right = found.results and n % 4 != 3
    return {"verdict": 1 if right else -1, "justification": "looked it up", "citations": []}
`
	agent := filepath.Join(dir, "agent.py")
	if err := os.WriteFile(agent, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	o := testOptions(dir)
	env := map[string]string{"AGON_LLM_BASE_URL": srv.URL, "AGON_LLM_API_KEY": "zq9-test-secret", "AGON_LLM_MODEL": "m", "AGON_LLM_PRICE_IN": "1000000", "AGON_LLM_PRICE_OUT": "1000000"}
	get := o.Getenv
	o.Getenv = func(k string) string {
		if v, ok := env[k]; ok {
			return v
		}
		return get(k)
	}
	c := cli.ClaimsGenerateOptions{Feed: docs, Out: filepath.Join(dir, "out"), Log: filepath.Join(dir, "log"), Champion: agent, Count: 4, Wrong: .5, Seed: 1, Budget: 1_000_000, AnyAge: true}
	r, err := makeClaims(t.Context(), o, c)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Complete || r.Claims != 4 || r.Wrong != .5 || r.Rounds[3].Wrong != .25 {
		t.Fatalf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(c.Out, "claim-004", "task.toml")); err != nil {
		t.Error(err)
	}
	srv.Close()
	env["AGON_LLM_BASE_URL"] = ""
	c.Out, c.Replay, c.Champion = filepath.Join(dir, "again"), true, ""
	again, err := makeClaims(t.Context(), o, c)
	if err != nil || again.Digest != r.Digest {
		t.Errorf("replay: %v %+v", err, again)
	}
	for _, name := range []string{"claims.json", "report.json"} {
		a, _ := os.ReadFile(filepath.Join(dir, "out", name))
		b, err := os.ReadFile(filepath.Join(dir, "again", name))
		if err != nil || string(a) != string(b) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	// Without a model nothing is asked and nothing is made up.
	c.Champion = agent
	c.Replay, c.Log, c.Out = false, filepath.Join(dir, "log2"), filepath.Join(dir, "out2")
	if _, err := makeClaims(t.Context(), o, c); err == nil || !strings.Contains(err.Error(), "needs a model") {
		t.Errorf("without a model: %v", err)
	}
}
