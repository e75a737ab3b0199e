package wire

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/coding/ridges"
)

// An agent goes through two screeners and three validators to the seat, over a
// restart of ours in each evaluation.
func TestPipeline(t *testing.T) {
	w := newWorld(t)
	agent := w.enter('a', "good")
	v := w.join('v')
	if j := w.ask(v); j != nil {
		t.Fatalf("a validator got %+v before the screeners were done", j)
	}
	one, two := w.join('1'), w.join('2')
	j := w.ask(one)
	if j == nil || j.Agent != agent || len(j.Runs) != 2 || j.Code != string(agentSource("good")) || len(j.URLs) != 2 {
		t.Fatalf("%+v", j)
	}
	w.walk(one, j.Runs[0].ID, 1)
	code, out, text := w.tell(one, j.Runs[1].ID, initAgent, nil)
	w.want(200, code, out, text)
	w.open() // kill -9
	code, out, text = w.tell(one, j.Runs[1].ID, runAgent, nil)
	w.want(200, code, out, text)
	code, out, text = w.tell(one, j.Runs[1].ID, finished, ended(0))
	w.want(200, code, out, text)
	code, out, text = w.post("/validator/finish-evaluation", one, "{}")
	w.want(200, code, out, text)
	if got := w.status(agent); got != "screening_2" {
		t.Fatal(got)
	}
	w.play(two, 1, 1)
	if got := w.status(agent); got != "evaluating" {
		t.Fatal(got)
	}
	w.play(v, 1, 1, 1, 0)
	w.play(w.join('w'), 1, 1, 0, 1)
	w.play(w.join('x'), 1, 1, 1, 1)
	code, out, text = w.get("/retrieval/agent-by-id?agent_id=" + agent)
	if w.want(200, code, out, text); out["status"] != "finished" || out["final_score"] != .5 || out["validator_count"] != 3.0 || out["approved"] != true || out["reward_weight"] != 1.0 {
		t.Fatal(text)
	}
	if code, out, text = w.get("/scoring/weights"); code != 200 || out[w.keys['a'].SS58()] != 1.0 {
		t.Errorf("%d %s", code, text)
	}
	code, _, text = w.get("/retrieval/evaluations-for-agent?agent_id=" + agent)
	if code != 200 || strings.Count(text, `"evaluation_set_group":"validator"`) != 3 || strings.Count(text, `"patch":"diff"`) != 16 {
		t.Errorf("%d %s", code, text)
	}
	for _, p := range []string{
		"/retrieval/top-agents", "/retrieval/network-statistics", "/scoring/screener-info", "/scoring/latest-set-info", "/evaluation-sets/", "/evaluation-sets/-1", "/evaluation-sets/7/overview",
		"/evaluation-sets/7/leaderboard", "/evaluation-sets/7/approved-agents", "/evaluation-sets/all-latest-set-problems", "/statistics/problem-statistics", "/scaling/pending-work",
		"/validator/connected-validators-info", "/retrieval/top-scores-over-time", "/retrieval/perfectly-solved-over-time", "/retrieval/agents-by-coldkey?miner_coldkey=" + w.cold['a'],
		"/retrieval/all-agents-by-hotkey?miner_hotkey=" + w.keys['a'].SS58(), "/upload/eval-pricing", "/debug/lock-info",
		"/evaluation-run/get-by-id?evaluation_run_id=" + j.Runs[0].ID, "/evaluation-run/get-logs-by-id?type=agent&evaluation_run_id=" + j.Runs[0].ID,
		"/agent/get-by-evaluation-run-id?evaluation_run_id=" + j.Runs[0].ID, "/evaluation/get-by-evaluation-run-id?evaluation_run_id=" + j.Runs[0].ID,
	} {
		if code, _, text := w.get(p); code != 200 || strings.Contains(text, "null,null") {
			t.Errorf("%s: %d %s", p, code, text)
		}
	}
	for _, p := range []string{"/evaluation-sets/6", "/evaluation-sets/8/leaderboard", "/retrieval/agent-by-id?agent_id=" + j.Evaluation, "/evaluation-run/get-by-id?evaluation_run_id=" + j.Evaluation, "/nowhere", "/retrieval/nothing"} {
		if code, _, text := w.get(p); code != 404 {
			t.Errorf("%s: %d %s", p, code, text)
		}
	}
	if code, _, text := w.get("/retrieval/agent-code?agent_id=" + agent); code != 403 || !strings.Contains(text, "top agents") {
		t.Errorf("the code of one of the first ten: %d %s", code, text)
	}
}

