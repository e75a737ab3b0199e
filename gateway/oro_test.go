package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
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

func oroGateway(t *testing.T, answer string, clock func() time.Time) (*session, *log) {
	t.Helper()
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(answer))}, Tools: []tool.Tool{find{}}, Clock: clock})
	p := policy("m")
	p.Dialects, p.Tools, p.NonceField = []string{DialectORO}, []string{"*"}, "oro_metadata"
	var l log
	return open(t, g, p, &l), &l
}

func ask(t *testing.T, s *session, method, path, body string, head map[string]string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.BaseURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(TokenHeader, s.token)
	for k, v := range head {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// Statuses and bodies are those of the original proxy, byte for byte where it
// writes them itself (spec/oro.md 3.1).
func TestOROBodies(t *testing.T) {
	s, l := oroGateway(t, answerJSON, nil)
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
		status, _, body := ask(t, s, c.method, c.path, c.body, nil)
		if status != c.status || !strings.Contains(body, c.want) || c.status != 200 && strings.HasPrefix(c.want, "{") && body != c.want {
			t.Errorf("%s: %d %q, want %d %q", name, status, body, c.status, c.want)
		}
	}
	if n := len(l.of(agon.EventTool)); n != 2 {
		t.Errorf("%d tool calls were recorded, want those of search and refused", n)
	}
	if n := len(l.of(agon.EventModel)); n != 1 {
		t.Errorf("%d model calls were recorded", n)
	}
}

// The statuses of 2.8, each reproduced: a call that the model wrote into its
// text is the model's only with its mark, once, in time, with its own bytes.
func TestORONonces(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s, l := oroGateway(t, `{"choices":[{"message":{"content":"<tool_call>[{\"name\": \"find_product\", \"parameters\": {\"q\": \"lamp\", \"page\": 1}}, {\"name\": \"find_product\", \"parameters\": {\"q\": \"b\"}}]</tool_call>"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":40}}`,
		func() time.Time { return now })
	chat := func() map[string]string {
		status, _, body := ask(t, s, "POST", "/inference/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, nil)
		var out struct {
			Meta struct {
				Nonces map[string]string `json:"tool_nonces"`
			} `json:"oro_metadata"`
		}
		if err := json.Unmarshal([]byte(body), &out); err != nil || status != 200 || len(out.Meta.Nonces) != 2 {
			t.Fatalf("%d %s: %v", status, body, err)
		}
		return out.Meta.Nonces
	}
	dispatch := func(args, id, token string) string {
		head := map[string]string{}
		if id != "" {
			head[CallHeader] = id
		}
		if token != "" {
			head[NonceHeader] = token
		}
		_, h, _ := ask(t, s, "GET", "/search/find_product?q=ignored", args, head)
		return h.Get(statusHeader)
	}
	first := chat()
	args := `{"q": "lamp", "page": 1}`
	for i, c := range []struct{ args, id, token, want string }{
		{args, "", "", nonceMissing},
		{args, "xml_0_0", "", nonceMissing},
		{args, "xml_0_0", "x.y", nonceMalformed},
		{args, "xml_0_0", first["xml_0_1"], nonceMismatch},
		{`{"q": "lamp", "page": 2}`, "xml_0_0", first["xml_0_0"], nonceMismatch},
		{args, "xml_0_0", first["xml_0_0"], nonceValid},
		{args, "xml_0_0", first["xml_0_0"], nonceReplayed},
	} {
		if got := dispatch(c.args, c.id, c.token); got != c.want {
			t.Errorf("dispatch %d: %s, want %s", i, got, c.want)
		}
	}
	second := chat() // the same ids again: the newest reply owns them
	if got := dispatch(args, "xml_0_0", second["xml_0_0"]); got != nonceValid {
		t.Errorf("after a second reply: %s", got)
	}
	now = now.Add(2 * time.Minute)
	if got := dispatch(`{"q": "b"}`, "xml_0_1", second["xml_0_1"]); got != nonceExpired {
		t.Errorf("late: %s", got)
	}
	credited := 0
	for _, e := range l.of(agon.EventTool) {
		ev, _ := e.(ToolCallEvent)
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

func FuzzTextCalls(f *testing.F) {
	for _, s := range []string{
		`<tool_call>{"name":"a","parameters":{"q":1}}</tool_call>`, `<tool_call>[{"name":"a","arguments":{}}]`, `<tool_call><tool_call>`, `<tool_call>[[]]</tool_call>`, "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for i, c := range TextCalls(s) {
			if c.Name == "" || c.ID == "" || !gatewayID(c.ID) || i >= maxToolCalls {
				t.Fatalf("call %d: %+v", i, c)
			}
			if c.Arguments != "" && !json.Valid([]byte(c.Arguments)) {
				t.Fatalf("arguments %q", c.Arguments)
			}
		}
	})
}
