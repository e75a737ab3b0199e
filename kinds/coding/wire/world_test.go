package wire

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/kinds/coding/play"
	"github.com/agon-arena/agon/kinds/coding/ridges"
	"github.com/agon-arena/agon/kinds/coding/signin"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

var bg = context.Background()

type never struct{}

func (never) Seen(context.Context, string, string, string, time.Time) (bool, error) { return true, nil }

const (
	adminKey = "the operator's key"
	password = "let me in"
)

// world is a platform with a staged arena, and Ridges' routes over it: miners a,
// b, owner o, validators v, w, x, an outsider z.
type world struct {
	t    testing.TB
	api  *platform.Platform
	b    *Backend
	h    http.Handler
	keys map[byte]*auth.Key
	cold map[byte]string
	cfg  Config
	dir  string

	mu  sync.Mutex
	now time.Time // guarded by mu
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

func seed(c byte) []byte { return bytes.Repeat([]byte{c}, 32) }

func newWorld(t testing.TB, change ...func(*Config, *agon.Arena)) *world {
	t.Helper()
	w := &world{t: t, keys: map[byte]*auth.Key{}, cold: map[byte]string{}, now: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), dir: t.TempDir()}
	net := kittest.Subnet{}
	for i, c := range []byte("oabcvwxz") {
		k, err := auth.KeyFromSeed(auth.Sr25519, seed(c))
		must(t, err)
		cold, err := auth.KeyFromSeed(auth.Sr25519, seed(c-32))
		must(t, err)
		w.keys[c], w.cold[c] = k, cold.SS58()
		if c != 'z' {
			net[k.SS58()] = dialect.Member{Hotkey: k.SS58(), Coldkey: cold.SS58(), UID: uint16(i), Validator: c >= 'v'}
		}
	}
	st, err := sqlite.Open(bg, filepath.Join(w.dir, "agon.db"))
	must(t, err)
	t.Cleanup(func() { st.Close() })
	blobs, err := blobfs.Open(filepath.Join(w.dir, "blobs"), blobfs.Options{})
	must(t, err)
	rules := map[string]incentive.Rule{incentive.WinnerTakesAllRule: incentive.WinnerTakesAll()}
	for n, r := range ridges.Incentives() {
		rules[n] = r
	}
	w.api, err = platform.New(platform.Config{Store: st, Blobs: blobs, Kinds: map[string]kind.Kind{play.Name: play.New(play.Config{})}, Ledger: net, Now: w.clock, Incentives: rules})
	must(t, err)
	a := agon.Arena{
		ID: "ridges", Kind: play.Name, Title: "r", Netuid: 62, State: agon.ArenaOpen, Licence: "MIT", Incentive: ridges.ImprovementRule, MaxLeases: 50, Attempts: 2, Evidence: agon.EvidenceForeign, UnjudgedSeats: true,
		Stages: []agon.Stage{
			{Name: "screener_1", Tasks: []string{"s/0", "s/1"}, Threshold: .3},
			{Name: "screener_2", Tasks: []string{"s/2", "s/3"}, Threshold: .4, OfTop: .9},
			{Name: "validator", Tasks: []string{"v/4", "v/5", "v/6", "v/7"}, Evaluations: 3, Consensus: true},
		},
	}
	a.Policy.Agent.WallMS, a.Policy.Grader.WallMS = 2_400_000, 600_000
	trees := map[agon.Digest]string{}
	for i := range 8 {
		files := []blob.File{
			{Path: "instruction.md", Content: []byte(fmt.Sprintf("mend %d\n", i))},
			{Path: "task.toml", Content: []byte("version = \"1.0\"\n")},
			{Path: "tests/test.sh", Content: []byte("#!/bin/sh\necho 1\n")},
			{Path: "solution/solve.sh", Content: []byte("the answer\n")},
		}
		d, err := blob.PutFiles(bg, blobs, files, blob.TreeLimits{})
		must(t, err)
		dir := filepath.Join(w.dir, "trees", strconv.Itoa(i))
		for _, f := range files {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, f.Path)), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, f.Path), f.Content, 0o644))
		}
		must(t, os.Chmod(filepath.Join(dir, "tests/test.sh"), 0o755))
		trees[d] = dir
		a.Tasks = append(a.Tasks, agon.TaskRef{Key: fmt.Sprintf("%c/%d", "ssssvvvv"[i], i), Digest: d})
	}
	w.cfg = Config{
		Platform: w.api, Arena: a.ID, Dir: filepath.Join(w.dir, "ridges"), Now: w.clock, Verifier: &dialect.Verifier{Now: w.clock, Replay: never{}, Members: net}, Cooldown: 24 * time.Hour,
		Tree: func(_ context.Context, d agon.Digest) (string, error) { return trees[d], nil }, Owner: w.keys['o'].SS58(), AdminKey: adminKey, ScreenerPassword: password, Price: 1000,
	}
	for _, c := range change {
		c(&w.cfg, &a)
	}
	must(t, w.api.EnsureArena(bg, a))
	w.open()
	return w
}