// A screener's bar, and the code that stays hidden behind it.
func TestScreenedOut(t *testing.T) {
	w := newWorld(t)
	agent := w.enter('a', "bad")
	one := w.join('1')
	j := w.ask(one)
	w.walk(one, j.Runs[0].ID, 0)
	if code, out, text := w.post("/validator/check-cancellation", one, map[string]any{"evaluation_id": j.Evaluation, "agent_id": agent}); code != 200 || out["should_cancel"] != false {
		t.Fatalf("half is still above the bar: %d %s", code, text)
	}
	if code, _, text := w.post("/validator/cancel-current-evaluation", one, map[string]any{"evaluation_id": j.Evaluation, "agent_id": agent}); code != 409 {
		t.Fatalf("%d %s", code, text)
	}
	w.walk(one, j.Runs[1].ID, 0)
	code, out, text := w.post("/validator/finish-evaluation", one, "{}")
	w.want(200, code, out, text)
	if got := w.status(agent); got != "failed_screening_1" {
		t.Error(got)
	}
	if code, _, _ := w.get("/retrieval/agent-code?agent_id=" + agent); code != 403 {
		t.Errorf("its code: %d", code)
	}
	if code, _, text := w.get("/evaluation-run/get-logs-by-id?type=agent&evaluation_run_id=" + j.Runs[0].ID); code != 404 {
		t.Errorf("its logs: %d %s", code, text)
	}
}

// What cannot reach its bar is stopped, and what was not played of it is told so.
func TestScoreBound(t *testing.T) {
	w := newWorld(t, func(_ *Config, a *agon.Arena) { a.Stages[0].Threshold = .9 })
	agent := w.enter('a', "bad")
	one := w.join('1')
	j := w.ask(one)
	w.walk(one, j.Runs[0].ID, 0)
	who := map[string]any{"evaluation_id": j.Evaluation, "agent_id": agent}
	if code, out, text := w.post("/validator/check-cancellation", one, who); code != 200 || out["should_cancel"] != true {
		t.Fatalf("%d %s", code, text)
	}
	code, out, text := w.post("/validator/cancel-current-evaluation", one, who)
	w.want(200, code, out, text)
	code, out, text = w.tell(one, j.Runs[1].ID, initAgent, nil) // it came too late
	if w.want(200, code, out, text); out["retry"] != false {
		t.Error(text)
	}
	_, out, _ = w.get("/evaluation-run/get-by-id?evaluation_run_id=" + j.Runs[1].ID)
	if out["error_code"] != 3060.0 || w.status(agent) != "failed_screening_1" {
		t.Errorf("%v %s", out, w.status(agent))
	}
}

