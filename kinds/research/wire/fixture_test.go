package wire_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store/teststore"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/miner"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/signin"
	"github.com/agon-arena/agon/kinds/research/wire"
)

const adminToken = "test-admin-token-0123456789"

// members is the ledger of a test: who is registered, by whom, and who validates.
type members struct {
	mu   sync.Mutex
	cold map[string]string
	vali map[string]bool
}

func (m *members) Registered(_ context.Context, _ uint16, hotkey string) (string, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.cold[hotkey]
	return c, ok, nil
}

func (m *members) IsValidator(_ context.Context, _ uint16, hotkey string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.vali[hotkey], nil
}

// Metagraph numbers the members by the order of their hotkeys.
func (m *members) Metagraph(context.Context, uint16) (*client.Metagraph, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := &client.Metagraph{}
	for i, k := range slices.Sorted(maps.Keys(m.cold)) {
		g.Neurons = append(g.Neurons, client.Neuron{UID: uint16(i), Hotkey: k, Coldkey: m.cold[k], Validator: m.vali[k]})
	}
	return g, nil
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *clock) Add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.at = c.at.Add(d) }

type fixture struct {
	t     testing.TB
	p     *platform.Platform
	c     *coordinator.Coordinator
	led   *members
	clock *clock
	url   string
	blobs blob.Store
	keys  map[string]*auth.Key
	conf  coordinator.Config
	// entered is the newest submission and its patch: the challenger of duels under way.
	entered, patch string
}

// replays makes a verifier's guard of the platform.
type replays struct{ p *platform.Platform }

func (r replays) Seen(ctx context.Context, scheme, hotkey, nonce string, until time.Time) (bool, error) {
	return r.p.Replay(ctx, scheme, hotkey, nonce, until)
}

// open makes a coordinator over real parts: SQLite, blobs on disk, HTTP. Only
// the ledger and the clock are the test's.
func open(t testing.TB, change ...func(*coordinator.Config, *wire.Config)) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{
		t: t, led: &members{cold: map[string]string{}, vali: map[string]bool{}}, clock: &clock{at: time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)}, keys: map[string]*auth.Key{},
	}
	s := teststore.Open(t, dir)
	var err error
	if f.blobs, err = blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{}); err != nil {
		t.Fatal(err)
	}
	pc := platform.Config{Store: s, Blobs: f.blobs, Kinds: map[string]kind.Kind{kr.Name: kr.New(kr.Config{})}, Ledger: f.led, Now: f.clock.Now, Incentives: map[string]incentive.Rule{"winner_takes_all": incentive.WinnerTakesAll()}}
	f.c = coordinator.NewClosed()
	pc.Coordinators = map[string]platform.Coordinator{kr.Name: f.c}
	if f.p, err = platform.New(pc); err != nil {
		t.Fatal(err)
	}
	rc := coordinator.Config{
		Platform: f.p, Store: s, Blobs: f.blobs, Signer: f.key("operator"), Now: f.clock.Now, URL: func() string { return f.url },
		Member: func(ctx context.Context, _ string, netuid uint16, hotkey string) (coordinator.Member, bool, error) {
			c, ok, err := f.led.Registered(ctx, netuid, hotkey)
			return coordinator.Member{Coldkey: c}, ok, err
		},
		Template: agon.Arena{Netuid: 4, Incentive: "winner_takes_all", Licence: "MIT", Evidence: agon.EvidenceForeign, UnjudgedSeats: true, MaxLeases: 16},
	}
	bc := wire.Config{
		Coordinator: f.c, AdminToken: adminToken, Verify: true, Version: "test",
		Verifier: &dialect.Verifier{Dialects: []dialect.Dialect{signin.BitSota{}}, Now: f.clock.Now, Replay: replays{f.p}},
	}
	for _, c := range change {
		c(&rc, &bc)
	}
	f.conf = rc
	if err := f.c.Open(rc); err != nil {
		t.Fatal(err)
	}
	h, err := wire.New(bc)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	f.url = srv.URL
	t.Cleanup(func() {
		srv.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// key returns the key of a name, the same each time.
func (f *fixture) key(name string) *auth.Key {
	if k := f.keys[name]; k != nil {
		return k
	}
	seed := sha256.Sum256([]byte(name)) // a phrase would take a tenth of a second under the race detector
	k, err := auth.KeyFromSeed(auth.Sr25519, seed[:])
	if err != nil {
		f.t.Fatal(err)
	}
	f.keys[name] = k
	return k
}

// miner registers a hotkey under a coldkey of its own and returns its client.
func (f *fixture) miner(name string) *miner.Client {
	k := f.key(name)
	f.led.mu.Lock()
	f.led.cold[k.SS58()] = f.key(name + "/cold").SS58()
	f.led.mu.Unlock()
	return &miner.Client{URL: f.url, Key: k, Now: f.clock.Now}
}

func (f *fixture) validator(name string) *miner.Client {
	c := f.miner(name)
	f.led.mu.Lock()
	f.led.vali[f.key(name).SS58()] = true
	f.led.mu.Unlock()
	return c
}

// toy is the body of a small task: a metric to be made smaller.
func toy(change ...func(map[string]any)) map[string]any {
	m := map[string]any{
		"slug": "toy", "title": "A toy", "brief": "Make it smaller.", "benchmark_command": "python3 bench.py", "setup_command": nil, "result_path": "last_run.json",
		"allowed_patch_paths": []string{"src/*.py"}, "metric_name": "size", "metric_direction": "minimize", "competition_mode": "standard", "baseline": 100,
		"time_budget_seconds": 600, "files": map[string]string{"src/a.py": "x = 1\n-- old\n", "bench.py": "pass\n"},
		"validator_benchmark_env": map[string]string{"SECRET": "hidden-value-1234"},
		"rules":                   map[string]any{"agree": 2, "replays": 4},
	}
	for _, c := range change {
		c(m)
	}
	return m
}

// task creates a task as the admin and returns it.
func (f *fixture) task(change ...func(map[string]any)) coordinator.TaskView {
	f.t.Helper()
	var v coordinator.TaskView
	f.admin("POST", "/api/v1/tasks", toy(change...), 200, &v)
	return v
}

// admin sends a request of the admin.
func (f *fixture) admin(method, path string, body any, status int, into any) {
	f.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := http.NewRequest(method, f.url+path, strings.NewReader(string(b)))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("X-Admin-Token", adminToken)
	f.expect(r, status, into)
}

func (f *fixture) get(path string, status int, into any) {
	f.t.Helper()
	r, err := http.NewRequest("GET", f.url+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	f.expect(r, status, into)
}

func (f *fixture) expect(r *http.Request, status int, into any) {
	f.t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	if resp.StatusCode != status {
		f.t.Fatalf("%s %s: %d, want %d: %s", r.Method, r.URL.Path, resp.StatusCode, status, b)
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			f.t.Fatalf("%s %s: %v: %s", r.Method, r.URL.Path, err, b)
		}
	}
}

// claim claims a task.
func (f *fixture) claim(c *miner.Client, task string) *coordinator.Claim {
	f.t.Helper()
	cl, _, err := c.Claim(context.Background(), task, "", "a try")
	if err != nil {
		f.t.Fatal(err)
	}
	return cl
}

// patch is an honest patch that sets x to a value.
func patch(x string) string {
	return "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n-x = 1\n+x = " + x + "\n -- old\n"
}

// entry is the request of a submission.
func entry(claim, text string) map[string]any {
	return map[string]any{"claim_id": claim, "base_ref": "main", "patch": text, "summary": "a try", "claimed_metrics": map[string]any{"size": 1.0}}
}

// post sends a signed request; it returns status and body.
func (f *fixture) post(c *miner.Client, path string, body any) (int, string) {
	f.t.Helper()
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			f.t.Fatal(err)
		}
	}
	out, err := c.Do(context.Background(), "POST", path, nil, b, true)
	var ae *miner.APIError
	if errors.As(err, &ae) {
		return ae.Status, string(ae.Body)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return 200, string(out)
}

// submit enters a patch under a new claim and returns the submission.
func (f *fixture) submit(c *miner.Client, task, text string) coordinator.Submission {
	f.t.Helper()
	cl := f.claim(c, task)
	status, body := f.post(c, "/api/v1/submissions", entry(cl.ID, text))
	if status != 200 {
		f.t.Fatalf("submit: %d %s", status, body)
	}
	var s coordinator.Submission
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		f.t.Fatal(err)
	}
	f.entered, f.patch = s.ID, text
	return s
}

