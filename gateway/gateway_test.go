package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/scripted"
)

func TestChatPassesBytesAndBooksMoney(t *testing.T) {
	var got string
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = string(b)
		if r.Header.Get("Authorization") != "Bearer "+testKey || r.Header.Get(TokenHeader) != "" || r.URL.Path != "/v1/chat/completions" {
			t.Errorf("upstream got %s %v", r.URL.Path, r.Header)
		}
		says(answerJSON)(w, r)
	})
	g := start(t, Config{Upstreams: []provider.Upstream{u}})
	var l log
	s := open(t, g, policy("m"), &l)
	r := post(t, s, chatPath, `{"messages":[{"role":"user","content":"hello","extra":1}],"user":"me","temperature":0.5,"model":"m"}`)
	if r.status != 200 || r.body != answerJSON {
		t.Fatalf("reply %d %q", r.status, r.body)
	}
	if want := `{"model":"m","messages":[{"role":"user","content":"hello"}],"temperature":0.5,"max_tokens":1000}`; got != want {
		t.Errorf("upstream got\n%s\nwant\n%s", got, want)
	}
	if s.Spent() != 20 {
		t.Errorf("spent %d, want 10*1 + 5*2", s.Spent())
	}
	rs := s.Receipts()
	if len(rs) != 1 {
		t.Fatalf("%d receipts", len(rs))
	}
	x := rs[0]
	if x.Cost != 20 || x.Prompt != 10 || x.Completion != 5 || x.Provider != "openai" || x.Run != "run-1" || x.Attempt != 2 ||
		x.Outcome != "ok" || x.Status != 200 || x.PriceVersion != "test" || x.Reserved < x.Cost || x.Estimated ||
		x.RequestHash != agon.Sum([]byte(got)) || x.ResponseHash != agon.Sum([]byte(answerJSON)) {
		t.Errorf("receipt %+v", x)
	}
	evs := l.of(agon.EventModel)
	if len(evs) != 1 {
		t.Fatalf("%d events", len(evs))
	}
	ev := evs[0].(ModelCall)
	if ev.Receipt != x || ev.Request.Text != got || ev.Response.Text != answerJSON || ev.Message.Content != "hi <b>" {
		t.Errorf("event %+v", ev)
	}
}