// open makes the routes anew, as after a restart.
func (w *world) open() {
	w.t.Helper()
	b, err := New(w.cfg)
	must(w.t, err)
	w.b, w.h = b, b.Handler()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// send makes a request and returns status, JSON object and bytes.
func (w *world) send(method, path, token, ctype string, body []byte) (int, map[string]any, string) {
	w.t.Helper()
	r := httptest.NewRequest(method, "http://arena"+path, bytes.NewReader(body))
	if ctype != "" {
		r.Header.Set("Content-Type", ctype)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, r)
	var out map[string]any
	_ = json.Unmarshal(rec.Body.Bytes(), &out) // lists and texts are looked at as bytes
	return rec.Code, out, rec.Body.String()
}

func (w *world) post(path, token string, v any) (int, map[string]any, string) {
	w.t.Helper()
	b, ok := v.(string)
	if !ok {
		raw, err := json.Marshal(v)
		must(w.t, err)
		b = string(raw)
	}
	return w.send(http.MethodPost, path, token, "application/json", []byte(b))
}

func (w *world) get(path string) (int, map[string]any, string) {
	w.t.Helper()
	return w.send(http.MethodGet, path, "", "", nil)
}

// want is a request that is answered with a status; it returns the object.
func (w *world) want(status int, code int, out map[string]any, text string) map[string]any {
	w.t.Helper()
	if code != status {
		w.t.Fatalf("%d %s, want %d", code, text, status)
	}
	return out
}

type part struct{ name, value string }

// multi builds a client's multipart body, in the order in which it sends it.
func multi(t testing.TB, fields []part, file string, content []byte) (string, []byte) {
	t.Helper()
	var buf bytes.Buffer
	m := multipart.NewWriter(&buf)
	for _, f := range fields {
		must(t, m.WriteField(f.name, f.value))
	}
	p, err := m.CreateFormFile("agent_file", file)
	must(t, err)
	_, err = p.Write(content)
	must(t, err)
	must(t, m.Close())
	return m.FormDataContentType(), buf.Bytes()
}

// agentSource is an agent that differs by a word.
func agentSource(word string) []byte {
	return []byte("def agent_main(input):\n    return " + strconv.Quote(word) + "\n")
}

// fields are what the client signs and sends of an upload by key k.
func (w *world) fields(k byte, content []byte, more ...part) []part {
	w.t.Helper()
	key := w.keys[k]
	info := string(signin.FileInfoMessage(key.SS58(), agon.Sum(content).Hex(), "0"))
	return append([]part{
		{"public_key", key.PublicHex()},
		{"file_info", info},
		{"signature", w.sign(k, info)},
		{"name", "agent of " + string(k)},
		{"openrouter_api_key", "sk-run"},
		{"openrouter_management_key", "sk-manage"},
	}, more...)
}

func (w *world) sign(k byte, text string) string {
	w.t.Helper()
	sig, err := w.keys[k].Sign([]byte(text))
	must(w.t, err)
	return hex.EncodeToString(sig)
}

func (w *world) upload(path string, fields []part, content []byte) (int, map[string]any, string) {
	w.t.Helper()
	ctype, body := multi(w.t, fields, "agent.py", content)
	return w.send(http.MethodPost, path, "", ctype, body)
}

// credit grants one and returns its id.
func (w *world) credit(k byte, reference string) string {
	w.t.Helper()
	code, out, text := w.post("/admin/upload-credits", adminKey, map[string]any{"miner_hotkey": w.keys[k].SS58(), "reason": "r", "granted_by": "g", "grant_reference": reference})
	return w.want(200, code, out, text)["credit_id"].(string)
}

// enter uploads with a credit and returns the agent's id.
func (w *world) enter(k byte, word string) string {
	w.t.Helper()
	id := w.credit(k, "enter "+word)
	src := agentSource(word)
	code, out, text := w.upload("/upload/agent", w.fields(k, src, part{"credit_id", id}), src)
	w.want(200, code, out, text)
	return ridges.AgentID("credit:" + id + ":0")
}

func (w *world) status(agent string) string {
	w.t.Helper()
	code, out, text := w.get("/retrieval/agent-by-id?agent_id=" + agent)
	return w.want(200, code, out, text)["status"].(string)
}

// join registers a validator ('v' …) or a screener ('1', '2') and returns its session.
func (w *world) join(k byte) string {
	w.t.Helper()
	if k == '1' || k == '2' {
		code, out, text := w.post("/validator/register-as-screener", "", map[string]any{"name": fmt.Sprintf("screener-%c-1", k), "password": password, "commit_hash": "c"})
		return w.want(200, code, out, text)["session_id"].(string)
	}
	at := w.clock().Unix()
	code, out, text := w.post("/validator/register-as-validator", "", map[string]any{"timestamp": at, "signed_timestamp": w.sign(k, strconv.FormatInt(at, 10)), "hotkey": w.keys[k].SS58(), "commit_hash": "c"})
	return w.want(200, code, out, text)["session_id"].(string)
}

// job is an evaluation as a validator has it.
type job struct {
	Evaluation string `json:"evaluation_id"`
	Agent      string `json:"agent_id"`
	Code       string `json:"agent_code"`
	Runs       []struct {
		ID   string         `json:"evaluation_run_id"`
		Name string         `json:"problem_name"`
		Spec map[string]any `json:"execution_spec"`
	} `json:"evaluation_runs"`
	URLs   map[string]string `json:"artifact_upload_urls"`
	Router map[string]string `json:"openrouter_config"`
}

// ask requests an evaluation; nil: there is none.
func (w *world) ask(session string) *job {
	w.t.Helper()
	code, _, text := w.post("/validator/request-evaluation", session, "{}")
	w.want(200, code, nil, text)
	var j *job
	must(w.t, json.Unmarshal([]byte(text), &j))
	return j
}

// tell reports a status of a run.
func (w *world) tell(session, run, status string, more map[string]any) (int, map[string]any, string) {
	w.t.Helper()
	m := map[string]any{"evaluation_run_id": run, "updated_status": status, "patch": nil, "test_results": nil, "verifier_reward": nil, "agent_logs": nil, "eval_logs": nil, "error_code": nil, "error_message": nil, "cost_usd": nil}
	for k, v := range more {
		m[k] = v
	}
	return w.post("/validator/update-evaluation-run", session, m)
}

// walk plays a run to its end as the real client does.
func (w *world) walk(session, run string, reward float64) {
	w.t.Helper()
	for _, s := range []string{initAgent, runAgent} {
		code, out, text := w.tell(session, run, s, nil)
		w.want(200, code, out, text)
	}
	code, out, text := w.tell(session, run, initEval, map[string]any{"patch": "diff", "agent_logs": "a log"})
	w.want(200, code, out, text)
	code, out, text = w.tell(session, run, runEval, nil)
	w.want(200, code, out, text)
	code, out, text = w.tell(session, run, finished, ended(reward))
	w.want(200, code, out, text)
}

func ended(reward float64) map[string]any {
	return map[string]any{"patch": "diff", "agent_logs": "a log", "eval_logs": "e log", "verifier_reward": reward, "cost_usd": 0.01, "test_results": []any{map[string]any{"name": "t", "category": "default", "status": "pass"}}}
}

// play takes an evaluation and finishes it; the runs have these rewards.
func (w *world) play(session string, rewards ...float64) *job {
	w.t.Helper()
	j := w.ask(session)
	if j == nil || len(j.Runs) != len(rewards) {
		w.t.Fatalf("got %+v, want %d runs", j, len(rewards))
	}
	for i, r := range j.Runs {
		w.walk(session, r.ID, rewards[i])
	}
	code, out, text := w.post("/validator/finish-evaluation", session, "{}")
	w.want(200, code, out, text)
	return j
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
