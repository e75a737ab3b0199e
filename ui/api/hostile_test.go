package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/teststore"
	"github.com/agon-arena/agon/ui/api"
)

// What a lying validator can try over HTTP, and what becomes of it. The table
// in docs/security.md names every row; TestHostileTable compares them.

// hostile is a server with one arena of two tasks, the second of them hidden,
// whose every result is judged again.
type hostile struct {
	t                                             *testing.T
	f                                             *fixture
	p                                             *platform.Platform
	st                                            *store.Store
	miner, rival, val, judge, other, twin, nobody *auth.Key
	hidden                                        agon.Digest

	mu   sync.Mutex
	skew time.Duration // guarded by mu: of the platform's clock
}

func (w *hostile) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.skew)
}

// later moves the platform's clock and lets it look at what is overdue.
func (w *hostile) later(d time.Duration) {
	w.t.Helper()
	w.mu.Lock()
	w.skew += d
	w.mu.Unlock()
	if err := w.p.Sweep(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func newHostile(t *testing.T, gatewayKey string) *hostile {
	t.Helper()
	return newHostileOf(t, gatewayKey, kindtest.Fake{})
}

func newHostileOf(t *testing.T, gatewayKey string, k kind.Kind) *hostile {
	t.Helper()
	ctx := context.Background()
	w := &hostile{t: t, miner: key(t), rival: key(t), val: key(t), judge: key(t), other: key(t), twin: key(t), nobody: key(t)}
	w.f = &fixture{operator: key(t), audience: "agon:test"}
	l := hostileLedger{
		w.miner.SS58(): "cold-m", w.rival.SS58(): "cold-r", w.val.SS58(): "v:cold-v", w.judge.SS58(): "v:cold-j", w.other.SS58(): "v:cold-o", w.twin.SS58(): "v:cold-v",
	}
	dir := t.TempDir()
	st := teststore.Open(t, dir)
	bl, err := blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.st = st
	w.p, err = platform.New(platform.Config{
		Store: st, Blobs: bl, Kinds: map[string]kind.Kind{"fake": k}, Ledger: l, Log: slog.New(slog.DiscardHandler), Now: w.now,
		Incentives: map[string]incentive.Rule{incentive.WinnerTakesAllRule: incentive.WinnerTakesAll()},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := kindtest.FakeCase().Arena
	a.Tasks = nil
	for i, text := range []string{"open", "secret"} {
		d, err := blob.PutFiles(ctx, bl, []blob.File{{Path: "task.toml", Content: []byte(text)}}, blob.TreeLimits{})
		if err != nil {
			t.Fatal(err)
		}
		a.Tasks = append(a.Tasks, agon.TaskRef{Key: fmt.Sprintf("set/%d", i), Digest: d, Hidden: i == 1})
		w.hidden = d
	}
	share := 1.0
	a.ID, a.Netuid, a.Licence, a.Incentive, a.MaxLeases, a.Attempts, a.State, a.Rejudge = "arena-1", 1, "MIT", "winner_takes_all", 8, 2, agon.ArenaOpen, &share
	a.Policy.GatewayKey = gatewayKey
	if err := w.p.EnsureArena(ctx, a); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(api.New(api.Config{
		Platform: w.p, Ledger: l, Verifier: sigs{&auth.Verifier{Audience: w.f.audience, Replay: guard{w.p}, Now: time.Now}}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Server: client.Server{Name: "agon", Audience: w.f.audience, Operator: w.f.operator.SS58()},
	}))
	w.f.url = srv.URL
	t.Cleanup(func() { srv.Close(); st.Close() })
	return w
}

// obj is a body that each row spoils.
type obj = map[string]any

// call sends a signed request and returns how it was answered; a body of bytes goes as it is.
func (w *hostile) call(k *auth.Key, method, path string, body any) (string, []byte) {
	w.t.Helper()
	return w.callAs(k, method, path, body, uuid.NewString(), nil)
}

func (w *hostile) callAs(k *auth.Key, method, path string, body any, nonce string, spoil func(http.Header)) (string, []byte) {
	w.t.Helper()
	b, ok := body.([]byte)
	if !ok && body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			w.t.Fatal(err)
		}
	}
	req, err := http.NewRequest(method, w.f.url+path, bytes.NewReader(b))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if k != nil {
		if err := w.f.sign(req, k, b, nonce); err != nil {
			w.t.Fatal(err)
		}
	}
	if spoil != nil {
		spoil(req.Header)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode < 300 {
		return fmt.Sprint(resp.StatusCode), out
	}
	var p client.Problem
	if err := json.Unmarshal(out, &p); err != nil {
		w.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, out)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, p.Code), out
}

func (w *hostile) ok(answer string, out []byte) []byte {
	w.t.Helper()
	if !strings.HasPrefix(answer, "20") {
		w.t.Fatalf("%s: %s", answer, out)
	}
	return out
}

func (w *hostile) submit(k *auth.Key, text string) client.Submission {
	w.t.Helper()
	var s client.Submission
	w.into(w.ok(w.call(k, "POST", "/v1/arenas/arena-1/submissions", submission(map[string]string{"agent": text}, "MIT"))), &s)
	return s
}

func (w *hostile) into(b []byte, v any) {
	w.t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		w.t.Fatal(err)
	}
}

func claim() obj { return obj{"kinds": []string{"fake"}, "driver": "runc", "wait_ms": 0} }

func (w *hostile) claim(k *auth.Key) client.Lease {
	w.t.Helper()
	var l client.Lease
	w.into(w.ok(w.call(k, "POST", "/v1/leases", claim())), &l)
	return l
}

// leased is a lease of val on an entry of the miner.
func (w *hostile) leased() client.Lease {
	w.t.Helper()
	w.submit(w.miner, "agent")
	return w.claim(w.val)
}

func (w *hostile) put(k *auth.Key, lease string, b []byte) (agon.Digest, string) {
	w.t.Helper()
	d := agon.Sum(b)
	answer, _ := w.call(k, "PUT", "/v1/blobs/"+string(d)+"?lease="+lease, b)
	return d, answer
}

// Put implements blob.Store for evidence of a lease.
type putter struct {
	w     *hostile
	k     *auth.Key
	lease string
}

func (p putter) Put(_ context.Context, b []byte) (agon.Digest, error) {
	d, answer := p.w.put(p.k, p.lease, b)
	if !strings.HasPrefix(answer, "20") {
		return "", fmt.Errorf("put: %s", answer)
	}
	return d, nil
}

func (putter) Get(context.Context, agon.Digest) ([]byte, error) { return nil, blob.ErrNotFound }

func (putter) Has(context.Context, agon.Digest) (bool, error) { return false, nil }

func (w *hostile) evidence(k *auth.Key, lease string) agon.Digest {
	w.t.Helper()
	d, err := blob.PutFiles(context.Background(), putter{w, k, lease}, []blob.File{{Path: "out", Content: []byte(lease)}}, blob.TreeLimits{})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// result is a good one for a lease.
func (w *hostile) result(k *auth.Key, l client.Lease) obj {
	w.t.Helper()
	return obj{
		"token": l.Token, "fault": "", "outcome": "ok", "scores": scoresOf(l.Run, 1), "driver": obj{"name": "runc", "version": "1", "limits": []string{}},
		"cost_micros": 0, "box_ms": 1, "evidence": w.evidence(k, l.ID),
	}
}

func scoresOf(r agon.RunSpec, value float64) []obj {
	var out []obj
	for _, t := range r.Tasks {
		out = append(out, obj{"run": r.Run, "task": t.Key, "value": value, "solved": value > 0, "scorer": "fake-1"})
	}
	return out
}

func to(l client.Lease, what string) string { return "/v1/leases/" + l.ID + "/" + what }

// spoiled reports a result with one part changed.
func (w *hostile) spoiled(change func(r obj)) string {
	w.t.Helper()
	l := w.leased()
	r := w.result(w.val, l)
	change(r)
	answer, _ := w.call(w.val, "POST", to(l, "result"), r)
	return answer
}

// score changes the first score of a result.
func (w *hostile) score(name string, v any) string {
	w.t.Helper()
	return w.spoiled(func(r obj) { r["scores"].([]obj)[0][name] = v })
}

// beat sends a heartbeat with one part changed.
func (w *hostile) beat(change func(h obj)) string {
	w.t.Helper()
	l := w.leased()
	h := obj{"token": l.Token, "state": "playing", "events": []obj{{"seq": 1, "type": "note", "run": l.Run.Run, "attempt": 1, "task": "", "at": time.Now(), "data": obj{}}}}
	change(h)
	answer, _ := w.call(w.val, "POST", to(l, "heartbeat"), h)
	return answer
}

func event(h obj) obj { return h["events"].([]obj)[0] }

// judging is a judge lease of judge on a result of val.
func (w *hostile) judging() client.JudgeLease {
	w.t.Helper()
	w.ok(w.call(w.judge, "POST", "/v1/judge-leases", claim()))
	l := w.leased()
	w.ok(w.call(w.val, "POST", to(l, "result"), w.result(w.val, l)))
	var j client.JudgeLease
	answer, b := w.call(w.judge, "POST", "/v1/judge-leases", claim())
	if answer != "200" {
		w.t.Fatalf("nothing to judge: %s", answer)
	}
	w.into(b, &j)
	return j
}

func verdict(j client.JudgeLease) obj {
	return obj{"token": j.Token, "scores": scoresOf(j.Run, 1), "driver": obj{"name": "runc", "version": "1", "limits": []string{}}}
}

func judgeTo(j client.JudgeLease, what string) string { return "/v1/judge-leases/" + j.ID + "/" + what }

// judged reports a judging with one part changed.
func (w *hostile) judged(change func(r obj)) string {
	w.t.Helper()
	j := w.judging()
	r := verdict(j)
	change(r)
	answer, _ := w.call(w.judge, "POST", judgeTo(j, "result"), r)
	return answer
}

func only(answer string, _ []byte) string { return answer }

// many is n copies of v.
func many(n int, v any) []any { return slices.Repeat([]any{v}, n) }

// attacks is the suite: each row does one thing wrong and says how it must be answered.
var attacks = []struct {
	name, want string
	try        func(w *hostile) string
}{
	{"claim-unsigned", "401 missing_signature", func(w *hostile) string { return only(w.call(nil, "POST", "/v1/leases", claim())) }},
	{"claim-by-a-miner", "403 no_permit", func(w *hostile) string { return only(w.call(w.miner, "POST", "/v1/leases", claim())) }},
	{"claim-by-a-stranger", "403 no_permit", func(w *hostile) string { return only(w.call(w.nobody, "POST", "/v1/leases", claim())) }},
	{"claim-its-own-entry", "204", func(w *hostile) string {
		w.submit(w.val, "mine")
		return only(w.call(w.val, "POST", "/v1/leases", claim()))
	}},
	{"claim-its-coldkeys-entry", "204", func(w *hostile) string {
		w.submit(w.twin, "mine")
		return only(w.call(w.val, "POST", "/v1/leases", claim()))
	}},
	{"claim-an-unknown-arena", "404 not_found", func(w *hostile) string {
		return only(w.call(w.val, "POST", "/v1/leases", obj{"arenas": []string{"none"}, "kinds": []string{"fake"}, "driver": "", "wait_ms": 0}))
	}},
	{"claim-too-many-kinds", "422 bad_claim", func(w *hostile) string {
		return only(w.call(w.val, "POST", "/v1/leases", obj{"kinds": many(101, "fake"), "driver": "", "wait_ms": 0}))
	}},
	{"claim-a-long-driver", "422 bad_claim", func(w *hostile) string {
		return only(w.call(w.val, "POST", "/v1/leases", obj{"kinds": []string{"fake"}, "driver": strings.Repeat("d", 81), "wait_ms": 0}))
	}},
	{"claim-an-unknown-field", "422 invalid", func(w *hostile) string {
		c := claim()
		c["coldkey"] = "cold-x"
		return only(w.call(w.val, "POST", "/v1/leases", c))
	}},
	{"claim-huge", "413 too_large", func(w *hostile) string {
		return only(w.call(w.val, "POST", "/v1/leases", make([]byte, 256<<10+1)))
	}},
	{"claim-twice-by-one-signature", "401 replayed", func(w *hostile) string {
		w.submit(w.miner, "agent")
		n := uuid.NewString()
		w.ok(w.callAs(w.val, "POST", "/v1/leases", claim(), n, nil))
		return only(w.callAs(w.val, "POST", "/v1/leases", claim(), n, nil))
	}},
	{"claim-by-anothers-signature", "401 bad_signature", func(w *hostile) string {
		return only(w.callAs(w.val, "POST", "/v1/leases", claim(), uuid.NewString(), func(h http.Header) { h.Set("Agon-Hotkey", w.judge.SS58()) }))
	}},
	{"beat-unsigned", "401 missing_signature", func(w *hostile) string {
		l := w.leased()
		return only(w.call(nil, "POST", to(l, "heartbeat"), obj{"token": l.Token}))
	}},
	{"beat-anothers-lease", "403 not_holder", func(w *hostile) string {
		l := w.leased()
		return only(w.call(w.judge, "POST", to(l, "heartbeat"), obj{"token": l.Token}))
	}},
	{"beat-a-wrong-token", "403 not_holder", func(w *hostile) string { return w.beat(func(h obj) { h["token"] = strings.Repeat("0", 64) }) }},
	{"beat-a-final-state", "422 bad_state", func(w *hostile) string { return w.beat(func(h obj) { h["state"] = "scored" }) }},
	{"beat-backwards", "409 bad_transition", func(w *hostile) string {
		l := w.leased()
		w.ok(w.call(w.val, "POST", to(l, "heartbeat"), obj{"token": l.Token, "state": "judging"}))
		return only(w.call(w.val, "POST", to(l, "heartbeat"), obj{"token": l.Token, "state": "playing"}))
	}},
	{"beat-too-many-events", "413 too_large", func(w *hostile) string { return w.beat(func(h obj) { h["events"] = many(2001, event(h)) }) }},
	{"event-number-zero", "422 bad_event", func(w *hostile) string { return w.beat(func(h obj) { event(h)["seq"] = 0 }) }},
	{"event-number-huge", "422 bad_event", func(w *hostile) string { return w.beat(func(h obj) { event(h)["seq"] = 10_000_001 }) }},
	{"event-type-with-escapes", "422 bad_event", func(w *hostile) string { return w.beat(func(h obj) { event(h)["type"] = "\x1b[31m" }) }},
	{"event-type-long", "422 bad_event", func(w *hostile) string { return w.beat(func(h obj) { event(h)["type"] = strings.Repeat("t", 41) }) }},
	{"event-of-another-run", "0 events there", func(w *hostile) string {
		w.submit(w.miner, "agent")
		a, b := w.claim(w.val), w.claim(w.judge)
		w.ok(w.call(w.val, "POST", to(a, "heartbeat"), obj{"token": a.Token, "events": []obj{{"seq": 1, "type": "note", "run": b.Run.Run, "attempt": 1, "task": "", "at": time.Now(), "data": obj{}}}}))
		var page client.Page[agon.Event]
		w.into(w.ok(w.call(w.judge, "GET", "/v1/runs/"+b.Run.Run+"/events", nil)), &page)
		return fmt.Sprintf("%d events there", len(page.Items))
	}},
	{"event-after-the-result", "not kept", func(w *hostile) string {
		l := w.leased()
		w.ok(w.call(w.val, "POST", to(l, "result"), w.result(w.val, l)))
		w.ok(w.call(w.val, "POST", to(l, "heartbeat"), obj{"token": l.Token, "events": []obj{{"seq": 9, "type": "note", "run": l.Run.Run, "attempt": 1, "task": "", "at": time.Now(), "data": obj{}}}}))
		var page client.Page[agon.Event]
		w.into(w.ok(w.call(w.f.operator, "GET", "/v1/runs/"+l.Run.Run+"/events", nil)), &page)
		if len(page.Items) > 0 {
			return "kept"
		}
		return "not kept"
	}},
	{"result-unsigned", "401 missing_signature", func(w *hostile) string {
		l := w.leased()
		return only(w.call(nil, "POST", to(l, "result"), obj{"token": l.Token}))
	}},
	{"result-of-anothers-lease", "403 not_holder", func(w *hostile) string {
		l := w.leased()
		return only(w.call(w.judge, "POST", to(l, "result"), w.result(w.val, l)))
	}},
	{"result-by-a-wrong-token", "403 not_holder", func(w *hostile) string { return w.spoiled(func(r obj) { r["token"] = "x" }) }},
	{"result-twice", "409 result_conflict", func(w *hostile) string {
		l := w.leased()
		r := w.result(w.val, l)
		w.ok(w.call(w.val, "POST", to(l, "result"), r))
		r["scores"] = scoresOf(l.Run, 0.5)
		return only(w.call(w.val, "POST", to(l, "result"), r))
	}},
	{"result-late", "kept, not counted", func(w *hostile) string {
		l := w.leased()
		r := w.result(w.val, l)
		w.later(2 * time.Minute)
		var reply client.ResultReply
		w.into(w.ok(w.call(w.val, "POST", to(l, "result"), r)), &reply)
		if reply.Counted || !reply.Late {
			return "counted"
		}
		return "kept, not counted"
	}},
	{"result-moves-a-seat-alone", "no seat", func(w *hostile) string {
		w.ok(w.call(w.judge, "POST", "/v1/judge-leases", claim()))
		w.submit(w.miner, "agent")
		for range 2 {
			l := w.claim(w.val)
			w.ok(w.call(w.val, "POST", to(l, "result"), w.result(w.val, l)))
		}
		var a client.Arena
		w.into(w.ok(w.call(nil, "GET", "/v1/arenas/arena-1", nil)), &a)
		if a.Champion != nil {
			return "seat"
		}
		return "no seat"
	}},
	{"result-without-evidence", "422 evidence_required", func(w *hostile) string { return w.spoiled(func(r obj) { delete(r, "evidence") }) }},
	{"evidence-not-put", "422 bad_result", func(w *hostile) string { return w.spoiled(func(r obj) { r["evidence"] = agon.Sum([]byte("nowhere")) }) }},
	{"evidence-is-a-rivals-code", "422 bad_result", func(w *hostile) string {
		s := w.submit(w.rival, "secret code")
		return w.spoiled(func(r obj) { r["evidence"] = s.Digest })
	}},
	{"evidence-is-a-hidden-task", "422 bad_result", func(w *hostile) string { return w.spoiled(func(r obj) { r["evidence"] = w.hidden }) }},
	{"evidence-of-another-lease", "422 bad_result", func(w *hostile) string {
		w.submit(w.miner, "agent")
		a, b := w.claim(w.val), w.claim(w.val)
		r := w.result(w.val, a)
		r["token"], r["scores"] = b.Token, scoresOf(b.Run, 1)
		return only(w.call(w.val, "POST", to(b, "result"), r))
	}},
	{"score-above-one", "422 bad_scores", func(w *hostile) string { return w.score("value", 1.01) }},
	{"score-below-zero", "422 bad_scores", func(w *hostile) string { return w.score("value", -0.1) }},
	{"score-of-another-task", "422 bad_scores", func(w *hostile) string { return w.score("task", "set/none") }},
	{"score-without-scorer", "422 bad_scores", func(w *hostile) string { return w.score("scorer", "") }},
	{"score-with-a-long-metric", "422 bad_scores", func(w *hostile) string { return w.score("metrics", obj{strings.Repeat("m", 101): 1}) }},
	{"score-twice", "422 bad_scores", func(w *hostile) string {
		return w.spoiled(func(r obj) { s := r["scores"].([]obj); r["scores"] = append(s, s[0]) })
	}},
	{"score-missing", "422 bad_scores", func(w *hostile) string { return w.spoiled(func(r obj) { r["scores"] = []obj{} }) }},
	{"fault-unknown", "422 bad_result", func(w *hostile) string { return w.spoiled(func(r obj) { r["fault"] = "miner" }) }},
	{"cost-below-zero", "422 bad_result", func(w *hostile) string { return w.spoiled(func(r obj) { r["cost_micros"] = -1 }) }},
	{"cost-huge", "422 bad_result", func(w *hostile) string { return w.spoiled(func(r obj) { r["cost_micros"] = int64(1e15) + 1 }) }},
	{"box-time-below-zero", "422 bad_result", func(w *hostile) string { return w.spoiled(func(r obj) { r["box_ms"] = -1 }) }},
	{"driver-name-long", "422 bad_result", func(w *hostile) string {
		return w.spoiled(func(r obj) { r["driver"].(obj)["name"] = strings.Repeat("d", 81) })
	}},
	{"receipt-without-id", "422 bad_result", func(w *hostile) string { return w.spoiled(func(r obj) { r["receipts"] = []obj{{"id": ""}} }) }},
	{"receipt-of-negative-cost", "422 bad_result", func(w *hostile) string {
		return w.spoiled(func(r obj) { r["receipts"] = []obj{{"id": "r1", "cost_micros": -5}} })
	}},
	{"statement-left-out", "422 bad_receipts", func(w *hostile) string { return newHostile(w.t, w.nobody.SS58()).spoiled(func(obj) {}) }},
	{"statement-by-another-key", "422 bad_receipts", func(w *hostile) string {
		return newHostile(w.t, w.nobody.SS58()).spoiled(func(r obj) { r["statement"] = agon.Statement{} })
	}},
	{"blob-unsigned", "401 missing_signature", func(w *hostile) string { _, a := w.put(nil, w.leased().ID, []byte("x")); return a }},
	{"blob-by-a-miner", "403 no_permit", func(w *hostile) string { _, a := w.put(w.miner, w.leased().ID, []byte("x")); return a }},
	{"blob-under-anothers-lease", "403 not_holder", func(w *hostile) string { _, a := w.put(w.judge, w.leased().ID, []byte("x")); return a }},
	{"blob-of-another-digest", "422 bad_digest", func(w *hostile) string {
		return only(w.call(w.val, "PUT", "/v1/blobs/"+string(agon.Sum([]byte("y")))+"?lease="+w.leased().ID, []byte("x")))
	}},
	{"blob-after-the-result", "409 result_conflict", func(w *hostile) string {
		l := w.leased()
		w.ok(w.call(w.val, "POST", to(l, "result"), w.result(w.val, l)))
		_, a := w.put(w.val, l.ID, []byte("late"))
		return a
	}},
	{"read-a-rivals-code", "404 not_found", func(w *hostile) string {
		s := w.submit(w.rival, "secret code")
		return only(w.call(w.judge, "GET", "/v1/blobs/"+string(s.Digest), nil))
	}},
	{"judge-unsigned", "401 missing_signature", func(w *hostile) string { return only(w.call(nil, "POST", "/v1/judge-leases", claim())) }},
	{"judge-by-a-miner", "403 no_permit", func(w *hostile) string { return only(w.call(w.miner, "POST", "/v1/judge-leases", claim())) }},
	{"judge-its-own-result", "204", func(w *hostile) string {
		w.ok(w.call(w.judge, "POST", "/v1/judge-leases", claim()))
		l := w.leased()
		w.ok(w.call(w.val, "POST", to(l, "result"), w.result(w.val, l)))
		return only(w.call(w.val, "POST", "/v1/judge-leases", claim()))
	}},
	{"judge-its-coldkeys-result", "204", func(w *hostile) string {
		w.ok(w.call(w.judge, "POST", "/v1/judge-leases", claim()))
		l := w.leased()
		w.ok(w.call(w.val, "POST", to(l, "result"), w.result(w.val, l)))
		return only(w.call(w.twin, "POST", "/v1/judge-leases", claim()))
	}},
	{"judge-its-own-entry", "204", func(w *hostile) string {
		w.ok(w.call(w.other, "POST", "/v1/judge-leases", claim()))
		w.submit(w.judge, "mine")
		l := w.claim(w.val)
		w.ok(w.call(w.val, "POST", to(l, "result"), w.result(w.val, l)))
		return only(w.call(w.judge, "POST", "/v1/judge-leases", claim()))
	}},
	{"judge-anothers-lease", "403 not_holder", func(w *hostile) string {
		j := w.judging()
		return only(w.call(w.other, "POST", judgeTo(j, "result"), verdict(j)))
	}},
	{"judge-beat-anothers-lease", "403 not_holder", func(w *hostile) string {
		j := w.judging()
		return only(w.call(w.other, "POST", judgeTo(j, "heartbeat"), obj{"token": j.Token}))
	}},
	{"judge-by-a-wrong-token", "403 not_holder", func(w *hostile) string { return w.judged(func(r obj) { r["token"] = "x" }) }},
	{"judge-score-above-one", "422 bad_scores", func(w *hostile) string { return w.judged(func(r obj) { r["scores"].([]obj)[0]["value"] = 2 }) }},
	{"judge-another-task", "422 bad_scores", func(w *hostile) string { return w.judged(func(r obj) { r["scores"].([]obj)[0]["task"] = "set/none" }) }},
	{"judge-no-score", "422 bad_scores", func(w *hostile) string { return w.judged(func(r obj) { r["scores"] = []obj{} }) }},
	{"judge-blames-the-agent", "422 bad_result", func(w *hostile) string { return w.judged(func(r obj) { r["fault"] = "agent" }) }},
	{"judge-long-reason", "422 bad_result", func(w *hostile) string { return w.judged(func(r obj) { r["reason"] = strings.Repeat("r", 4001) }) }},
	{"judge-huge", "413 too_large", func(w *hostile) string {
		return only(w.call(w.judge, "POST", judgeTo(w.judging(), "result"), make([]byte, 256<<10+1)))
	}},
	{"judge-twice", "409 result_conflict", func(w *hostile) string {
		j := w.judging()
		r := verdict(j)
		w.ok(w.call(w.judge, "POST", judgeTo(j, "result"), r))
		r["scores"] = scoresOf(j.Run, 0)
		return only(w.call(w.judge, "POST", judgeTo(j, "result"), r))
	}},
	{"judge-late", "403 not_holder", func(w *hostile) string {
		j := w.judging()
		w.later(2 * time.Minute)
		return only(w.call(w.judge, "POST", judgeTo(j, "result"), verdict(j)))
	}},
	{"judge-reads-other-code", "404 not_found", func(w *hostile) string {
		s := w.submit(w.rival, "secret code")
		w.judging()
		return only(w.call(w.other, "GET", "/v1/blobs/"+string(s.Digest), nil))
	}},
}

func TestHostile(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			if got := a.try(newHostile(t, "")); got != a.want {
				t.Errorf("answered %q, want %q", got, a.want)
			}
		})
	}
}

