package door

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/gatewaytest"
	"github.com/agon-arena/agon/gateway/tool"
)

// find is a catalogue's tool that says what it was asked.
type find struct{}

func (find) Name() string      { return "find_product" }
func (find) Source() string    { return "catalogue" }
func (find) Price() tool.Price { return tool.Price{PerCall: 10, Version: "test"} }
func (find) Check(args []byte) (any, error) {
	var m map[string]any
	if err := json.Unmarshal(args, &m); err != nil {
		return nil, errors.New("arguments: want an object")
	}
	return string(args), nil
}

func (find) Do(_ context.Context, checked any) (tool.Reply, error) {
	args, _ := checked.(string)
	if strings.Contains(args, `"refuse"`) {
		return tool.Reply{Body: json.RawMessage(`{"error":"no"}`), Status: 422}, nil
	}
	b, err := json.Marshal([]string{args})
	return tool.Reply{Body: b, Results: 1}, err
}

func open(t *testing.T, answer string, clock func() time.Time) (gateway.Session, *gatewaytest.Log) {
	t.Helper()
	g := gatewaytest.Start(t, gateway.Config{Dialects: Dialects(), Tools: []tool.Tool{find{}}, Clock: clock}, gatewaytest.Says(answer))
	p := gatewaytest.Policy(ORO)
	p.Tools, p.NonceField = []string{"*"}, "oro_metadata"
	var l gatewaytest.Log
	return gatewaytest.Open(t, g, p, &l), &l
}

