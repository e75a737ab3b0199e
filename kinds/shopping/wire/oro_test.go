package wire

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store/teststore"
	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/signin"
	"github.com/agon-arena/agon/kinds/shopping/signin/signintest"
)

var bg = context.Background()

type seen struct {
	mu sync.Mutex
	m  map[string]bool
}

func (r *seen) Seen(_ context.Context, a, b, c string, _ time.Time) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := a + b + c
	fresh := !r.m[k]
	r.m[k] = true
	return fresh, nil
}

type world struct {
	t     *testing.T
	api   *platform.Platform
	h     http.Handler
	keys  map[byte]*auth.Key
	mu    sync.Mutex
	now   time.Time // guarded by mu
	bans  map[string]bool
	tasks map[agon.Digest]string
	cfg   Config
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Millisecond)
	return w.now
}

func (w *world) skip(d time.Duration) {
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
}

const goodAgent = "def agent_main(p):\n    return []\n"

// newWorld is a platform with miners a and b, validators v and w, an outsider
// x, two public problems and four hidden ones.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, keys: map[byte]*auth.Key{}, now: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), bans: map[string]bool{}, tasks: map[agon.Digest]string{}}
	net := kittest.Subnet{}
	for i, c := range []byte("abvwx") {
		k, err := auth.KeyFromSeed(auth.Sr25519, bytes.Repeat([]byte{c}, 32))
		if err != nil {
			t.Fatal(err)
		}
		w.keys[c] = k
		if c != 'x' {
			net[k.SS58()] = dialect.Member{Hotkey: k.SS58(), Coldkey: "cold-" + string(c), UID: uint16(i + 1), Validator: c == 'v' || c == 'w'}
		}
	}
	dir := t.TempDir()
	st := teststore.Open(t, dir)
	t.Cleanup(func() { st.Close() })
	blobs, err := blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.api, err = platform.New(platform.Config{
		Store: st, Blobs: blobs, Kinds: map[string]kind.Kind{play.Name: play.New(play.Config{})}, Ledger: net, Now: w.clock,
		Incentives: map[string]incentive.Rule{play.RaceRule: play.Race()},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := agon.Arena{ID: "demo-shopping", Kind: play.Name, Title: "s", State: agon.ArenaOpen, Licence: "MIT", Incentive: play.RaceRule, MaxLeases: 1, Attempts: 2, Evidence: agon.EvidenceForeign, UnjudgedSeats: true}
	for i := range 6 {
		p := fmt.Sprintf(`{"problem_id":"00000000-0000-4000-8000-%012d","query":"secret wish %d","category":"Product","difficulty":"easy","title":"Product %d","reward":{"product_id":"10000%d"}}`, i, i, i, i)
		d, err := blob.PutFiles(bg, blobs, []blob.File{{Path: "x", Content: []byte(p)}}, blob.TreeLimits{})
		if err != nil {
			t.Fatal(err)
		}
		w.tasks[d] = p
		a.Tasks = append(a.Tasks, agon.TaskRef{Key: fmt.Sprintf("s/%d", i), Digest: d, Hidden: i >= 2})
	}
	if err := w.api.EnsureArena(bg, a); err != nil {
		t.Fatal(err)
	}
	sessions := &signin.Sessions{Keep: signintest.New(w.clock)}
	v := &dialect.Verifier{
		Dialects: []dialect.Dialect{signin.ORO{Sessions: sessions}}, Now: w.clock, Replay: &seen{m: map[string]bool{}}, Members: net,
		Banned: func(_ context.Context, hotkey string) (bool, error) { return w.bans[hotkey], nil },
	}
	sessions.Verifier = v
	w.cfg = Config{
		Platform: w.api, Arena: a.ID, Verifier: v, Sessions: sessions, Dir: filepath.Join(dir, "oro"), Base: func() string { return "http://arena" }, Now: w.clock,
		Models: func() []string { return []string{"m"} },
		Problem: func(_ context.Context, t agon.TaskRef) (json.RawMessage, error) {
			return json.RawMessage(w.tasks[t.Digest]), nil
		},
	}
	if w.h, err = New(w.cfg); err != nil {
		t.Fatal(err)
	}
	return w
}

// do sends a request, signed by the key if there is one.
func (w *world) do(k byte, method, target, ctype string, body []byte) (int, map[string]any, []byte) {
	w.t.Helper()
	r := httptest.NewRequest(method, target, bytes.NewReader(body))
	if ctype != "" {
		r.Header.Set("Content-Type", ctype)
	}
	if key := w.keys[k]; key != nil {
		ts, nonce := fmt.Sprint(w.clock().Unix()), uuid.NewString()
		sig, err := key.Sign(signin.Colon(key.SS58(), ts, nonce))
		if err != nil {
			w.t.Fatal(err)
		}
		for h, v := range map[string]string{"X-Hotkey": key.SS58(), "X-Timestamp": ts, "X-Nonce": nonce, "X-Signature": "0x" + hex.EncodeToString(sig)} {
			r.Header.Set(h, v)
		}
	}
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, r)
	var out map[string]any
	_ = json.Unmarshal(rec.Body.Bytes(), &out) // code and lists are looked at as bytes
	return rec.Code, out, rec.Body.Bytes()
}