var hostileRow = regexp.MustCompile("(?m)^\\| [0-9]+ \\| `([a-z0-9-]+)` \\| [^|]+ \\| [^|]+ \\| ([^|]+) \\| `(Test[A-Za-z]+)(?:/[a-z0-9-]+)?` \\|$")

// The table in docs/security.md and the tests name the same attacks with the
// same answers; what other packages test is there by the name of its test.
func TestHostileTable(t *testing.T) {
	b, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "<!-- hostile -->")
	if !ok {
		t.Fatal("docs/security.md has no table of hostile validators")
	}
	text, _, _ = strings.Cut(text, "<!-- end hostile -->")
	told := map[string]string{}
	rows := hostileRow.FindAllStringSubmatch(text, -1)
	if lines := strings.Count(text, "\n| ") - 1; len(rows) != lines || lines < 40 {
		t.Errorf("%d rows of the table are read, it has %d, want at least 40", len(rows), lines)
	}
	for _, r := range rows {
		if r[3] == "TestHostile" {
			told[r[1]] = strings.TrimSpace(r[2])
			continue
		}
		if !testExists(t, r[3]) {
			t.Errorf("row %s names a test that is not there: %s", r[1], r[3])
		}
	}
	for _, a := range attacks {
		if told[a.name] != a.want {
			t.Errorf("%s: the table says %q, the test %q", a.name, told[a.name], a.want)
		}
		delete(told, a.name)
	}
	for name := range told {
		t.Errorf("the table has %s, no test does", name)
	}
}

