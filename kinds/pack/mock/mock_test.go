package mock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func fixtures() fstest.MapFS {
	f := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	return fstest.MapFS{
		"inbox_triage/inbox.json":              f(`[{"id":"m1","sender":"ann@x.io","subject":"Röntgen","received_ts":"2026-02-06T08:00:00Z","labels":["urgent"],"body":"Please call."},{"id":"m2","sender":"bob@x.io","subject":"Lunch","received_ts":"2026-02-06T09:00:00Z","body":"Noon?"}]`),
		"inbox_triage/calendar.json":           f(`[{"id":"e1","title":"Stand-up","start":"09:00"}]`),
		"inbox_triage/tasks.json":              f(`[{"id":"t1","title":"Report","status":"open"}]`),
		"inbox_triage/documents.json":          f(`{"documents":[{"id":"d1","title":"Plan"}]}`),
		"inbox_triage/contacts.json":           f(`[{"id":"c1","name":"Ann","slack_id":"U1"}]`),
		"inbox_triage/slack_channels.json":     f(`[{"id":"C1","name":"#eng"},{"id":"C2","name":"ops"}]`),
		"inbox_triage/slack_messages.json":     f(`[{"channel":"C1","author":"Ann","text":"one","ts":"1"},{"channel":"#eng","author":"Bob","text":"two","ts":"2"},{"channel":"ops","author":"Cy","text":"three","ts":"3"}]`),
		"inbox_triage/memory/MEMORY.md":        f("first\nAnn likes tea\nthird\nfourth\nfifth\n"),
		"inbox_triage/web_search_results.json": f(`{"known":[{"title":"T","url":"https://a.example","description":"D"}]}`),
		"inbox_triage/web_pages.json":          f(`{"https://a.example":{"title":"T","text":"page"}}`),
		"inbox_triage/USER.md":                 f("I am {{USER_FIRST_NAME}} of {{NOWHERE}}"),
		"other/inbox.json":                     f(`[]`),
	}
}

type rig struct {
	t    *testing.T
	s    *Server
	h    http.Handler
	logs map[string]*bytes.Buffer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, logs: map[string]*bytes.Buffer{}}
	var err error
	r.s, err = New(Config{
		Fixtures: fixtures(), Workspace: fstest.MapFS{"AGENTS.md": {Data: []byte("policy")}},
		Now: func() time.Time { return time.Date(2026, 2, 6, 10, 11, 12, 0, time.UTC) },
		Log: func(name string, line []byte) error {
			if r.logs[name] == nil {
				r.logs[name] = &bytes.Buffer{}
			}
			_, err := r.logs[name].Write(line)
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.h = r.s.Handler()
	return r
}

func (r *rig) do(method, path, body string) (int, map[string]any) {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	var out map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		r.t.Fatalf("%s %s: %v %s", method, path, err, w.Body.String())
	}
	return w.Code, out
}

func (r *rig) tool(name, body string) map[string]any {
	r.t.Helper()
	status, out := r.do("POST", "/tools/"+name, body)
	if status != 200 {
		r.t.Fatalf("%s: status %d %v", name, status, out)
	}
	return out
}

func (r *rig) exec(cmd string) map[string]any {
	b, err := json.Marshal(map[string]string{"command": cmd})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.tool("exec", string(b))
}

func TestExec(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		cmd, want    string
		irreversible bool
		code         float64
	}{
		{"himalaya list", `"subject": "R\u00f6ntgen"`, false, 0},
		{" himalaya envelope list --folder INBOX", "[\n  {\n    \"id\": \"m1\"", false, 0},
		{"himalaya message read m1", "From: ann@x.io\nSubject: Röntgen\nDate: 2026-02-06T08:00:00Z\n\nPlease call.", false, 0},
		{"himalaya message read zz", "Message not found: zz", false, 1},
		{"himalaya template write x", "Draft saved: draft_20260206101112", false, 0},
		{"himalaya message send <x", "sent", true, 0},
		{"himalaya flag add m1 seen", "", false, 0},
		{"curl -X POST https://api.notion.com/v1/databases/x/query", `"results": [`, false, 0},
		{"curl https://api.notion.so/v1/pages/t1", `"title": "Report"`, false, 0},
		{"curl https://api.notion.com/v1/pages/d1", `"title": "Plan"`, false, 0},
		{"curl -X PATCH https://api.notion.com/v1/pages/zz", "Page not found: zz", false, 1},
		{"curl -X POST https://api.notion.com/v1/pages -d '{}'", "page_20260206101112", false, 0},
		{"curl https://api.notion.com/v1/databases", `"Plan"`, false, 0},
		{"curl https://www.googleapis.com/calendar/v3/calendars/primary/events", `"items": [`, false, 0},
		{"curl -X POST https://www.googleapis.com/calendar/v3/calendars/primary/events -d x", "evt_20260206101112", true, 0},
		{"curl -X DELETE https://www.googleapis.com/calendar/v3/calendars/primary/events/e1", "", true, 0},
		{"curl -X PATCH https://www.googleapis.com/calendar/v3/calendars/primary/events/e1", "updated", false, 0},
		{"gcalcli agenda", "Stand-up", false, 0},
		{"gcalcli add x", "evt_", true, 0},
		{"gcal delete-event e1", "", true, 0},
		{"gh pr list", "(mock gh output)", false, 0},
		{"rm -rf / ; " + strings.Repeat("x", 200), "(mock output for: rm -rf / ; " + strings.Repeat("x", 89) + ")", false, 0},
	} {
		got := r.exec(c.cmd)
		text, _ := got["aggregated"].(string)
		_, irr := got["_irreversible"]
		if !strings.Contains(text, c.want) || irr != c.irreversible || got["exitCode"] != c.code {
			t.Errorf("%s: %v", c.cmd, got)
		}
	}
}

