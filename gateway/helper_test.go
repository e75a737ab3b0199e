package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/openai"
)

// event is what a test recorder got.
type event struct {
	typ  string
	data any
}

// log is a recorder that keeps everything.
type log struct {
	mu     sync.Mutex
	events []event
}

func (l *log) Record(typ, _ string, data any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event{typ, data})
}

func (l *log) of(typ string) []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []any
	for _, e := range l.events {
		if e.typ == typ {
			out = append(out, e.data)
		}
	}
	return out
}

func (l *log) text(t *testing.T) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, e := range l.events {
		d, err := json.Marshal(e.data)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(e.typ + " " + string(d) + "\n")
	}
	return b.String()
}

// testPrices has a model whose prices make sums easy: a token in costs 1, out 2 micro-dollars.
func testPrices(t testing.TB) Prices {
	t.Helper()
	p, err := LoadPrices()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Set("m", Price{In: 1_000_000, Out: 2_000_000, MaxOutput: 1000, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	return p
}

func start(t testing.TB, c Config) *Gateway {
	t.Helper()
	if c.Prices == nil {
		c.Prices = testPrices(t)
	}
	if c.CanaryDelay == 0 {
		c.CanaryDelay = time.Millisecond
	}
	if c.Dialects == nil {
		c.Dialects = []Dialect{words()}
	}
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Stop() })
	return g
}

// upstream makes an openai upstream of a handler.
func upstream(t testing.TB, h http.HandlerFunc, change ...func(*openai.Config)) provider.Upstream {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The server notices that a client left only once the body is read.
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		h(w, r)
	}))
	t.Cleanup(srv.Close)
	c := openai.Config{BaseURL: srv.URL + "/v1", Key: testKey, Models: []string{"m"}}
	for _, f := range change {
		f(&c)
	}
	u, err := openai.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

const testKey = "sk-planted-0123456789abcdefghijklmnop"

func policy(models ...string) Policy {
	return Policy{
		Run: "run-1", Attempt: 2, Task: "small/x", Payer: "run", Models: models,
		Budget:   agon.Budget{Micros: 1_000_000, Calls: 100},
		Dialects: []string{DialectOpenAI, "words"},
	}
}

func open(t testing.TB, g *Gateway, p Policy, rec Recorder) *session {
	t.Helper()
	s, err := g.Open(t.Context(), p, rec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(*session)
}

// reply is an answer that a test client got.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // reading the body
}

func send(t testing.TB, s Session, method, path, ctype, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.BaseURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range s.Header() {
		req.Header.Set(k, v)
	}
	if ctype != "" {
		req.Header.Set("Content-Type", ctype)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	_, err = io.Copy(&b, resp.Body)
	return reply{resp.StatusCode, resp.Header, b.String(), err}
}

func post(t testing.TB, s Session, path, body string) reply {
	t.Helper()
	return send(t, s, http.MethodPost, path, "application/json", body)
}

const chatPath = "/v1/chat/completions"

// hello is a minimal chat request for model m.
const hello = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

// answerJSON is a reply with usage 10 in and 5 out.
const answerJSON = `{"id":"1", "choices":[{"index":0,"message":{"role":"assistant","content":"hi <b>"},"finish_reason":"stop"}],  "usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}` + "\n"

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

type openaiConfig = openai.Config