// Every row of the table of strangers names a test that is there.
func TestStrangerTable(t *testing.T) {
	b, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "<!-- stranger -->")
	text, _, _ = strings.Cut(text, "<!-- end stranger -->")
	rows := hostileRow.FindAllStringSubmatch(text, -1)
	if lines := strings.Count(text, "\n| ") - 1; len(rows) != lines || lines < 15 {
		t.Errorf("%d rows of the table are read, it has %d, want at least 15", len(rows), lines)
	}
	for _, r := range rows {
		if !testExists(t, r[3]) {
			t.Errorf("row %s names a test that is not there: %s", r[1], r[3])
		}
	}
}

// testExists looks for a test in the packages that the tables speak of.
func testExists(t *testing.T, name string) bool {
	t.Helper()
	for _, dir := range []string{
		"../../engine/platform", "../../cmd/agon/roles", "../../gateway", "../../kinds/shopping/wire", ".", "../web", "../cli", "../../client", "../../cmd/agon", "../../ledger/local", "../../engine/audit",
		"../../kinds/coding/signin", "../../kinds/claim/signin", "../../kinds/claim/wire", "../../kinds/pack/signin", "../../kinds/pack/wire", "../../kinds/research/signin", "../../kinds/research/wire", "../../kinds/shopping/signin",
	} {
		files, err := filepath.Glob(dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(b, []byte("\nfunc "+name+"(t *testing.T)")) {
				return true
			}
		}
	}
	return false
}
