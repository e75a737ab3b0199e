package roles

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/traceparent"
	"github.com/agon-arena/agon/kinds/kit"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/agon-arena/agon/ui/tracing"
)

// spans counts by name what an arena sends to a collector.
type spans struct {
	mu  sync.Mutex
	n   map[string]int
	all []*otlp.Span
}

// collectSpans has o send its spans to a collector of the test.
func collectSpans(t *testing.T, o *kit.Options) *spans {
	s, url := collectorOf(t)
	getenv := o.Getenv
	o.Getenv = func(k string) string {
		if k == tracing.Env {
			return url
		}
		return getenv(k)
	}
	return s
}

// collectorOf is an OTLP collector of the test.
func collectorOf(t *testing.T) (_ *spans, url string) {
	s := &spans{n: map[string]int{}}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Errorf("spans: %v", err)
				return
			}
			body = z
		}
		b, err := io.ReadAll(body)
		var q collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(b, &q) != nil {
			t.Errorf("spans of %d bytes: %v", len(b), err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, rs := range q.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, x := range ss.Spans {
					s.n[x.Name]++
					s.all = append(s.all, x)
				}
			}
		}
	}))
	t.Cleanup(srv.Close)
	return s, srv.URL
}

// A gateway on its own sends spans: calls stand below the lease whose validator opened
// the session, whatever an agent writes into its requests.
func TestGatewayTraces(t *testing.T) {
	const lease, strange = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-11111111111111111111111111111111-2222222222222222-01"
	s, collector := collectorOf(t)
	t.Setenv(tracing.Env, collector)
	val, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	url, signer, stop := startGateway(t, t.TempDir(), nil, val.SS58())
	g := &gateways{key: val}
	defer g.close()
	x, err := g.Open(traceparent.With(t.Context(), lease), gateway.Policy{At: url, Key: signer, Run: "r", Attempt: 1, Models: []string{"*"}, Dialects: []string{gateway.DialectOpenAI}, Budget: agon.Budget{Micros: 1_000_000, Calls: 5}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, x.BaseURL()+"/v1/chat/completions", strings.NewReader(`{"messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", strange)
	for k, v := range x.Header() {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("call: %d %s %v", resp.StatusCode, b, err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	stop() // sends what is left
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := 0
	for _, x := range s.all {
		trace, parent := hex.EncodeToString(x.TraceId), hex.EncodeToString(x.ParentSpanId)
		if strings.Contains(strange, trace) {
			t.Errorf("%s stands where an agent says", x.Name)
		}
		if strings.HasPrefix(x.Name, "chat ") {
			calls++
			if !strings.Contains(lease, trace+"-"+parent) {
				t.Errorf("%s stands below %s-%s", x.Name, trace, parent)
			}
		}
	}
	if calls != 1 || s.n["POST /v1/chat/completions"] != 1 || s.n["POST /gateway/v1/sessions"] != 1 {
		t.Errorf("%d calls among the spans %v", calls, s.n)
	}
}

// check wants at least a tree for each of runs (a lease may be played again), and calls and requests beside them.
func (s *spans) check(t *testing.T, runs int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := 0
	for name, n := range s.n {
		if strings.HasPrefix(name, "chat ") {
			calls += n
		}
	}
	if s.n["lease"] < runs || s.n["run"] < runs || s.n["playing"] < runs || s.n["judging"] == 0 || calls == 0 || s.n["POST /v1/leases"] < runs {
		t.Errorf("spans of %d runs: %v", runs, s.n)
	}
}
