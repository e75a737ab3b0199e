package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
)

// stub is a search provider that answers what a test says.
type stub struct {
	mu    sync.Mutex
	hold  chan struct{} // when set, calls wait for it
	began chan struct{}
	ai    []tools.AIHit
	err   error
	probe error
	calls int
	count int
}

func (*stub) Name() string                  { return "stub" }
func (s *stub) Probe(context.Context) error { return s.probe }

func (s *stub) Web(ctx context.Context, _ tools.WebQuery) ([]tools.WebHit, error) {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	if s.hold != nil {
		s.began <- struct{}{}
		select {
		case <-s.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	note := "snippet"
	return []tools.WebHit{{Link: "https://a.example/1", Snippet: &note}}, s.err
}

func (s *stub) X(context.Context, tools.XQuery) ([]tools.Post, error) {
	return []tools.Post{{URL: "https://x.example/1", Text: "a post", User: &tools.PostUser{DisplayName: "n"}}}, s.err
}

func (s *stub) AI(_ context.Context, q tools.AIQuery) ([]tools.AIHit, error) {
	s.calls++
	s.count = q.Count
	return s.ai, s.err
}

type chat struct {
	reply string
	err   error
	body  map[string]json.RawMessage
	model string
}

func (*chat) Name() string { return "chat" }
func (c *chat) Chat(_ context.Context, model string, body map[string]json.RawMessage) ([]byte, error) {
	c.body, c.model = body, model
	return []byte(c.reply), c.err
}

// first is what every host reads, second what a host reads if it is told to.
var first, second = tools.DefaultHeaders, tools.Headers{Token: "X-Era-Token", Session: "X-Era-Session-Id"}

// call posts one invocation and returns status and body.
func call(t *testing.T, h http.Handler, s *tools.Session, body string, header ...string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, tools.Path, strings.NewReader(body))
	if len(header) == 0 {
		header = []string{first.Token, s.Token(), first.Session, s.ID()}
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var out map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("answer %d is not JSON: %v: %s", w.Code, err, w.Body)
	}
	return w.Code, out
}

func open(t *testing.T, h *tools.Host, c tools.SessionConfig) *tools.Session {
	t.Helper()
	s, err := h.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(tools.StatusCompleted) })
	return s
}

func web(q string) string {
	return fmt.Sprintf(`{"tool":"search_web","args":[],"kwargs":{"query":%q,"num":null}}`, q)
}

