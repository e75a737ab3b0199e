package wire

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/coding/play"
	"github.com/agon-arena/agon/kinds/coding/signin"
)

// seedWorld is an arena of version A0: no stages, one evaluation.
func seedWorld(t *testing.T, how string) (*world, *httptest.Server) {
	t.Helper()
	w := newWorld(t, func(c *Config, a *agon.Arena) {
		c.A0 = how
		a.Stages, a.Tasks, a.Incentive = nil, a.Tasks[:2], "winner_takes_all"
	})
	srv := httptest.NewServer(w.h)
	t.Cleanup(srv.Close)
	return w, srv
}

// plug is a client of the web socket.
type plug struct {
	t    *testing.T
	conn *websocket.Conn
}

func dial(t *testing.T, srv *httptest.Server) *plug {
	t.Helper()
	conn, resp, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http")+"/ws", nil)
	if err != nil {
		t.Fatal(err, resp)
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &plug{t, conn}
}

func (p *plug) say(v any) {
	p.t.Helper()
	b, err := json.Marshal(v)
	must(p.t, err)
	must(p.t, p.conn.Write(p.t.Context(), websocket.MessageText, b))
}

// hear reads the next frame of an event.
func (p *plug) hear(event string) map[string]any {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, b, err := p.conn.Read(ctx)
		if err != nil {
			p.t.Fatalf("waiting for %s: %v", event, err)
		}
		var out map[string]any
		must(p.t, json.Unmarshal(b, &out))
		if out["event"] == event {
			return out
		}
	}
}

// ends reads what a watcher is told until the server closes, and says why it did.
func (p *plug) ends() error {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, _, err := p.conn.Read(ctx); err != nil {
			return err
		}
	}
}

func (w *world) seedUpload(k byte, src []byte, version, file string) (int, map[string]any, string) {
	w.t.Helper()
	info := string(signin.FileInfoMessage(w.keys[k].SS58(), agon.Sum(src).Hex(), version))
	ctype, body := multi(w.t, []part{{"public_key", w.keys[k].PublicHex()}, {"file_info", info}, {"signature", w.sign(k, info)}, {"name", "seed"}}, file, src)
	return w.send(http.MethodPost, "/upload/agent", "", ctype, body)
}

func (w *world) helloOf(k byte) map[string]any {
	at := strconv.FormatInt(w.clock().Unix(), 10)
	msg := string(signin.HelloMessage(w.keys[k].SS58(), "c0ffee", at))
	return map[string]any{
		"event": "validator-info", "validator_hotkey": w.keys[k].SS58(), "public_key": w.keys[k].PublicHex(), "signature": w.sign(k, msg), "message": msg,
		"version_commit_hash": "c0ffee", "timestamp": at,
	}
}

// A validator of version A0 says hello, is given an agent, reports its runs and
// finishes: a score appears, and those who watch see the five events.
func TestSeedSocket(t *testing.T) {
	w, srv := seedWorld(t, A0Unsigned)
	watcher := dial(t, srv)
	watcher.say(map[string]any{"event": "what is this"}) // it is connected when this was read
	v := dial(t, srv)
	v.say(map[string]any{"event": "validator-version", "version_commit_hash": "c0ffee", "validator_hotkey": w.keys['v'].SS58()})
	watcher.hear("validator-connected")
	v.hear("evaluation-available")
	v.say(map[string]any{"event": "get-next-evaluation"})
	if f := v.hear("evaluation"); f["evaluation_id"] != nil {
		t.Fatalf("%v", f)
	}
	code, _, text := w.seedUpload('a', agentSource("seed"), "-1", "agent.py")
	w.want(200, code, nil, text)
	v.hear("evaluation-available")
	v.say(map[string]any{"event": "get-next-evaluation"})
	f := v.hear("evaluation")
	id, agent := f["evaluation_id"].(string), f["agent_version"].(map[string]any)
	if agent["miner_hotkey"] != w.keys['a'].SS58() || agent["version_num"] != 0.0 || len(f["evaluation_runs"].([]any)) != 2 {
		t.Fatalf("%v", f)
	}
	// The code goes to whom it was given to play, and to nobody else.
	version := agent["version_id"].(string)
	if code, _, text := w.get("/retrieval/agent-version-file?version_id=" + version); code == 200 {
		t.Errorf("a stranger got %s", text)
	}
	resp, err := http.Get(srv.URL + "/retrieval/agent-version-file?version_id=" + version)
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("the validator got %d", resp.StatusCode)
	}
	v.say(map[string]any{"event": "start-evaluation", "evaluation_id": id})
	watcher.hear("evaluation-started")
	for i, x := range f["evaluation_runs"].([]any) {
		run := x.(map[string]any)
		for _, status := range []string{"started", "sandbox_created", "patch_generated", "eval_started", "result_scored", "result_scored"} {
			v.say(map[string]any{"event": "upsert-evaluation-run", "evaluation_run": map[string]any{
				"run_id": "their-own", "evaluation_id": id, "swebench_instance_id": run["swebench_instance_id"], "status": status, "solved": i == 0, "response": "diff",
			}})
			if status != "result_scored" {
				continue
			}
		}
		for watcher.hear("evaluation-run-updated")["data"].(map[string]any)["status"] != "result_scored" {
			continue
		}
	}
	v.say(map[string]any{"event": "upsert-evaluation-run", "evaluation_run": map[string]any{"swebench_instance_id": "none of ours", "status": "started"}})
	v.say(map[string]any{"event": "finish-evaluation", "evaluation_id": id, "errored": false})
	watcher.hear("evaluation-finished")
	code, out, text := w.get("/retrieval/agent-by-id?agent_id=" + version)
	if w.want(200, code, out, text); out["status"] != "finished" || out["final_score"] != 0.5 {
		t.Errorf("%v", out)
	}
	must(t, v.conn.Close(websocket.StatusNormalClosure, ""))
	watcher.hear("validator-disconnected")
	if w.b.sessionOf(w.keys['v'].SS58()) != nil {
		t.Error("its session stays")
	}
}