// Every cell of the state machine.
func TestStateMachine(t *testing.T) {
	text, reward, code := "x", 1.0, 1000
	for from, at := range statuses {
		for to, status := range statuses {
			d := &runDoc{Status: at, At: map[string]time.Time{}}
			got, why := d.apply(&report{Status: status, Patch: &text, AgentLogs: &text, EvalLogs: &text, Reward: &reward, Code: &code, Message: &text}, time.Now())
			want := 400
			if to > 0 && to < 5 && to == from+1 || to >= 5 && from < 5 {
				want = 0
			}
			if got != want || (got == 0) != (d.Status == status && status != at) {
				t.Errorf("%s to %s: %d %s, want %d", at, status, got, why, want)
			}
		}
	}
	// What is refused ends the session.
	w := newWorld(t)
	w.enter('a', "x")
	s := w.join('1')
	j := w.ask(s)
	if code, _, _ := w.tell(s, j.Runs[0].ID, runAgent, nil); code != 400 {
		t.Errorf("a step was left out: %d", code)
	}
	if code, _, _ := w.post("/validator/heartbeat", s, `{"system_metrics":{}}`); code != 401 {
		t.Errorf("the session lives: %d", code)
	}
	if code, _, _ := w.post("/validator/request-evaluation", s, "{}"); code != 401 {
		t.Errorf("the session works on: %d", code)
	}
}

// The same report again is answered as the first; what is missing is named.
func TestReports(t *testing.T) {
	w := newWorld(t)
	w.enter('a', "x")
	s := w.join('1')
	j := w.ask(s)
	run := j.Runs[0].ID
	for _, status := range []string{initAgent, runAgent} {
		for range 3 {
			code, out, text := w.tell(s, run, status, nil)
			w.want(200, code, out, text)
		}
	}
	// A fault of the validator's is tried again, twice.
	for n := 2; n <= 3; n++ {
		for range 2 { // the answer was lost
			code, out, text := w.tell(s, run, errored, map[string]any{"error_code": 2000, "error_message": "m"})
			if w.want(200, code, out, text); out["retry"] != true || out["attempt_number"] != float64(n) || !strings.HasPrefix(out["artifact_upload_url"].(string), "http://arena/validator/artifacts/"+run) {
				t.Fatalf("attempt %d: %s", n, text)
			}
		}
		code, out, text := w.tell(s, run, initAgent, nil)
		w.want(200, code, out, text)
	}
	code, out, text := w.tell(s, run, errored, map[string]any{"error_code": 2000, "error_message": "m"})
	if w.want(200, code, out, text); out["retry"] != false {
		t.Errorf("a third retry: %s", text)
	}
	w.walk(s, j.Runs[1].ID, 1)
	code, out, text = w.post("/validator/finish-evaluation", s, "{}")
	w.want(200, code, out, text)
	// What we failed is played again; what was reported stays.
	if j = w.ask(s); j == nil || len(j.Runs) != 1 {
		t.Fatalf("%+v", j)
	}
	text, reward := "x", 1.0
	for _, c := range []struct {
		from string
		in   report
		text string
	}{
		{runAgent, report{Status: initEval, AgentLogs: &text}, "patch"},
		{runAgent, report{Status: initEval, Patch: &text}, "agent logs"},
		{pending, report{Status: finished, Patch: &text, AgentLogs: &text, EvalLogs: &text}, "verifier reward"},
		{pending, report{Status: finished, Patch: &text, AgentLogs: &text, Reward: &reward}, "eval logs"},
		{pending, report{Status: finished, AgentLogs: &text, EvalLogs: &text, Reward: &reward}, "patch"},
		{pending, report{Status: finished, Patch: &text, EvalLogs: &text, Reward: &reward}, "agent logs"},
		{pending, report{Status: errored, Message: &text}, "error code"},
		{pending, report{Status: errored, Code: new(int)}, "error message"},
	} {
		d := &runDoc{Status: c.from, At: map[string]time.Time{}}
		if code, why := d.apply(&c.in, time.Now()); code != 422 || !strings.Contains(why, c.text) || d.Status != c.from {
			t.Errorf("%s to %s: %d %s", c.from, c.in.Status, code, why)
		}
	}
	// A body that does not parse kills nothing.
	for _, body := range []string{"", "[]", "{}", `{"evaluation_run_id":"x","updated_status":"finished"}`, `{"evaluation_run_id":"` + run + `","updated_status":"gone"}`, `{"evaluation_run_id":"` + run + `","updated_status":"finished","verifier_reward":"much"}`, `{"evaluation_run_id":"` + run + `","updated_status":"finished","test_results":[{"name":"t"}]}`, "\xff"} {
		if code, _, text := w.post("/validator/update-evaluation-run", s, body); code != 422 {
			t.Errorf("%q: %d %s", body, code, text)
		}
	}
	if code, _, _ := w.post("/validator/heartbeat", s, `{"system_metrics":{"cpu_percent":1.5,"num_containers":null}}`); code != 200 {
		t.Errorf("the session is gone: %d", code)
	}
	// Somebody else's run.
	if code, _, _ := w.tell(w.join('2'), j.Runs[0].ID, initAgent, nil); code != 409 {
		t.Errorf("a run of another: %d", code)
	}
	if code, _, _ := w.tell(s, j.Evaluation, initAgent, nil); code != 404 {
		t.Errorf("no run: %d", code)
	}
}

