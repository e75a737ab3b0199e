package trajectory

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/scripted"
)

var update = flag.Bool("update", false, "rewrite golden files")

// tape is a recorder that stamps events as the engine does.
type tape struct {
	mu  sync.Mutex
	all []agon.Event
}

func (r *tape) Record(typ, task string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, agon.Event{Run: "run_1", Attempt: 2, Task: task, Seq: int64(len(r.all)) + 1, At: time.Unix(1000, 0).UTC(), Type: typ, Data: b})
}

const script = `{"version":1,"rule":[
 {"last":"fix","tool_calls":[{"name":"read","arguments":{"path":"a.py"}},{"name":"odd","arguments":"[1]"}]},
 {"last":"def f","content":"done"},
 {"content":"a second opinion"}]}`

// play makes the calls of a small agent through a real gateway.
func play(t *testing.T) []agon.Event {
	t.Helper()
	s, err := scripted.Parse([]byte(script), "json")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	g, err := gateway.New(gateway.Config{Upstreams: []provider.Upstream{scripted.New(s)}, Clock: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Millisecond)
		return now
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer g.Stop()
	rec := &tape{}
	open := func(payer string) gateway.Session {
		ses, err := g.Open(t.Context(), gateway.Policy{Run: "run_1", Attempt: 2, Task: "small/x", Payer: payer, Models: []string{"*"}, Budget: agon.Budget{Calls: 20}, Dialects: []string{"openai"}}, rec)
		if err != nil {
			t.Fatal(err)
		}
		return ses
	}
	ask := func(ses gateway.Session, body string) map[string]any {
		req, err := http.NewRequestWithContext(t.Context(), "POST", ses.BaseURL()+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for k, v := range ses.Header() {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %d %s", body, resp.StatusCode, b)
		}
		var m struct {
			Choices []struct {
				Message map[string]any `json:"message"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		return m.Choices[0].Message
	}
	ses := open("run")
	tools := `"tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object"}}}],`
	head := `{"role":"system","content":"you mend"},{"role":"user","content":[{"type":"text","text":"fix it"}]}`
	m1 := ask(ses, `{`+tools+`"messages":[`+head+`]}`)
	b1, _ := json.Marshal(m1)
	calls := m1["tool_calls"].([]any)
	id := func(i int) string { return calls[i].(map[string]any)["id"].(string) }
	ask(ses, `{`+tools+`"messages":[`+head+`,`+string(b1)+`,{"role":"tool","tool_call_id":"`+id(1)+`","content":"ok"},{"role":"tool","tool_call_id":"`+id(0)+`","content":"def f(): pass"}]}`)
	// A new conversation, with a message that no model wrote and a result nobody asked for.
	ask(ses, `{"messages":[{"role":"user","content":"look"},{"role":"assistant","content":"I looked"},{"role":"tool","tool_call_id":"z","content":"?"}]}`)
	judge := open("platform")
	ask(judge, `{"messages":[{"role":"user","content":"judge this"}]}`)
	if err := ses.Close(); err != nil {
		t.Fatal(err)
	}
	_ = judge.Close()
	rec.Record(agon.EventScore, "small/x", agon.Score{Run: "run_1", Task: "small/x", Value: 0.5, Scorer: "golf/1"})
	rec.Record(agon.EventPhase, "", map[string]any{"phase": "scored", "outcome": "ok"})
	rec.Record(agon.EventModel, "", map[string]any{"cut": true})
	return rec.all
}

var meta = Meta{Run: "run_1", Arena: "demo", Submission: "sub_1", Agent: "llm", Version: "sha256:00"}

func TestATIF(t *testing.T) {
	events := play(t)
	d, err := ATIF(events, 0, meta)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(b); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
	var kinds []string
	for _, s := range d.Steps {
		k := s.Source
		if s.LLMCalls != nil && *s.LLMCalls == 0 {
			k += "0"
		}
		kinds = append(kinds, k)
	}
	if got := strings.Join(kinds, " "); got != "system user agent agent user agent0 user agent" {
		t.Errorf("steps %s\n%s", got, b)
	}
	one := d.Steps[2]
	if len(one.ToolCalls) != 2 || one.Observation == nil || len(one.Observation.Results) != 2 || one.Observation.Results[0].Content != "ok" || string(one.ToolCalls[1].Arguments) != `{"_text":"[1]"}` {
		t.Errorf("step %+v", one)
	}
	if d.Final.Prompt == 0 || d.Final.Steps != 8 || len(d.Agent.Tools) != 1 || d.Notes == "" {
		t.Errorf("final %+v, tools %d, notes %q", d.Final, len(d.Agent.Tools), d.Notes)
	}
	if bytes.Contains(b, []byte("judge this")) {
		t.Error("the judge's call is in the agent's trajectory")
	}
	again, _ := ATIF(events, 2, meta)
	if b2, _ := json.MarshalIndent(again, "", " "); !bytes.Equal(b, b2) {
		t.Error("two exports differ")
	}
	if _, err := ATIF(events, 7, meta); err == nil {
		t.Error("exported an attempt that is not there")
	}
	empty, err := ATIF([]agon.Event{{Attempt: 1, Type: agon.EventNote, Data: json.RawMessage(`{}`)}}, 0, Meta{Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := json.Marshal(empty); Validate(b) != nil {
		t.Errorf("without calls: %v", Validate(b))
	}
	golden := filepath.Join("testdata", "small.atif.json")
	if *update {
		if err := os.WriteFile(golden, append(scrub(b), '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := append(scrub(b), '\n'); !bytes.Equal(got, want) {
		t.Errorf("differs from %s (-update rewrites it):\n%s", golden, got)
	}
}

var times = regexp.MustCompile(`"timestamp": "[^"]*"`)

// scrub puts fixed words where a session's random name and times stand.
func scrub(b []byte) []byte {
	b = times.ReplaceAll(b, []byte(`"timestamp": "2026-11-20T10:00:00Z"`))
	for {
		i := bytes.Index(b, []byte("gs-"))
		if i < 0 {
			return b
		}
		b = append(append(bytes.Clone(b[:i]), "session"...), b[i+3+32:]...)
	}
}

func TestOpenAI(t *testing.T) {
	lines, err := OpenAI(play(t), 0, meta)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2 {
		t.Fatalf("%d conversations", len(lines))
	}
	var l struct {
		Messages []struct{ Role string }
		Receipts []string
		Score    *float64
		Tools    []any
	}
	if err := json.Unmarshal(lines[0], &l); err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, m := range l.Messages {
		roles = append(roles, m.Role)
	}
	if got := strings.Join(roles, " "); got != "system user assistant tool tool assistant" || len(l.Receipts) != 2 || *l.Score != 0.5 || len(l.Tools) != 1 {
		t.Errorf("%s", lines[0])
	}
}

func TestValidateRefuses(t *testing.T) {
	step := `{"step_id":1,"source":"agent","message":"m"}`
	doc := func(s string) string {
		return `{"schema_version":"ATIF-v1.7","agent":{"name":"a","version":"1"},"steps":[` + s + `]}`
	}
	if err := Validate([]byte(doc(step))); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ name, in, want string }{
		{"no json", "x", "want an object"},
		{"version", strings.Replace(doc(step), "1.7", "1.2", 1), "schema_version"},
		{"no steps", doc(""), "steps"},
		{"unknown", strings.Replace(doc(step), `"steps"`, `"stepz":1,"steps"`, 1), "stepz"},
		{"unknown in step", doc(strings.Replace(step, `"message"`, `"msg":1,"message"`, 1)), "msg"},
		{"gap", doc(strings.Replace(step, `1`, `2`, 1)), "step_id"},
		{"source", doc(strings.Replace(step, `agent`, `robot`, 1)), "source"},
		{"agent's field", doc(strings.Replace(step, `agent","message":"m"`, `user","message":"m","metrics":{}`, 1)), "metrics"},
		{"no message", doc(`{"step_id":1,"source":"user"}`), "message"},
		{"stranger's result", doc(strings.Replace(step, `"m"`, `"m","observation":{"results":[{"source_call_id":"x"}]}`, 1)), "source_call_id"},
		{"arguments", doc(strings.Replace(step, `"m"`, `"m","tool_calls":[{"tool_call_id":"x","function_name":"f","arguments":"{}"}]`, 1)), "arguments"},
		{"dispatch with metrics", doc(strings.Replace(step, `"m"`, `"m","llm_call_count":0,"metrics":{}`, 1)), "llm_call_count"},
		{"tokens", doc(strings.Replace(step, `"m"`, `"m","metrics":{"prompt_tokens":1.5}`, 1)), "prompt_tokens"},
		{"time", doc(strings.Replace(step, `"m"`, `"m","timestamp":"yesterday"`, 1)), "timestamp"},
		{"nameless part", strings.Replace(doc(step), `"steps"`, `"subagent_trajectories":[{}],"steps"`, 1), "trajectory_id"},
	} {
		if err := Validate([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte(`{"schema_version":"ATIF-v1.7","agent":{"name":"a","version":"1"},"steps":[{"step_id":1,"source":"agent","message":[]}]}`))
	f.Fuzz(func(_ *testing.T, b []byte) { _ = Validate(b) })
}

// Events may hold anything: an export fails or validates, and never panics.
func FuzzATIF(f *testing.F) {
	f.Add([]byte(`{"receipt":{"id":"x"},"request":{"text":"{\"messages\":[{\"role\":\"user\",\"content\":1}]}","bytes":3},"message":{"content":"a","tool_calls":[{"id":"","name":"","arguments":"{"}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if !json.Valid(b) {
			return
		}
		evs := []agon.Event{{Attempt: 1, Type: agon.EventModel, Data: b}, {Attempt: 1, Type: agon.EventModel, Data: b}, {Attempt: 1, Type: agon.EventTool, Data: b}}
		d, err := ATIF(evs, 0, Meta{Run: "r"})
		if err != nil {
			return
		}
		out, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := Validate(out); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if _, err := OpenAI(evs, 0, Meta{Run: "r"}); err != nil {
			t.Fatal(err)
		}
	})
}