// Statuses and bodies are those of the original proxy, byte for byte where it
// writes them itself (spec/oro.md 3.1).
func TestBodies(t *testing.T) {
	s, l := open(t, gatewaytest.Answer, nil)
	forbidden := `{"error": "forbidden"}` + "\n"
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"health":       {"GET", "/health", "", 200, "healthy\n"},
		"search":       {"GET", "/search/find_product?q=red%20lamp&page=1&page=2", "", 200, `["{\"page\":\"1\",\"q\":\"red lamp\"}"]`},
		"bad escape":   {"GET", "/search/find_product?q=%zz", "", 400, `query: invalid URL escape`},
		"refused":      {"GET", "/search/find_product?q=refuse", "", 422, `{"error":"no"}`},
		"no such tool": {"GET", "/search/view_product_information?product_ids=1", "", 404, "not offered"},
		"raw":          {"GET", "/search/get_product_raw?product_ids=1", "", 403, forbidden},
		"raw, dotted":  {"GET", "/search/x/../get_product_raw?product_ids=1", "", 403, forbidden},
		"else":         {"GET", "/anything", "", 403, forbidden},
		"tools":        {"POST", "/v1/tools/find_product", "{}", 403, forbidden},
		"get chat":     {"GET", "/inference/chat/completions", "", 403, forbidden},
		"no body":      {"POST", "/inference/chat/completions", "", 400, `{"error":"Missing or unreadable request body"}`},
		"no json":      {"POST", "/inference/chat/completions", "{", 400, `{"error":"Invalid JSON in request body"}`},
		"no model":     {"POST", "/inference/chat/completions", "{}", 400, `{"error":"Missing 'model' field in request body"}`},
		"empty model":  {"POST", "/inference/chat/completions", `{"model":""}`, 400, `{"error":"Missing 'model' field in request body"}`},
		"stream":       {"POST", "/inference/chat/completions", `{"model":"m","stream":true}`, 400, `{"error":"Streaming is not supported through the proxy"}`},
		"other model":  {"POST", "/inference/chat/completions", `{"model":"x"}`, 403, `{"error":"Model 'x' is not allowed","allowed_models":["m"]}`},
		"chat":         {"POST", "/inference/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":false}`, 200, "choices"},
		"long query":   {"GET", "/search/find_product?q=" + strings.Repeat("x", 70<<10), "", 431, ""},
	} {
		r := gatewaytest.Send(t, s, c.method, c.path, c.body)
		if r.Status != c.status || !strings.Contains(r.Body, c.want) || c.status != 200 && strings.HasPrefix(c.want, "{") && r.Body != c.want {
			t.Errorf("%s: %d %q, want %d %q", name, r.Status, r.Body, c.status, c.want)
		}
	}
	if n := len(l.Of(agon.EventTool)); n != 2 {
		t.Errorf("%d tool calls were recorded, want those of search and refused", n)
	}
	if n := len(l.Of(agon.EventModel)); n != 1 {
		t.Errorf("%d model calls were recorded", n)
	}
}

// The statuses of 2.8, each reproduced: a call that the model wrote into its
// text is the model's only with its mark, once, in time, with its own bytes.
func TestNonces(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s, l := open(t, `{"choices":[{"message":{"content":"<tool_call>[{\"name\": \"find_product\", \"parameters\": {\"q\": \"lamp\", \"page\": 1}}, {\"name\": \"find_product\", \"parameters\": {\"q\": \"b\"}}]</tool_call>"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":40}}`,
		func() time.Time { return now })
	chat := func() map[string]string {
		r := gatewaytest.Send(t, s, "POST", "/inference/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
		var out struct {
			Meta struct {
				Nonces map[string]string `json:"tool_nonces"`
			} `json:"oro_metadata"`
		}
		if err := json.Unmarshal([]byte(r.Body), &out); err != nil || r.Status != 200 || len(out.Meta.Nonces) != 2 {
			t.Fatalf("%d %s: %v", r.Status, r.Body, err)
		}
		return out.Meta.Nonces
	}
	dispatch := func(args, id, token string) string {
		var head []string
		if id != "" {
			head = append(head, gateway.CallHeader, id)
		}
		if token != "" {
			head = append(head, gateway.NonceHeader, token)
		}
		return gatewaytest.Send(t, s, "GET", "/search/find_product?q=ignored", args, head...).Header.Get("X-Nonce-Status")
	}
	first := chat()
	args := `{"q": "lamp", "page": 1}`
	for i, c := range []struct{ args, id, token, want string }{
		{args, "", "", "missing"},
		{args, "xml_0_0", "", "missing"},
		{args, "xml_0_0", "x.y", "malformed"},
		{args, "xml_0_0", first["xml_0_1"], "mismatch"},
		{`{"q": "lamp", "page": 2}`, "xml_0_0", first["xml_0_0"], "mismatch"},
		{args, "xml_0_0", first["xml_0_0"], "valid"},
		{args, "xml_0_0", first["xml_0_0"], "replayed"},
	} {
		if got := dispatch(c.args, c.id, c.token); got != c.want {
			t.Errorf("dispatch %d: %s, want %s", i, got, c.want)
		}
	}
	second := chat() // the same ids again: the newest reply owns them
	if got := dispatch(args, "xml_0_0", second["xml_0_0"]); got != "valid" {
		t.Errorf("after a second reply: %s", got)
	}
	now = now.Add(2 * time.Minute)
	if got := dispatch(`{"q": "b"}`, "xml_0_1", second["xml_0_1"]); got != "expired" {
		t.Errorf("late: %s", got)
	}
	credited := 0
	for _, e := range l.Of(agon.EventTool) {
		ev, _ := e.(gateway.ToolCallEvent)
		if strings.Contains(string(ev.Arguments), "ignored") {
			t.Errorf("a parameter was carried out beside the body: %s", ev.Arguments)
		}
		if ev.Receipt.Emitted != "" {
			credited++
		}
	}
	if credited != 2 {
		t.Errorf("%d dispatches are the model's, want 2", credited)
	}
}

// Behind ORO's routes OpenAI's models and chat may be open, and nothing else.
func TestOpenAIBehind(t *testing.T) {
	g := gatewaytest.Start(t, gateway.Config{Dialects: Dialects()}, gatewaytest.Says(gatewaytest.Answer))
	s := gatewaytest.Open(t, g, gatewaytest.Policy(ORO, gateway.DialectOpenAI), nil)
	for path, want := range map[string]int{"/v1/models": 200, "/v1/tools": 403} {
		if r := gatewaytest.Send(t, s, "GET", path, ""); r.Status != want {
			t.Errorf("GET %s: %d %s", path, r.Status, r.Body)
		}
	}
	const chat = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	for path, want := range map[string]int{"/v1/chat/completions": 200, "/v1/embeddings": 403, "/agents/inference": 403} {
		if r := gatewaytest.Post(t, s, path, chat); r.Status != want {
			t.Errorf("POST %s: %d %s", path, r.Status, r.Body)
		}
	}
	alone := gatewaytest.Open(t, g, gatewaytest.Policy(ORO), nil)
	if r := gatewaytest.Post(t, alone, "/v1/chat/completions", chat); r.Status != 403 || !strings.Contains(r.Body, "not open here") {
		t.Errorf("OpenAI's chat without its dialect: %d %s", r.Status, r.Body)
	}
}

// Whatever the parameters of a URL: they are refused, or become one JSON object of texts.
func FuzzParameters(f *testing.F) {
	f.Add("q=red%20lamp&page=1&page=2")
	f.Add("q=%zz&;=&%00")
	f.Fuzz(func(t *testing.T, raw string) {
		b, err := parameters(raw)
		if err != nil {
			return
		}
		var m map[string]string
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatalf("%q: %s: %v", raw, b, err)
		}
	})
}

// Requests of one session run off at thirty a second, with fifty more at once; another
// session's do not count, and neither does asking whether the proxy lives.
func TestRate(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(1_700_000_000, 0)
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	g := gatewaytest.Start(t, gateway.Config{Dialects: dialects(clock), Tools: []tool.Tool{find{}}}, gatewaytest.Says(gatewaytest.Answer))
	p := gatewaytest.Policy(ORO)
	p.Tools = []string{"*"}
	one := gatewaytest.Open(t, g, p, &gatewaytest.Log{})
	p.Task = "other"
	other := gatewaytest.Open(t, g, p, &gatewaytest.Log{})
	ask := func(s gateway.Session, path string) int { return gatewaytest.Send(t, s, "GET", path, "").Status }
	for i := range burst + 1 {
		if status := ask(one, "/search/find_product?q=a"); status != 200 {
			t.Fatalf("request %d: %d", i, status)
		}
	}
	if x := ask(one, "/search/find_product?q=a"); x != 503 {
		t.Errorf("one too many: %d", x)
	}
	if r := gatewaytest.Send(t, one, "POST", chatPath, `{"model":"m"}`); r.Status != 503 {
		t.Errorf("models and searches have one rate: %d", r.Status)
	}
	if x, y := ask(one, "/health"), ask(other, "/search/find_product?q=a"); x != 200 || y != 200 {
		t.Errorf("health %d, another's search %d", x, y)
	}
	mu.Lock()
	now = now.Add(100 * time.Millisecond)
	mu.Unlock()
	for i, want := range []int{200, 200, 200, 503} {
		if x := ask(one, "/search/find_product?q=a"); x != want {
			t.Errorf("after a tenth of a second, request %d: %d, want %d", i, x, want)
		}
	}
}
