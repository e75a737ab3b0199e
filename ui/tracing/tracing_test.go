package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/internal/traceparent"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// receiver is a collector: it takes OTLP over HTTP and decodes it.
type receiver struct {
	t     *testing.T
	mu    sync.Mutex
	spans []*otlp.Span
	raw   strings.Builder // every byte that came, uncompressed
	hdr   http.Header
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		body = z
	}
	b, err := io.ReadAll(body)
	if err != nil {
		c.t.Error(err)
		return
	}
	var q collector.ExportTraceServiceRequest
	if r.URL.Path != "/v1/traces" || r.Method != http.MethodPost {
		c.t.Errorf("asked for %s %s", r.Method, r.URL)
	}
	if err := proto.Unmarshal(b, &q); err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(b)
	c.hdr = r.Header
	for _, rs := range q.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	out, err := proto.Marshal(&collector.ExportTraceServiceResponse{})
	if err != nil {
		c.t.Error(err)
	}
	_, _ = w.Write(out)
}

func attrs(s *otlp.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		out[a.Key] = a.Value.String()
	}
	return out
}

func open(t *testing.T) (*Tracer, *receiver) {
	t.Helper()
	c := &receiver{t: t}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	tr, err := Open(t.Context(), Config{URL: srv.URL, Role: "test", Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return tr, c
}

const secret = "SECRET-dGhlIGtleQ"

// Requests become spans without what people have sent in them.
func TestRequests(t *testing.T) {
	tr, c := open(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/runs/{id}", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "x")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
		if _, ok := w.(http.Flusher); !ok {
			t.Error("no flusher")
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusInternalServerError) })
	srv := httptest.NewServer(tr.Handler(mux))
	t.Cleanup(srv.Close)
	const id = "01a1fa93-2e78-79a5-b20f-0255689f1700"
	for _, path := range []string{"/v1/runs/" + id + "?code=" + secret, "/stream", "/x/" + secret + "/y"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, strings.NewReader(secret))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		req.Header.Set("Traceparent", "00-11111111111111111111111111111111-2222222222222222-01")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	srv.Close() // all handlers have returned
	tr.Close()
	want := map[string]string{"GET /v1/runs/{id}": `int_value:418`, "GET /stream": `int_value:200`, "GET /x/{}/y": `int_value:500`}
	if len(c.spans) != len(want) {
		t.Fatalf("%d spans", len(c.spans))
	}
	for _, s := range c.spans {
		a := attrs(s)
		if want[s.Name] == "" || a["http.response.status_code"] != want[s.Name] {
			t.Errorf("span %q: %v", s.Name, a)
		}
		if len(s.ParentSpanId) != 0 || bytes.Count(s.TraceId, []byte{0x11}) == len(s.TraceId) {
			t.Errorf("span %q took over a stranger's trace", s.Name)
		}
		if s.Name == "GET /v1/runs/{id}" && !strings.Contains(a["agon.ids"], id) {
			t.Errorf("no id: %v", a)
		}
	}
	if strings.Contains(c.raw.String(), secret) {
		t.Error("a span holds what was sent")
	}
}

// easy is a kind whose runs need no box.
type easy struct{ kind.Kind }

func (easy) Play(context.Context, kind.Env, agon.Submission, agon.RunSpec) (agon.Record, error) {
	return agon.Record{Outcome: "ok"}, nil
}

func (easy) Judge(_ context.Context, _ kind.Env, r agon.RunSpec, _ agon.Record) ([]agon.Score, error) {
	return []agon.Score{{Task: r.Tasks[0].Key, Value: 1, Solved: true}}, nil
}

func (easy) Scorer() string { return "easy-1" }

// A lease becomes a tree: its run, its phases, its calls.
func TestAttempt(t *testing.T) {
	tr, c := open(t)
	p := &validator.Player{Driver: fake.New(fake.Config{}), Kinds: map[string]kind.Kind{"easy": easy{}}, Now: time.Now}
	l := &client.Lease{
		ID: "lease-1", Token: secret, Attempt: 2, Run: agon.RunSpec{Run: "run-1", Tasks: []agon.TaskRef{{Key: "t"}}},
		Arena: agon.Arena{ID: "demo", Kind: "easy"}, Submission: agon.Submission{ID: "sub-1", Name: secret},
	}
	from := time.Now()
	l.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ctx := tr.Begin(t.Context(), l, from)
	a := p.Play(context.Background(), validator.Job{Run: l.Run, Attempt: l.Attempt, Arena: l.Arena, Submission: l.Submission})
	a.Receipts = append(a.Receipts,
		agon.Receipt{ID: "r1", Session: "s", Route: "/v1/chat/completions", Model: "m\x1b[1m", Provider: "up", Prompt: 3, Completion: 4, Status: 200, Outcome: "ok", Start: from, End: from.Add(time.Second), Sig: secret, RequestHash: secret},
		agon.Receipt{ID: "r2", Session: "s", Route: "/tools", Model: "search", Status: 502, Outcome: "provider_error", Start: from, End: from})
	tr.Attempt(ctx, l, a, from)
	tr.Called()(traceparent.Of(ctx), &agon.Receipt{ID: "r1", Model: "far", Prompt: 1, Outcome: "ok", Start: from, End: from})
	tr.Called()("00-strange", &agon.Receipt{ID: "r1", Model: "lost", Prompt: 1, Outcome: "ok", Start: from, End: from})
	tr.Close()
	by := map[string]*otlp.Span{}
	for _, s := range c.spans {
		by[s.Name] = s
	}
	for name, parent := range map[string]string{"lease": "", "run": "lease", "playing": "run", "judging": "run", "chat m": "run", "execute_tool search": "run", "chat far": "lease"} {
		s := by[name]
		if s == nil {
			t.Errorf("no span %q among %d", name, len(c.spans))
			continue
		}
		if parent != "" && string(s.ParentSpanId) != string(by[parent].SpanId) {
			t.Errorf("%q does not stand below %q", name, parent)
		}
		if s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%q ends before it starts", name)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	if s := by["lease"]; hex.EncodeToString(s.TraceId) != "0af7651916cd43dd8448eb211c80319c" || hex.EncodeToString(s.ParentSpanId) != "b7ad6b7169203331" {
		t.Errorf("the lease does not stand below its claim: %x %x", s.TraceId, s.ParentSpanId)
	}
	if s := by["chat lost"]; s == nil || len(s.ParentSpanId) > 0 {
		t.Errorf("a call below no place: %v", s)
	}
	chat := attrs(by["chat m"])
	if chat["gen_ai.usage.input_tokens"] != "int_value:3" || !strings.Contains(chat["agon.receipt"], "r1") || by["chat m"].EndTimeUnixNano-by["chat m"].StartTimeUnixNano != uint64(time.Second) {
		t.Errorf("call: %v", chat)
	}
	if by["execute_tool search"].Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
		t.Error("a failed call looks well")
	}
	if got := attrs(by["run"]); !strings.Contains(got["agon.run"], "run-1") || got["agon.attempt"] != "int_value:2" {
		t.Errorf("run: %v", got)
	}
	if strings.Contains(c.raw.String(), secret) {
		t.Error("a span holds a token, a name or a signature")
	}
}

func TestSwitch(t *testing.T) {
	tr, err := Open(t.Context(), Config{})
	if err != nil || tr != nil {
		t.Fatalf("without an address: %v, %v", tr, err)
	}
	h := http.NewServeMux()
	if tr.Handler(h) != http.Handler(h) {
		t.Error("a tracer that is off wraps handlers")
	}
	tr.Attempt(tr.Begin(t.Context(), nil, time.Time{}), nil, nil, time.Time{}) // off: looks at nothing
	if tr.Called() != nil {
		t.Error("a tracer that is off wants calls")
	}
	tr.Close()
	for _, bad := range []string{"127.0.0.1:4318", "ftp://x", "http://user:" + secret + "@x", "http://x?key=" + secret, "http://"} {
		if _, err := Open(t.Context(), Config{URL: bad, Log: slog.New(slog.DiscardHandler), Now: time.Now}); err == nil {
			t.Errorf("%q was taken", bad)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error tells the secret", bad)
		}
	}
}
