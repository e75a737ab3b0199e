package wire

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
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
	"github.com/agon-arena/agon/kinds/claim/roster"
	"github.com/agon-arena/agon/kinds/claim/signin"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

var bg = context.Background()

// key makes a hotkey from a letter.
func key(t *testing.T, c byte) *auth.Key {
	t.Helper()
	k, err := auth.KeyFromSeed(auth.Sr25519, bytes.Repeat([]byte{c}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// oneTask is a kind that takes any script that does not say "syntax error".
type oneTask struct{ kind.Kind }

func (oneTask) Name() string   { return "claim" }
func (oneTask) Scorer() string { return "s" }
func (oneTask) Check(_ context.Context, _ *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	b, err := fs.ReadFile(files, scriptName)
	if err != nil || bytes.Contains(b, []byte("syntax error")) {
		return []agon.Finding{{Code: "syntax", Message: "the script does not parse"}}, nil //nolint:nilerror // the finding tells
	}
	return nil, nil
}

func (oneTask) Plan(v agon.View) (agon.Plan, error) {
	if len(v.Runs) > 0 {
		return agon.Plan{Done: true}, nil
	}
	return agon.Plan{Runs: []agon.RunSpec{{Tasks: v.Arena.Tasks, Policy: v.Arena.Policy}}}, nil
}

type world struct {
	cfg    PlatformConfig
	hidden map[string]bool // ids of claims
	t      *testing.T
	api    *platform.Platform
	h      http.Handler
	keys   map[byte]*auth.Key
	net    kittest.Subnet
	now    time.Time
	mu     sync.Mutex
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Millisecond)
	return w.now
}

type replay map[string]bool

func (r replay) Seen(_ context.Context, a, b, c string, _ time.Time) (bool, error) {
	k := a + b + c
	fresh := !r[k]
	r[k] = true
	return fresh, nil
}

func claims() []Claim {
	return []Claim{{
		ClaimID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Text: "The pier is 310 m long.", BudgetUSD: .05,
		Rubric:    Rubric{"Accuracy", "Is it right?", Options{{-1, "Fail"}, {1, "Pass"}}},
		Reference: Reference{Verdict: 1, Justification: "survey", Citations: []Citation{}, Spans: []Span{}},
	}, {
		ClaimID: "6ba7b811-9dad-11d1-80b4-00c04fd430c8", Text: "The pier is 300 m long.", BudgetUSD: .05,
		Rubric:    Rubric{"Accuracy", "Is it right?", Options{{-1, "Fail"}, {1, "Pass"}}},
		Reference: Reference{Verdict: -1, Justification: "survey", Citations: []Citation{}, Spans: []Span{}},
	}}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, keys: map[byte]*auth.Key{}, net: kittest.Subnet{}, now: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
	for i, c := range []byte("abvox") {
		w.keys[c] = key(t, c)
		if h := w.keys[c].SS58(); c != 'x' {
			w.net[h] = dialect.Member{Hotkey: h, Coldkey: "cold-" + string(c), UID: uint16(i + 1), Validator: c == 'v'}
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
		Store: st, Blobs: blobs, Kinds: map[string]kind.Kind{"claim": oneTask{}}, Ledger: w.net, Now: w.clock,
		Incentives: map[string]incentive.Rule{roster.ArenaRule: roster.TopThree()},
	})
	if err != nil {
		t.Fatal(err)
	}
	task, err := blob.PutFiles(bg, blobs, []blob.File{{Path: "x", Content: []byte("task")}}, blob.TreeLimits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.api.EnsureArena(bg, agon.Arena{
		ID: "demo-claim", Kind: "claim", Title: "c", State: agon.ArenaOpen, Licence: "MIT", Incentive: roster.ArenaRule, Evidence: agon.EvidenceForeign, UnjudgedSeats: true, MaxLeases: 4, Attempts: 2,
		Tasks: []agon.TaskRef{{Key: "small/one", Digest: task}},
	}); err != nil {
		t.Fatal(err)
	}
	w.cfg = PlatformConfig{
		Arenas: w.api, Arena: "demo-claim", Dir: filepath.Join(dir, "wire"), Now: w.clock,
		Verifier: &dialect.Verifier{Dialects: []dialect.Dialect{signin.Caster{}}, Now: w.clock, Replay: replay{}, Members: w.net},
		Claims:   func(context.Context) ([]Claim, error) { return claims(), nil },
		Hidden:   func(context.Context) (map[string]bool, error) { return w.hidden, nil },
		Keys: func(context.Context) (map[string]string, error) {
			return map[string]string{"small/one": claims()[0].ClaimID}, nil
		},
	}
	_, w.h, err = NewPlatform(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// sign makes the Authorization header.
func sign(t *testing.T, k *auth.Key, method, target string, body []byte) string {
	t.Helper()
	sig, err := k.Sign(signin.Message(method, target, body))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`Bittensor ss58="%s",sig="%s"`, k.SS58(), hex.EncodeToString(sig))
}

func send(t *testing.T, h http.Handler, k *auth.Key, method, target, body string) (int, map[string]any, []byte) {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if k != nil {
		r.Header.Set("Authorization", sign(t, k, method, target, []byte(body)))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var out map[string]any
	_ = json.Unmarshal(w.Body.Bytes(), &out) // lists and scripts are looked at as bytes
	return w.Code, out, w.Body.Bytes()
}

func upload(script string) string {
	return fmt.Sprintf(`{"script_b64":%q,"sha256":%q}`, base64.StdEncoding.EncodeToString([]byte(script)), sha([]byte(script)))
}

const scripts = "/v1/miners/scripts"

func TestUpload(t *testing.T) {
	w := newWorld(t)
	status, out, _ := send(t, w.h, w.keys['a'], "POST", scripts, upload("print(1)"))
	if status != 200 || out["uid"] != 1.0 || out["content_hash"] != sha([]byte("print(1)")) || out["size_bytes"] != 8.0 || len(out["artifact_id"].(string)) != 36 {
		t.Fatalf("%d %v", status, out)
	}
	for _, c := range []struct {
		name   string
		key    byte
		body   string
		status int
		code   string
	}{
		{"same bytes by another", 'b', upload("print(1)"), 409, "duplicate_script"},
		{"same bytes by the same", 'a', upload("print(1)"), 409, "duplicate_script"},
		{"wrong sha", 'a', `{"script_b64":"eA==","sha256":"00"}`, 422, "sha_mismatch"},
		{"too large", 'a', upload(strings.Repeat("#", MaxScript+1)), 422, "invalid_script_payload"},
		{"empty", 'a', upload(""), 422, "invalid_script_payload"},
		{"not utf-8", 'a', upload("\xff"), 422, "invalid_script_payload"},
		{"syntax", 'a', upload("syntax error"), 422, "invalid_script_payload"},
		{"not base64", 'a', `{"script_b64":"%","sha256":"00"}`, 422, "invalid_script_payload"},
		{"unregistered", 'x', upload("print(2)"), 403, "unknown_hotkey"},
		{"missing field", 'a', `{"sha256":"x"}`, 422, ""},
		{"extra field", 'a', `{"script_b64":"","sha256":"","x":1}`, 422, ""},
		{"no json", 'a', `{`, 422, ""},
		{"largest", 'b', upload(strings.Repeat("#", MaxScript)), 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out, _ := send(t, w.h, w.keys[c.key], "POST", scripts, c.body)
			if status != c.status || (c.code != "" && out["error_code"] != c.code) {
				t.Errorf("%d %v, want %d %s", status, out, c.status, c.code)
			}
			if _, isList := out["detail"].([]any); c.status == 422 && c.code == "" && !isList {
				t.Errorf("422 is not FastAPI's list: %v", out)
			}
		})
	}
	if status, out, _ := send(t, w.h, nil, "POST", scripts, upload("z")); status != 401 || out["error_code"] != "missing_authorization" {
		t.Errorf("unsigned: %d %v", status, out)
	}
	// A signature covers the body.
	r := httptest.NewRequest("POST", scripts, strings.NewReader(upload("other")))
	r.Header.Set("Authorization", sign(t, w.keys['a'], "POST", scripts, []byte(upload("z"))))
	rec := httptest.NewRecorder()
	if w.h.ServeHTTP(rec, r); rec.Code != 401 || !strings.Contains(rec.Body.String(), "invalid_signature") {
		t.Errorf("other body: %d %s", rec.Code, rec.Body)
	}
}

// settle plays the next run as a validator does.
func (w *world) settle(score float64) {
	w.t.Helper()
	c := platform.Caller{Hotkey: w.keys['v'].SS58()}
	l, err := w.api.Claim(bg, c, client.ClaimRequest{Kinds: []string{"claim"}, Driver: "fake"})
	if err != nil || l == nil {
		w.t.Fatalf("claim: %v %v", l, err)
	}
	if _, err := w.api.Heartbeat(bg, c, l.ID, client.Heartbeat{Token: l.Token, State: "playing"}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.api.Heartbeat(bg, c, l.ID, client.Heartbeat{Token: l.Token, State: "judging"}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.api.Result(bg, c, l.ID, client.Result{Token: l.Token, Outcome: "ok", Scores: []agon.Score{{Run: l.Run.Run, Task: "small/one", Value: score, Scorer: "s"}}}); err != nil {
		w.t.Fatal(err)
	}
}

func TestBatchLife(t *testing.T) {
	w := newWorld(t)
	v := w.keys['v']
	_, first, _ := send(t, w.h, w.keys['a'], "POST", scripts, upload("one"))
	_, second, _ := send(t, w.h, w.keys['b'], "POST", scripts, upload("two"))
	if status, out, _ := send(t, w.h, w.keys['a'], "POST", "/v1/miner-task-batches/batch", `{}`); status != 403 || out["error_code"] != "not_a_validator" {
		t.Errorf("a miner makes a batch: %d %v", status, out)
	}
	const id = "11111111-2222-4333-8444-555555555555"
	status, b, raw := send(t, w.h, v, "POST", "/v1/miner-task-batches/batch", `{"batch_id":"`+id+`"}`)
	if status != 200 || b["batch_id"] != id || len(b["candidates"].([]any)) != 2 || len(b["claims"].([]any)) != 2 || b["status"] != "running" {
		t.Fatalf("%d %s", status, raw)
	}
	if !bytes.Contains(raw, []byte(`"verdict_options":{"options":[{"value":-1`)) {
		t.Errorf("options are not wrapped: %s", raw)
	}
	// Asked again it is the same batch, whatever came since.
	_, _, _ = send(t, w.h, w.keys['a'], "POST", scripts, upload("three"))
	if _, again, _ := send(t, w.h, v, "POST", "/v1/miner-task-batches/batch", `{"batch_id":"`+id+`"}`); fmt.Sprint(again) != fmt.Sprint(b) {
		t.Errorf("again: %v", again)
	}
	art := "/v1/miner-task-batches/" + id + "/artifacts/"
	if status, _, raw := send(t, w.h, v, "GET", art+first["artifact_id"].(string), ""); status != 200 || string(raw) != "one" {
		t.Errorf("artifact: %d %s", status, raw)
	}
	for _, bad := range []string{art + "nope", "/v1/miner-task-batches/22222222-2222-4333-8444-555555555555/artifacts/" + second["artifact_id"].(string), "/v1/miner-task-batches/batch/..%2fx"} {
		if status, _, _ := send(t, w.h, v, "GET", bad, ""); status != 404 {
			t.Errorf("%s: %d", bad, status)
		}
	}
	// Weights: not before registration, not before a batch is done.
	if status, out, _ := send(t, w.h, v, "GET", "/v1/weights", ""); status != 403 || out["error_code"] != "validator_not_registered" {
		t.Errorf("weights unregistered: %d %v", status, out)
	}
	if status, out, _ := send(t, w.h, v, "POST", "/v1/validators/register", `{"base_url":"http://v.example:8100","validator_version":"1"}`); status != 200 || out["status"] != "ok" {
		t.Errorf("register: %d %v", status, out)
	}
	if status, out, _ := send(t, w.h, v, "POST", "/v1/validators/register", `{"base_url":"ftp://x"}`); status != 422 {
		t.Errorf("bad url: %d %v", status, out)
	}
	if status, out, _ := send(t, w.h, v, "GET", "/v1/weights", ""); status != 403 || out["error_code"] != "no_recent_batch" {
		t.Errorf("weights early: %d %v", status, out)
	}
	// Monitoring hides claims until the batch is done.
	mon := "/v1/monitoring/miner-task-batches/" + id
	if _, out, _ := send(t, w.h, nil, "GET", mon, ""); len(out["batch"].(map[string]any)["tasks"].([]any)) != 0 {
		t.Errorf("claims show early: %v", out)
	}
	if status, _, raw := send(t, w.h, nil, "GET", "/v1/monitoring/miner-scripts/"+first["artifact_id"].(string)+"?include_content=true", ""); status != 403 {
		t.Errorf("script shows early: %d %s", status, raw)
	}
	w.settle(.25)
	w.settle(.75)
	w.settle(.5)
	if _, out, _ := send(t, w.h, v, "GET", "/v1/miner-task-batches/progress/"+id, ""); out["status"] != "completed" || out["candidate_count"] != 2.0 {
		t.Errorf("progress: %v", out)
	}
	status, out, raw := send(t, w.h, v, "GET", "/v1/weights", "")
	weights, _ := out["weights"].(map[string]any)
	for uid, share := range map[string]float64{"2": .6, "1": .3, "0": .1} {
		if got, _ := weights[uid].(float64); math.Abs(got-share) > 1e-4 { // 16 bits of a weight
			t.Errorf("weight of uid %s is %v, want %v", uid, got, share)
		}
	}
	if status != 200 || len(weights) != 3 || out["champion_uid"] != 2.0 || fmt.Sprint(out["final_top"]) != "[2 1 <nil>]" {
		t.Errorf("weights: %d %s", status, raw)
	}
	if _, out, _ := send(t, w.h, nil, "GET", mon, ""); len(out["batch"].(map[string]any)["tasks"].([]any)) != 2 || len(out["artifact_aggregates"].([]any)) != 2 {
		t.Errorf("monitoring: %v", out)
	}
	if status, _, raw := send(t, w.h, nil, "GET", mon+"/artifacts/"+second["artifact_id"].(string)+"/tasks", ""); status != 200 || !bytes.Contains(raw, []byte(`"score":0.75`)) || !bytes.Contains(raw, []byte(`"task_id":"`+claims()[0].ClaimID+`"`)) {
		t.Errorf("tasks: %d %s", status, raw)
	}
	if status, out, _ := send(t, w.h, nil, "GET", "/v1/monitoring/miner-scripts/"+first["artifact_id"].(string)+"?include_content=true", ""); status != 200 || out["content_b64"] != "b25l" {
		t.Errorf("script: %d %v", status, out)
	}
}

// One batch at a time; the champion's script is always in it, though its miner
// has a newer one; claims come with the request, from the arena, or from the batch before.
func TestBatchCreation(t *testing.T) {
	w := newWorld(t)
	v := w.keys['v']
	const route = "/v1/miner-task-batches/batch"
	_, best, _ := send(t, w.h, w.keys['a'], "POST", scripts, upload("best"))
	w.settle(.75)
	_, newer, _ := send(t, w.h, w.keys['a'], "POST", scripts, upload("newer"))
	_, other, _ := send(t, w.h, w.keys['b'], "POST", scripts, upload("other"))
	// Claims of a request need validators who play them; without any nothing is made.
	if status, out, _ := send(t, w.h, v, "POST", route, `{"override_miner_task_dataset":{"entrypoint":"evaluate_criterion","claims":`+claimsJSON(t, claims()[:1])+`}}`); status != 409 || out["error_code"] != "no_validators" {
		t.Fatalf("nobody could play it: %d %v", status, out)
	}
	status, b, raw := send(t, w.h, v, "POST", route, `{}`)
	var have []any
	for _, c := range b["candidates"].([]any) {
		have = append(have, c.(map[string]any)["artifact_id"])
	}
	slices.SortFunc(have, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	want := []any{best["artifact_id"], newer["artifact_id"], other["artifact_id"]}
	slices.SortFunc(want, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	if status != 200 || fmt.Sprint(have) != fmt.Sprint(want) || len(b["claims"].([]any)) != 2 || b["champion_uid"] != 1.0 {
		t.Fatalf("%d %s", status, raw)
	}
	if status, out, _ := send(t, w.h, v, "POST", route, `{}`); status != 409 || out["error_code"] != "batch_running" || !strings.Contains(out["message"].(string), b["batch_id"].(string)) {
		t.Errorf("while one runs: %d %v", status, out)
	}
	w.settle(.5)
	w.settle(.5)
	if status, out, raw := send(t, w.h, v, "POST", route, `{"use_previous_task_dataset":true}`); status != 200 || len(out["claims"].([]any)) != 2 {
		t.Errorf("claims of the batch before: %d %s", status, raw)
	}
	if status, out, raw := send(t, w.h, v, "POST", route, `{}`); status != 200 || len(out["claims"].([]any)) != 2 {
		t.Errorf("claims of the arena: %d %s", status, raw)
	}
}

// A hidden claim, with what is wanted, is for validators alone until it leaves
// the arena.
func TestMonitorHides(t *testing.T) {
	w := newWorld(t)
	w.hidden = map[string]bool{claims()[1].ClaimID: true}
	status, out, raw := send(t, w.h, w.keys['v'], "POST", "/v1/miner-task-batches/batch", `{}`)
	if status != 200 || !strings.Contains(string(raw), "300 m") {
		t.Fatalf("a validator's batch: %d %s", status, raw)
	}
	id := out["batch_id"].(string)
	_, _, raw = send(t, w.h, nil, "GET", "/v1/monitoring/miner-task-batches/"+id, "")
	if strings.Contains(string(raw), "300 m") || !strings.Contains(string(raw), "310 m") || !strings.Contains(string(raw), `"withheld_tasks":1`) {
		t.Errorf("the public reads %s", raw)
	}
	w.hidden = nil
	if _, _, raw = send(t, w.h, nil, "GET", "/v1/monitoring/miner-task-batches/"+id, ""); !strings.Contains(string(raw), "300 m") {
		t.Errorf("a claim that has left: %s", raw)
	}
}

// What is wanted of hidden claims goes to the validators that a batch is assigned
// to: who froze it, and who was registered then.
func TestBatchIsOfItsValidators(t *testing.T) {
	w := newWorld(t)
	w.hidden = map[string]bool{claims()[1].ClaimID: true}
	for _, c := range []byte("lr") {
		w.keys[c] = key(t, c)
		h := w.keys[c].SS58()
		w.net[h] = dialect.Member{Hotkey: h, Coldkey: "cold-" + string(c), UID: uint16(20 + c%9), Validator: true}
	}
	register := func(c byte) {
		t.Helper()
		if status, out, _ := send(t, w.h, w.keys[c], "POST", "/v1/validators/register", `{"base_url":"http://v.example:8100"}`); status != 200 {
			t.Fatalf("register: %d %v", status, out)
		}
	}
	register('r')
	if status, _, raw := send(t, w.h, w.keys['a'], "POST", scripts, upload("print(1)")); status != 200 {
		t.Fatalf("upload: %s", raw)
	}
	status, made, raw := send(t, w.h, w.keys['v'], "POST", "/v1/miner-task-batches/batch", `{}`)
	if status != 200 {
		t.Fatalf("%d %s", status, raw)
	}
	id := made["batch_id"].(string)
	artifact := made["candidates"].([]any)[0].(map[string]any)["artifact_id"].(string)
	register('l') // too late for this one
	ask := func(c byte, want int) {
		t.Helper()
		for _, x := range []struct{ method, path, body string }{
			{"GET", "/v1/miner-task-batches/batch/" + id, ""},
			{"GET", "/v1/miner-task-batches/" + id + "/artifacts/" + artifact, ""},
			{"POST", "/v1/miner-task-batches/batch", `{"batch_id":"` + id + `"}`},
		} {
			status, out, raw := send(t, w.h, w.keys[c], x.method, x.path, x.body)
			if status != want || want != 200 && (out["error_code"] != "batch_not_assigned" || strings.Contains(string(raw), "300 m")) {
				t.Errorf("%c: %s: %d %s, want %d", c, x.path, status, raw, want)
			}
		}
	}
	ask('v', 200)
	ask('r', 200)
	ask('l', 403)
	if status, _, _ := send(t, w.h, w.keys['l'], "GET", "/v1/miner-task-batches/progress/"+id, ""); status != 200 {
		t.Errorf("progress says nothing of claims: %d", status)
	}
	w.hidden = nil // its period is over
	ask('l', 200)
}

// Paging walks every batch once.
func TestMonitorPages(t *testing.T) {
	w := newWorld(t)
	for range 5 {
		if status, _, raw := send(t, w.h, w.keys['v'], "POST", "/v1/miner-task-batches/batch", `{}`); status != 200 {
			t.Fatalf("%d %s", status, raw)
		}
	}
	seen := map[string]bool{}
	q := "?limit=2"
	for range 5 {
		_, out, _ := send(t, w.h, nil, "GET", "/v1/monitoring/miner-task-batches"+q, "")
		for _, b := range out["batches"].([]any) {
			id := b.(map[string]any)["batch_id"].(string)
			if seen[id] {
				t.Errorf("%s comes twice", id)
			}
			seen[id] = true
		}
		if out["next_before"] == nil {
			break
		}
		q = fmt.Sprintf("?limit=2&before=%s&before_batch_id=%s", out["next_before"], out["next_before_batch_id"])
	}
	if len(seen) != 5 {
		t.Errorf("%d batches, want 5", len(seen))
	}
}

func FuzzBodies(f *testing.F) {
	f.Add(push("99999999-2222-4333-8444-555555555555"))
	f.Add(upload("x"))
	f.Fuzz(func(t *testing.T, s string) {
		var b Batch
		if json.Unmarshal([]byte(s), &b) == nil {
			for i := range b.Claims {
				if b.Claims[i].check() == nil && (b.Claims[i].Budget() <= 0 || len(b.Claims[i].Rubric.Options) < 2) {
					t.Fatalf("%+v", b.Claims[i])
				}
			}
		}
		w := httptest.NewRecorder()
		var in struct {
			Claims []Claim `json:"claims"`
		}
		if !decode(w, []byte(s), true, &in) && (w.Code != 422 || !json.Valid(w.Body.Bytes())) {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}