func (w *world) json(k byte, method, target, body string) (int, map[string]any, []byte) {
	w.t.Helper()
	return w.do(k, method, target, "application/json", []byte(body))
}

// must is json with an expected status, and error code where it is not 200.
func (w *world) must(k byte, method, target, body string, status int, code string) map[string]any {
	w.t.Helper()
	got, out, raw := w.json(k, method, target, body)
	if got != status || code != "" && out["error_code"] != code {
		w.t.Fatalf("%s %s: %d %s, want %d %s", method, target, got, raw, status, code)
	}
	return out
}

func (w *world) submit(k byte, name, source string) (int, map[string]any) {
	w.t.Helper()
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	_ = m.WriteField("agent_name", name)
	f, err := m.CreateFormFile("file", "agent.py")
	if err != nil {
		w.t.Fatal(err)
	}
	_, _ = f.Write([]byte(source))
	if err := m.Close(); err != nil {
		w.t.Fatal(err)
	}
	status, out, _ := w.do(k, "POST", "/v1/miner/submit", m.FormDataContentType(), form.Bytes())
	return status, out
}

func text(t *testing.T, m map[string]any, key string) string {
	t.Helper()
	s, ok := m[key].(string)
	if !ok {
		t.Fatalf("%s is %v", key, m[key])
	}
	return s
}

// play lets validator k claim a run and complete it; solved says how many problems are right.
func (w *world) play(k byte, solved int) (run map[string]any, problems []string) {
	w.t.Helper()
	run = w.must(k, "POST", "/v1/validator/work/claim", `{"service_versions":{"proxy":"sha256:1"},"cpu_pct":3}`, 200, "")
	base := "/v1/validator/evaluation-runs/" + text(w.t, run, "eval_run_id")
	w.must(k, "POST", base+"/heartbeat", "", 200, "")
	list, _ := w.must(k, "GET", base+"/problems", "", 200, "")["problems"].([]any)
	var reports []string
	for i, x := range list {
		m, _ := x.(map[string]any)
		id := text(w.t, m, "problem_id")
		problems = append(problems, id)
		status, score := "FAILED", 0
		if i < solved {
			status, score = "SUCCESS", 1
		}
		reports = append(reports, fmt.Sprintf(`{"problem_id":%q,"status":%q,"score":%d,"reasoning_score":0.5,"execution_time":1.5}`, id, status, score))
	}
	w.must(k, "POST", base+"/progress", `{"problems":[`+strings.Join(reports, ",")+`]}`, 200, "")
	return run, problems
}