// The wire of section 2.2: shapes and sentences, character by character.
func TestWire(t *testing.T) {
	h := tools.New(tools.Config{Search: &stub{}, Headers: []tools.Headers{first, second}})
	s := open(t, h, tools.SessionConfig{UID: 5, Budget: 50_000})
	status, out := call(t, h, s, `{"tool":"test_tool","args":["hello"],"kwargs":{}}`)
	if status != 200 {
		t.Fatalf("test_tool: %d %v", status, out)
	}
	if got := fmt.Sprint(out["response"]); got != "map[echo:hello status:ok]" {
		t.Errorf("response %s", got)
	}
	for _, k := range []string{"receipt_id", "response", "results", "result_policy", "cost_usd", "usage", "budget"} {
		if _, ok := out[k]; !ok {
			t.Errorf("answer lacks %s", k)
		}
	}
	r := s.Receipts()[0]
	if want := "6c3f44f414b670a953c7c40d40d52146d8d186de35dc24b8547c200873dd5240"; r.RequestHash != want {
		t.Errorf("request hash %q", r.RequestHash)
	}

	id, tok := s.ID(), s.Token()
	T, S := first.Token, first.Session
	for _, c := range []struct {
		name, body string
		header     []string
		status     int
		detail     string
	}{
		{"no token", web("q"), []string{S, id}, 401, "missing x-platform-token header"},
		{"wrong token", web("q"), []string{T, "nope", S, id}, 400, "session token rejected"},
		{"other session", web("q"), []string{T, tok, S, "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}, 400, "session not found"},
		{"no session", web("q"), []string{T, tok}, 422, ""},
		{"bad session", web("q"), []string{T, tok, S, "zz"}, 422, ""},
		{"extra key", `{"tool":"test_tool","args":["x"],"kwargs":{},"more":1}`, nil, 422, ""},
		{"unknown tool", `{"tool":"rm","args":[],"kwargs":{}}`, nil, 422, ""},
		{"not json", `{`, nil, 422, ""},
		{"NaN", `{"tool":"search_web","args":[],"kwargs":{"query":"q","num":NaN}}`, nil, 422, ""},
		{"deep", strings.Repeat("[", 100), nil, 422, ""},
		{"bad argument", `{"tool":"search_web","args":[],"kwargs":{"query":""}}`, nil, 400, "tool response validation failed"},
		{"unknown argument", `{"tool":"search_web","args":[],"kwargs":{"query":"q","extra":1}}`, nil, 400, "tool response validation failed"},
		{"info with argument", `{"tool":"tooling_info","args":[1],"kwargs":{}}`, nil, 400, "tool response validation failed"},
		{"no back end", `{"tool":"llm_chat","args":[],"kwargs":{"model":"openai/gpt-oss-20b","messages":[]}}`, nil, 400, "session not found"},
		{"other era's headers", `{"tool":"test_tool","args":["x"],"kwargs":{}}`, []string{second.Token, tok, second.Session, id}, 200, ""},
		{"january's body", fmt.Sprintf(`{"tool":"test_tool","args":["x"],"kwargs":{},"token":%q,"session_id":%q}`, tok, id), []string{"X", "y"}, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out := call(t, h, s, c.body, c.header...)
			if status != c.status {
				t.Fatalf("status %d %v, want %d", status, out, c.status)
			}
			if c.detail != "" && out["detail"] != c.detail {
				t.Errorf("detail %v, want %q", out["detail"], c.detail)
			}
			if _, isList := out["detail"].([]any); status == 422 && !isList {
				t.Errorf("422 has detail %v, want a list", out["detail"])
			}
		})
	}
}

func TestInfo(t *testing.T) {
	h := tools.New(tools.Config{})
	s := open(t, h, tools.SessionConfig{})
	_, out := call(t, h, s, `{"tool":"tooling_info","args":[],"kwargs":{}}`)
	b, _ := json.Marshal(out["response"])
	for _, want := range []string{
		`"tool_names":["get_repo_file","llm_chat","search_ai","search_items","search_repo","search_web","search_x","test_tool","tooling_info"]`,
		`"openai/gpt-oss-20b":{"input_per_million":0.25,"output_per_million":2,"reasoning_per_million":2}`,
		`{"kind":"flat_per_call","usd_per_call":0.0025}`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("info lacks %s\n%s", want, b)
		}
	}
}

// Facts of 7.1: .003 pays for one search_web; three entries of which one has no url cost .008.
func TestBudget(t *testing.T) {
	st := &stub{ai: []tools.AIHit{{URL: "https://a"}, {}, {URL: "https://b"}, {URL: "https://a"}}}
	h := tools.New(tools.Config{Search: st})
	s := open(t, h, tools.SessionConfig{Budget: 3000})
	if status, out := call(t, h, s, web("a")); status != 200 || fmt.Sprint(out["budget"]) != "map[session_budget_usd:0.003 session_hard_limit_usd:0.003 session_remaining_budget_usd:0.0005 session_used_budget_usd:0.0025]" {
		t.Fatalf("first: %d %v", status, out["budget"])
	}
	if status, out := call(t, h, s, web("b")); status != 400 || out["detail"] != tools.TextFailed {
		t.Fatalf("second: %d %v", status, out)
	}
	if n := len(s.Receipts()); n != 1 || st.calls != 1 {
		t.Errorf("%d receipts and %d calls of the provider, want 1 and 1", n, st.calls)
	}
	if log := s.Log(); log[1].Outcome != tools.OutcomeBudget {
		t.Errorf("evidence of the refusal: %+v", log[1])
	}

	s = open(t, h, tools.SessionConfig{Budget: 50_000})
	_, out := call(t, h, s, `{"tool":"search_ai","args":[],"kwargs":{"prompt":"p","tools":["web"],"count":10}}`)
	if fmt.Sprint(out["cost_usd"]) != "0.008" || len(out["results"].([]any)) != 2 || len(out["response"].(map[string]any)["data"].([]any)) != 3 {
		t.Errorf("search_ai: %v", out)
	}
	// No more results are asked for than can be paid.
	s = open(t, h, tools.SessionConfig{Budget: 9000})
	if status, _ := call(t, h, s, `{"tool":"search_ai","args":[],"kwargs":{"prompt":"p","tools":["web"],"count":10}}`); status != 200 || st.count != 2 {
		t.Errorf("with $.009: status %d, asked for %d results, want 2", status, st.count)
	}
}

