package wire

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/pack/consensus"
)

// A validator without a platform tells the server what it does: heartbeat,
// reports, logs. While the server is down nothing waits for it, and the logs
// are there after the next start.
func TestReporter(t *testing.T) {
	w, hashes := filled(t)
	var down atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(rw, "down", http.StatusBadGateway)
			return
		}
		r.Host = "arena.example:8900"
		w.h.ServeHTTP(rw, r)
	}))
	defer srv.Close()
	dir := t.TempDir()
	start := func() *consensus.Reporter {
		t.Helper()
		r, err := consensus.NewReporter(consensus.ReporterConfig{URL: srv.URL + "/", Signer: w.keys['v'], Dir: dir, Version: "1.0.0", Model: "m", Now: w.now, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		t.Cleanup(r.Close)
		return r
	}
	r := start()
	if why := r.Admit(t.Context(), w.ss58('d'), hashes['d'], ""); why != "hardcoded" {
		t.Errorf("the gaming pack: %q", why)
	}
	if why := r.Admit(t.Context(), w.ss58('b'), hashes['b'], ""); why != "" {
		t.Errorf("a sound pack: %q", why)
	}
	told := func(block uint64) consensus.Report {
		return consensus.Report{Miner: w.ss58('f'), UID: 8, Block: block, Window: 6, Hash: hashes['f'], URL: "https://m.example/f.json", Evaluation: consensus.Evaluation{
			Qualified: true, Cost: 0.02,
			Scenarios: []consensus.Scenario{{Name: "inbox_triage", Cost: 0.03, Score: 1, Weight: 1.5, Qualified: true}, {Name: "stand_up", Cost: 0.01, Score: 0.5, Weight: 1, Qualified: true}},
			Logs:      map[string][]byte{"validator.log": []byte("played\n"), "miner.log": nil, "inbox_triage_calls.jsonl": []byte("{}\n")},
		}}
	}
	logs := func(query string) []any {
		t.Helper()
		list, _ := w.get("/api/eval-logs?validator="+w.ss58('v')+query, 200)["logs"].([]any)
		return list
	}
	before := len(logs(""))
	down.Store(true)
	r.Beat(w.now().Add(-time.Minute), time.Time{})
	r.Tell(told(49_000))
	r.Cycle(6, 49_000, []byte("a cycle\n"))
	if why := r.Admit(t.Context(), w.ss58('d'), hashes['d'], ""); why != "hardcoded" {
		t.Errorf("the last good answer is forgotten: %q", why)
	}
	if why := r.Admit(t.Context(), w.ss58('e'), hashes['e'], ""); why != "" {
		t.Errorf("a server that is down keeps somebody out: %q", why)
	}
	must(t, r.Flush(t.Context()))
	if n := len(logs("")); n != before {
		t.Errorf("%d logs", n-before)
	}
	down.Store(false)
	r.Tell(told(49_100)) // the report before was lost with the server, and with it that one's logs
	r.Tell(consensus.Report{Miner: w.ss58('c'), Block: 49_100, Hash: hashes['c'], Stage: "integrity_check", Detail: "NCD: policy too similar"})
	must(t, r.Flush(t.Context()))
	r.Close()
	if n := len(logs("&type=miner&pack_hash=" + hashes['f'])); n != 1 {
		t.Errorf("%d logs of the pack", n)
	}

	// The next start sends the cycle's log, once, and drops what is old.
	old := filepath.Join(dir, "evals", "20260101_0000_w1")
	must(t, os.MkdirAll(old, 0o700))
	for range 2 {
		r = start()
		must(t, r.Flush(t.Context()))
		r.Close()
	}
	cycles := 0
	for _, l := range logs("&type=cycle") {
		if strings.HasSuffix(fmt.Sprint(l.(map[string]any)["evalId"]), "_w6") {
			cycles++
		}
	}
	if cycles != 1 {
		t.Errorf("%d logs of the cycle", cycles)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("old logs are kept for ever")
	}
	r = start()
	r.Beat(w.now(), time.Time{})
	r.Beat(w.now(), time.Time{}) // not again within ten minutes
	must(t, r.Flush(t.Context()))
	w.skip(time.Minute) // answers are that old at most
	if got := fmt.Sprint(w.get("/api/validators", 200)); !strings.Contains(got, "version:1.0.0") {
		t.Errorf("no heartbeat: %s", got)
	}
	entries, _ := w.get("/api/scores/by-validator?validator="+w.ss58('v'), 200)["entries"].([]any)
	found := 0
	for _, e := range entries {
		m := e.(map[string]any)
		switch {
		case m["minerHotkey"] == w.ss58('f') && m["packHash"] == hashes['f']:
			found++
			if m["qualified"] != true || fmt.Sprint(m["costUsd"]) != "0.022" || fmt.Sprint(m["blockHeight"]) != "49100" {
				t.Errorf("report %v", m)
			}
		case m["minerHotkey"] == w.ss58('c') && m["rejected"] == true && m["rejectionStage"] == "integrity_check":
			found++
		}
	}
	if found != 2 {
		t.Errorf("%d reports of 2: %v", found, entries)
	}
}