// The whole way of a validator, with the fields and statuses that its client reads.
func TestValidatorFlow(t *testing.T) {
	w := newWorld(t)
	if status, _, _ := w.json('v', "POST", "/v1/validator/work/claim", ""); status != http.StatusNoContent {
		t.Fatalf("no work: %d", status)
	}
	if status, out := w.submit('a', "My agent", goodAgent); status != 200 || out["admission_status"] != "ACCEPTED" {
		t.Fatalf("%d %v", status, out)
	}
	run, problems := w.play('v', 1)
	id := text(t, run, "eval_run_id")
	base := "/v1/validator/evaluation-runs/" + id
	if len(problems) != 2 {
		t.Fatalf("qualifying on %d problems", len(problems))
	}
	link := strings.TrimPrefix(text(t, run, "code_download_url"), "http://arena")
	if status, _, raw := w.do(0, "GET", link, "", nil); status != 200 || string(raw) != goodAgent {
		t.Errorf("code: %d %s", status, raw)
	}
	if status, _, _ := w.do(0, "GET", link+"x", "", nil); status != 403 {
		t.Errorf("code with another key: %d", status)
	}

	var z bytes.Buffer
	g := gzip.NewWriter(&z)
	_, _ = g.Write([]byte(`[{"completion":{}}]`))
	_ = g.Close()
	pre := w.must('v', "POST", "/v1/validator/uploads/presign", fmt.Sprintf(`{"content_length":%d,"eval_run_id":%q,"problem_id":%q,"content_type":"application/gzip"}`, z.Len(), id, problems[0]), 200, "")
	put := strings.TrimPrefix(text(t, pre, "upload_url"), "http://arena")
	if status, _, raw := w.do(0, "PUT", put, "application/gzip", z.Bytes()[1:]); status != 400 {
		t.Errorf("other bytes: %d %s", status, raw)
	}
	if status, _, raw := w.do(0, "PUT", put, "application/gzip", z.Bytes()); status != 200 {
		t.Errorf("upload: %d %s", status, raw)
	}
	// A digest in a document would keep the bytes for ever: `agon gc` looks for digests in all texts.
	var doc map[string]any
	if ok, err := folder.Folder(w.cfg.Dir).Get(docName(id), &doc); err != nil || !ok || strings.Contains(fmt.Sprint(doc), agon.Sum(z.Bytes()).Hex()) {
		t.Errorf("the document of the run: %v, %v", doc, err)
	}

	w.must('v', "POST", "/v1/validator/work/claim", "", 204, "") // the cap of leases: nothing for this one now
	w.must('w', "POST", base+"/heartbeat", "", 409, "NOT_RUN_OWNER")
	w.must('v', "POST", "/v1/validator/evaluation-runs/"+uuid.NewString()+"/heartbeat", "", 404, "EVAL_RUN_NOT_FOUND")
	w.must('v', "POST", "/v1/validator/evaluation-runs/x/heartbeat", "", 422, "")
	w.must('v', "POST", base+"/progress", fmt.Sprintf(`{"problems":[{"problem_id":%q,"status":"SUCCESS"}]}`, uuid.NewString()), 400, "INVALID_PROBLEM_ID")
	w.must('v', "POST", base+"/progress", fmt.Sprintf(`{"problems":[{"problem_id":%q,"status":"DONE"}]}`, problems[0]), 422, "")
	w.must('v', "POST", base+"/complete", `{"terminal_status":"SUCCESS"}`, 400, "MISSING_SCORE")
	w.must('v', "POST", base+"/complete", `{"terminal_status":"GOOD"}`, 422, "")
	w.must('v', "POST", base+"/complete", `{"terminal_status":"SUCCESS","validator_score":1.5}`, 400, "VALIDATION_ERROR")
	done := w.must('v', "POST", base+"/complete", `{"terminal_status":"SUCCESS","validator_score":0.3688,"score_components":{"reasoning_coefficient":0.7375,"success_rate":0.5},"sandbox_metadata":{"exit_code":0,"duration_seconds":12.5,"stderr_tail":null}}`, 200, "")
	work, _ := done["work_item"].(map[string]any)
	if done["status"] != "SUCCESS" || work["is_closed"] != true || work["included_success_count"] != 1.0 {
		t.Errorf("%v", done)
	}
	w.must('v', "POST", base+"/complete", `{"terminal_status":"SUCCESS","validator_score":0.5}`, 409, "RUN_ALREADY_COMPLETE")
	w.must('v', "POST", base+"/heartbeat", "", 409, "LEASE_EXPIRED")
	w.must('v', "GET", base+"/problems", "", 409, "LEASE_EXPIRED")

	// It qualified (0.3688 ≥ 0.25): the race is next, on four hidden problems that only a holder sees.
	run, problems = w.play('w', 3)
	if len(problems) != 4 {
		t.Fatalf("racing on %d problems", len(problems))
	}
	base = "/v1/validator/evaluation-runs/" + text(t, run, "eval_run_id")
	done = w.must('w', "POST", base+"/complete", `{"terminal_status":"SUCCESS","validator_score":0.75,"score_components":{"reasoning_coefficient":1}}`, 200, "")
	if done["final_score"] != 0.75 || done["agent_version_became_eligible"] != true {
		t.Errorf("%v", done)
	}
	top := w.must(0, "GET", "/v1/public/top", "", 200, "")
	if top["top_score"] != 0.75 || top["top_miner_hotkey"] != w.keys['a'].SS58() || top["top_agent_version_id"] != run["agent_version_id"] {
		t.Errorf("%v", top)
	}
}