// Hellos that prove nothing are refused, and take no session over.
func TestSeedHellos(t *testing.T) {
	w, srv := seedWorld(t, A0Signed)
	bad := w.helloOf('v')
	bad["signature"] = strings.Repeat("0", 128)
	for name, f := range map[string]map[string]any{
		"unsigned":    {"event": "validator-version", "version_commit_hash": "c", "validator_hotkey": w.keys['v'].SS58()},
		"a bad one":   bad,
		"a miner":     w.helloOf('a'),
		"an outsider": w.helloOf('z'),
	} {
		p := dial(t, srv)
		p.say(f)
		if p.hear("authentication-failed"); w.b.sessionOf(f["validator_hotkey"].(string)) != nil {
			t.Errorf("%s has a session", name)
		}
	}
	p := dial(t, srv)
	p.say(w.helloOf('v'))
	p.hear("evaluation-available")
	// What was not reported goes to others when the connection ends.
	code, _, text := w.seedUpload('a', agentSource("seed"), "-1", "agent.py")
	w.want(200, code, nil, text)
	p.say(map[string]any{"event": "get-next-evaluation"})
	first := p.hear("evaluation")["agent_version"].(map[string]any)["version_id"]
	_ = p.conn.CloseNow()
	q := dial(t, srv)
	q.say(w.helloOf('w'))
	for { // until the other's is given back
		q.say(map[string]any{"event": "get-next-evaluation"})
		if f := q.hear("evaluation"); f["evaluation_id"] != nil {
			if got := f["agent_version"].(map[string]any)["version_id"]; got != first {
				t.Errorf("%v, want %v", got, first)
			}
			break
		}
	}
	// A flood of frames before a hello, and what is not JSON.
	flood := dial(t, srv)
	for range maxQuiet + 1 {
		if b := []byte(`{"event":"x"}`); flood.conn.Write(t.Context(), websocket.MessageText, b) != nil {
			break
		}
	}
	if err := flood.ends(); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("a flood: %v", err)
	}
	text2 := dial(t, srv)
	must(t, text2.conn.Write(t.Context(), websocket.MessageText, []byte("[]")))
	if err := text2.ends(); websocket.CloseStatus(err) != websocket.StatusUnsupportedData {
		t.Errorf("no object: %v", err)
	}
}

func TestSeedUpload(t *testing.T) {
	w, _ := seedWorld(t, A0Signed)
	good := agentSource("one")
	for _, c := range []struct {
		name, version, file string
		src                 []byte
		status              int
	}{
		{"a stale version", "0", "agent.py", good, 409},
		{"another name", "-1", "mine.py", good, 400},
		{"an import", "-1", "agent.py", []byte("import flask\n" + string(good)), 400},
		{"a dotted name that no list has", "-1", "agent.py", []byte("import sklearn.linear_model\n" + string(good)), 400},
		{"a relative one", "-1", "agent.py", []byte("def agent_main(input):\n    from . import x\n    return ''\n"), 400},
		{"two arguments", "-1", "agent.py", []byte("def agent_main(a, b):\n    return ''\n"), 400},
		{"too large", "-1", "agent.py", []byte(string(good) + "#" + strings.Repeat("x", maxSeedAgent)), 400},
		{"a good one", "-1", "agent.py", good, 200},
		{"too soon", "0", "agent.py", agentSource("two"), 429},
	} {
		if code, _, text := w.seedUpload('a', c.src, c.version, c.file); code != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, code, text, c.status)
		}
	}
	code, out, text := w.get("/retrieval/agent?miner_hotkey=" + w.keys['a'].SS58() + "&include_code=false")
	if v := w.want(200, code, out, text)["latest_agent"].(map[string]any); v["name"] != "seed" || v["latest_version"].(map[string]any)["version_num"] != 0.0 {
		t.Errorf("%s", text)
	}
	w.skip(2 * time.Minute)
	code, _, text = w.seedUpload('a', agentSource("two"), "0", "agent.py")
	w.want(200, code, nil, text)
	code, out, text = w.get("/retrieval/latest-agent?miner_hotkey=" + w.keys['a'].SS58())
	if v := w.want(200, code, out, text); v["version_num"] != 1.0 {
		t.Errorf("%s", text)
	}
	// Where version A0 is closed, an upload of its fields lacks those of C.
	w.cfg.A0 = ""
	w.open()
	if code, _, text := w.seedUpload('b', good, "-1", "agent.py"); code != 422 {
		t.Errorf("closed: %d %s", code, text)
	}
}

func TestImports(t *testing.T) {
	got, err := play.Imports("import os, sys as s\nimport a.b.c\nfrom x.y import (z,\n w)\ndef f():\n    if 1: import q\n    from .. import r; import t\n'import no'\nx = 1 # import no\nraise X from e\nd = {'a': b}\n")
	if want := []string{"os", "sys", "a.b.c", "x.y", "q", "", "t"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}