// Whatever is called at once, the budget is never passed.
func TestBudgetRace(t *testing.T) {
	h := tools.New(tools.Config{Search: &stub{}})
	s := open(t, h, tools.SessionConfig{Budget: 12_600, Parallel: 20, Queue: true})
	var wg sync.WaitGroup
	var mu sync.Mutex
	ok := 0
	for range 25 {
		wg.Go(func() {
			if status, _ := call(t, h, s, web("q")); status == 200 {
				mu.Lock()
				ok++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if ok != 5 || s.Spent() != 12_500 {
		t.Errorf("%d calls passed and %d was spent, want 5 and 12500", ok, s.Spent())
	}
}

func TestParallel(t *testing.T) {
	st := &stub{hold: make(chan struct{}), began: make(chan struct{}, 30)}
	h := tools.New(tools.Config{Search: st})
	s := open(t, h, tools.SessionConfig{Budget: 100_000})
	done := make(chan int)
	go func() { status, _ := call(t, h, s, web("a")); done <- status }()
	<-st.began
	if status, out := call(t, h, s, web("b")); status != 400 || out["detail"] != tools.TextConcurrency {
		t.Errorf("second call: %d %v", status, out)
	}
	q := open(t, h, tools.SessionConfig{Budget: 100_000, Parallel: 20, Queue: true})
	for range 25 {
		go func() { status, _ := call(t, h, q, web("a")); done <- status }()
	}
	for range 20 {
		<-st.began
	}
	close(st.hold)
	for range 26 {
		if status := <-done; status != 200 {
			t.Errorf("status %d", status)
		}
	}
}

func TestSessionEnds(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h := tools.New(tools.Config{Search: &stub{}, Now: func() time.Time { return now }})
	s := open(t, h, tools.SessionConfig{Budget: 100_000})
	now = now.Add(5 * time.Minute)
	if status, out := call(t, h, s, web("q")); status != 400 || out["detail"] != tools.TextFailed {
		t.Errorf("expired: %d %v", status, out)
	}
	// The session is looked at before the token is.
	if _, out := call(t, h, s, web("q"), first.Token, "x", first.Session, s.ID()); out["detail"] != tools.TextFailed {
		t.Errorf("expired with a wrong token: %v", out)
	}
	s.Close(tools.StatusCompleted)
	if _, out := call(t, h, s, web("q")); out["detail"] != tools.TextSession {
		t.Errorf("closed: %v", out)
	}
	// Close cuts off what hangs.
	st := &stub{hold: make(chan struct{}), began: make(chan struct{}, 1)}
	h = tools.New(tools.Config{Search: st})
	s = open(t, h, tools.SessionConfig{Budget: 100_000})
	done := make(chan int)
	go func() { status, _ := call(t, h, s, web("a")); done <- status }()
	<-st.began
	s.Close(tools.StatusTimedOut)
	if status := <-done; status != 400 || s.Status() != tools.StatusTimedOut {
		t.Errorf("cut off: %d, session %s", status, s.Status())
	}
	if ev := s.Evidence(); ev.ProviderErrors != 0 {
		t.Errorf("our own cut is booked as the provider's failure: %+v", ev)
	}
}

// A session ends by its number of calls; whoever has no token uses none of them up.
func TestMaxCalls(t *testing.T) {
	h := tools.New(tools.Config{Search: &stub{}})
	s := open(t, h, tools.SessionConfig{Budget: 100_000, MaxCalls: 3, Parallel: 2, Queue: true})
	for range 5 {
		call(t, h, s, web("q"), first.Token, "x", first.Session, s.ID())
	}
	for i := range 4 {
		if status, out := call(t, h, s, web("q")); (status == 200) != (i < 3) {
			t.Errorf("call %d: %d %v", i+1, status, out)
		}
	}
}

// A provider's failure is evidence only when our own probe fails as well, and
// costs the script nothing.
func TestEvidence(t *testing.T) {
	st := &stub{err: &tools.Failure{Class: "server"}}
	h := tools.New(tools.Config{Search: st})
	s := open(t, h, tools.SessionConfig{Budget: 10_000})
	call(t, h, s, web("q"))
	if ev := s.Evidence(); ev.ProviderErrors != 1 || ev.CanaryFailed || s.Spent() != 0 {
		t.Errorf("probe works: %+v, spent %d", ev, s.Spent())
	}
	st.probe = st.err
	call(t, h, s, web("q"))
	if ev := s.Evidence(); !ev.CanaryFailed || ev.LastError != "server" {
		t.Errorf("probe fails: %+v", ev)
	}
	st.err = nil
	call(t, h, s, web("q"))
	if ev := s.Evidence(); !ev.Recovered {
		t.Errorf("recovered: %+v", ev)
	}
	if len(s.Receipts()) != 1 || len(s.Log()) != 3 {
		t.Errorf("%d receipts, %d in the log", len(s.Receipts()), len(s.Log()))
	}
}

func TestChat(t *testing.T) {
	c := &chat{reply: `{"id":"c1","choices":[{"index":0,"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"completion_tokens_details":{"reasoning_tokens":20}}}`}
	h := tools.New(tools.Config{LLM: c})
	s := open(t, h, tools.SessionConfig{Budget: 50_000})
	body := func(model, more string) string {
		return `{"tool":"llm_chat","args":[],"kwargs":{"model":"` + model + `","messages":[{"role":"user","content":"hello"}],"temperature":0.2,"store":true,"provider":"x"` + more + `}}`
	}
	status, out := call(t, h, s, body("openai/gpt-oss-20b", ""))
	if status != 200 {
		t.Fatalf("%d %v", status, out)
	}
	// 100·0.25 + 50·2 + 20·2 micro-dollars.
	if fmt.Sprint(out["cost_usd"]) != "0.000165" || fmt.Sprint(out["usage"]) != "map[completion_tokens:50 prompt_tokens:100 total_tokens:150]" {
		t.Errorf("cost %v, usage %v", out["cost_usd"], out["usage"])
	}
	b, _ := json.Marshal(out["response"])
	if want := `"message":{"content":[{"text":"hi","type":"text"}],"role":"assistant","tool_calls":[{"arguments":"{}","id":"t","name":"f","type":"function"}]}`; !strings.Contains(string(b), want) {
		t.Errorf("response %s lacks %s", b, want)
	}
	if c.body["store"] != nil || c.body["provider"] != nil || string(c.body["max_tokens"]) != "4096" {
		t.Errorf("what reached the model: %s", c.body)
	}
	if status, out := call(t, h, s, body("openai/gpt-5", "")); status != 400 || out["detail"] != tools.TextInvalid {
		t.Errorf("other model: %d %v", status, out)
	}
	// Near the end of the budget the answer gets shorter, and then the call is refused.
	s = open(t, h, tools.SessionConfig{Budget: 400})
	call(t, h, s, body("openai/gpt-oss-20b", `,"max_tokens":4000`))
	var limit int
	if err := json.Unmarshal(c.body["max_tokens"], &limit); err != nil || limit < 50 || limit >= 100 {
		t.Errorf("limit %d", limit)
	}
	s = open(t, h, tools.SessionConfig{Budget: 5})
	if status, out := call(t, h, s, body("openai/gpt-oss-20b", "")); status != 400 || out["detail"] != tools.TextFailed {
		t.Errorf("no money: %d %v", status, out)
	}
	// A reply that hides its usage costs what was reserved.
	c.reply = `{"choices":[{"message":{"content":"x"}}]}`
	s = open(t, h, tools.SessionConfig{Budget: 50_000})
	call(t, h, s, body("openai/gpt-oss-20b", ""))
	if r := s.Receipts()[0]; r.Cost != r.Reserved || r.Cost == 0 {
		t.Errorf("without usage: cost %d of %d", r.Cost, r.Reserved)
	}
}

func TestIndexThroughHost(t *testing.T) {
	docs := []index.Doc{
		{ID: "a.md", URL: "doc://a.md", Title: "Lighthouse", Text: "The lighthouse of Brenn was lit in 1911."},
		{ID: "b.md", URL: "doc://b.md", Title: "Harbour", Text: "The harbour of Brenn was dredged twice."},
	}
	f := index.New(docs, "", nil)
	h := tools.New(tools.Config{Search: f, Items: index.Items{FeedID: "f", Folder: f}})
	s := open(t, h, tools.SessionConfig{Budget: 50_000})
	_, out := call(t, h, s, web("when was the lighthouse lit"))
	first := out["results"].([]any)[0].(map[string]any)
	if first["url"] != "doc://a.md" || first["title"] != "Lighthouse" || first["note"] != docs[0].Text || len(first["result_id"].(string)) != 32 {
		t.Errorf("first result %v", first)
	}
	status, out := call(t, h, s, `{"tool":"search_items","args":[],"kwargs":{"feed_id":"f","enqueue_seq":1,"search_queries":["Brenn"],"num_hit":5}}`)
	if hits := out["response"].(map[string]any)["hits"].([]any); status != 200 || len(hits) != 1 || out["result_policy"] != tools.LogOnly {
		t.Errorf("items enqueued before 1: %d %v", status, out)
	}
}

// Overhead of one call through HTTP, without the back end: at most 1 ms.
func BenchmarkToolCall(b *testing.B) {
	h := tools.New(tools.Config{Search: &stub{}})
	srv := httptest.NewServer(h)
	defer srv.Close()
	s, err := h.Open(tools.SessionConfig{Budget: 1 << 50, MaxCalls: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	body := []byte(web("q"))
	for b.Loop() {
		r, _ := http.NewRequest(http.MethodPost, srv.URL+tools.Path, bytes.NewReader(body))
		r.Header.Set(first.Token, s.Token())
		r.Header.Set(first.Session, s.ID())
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode != 200 {
			b.Fatal(err, resp)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// No body makes the host panic, spend, or answer anything but JSON.
func FuzzExecute(f *testing.F) {
	for _, s := range []string{
		web("q"), `{"tool":"llm_chat","args":[],"kwargs":{"model":"openai/gpt-oss-20b","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"max_tokens":1e2}}`,
		`{"tool":"search_ai","kwargs":{"prompt":"p","tools":["web"],"count":1}}`, `{"tool":"search_x","kwargs":{"query":"q","min_likes":3,"start_date":"2026-01-01"}}`,
		`{"tool":"get_repo_file","kwargs":{"repo_url":"https://github.com/a/b","commit_sha":"0000000000000000000000000000000000000000","path":"x"}}`, `[]`, `null`,
	} {
		f.Add(s)
	}
	h := tools.New(tools.Config{Search: &stub{}, LLM: &chat{reply: `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`}})
	f.Fuzz(func(t *testing.T, body string) {
		s, err := h.Open(tools.SessionConfig{Budget: 10_000, Parallel: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(tools.StatusCompleted)
		status, _ := call(t, h, s, body)
		if status >= 500 || s.Spent() > 10_000 {
			t.Fatalf("status %d, spent %d", status, s.Spent())
		}
		for _, r := range s.Receipts() {
			if r.Cost > r.Reserved || len(r.RequestHash) != 64 || len(r.ResponseHash) != 64 {
				t.Fatalf("receipt %+v", r)
			}
		}
	})
}
