package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/tool"
)

// favourite is the model that words prefers.
const favourite = "favourite"

// words is a dialect of the tests: one text in, one text out, whatever happened.
func words() Dialect {
	refuse := func(r Refusal) (int, any) {
		s := "sorry: " + r.Code
		if r.Lacks != "" {
			s += " for want of " + r.Lacks
		}
		if r.Model != "" {
			s += " " + r.Model
		}
		switch r.Code {
		case CodeModel, CodeBudget, CodeUpstream, CodeRefused:
			return http.StatusOK, s
		}
		return r.Status, s
	}
	type asked struct {
		Say, Model, Who string
		Stream          bool
	}
	chat := func(raw []byte, rules FieldRules) (*Request, error) {
		var q asked
		if json.Unmarshal(raw, &q) != nil || q.Say == "" {
			return nil, BadField("say", "missing")
		}
		body, err := json.Marshal(map[string]any{"model": q.Model, "stream": q.Stream, "messages": []map[string]string{{"role": "user", "content": q.Say}}})
		if err != nil {
			return nil, err
		}
		r, err := ParseChat(body, rules)
		if err == nil {
			r.Limit, r.Claim = 1024, q.Who
			r.Set("temperature", json.RawMessage("0.5"))
		}
		return r, err
	}
	said := func(r Reply) ([]byte, bool) {
		if r.Message == nil {
			return nil, false
		}
		b, err := json.Marshal(r.Message.Content)
		return b, err == nil
	}
	return Dialect{
		Name:   "words",
		Routes: map[string]Route{"POST /words/chat": {Path: "/words/chat", Parse: chat, Prefer: favourite, Reply: said, Refuse: refuse}},
		Serve: func(x *Exchange) bool {
			name, below := strings.CutPrefix(x.R.URL.Path, "/words/")
			switch {
			case !below || name == "later":
				return false
			case name == "models":
				_, _ = io.WriteString(x.W, strings.Join(x.Models(provider.PathChat), ","))
			case name == "raw":
				b, err := x.Body(1 << 10)
				if err != nil {
					x.Refuse("/words/raw", http.StatusRequestEntityTooLarge, "too_long", `{"no":"long"}`+"\n")
					return true
				}
				x.Call(Route{Path: "/words/raw", Parse: ParseChat}, b)
			default:
				x.Tool("/words/tool", name, func() ([]byte, error) {
					b, err := x.Body(1 << 10)
					if err == nil && len(b) == 0 {
						return nil, &Refusal{Status: http.StatusTeapot, Code: "empty", Message: "say something"}
					}
					return b, err
				})
			}
			return true
		},
	}
}

// echoTool answers with its arguments.
type echoTool struct{}

func (echoTool) Name() string                   { return "echo" }
func (echoTool) Source() string                 { return "here" }
func (echoTool) Price() tool.Price              { return tool.Price{PerCall: 1, Version: "test"} }
func (echoTool) Check(args []byte) (any, error) { return json.RawMessage(args), nil }

func (echoTool) Do(_ context.Context, checked any) (tool.Reply, error) {
	args, _ := checked.(json.RawMessage)
	return tool.Reply{Body: args, Results: 1}, nil
}