// A lost lease is told, its late result counts nothing, and the run can be claimed again.
func TestLeaseExpiry(t *testing.T) {
	w := newWorld(t)
	w.submit('a', "a", goodAgent)
	run, _ := w.play('v', 2)
	base := "/v1/validator/evaluation-runs/" + text(t, run, "eval_run_id")
	w.skip(10 * time.Minute)
	if err := w.api.Sweep(bg); err != nil {
		t.Fatal(err)
	}
	again := w.must('w', "POST", "/v1/validator/work/claim", "", 200, "")
	if again["eval_run_id"] == run["eval_run_id"] {
		t.Error("two leases of one name")
	}
	w.must('v', "POST", base+"/heartbeat", "", 409, "LEASE_EXPIRED")
	w.must('v', "POST", base+"/complete", `{"terminal_status":"SUCCESS","validator_score":1}`, 409, "LEASE_EXPIRED")
	w.must('v', "POST", "/v1/validator/evaluation-runs/"+text(t, again, "eval_run_id")+"/heartbeat", "", 409, "NOT_RUN_OWNER")
}

func TestWhoMayWhat(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		key    byte
		status int
		code   string
	}{{0, 401, "MISSING_HEADERS"}, {'x', 403, "NOT_REGISTERED_AS_VALIDATOR"}, {'a', 403, "NOT_REGISTERED_AS_VALIDATOR"}} {
		status, out, raw := w.json(c.key, "POST", "/v1/validator/work/claim", "")
		d, _ := out["detail"].(map[string]any)
		if status != c.status || d["code"] != c.code {
			t.Errorf("%c: %d %s", c.key, status, raw)
		}
	}
	w.bans[w.keys['v'].SS58()] = true
	if status, _, raw := w.json('v', "POST", "/v1/validator/work/claim", ""); status != 403 || !strings.Contains(string(raw), "banned") {
		t.Errorf("banned: %d %s", status, raw)
	}
}