// scan returns the jobs of a validator.
func (f *fixture) scan(c *miner.Client) []coordinator.Job {
	f.t.Helper()
	status, body := f.post(c, "/api/v1/validator/submissions/scan", nil)
	var out struct {
		Jobs []coordinator.Job `json:"jobs"`
	}
	if status != 200 || json.Unmarshal([]byte(body), &out) != nil || out.Jobs == nil {
		f.t.Fatalf("scan: %d %s", status, body)
	}
	return out.Jobs
}

// answer reports a job of a submission; false where the validator has none.
func (f *fixture) answer(c *miner.Client, submission, status string, x float64, besides ...map[string]float64) bool {
	f.t.Helper()
	for _, j := range f.scan(c) {
		if j.Submission.ID != submission || strings.Contains(j.ID, ".") {
			continue
		}
		body := map[string]any{"submission_id": submission, "status": status, "observed_metrics": map[string]float64{}, "notes": "n", "replay_log": "log with hidden-value-1234 in it"}
		if status == kr.StatusAccepted {
			observed := map[string]float64{"size": x}
			for _, m := range besides {
				maps.Copy(observed, m)
			}
			body["observed_metrics"] = observed
		}
		if code, b := f.post(c, "/api/v1/validator/jobs/"+j.ID+"/result", body); code != 200 {
			f.t.Fatalf("result: %d %s", code, b)
		}
		return true
	}
	return false
}

func (f *fixture) submission(id string) coordinator.Submission {
	f.t.Helper()
	var s coordinator.Submission
	f.get("/api/v1/submissions/"+id, 200, &s)
	return s
}

// duels answers every duel over the wire: each side's job with its number.
func (f *fixture) duels(incumbent float64, names ...string) {
	f.t.Helper()
	f.duelsBy(func(j coordinator.Job, challenger bool) map[string]float64 {
		if challenger {
			return f.submission(j.Submission.ID).Observed
		}
		return map[string]float64{"size": incumbent}
	}, names...)
}

// duelsBy answers every duel with what observe says of each side's job.
func (f *fixture) duelsBy(observe func(j coordinator.Job, challenger bool) map[string]float64, names ...string) {
	f.t.Helper()
	for again := true; again; {
		again = false
		for _, n := range names {
			c := f.validator(n)
			for _, j := range f.scan(c) {
				if !strings.Contains(j.ID, ".") {
					f.t.Fatalf("job %s is of no duel", j.ID)
				}
				again = true
				body := map[string]any{"submission_id": j.Submission.ID, "status": "accepted", "observed_metrics": observe(j, j.Submission.ID == f.entered && j.Submission.Patch == f.patch)}
				if code, b := f.post(c, "/api/v1/validator/jobs/"+j.ID+"/result", body); code != 200 {
					f.t.Fatalf("result: %d %s", code, b)
				}
			}
		}
	}
}

func bareStatus(method, url string) (int, error) {
	r, err := http.NewRequest(method, url, strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}