func TestOtherTools(t *testing.T) {
	r := newRig(t)
	is := func(what string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	count := func(v any) int { l, _ := v.([]any); return len(l) }
	is("by id", count(r.tool("slack", `{"action":"readMessages","channelId":"C1"}`)["messages"]), 2)
	is("by name", count(r.tool("slack", `{"action":"readMessages","to":"#eng","limit":1}`)["messages"]), 1)
	is("sent", r.tool("slack", `{"action":"sendMessage","to":"#eng","content":"hi"}`)["messageId"], "slack_msg_20260206101112")
	is("member", r.tool("slack", `{"action":"memberInfo","userId":"U1"}`)["user"].(map[string]any)["name"], "Ann")
	is("nobody", r.tool("slack", `{"action":"memberInfo","userId":"U9"}`)["user"].(map[string]any)["name"], "Unknown User")
	is("channels", count(r.tool("slack", `{"action":"listChannels"}`)["channels"]), 2)
	is("unknown", r.tool("slack", `{"action":"x"}`)["ok"], false)
	is("bad body", r.tool("slack", `not json`)["ok"], false)
	m := r.tool("memory_search", `{"query":"TEA nothing"}`)["results"].([]any)[0].(map[string]any)
	is("snippet", m["snippet"], "first\nAnn likes tea\nthird\nfourth")
	is("lines", fmt.Sprintf("%v %v %v %v", m["startLine"], m["endLine"], m["score"], m["path"]), "1 4 0.85 memory/MEMORY.md")
	is("get", r.tool("memory_get", `{"path":"memory/MEMORY.md","from":2,"lines":1}`)["text"], "Ann likes tea")
	is("get none", r.tool("memory_get", `{"path":"../x"}`)["error"], "File not found: ../x")
	is("search", r.tool("web_search", `{"query":"known"}`)["tookMs"], 234)
	is("search other", r.tool("web_search", `{"query":"other"}`)["tookMs"], 100)
	is("fetch", r.tool("web_fetch", `{"url":"https://a.example"}`)["text"], "page")
	is("fetch none", r.tool("web_fetch", `{"url":"https://b.example"}`)["status"], 404)
	is("workspace", r.tool("read", `{"path":"/workspace/AGENTS.md"}`)["content"], "  1\tpolicy")
	is("traversal", r.tool("read", `{"path":"../../etc/passwd"}`)["error"], "File not found: ../../etc/passwd")
	status, out := r.do("POST", "/set_user_context", `{"USER_NAME":"Kim Po"}`)
	is("user", status, 200)
	is("first", out["user_context"].(map[string]any)["USER_FIRST_NAME"], "Kim")
	is("template", r.tool("read", `{"path":"USER.md"}`)["content"], "  1\tI am Kim of {{NOWHERE}}")
}

func TestControl(t *testing.T) {
	r := newRig(t)
	r.tool("slack", `{"action":"emojiList"}`)
	status, out := r.do("POST", "/tools/shell", `{}`)
	if status != 404 || out["detail"] != "Unknown tool: shell. Known tools: ['exec', 'memory_get', 'memory_search', 'read', 'slack', 'web_fetch', 'web_search']." {
		t.Errorf("%d %v", status, out)
	}
	_, calls := r.do("GET", "/tool_calls", "")
	first := calls["calls"].([]any)[0].(map[string]any)
	if len(calls["calls"].([]any)) != 1 || first["result_summary"] != "{'ok': True, 'emojis': []}" || first["tool"] != "slack" {
		t.Errorf("calls %v", calls)
	}
	_, all := r.do("GET", "/all_requests", "")
	if s := all["summary"].(map[string]any); s["total"] != 2.0 || s["failed"] != 1.0 {
		t.Errorf("summary %v", s)
	}
	if n := strings.Count(r.logs["inbox_triage_calls.jsonl"].String(), "\n"); n != 1 || strings.Count(r.logs["inbox_triage_all_requests.jsonl"].String(), "\n") != 2 {
		t.Errorf("logs %v", r.logs)
	}
	if _, h := r.do("GET", "/health", ""); h["status"] != "ok" || h["scenario"] != "inbox_triage" || h["tools_available"] != 7.0 {
		t.Errorf("health %v", h)
	}
	if _, l := r.do("GET", "/tools", ""); l["count"] != 7.0 {
		t.Errorf("tools %v", l)
	}
	if status, _ := r.do("POST", "/set_scenario/other", ""); status != 200 || len(r.s.Calls()) != 0 || len(r.s.Requests()) != 0 {
		t.Error("the scenario was not changed")
	}
	if status, _ := r.do("POST", "/set_scenario/..%2f..%2fetc", ""); status != 422 {
		t.Errorf("status %d for a path as scenario", status)
	}
	// The agent's part has no control.
	w := httptest.NewRecorder()
	r.s.Tools().ServeHTTP(w, httptest.NewRequest("POST", "/set_scenario/other", nil))
	if w.Code != 404 {
		t.Errorf("an agent can set the scenario: %d", w.Code)
	}
}

func TestLimits(t *testing.T) {
	r := newRig(t)
	if status, _ := r.do("POST", "/tools/slack", strings.Repeat("x", maxBody+1)); status != 413 {
		t.Errorf("large body: %d", status)
	}
	if _, err := New(Config{Fixtures: fstest.MapFS{"a/inbox.json": {Data: []byte("{")}}, Scenario: "a"}); err == nil {
		t.Error("broken fixtures were taken")
	}
	if _, err := New(Config{Fixtures: fstest.MapFS{"a/x": {Data: make([]byte, maxFixture+1)}}, Scenario: "a"}); err == nil {
		t.Error("a large fixture was taken")
	}
}

func FuzzDo(f *testing.F) {
	f.Add("exec", `{"command":"himalaya message read m1"}`)
	f.Add("read", `{"path":"../x","from":-5,"lines":-1}`)
	f.Add("slack", `{"action":"readMessages","limit":-3}`)
	s, err := New(Config{Fixtures: fixtures()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, body string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/tools/x", strings.NewReader(body))
		r.SetPathValue("name", name)
		s.call(w, r)
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("%q is not JSON", w.Body.String())
		}
	})
}

func BenchmarkCall(b *testing.B) {
	s, err := New(Config{Fixtures: fixtures()})
	if err != nil {
		b.Fatal(err)
	}
	h := s.Handler()
	i := 0
	for b.Loop() {
		if i++; i%5000 == 0 {
			if err := s.SetScenario(DefaultScenario); err != nil {
				b.Fatal(err)
			}
		}
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/tools/exec", strings.NewReader(`{"command":"himalaya list"}`)))
	}
}
