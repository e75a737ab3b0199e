package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/tool"
	"github.com/agon-arena/agon/gateway/tool/search"
)

// broken is a search source that fails on demand.
type broken struct {
	search.Source
	mu  sync.Mutex
	bad error
}

func (b *broken) Search(ctx context.Context, q search.Query) ([]search.Hit, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bad != nil {
		return nil, b.bad
	}
	return b.Source.Search(ctx, q)
}

// documents finds every document that holds one of the words.
type documents []search.Hit

func (documents) Name() string { return "index" }

func (d documents) Search(_ context.Context, q search.Query) (out []search.Hit, err error) {
	for _, h := range d {
		if slices.ContainsFunc(strings.Fields(strings.ToLower(strings.Join(q.Terms, " "))), func(w string) bool { return strings.Contains(strings.ToLower(h.Snippet), w) }) {
			out = append(out, h)
		}
	}
	return out, nil
}

func toolGateway(t *testing.T, answer string, change ...func(*Policy)) (*session, *log, *broken) {
	t.Helper()
	src := &broken{Source: documents{
		{Link: "https://docs.example/a.md", Title: "Rivers", Snippet: "# Rivers\nThe Aare flows through Bern."},
		{Link: "https://docs.example/b.txt", Title: "Lakes are not rivers.", Snippet: "Lakes are not rivers."},
	}}
	g := start(t, Config{
		Upstreams: []provider.Upstream{upstream(t, says(answer))},
		Tools:     []tool.Tool{search.New(src, tool.Price{PerCall: 100, PerResult: 10, Version: "test"})},
	})
	p := policy("m")
	p.Dialects, p.Tools = append(p.Dialects, DialectTools), []string{"search_web"}
	for _, f := range change {
		f(&p)
	}
	var l log
	return open(t, g, p, &l), &l, src
}