// A challenge signed gives a session, which stands for signatures, until logout.
func TestSessions(t *testing.T) {
	w := newWorld(t)
	k := w.keys['a']
	c := w.must(0, "POST", "/v1/auth/challenge", fmt.Sprintf(`{"hotkey":%q}`, k.SS58()), 200, "")
	sig, err := k.Sign([]byte(text(t, c, "challenge")))
	if err != nil {
		t.Fatal(err)
	}
	s := w.must(0, "POST", "/v1/auth/session", fmt.Sprintf(`{"hotkey":%q,"challenge":%q,"signature":"0x%x"}`, k.SS58(), text(t, c, "challenge"), sig), 200, "")
	if s["role"] != "miner" || !strings.HasPrefix(text(t, s, "session_token"), "ses_") {
		t.Fatalf("%v", s)
	}
	ask := func(method, path string) (int, string) {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", "Bearer "+text(t, s, "session_token"))
		rec := httptest.NewRecorder()
		w.h.ServeHTTP(rec, r)
		return rec.Code, rec.Body.String()
	}
	if status, body := ask("GET", "/v1/miner/agents"); status != 200 || !strings.HasPrefix(body, `{"agents":[],"can_submit":true`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := ask("POST", "/v1/auth/logout"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := ask("GET", "/v1/miner/agents"); status != 401 {
		t.Errorf("after logout: %d %s", status, body)
	}
	for range challengesPerMinute {
		w.json(0, "POST", "/v1/auth/challenge", fmt.Sprintf(`{"hotkey":%q}`, k.SS58()))
	}
	w.must(0, "POST", "/v1/auth/challenge", fmt.Sprintf(`{"hotkey":%q}`, k.SS58()), 429, "RATE_LIMITED")
}

func TestSubmit(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		name, source string
		status       int
		code         string
	}{
		"name":      {"ä", goodAgent, 400, "INVALID_AGENT_NAME"},
		"long name": {strings.Repeat("a", 101), goodAgent, 400, "INVALID_AGENT_NAME"},
		"too large": {"a", goodAgent + strings.Repeat("#", maxAgent), 413, "FILE_TOO_LARGE"},
		"import":    {"a", "import os\n" + goodAgent, 422, "CODE_ANALYSIS_ERROR"},
		"syntax":    {"a", "def (", 422, "CODE_ANALYSIS_ERROR"},
	} {
		status, out := w.submit('a', c.name, c.source)
		if status != c.status || out["error_code"] != c.code {
			t.Errorf("%s: %d %v", name, status, out)
		}
		if name == "import" {
			list, _ := out["violations"].([]any)
			v, _ := list[0].(map[string]any)
			if v["location"] != "agent.py:1" {
				t.Errorf("%v", out)
			}
		}
	}
	for _, body := range []string{"", "{}", "--b\r\n", "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--b--\r\n"} {
		if status, _, raw := w.do('a', "POST", "/v1/miner/submit", "multipart/form-data; boundary=b", []byte(body)); status != 422 {
			t.Errorf("%q: %d %s", body, status, raw)
		}
	}
	// Fifty at once: one is taken, the others hear when they may come again.
	var mu sync.Mutex
	got := map[int]int{}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			status, out := w.submit('b', "b", fmt.Sprintf("X = %d\n", i)+goodAgent)
			mu.Lock()
			defer mu.Unlock()
			got[status]++
			if left, _ := out["remaining_seconds"].(float64); status == 429 && (out["error_code"] != "COOLDOWN_ACTIVE" || left < 43_000) {
				t.Errorf("%v", out)
			}
		})
	}
	wg.Wait()
	if got[200] != 1 || got[429] != 49 {
		t.Errorf("%v", got)
	}
	w.skip(Cooldown)
	if status, out := w.submit('b', "b", "def agent_main(p):\n    return [{}]\n"); status != 200 {
		t.Errorf("after the cooldown: %d %v", status, out)
	}
	agents := w.must('b', "GET", "/v1/miner/agents", "", 200, "")
	if b, _ := json.Marshal(agents); !strings.Contains(string(b), `"version_number":2`) || !strings.Contains(string(b), `"can_submit":false`) {
		t.Errorf("%s", b)
	}
	list, _ := agents["agents"].([]any)
	mine, _ := list[0].(map[string]any)
	if status, _, raw := w.json('b', "GET", "/v1/miner/agents/"+text(t, mine, "agent_id")+"/versions", ""); status != 200 || strings.Count(string(raw), "agent_version_id") != 2 {
		t.Errorf("%d %s", status, raw)
	}
	w.must('a', "GET", "/v1/miner/agents/"+text(t, mine, "agent_id")+"/versions", "", 404, "AGENT_NOT_FOUND")
	latest, _ := mine["latest_version"].(map[string]any)
	w.must('b', "GET", "/v1/miner/agent-versions/"+text(t, latest, "agent_version_id"), "", 200, "")
	w.must('a', "GET", "/v1/miner/agent-versions/"+text(t, latest, "agent_version_id"), "", 404, "AGENT_VERSION_NOT_FOUND")
}