// Registration, in the order of its checks.
func TestRegistration(t *testing.T) {
	w := newWorld(t)
	at := func(k byte, skew time.Duration, sig string) (int, string) {
		n := w.clock().Add(skew).Unix()
		if sig == "" {
			sig = w.sign(k, fmt.Sprint(n))
		}
		code, _, text := w.post("/validator/register-as-validator", "", map[string]any{"timestamp": n, "signed_timestamp": sig, "hotkey": w.keys[k].SS58(), "commit_hash": "any"})
		return code, text
	}
	for _, c := range []struct {
		k    byte
		skew time.Duration
		sig  string
		want int
	}{{'v', 0, "", 200}, {'v', -60 * time.Second, "", 200}, {'v', -61 * time.Second, "", 400}, {'v', 0, "00", 401}, {'a', 0, "", 403}, {'z', 0, "", 403}} {
		if code, text := at(c.k, c.skew, c.sig); code != c.want {
			t.Errorf("%+v: %d %s", c, code, text)
		}
	}
	for name, c := range map[string]struct {
		name, pass string
		want       int
	}{"good": {"screener-1-12", password, 200}, "class": {"screener-3-1", password, 400}, "form": {"screener-1", password, 400}, "password": {"screener-1-1", "x", 403}, "tail": {"screener-1-1'; --", password, 400}} {
		if code, _, text := w.post("/validator/register-as-screener", "", map[string]any{"name": c.name, "password": c.pass, "commit_hash": "c"}); code != c.want {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	w.cfg.ScreenerPassword = ""
	w.open()
	if code, _, _ := w.post("/validator/register-as-screener", "", map[string]any{"name": "screener-1-1", "password": "", "commit_hash": "c"}); code != 403 {
		t.Errorf("no password is set, and %d", code)
	}
	// Another address does not take a session over; the same does.
	s := w.join('v')
	n := w.clock().Unix()
	body, _ := json.Marshal(map[string]any{"timestamp": n, "signed_timestamp": w.sign('v', fmt.Sprint(n)), "hotkey": w.keys['v'].SS58(), "commit_hash": "c"})
	r := httptest.NewRequest(http.MethodPost, "/validator/register-as-validator", bytes.NewReader(body))
	r.RemoteAddr = "10.1.2.3:4"
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, r)
	if rec.Code != 409 {
		t.Errorf("another address: %d", rec.Code)
	}
	next := w.join('v')
	for token, want := range map[string]int{s: 401, next: 200, "x": 422, "": 401} {
		if code, _, text := w.post("/validator/heartbeat", token, `{"system_metrics":{}}`); code != want {
			t.Errorf("session %q: %d %s", token, code, text)
		}
	}
}

// Who falls silent loses what it has not reported, to be played again.
func TestSilence(t *testing.T) {
	w := newWorld(t)
	agent := w.enter('a', "x")
	s := w.join('1')
	j := w.ask(s)
	w.walk(s, j.Runs[0].ID, 1)
	w.tell(s, j.Runs[1].ID, initAgent, nil)
	w.skip(59 * time.Second)
	w.b.Sweep(bg)
	if code, _, _ := w.post("/validator/heartbeat", s, `{"system_metrics":{}}`); code != 200 {
		t.Fatalf("after 59 s: %d", code)
	}
	w.skip(61 * time.Second)
	w.b.Sweep(bg)
	if code, _, _ := w.post("/validator/heartbeat", s, `{"system_metrics":{}}`); code != 401 {
		t.Fatalf("after 61 s: %d", code)
	}
	if _, out, text := w.get("/evaluation-run/get-by-id?evaluation_run_id=" + j.Runs[1].ID); out["error_code"] != 3010.0 {
		t.Error(text)
	}
	s = w.join('1')
	if j = w.ask(s); j == nil || len(j.Runs) != 1 {
		t.Fatalf("%+v", j)
	}
	w.walk(s, j.Runs[0].ID, 1)
	if got := w.status(agent); got != "screening_2" {
		t.Error(got)
	}
}

// A lease lives as long as its session, however long a run takes.
func TestProlonged(t *testing.T) {
	w := newWorld(t)
	agent := w.enter('a', "x")
	s := w.join('1')
	j := w.ask(s)
	for range 3 * 60 {
		w.skip(20 * time.Second)
		if code, _, _ := w.post("/validator/heartbeat", s, `{"system_metrics":{}}`); code != 200 {
			t.Fatal(code)
		}
		w.b.Sweep(bg)
		must(t, w.api.Sweep(bg)) // what ends leases: by itself it would look now and then
	}
	for _, r := range j.Runs {
		w.walk(s, r.ID, 1)
	}
	if got := w.status(agent); got != "screening_2" {
		t.Error(got)
	}
}

// What an operator does to validators.
func TestAdmin(t *testing.T) {
	w := newWorld(t)
	w.enter('a', "x")
	s := w.join('1')
	paths := map[string]string{"/admin/validators-paused": http.MethodPut, "/admin/validator-sessions/x": http.MethodDelete, "/admin/blacklisted-validators/x": http.MethodPut}
	for p, m := range paths {
		if code, _, _ := w.send(m, p, "wrong", "", nil); code != 401 {
			t.Errorf("%s with a wrong key: %d", p, code)
		}
	}
	code, out, text := w.send(http.MethodPut, "/admin/validators-paused", adminKey, "", nil)
	if w.want(200, code, out, text); out["validators_paused"] != true {
		t.Error(text)
	}
	w.open() // it survives
	if j := w.ask(s); j != nil {
		t.Errorf("paused: %+v", j)
	}
	if _, _, text := w.get("/validator/connected-validators-info"); !strings.Contains(text, `"status":"paused"`) {
		t.Error(text)
	}
	w.send(http.MethodDelete, "/admin/validators-paused", adminKey, "", nil)
	code, out, text = w.send(http.MethodPut, "/admin/blacklisted-validators/screener-1-1", adminKey, "", nil)
	if w.want(200, code, out, text); fmt.Sprint(out["blacklisted_validators"]) != "[screener-1-1]" {
		t.Error(text)
	}
	if j := w.ask(s); j != nil {
		t.Errorf("blacklisted: %+v", j)
	}
	w.send(http.MethodDelete, "/admin/blacklisted-validators/screener-1-1", adminKey, "", nil)
	if j := w.ask(s); j == nil {
		t.Error("nothing, though it may")
	}
	if code, _, _ = w.send(http.MethodDelete, "/admin/validator-sessions/screener-1-1", adminKey, "", nil); code != 204 {
		t.Errorf("kick: %d", code)
	}
	if code, _, _ = w.send(http.MethodDelete, "/admin/validator-sessions/screener-1-1", adminKey, "", nil); code != 404 {
		t.Errorf("kick again: %d", code)
	}
	if j := w.ask(w.join('1')); j == nil {
		t.Error("what the kicked one had is lost")
	}
	w.cfg.AdminKey = ""
	w.open()
	if code, _, _ = w.send(http.MethodPut, "/admin/validators-paused", "", "", nil); code != 503 {
		t.Errorf("not configured: %d", code)
	}
}

// Tasks go out by their digest, without their solution; links end.
func TestTasks(t *testing.T) {
	w := newWorld(t)
	w.enter('a', "x")
	s := w.join('1')
	if code, _, _ := w.post("/validator/task-download-url", s, map[string]any{"task_digest": "sha256:x"}); code != 409 {
		t.Errorf("no evaluation: %d", code)
	}
	j := w.ask(s)
	digest := j.Runs[0].Spec["task_digest"].(string)
	if code, _, _ := w.post("/validator/task-download-url", s, map[string]any{"task_digest": "sha256:x"}); code != 404 {
		t.Errorf("another task: %d", code)
	}
	code, out, text := w.post("/validator/task-download-url", s, map[string]any{"task_digest": digest})
	link := strings.TrimPrefix(w.want(200, code, out, text)["url"].(string), "http://arena")
	_, _, body := w.get(link)
	z, err := gzip.NewReader(strings.NewReader(body))
	must(t, err)
	var files []ridges.File
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		b, err := io.ReadAll(r)
		must(t, err)
		files = append(files, ridges.File{Path: strings.TrimPrefix(h.Name, "task/"), Mode: uint32(h.Mode), Data: b})
	}
	if got := ridges.TaskDigest(files); got != digest || len(files) != 3 {
		t.Errorf("%d files of digest %s, want %s", len(files), got, digest)
	}
	put := strings.TrimPrefix(j.URLs[j.Runs[0].ID], "http://arena")
	for _, b := range []string{"\x1f\x8bone", "\x1f\x8btwo"} {
		if code, _, text := w.send(http.MethodPut, put, "", "", []byte(b)); code != 200 {
			t.Errorf("%d %s", code, text)
		}
	}
	for name, p := range map[string]string{"another key": put + "0", "another run": strings.Replace(put, j.Runs[0].ID, j.Runs[1].ID, 1)} {
		if code, _, _ := w.send(http.MethodPut, p, "", "", []byte("\x1f\x8b")); code != 403 {
			t.Errorf("%s: %d", name, code)
		}
	}
	w.skip(6 * time.Minute)
	if code, _, _ := w.get(link); code != 403 {
		t.Errorf("after its time: %d", code)
	}
}

