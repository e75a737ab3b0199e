package services

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/smtp"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/pack/packfile"
)

const fixtures = `{
 "inbox": [{"id": "e1", "from": "ann@x.example", "subject": "Hello"}, {"id": "e2", "subject": "Urgent", "flags": ["urgent"]}, {"subject": "no id"}],
 "slack_channels": {"general": {"name": "general", "messages": [{"id": "m1", "text": "morning"}]}, "incidents": {"name": "incidents", "messages": []}},
 "tasks": [{"id": "t1", "title": "One", "status": "todo"}, {"id": "t2", "title": "Two"}],
 "calendar": [{"id": "c1", "summary": "Stand-up"}],
 "gitea_issues": [{"id": "i1", "number": 42, "title": "Bug"}],
 "gitea_prs": [{"number": 891, "title": "Mend"}],
 "gitea_refs": [{"ref": "refs/heads/main"}],
 "gitea_files": [{"path": "src/main.py", "content": "x"}],
 "gitea_commits": [{"sha": "abc"}]
}`

func office(t testing.TB) *Server {
	t.Helper()
	s := New(Config{Seed: 7, Now: func() time.Time { return time.Date(2026, 4, 10, 9, 0, 0, 123_000, time.UTC) }})
	v, err := packfile.ParseLimit([]byte(fixtures))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Load(v); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends one request and returns status and body.
func ask(t testing.TB, h http.Handler, method, path, body string) (int, any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	var v any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%s %s: %q: %v", method, path, w.Body, err)
	}
	return w.Code, v
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Every route answers in the shape of the field's own server.
func TestRoutes(t *testing.T) {
	h := office(t).Handler()
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string // part of the answer, keys sorted
	}{
		{"GET", "/health", "", 200, `"services":["email","slack","notion","calendar","gitea"]`},
		{"GET", "/api/v2/messages", "", 200, `"total":3`},
		{"POST", "/api/v2/messages", `{"from":"me","to":["you"],"subject":"s","body":"b"}`, 200, `"status":"sent"`},
		{"POST", "/api/v2/messages", `{}`, 200, `"status":"sent"`},
		{"DELETE", "/api/v1/messages/e1", "", 200, `{"status":"deleted"}`},
		{"DELETE", "/api/v1/messages/e1", "", 404, `{"detail":"Message not found"}`},
		{"GET", "/slack/channels", "", 200, `[{"id":"general","name":"general"},{"id":"incidents","name":"incidents"}]`},
		{"GET", "/slack/channels/general/messages", "", 200, `[{"id":"m1","text":"morning"}]`},
		{"GET", "/slack/channels/none/messages", "", 404, `{"detail":"Channel not found"}`},
		{"POST", "/slack/channels/incidents/messages", `{"text":"fixed"}`, 200, `"status":"posted"`},
		{"GET", "/slack/channels/incidents/messages", "", 200, `"text":"fixed","timestamp":"2026-04-10T09:00:00.000123","user":"agent"`},
		{"POST", "/slack/channels/none/messages", `{}`, 404, `Channel not found`},
		{"POST", "/slack/reactions", `{"emoji":"eyes"}`, 200, `{"status":"ok"}`},
		{"POST", "/notion/databases/any/query", ``, 200, `{"results":[{"id":"t1"`},
		{"POST", "/notion/pages", `{"title":"Three"}`, 200, `"title":"Three"`},
		{"PATCH", "/notion/pages/t1", `{"status":"done"}`, 200, `{"id":"t1","status":"done","title":"One"}`},
		{"PATCH", "/notion/pages/none", `{}`, 404, `{"detail":"Page not found"}`},
		{"GET", "/calendar/events", "", 200, `[{"id":"c1","summary":"Stand-up"}]`},
		{"POST", "/calendar/events", `{"summary":"Review"}`, 200, `"summary":"Review"`},
		{"DELETE", "/calendar/events/c1", "", 200, `{"status":"deleted"}`},
		{"DELETE", "/calendar/events/c1", "", 404, `{"detail":"Event not found"}`},
		{"GET", "/api/v1/repos/o/r/issues", "", 200, `"number":42`},
		{"GET", "/api/v1/repos/o/r/issues/42", "", 200, `"title":"Bug"`},
		{"GET", "/api/v1/repos/o/r/issues/43", "", 404, `{"detail":"Issue not found"}`},
		{"GET", "/api/v1/repos/o/r/issues/x", "", 422, `not a whole number`},
		{"GET", "/api/v1/repos/o/r/pulls/891", "", 200, `"title":"Mend"`},
		{"GET", "/api/v1/repos/o/r/pulls/1", "", 404, `{"detail":"Pull request not found"}`},
		{"GET", "/api/v1/repos/o/r/git/refs", "", 200, `refs/heads/main`},
		{"GET", "/api/v1/repos/o/r/commits", "", 200, `"sha":"abc"`},
		{"GET", "/api/v1/repos/o/r/contents/src/main.py", "", 200, `"content":"x"`},
		{"GET", "/api/v1/repos/o/r/contents/none", "", 404, `{"detail":"File not found"}`},
		{"POST", "/api/v1/repos/o/r/issues/42/comments", `{"body":"seen"}`, 200, `"issue_number":42,"user":"agent"`},
		{"GET", "/nowhere", "", 404, `{"detail":"Not Found"}`},
		{"PUT", "/calendar/events", "{}", 405, `{"detail":"Method Not Allowed"}`},
		{"POST", "/notion/pages", `nonsense`, 400, `not JSON`},
		{"POST", "/notion/pages", `[1]`, 422, `not a JSON object`},
		{"POST", "/load_fixtures", `{"inbox":[1]}`, 422, `entry 0 is not an object`},
	} {
		status, v := ask(t, h, c.method, c.path, c.body)
		if status != c.status || !strings.Contains(text(v), c.want) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.path, status, text(v), c.status, c.want)
		}
	}
	_, state := ask(t, h, "GET", "/state", "")
	var acts []string
	for _, a := range state.(map[string]any)["action_log"].([]any) {
		acts = append(acts, a.(map[string]any)["service"].(string)+" "+a.(map[string]any)["action"].(string))
	}
	if got, want := strings.Join(acts, ","), "email send,email send,email delete,slack post_message,slack reaction,notion create_page,notion update_page,calendar create_event,calendar delete_event,gitea comment"; got != want {
		t.Errorf("the log has %s, want %s", got, want)
	}
}

