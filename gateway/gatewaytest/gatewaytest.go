// Package gatewaytest is what tests of dialects share: a gateway over an
// upstream that the test writes, a session, and a recorder.
package gatewaytest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/openai"
)

// Model is the model of Start, unless the test names others: a token in costs 1
// and one out 2 micro-dollars.
const Model = "m"

// Answer is a chat's reply of Model: the text "hi <b>", 10 tokens in and 5 out.
const Answer = `{"id":"1", "choices":[{"index":0,"message":{"role":"assistant","content":"hi <b>"},"finish_reason":"stop"}],  "usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}` + "\n"

// Says answers every request with body.
func Says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// Start starts a gateway whose only upstream is h, with these models (none: Model).
func Start(t testing.TB, c gateway.Config, h http.HandlerFunc, models ...string) *gateway.Gateway {
	t.Helper()
	if len(models) == 0 {
		models = []string{Model}
	}
	prices, err := gateway.LoadPrices()
	if err != nil {
		t.Fatal(err)
	}
	if err := prices.Set(Model, gateway.Price{In: 1_000_000, Out: 2_000_000, MaxOutput: 1000, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The server notices that a client left only once the body is read.
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
		h(w, r)
	}))
	t.Cleanup(srv.Close)
	up, err := openai.New(openai.Config{BaseURL: srv.URL + "/v1", Key: "sk-test", Models: models})
	if err != nil {
		t.Fatal(err)
	}
	c.Upstreams, c.Prices, c.CanaryDelay = []provider.Upstream{up}, prices, time.Millisecond
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Stop() })
	return g
}

// Policy is one of a run that may call every model, in these dialects.
func Policy(dialects ...string) gateway.Policy {
	return gateway.Policy{
		Run: "run-1", Attempt: 2, Task: "small/x", Models: []string{"*"},
		Budget: agon.Budget{Micros: 1_000_000, Calls: 100}, Dialects: dialects,
	}
}

// Open opens a session that ends with the test. rec may be nil.
func Open(t testing.TB, g *gateway.Gateway, p gateway.Policy, rec gateway.Recorder) gateway.Session {
	t.Helper()
	s, err := g.Open(t.Context(), p, rec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Response is what a client got.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Send sends one request with headers, each a name and a value.
func Send(t testing.TB, s gateway.Session, method, path, body string, headers ...string) Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.BaseURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range s.Header() {
		req.Header.Set(k, v)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
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
	return Response{resp.StatusCode, resp.Header, string(b)}
}

// Post sends JSON.
func Post(t testing.TB, s gateway.Session, path, body string) Response {
	t.Helper()
	return Send(t, s, http.MethodPost, path, body, "Content-Type", "application/json")
}

// Log is a recorder that keeps everything.
type Log struct {
	mu     sync.Mutex
	events map[string][]any // by type; guarded by mu
}

// Record implements gateway.Recorder.
func (l *Log) Record(typ, _ string, data any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events == nil {
		l.events = map[string][]any{}
	}
	l.events[typ] = append(l.events[typ], data)
}

// Of returns the events of a type, in order.
func (l *Log) Of(typ string) []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]any(nil), l.events[typ]...)
}