// Keys are checked with their provider and lie sealed; a validator that holds the
// lease has them, and nobody else.
func TestKeys(t *testing.T) {
	answers := map[string]string{
		"/key":                  `{"data":{"label":"l","creator_user_id":"u"}}`,
		"/workspaces":           `{"data":[{"id":"w1"},{"id":"w2"}]}`,
		"/keys?workspace_id=w1": `{"data":[{"label":"other","creator_user_id":"u"}]}`,
		"/keys?workspace_id=w2": `{"data":[{"label":"l","creator_user_id":"u"}]}`,
		"/workspaces/w2":        `{"data":{"is_observability_io_logging_enabled":false}}`,
	}
	down := false
	p := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch a, ok := answers[r.URL.RequestURI()]; {
		case down:
			rw.WriteHeader(500)
		case !ok || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer sk-"):
			rw.WriteHeader(401)
		default:
			fmt.Fprint(rw, a)
		}
	}))
	defer p.Close()
	key, err := NewKey()
	must(t, err)
	enc := func(k []byte) string { return b64(k) }
	seal, err := NewSealer(enc(key))
	must(t, err)
	w := newWorld(t, func(c *Config, _ *agon.Arena) { c.Keys = &Keys{URL: p.URL, Sealer: seal} })
	look := func(api string) (int, map[string]any) {
		code, out, _ := w.post("/upload/validate-openrouter-keys", "", map[string]any{"openrouter_api_key": api, "openrouter_management_key": "sk-m"})
		return code, out
	}
	if code, out := look("sk-run"); code != 200 || out["valid"] != true {
		t.Errorf("%d %v", code, out)
	}
	if code, out := look("bad"); code != 200 || out["valid"] != false || out["reason"] == nil {
		t.Errorf("%d %v", code, out)
	}
	for path, a := range map[string]string{"/workspaces/w2": `{"data":{"is_observability_broadcast_enabled":true}}`, "/keys?workspace_id=w1": answers["/keys?workspace_id=w2"], "/keys?workspace_id=w2": `{"data":[]}`} {
		old := answers[path]
		answers[path] = a
		if code, out := look("sk-run"); code != 200 || out["valid"] != false {
			t.Errorf("%s: %d %v", path, code, out)
		}
		answers[path] = old
	}
	down = true
	if code, _ := look("sk-run"); code != 503 {
		t.Errorf("an outage: %d", code)
	}
	down = false
	agent := w.enter('a', "x")
	raw := ""
	names, err := w.b.dir.Names("agent-")
	must(t, err)
	for _, n := range names {
		var v json.RawMessage
		_, err := w.b.dir.Get(n, &v)
		must(t, err)
		raw += string(v)
	}
	if strings.Contains(raw, "sk-") {
		t.Error("a key lies open")
	}
	other, err := NewKey()
	must(t, err)
	w.cfg.Keys.Sealer, err = NewSealer(enc(other))
	must(t, err)
	w.open()
	if j := w.ask(w.join('1')); j != nil {
		t.Errorf("keys that cannot be opened: %+v", j)
	}
	w.cfg.Keys.Sealer, err = NewSealer(enc(other) + "," + enc(key)) // rotated
	must(t, err)
	w.open()
	j := w.ask(w.join('1'))
	if j == nil || j.Agent != agent || j.Router["api_key"] != "sk-run" || j.Router["management_key"] != "sk-manage" || j.Router["workspace_id"] != "w2" || j.Router["expected_api_key_sha256"] != agon.Sum([]byte("sk-run")).Hex() {
		t.Errorf("%+v", j)
	}
	sealed, err := seal.Seal("x")
	must(t, err)
	if sealed[0] != 1 || len(sealed) != 1+12+1+16 {
		t.Errorf("%x", sealed)
	}
	for _, b := range [][]byte{nil, sealed[:13], append([]byte{2}, sealed[1:]...), append(bytes.Clone(sealed[:len(sealed)-1]), sealed[len(sealed)-1]^1)} {
		if _, err := seal.Open(b); !errors.Is(err, ErrSealed) {
			t.Errorf("%x: %v", b, err)
		}
	}
	for _, k := range []string{"", "x", enc(key[:31]), enc(key) + ","} {
		if _, err := NewSealer(k); err == nil {
			t.Errorf("%q is not a key", k)
		}
	}
}

// A set that changes begins anew: its number, its board, and how long a hotkey waits.
func TestSets(t *testing.T) {
	w := newWorld(t)
	w.enter('a', "x")
	_, out, _ := w.get("/scoring/latest-set-info")
	if out["latest_set_id"] != 7.0 {
		t.Fatal(out)
	}
	must(t, w.b.rested(bg, w.keys['b'].SS58()))
	if err := w.b.rested(bg, w.keys['a'].SS58()); err == nil {
		t.Error("no wait within a set")
	}
	a, err := w.api.FullArena(bg, "ridges")
	must(t, err)
	next := a.Arena
	next.Tasks = next.Tasks[:7]
	next.Stages[2].Tasks = next.Stages[2].Tasks[:3]
	must(t, w.api.EnsureArena(bg, next))
	_, out, _ = w.get("/scoring/latest-set-info")
	if out["latest_set_id"] != 8.0 {
		t.Fatal(out)
	}
	must(t, w.b.rested(bg, w.keys['a'].SS58()))
	if _, _, text := w.get("/evaluation-sets/"); strings.Count(text, `"id"`) != 2 {
		t.Error(text)
	}
}
