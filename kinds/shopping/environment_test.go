package shopping

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/agon-arena/agon/engine/environment"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/shop"
	"github.com/agon-arena/agon/ui/env"
)

// envWorld is the demo's problems as an environment, with the ids that solve each.
type envWorld struct {
	env    *shopEnv
	server *env.Server
	url    string
	answer map[string]string // by task
}

func newEnvWorld(t testing.TB) *envWorld {
	t.Helper()
	o := kit.Options{Cache: t.TempDir(), Data: t.TempDir(), Log: slog.New(slog.DiscardHandler), Getenv: func(string) string { return "" }}
	k := Kit()
	o.Kits = kit.List{k}
	list, _, err := kit.LoadSet(o, play.Name, publicSet)
	if err != nil {
		t.Fatal(err)
	}
	e, err := k.Environment(t.Context(), o, list)
	if err != nil {
		t.Fatal(err)
	}
	w := &envWorld{env: e.(*shopEnv), answer: map[string]string{}}
	for _, tk := range list {
		w.answer[tk.Key] = solution(t, tk)
	}
	w.server = &env.Server{Sessions: environment.NewSessions(e, environment.Limits{}, time.Now), Log: o.Log}
	s := httptest.NewServer(w.server.Handler())
	t.Cleanup(s.Close)
	w.url = s.URL
	return w
}