// Every public read answers, has its fields, and shows nothing hidden.
func TestPublicReads(t *testing.T) {
	w := newWorld(t)
	_, sub := w.submit('a', "My agent", goodAgent)
	version := text(t, sub, "agent_version_id")
	if status, _, _ := w.json(0, "GET", "/v1/public/agent-versions/"+version+"/code", ""); status != 404 {
		t.Errorf("code before the decision: %d", status)
	}
	if b, _ := json.Marshal(w.must(0, "GET", "/v1/public/evaluations/pending", "", 200, "")); !strings.Contains(string(b), version) {
		t.Errorf("pending: %s", b)
	}
	for _, n := range []int{2, 3} {
		run, _ := w.play('v', n)
		id := text(t, run, "eval_run_id")
		if _, _, raw := w.json(0, "GET", "/v1/public/evaluations/running", ""); !strings.Contains(string(raw), id) {
			t.Errorf("running: %s", raw)
		}
		w.must('v', "POST", "/v1/validator/evaluation-runs/"+id+"/complete", `{"terminal_status":"SUCCESS","validator_score":1}`, 200, "")
		got := w.must(0, "GET", "/v1/public/evaluation-runs/"+id, "", 200, "")
		if got["status"] != "SUCCESS" || got["validator_hotkey"] != w.keys['v'].SS58() {
			t.Errorf("%v", got)
		}
	}
	suite := w.must(0, "GET", "/v1/public/suites/current", "", 200, "")
	paths := map[string]string{
		"/v1/public/suites":         "suite_id suite_version is_active",
		"/v1/public/suites/current": "suite_id suite_version is_active",
		fmt.Sprintf("/v1/public/suites/%.0f/problems", suite["suite_id"]): "suite problems metadata",
		"/v1/public/agent-versions/" + version:                            "agent_version_id agent_id agent_name miner_hotkey version_number submitted_at",
		"/v1/public/agent-versions/" + version + "/status":                "state required_successes is_closed release_state race_score",
		"/v1/public/agent-versions/" + version + "/runs":                  "eval_run_id validator_hotkey status claimed_at lease_expires_at is_included phase",
		"/v1/public/agent-versions/" + version + "/problems":              "problems validator_results",
		"/v1/public/agent-versions/" + version + "/problems?phase=RACE":   "problems validator_results",
		"/v1/public/validators":                                           "hotkey status registered_at",
		"/v1/public/evaluations/pending":                                  "summary items total_pending",
		"/v1/public/leaderboard":                                          "total limit offset suite entries unique_miners agents_submitted_24h challenge_threshold",
		"/v1/public/leaderboard?score_type=race&limit=1&q=my":             "entries",
		"/v1/public/top":              "suite_id computed_at top_agent_version_id top_miner_hotkey top_score emission_weight",
		"/v1/public/top/history":      "entries top_at is_current_top",
		"/v1/public/races/current":    "race race_id status qualifiers race_rank",
		"/v1/public/races/history":    "total limit offset races",
		"/v1/public/inference/models": "models",
		"/health/deep":                "status",
	}
	for path, fields := range paths {
		status, _, b := w.json(0, "GET", path, "")
		if status != 200 {
			t.Errorf("%s: %d %s", path, status, b)
		}
		for _, f := range strings.Fields(fields) {
			if !strings.Contains(string(b), fmt.Sprintf("%q:", f)) {
				t.Errorf("%s lacks %s: %s", path, f, b)
			}
		}
		for i := 2; i < 6; i++ {
			if strings.Contains(string(b), fmt.Sprintf("secret wish %d", i)) || strings.Contains(string(b), fmt.Sprintf("s/%d", i)) || strings.Contains(string(b), fmt.Sprintf("10000%d", i)) || strings.Contains(string(b), fmt.Sprintf("%012d", i)) {
				t.Errorf("%s shows hidden problem %d: %s", path, i, b)
			}
		}
		if strings.Contains(regexp.MustCompile(`T[0-9:.]+Z`).ReplaceAllString(string(b), ""), "10000") { // no time of day
			t.Errorf("%s shows an answer: %s", path, b)
		}
	}
	board := w.must(0, "GET", "/v1/public/leaderboard?score_type=race", "", 200, "")
	list, _ := board["entries"].([]any)
	e, _ := list[0].(map[string]any)
	for _, f := range strings.Fields("rank agent_version_id agent_name miner_hotkey version_number final_score race_score eligible_at is_discarded is_miner_banned is_current_top was_top top_at is_active_qualifier outranked_by_agent_version_id eliminated_at") {
		if _, ok := e[f]; !ok {
			t.Errorf("a leaderboard's entry lacks %s", f)
		}
	}
	if e["race_score"] != .75 || e["is_current_top"] != true {
		t.Errorf("%v", e)
	}
	race, _ := w.must(0, "GET", "/v1/public/races/current", "", 200, "")["race"].(map[string]any)
	if race["status"] != "RACE_COMPLETE" || race["winner_agent_version_id"] != version || race["winner_score"] != .75 {
		t.Errorf("%v", race)
	}
	if same, _ := w.must(0, "GET", "/v1/public/races/"+text(t, race, "race_id"), "", 200, "")["race"].(map[string]any); same["status"] != race["status"] {
		t.Errorf("%v", same)
	}
	apart := w.must(0, "GET", "/v1/public/races/"+text(t, race, "race_id")+"/validator-variance", "", 200, "")
	if apart["race_id"] != race["race_id"] || apart["n_pairs"] != 0. || apart["mean_spread"] != nil || len(apart["validators"].([]any)) != 0 {
		t.Errorf("one validator alone: %v", apart)
	}
	w.must(0, "GET", "/v1/public/races/nope/validator-variance", "", 422, "")
	w.must(0, "GET", "/v1/public/races/"+uuid.NewString()+"/validator-variance", "", 404, "RACE_NOT_FOUND")
	w.must(0, "GET", "/v1/public/races/"+uuid.NewString(), "", 404, "RACE_NOT_FOUND")
	w.must(0, "GET", "/v1/public/agent-versions/"+uuid.NewString(), "", 404, "AGENT_VERSION_NOT_FOUND")
	w.must(0, "GET", "/v1/public/leaderboard?limit=0", "", 422, "")
	w.must(0, "GET", "/v1/public/suites/1/problems", "", 404, "SUITE_NOT_FOUND")
	if status, _, raw := w.json(0, "GET", "/v1/public/agent-versions/"+version+"/code", ""); status != 200 || string(raw) != goodAgent {
		t.Errorf("code after the decision: %d", status)
	}
	link := w.must(0, "POST", "/v1/public/artifacts/download-url", fmt.Sprintf(`{"artifact_type":"AGENT_CODE","agent_version_id":%q}`, version), 200, "")
	if !strings.HasPrefix(text(t, link, "download_url"), "http://arena/v1/public/agent-versions/") {
		t.Errorf("%v", link)
	}
	w.must(0, "POST", "/v1/public/artifacts/download-url", fmt.Sprintf(`{"artifact_type":"EVAL_LOGS_BUNDLE","agent_version_id":%q}`, version), 404, "ARTIFACT_NOT_FOUND")
	for range publicPerMinute {
		w.json(0, "GET", "/v1/public/top", "")
	}
	w.must(0, "GET", "/v1/public/top", "", 429, "RATE_LIMITED")
}

// Routes that turn out to stand elsewhere can be moved; misspelt names are told.
func TestMovedRoutes(t *testing.T) {
	w := newWorld(t)
	c := w.cfg
	c.Paths = map[string]string{"presign": "POST /v1/validator/presigned-uploads"}
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w.h = h
	if status, _, _ := w.json('v', "POST", "/v1/validator/presigned-uploads", "{}"); status != 422 {
		t.Errorf("the moved route: %d", status)
	}
	if status, _, _ := w.json('v', "POST", "/v1/validator/uploads/presign", "{}"); status != 404 {
		t.Errorf("its old place: %d", status)
	}
	c.Paths = map[string]string{"presing": "POST /x"}
	if _, err := New(c); err == nil {
		t.Error("a route that does not exist was moved")
	}
	unproven := 0
	for _, r := range Routes() {
		if r.Unproven {
			unproven++
		}
	}
	if unproven == 0 {
		t.Error("everything is proven?")
	}
}
