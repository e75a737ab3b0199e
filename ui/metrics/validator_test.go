package metrics

import (
	"context"
	"errors"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// What a validator did is told under the names, labels and buckets by which ORO's
// validators are watched (spec/oro.md 2.3), zeros too, and boxes count until they end.
func TestValidatorNames(t *testing.T) {
	now := time.Unix(1000, 0)
	v := NewValidator(func() time.Time { return now })
	scrape := func() string {
		w := httptest.NewRecorder()
		v.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	want := func(text string, lines ...string) {
		t.Helper()
		for _, l := range lines {
			if !strings.Contains(text, l+"\n") {
				t.Errorf("%q is missing", l)
			}
		}
	}
	first := scrape()
	want(first, "validator_active_runs 0", "validator_sandbox_active 0", `validator_heartbeat_total{result="success"} 0`, `validator_heartbeat_total{result="failure"} 0`,
		`validator_claim_work_total{result="success"} 0`, `validator_claim_work_total{result="empty"} 0`, `validator_claim_work_total{result="error"} 0`, "validator_claim_work_seconds_count 0",
		"# TYPE validator_claim_work_seconds histogram", "# TYPE validator_heartbeat_total counter")
	var buckets []string
	for _, m := range regexp.MustCompile(`validator_sandbox_duration_seconds_bucket\{le="([^"]+)"\}`).FindAllStringSubmatch(first, -1) {
		buckets = append(buckets, m[1])
	}
	if got := strings.Join(buckets, " "); got != "30 60 120 180 300 600 1200 1800 3600 +Inf" {
		t.Errorf("buckets %s", got)
	}
	for _, name := range []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"} {
		if !strings.Contains(first, "\n"+name+" ") {
			t.Errorf("%s is missing", name)
		}
	}

	v.Claimed(time.Second, true, nil)
	v.Claimed(15*time.Second, false, nil)
	v.Claimed(time.Second, false, errors.New("down"))
	v.Beat(nil)
	v.Beat(errors.New("down"))
	v.Plays(1)
	d := v.Driver(fake.New(fake.Config{}))
	box := func() sandbox.Box {
		t.Helper()
		b, err := d.Start(context.Background(), sandbox.Spec{Name: "box"})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, _ := box(), box()
	now = now.Add(100 * time.Second)
	for range 2 { // closed twice, counted once
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	want(scrape(), "validator_active_runs 1", "validator_sandbox_active 1", `validator_heartbeat_total{result="success"} 1`, `validator_heartbeat_total{result="failure"} 1`,
		`validator_claim_work_total{result="success"} 1`, `validator_claim_work_total{result="empty"} 1`, `validator_claim_work_total{result="error"} 1`, "validator_claim_work_seconds_sum 17",
		`validator_sandbox_duration_seconds_bucket{le="60"} 0`, `validator_sandbox_duration_seconds_bucket{le="120"} 1`, "validator_sandbox_duration_seconds_count 1")
}
