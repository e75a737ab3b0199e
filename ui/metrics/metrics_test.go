package metrics

import (
	"context"
	"errors"
	"io"
	"log/slog"
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
	return platform.ArenaFacts{Submissions: 4, Miners: 2, CostMicros: 1500}, nil
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
	h := Handler(Config{Source: s, Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	get := func() string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	text := get()
	for _, want := range []string{
		`agon_up 1`, `agon_blobs_up 1`, `agon_disk_free_bytes 5`, `agon_disk_total_bytes 100`, `agon_runs_queued{arena="a"} 3`, `agon_runs_total{state="scored"} 7`, `agon_faults_total{fault="provider"} 2`,
		`agon_cost_micros_total{arena="a"} 1500`, `agon_seat_score{arena="a"} 0.5`, `agon_validator_our_faults_total{arena="a",validator="v"} 1`, `go_goroutines`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	// The dashboard that is shipped asks for nothing else.
	dashboard, err := os.ReadFile("../../deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`agon_[a-z_]+`).FindAllString(string(dashboard), -1)
	for _, name := range names {
		if !strings.Contains(text, "# TYPE "+name+" ") {
			t.Errorf("the dashboard asks for %s, which nobody serves", name)
		}
	}
	if len(names) < 8 {
		t.Errorf("the dashboard asks for %d figures", len(names))
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
