package web

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // bulk inserts go around the store

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ui/api"
)

// crowd fills the arena with so many decided submissions on 20 tasks each, as
// one that has been open for years has them.
func (f *fixture) crowd(submissions int) {
	f.t.Helper()
	f.submit(miner, "first", "x = 1")
	for l := f.claim(); l != nil; l = f.claim() {
		f.score(l, 0.5, "")
	}
	db, err := sql.Open("sqlite", "file:"+f.db+"?_pragma=busy_timeout(10000)&_pragma=cache_size(-200000)")
	must(f.t, err)
	defer db.Close()
	args := []any{sql.Named("subs", submissions-1), sql.Named("now", time.Now().UnixMicro())}
	const each = `WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i + 1 < @subs) `
	for _, q := range []string{
		each + `INSERT INTO submissions (id, arena, miner, coldkey, netuid, name, digest, licence, state, scripted, created_at, score, solved, total, cost_micros)
			SELECT printf('old%029d', i), arena, 'old-miner-' || (i % 500), 'old-cold-' || (i % 500), netuid, 'agent number ' || i, 'sha256:' || lower(hex(randomblob(32))), licence,
			'scored', 0, @now, (i * 7919 % 10007) / 10007.0, 13, 20, i * 31 % 90000 FROM c, (SELECT arena, netuid, licence FROM submissions WHERE seq = 1)`,
		each + `INSERT INTO runs (id, arena, submission, sub_seq, tasks, replica, seed, policy, driver, max_hold_us, state, attempts, deadline, created_at, ended_at)
			SELECT printf('run%029d', i), r.arena, printf('old%029d', i), (SELECT seq FROM submissions WHERE id = 'old00000000000000000000000000000') + i,
			r.tasks, 0, i, r.policy, r.driver, r.max_hold_us, 'scored', 1, @now, @now, @now FROM c JOIN (SELECT * FROM runs LIMIT 1) r`,
		each + `INSERT INTO scores (run, task, attempt, score_key, value, solved, metrics, scorer, detail)
			SELECT printf('run%029d', i), 'small/' || t.j, 1, 'sha256:' || lower(hex(randomblob(32))), (i + t.j) % 2, (i + t.j) % 2, '{}', 'fake-1', '12 of 12 tests passed'
			FROM c JOIN (WITH RECURSIVE d(j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM d WHERE j < 19) SELECT j FROM d) t`,
		each + `INSERT INTO decisions (arena, challenger, incumbent, score, outcome, rule, numbers, at)
			SELECT 'demo', printf('old%029d', i), '', i / 10000.0, CASE WHEN i % 20 = 0 THEN 'took_seat' ELSE 'kept' END, 'winner', '{"margin":0.01}', @now - (10000 - i) * 1000000 FROM c`,
		`ANALYZE`,
	} {
		if _, err := db.Exec(q, args...); err != nil {
			f.t.Fatalf("%v: %s", err, q)
		}
	}
}

// plainGet reads a page as a browser gets it, compressed, and says how many bytes came.
func plainGet(b *testing.B, c *http.Client, url, accept string) int64 {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	must(b, err)
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := c.Do(req)
	must(b, err)
	n, err := io.Copy(io.Discard, resp.Body)
	must(b, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("%s: %d", url, resp.StatusCode)
	}
	return n
}

// BenchmarkBoard renders the board of an arena of 10,000 submissions, never
// from the cache, and counts the bytes of a first visit.
func BenchmarkBoard(b *testing.B) {
	f := newFixture(b)
	f.crowd(10_000)
	c := f.browser(player) // a signed-in reader's page is made for each request
	first := int64(0)
	for _, at := range []string{"/arenas/demo", "/static/agon.css", "/static/agon.js", "/static/agon.svg", "/static/uplot-1.6.32/uPlot.js", "/static/uplot-1.6.32/uPlot.css"} {
		first += plainGet(b, c, f.url+at, "text/html")
	}
	for b.Loop() {
		plainGet(b, c, f.url+"/arenas/demo", "text/html")
	}
	b.ReportMetric(float64(first)/1024, "first-KB")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/page")
}

// BenchmarkLeaderboards reads boards of 10,000 submissions from many browsers
// and programs at once.
func BenchmarkLeaderboards(b *testing.B) {
	f := newFixture(b)
	f.crowd(10_000)
	v1 := httptest.NewServer(api.New(api.Config{Platform: f.Platform, Verifier: verifier{}, Server: client.Server{Operator: boss}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}))
	b.Cleanup(v1.Close)
	for _, x := range []struct{ name, url, accept string }{
		{"page", f.url + "/arenas/demo", "text/html"}, {"v1", v1.URL + "/v1/arenas/demo/board", "application/json"},
	} {
		b.Run(x.name, func(b *testing.B) {
			c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					plainGet(b, c, x.url, x.accept)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// BenchmarkTrajectory opens a page of a trajectory of 10,000 steps.
func BenchmarkTrajectory(b *testing.B) {
	f := newFixture(b, agon.TaskRef{Key: "small/one"})
	f.submit(miner, "long", "x = 1")
	l := f.claim()
	for i := int64(0); i < 10_000; i += 500 {
		var evs []agon.Event
		for j := range int64(500) {
			evs = append(evs, event(i+j+1, agon.EventNote, "small/one", map[string]any{"text": fmt.Sprintf("note %d", i+j)}))
		}
		f.beat(l, evs...)
	}
	f.score(l, 1, "")
	c := f.browser("")
	for b.Loop() {
		if status, _ := f.get(c, "/runs/"+l.Run.Run+"?attempt=1&step=5000"); status != 200 {
			b.Fatal(status)
		}
	}
}

// BenchmarkWatchers has 500 streams watch an arena and a run that makes ten
// steps a second, and tells what part of a core that costs: server, watchers
// and player together, so the server alone costs less.
func BenchmarkWatchers(b *testing.B) {
	const watchers, steps, every = 500, 30, 100 * time.Millisecond
	f := newFixture(b, agon.TaskRef{Key: "small/one"})
	f.submit(miner, "watched", "x = 1")
	l := f.claim()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := &http.Client{Transport: &http.Transport{MaxConnsPerHost: watchers + 8}}
	for i := range watchers {
		at := "/live?arena=demo"
		if i%2 == 0 {
			at = "/runs/" + l.Run.Run + "/live"
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+at, nil)
		must(b, err)
		resp, err := c.Do(req)
		must(b, err)
		go func() {
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body) // ends with ctx
		}()
	}
	seq := int64(0)
	for b.Loop() {
		from, start := cpu(b), time.Now()
		tick := time.NewTicker(every)
		for range steps {
			<-tick.C
			seq++
			f.beat(l, event(seq, agon.EventNote, "small/one", map[string]any{"text": fmt.Sprintf("note %d", seq)}))
		}
		tick.Stop()
		b.ReportMetric(100*float64(cpu(b)-from)/float64(time.Since(start)), "%core")
	}
}

// cpu is the time that this process has used.
func cpu(t testing.TB) time.Duration {
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