// Everything that is done is undone by a reset, to the byte, and the same calls
// leave the same bytes again.
func TestResetRestores(t *testing.T) {
	s := office(t)
	h := s.Handler()
	before := s.State().Compact()
	do := func() []byte {
		for _, c := range [][3]string{
			{"POST", "/api/v2/messages", `{"to":["x"]}`},
			{"POST", "/notion/pages", `{"id":"t9"}`},
			{"PATCH", "/notion/pages/t1", `{"status":"done"}`},
			{"POST", "/slack/channels/general/messages", `{"text":"x"}`},
			{"POST", "/calendar/events", `{}`},
			{"DELETE", "/api/v1/messages/e2", ""},
			{"POST", "/api/v1/repos/o/r/issues/42/comments", `{}`},
		} {
			if status, v := ask(t, h, c[0], c[1], c[2]); status != 200 {
				t.Fatalf("%v: %d %v", c, status, v)
			}
		}
		return s.State().Compact()
	}
	first := do()
	if bytes.Equal(first, before) {
		t.Fatal("nothing changed")
	}
	for range 2 {
		if status, v := ask(t, h, "POST", "/reset", ""); status != 200 || text(v) != `{"status":"reset"}` {
			t.Fatalf("%d %v", status, v)
		}
		if got := s.State().Compact(); !bytes.Equal(got, before) {
			t.Fatalf("after a reset\n%s\nwant\n%s", got, before)
		}
		if again := do(); !bytes.Equal(again, first) {
			t.Fatalf("the same calls left\n%s\nand before\n%s", again, first)
		}
	}
	want := []string{"emails", "sent_emails", "slack_channels", "tasks", "calendar_events", "gitea_issues", "gitea_prs", "gitea_comments", "gitea_refs", "gitea_files", "gitea_commits", "action_log"}
	if got := s.State().Keys; strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("state %v", got)
	}
	if New(Config{}).State().Get("emails").Kind != packfile.List {
		t.Error("an empty office has no list")
	}
}

// An agent may not undo what it did.
func TestAgentHasNoReset(t *testing.T) {
	s := office(t)
	h := s.Agent()
	if status, _ := ask(t, h, "DELETE", "/api/v1/messages/e1", ""); status != 200 {
		t.Fatal(status)
	}
	acted := s.State().Compact()
	for _, path := range []string{"/reset", "/load_fixtures"} {
		if status, _ := ask(t, h, "POST", path, "{}"); status != http.StatusForbidden {
			t.Errorf("%s: %d", path, status)
		}
	}
	if !bytes.Equal(s.State().Compact(), acted) {
		t.Error("the state has changed")
	}
}