// solution is the answer that a problem's maker had in mind.
func solution(t testing.TB, tk *task.Task) string {
	t.Helper()
	b, err := tk.ReadFile(play.RewardFile, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	var p shop.Problem
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range p.Reward.Items {
		ids = append(ids, r.ProductID)
	}
	return strings.Join(ids, ",")
}

func (w *envWorld) post(t testing.TB, c *http.Client, path, sid string, body any) (int, []byte) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+path, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if sid != "" {
		r.Header.Set("X-Session-ID", sid)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, out
}

// orsData is what an ORS client reads of a call's stream.
func orsData(t testing.TB, b []byte) (out struct {
	OK     bool
	Reason string
	Output struct {
		Reward   *float64
		Finished bool
		Blocks   []struct{ Text string }
	}
},
) {
	t.Helper()
	_, data, ok := strings.Cut(string(b), "event: end\ndata: ")
	if !ok || !strings.HasPrefix(string(b), "event: task_id\ndata: ") {
		t.Fatalf("no stream: %.200s", b)
	}
	if err := json.Unmarshal([]byte(data), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The reward of every form is the grader's: 1 for the problem's own answer, 0 for
// another, whatever the trainer's dialect.
func TestEnvironmentRewardsAsTheGrader(t *testing.T) {
	w := newEnvWorld(t)
	c := &http.Client{}
	for i, tk := range w.env.Tasks() {
		for _, right := range []bool{true, false} {
			ids, want := w.answer[tk.Key], 1.0
			if !right {
				ids, want = "no-such-product", 0
			}
			sid := fmt.Sprintf("s-%d-%v", i, right)
			if code, b := w.post(t, c, "/create", sid, map[string]any{"task_spec": tk}); code != 200 {
				t.Fatalf("create: %d %s", code, b)
			}
			end := map[string]any{}
			if strings.HasPrefix(ids, "none-") { // nothing answers it: right is who says so
				end["status"] = "failure"
			} else {
				_, b := w.post(t, c, "/shopping/call", sid, map[string]any{"name": "recommend_product", "input": map[string]any{"product_ids": ids}})
				if d := orsData(t, b); !d.OK || d.Output.Finished || d.Output.Reward != nil {
					t.Fatalf("recommend: %s", b)
				}
			}
			_, b := w.post(t, c, "/shopping/call", sid, map[string]any{"name": "terminate", "input": end})
			d := orsData(t, b)
			if !d.OK || !d.Output.Finished || d.Output.Reward == nil || *d.Output.Reward != want {
				t.Errorf("%s, %v: %s", tk.Key, right, b)
			}
			// A trainer that lost the answer asks again.
			_, b = w.post(t, c, "/shopping/call", sid, map[string]any{"name": "terminate", "input": end})
			if d := orsData(t, b); !d.OK || !d.Output.Finished || d.Output.Reward == nil || *d.Output.Reward != want {
				t.Errorf("%s, the last call again: %s", tk.Key, b)
			}
			_, b = w.post(t, c, "/shopping/call", sid, map[string]any{"name": "find_product", "input": map[string]any{"q": "x"}})
			if d := orsData(t, b); d.OK || d.Reason != "episode_finished" {
				t.Errorf("after the end: %s", b)
			}
			// The grader says the same of the same answer.
			dialogue := fmt.Sprintf(`[{"completion":{"message":{"tool_call":[{"name":"recommend_product","parameters":{"product_ids":%q}}]}}}]`, ids)
			if strings.HasPrefix(ids, "none-") {
				dialogue = `[{"completion":{"message":{"tool_call":[{"name":"terminate","parameters":{"status":"failure"}}]}}}]`
			}
			g, err := w.env.floor.Grade(t.Context(), w.env.whole[tk.Key], []byte(dialogue))
			if err != nil || g.Success != right {
				t.Errorf("%s: the grader says %v, %v", tk.Key, g.Success, err)
			}
			w.post(t, c, "/delete", sid, nil)
		}
	}
	if n := w.server.Sessions.Len(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// Nothing of what was asked for leaves by any route.
func TestEnvironmentShowsNoAnswer(t *testing.T) {
	w := newEnvWorld(t)
	c := &http.Client{}
	var all bytes.Buffer
	for _, path := range []string{"/list_environments", "/shopping/splits", "/shopping/tools", "/schema", "/metadata"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 200 {
			t.Errorf("%s: %s", path, resp.Status)
		}
		_, _ = io.Copy(&all, resp.Body)
		_ = resp.Body.Close()
	}
	for _, path := range []string{"/shopping/tasks", "/shopping/num_tasks", "/shopping/task_range"} {
		code, b := w.post(t, c, path, "", map[string]any{"split": "train"})
		if code != 200 {
			t.Errorf("%s: %d %s", path, code, b)
		}
		all.Write(b)
		for _, split := range []string{"test", "hidden", "held"} {
			if code, b := w.post(t, c, path, "", map[string]any{"split": split}); code != 400 || !bytes.Contains(b, []byte("Invalid split")) {
				t.Errorf("%s of %s: %d %s", path, split, code, b)
			}
		}
	}
	for key, ids := range w.answer {
		for id := range strings.SplitSeq(ids, ",") {
			if bytes.Contains(all.Bytes(), []byte(id)) {
				t.Errorf("%s: the answer %s stands in a reply", key, id)
			}
		}
	}
	if code, b := w.post(t, c, "/create", "x", map[string]any{"task_spec": map[string]string{"key": hiddenSet + "/001"}}); code != 404 {
		t.Errorf("a hidden task: %d %s", code, b)
	}
}

func TestEnvironmentOverWebSocket(t *testing.T) {
	w := newEnvWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(w.url, "http")+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(4 << 20)
	type observation struct {
		Type string
		Data struct {
			Observation struct {
				Task   string
				Result any
				Tools  []struct{ Name string }
				Error  *struct {
					Kind string `json:"error_type"`
				}
			}
			Reward *float64
			Done   bool
			Code   string
			Steps  int `json:"step_count"`
		}
	}
	say := func(msg string) (o observation) {
		t.Helper()
		if err := c.Write(ctx, websocket.MessageText, []byte(msg)); err != nil {
			t.Fatal(err)
		}
		_, b, err := c.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	for msg, want := range map[string]string{
		`{`: "INVALID_JSON", `{"type":"dance"}`: "UNKNOWN_TYPE", `{"type":"step","data":{"type":"call_tool","tool_name":"terminate"}}`: "EXECUTION_ERROR",
		`{"type":"step","data":{"type":"jump"}}`: "VALIDATION_ERROR", `{"type":"reset","data":{"task":"demo-hidden/001"}}`: "VALIDATION_ERROR", `{"type":"reset","data":{"index":100000}}`: "VALIDATION_ERROR",
	} {
		if o := say(msg); o.Type != "error" || o.Data.Code != want {
			t.Errorf("%s: %+v, want %s", msg, o, want)
		}
	}
	if o := say(`{"type":"step","data":{"type":"list_tools"}}`); len(o.Data.Observation.Tools) != 4 {
		t.Errorf("tools: %+v", o)
	}
	o := say(`{"type":"reset","data":{"index":-1,"seed":7}}`)
	key := o.Data.Observation.Task
	if w.answer[key] == "" || o.Data.Done || o.Data.Reward != nil {
		t.Fatalf("reset: %+v", o)
	}
	call := func(tool, args string) observation {
		return say(fmt.Sprintf(`{"type":"step","data":{"type":"call_tool","tool_name":%q,"arguments":%s}}`, tool, args))
	}
	if o := call("fly", `{}`); o.Data.Observation.Error == nil || o.Data.Observation.Error.Kind != "tool_not_found" {
		t.Errorf("no such tool: %+v", o)
	}
	if o := call("recommend_product", `{}`); o.Data.Observation.Error == nil || o.Data.Observation.Error.Kind != "invalid_args" {
		t.Errorf("no ids: %+v", o)
	}
	if o := call("find_product", `{"q":"red shoes"}`); o.Data.Observation.Error != nil || !strings.HasPrefix(fmt.Sprint(o.Data.Observation.Result), "[") {
		t.Errorf("search: %+v", o)
	}
	call("recommend_product", fmt.Sprintf(`{"product_ids":%q}`, w.answer[key]))
	if o := call("terminate", `{"status":"success"}`); !o.Data.Done || o.Data.Reward == nil || *o.Data.Reward != 1 {
		t.Errorf("end: %+v", o)
	}
	if o := say(`{"type":"state"}`); o.Type != "state" || o.Data.Steps != 4 {
		t.Errorf("state: %+v", o)
	}
	// A trainer that goes leaves nothing behind.
	_ = c.Close(websocket.StatusNormalClosure, "")
	for w.server.Sessions.Len() != 0 {
		select {
		case <-ctx.Done():
			t.Fatal("the session outlives its connection")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestEnvironmentOverRPCAndNeMo(t *testing.T) {
	w := newEnvWorld(t)
	c := &http.Client{}
	rpc := func(method string, params any) (out struct {
		Result struct {
			Session string `json:"session_id"`
			Task    struct{ Key string }
			Tools   []any
			Meta    struct{ Reward *float64 } `json:"_meta"`
		}
		Error *struct{ Code int }
	},
	) {
		t.Helper()
		code, b := w.post(t, c, "/mcp", "", map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
		if code != 200 {
			t.Fatalf("%s: %d %s", method, code, b)
		}
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := rpc("tools/list", map[string]any{}); len(got.Result.Tools) != 4 {
		t.Errorf("%+v", got)
	}
	made := rpc("openenv/session/create", map[string]any{"index": 3})
	arg := func(name string, args any) map[string]any {
		return map[string]any{"session_id": made.Result.Session, "name": name, "arguments": args}
	}
	rpc("tools/call", arg("recommend_product", map[string]string{"product_ids": w.answer[made.Result.Task.Key]}))
	if got := rpc("tools/call", arg("terminate", map[string]any{})); got.Result.Meta.Reward == nil || *got.Result.Meta.Reward != 1 {
		t.Errorf("%+v", got)
	}
	if got := rpc("tools/call", arg("terminate", map[string]any{})); got.Result.Meta.Reward == nil || *got.Result.Meta.Reward != 1 {
		t.Errorf("the last call again: %+v", got)
	}
	if got := rpc("tools/call", arg("find_product", map[string]any{"q": "x"})); got.Error == nil {
		t.Errorf("after the end: %+v", got)
	}
	rpc("openenv/session/close", map[string]any{"session_id": made.Result.Session})
	for method, code := range map[string]int{"openenv/session/close": -32602, "no/such": -32601} {
		if got := rpc(method, map[string]any{"session_id": "gone"}); got.Error == nil || got.Error.Code != code {
			t.Errorf("%s: %+v", method, got)
		}
	}

	// NeMo Gym: played here with a cookie, then verified; and verified by the
	// response's calls alone, as a trainer does that had tools of its own.
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := &http.Client{Jar: jar}
	key := w.env.Tasks()[3].Key
	if code, b := w.post(t, n, "/seed_session", "", map[string]any{"verifier_metadata": map[string]string{"task": key}}); code != 200 {
		t.Fatalf("seed: %d %s", code, b)
	}
	w.post(t, n, "/recommend_product", "", map[string]string{"product_ids": w.answer[key]})
	w.post(t, n, "/terminate", "", map[string]string{})
	value := func(client *http.Client, body map[string]any) float64 {
		t.Helper()
		code, b := w.post(t, client, "/verify", "", body)
		var out struct{ Reward *float64 }
		if err := json.Unmarshal(b, &out); err != nil || code != 200 || out.Reward == nil {
			t.Fatalf("verify: %d %s", code, b)
		}
		return *out.Reward
	}
	if v := value(n, map[string]any{"response": map[string]any{"output": []any{}}}); v != 1 {
		t.Errorf("its own episode: %v", v)
	}
	calls := []any{
		map[string]any{"type": "message", "content": []any{}},
		map[string]any{"type": "function_call", "name": "recommend_product", "arguments": fmt.Sprintf(`{"product_ids":%q}`, w.answer[key])},
		map[string]any{"type": "function_call", "name": "terminate", "arguments": "{}"},
	}
	if v := value(c, map[string]any{"task": key, "response": map[string]any{"output": calls}}); v != 1 {
		t.Errorf("played again: %v", v)
	}
	if v := value(c, map[string]any{"task": key, "response": map[string]any{"output": calls[:2]}}); v != 0 {
		t.Errorf("an episode that never ended: %v", v)
	}
	// Who lost the answer asks again; the calls of the body are not what is paid.
	if v := value(n, map[string]any{"response": map[string]any{"output": calls[:1]}}); v != 1 {
		t.Errorf("its own episode, asked again: %v", v)
	}
	// A reward is of the task that was played, or there is none: the session never ended, or it is of another task.
	if code, b := w.post(t, n, "/seed_session", "", map[string]string{"task": key}); code != 200 {
		t.Fatalf("seed: %d %s", code, b)
	}
	u, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	x, err := w.server.Sessions.Get(jar.Cookies(u)[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	_ = x.Close()
	if code, b := w.post(t, n, "/verify", "", map[string]any{"response": map[string]any{"output": calls}}); code != 404 {
		t.Errorf("of a session that was closed without an end: %d %s", code, b)
	}
	w.post(t, n, "/seed_session", "", map[string]string{"task": key})
	w.post(t, n, "/recommend_product", "", map[string]string{"product_ids": w.answer[key]})
	w.post(t, n, "/terminate", "", map[string]string{})
	if v := value(n, map[string]any{"task": w.env.Tasks()[4].Key, "response": map[string]any{"output": calls}}); v != 0 {
		t.Errorf("another task was paid with the session's reward: %v", v)
	}
	if v := value(n, map[string]any{"task": key, "response": map[string]any{"output": []any{}}}); v != 1 {
		t.Errorf("the session was lost to another task's question: %v", v)
	}
}

// A policy that says too much, names what is not there, repeats itself or never ends costs itself its
// episode, and the server and other sessions nothing.
func TestEnvironmentBearsHostilePolicies(t *testing.T) {
	w := newEnvWorld(t)
	c := &http.Client{}
	key := w.env.Tasks()[0].Key
	open := func(sid string) {
		t.Helper()
		if code, b := w.post(t, c, "/create", sid, map[string]any{"task_spec": map[string]string{"key": key}}); code != 200 {
			t.Fatalf("create: %d %s", code, b)
		}
	}
	said := func(sid, tool string, input any) (int, string) {
		t.Helper()
		code, b := w.post(t, c, "/call", sid, map[string]any{"name": tool, "input": input})
		if code != 200 {
			return code, string(b)
		}
		return code, orsData(t, b).Reason
	}
	open("other")
	open("s")
	deep := json.RawMessage(strings.Repeat(`{"q":`, 5000) + "1" + strings.Repeat("}", 5000))
	for _, x := range []struct {
		what, tool string
		input      any
		code       int
		reason     string
	}{
		{"1 MB of a query", "find_product", map[string]string{"q": strings.Repeat("shoe ", 1<<20/5)}, 413, ""},
		{"more than an argument may have", "find_product", map[string]string{"q": strings.Repeat("x", 65<<10)}, 200, "input_validation"},
		{"a tool that is not there", "buy_it_all", map[string]string{}, 200, "not_found"},
		{"a tool of 500 KB", strings.Repeat("t", 500<<10), map[string]string{}, 200, "not_found"},
		{"no object", "find_product", "shoes", 200, "input_validation"},
		{"depth", "find_product", deep, 200, "input_validation"},
	} {
		code, got := said("s", x.tool, x.input)
		if code != x.code || x.code == 200 && got != x.reason {
			t.Errorf("%s: %d %.200s, want %d %s", x.what, code, got, x.code, x.reason)
		}
	}
	// It never ends: the limit of calls does it, without a reward even for a right answer.
	if _, got := said("s", "recommend_product", map[string]string{"product_ids": w.answer[key]}); got != "" {
		t.Errorf("recommend: %s", got)
	}
	ended := 0
	for i := range 300 {
		_, b := w.post(t, c, "/call", "s", map[string]any{"name": "find_product", "input": map[string]any{"q": "shoes", "page": 1 + i%2}})
		d := orsData(t, b)
		if d.OK && d.Output.Finished {
			if ended = i; d.Output.Reward == nil || *d.Output.Reward != 0 {
				t.Errorf("an episode without an end: %s", b)
			}
			break
		}
	}
	if ended == 0 {
		t.Error("300 calls and no end")
	}
	// So it is where NeMo's trainer sends the calls of a whole episode.
	calls := make([]any, 1100)
	for i := range calls {
		calls[i] = map[string]any{"type": "function_call", "name": "view_product_information", "arguments": `{"product_ids":"1"}`}
	}
	var out struct{ Reward *float64 }
	code, b := w.post(t, c, "/verify", "", map[string]any{"task": key, "response": map[string]any{"output": calls[:1000]}})
	if err := json.Unmarshal(b, &out); err != nil || code != 200 || out.Reward == nil || *out.Reward != 0 {
		t.Errorf("1,000 calls: %d %.200s", code, b)
	}
	if code, b := w.post(t, c, "/verify", "", map[string]any{"task": key, "response": map[string]any{"output": calls}}); code != 200 && code != 422 {
		t.Errorf("1,100 calls: %d %.200s", code, b)
	}
	if _, got := said("other", "find_product", map[string]string{"q": "shoes"}); got != "" {
		t.Errorf("another session: %s", got)
	}
	if n := w.server.Sessions.Len(); n != 2 {
		t.Errorf("%d sessions are open", n)
	}
}

func FuzzEnvironmentRequests(f *testing.F) {
	w := newEnvWorld(f)
	h := w.server.Handler()
	for _, s := range []string{`{}`, `{"split":"train","index":0}`, `{"task_spec":{"key":"x"}}`, `{"name":"terminate","input":{}}`, `{"jsonrpc":"2.0","method":"tools/call","params":[]}`, `{"response":{"output":[{"type":"function_call","arguments":1}]}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/tasks", "/task", "/task_range", "/create", "/call", "/mcp", "/seed_session", "/verify", "/find_product"} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("X-Session-ID", "f")
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			if rec.Code >= 500 {
				t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
			}
		}
		for _, id := range []string{"f"} {
			if x, err := w.server.Sessions.Get(id); err == nil {
				_ = x.Close()
			}
		}
	})
}

// BenchmarkEnvironmentEpisode is a whole episode of a scripted policy: open, search, answer, reward.
func BenchmarkEnvironmentEpisode(b *testing.B) {
	w := newEnvWorld(b)
	tasks := w.env.Tasks()
	ctx := b.Context()
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			tk := tasks[i%len(tasks)]
			x, err := w.server.Sessions.Open(ctx, "", tk.Key, 1)
			if err != nil {
				b.Error(err)
				return
			}
			args, _ := json.Marshal(map[string]string{"q": tk.Prompt[:min(40, len(tk.Prompt))]})
			ids, _ := json.Marshal(map[string]string{"product_ids": w.answer[tk.Key]})
			for _, c := range []struct {
				name string
				args []byte
			}{{"find_product", args}, {"recommend_product", ids}, {"terminate", nil}} {
				if _, err := x.Call(ctx, "", c.name, c.args); err != nil {
					b.Error(err)
				}
			}
			_ = x.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "episodes/s")
}
