package commands_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/claim"
	"github.com/agon-arena/agon/kinds/claim/supply"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

func TestMain(m *testing.M) {
	netns.MaybeChild() // a helper process of boxes ends here
	os.Exit(m.Run())
}

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

// generateClaims runs agon task generate claims: its report, or nil and what it
// printed for people.
func generateClaims(t *testing.T, args ...string) (*supply.Report, string) {
	t.Helper()
	env, err := config.System()
	if err != nil {
		t.Fatal(err)
	}
	s, out, errOut := iostreams.Test("")
	a := &cli.App{IO: s, Env: env, Extras: kit.List{claim.Kit()}.Commands()}
	if a.Main(t.Context(), append([]string{"task", "generate", "claims", "-o", "json"}, args...)) != 0 {
		return nil, errOut.String()
	}
	var r supply.Report
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return &r, errOut.String()
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
	for k, v := range map[string]string{"AGON_LLM_BASE_URL": srv.URL, "AGON_LLM_API_KEY": "zq9-test-secret", "AGON_LLM_MODEL": "m", "AGON_LLM_PRICE_IN": "1000000", "AGON_LLM_PRICE_OUT": "1000000"} {
		t.Setenv(k, v)
	}
	out := filepath.Join(dir, "out")
	flags := []string{docs, "--count", "4", "--budget", "1", "--any-age", "--data", dir}
	r, errText := generateClaims(t, append(flags, "--out", out, "--log", filepath.Join(dir, "log"), "--champion", agent)...)
	if r == nil {
		t.Fatal(errText)
	}
	if !r.Complete || r.Claims != 4 || r.Wrong != .5 || r.Rounds[3].Wrong != .25 {
		t.Fatalf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(out, "claim-004", "task.toml")); err != nil {
		t.Error(err)
	}
	srv.Close()
	t.Setenv("AGON_LLM_BASE_URL", "")
	again, errText := generateClaims(t, append(flags, "--out", filepath.Join(dir, "again"), "--log", filepath.Join(dir, "log"), "--replay")...)
	if again == nil || again.Digest != r.Digest {
		t.Errorf("replay: %s %+v", errText, again)
	}
	for _, name := range []string{"claims.json", "report.json"} {
		a, _ := os.ReadFile(filepath.Join(dir, "out", name))
		b, err := os.ReadFile(filepath.Join(dir, "again", name))
		if err != nil || string(a) != string(b) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	// Without a model nothing is asked and nothing is made up.
	got, errText := generateClaims(t, append(flags, "--out", filepath.Join(dir, "out2"), "--log", filepath.Join(dir, "log2"), "--champion", agent)...)
	if got != nil || !strings.Contains(errText, "needs a model") {
		t.Errorf("without a model: %+v %s", got, errText)
	}
}
