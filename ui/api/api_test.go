package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
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
	"github.com/agon-arena/agon/engine/store/teststore"
	"github.com/agon-arena/agon/ui/api"
)

// ledgerStub knows who is registered; the API's ledger routes are tested with the real one in internal/run.
type ledgerStub struct{ miner, validator string }

func (l ledgerStub) Registered(_ context.Context, _ uint16, hk string) (string, bool, error) {
	return "cold-" + hk[:6], hk == l.miner || hk == l.validator, nil
}

func (l ledgerStub) IsValidator(_ context.Context, _ uint16, hk string) (bool, error) {
	return hk == l.validator, nil
}

func (l ledgerStub) Metagraph(context.Context, uint16) (*client.Metagraph, error) {
	return &client.Metagraph{Netuid: 1, Neurons: []client.Neuron{{UID: 0, Hotkey: l.miner}, {UID: 1, Hotkey: l.validator, Validator: true}}}, nil
}

func (ledgerStub) Fund(context.Context, client.FundRequest) (*client.Balance, error) {
	return nil, nil
}

func (l ledgerStub) Register(context.Context, uint16, string, client.RegisterRequest) (uint16, error) {
	return 7, nil
}

func (l ledgerStub) SetWeights(context.Context, uint16, string, client.SetWeightsRequest) error {
	return nil
}

type fixture struct {
	url                  string
	miner, val, stranger *auth.Key
	operator             *auth.Key
	audience             string
}

type sigs struct{ v *auth.Verifier }

func (s sigs) VerifyRequest(ctx context.Context, m, t string, h http.Header, b []byte) (string, error) {
	hk, err := s.v.Verify(ctx, m, t, h, b)
	if err != nil {
		return "", err
	}
	return hk, nil
}

func (s sigs) CheckHeaders(_ string, h http.Header) (string, error) {
	hk, err := s.v.CheckHeaders(h)
	if err != nil {
		return "", err
	}
	return hk, nil
}

type guard struct{ p *platform.Platform }

func (g guard) Seen(ctx context.Context, a, b, c string, u time.Time) (bool, error) {
	return g.p.Replay(ctx, a, b, c, u)
}

