package metrics

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
)

type source struct {
	reads int
	fail  bool
}

func (s *source) Overview(context.Context) (*client.Overview, error) {
	s.reads++
	return &client.Overview{Runs: client.RunCounts{Scored: 7, Failed: 1, ByFault: map[agon.Fault]int{agon.FaultProvider: 2}}}, nil
}

func (s *source) Arenas(context.Context) ([]client.Arena, error) {
	if s.fail {
		return nil, errors.New("down")
	}
	return []client.Arena{{Arena: agon.Arena{ID: "a", Kind: "golf", State: agon.ArenaOpen}, Queued: 3, Champion: &agon.Seat{Score: .5}}}, nil
}

func (s *source) Facts(context.Context, string) (platform.ArenaFacts, error) {
	return platform.ArenaFacts{Submissions: 4, Miners: 2, CostMicros: 1500, Waiting: time.Unix(910, 0)}, nil
}

func (s *source) Validators(context.Context, string) ([]store.ValidatorStat, error) {
	return []store.ValidatorStat{{Validator: "v", Attempts: 9, Ours: 1}}, nil
}

func (s *source) Storage(context.Context) (out platform.Storage) {
	out.DiskFree, out.DiskTotal = 5, 100
	if s.fail {
		out.Blobs = errors.New("no route to the bucket")
	}
	return out
}

func TestMetrics(t *testing.T) {
	s, now := &source{}, time.Unix(1000, 0)
	q := NewRequests()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/runs/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "none" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	for _, path := range []string{"/v1/runs/a", "/v1/runs/none", "/a/strangers/path"} {
		q.Wrap(mux).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
	}
	h := Handler(Config{Source: s, Requests: q, Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	get := func() string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	text := get()
	for _, want := range []string{
		`agon_up 1`, `agon_blobs_up 1`, `agon_disk_free_bytes 5`, `agon_disk_total_bytes 100`, `agon_runs_queued{arena="a"} 3`, `agon_queue_waiting_seconds{arena="a"} 90`,
		`agon_http_request_seconds_count{code="2xx",route="GET /v1/runs/{id}"} 1`, `agon_http_request_seconds_count{code="4xx",route="GET /v1/runs/{id}"} 1`,
		`agon_http_request_seconds_count{code="4xx",route="other"} 1`, `agon_http_requests_active 0`, `agon_runs_total{state="scored"} 7`, `agon_faults_total{fault="provider"} 2`,
		`agon_cost_micros_total{arena="a"} 1500`, `agon_seat_score{arena="a"} 0.5`, `agon_validator_our_faults_total{arena="a",validator="v"} 1`, `go_goroutines`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	// The dashboard and the alerts that are shipped ask for nothing else.
	for file, least := range map[string]int{"../../deploy/grafana.json": 8, "../../deploy/chart/files/alerts.yaml": 12} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`agon_[a-z_]+`).FindAllString(string(b), -1)
		for _, name := range names {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")
			if !strings.Contains(text, "# TYPE "+name+" ") {
				t.Errorf("%s asks for %s, which no server has", file, name)
			}
		}
		if len(names) < least {
			t.Errorf("%s asks for %d figures", file, len(names))
		}
	}
	get()
	if s.reads != 1 {
		t.Errorf("%d readings within five seconds, want 1", s.reads)
	}
	now, s.fail = now.Add(6*time.Second), true
	if text := get(); !strings.Contains(text, "agon_up 0") {
		t.Error("a platform that does not answer is not told")
	}
}