// A dialect translates what goes to a model and what comes back; meters, books
// and events are the same for all.
func TestDialect(t *testing.T) {
	var sent atomic.Value
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		sent.Store(r.URL.Path + " " + string(b))
		says(answerJSON)(w, r)
	})
	g := start(t, Config{Upstreams: []provider.Upstream{u}, Tools: []tool.Tool{echoTool{}}})
	p := policy("*")
	p.Dialects, p.Tools = []string{"words", DialectOpenAI}, []string{"*"}
	var l log
	s := open(t, g, p, &l)
	const body = `{"model":"m","messages":[{"content":"x","role":"user"}],"temperature":0.5,"max_tokens":1000}`
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		want, sent         string
	}{
		"chat":          {"POST", "/words/chat", `{"say":"x","who":"me"}`, 200, `"hi \u003cb\u003e"`, "/v1/chat/completions " + body},
		"stream":        {"POST", "/words/chat", `{"say":"x","stream":true}`, 200, `"hi \u003cb\u003e"`, "/v1/chat/completions " + body},
		"model":         {"POST", "/words/chat", `{"say":"x","model":"gpt-9"}`, 200, `"sorry: model_not_found gpt-9"`, ""},
		"shape":         {"POST", "/words/chat", `{"say":1}`, 400, `"sorry: invalid_request"`, ""},
		"broken":        {"POST", "/words/chat", `{`, 400, `"sorry: invalid_request"`, ""},
		"twice":         {"POST", "/words/chat", `{"say":"x","say":"y"}`, 400, `"sorry: invalid_request"`, ""},
		"models":        {"GET", "/words/models", "", 200, "m", ""},
		"read by Serve": {"POST", "/words/raw", hello, 200, answerJSON, `/v1/chat/completions {"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":1000}`},
		"twice, raw":    {"POST", "/words/raw", `{"model":"m","model":"m"}`, 400, "twice", ""},
		"own refusal":   {"POST", "/words/raw", strings.Repeat(" ", 2<<10), 413, `{"no":"long"}` + "\n", ""},
		"tool":          {"POST", "/words/echo", `{"a":1}`, 200, `{"a":1}`, ""},
		"no tool":       {"POST", "/words/hammer", `{"a":1}`, 404, "not offered", ""},
		"no arguments":  {"POST", "/words/echo", ``, 418, "say something", ""},
		"not JSON":      {"POST", "/words/echo", `{"a":1,"a":2}`, 400, "twice", ""},
		"next dialect":  {"GET", "/v1/models", "", 200, `"id":"m"`, ""},
		"nobody's":      {"GET", "/words/later", "", 403, "not open here", ""},
	} {
		sent.Store("")
		r := send(t, s, c.method, c.path, "application/json", c.body)
		if r.status != c.status || !strings.Contains(r.body, c.want) || sent.Load() != c.sent {
			t.Errorf("%s: %d %s, the provider got %s", name, r.status, r.body, sent.Load())
		}
	}
	claimed := 0
	for _, e := range l.of(agon.EventModel) {
		ev := e.(ModelCall)
		if ev.ClaimedRun == "me" && ev.Receipt.Route == "/words/chat" && ev.Receipt.Run == "run-1" {
			claimed++
		}
	}
	if n := len(l.of(agon.EventModel)); n != 3 || claimed != 1 {
		t.Errorf("%d model calls, %d with the claim, want 3 and 1", n, claimed)
	}
	if n := len(l.of(agon.EventRefused)); n != 10 {
		t.Errorf("%d refused calls are recorded, want 10", n)
	}
	// The preferred model is taken where it is offered.
	two := upstream(t, says(answerJSON), func(c *openaiConfig) { c.Models = []string{"m", favourite} })
	prices := testPrices(t)
	if err := prices.Set(favourite, Price{In: 1, Out: 1, MaxOutput: 1000, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	s2 := open(t, start(t, Config{Upstreams: []provider.Upstream{two}, Prices: prices}), policy("*"), nil)
	post(t, s2, "/words/chat", `{"say":"x"}`)
	if m := s2.Receipts()[0].Model; m != favourite {
		t.Errorf("model %s", m)
	}
}

// A session speaks what its policy names, and nothing else that the process serves.
func TestDialectOff(t *testing.T) {
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(answerJSON))}})
	p := policy("m")
	p.Dialects = []string{DialectTools}
	s := open(t, g, p, nil)
	for _, path := range []string{"/words/chat", "/words/models", chatPath} {
		if r := post(t, s, path, `{"say":"x"}`); r.status != 403 || !strings.Contains(r.body, "not open here") {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

func TestNewChecksDialects(t *testing.T) {
	route := map[string]Route{"POST /x": {Path: "/x", Parse: ParseChat}}
	for name, c := range map[string]struct {
		list []Dialect
		want string
	}{
		"good":      {[]Dialect{{Name: "a", Routes: route}, {Name: "b-2"}}, ""},
		"no name":   {[]Dialect{{Routes: route}}, "lower-case"},
		"bad name":  {[]Dialect{{Name: "A_b"}}, "lower-case"},
		"twice":     {[]Dialect{{Name: "a"}, {Name: "a"}}, "two dialects"},
		"our own":   {[]Dialect{{Name: DialectOpenAI}}, "two dialects"},
		"no parser": {[]Dialect{{Name: "a", Routes: map[string]Route{"POST /x": {Path: "/x"}}}}, "no parser"},
	} {
		_, err := New(Config{Dialects: c.list})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	g := start(t, Config{})
	p := policy("*")
	p.Dialects = []string{"soap"}
	if _, err := g.Open(t.Context(), p, nil); err == nil || !strings.Contains(err.Error(), "speaks anthropic, google, openai, responses, tools, words") {
		t.Errorf("unknown dialect: %v", err)
	}
}
