package roles

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon/kinds/kit"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/agon-arena/agon/ui/tracing"
)

// spans counts by name what an arena sends to a collector.
type spans struct {
	mu sync.Mutex
	n  map[string]int
}

// collectSpans has o send its spans to a collector of the test.
func collectSpans(t *testing.T, o *kit.Options) *spans {
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
				}
			}
		}
	}))
	t.Cleanup(srv.Close)
	getenv := o.Getenv
	o.Getenv = func(k string) string {
		if k == tracing.Env {
			return srv.URL
		}
		return getenv(k)
	}
	return s
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
