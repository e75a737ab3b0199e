package door

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/gatewaytest"
)

func TestA0(t *testing.T) {
	var got atomic.Value
	g := gatewaytest.Start(t, gateway.Config{Dialects: Dialects()}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got.Store(r.URL.Path + " " + string(b))
		if strings.HasSuffix(r.URL.Path, "/embeddings") {
			gatewaytest.Says(`{"object":"list","data":[{"embedding":[0.25,-1e-3]},{"embedding":[1, 2]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`)(w, r)
			return
		}
		gatewaytest.Says(gatewaytest.Answer)(w, r)
	})
	var l gatewaytest.Log
	s := gatewaytest.Open(t, g, gatewaytest.Policy(A0), &l)
	for _, c := range []struct {
		name, path, body string
		status           int
		want, sent       string
	}{
		{"chat", "/agents/inference", `{"run_id":"11111111-2222","messages":[{"role":"user","content":"x"}]}`, 200, `"hi \u003cb\u003e"`, `/v1/chat/completions {"model":"m","messages":[{"role":"user","content":"x"}],"temperature":0.7,"max_tokens":1000}`},
		{"embedding", "/agents/embedding", `{"run_id":"r","input":["a","b"]}`, 200, `[[0.25,-1e-3],[1, 2]]`, `/v1/embeddings {"model":"m","input":["a","b"]}`},
		{"model", "/agents/inference", `{"run_id":"r","model":"gpt-9","messages":[{"role":"user","content":"x"}]}`, 200, `"Error: the model \"gpt-9\" is not supported here."`, ""},
		{"shape", "/agents/inference", `{"messages":[{"role":"user","content":"x"}]}`, 422, `{"detail":"run_id: missing"}`, ""},
		{"broken", "/agents/inference", `{`, 422, `{"detail":"body is not valid JSON at byte 1: unexpected end of JSON input"}`, ""},
	} {
		got.Store("")
		r := gatewaytest.Post(t, s, c.path, c.body)
		if r.Status != c.status || r.Body != c.want || got.Load() != c.sent {
			t.Errorf("%s: %d %s\nupstream got %s", c.name, r.Status, r.Body, got.Load())
		}
	}
	first := l.Of(agon.EventModel)[0].(gateway.ModelCall)
	if first.ClaimedRun != "11111111-2222" || first.Receipt.Run != "run-1" || first.Receipt.Route != "/agents/inference" {
		t.Errorf("event %+v", first)
	}
	// The proxy's own model is taken where it is offered.
	two := gatewaytest.Open(t, gatewaytest.Start(t, gateway.Config{Dialects: Dialects()}, gatewaytest.Says(gatewaytest.Answer), gatewaytest.Model, preferred), gatewaytest.Policy(A0), nil)
	gatewaytest.Post(t, two, "/agents/inference", `{"run_id":"r","messages":[{"role":"user","content":"x"}]}`)
	if m := two.Receipts()[0].Model; m != preferred {
		t.Errorf("model %s", m)
	}
}

// What an agent reads when a call fails: a sentence with status 200.
func TestSentences(t *testing.T) {
	const chat = `{"run_id":"r","messages":[{"role":"user","content":"x"}]}`
	for name, c := range map[string]struct {
		status int // of the provider
		money  agon.Micros
		body   string
		shown  int
		want   string
	}{
		"provider down":    {500, 1_000_000, chat, 200, `"Error: the model's provider did not answer this call."`},
		"provider refuses": {422, 1_000_000, chat, 200, `"Error: the model's provider refused this request as malformed."`},
		"no money":         {200, 1, chat, 200, `"Error: the budget of this run is used up: its money does not carry this call."`},
		"too large":        {200, 1_000_000, strings.Repeat(" ", 5<<20), 413, `{"detail":"body is larger than 4194304 bytes"}`},
	} {
		g := gatewaytest.Start(t, gateway.Config{Dialects: Dialects()}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, `{"error":"secret words of the provider"}`)
		})
		p := gatewaytest.Policy(A0)
		p.Budget.Micros = c.money
		if r := gatewaytest.Post(t, gatewaytest.Open(t, g, p, nil), "/agents/inference", c.body); r.Status != c.shown || r.Body != c.want {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	g := gatewaytest.Start(t, gateway.Config{Dialects: Dialects()}, gatewaytest.Says(gatewaytest.Answer))
	p := gatewaytest.Policy(A0)
	p.Models = nil
	if r := gatewaytest.Post(t, gatewaytest.Open(t, g, p, nil), "/agents/inference", chat); r.Status != 200 || r.Body != `"Error: no model is offered here."` {
		t.Errorf("no model: %d %s", r.Status, r.Body)
	}
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		parse    func([]byte, gateway.FieldRules) (*gateway.Request, error)
		in, want string
	}{
		"chat":               {inference, `{"run_id":"r","messages":[{"role":"user","content":"x"}],"n":5,"store":true}`, ""},
		"evaluation run":     {inference, `{"evaluation_run_id":"r","temperature":0,"messages":[{"role":"user","content":"x"}]}`, ""},
		"null":               {inference, `{"run_id":"r","temperature":null,"model":null,"messages":[{"role":"user","content":"x"}]}`, ""},
		"without run":        {inference, `{"messages":[{"role":"user","content":"x"}]}`, "run_id: missing"},
		"without messages":   {inference, `{"run_id":"r"}`, "messages: missing"},
		"odd run":            {inference, `{"run_id":7}`, "run_id: want a string"},
		"no run":             {inference, `{"run_id":null}`, "run_id: want a string"},
		"odd temperature":    {inference, `{"run_id":"r","temperature":"1"}`, "temperature: want a number"},
		"image":              {inference, `{"run_id":"r","messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, "messages[0].content[0].type"},
		"no object":          {inference, `[]`, "not a JSON object"},
		"nothing":            {inference, `null`, "not a JSON object"},
		"embedding":          {embedding, `{"run_id":"r","input":"x"}`, ""},
		"without input":      {embedding, `{"run_id":"r"}`, "input: missing"},
		"embedding, no run":  {embedding, `{"input":"x"}`, "run_id: missing"},
		"embedding, odd run": {embedding, `{"run_id":{},"input":"x"}`, "run_id: want a string"},
	} {
		q, err := c.parse([]byte(c.in), nil)
		if c.want == "" && (err != nil || q.Claim != "r") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %+v %v, want %q", name, q, err, c.want)
		}
	}
}

// No body that the gateway hands on crashes a parser.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"run_id":"r","messages":[{"role":"user","content":"x"}],"temperature":1e9}`))
	f.Add([]byte(`{"evaluation_run_id":"r","input":["a"],"temperature":-}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // Route.Parse gets JSON
		}
		for _, parse := range []func([]byte, gateway.FieldRules) (*gateway.Request, error){inference, embedding} {
			if q, err := parse(raw, nil); err == nil && q.Claim == "" {
				t.Fatalf("%s: no run", raw)
			}
		}
	})
}