// What does not fit is refused, and what was there stays.
func TestLimits(t *testing.T) {
	s := office(t)
	h := s.Agent()
	status := 200
	for i := 0; status == 200; i++ {
		if i > maxRows {
			t.Fatal("there is no limit")
		}
		status, _ = ask(t, h, "POST", "/notion/pages", `{"title":"`+strings.Repeat("x", 200_000)+`"}`)
	}
	if status != http.StatusInsufficientStorage {
		t.Fatal(status)
	}
	if status, _ := ask(t, h, "POST", "/notion/pages", `{"title":"`+strings.Repeat("x", maxBody)+`"}`); status != http.StatusRequestEntityTooLarge {
		t.Error(status)
	}
	if status, _ := ask(t, h, "GET", "/calendar/events", ""); status != 200 {
		t.Error(status)
	}
	s.Reset()
	if status, _ := ask(t, h, "POST", "/notion/pages", `{}`); status != 200 {
		t.Error(status)
	}
	v, err := packfile.ParseLimit([]byte(`{"inbox":[` + strings.Repeat(`{},`, maxRows) + `{}]}`))
	if err != nil {
		t.Fatal(err)
	}
	was := s.State().Compact()
	if err := s.Load(v); err == nil {
		t.Error("too many rows are loaded")
	}
	if !bytes.Equal(was, s.State().Compact()) {
		t.Error("fixtures that were refused changed something")
	}
}

// A mail by SMTP stands beside those by HTTP; SMTP that is wrong is refused.
func TestSMTP(t *testing.T) {
	s := office(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.ServeSMTP(t.Context(), ln) }()
	addr := ln.Addr().String()
	for _, raw := range []string{
		"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\r\n.dots\r\n..\r\nend\r\n",
		"From: head@x.example\r\nSubject: parts\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>no</p>\r\n--b\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n--b--\r\n",
		"no header at all",
	} {
		if err := smtp.SendMail(addr, nil, "me@x.example", []string{"you@x.example", "they@x.example"}, []byte(raw)); err != nil {
			t.Fatal(err)
		}
	}
	sent := s.State().Get("sent_emails").List
	if len(sent) != 3 {
		t.Fatalf("%d mails", len(sent))
	}
	for i, want := range [][2]string{{"Grüße", ".dots\r\n..\r\nend\r\n"}, {"parts", "hello"}, {"", "no header at all\r\n"}} {
		m := sent[i]
		if m.Get("subject").Str != want[0] || m.Get("body").Str != want[1] || m.Get("via").Str != "smtp" || m.Get("from").Str != "me@x.example" || len(m.Get("to").List) != 2 {
			t.Errorf("mail %d is %s", i, m.Readable())
		}
	}
	if log := s.State().Get("action_log").List; len(log) != 3 || log[0].Get("action").Str != "smtp_send" {
		t.Errorf("%d acts", len(log))
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	b := make([]byte, 4096)
	for _, step := range [][2]string{
		{"", "220"},
		{"MAIL FROM:<a@b>", "503"},
		{"EHLO x", "250"},
		{"MAIL a@b", "501"},
		{"RCPT TO:<a@b>", "503"},
		{"DATA", "503"},
		{"NONSENSE", "502"},
		{"MAIL FROM:<>", "250"},
		{"MAIL FROM:<>", "503"},
		{"RCPT TO:<>", "501"},
		{"RCPT TO:<a@b>", "250"},
		{"RSET", "250"},
		{"NOOP", "250"},
		{"VRFY x", "252"},
		{"QUIT", "221"},
	} {
		if step[0] != "" {
			if _, err := fmt.Fprint(c, step[0]+"\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		n, err := c.Read(b)
		if err != nil || !strings.HasPrefix(string(b[:n]), step[1]) {
			t.Errorf("%q gives %q, %v; want %s", step[0], b[:n], err, step[1])
		}
	}
	_ = ln.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// BenchmarkStart is how long an office needs from its fixtures to its first answer.
func BenchmarkStart(b *testing.B) {
	v, err := packfile.ParseLimit([]byte(fixtures))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s := New(Config{})
		if err := s.Load(v); err != nil {
			b.Fatal(err)
		}
		if status, _ := ask(b, s.Agent(), "GET", "/health", ""); status != 200 {
			b.Fatal(status)
		}
	}
}