func key(t *testing.T) *auth.Key {
	t.Helper()
	k, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// open serves a real platform on dir; the same dir again is a restart.
func open(t *testing.T, dir string, f *fixture) {
	t.Helper()
	ctx := context.Background()
	st := teststore.Open(t, dir)
	bl, err := blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := ledgerStub{f.miner.SS58(), f.val.SS58()}
	p, err := platform.New(platform.Config{
		Store: st, Blobs: bl, Kinds: map[string]kind.Kind{"fake": kindtest.Fake{}}, Ledger: l, Log: slog.New(slog.DiscardHandler),
		Incentives: map[string]incentive.Rule{incentive.WinnerTakesAllRule: incentive.WinnerTakesAll()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	a := kindtest.FakeCase().Arena
	for i := range a.Tasks {
		if a.Tasks[i].Digest, err = blob.PutFiles(ctx, bl, []blob.File{{Path: "task.toml", Content: []byte(a.Tasks[i].Key)}}, blob.TreeLimits{}); err != nil {
			t.Fatal(err)
		}
	}
	a.ID, a.Netuid, a.Licence, a.Incentive, a.MaxLeases, a.Attempts, a.State = "arena-1", 1, "MIT", "winner_takes_all", 4, 2, agon.ArenaOpen
	a.Evidence, a.UnjudgedSeats = agon.EvidenceForeign, true // the fake kind leaves no evidence
	if err := p.EnsureArena(ctx, a); err != nil {
		t.Fatal(err)
	}
	f.audience = "agon:test"
	srv := httptest.NewServer(api.New(api.Config{
		Platform: p, Ledger: l, Verifier: sigs{&auth.Verifier{Audience: f.audience, Replay: guard{p}, Now: time.Now}},
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Server: client.Server{Name: "agon", Audience: f.audience, Operator: f.operator.SS58()},
	}))
	f.url = srv.URL
	t.Cleanup(func() { srv.Close(); p.Stop(); st.Close() })
}

func start(t *testing.T) *fixture {
	f := &fixture{miner: key(t), val: key(t), stranger: key(t), operator: key(t)}
	open(t, t.TempDir(), f)
	return f
}

// raw sends a request with hand-made headers, so that each can be spoiled.
type raw struct {
	method, path string
	body         []byte
	key          *auth.Key
	nonce        string
	at           time.Time
	spoil        func(h http.Header)
}

func (f *fixture) send(t *testing.T, r raw) (int, client.Problem, http.Header) {
	t.Helper()
	req, err := http.NewRequest(r.method, f.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if r.key != nil {
		if r.nonce == "" {
			r.nonce = uuid.NewString()
		}
		if r.at.IsZero() {
			r.at = time.Now()
		}
		ts := fmt.Sprint(r.at.UnixMilli())
		sum := sha256.Sum256(r.body)
		msg := strings.Join([]string{"agon-v1", r.method, r.path, hex.EncodeToString(sum[:]), r.nonce, ts, f.audience}, "\n")
		sig, err := r.key.Sign([]byte(msg))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Agon-Hotkey", r.key.SS58())
		req.Header.Set("Agon-Timestamp", ts)
		req.Header.Set("Agon-Nonce", r.nonce)
		req.Header.Set("Agon-Signature", hex.EncodeToString(sig))
	}
	if r.spoil != nil {
		r.spoil(req.Header)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p client.Problem
	if resp.StatusCode >= 400 {
		if ct := resp.Header.Get("Content-Type"); ct != "application/problem+json" {
			t.Errorf("%s %s: error of type %q: %s", r.method, r.path, ct, b)
		}
		if err := json.Unmarshal(b, &p); err != nil {
			t.Errorf("%s %s: %v in %s", r.method, r.path, err, b)
		}
		if p.RequestID == "" || p.Code == "" || p.Detail == "" || p.Status != resp.StatusCode {
			t.Errorf("%s %s: incomplete problem %s", r.method, r.path, b)
		}
	}
	return resp.StatusCode, p, resp.Header
}

// sign signs a request whose body is b as it is sent now.
func (f *fixture) sign(req *http.Request, k *auth.Key, b []byte, nonce string) error {
	ts, sum := fmt.Sprint(time.Now().UnixMilli()), sha256.Sum256(b)
	sig, err := k.Sign([]byte(strings.Join([]string{"agon-v1", req.Method, req.URL.RequestURI(), hex.EncodeToString(sum[:]), nonce, ts, f.audience}, "\n")))
	req.Header.Set("Agon-Hotkey", k.SS58())
	req.Header.Set("Agon-Timestamp", ts)
	req.Header.Set("Agon-Nonce", nonce)
	req.Header.Set("Agon-Signature", hex.EncodeToString(sig))
	return err
}

func submission(files map[string]string, licence string) []byte {
	r := client.SubmitRequest{Name: "x", Licence: licence}
	for p, c := range files {
		r.Files = append(r.Files, client.File{Path: p, Content: []byte(c)})
	}
	b, _ := json.Marshal(r)
	return b
}

func TestRefusals(t *testing.T) {
	f := start(t)
	const to = "/v1/arenas/arena-1/submissions"
	good := submission(map[string]string{"agent": "a"}, "MIT")
	for _, c := range []struct {
		name   string
		r      raw
		status int
	}{
		{"unsigned", raw{method: "POST", path: to, body: good}, 401},
		{"stale", raw{method: "POST", path: to, body: good, key: f.miner, at: time.Now().Add(-61 * time.Second)}, 401},
		// The bound itself is tested with a clock of its own; here the request may wait a while.
		{"from the future", raw{method: "POST", path: to, body: good, key: f.miner, at: time.Now().Add(10 * time.Minute)}, 401},
		{"other body", raw{method: "POST", path: to, body: good, key: f.miner, spoil: func(h http.Header) {
			h.Set("Agon-Signature", strings.Repeat("ab", 64))
		}}, 401},
		{"nonce is not a uuid", raw{method: "POST", path: to, body: good, key: f.miner, nonce: "1"}, 401},
		{"unregistered", raw{method: "POST", path: to, body: good, key: f.stranger}, 403},
		{"unknown arena", raw{method: "POST", path: "/v1/arenas/none/submissions", body: good, key: f.miner}, 404},
		{"too large", raw{method: "POST", path: to, body: submission(map[string]string{"agent": strings.Repeat("x", 2<<20+1)}, "MIT"), key: f.miner}, 413},
		{"body too large", raw{method: "POST", path: to, body: make([]byte, 16<<20+1), key: f.miner}, 413},
		{"refused content", raw{method: "POST", path: to, body: submission(map[string]string{"other": "a"}, "MIT"), key: f.miner}, 422},
		{"other licence", raw{method: "POST", path: to, body: submission(map[string]string{"agent": "a"}, "GPL-3.0"), key: f.miner}, 422},
		{"not json", raw{method: "POST", path: to, body: []byte("{"), key: f.miner}, 400},
		{"unknown field", raw{method: "POST", path: to, body: []byte(`{"name":"x","licence":"MIT","files":[],"more":1}`), key: f.miner}, 422},
		{"path escapes", raw{method: "POST", path: to, body: submission(map[string]string{"../agent": "a"}, "MIT"), key: f.miner}, 422},
		{"no such route", raw{method: "GET", path: "/v1/nothing"}, 404},
		{"no such route, unsigned", raw{method: "POST", path: "/v2/nothing", body: []byte("{}")}, 404},
		{"no such route, signed", raw{method: "DELETE", path: "/v1/arenas", key: f.miner}, 404},
		{"no such run", raw{method: "GET", path: "/v1/runs/none"}, 404},
		{"claim without permit", raw{method: "POST", path: "/v1/leases", body: []byte(`{"kinds":["fake"],"driver":"x","wait_ms":0}`), key: f.miner}, 403},
		{"pause by a miner", raw{method: "POST", path: "/v1/arenas/arena-1/state", body: []byte(`{"state":"paused"}`), key: f.miner}, 403},
		{"validator registration by a miner", raw{method: "POST", path: "/v1/ledger/1/register", body: []byte(`{"hotkey":"` + f.miner.SS58() + `","coldkey":"x","validator":true}`), key: f.miner}, 403},
		{"bad cursor", raw{method: "GET", path: "/v1/runs/none/events?after=x"}, 400},
		{"bad digest", raw{method: "GET", path: "/v1/blobs/none"}, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, p, _ := f.send(t, c.r)
			if status != c.status {
				t.Errorf("status %d (%s: %s), want %d", status, p.Code, p.Detail, c.status)
			}
		})
	}
	var list client.Page[client.Submission]
	get(t, f.url+"/v1/submissions", &list)
	if len(list.Items) != 0 {
		t.Errorf("refused submissions left %d rows", len(list.Items))
	}
}

func get(t *testing.T, url string, v any) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		t.Fatalf("GET %s: %d %v", url, resp.StatusCode, err)
	}
}

func TestReplaySurvivesRestart(t *testing.T) {
	f := &fixture{miner: key(t), val: key(t), stranger: key(t), operator: key(t)}
	dir := t.TempDir()
	open(t, dir, f)
	r := raw{method: "POST", path: "/v1/arenas/arena-1/submissions", body: submission(map[string]string{"agent": "a"}, "MIT"), key: f.miner, nonce: uuid.NewString(), at: time.Now()}
	if s, p, _ := f.send(t, r); s != 200 {
		t.Fatalf("first: %d %s", s, p.Detail)
	}
	if s, p, _ := f.send(t, r); s != 401 || p.Code != "replayed" {
		t.Fatalf("second: %d %s, want 401 replayed", s, p.Code)
	}
	open(t, dir, f)
	if s, p, _ := f.send(t, r); s != 401 || p.Code != "replayed" {
		t.Fatalf("after a restart: %d %s, want 401 replayed", s, p.Code)
	}
}

// A whole life over HTTP: submit, claim, heartbeat, stream, result, board.
func TestLifeOfARun(t *testing.T) {
	f := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	miner, err := client.New(f.url, f.miner)
	if err != nil {
		t.Fatal(err)
	}
	val, err := client.New(f.url, f.val)
	if err != nil {
		t.Fatal(err)
	}
	req := client.SubmitRequest{Name: "mine", Licence: "MIT", Files: []client.File{{Path: "agent", Content: []byte("a")}}}
	sub, err := miner.Submit(ctx, "arena-1", req)
	if err != nil || !sub.Created {
		t.Fatal(sub, err)
	}
	again, err := miner.Submit(ctx, "arena-1", req)
	if err != nil || again.ID != sub.ID || again.Created {
		t.Fatalf("the same bytes again: %+v %v", again, err)
	}
	for range 2 {
		l, err := val.Claim(ctx, client.ClaimRequest{Kinds: []string{"fake"}, Driver: "x", WaitMS: 1000})
		if err != nil || l == nil {
			t.Fatal("no lease:", l, err)
		}
		if _, err := val.Heartbeat(ctx, l.ID, client.Heartbeat{Token: l.Token, State: agon.RunPlaying, Events: []agon.Event{
			{Run: l.Run.Run, Attempt: l.Attempt, Seq: 1, At: time.Now(), Type: agon.EventNote, Data: json.RawMessage(`{"text":"hello"}`)},
		}}); err != nil {
			t.Fatal("heartbeat", err)
		}
		res := client.Result{Token: l.Token, Outcome: "ok", Driver: agon.Driver{Name: "x", Version: "1", Limits: []string{}}, Scores: []agon.Score{{Run: l.Run.Run, Task: l.Run.Tasks[0].Key, Value: 1, Solved: true, Scorer: "fake-1"}}}
		r1, err := val.Result(ctx, l.ID, res)
		if err != nil || !r1.Counted || r1.State != agon.RunScored {
			t.Fatal("result", r1, err)
		}
		if r2, err := val.Result(ctx, l.ID, res); err != nil || *r2 != *r1 {
			t.Fatal("the same result again", r2, err)
		}
		var seen []string
		run, err := val.Stream(ctx, l.Run.Run, client.Cursor{}, func(e agon.Event) error { seen = append(seen, e.Type); return nil })
		if err != nil || run.State != agon.RunScored || len(seen) != 1 {
			t.Fatal("stream", run, seen, err)
		}
	}
	b, err := miner.Board(ctx, "arena-1")
	if err != nil {
		t.Fatal(err)
	}
	if b.Champion == nil || *b.Champion != sub.ID || len(b.Decisions) != 1 || b.Decisions[0].Outcome != agon.TookSeat {
		t.Fatalf("board %+v", b)
	}
	// Nothing is left to claim: 204, not an error.
	if l, err := val.Claim(ctx, client.ClaimRequest{Kinds: []string{"fake"}, Driver: "x"}); l != nil || err != nil {
		t.Fatal("claim on an empty queue", l, err)
	}
}

// A long poll outlives every read deadline, and the connection serves on after it.
func TestLongPollKeepsItsConnection(t *testing.T) {
	f := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	val, err := client.New(f.url, f.val)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if l, err := val.Claim(ctx, client.ClaimRequest{Kinds: []string{"fake"}, Driver: "x", WaitMS: 6000}); l != nil || err != nil {
			t.Fatal("claim on an empty queue", l, err)
		}
		if _, err := val.Arenas(ctx); err != nil {
			t.Fatal("the request after a long poll:", err)
		}
	}
}

func TestOpenAPI(t *testing.T) {
	f := start(t)
	var doc struct {
		OpenAPI string                    `json:"openapi"`
		Paths   map[string]map[string]any `json:"paths"`
	}
	get(t, f.url+"/openapi.json", &doc)
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("version %q", doc.OpenAPI)
	}
	for _, p := range []string{"/v1/server", "/v1/arenas", "/v1/arenas/{arena}/submissions", "/v1/runs/{id}", "/v1/runs/{id}/stream", "/v1/leases", "/v1/leases/{id}/result", "/v1/blobs/{digest}"} {
		if doc.Paths[p] == nil {
			t.Errorf("%s is not described", p)
		}
	}
	var srv client.Server
	get(t, f.url+"/v1/server", &srv)
	if srv.Audience != f.audience {
		t.Errorf("audience %q", srv.Audience)
	}
}

// A file may be empty, as packages of Python have them; what is not base64 is refused.
func TestEmptyFileIsEntered(t *testing.T) {
	f := start(t)
	miner, err := client.New(f.url, f.miner)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := miner.Submit(t.Context(), "arena-1", client.SubmitRequest{Name: "mine", Licence: "MIT", Files: []client.File{
		{Path: "agent", Content: []byte("a")}, {Path: "lib/__init__.py", Content: []byte{}},
	}})
	if err != nil || !sub.Created {
		t.Fatalf("with an empty file: %+v %v", sub, err)
	}
	body := []byte(`{"name":"mine","licence":"MIT","files":[{"path":"agent","content":"*"}]}`)
	if s, p, _ := f.send(t, raw{method: http.MethodPost, path: "/v1/arenas/arena-1/submissions", body: body, key: f.miner}); s < 400 || s >= 500 {
		t.Errorf("text that is not base64: %d %+v", s, p)
	}
}
