package wire

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
)

// BenchmarkUpload is an upload with a credit, from the request until its runs are queued.
func BenchmarkUpload(b *testing.B) {
	w := newWorld(b)
	type one struct {
		ctype string
		body  []byte
	}
	var list []one
	for i := range b.N {
		src := agentSource(fmt.Sprintf("agent %d", i))
		ctype, body := multi(b, w.fields('a', src, part{"credit_id", w.credit('a', fmt.Sprint(i))}), "agent.py", src)
		list = append(list, one{ctype, body})
	}
	b.ResetTimer()
	for _, x := range list {
		if code, _, text := w.send(http.MethodPost, "/upload/agent", "", x.ctype, x.body); code != 200 {
			b.Fatal(code, text)
		}
	}
}

// BenchmarkPolling is 200 validators that send heartbeats and ask for work, and
// reports the 99th percentile.
func BenchmarkPolling(b *testing.B) {
	w := newWorld(b)
	s := w.join('v')
	srv := httptest.NewServer(w.h)
	defer srv.Close()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}
	var mu sync.Mutex
	var took []time.Duration
	b.ResetTimer()
	var wg sync.WaitGroup
	for v := range 200 {
		wg.Go(func() {
			for i := v; i < b.N; i += 200 {
				path, body := "/validator/heartbeat", `{"system_metrics":{}}`
				if i%7 == 0 {
					path, body = "/validator/check-cancellation", `{"evaluation_id":"11111111-2222-4333-8444-555555555555","agent_id":"11111111-2222-4333-8444-555555555555"}`
				}
				r, err := http.NewRequest(http.MethodPost, srv.URL+path, strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				r.Header.Set("Authorization", "Bearer "+s)
				began := time.Now()
				resp, err := c.Do(r)
				if err != nil {
					b.Error(err)
					return
				}
				resp.Body.Close()
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	if len(took) > 0 {
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	}
}

// BenchmarkLeaderboard is the leaderboard of 10,000 agents.
func BenchmarkLeaderboard(b *testing.B) {
	w := newWorld(b, func(_ *Config, a *agon.Arena) { a.Stages, a.SubmissionsPerColdkey = nil, 0 })
	rows := make([]*agentRow, 10_000)
	sets, err := w.b.allSets(bg)
	must(b, err)
	for i := range rows {
		v, c := float64(i%100)/100, 0.1
		rows[i] = &agentRow{sub: client.Submission{Submission: agon.Submission{ID: fmt.Sprintf("id-%d", i), Miner: w.keys['a'].SS58(), Name: "n", State: agon.SubmissionScored}, Score: &v}, status: "finished", set: 7, score: &v, cost: &c}
		w.b.books.facts = map[string]factRow{}
	}
	for i, r := range rows {
		w.b.books.facts[r.sub.ID] = factRow{validators: []string{"v", "w", "x"}}
		must(b, w.b.fill(bg, r, i+1, nil))
	}
	w.b.books.took = time.Hour // nothing changes while it is measured
	w.b.made(rows, sets, nil)
	b.ResetTimer()
	for range b.N {
		rec := httptest.NewRecorder()
		w.h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/evaluation-sets/-1/leaderboard", nil))
		if rec.Code != 200 || rec.Body.Len() < 1_000_000 {
			b.Fatal(rec.Code, rec.Body.Len())
		}
	}
}

// No upload that is sent crashes, or is answered 500.
func FuzzUpload(f *testing.F) {
	w := newWorld(f)
	src := agentSource("x")
	_, good := multi(f, w.fields('a', src, part{"credit_id", "11111111-2222-4333-8444-555555555555"}), "agent.py", src)
	boundary := strings.SplitN(strings.TrimPrefix(string(good), "--"), "\r\n", 2)[0]
	f.Add(boundary, good)
	f.Add("b", []byte("--b\r\nContent-Disposition: form-data; name=\"agent_file\"; filename=\"a.py\"\r\n\r\nx\r\n--b--"))
	f.Add("b", []byte("--b\r\n\r\n"))
	f.Fuzz(func(t *testing.T, boundary string, body []byte) {
		w.t = t
		for _, path := range []string{"/upload/agent", "/upload/agent/check", "/upload/agent/ticket"} {
			if code, _, text := w.send(http.MethodPost, path, "", `multipart/form-data; boundary="`+boundary+`"`, body); code == 500 {
				t.Fatalf("%s: %s", path, text)
			}
		}
	})
}

// No report crashes, or is answered 500.
func FuzzReport(f *testing.F) {
	w := newWorld(f)
	f.Add([]byte(`{"evaluation_run_id":"11111111-2222-4333-8444-555555555555","updated_status":"finished","verifier_reward":1e300,"test_results":[{}],"cost_usd":-1}`))
	f.Add([]byte(`{"timestamp":1,"signed_timestamp":"x","hotkey":"y","commit_hash":"z","name":"screener-1-1","password":"p"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w.t = t
		s := w.join('1')
		for _, path := range []string{"update-evaluation-run", "heartbeat", "check-cancellation", "task-download-url", "register-as-validator", "register-as-screener"} {
			if code, _, text := w.send(http.MethodPost, "/validator/"+path, s, "application/json", body); code == 500 {
				t.Fatalf("%s: %s", path, text)
			}
		}
	})
}

var _ Platform = (*platform.Platform)(nil)
