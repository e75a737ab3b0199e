package door

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/gatewaytest"
)

// Agents of versions B and C find the proxies that they were written for.
func TestNewerDialects(t *testing.T) {
	var got atomic.Value
	g := gatewaytest.Start(t, gateway.Config{Dialects: Dialects()}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got.Store(string(b))
		switch {
		case strings.HasSuffix(r.URL.Path, "/embeddings"):
			gatewaytest.Says(`{"object":"list","data":[{"embedding":[0.25,-1e-3]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`)(w, r)
		case strings.Contains(string(b), `"tools"`):
			gatewaytest.Says(`{"choices":[{"message":{"content":"c","tool_calls":[{"id":"1","type":"function","function":{"name":"run","arguments":"{\"b\":[1],\"a\":\"x\"}"}}]}}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`)(w, r)
		default:
			gatewaytest.Says(gatewaytest.Answer)(w, r)
		}
	})
	s := gatewaytest.Open(t, g, gatewaytest.Policy(A0, B, C), nil)
	const message = `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct {
		name, path, body string
		status           int
		want, sent       string
	}{
		{"inference", "/api/inference", `{"evaluation_run_id":"r","model":"m","temperature":0.5,` + message + `}`, 200, `{"content":"hi \u003cb\u003e","tool_calls":[]}`, `"temperature":0.5`},
		{"tools", "/api/inference", `{"evaluation_run_id":"r","model":"m","temperature":0,"tool_mode":"auto","tools":[{"name":"run","description":"d","parameters":[{"type":"string","name":"a","description":"e","required":true}]}],` + message + `}`, 200, `{"content":"c","tool_calls":[{"name":"run","arguments":[{"name":"b","value":[1]},{"name":"a","value":"x"}]}]}`, `"required":["a"]`},
		{"tools without a mode", "/api/inference", `{"evaluation_run_id":"r","model":"m","temperature":0,"tools":[{"name":"t"}],` + message + `}`, 422, `{"detail":"tools: tool_mode is none"}`, ""},
		{"a mode without tools", "/api/inference", `{"evaluation_run_id":"r","model":"m","temperature":0,"tool_mode":"required",` + message + `}`, 422, "", ""},
		{"auto without tools", "/api/inference", `{"evaluation_run_id":"r","model":"m","temperature":0,"tool_mode":"auto",` + message + `}`, 200, "", ""},
		{"no model of this name", "/api/inference", `{"evaluation_run_id":"r","model":"gpt-9","temperature":0,` + message + `}`, 404, "", ""},
		{"embedding", "/api/embedding", `{"evaluation_run_id":"r","model":"m","input":"a"}`, 200, `{"embedding":[0.25,-1e-3]}`, `"input":"a"`},
		{"embedding of a list", "/api/embedding", `{"evaluation_run_id":"r","model":"m","input":["a"]}`, 422, "", ""},
		{"no token", "/api/v1/chat/completions", `{"model":"m",` + message + `}`, 401, `{"detail":"Authorization is missing"}`, ""},
		{"another route", "/api/v1/completions", `{}`, 403, "", ""},
	} {
		got.Store("")
		r := gatewaytest.Post(t, s, c.path, c.body)
		if r.Status != c.status || c.want != "" && r.Body != c.want || !strings.Contains(got.Load().(string), c.sent) {
			t.Errorf("%s: %d %s\nupstream got %s", c.name, r.Status, r.Body, got.Load())
		}
	}
	ask := func(method, path, body string) (int, string) {
		q, err := http.NewRequest(method, s.BaseURL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range s.Header() {
			q.Header.Set(k, v)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Authorization", "Bearer unused")
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	got.Store("")
	code, text := ask(http.MethodPost, "/api/v1/chat/completions", `{"models":["m","x"],"stream":true,"provider":{"order":["p"]},"plugins":[1],"n":1,"max_tokens":7,`+message+`}`)
	sent := got.Load().(string)
	if code != 200 || text != gatewaytest.Answer || strings.Contains(sent, "provider") || strings.Contains(sent, "plugins") || strings.Contains(sent, `"stream":true`) || !strings.Contains(sent, `"max_tokens":7`) {
		t.Errorf("%d %s\nupstream got %s", code, text, sent)
	}
	if code, text := ask(http.MethodPost, "/api/v1/chat/completions", `{"model":"gpt-9",`+message+`}`); code != 403 {
		t.Errorf("a model that is not allowed: %d %s", code, text)
	}
	// One counter for all doors, and the lists.
	var b, c map[string]any
	_, text = ask(http.MethodGet, "/api/usage?evaluation_run_id=r", "")
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		t.Fatal(err)
	}
	_, text = ask(http.MethodGet, "/api/v1/usage", "")
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if b["used_cost_usd"] != c["total_cost_usd"] || c["total_cost_usd"].(float64) <= 0 || c["requests"] != 5.0 || c["evaluation_run_id"] != "run-1" || b["max_cost_usd"] != c["max_cost_usd"] {
		t.Errorf("%v\n%v", b, c)
	}
	for path, want := range map[string]string{"/api/inference-models": `"cost_usd_per_million_input_tokens"`, "/api/embedding-models": `"pricing_mode":"per_token"`, "/healthz": `"ok"`} {
		if code, text := ask(http.MethodGet, path, ""); code != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	// A budget that is used up.
	p := gatewaytest.Policy(B, C)
	p.Budget.Micros = 1
	if r := gatewaytest.Post(t, gatewaytest.Open(t, gatewaytest.Start(t, gateway.Config{Dialects: Dialects()}, gatewaytest.Says(gatewaytest.Answer)), p, nil), "/api/inference", `{"evaluation_run_id":"r","model":"m","temperature":0,`+message+`}`); r.Status != 429 || !strings.HasPrefix(r.Body, `{"detail":"`) {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// No body that the gateway hands on crashes a parser of the newer dialects.
func FuzzParseNewer(f *testing.F) {
	f.Add([]byte(`{"evaluation_run_id":"r","model":"m","temperature":1,"tool_mode":"auto","tools":[{"name":"t","parameters":[{}]}],"messages":[{"role":"user","content":"x"}]}`))
	f.Add([]byte(`{"models":["m"],"n":1,"messages":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // Route.Parse gets JSON
		}
		for _, parse := range []func([]byte, gateway.FieldRules) (*gateway.Request, error){inferenceB, embeddingB, stripped(gateway.ParseChat, chatFields), stripped(gateway.ParseEmbedding, embeddingFields)} {
			_, _ = parse(raw, nil)
		}
	})
}
