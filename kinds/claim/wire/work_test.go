package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
)

const (
	taskOne = "7ba7b810-9dad-11d1-80b4-00c04fd430c8"
	taskTwo = "7ba7b811-9dad-11d1-80b4-00c04fd430c8"
	aHome   = "9ba7b811-9dad-41d1-80b4-00c04fd430c8" // a session of a validator
	another = "9ba7b812-9dad-41d1-80b4-00c04fd430c8"
)

// pulling makes the world's platform one of the query era, with a registered validator
// v and scripts of the two miners.
func pulling(t *testing.T) (*world, *Platform, map[string]string) {
	t.Helper()
	w := newWorld(t)
	docs := index.New([]index.Doc{{ID: "a.md", URL: "https://docs.example/pier", Title: "Pier", Text: "The pier is 310 m long, the survey says.", At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}, "docs", time.Now)
	w.cfg.Work = &Work{
		Queries: func(context.Context) ([]QueryTask, error) {
			q := json.RawMessage(`{"text":"How long is the pier?"}`)
			ref := QueryReference{Text: "310 m", Citations: []*CitedNote{{URL: "https://docs.example/pier"}, nil}}
			return []QueryTask{{taskOne, q, ref, .5}, {taskTwo, q, ref, .0002}}, nil
		},
		Tools: tools.New(tools.Config{Search: docs, Now: w.clock}), Hold: time.Millisecond,
	}
	t.Cleanup(w.cfg.Work.Tools.Stop)
	p, h, err := NewPlatform(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.h = h
	ids := map[string]string{}
	for c, s := range map[byte]string{'a': "one", 'b': "two"} {
		_, out, raw := send(t, w.h, w.keys[c], "POST", scripts, upload(s))
		if out["artifact_id"] == nil {
			t.Fatalf("%s", raw)
		}
		ids[s] = out["artifact_id"].(string)
	}
	if status, out, _ := send(t, w.h, w.keys['v'], "POST", "/v1/miner-task-batches/batch", `{}`); status != 409 || out["error_code"] != "no_validators" {
		t.Errorf("a batch for nobody: %d %v", status, out)
	}
	if status, out, _ := w.work("tasks", `"target_concurrency":20,"max_active_artifacts":4,"active_attempts":[]`); status != 403 || out["error_code"] != "validator_not_registered" {
		t.Errorf("work before registration: %d %v", status, out)
	}
	w.register('v')
	if status, out, _ := send(t, w.h, w.keys['v'], "POST", "/v1/miner-task-batches/batch", `{}`); status != 409 || out["error_code"] != "no_validators" {
		t.Errorf("a batch for who asks for no work: %d %v", status, out)
	}
	w.tasks(4)
	return w, p, ids
}

func (w *world) register(c byte) {
	w.t.Helper()
	if status, _, raw := send(w.t, w.h, w.keys[c], "POST", "/v1/validators/register", `{"base_url":"http://127.0.0.1:1"}`); status != 200 {
		w.t.Fatalf("register: %d %s", status, raw)
	}
}

// work asks one of the routes of work as the validator v.
func (w *world) work(route, body string) (int, map[string]any, []byte) {
	w.t.Helper()
	return send(w.t, w.h, w.keys['v'], "POST", "/v2/miner-task-work/"+route, "{"+body+"}")
}

func (w *world) begin(p *Platform) string {
	w.t.Helper()
	status, out, raw := send(w.t, w.h, w.keys['v'], "POST", "/v1/miner-task-batches/batch", `{"champion_artifact_id":null}`)
	if status != 202 {
		w.t.Fatalf("%d %s", status, raw)
	}
	for range voteRounds {
		p.Step(w.t.Context()) // nobody votes
	}
	return out["batch_id"].(string)
}

// tasks asks for work; active are attempts that it has.
func (w *world) tasks(artifacts int, active ...string) []map[string]any {
	w.t.Helper()
	status, out, raw := w.work("tasks", fmt.Sprintf(`"target_concurrency":20,"max_active_artifacts":%d,"active_attempts":[%s]`, artifacts, strings.Join(active, ",")))
	if status != 200 {
		w.t.Fatalf("%d %s", status, raw)
	}
	var list []map[string]any
	for _, x := range out["tasks"].([]any) {
		list = append(list, x.(map[string]any))
	}
	return list
}

func attemptBody(batch, artifact, task string, n int, more string) string {
	return fmt.Sprintf(`{"batch_id":%q,"artifact_id":%q,"task_id":%q,"attempt_number":%d%s}`, batch, artifact, task, n, more)
}

func execBody(batch, artifact, task string, n int, text string) string {
	return attemptBody(batch, artifact, task, n, `,"validator_session_id":"`+aHome+`","uid":1,"miner_hotkey_ss58":"x","started_at":"2026-01-02T03:00:00+00:00","execution_completed_at":"2026-01-02T03:00:01+00:00","response":{"text":"`+text+`","citations":null},"session":{"session_id":"`+aHome+`","uid":1,"status":"completed","issued_at":"2026-01-02T03:00:00+00:00","expires_at":"2026-01-02T03:05:00+00:00"},"usage":{},"total_tool_usage":{},"trace":null`)
}

// resultBody ends an attempt: with a score, or with the code of an error and its effect.
func resultBody(batch, artifact, task string, n int, score float64, code, effect string) string {
	status, retry, result, errorCode := "succeeded", "will_not_retry", fmt.Sprintf(`{"score":%v,"specifics":{"score_breakdown":{"comparison_score":%v,"total_score":%v,"scoring_version":"v1"},"error":null,"elapsed_ms":1200.5}}`, score, score, score), "null"
	if code != "" {
		status, errorCode = "failed", `"`+code+`"`
		result = fmt.Sprintf(`{"score":%v,"specifics":{"score_breakdown":null,"error":{"code":%q,"message":"m"},"elapsed_ms":null}}`, score, code)
	}
	quoted := `"` + effect + `"`
	switch effect {
	case "":
		retry, result, quoted = "will_retry", "null", "null"
	case "delivery_failure", "attempt_failure":
		result = "null"
	}
	return attemptBody(batch, artifact, task, n, fmt.Sprintf(`,"result":%s,"terminal_attempt":{"validator_session_id":%q,"attempt_number":%d,"status":%q,"error_code":%s,"retry_decision":%q,"terminal_effect":%s,"max_attempts":1}`, result, aHome, n, status, errorCode, retry, quoted))
}

// ackOf is "accepted", or "outcome reason".
func ackOf(t *testing.T, out map[string]any, list string) string {
	t.Helper()
	rows, ok := out[list].([]any)
	if !ok || len(rows) != 1 {
		t.Fatalf("%v", out)
	}
	row := rows[0].(map[string]any)
	if row["canonical"] != (row["outcome"] == "accepted") {
		t.Errorf("canonical: %v", row)
	}
	if row["reason_code"] == nil {
		return row["outcome"].(string)
	}
	return row["outcome"].(string) + " " + row["reason_code"].(string)
}

func (w *world) exec(body string) string {
	w.t.Helper()
	_, out, _ := w.work("executions", `"executions":[`+body+`]`)
	return ackOf(w.t, out, "executions")
}

func (w *world) result(body string) string {
	w.t.Helper()
	_, out, _ := w.work("results", `"results":[`+body+`]`)
	return ackOf(w.t, out, "results")
}

// A batch is pulled task by task; each answer and each ending counts once, and the
// cascade over them decides who sits and what that earns.
func TestWork(t *testing.T) {
	w, p, ids := pulling(t)
	send(t, w.h, w.keys['a'], "PUT", "/v1/miner-config", `{"key":"task_retry_count","value":"1"}`)
	batch := w.begin(p)
	one, two := ids["one"], ids["two"]

	// One artifact at a time, and what was handed out is not handed out again.
	list := w.tasks(1)
	if len(list) != 2 || list[0]["attempt_number"] != 1.0 || list[0]["max_attempts"] != 2.0 || list[0]["artifact"].(map[string]any)["artifact_id"] != one {
		t.Fatalf("%v", list)
	}
	if ref := list[0]["task"].(map[string]any)["reference_answer"].(map[string]any); fmt.Sprint(ref["citations"]) != "[map[url:https://docs.example/pier] <nil>]" {
		t.Errorf("%v", ref)
	}
	if more := w.tasks(1, attemptBody(batch, one, taskOne, 1, ""), attemptBody(batch, one, taskTwo, 1, "")); len(more) != 0 {
		t.Errorf("a second artifact: %v", more)
	}
	if more := w.tasks(4); len(more) != 2 || more[0]["artifact"].(map[string]any)["artifact_id"] != two {
		t.Errorf("the other artifact: %v", more)
	}
	if status, _, _ := w.work("tasks", `"target_concurrency":0,"max_active_artifacts":1,"active_attempts":[]`); status != 422 {
		t.Errorf("no concurrency: %d", status)
	}
	// A validator that tells of none any more has lost them: they come again, with the same number.
	w.later(2 * time.Minute)
	if again := w.tasks(4); len(again) != 4 || again[0]["attempt_number"] != 1.0 {
		t.Errorf("after a restart of the validator: %v", again)
	}

	for _, c := range []struct{ name, got, want string }{
		{"a result without an answer", w.result(resultBody(batch, one, taskOne, 1, 1, "", "task_result")), "rejected invalid_attempt"},
		{"an attempt of the future", w.exec(execBody(batch, one, taskOne, 2, "310")), "rejected invalid_attempt"},
		{"another batch", w.exec(execBody(taskOne, one, taskOne, 1, "310")), "rejected invalid_state"},
		{"another task", w.exec(execBody(batch, one, batch, 1, "310")), "rejected invalid_attempt"},
		{"an answer", w.exec(execBody(batch, one, taskOne, 1, "310")), "accepted"},
		{"again", w.exec(execBody(batch, one, taskOne, 1, "310")), "accepted already_accepted"},
		{"another answer", w.exec(execBody(batch, one, taskOne, 1, "311")), "rejected conflicting_replay"},
		{"a timeout is tried again", w.result(resultBody(batch, one, taskTwo, 1, 0, "timeout_miner_owned", "")), "accepted"},
		{"a crash is not tried again", w.result(resultBody(batch, two, taskOne, 1, 0, "miner_unhandled_exception", "")), "rejected invalid_attempt"},
		{"an answer of an old attempt", w.exec(execBody(batch, one, taskTwo, 1, "310")), "rejected stale_attempt"},
		{"a score above", w.result(resultBody(batch, one, taskOne, 1, 2, "", "task_result")), "rejected invalid_attempt"},
		{"an unknown error", w.result(resultBody(batch, two, taskOne, 1, 0, "bad_luck", "task_result")), "rejected invalid_attempt"},
		{"a crash", w.result(resultBody(batch, two, taskOne, 1, 0, "miner_unhandled_exception", "task_result")), "accepted"},
		{"a crash that scores", w.result(resultBody(batch, two, taskTwo, 1, 1, "miner_unhandled_exception", "task_result")), "rejected invalid_attempt"},
		{"an answer after the end", w.exec(execBody(batch, two, taskOne, 1, "310")), "rejected invalid_state"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}

	scoreable := func(active ...string) []any {
		t.Helper()
		_, out, _ := w.work("scoreable-executions", `"limit":20,"active_scoring":[`+strings.Join(active, ",")+`]`)
		return out["executions"].([]any)
	}
	got := scoreable()
	if len(got) != 1 {
		t.Fatalf("to be compared: %v", got)
	}
	if x := got[0].(map[string]any); x["response"].(map[string]any)["text"] != "310" || x["task"].(map[string]any)["task_id"] != taskOne || x["max_attempts"] != 2.0 || x["artifact"].(map[string]any)["miner_hotkey_ss58"] != w.keys['a'].SS58() {
		t.Errorf("to be compared: %v", x)
	}
	if len(scoreable()) != 0 || len(scoreable(attemptBody(batch, one, taskOne, 1, ""))) != 0 {
		t.Error("it was handed out twice")
	}

	// The platform is stopped and comes back: answers and endings are there.
	p, h, err := NewPlatform(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.h = h
	p.Step(t.Context())
	if got := scoreable(); len(got) != 1 {
		t.Errorf("to be compared after a stop: %v", got)
	}
	if got := w.result(resultBody(batch, one, taskOne, 1, .5, "", "task_result")); got != "accepted" {
		t.Errorf("compared: %s", got)
	}
	if got := w.result(resultBody(batch, one, taskOne, 1, .5, "", "task_result")); got != "accepted already_accepted" {
		t.Errorf("compared again: %s", got)
	}
	if got := w.result(resultBody(batch, one, taskOne, 1, 1, "", "task_result")); got != "rejected conflicting_replay" {
		t.Errorf("compared otherwise: %s", got)
	}
	if list := w.tasks(4); len(list) != 2 || list[0]["attempt_number"] != 2.0 || list[0]["task"].(map[string]any)["task_id"] != taskTwo {
		t.Errorf("what is left: %v", list)
	}
	p.Step(t.Context())
	if _, out, _ := send(t, w.h, nil, "GET", "/v1/monitoring/miner-task-batches/"+batch, ""); out["summary"].(map[string]any)["status"] != "running" || len(out["batch"].(map[string]any)["tasks"].([]any)) != 0 {
		t.Errorf("before the end: %v", out)
	}
	for _, body := range []string{execBody(batch, one, taskTwo, 2, "310 m")} {
		if got := w.exec(body); got != "accepted" {
			t.Errorf("%s", got)
		}
	}
	w.result(resultBody(batch, one, taskTwo, 2, 1, "", "task_result"))
	w.result(resultBody(batch, two, taskTwo, 1, 0, "session_budget_exhausted", "task_result"))
	p.Step(t.Context())
	_, out, raw := send(t, w.h, nil, "GET", "/v1/monitoring/miner-task-batches/"+batch, "")
	full := out["batch"].(map[string]any)
	if out["summary"].(map[string]any)["status"] != "completed" || full["decision"].(map[string]any)["champion"] != one || out["summary"].(map[string]any)["champion_artifact_id"] != one || full["decision"].(map[string]any)["score"] != .75 || len(full["tasks"].([]any)) != 2 {
		t.Fatalf("the end: %s", raw)
	}
	status, weights, _ := send(t, w.h, w.keys['v'], "GET", "/v1/weights", "")
	if status != 200 || weights["champion_uid"] != 1.0 || fmt.Sprint(weights["weights"]) == "map[0:1]" {
		t.Errorf("weights: %d %v", status, weights)
	}
	if got := w.exec(execBody(batch, one, taskOne, 1, "310")); got != "rejected invalid_state" {
		t.Errorf("after the end: %s", got)
	}
	if names, _ := p.dir.Names("cell-"); len(names) != 0 {
		t.Errorf("left over: %v", names)
	}
}

// What a validator could not do spoils its part of a batch and nobody else's.
func TestWorkRefused(t *testing.T) {
	for code, effect := range map[string]string{
		"sandbox_start_failed": "delivery_failure", "scoring_llm_retry_exhausted": "task_result", "sandbox_invocation_failed": "task_result", "unexpected_validator_failure": "attempt_failure",
	} {
		w, p, ids := pulling(t)
		batch := w.begin(p)
		w.tasks(4)
		if got := w.result(resultBody(batch, ids["one"], taskOne, 1, 0, code, effect)); got != "accepted" {
			t.Errorf("%s: %s", code, got)
		}
		if got := w.exec(execBody(batch, ids["two"], taskOne, 1, "310")); got != "rejected invalid_state" || len(w.tasks(4)) != 0 {
			t.Errorf("%s: it plays on: %s", code, got)
		}
		p.Step(t.Context())
		_, out, raw := send(t, w.h, nil, "GET", "/v1/monitoring/miner-task-batches/"+batch, "")
		if d := out["deliveries"].([]any)[0].(map[string]any); out["summary"].(map[string]any)["status"] != "failed" || d["status"] != "refused" || d["error"] != code {
			t.Errorf("%s: %s", code, raw)
		}
	}
}

// Answers that wait take so much room and no more; what is compared makes room.
func TestWorkHeld(t *testing.T) {
	w, p, ids := pulling(t)
	batch := w.begin(p)
	w.tasks(4)
	first, second := execBody(batch, ids["one"], taskOne, 1, "310"), execBody(batch, ids["one"], taskTwo, 1, "310")
	p.cfg.Work.Held = len(first) + 10
	for _, c := range []struct{ got, want string }{
		{w.exec(first), "accepted"},
		{w.exec(second), "rejected invalid_state"},
		{w.result(resultBody(batch, ids["one"], taskOne, 1, 1, "", "task_result")), "accepted"},
		{w.exec(second), "accepted"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

// Calls of scripts come by a grant for one attempt, which pays for them.
func TestToolProxy(t *testing.T) {
	asked := ""
	model := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Authorization")
		fmt.Fprint(rw, `{"id":"x","object":"chat.completion","created":1,"model":"m","usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120},"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"310"}}]}`)
	}))
	defer model.Close()
	w, p, ids := pulling(t)
	w.cfg.Work.Providers = map[string]string{"openrouter": model.URL}
	batch := w.begin(p)
	token := map[string]string{}
	for _, x := range w.tasks(4) {
		if x["artifact"].(map[string]any)["artifact_id"] == ids["one"] {
			token[x["task"].(map[string]any)["task_id"].(string)] = x["assignment_token"].(string)
		}
	}
	ask := func(key byte, task, token, session string, n int) (int, map[string]any) {
		t.Helper()
		status, out, _ := send(t, w.h, w.keys[key], "POST", "/v1/platform-tool-proxy/grants", attemptBody(batch, ids["one"], task, n, `,"validator_session_id":"`+session+`","assignment_token":"`+token+`"`))
		return status, out
	}
	w.keys['e'] = key(t, 'e')
	w.net[w.keys['e'].SS58()] = dialect.Member{Hotkey: w.keys['e'].SS58(), Coldkey: "cold-e", UID: 9, Validator: true}
	w.register('e')
	for name, got := range map[string]func() (int, map[string]any){
		"another's token":     func() (int, map[string]any) { return ask('v', taskOne, token[taskTwo], aHome, 1) },
		"a later attempt":     func() (int, map[string]any) { return ask('v', taskOne, token[taskOne], aHome, 2) },
		"no session":          func() (int, map[string]any) { return ask('v', taskOne, token[taskOne], "", 1) },
		"another validator's": func() (int, map[string]any) { return ask('e', taskOne, token[taskOne], aHome, 1) },
	} {
		if status, out := got(); status != 403 || out["error_code"] != "platform_tool_proxy_denied" {
			t.Errorf("%s: %d %v", name, status, out)
		}
	}
	status, grant := ask('v', taskOne, token[taskOne], aHome, 1)
	if status != 200 || grant["token"] == nil || grant["expires_at"] == nil {
		t.Fatalf("%d %v", status, grant)
	}
	if _, again := ask('v', taskOne, token[taskOne], aHome, 1); again["token"] != grant["token"] {
		t.Errorf("the same again: %v", again)
	}
	if status, _ := ask('v', taskOne, token[taskOne], another, 1); status != 403 {
		t.Errorf("a second session: %d", status)
	}
	call := func(token, task, receipt, tool, kwargs string) (int, map[string]any) {
		t.Helper()
		body := attemptBody(batch, ids["one"], task, 1, `,"uid":1,"validator_session_id":"`+aHome+`","receipt_id":"`+receipt+`","tool":"`+tool+`","args":[],"kwargs":`+kwargs)
		r := httptest.NewRequest("POST", "/v1/platform-tool-proxy/tools/execute", strings.NewReader(body))
		r.Header.Set(TokenHeader, token)
		rec := httptest.NewRecorder()
		w.h.ServeHTTP(rec, r)
		var out map[string]any
		_ = json.Unmarshal(rec.Body.Bytes(), &out)
		return rec.Code, out
	}
	first := grant["token"].(string)
	status, out := call(first, taskOne, "r1", "search_web", `{"provider":"exa","search_queries":["pier"],"num":2}`)
	if status != 200 || out["actual_cost_usd"] != .0001 || out["actual_cost_provider"] != "exa" || out["response"].(map[string]any)["data"].([]any)[0].(map[string]any)["link"] != "https://docs.example/pier" {
		t.Errorf("search: %d %v", status, out)
	}
	chat := `{"provider":"openrouter","model":"openai/gpt-oss-20b","messages":[{"role":"user","content":"How long?"}],"max_tokens":50}`
	refused := func(what string, status int, out map[string]any, code string) {
		t.Helper()
		if out["error_code"] != code || status != proxyStatus[code] {
			t.Errorf("%s: %d %v, want %s", what, status, out, code)
		}
	}
	try := func(what, code, token, task, receipt, tool, kwargs string) {
		t.Helper()
		status, out := call(token, task, receipt, tool, kwargs)
		refused(what, status, out, code)
	}
	try("the same receipt", "duplicate_call", first, taskOne, "r1", "search_web", `{"provider":"exa","search_queries":["pier"]}`)
	try("no grant", "platform_tool_proxy_denied", "x", taskOne, "r2", "search_web", `{}`)
	try("a grant of another task", "platform_tool_proxy_denied", first, taskTwo, "r2", "search_web", `{}`)
	try("no provider", "unsupported_provider", first, taskOne, "r3", "search_web", `{"provider":"lycos","search_queries":["x"]}`)
	try("no model", "unsupported_model", first, taskOne, "r4", "llm_chat", strings.ReplaceAll(chat, "gpt-oss-20b", "gpt-9"))
	try("no key", "miner_credential_missing", first, taskOne, "r5", "llm_chat", chat)
	try("no such tool", "invalid_request", first, taskOne, "r6", "tooling_info", `{}`)
	try("bad arguments", "invalid_request", first, taskOne, "r7", "search_web", `{"provider":"exa","search_queries":[]}`)
	most := w.cfg.Work.Calls
	w.cfg.Work.Calls = 1
	try("more calls than an attempt has", "budget_exhausted", first, taskOne, "r8", "search_web", `{"provider":"exa","search_queries":["pier"]}`)
	w.cfg.Work.Calls = most
	const secret = "sk-or-secret"
	if status, out, _ := send(t, w.h, w.keys['a'], "PUT", "/v1/miner-config", `{"key":"provider_credentials.openrouter","value":"`+secret+`"}`); status != 200 || strings.Contains(fmt.Sprint(out), secret) {
		t.Fatalf("%d %v", status, out)
	}
	if status, out := call(first, taskOne, "r8", "llm_chat", chat); status != 200 || asked != "Bearer "+secret || out["actual_cost_usd"].(float64) <= 0 {
		t.Errorf("llm_chat: %d %v, asked with %q", status, out, asked)
	}
	// A task whose money is used up: the second search does not fit.
	_, poor := ask('v', taskTwo, token[taskTwo], another, 1)
	small := poor["token"].(string)
	poorCall := func(receipt string) (int, map[string]any) {
		body := attemptBody(batch, ids["one"], taskTwo, 1, `,"uid":1,"validator_session_id":"`+another+`","receipt_id":"`+receipt+`","tool":"search_web","args":[],"kwargs":{"provider":"exa","search_queries":["pier"],"num":3}`)
		r := httptest.NewRequest("POST", "/v1/platform-tool-proxy/tools/execute", strings.NewReader(body))
		r.Header.Set(TokenHeader, small)
		rec := httptest.NewRecorder()
		w.h.ServeHTTP(rec, r)
		var out map[string]any
		_ = json.Unmarshal(rec.Body.Bytes(), &out)
		return rec.Code, out
	}
	status, out = poorCall("p1")
	refused("above the budget", status, out, "budget_exhausted")
	model.Close()
	try("the provider is gone", "provider_failed", first, taskOne, "r9", "llm_chat", chat)
	// What was spent is the platform's own number, and the grant ends with the answer.
	w.exec(execBody(batch, ids["one"], taskOne, 1, "310"))
	try("after the answer", "platform_tool_proxy_denied", first, taskOne, "r10", "search_web", `{}`)
	p.work.mu.Lock()
	spent := p.work.boards[batch].cells[cellKey{w.keys['v'].SS58(), ids["one"], taskOne}].Spent
	p.work.mu.Unlock()
	if spent <= 100 {
		t.Errorf("spent %d micro-dollars", spent)
	}
}

// A miner's configuration is read without its keys, and changed by its miner alone.
func TestMinerConfig(t *testing.T) {
	w, p, _ := pulling(t)
	put := func(k byte, method, body string) (int, map[string]any, []byte) {
		return send(t, w.h, w.keys[k], method, "/v1/miner-config", body)
	}
	const secret = "tvly-secret-1"
	for _, c := range []struct {
		name, method, body string
		status             int
	}{
		{"nothing yet", "GET", "", 200},
		{"a key", "PUT", `{"key":"provider_credentials.tavily","value":" ` + secret + ` "}`, 200},
		{"another key", "PUT", `{"key":"provider_credentials.exa","value":"` + secret + `"}`, 200},
		{"taken away", "DELETE", `{"key":"provider_credentials.exa"}`, 200},
		{"tries", "PUT", `{"key":"task_retry_count","value":"3"}`, 200},
		{"too many tries", "PUT", `{"key":"task_retry_count","value":"4"}`, 422},
		{"tries as a number", "PUT", `{"key":"task_retry_count","value":3}`, 422},
		{"no value", "PUT", `{"key":"task_retry_count"}`, 422},
		{"no such provider", "PUT", `{"key":"provider_credentials.lycos","value":"x"}`, 422},
		{"no such thing", "PUT", `{"key":"colour","value":"x"}`, 422},
		{"an empty key", "PUT", `{"key":"provider_credentials.exa","value":" "}`, 422},
		{"a key of two lines", "PUT", `{"key":"provider_credentials.exa","value":"a\nb"}`, 422},
	} {
		status, _, raw := put('a', c.method, c.body)
		if status != c.status || strings.Contains(string(raw), secret) {
			t.Errorf("%s: %d %s", c.name, status, raw)
		}
	}
	_, out, _ := put('a', "GET", "")
	keys := out["provider_credentials"].(map[string]any)
	if out["task_retry_count"] != 3.0 || out["miner_hotkey_ss58"] != w.keys['a'].SS58() || keys["tavily"].(map[string]any)["exists"] != true || keys["exa"].(map[string]any)["exists"] != false || len(keys) != 8 {
		t.Errorf("%v", out)
	}
	if _, other, _ := put('b', "GET", ""); other["task_retry_count"] != 0.0 {
		t.Errorf("another miner's: %v", other)
	}
	if status, _, _ := put('x', "GET", ""); status != 403 {
		t.Errorf("unregistered: %d", status)
	}
	if got, err := p.credential(w.keys['a'].SS58(), "tavily"); err != nil || got != secret {
		t.Errorf("%q %v", got, err)
	}
}