func TestDoors(t *testing.T) {
	g := start(t, Config{Upstreams: []provider.Upstream{scripted.New(nil)}})
	var l log
	s := open(t, g, policy("*"), &l)
	only := policy("*")
	only.Dialects = []string{DialectOpenAI}
	o := open(t, g, only, nil)
	for _, c := range []struct {
		name           string
		s              Session
		method, path   string
		ctype, body    string
		want           int
		code, evidence string
	}{
		{"unknown path", s, "POST", "/v1/responses", "application/json", "{}", 403, "forbidden", ""},
		{"wrong method", s, "GET", chatPath, "", "", 403, "forbidden", ""},
		{"deeper path", s, "POST", "/v1/chat/completions/x", "application/json", "{}", 403, "forbidden", ""},
		{"dotted path", s, "POST", "/v1/../v1/chat/completions", "application/json", "{}", 403, "forbidden", ""},
		{"dialect off", o, "POST", "/words/chat", "application/json", "{}", 403, "forbidden", ""},
		{"content type", s, "POST", chatPath, "text/plain", hello, 415, "unsupported_media_type", ""},
		{"no content type", s, "POST", chatPath, "", hello, 415, "unsupported_media_type", ""},
		{"model", s, "POST", chatPath, "application/json", hello, 404, "model_not_found", ""},
		{"empty", s, "POST", chatPath, "application/json", "", 400, "invalid_request", ""},
		{"models", s, "GET", "/v1/models", "", "", 200, "", ""},
	} {
		r := send(t, c.s, c.method, c.path, c.ctype, c.body)
		if r.status != c.want || !strings.Contains(r.body, c.code) {
			t.Errorf("%s: %d %s, want %d %s", c.name, r.status, r.body, c.want, c.code)
		}
	}
	for _, h := range []map[string]string{nil, {TokenHeader: "x"}, {TokenHeader: s.ID()}} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", g.URL()+"/v1/models", nil)
		for k, v := range h {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 401 {
			t.Errorf("header %v: %d", h, resp.StatusCode)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", g.URL()+"/v1/models", nil)
	req.Header[TokenHeader] = []string{s.token, s.token}
	if resp, err := http.DefaultClient.Do(req); err != nil || resp.StatusCode != 401 {
		t.Errorf("two tokens: %v %v", resp, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r := send(t, s, "GET", "/v1/models", "", ""); r.status != 401 {
		t.Errorf("closed session: %d", r.status)
	}
	if n := len(l.of(agon.EventRefused)); n != 8 {
		t.Errorf("%d refused calls recorded, want 8", n)
	}
	if ev := s.Evidence(); ev.AgentErrors != 2 || ev.Calls != 0 {
		t.Errorf("evidence %+v", ev)
	}
}

func TestOpenRefuses(t *testing.T) {
	g := start(t, Config{})
	for name, change := range map[string]func(*Policy){
		"run":     func(p *Policy) { p.Run = "" },
		"dialect": func(p *Policy) { p.Dialects = nil },
		"unknown": func(p *Policy) { p.Dialects = []string{"soap"} },
		"budget":  func(p *Policy) { p.Budget.Micros = -1 },
	} {
		p := policy("*")
		change(&p)
		if _, err := g.Open(t.Context(), p, nil); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	if _, err := New(Config{Listen: "0.0.0.0:0"}); err == nil {
		t.Error("listens beyond loopback")
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Open(t.Context(), policy("*"), nil); err == nil {
		t.Error("opened after stop")
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestScripted(t *testing.T) {
	script, err := scripted.Parse([]byte(`
version = 1
[[rule]]
task = "stack-pop"
turn = 0
[[rule.tool_calls]]
name = "read"
arguments = {path = "a.py"}
[[rule]]
last = "def pop"
content = "fixed <it>"
`), "toml")
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, Config{Upstreams: []provider.Upstream{scripted.New(script)}})
	s := open(t, g, policy("*"), nil)
	r := post(t, s, chatPath, `{"model":"scripted","messages":[{"role":"user","content":"fix stack-pop"}],"tools":[{"type":"function","function":{"name":"read","parameters":{}}}]}`)
	var m wireReply
	if err := json.Unmarshal([]byte(r.body), &m); err != nil || r.status != 200 {
		t.Fatalf("%d %s %v", r.status, r.body, err)
	}
	msg, _ := m.message()
	if len(msg.ToolCalls) != 1 || msg.ToolCalls[0].Arguments != `{"path":"a.py"}` || msg.Finish != "tool_calls" {
		t.Errorf("message %+v", msg)
	}
	r = post(t, s, chatPath, `{"messages":[{"role":"user","content":"fix stack-pop"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"read","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"def pop(self):"}]}`)
	if !strings.Contains(r.body, `"content":"fixed <it>"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if s.Spent() != 0 || s.Receipts()[0].Provider != "scripted" || s.Receipts()[0].Model != "scripted" {
		t.Errorf("receipts %+v", s.Receipts())
	}
}

// The script as a server of its own, reached by the upstream for any OpenAI-compatible URL.
func TestOpenAICompatibleServer(t *testing.T) {
	script, err := scripted.Parse([]byte(`{"version":1,"rule":[{"content":"from <afar>"}]}`), "json")
	if err != nil {
		t.Fatal(err)
	}
	u := upstream(t, scripted.Handler(script).ServeHTTP, func(c *openaiConfig) { c.Models = []string{"scripted"} })
	var l log
	s := open(t, start(t, Config{Upstreams: []provider.Upstream{u}}), policy("*"), &l)
	for _, stream := range []string{"false", "true"} {
		r := post(t, s, chatPath, `{"stream":`+stream+`,"messages":[{"role":"user","content":"x"}]}`)
		if r.status != 200 || r.err != nil {
			t.Errorf("%d %s %v", r.status, r.body, r.err)
		}
	}
	for i, e := range l.of(agon.EventModel) {
		c := e.(ModelCall)
		if c.Message.Content != "from <afar>" || c.Receipt.Outcome != "ok" || c.Receipt.Estimated || c.Stream != (i == 1) {
			t.Errorf("call %d: %+v", i, c)
		}
	}
}