func dispatch(t *testing.T, s *session, body, id, token string) (int, string, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.BaseURL()+"/v1/tools/search_web", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(TokenHeader, s.token)
	if id != "" {
		req.Header.Set(CallHeader, id)
	}
	if token != "" {
		req.Header.Set(NonceHeader, token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get(statusHeader), string(b)
}

func TestMeteredTool(t *testing.T) {
	s, l, src := toolGateway(t, answerJSON)
	if r := send(t, s, "GET", "/v1/tools", "", ""); r.body != `{"data":[{"name":"search_web","micros_per_call":100,"micros_per_result":10}]}` {
		t.Errorf("list %s", r.body)
	}
	code, _, body := dispatch(t, s, `{"query":"aare rivers"}`, "", "")
	if code != 200 || !strings.Contains(body, "https://docs.example/a.md") || s.Spent() != 120 {
		t.Errorf("%d %s spent %d", code, body, s.Spent())
	}
	for in, want := range map[string]int{
		`{"query":""}`: 400, `{"query":"x","num":99}`: 400, `{"query":"x","query":"y"}`: 400, `{"qwery":"x"}`: 400, `{`: 400,
		`{"query":"` + strings.Repeat("x", 3000) + `"}`: 400, `{"query":"x","search_queries":["y"]}`: 400,
	} {
		if code, _, body := dispatch(t, s, in, "", ""); code != want {
			t.Errorf("%.40s: %d %s", in, code, body)
		}
	}
	if r := post(t, s, "/v1/tools/rm", `{}`); r.status != 404 {
		t.Errorf("unknown tool: %d", r.status)
	}
	src.mu.Lock()
	src.bad = &provider.Failure{Class: provider.ClassPayment, Detail: "secret"}
	src.mu.Unlock()
	if code, _, body := dispatch(t, s, `{"query":"x"}`, "", ""); code != 502 || strings.Contains(body, "secret") {
		t.Errorf("failure: %d %s", code, body)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	evs := l.of(agon.EventTool)
	if len(evs) != 2 || s.Spent() != 120 {
		t.Fatalf("%d events, spent %d", len(evs), s.Spent())
	}
	e := evs[0].(ToolCallEvent)
	if e.Receipt.Model != "search_web" || e.Receipt.Provider != "index" || e.Receipt.Cost != 120 || e.Receipt.Reserved != 600 || string(e.Arguments) != `{"query":"aare rivers"}` || e.Nonce != nonceMissing {
		t.Errorf("event %+v", e)
	}
	if c := VerifyChain(s.Receipts(), nil); len(c.Problems) > 0 || c.Receipts != 2 {
		t.Errorf("chain %+v", c)
	}
	if ev := s.Evidence(); ev.AgentErrors != 8 || ev.CanaryFailed {
		t.Errorf("evidence %+v", ev)
	}
}

func TestToolsNeedLeaveAndMoney(t *testing.T) {
	s, _, _ := toolGateway(t, answerJSON, func(p *Policy) { p.Tools = nil })
	if code, _, _ := dispatch(t, s, `{"query":"x"}`, "", ""); code != 404 {
		t.Errorf("not given: %d", code)
	}
	s, _, _ = toolGateway(t, answerJSON, func(p *Policy) { p.Budget.Micros = 599 })
	if code, _, body := dispatch(t, s, `{"query":"x"}`, "", ""); code != 429 || !strings.Contains(body, `"remaining_micros":599`) {
		t.Errorf("no money: %d %s", code, body)
	}
	s, _, _ = toolGateway(t, answerJSON, func(p *Policy) { p.Dialects = []string{DialectOpenAI} })
	if code, _, _ := dispatch(t, s, `{"query":"x"}`, "", ""); code != 403 {
		t.Errorf("no dialect: %d", code)
	}
}

// A dispatch is the model's only if it is what the model asked for, once and in time.
func TestNonces(t *testing.T) {
	const args = `{"query":"aare"}`
	answer := `{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"search_web","arguments":"{\"query\":\"aare\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n"
	s, l, _ := toolGateway(t, answer)
	if _, st, _ := dispatch(t, s, args, "c1", ""); st != nonceMismatch {
		t.Errorf("before the model asked: %s", st)
	}
	if r := post(t, s, chatPath, hello); r.body != answer {
		t.Errorf("the reply was changed: %s", r.body)
	}
	for _, c := range []struct{ args, id, want string }{
		{args, "", nonceMissing},
		{`{"query":"bern"}`, "c1", nonceMismatch},
		{args, "c2", nonceMismatch},
		{args, "c1", nonceValid},
		{args, "c1", nonceReplayed},
	} {
		if _, st, _ := dispatch(t, s, c.args, c.id, ""); st != c.want {
			t.Errorf("%+v: %s", c, st)
		}
	}
	var by []string
	for _, e := range l.of(agon.EventTool) {
		if x := e.(ToolCallEvent); x.Receipt.Emitted != "" {
			by = append(by, x.Nonce+" "+strings.TrimPrefix(x.Receipt.Emitted, s.id))
		}
	}
	if len(by) != 1 || by[0] != "valid -2" {
		t.Errorf("emitted %v", by)
	}

	// With marks in the reply.
	s, _, _ = toolGateway(t, answer, func(p *Policy) { p.NonceField = "golf_metadata" })
	r := post(t, s, chatPath, hello)
	var m struct {
		Choices []any
		Meta    struct {
			Nonces map[string]string `json:"tool_nonces"`
		} `json:"golf_metadata"`
	}
	if err := json.Unmarshal([]byte(r.body), &m); err != nil || len(m.Choices) != 1 || len(m.Meta.Nonces) != 1 {
		t.Fatalf("reply %s %v", r.body, err)
	}
	token := m.Meta.Nonces["c1"]
	for _, c := range []struct{ token, want string }{
		{"", nonceMissing}, {"x", nonceMalformed}, {token[:len(token)-4] + "AAAA", nonceMismatch}, {token, nonceValid}, {token, nonceReplayed},
	} {
		if _, st, _ := dispatch(t, s, args, "c1", c.token); st != c.want {
			t.Errorf("%.10s: %s, want %s", c.token, st, c.want)
		}
	}
	n, err := newNonces(true, func() time.Time { return time.Unix(1000, 0) })
	if err != nil {
		t.Fatal(err)
	}
	late := n.mint("r", ToolCall{"c", "t", "{}"}, time.Unix(999, 0))
	if st, _ := n.check("r", "t", "c", late, []byte("{}")); st != nonceExpired {
		t.Errorf("late: %s", st)
	}
	// An id that was used may be given again: the mark of the first call is none for the second.
	first, second := ToolCall{"c", "t", "{}"}, ToolCall{"c", "t", `{"x":1}`}
	n.emit("m1", []ToolCall{first})
	mark := n.mint("r", first, time.Unix(1001, 0))
	if st, _ := n.check("r", "t", "c", mark, []byte(first.Arguments)); st != nonceValid {
		t.Errorf("first: %s", st)
	}
	n.emit("m2", []ToolCall{second})
	if st, _ := n.check("r", "t", "c", mark, []byte(second.Arguments)); st != nonceMismatch {
		t.Errorf("the first call's mark on the second call: %s", st)
	}
	if st, receipt := n.check("r", "t", "c", n.mint("r", second, time.Unix(1001, 0)), []byte(second.Arguments)); st != nonceValid || receipt != "m2" {
		t.Errorf("second: %s, %s", st, receipt)
	}
}

func FuzzNonceCheck(f *testing.F) {
	f.Add("a.b", "c")
	n, err := newNonces(true, time.Now)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, token, id string) {
		if st, _ := n.check("r", "t", id, token, nil); st == nonceValid {
			t.Error("a made-up mark holds")
		}
	})
}
