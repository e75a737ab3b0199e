package play

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon/kinds/pack/mock"
)

// model is a model that asks for what its test wants, and what it was sent.
type model struct {
	mu    sync.Mutex
	reply func(turn int, body map[string]any) (content string, calls []map[string]any)
	seen  []map[string]any
	lacks string // a model that is not offered
	asked int    // how often it was asked for
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lacks != "" && body["model"] == m.lacks {
		m.asked++
		http.Error(w, `{"error":{"message":"no such model"}}`, http.StatusNotFound)
		return
	}
	content, calls := m.reply(len(m.seen), body)
	m.seen = append(m.seen, body)
	msg := map[string]any{"role": "assistant", "content": content}
	if len(calls) > 0 {
		msg["tool_calls"] = calls
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": msg, "finish_reason": "stop"}}})
}

func ask(name, args string) map[string]any {
	return map[string]any{"id": "c", "type": "function", "function": map[string]any{"name": name, "arguments": args}}
}

// play runs the fixed agent, the very program of the box, on this machine.
func play(t *testing.T, m *model, change func(*job)) (result, []mock.Call, string) {
	t.Helper()
	dir := t.TempDir()
	tools, err := mock.New(mock.Config{Fixtures: fstest.MapFS{"inbox_triage/inbox.json": {Data: []byte("[]")}}})
	if err != nil {
		t.Fatal(err)
	}
	office, gw := httptest.NewServer(tools.Tools()), httptest.NewServer(m)
	defer office.Close()
	defer gw.Close()
	j := job{
		Files: map[string]string{"AGENTS.md": "POLICY", "USER.md": "USER", "../out.md": "x"}, SystemFiles: []string{"AGENTS.md", "SOUL.md", "USER.md"},
		Workspace: filepath.Join(dir, "w"), Result: filepath.Join(dir, "result.json"), Prompt: "PROMPT", Tools: []string{"exec", "slack", "read"},
		Deny: []string{}, StopRules: []string{}, Skills: []Skill{}, MaxTurns: 5, MaxCalls: 20, MaxTokens: 100, Gateway: gw.URL, Mock: office.URL, Timeout: 5, ToolTimeout: 5,
	}
	change(&j)
	if err := os.MkdirAll(j.Workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-I", "-c", agentSource)
	cmd.Stdin = bytes.NewReader(in)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	raw, err := os.ReadFile(j.Result)
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r, tools.Calls(), dir
}

func offeredTo(body map[string]any) string {
	var names []string
	list, _ := body["tools"].([]any)
	for _, x := range list {
		names = append(names, x.(map[string]any)["function"].(map[string]any)["name"].(string))
	}
	return strings.Join(names, " ")
}

func TestAgentKeepsToThePack(t *testing.T) {
	m := &model{reply: func(turn int, _ map[string]any) (string, []map[string]any) {
		if turn == 0 {
			return "", []map[string]any{ask("slack", `{"action":"listChannels"}`), ask("exec", `{"command":"himalaya list"}`), ask("web_fetch", `{}`), ask("exec", `not json`)}
		}
		return "done", nil
	}}
	r, calls, dir := play(t, m, func(j *job) { j.Allow, j.Deny, j.StopRules = []string{"*"}, []string{"exe*"}, []string{"be brief"} })
	if r.Outcome != "ok" || r.Response != "done" || r.Turns != 2 || len(calls) != 1 || calls[0].Tool != "slack" {
		t.Errorf("%+v, calls %+v", r, calls)
	}
	if got := offeredTo(m.seen[0]); got != "slack read" {
		t.Errorf("offered %s", got)
	}
	system := m.seen[0]["messages"].([]any)[0].(map[string]any)["content"].(string)
	if !strings.HasPrefix(system, "POLICY\n\nUSER\n\n## Stop rules\n- be brief") {
		t.Errorf("system %q", system)
	}
	if _, err := os.Stat(filepath.Join(dir, "out.md")); err == nil {
		t.Error("a file left the workspace")
	}
}

func TestAgentStops(t *testing.T) {
	forever := func(_ int, body map[string]any) (string, []map[string]any) {
		if body["tools"] == nil {
			return "what I have", nil
		}
		return "", []map[string]any{ask("read", `{"path":"USER.md"}`), ask("read", `{"path":"USER.md"}`)}
	}
	m := &model{reply: forever}
	if r, calls, _ := play(t, m, func(j *job) { j.MaxTurns = 3 }); r.Stopped != "turn limit" || r.Turns != 3 || len(calls) != 6 || r.Response != "what I have" {
		t.Errorf("%+v, %d calls", r, len(calls))
	}
	m = &model{reply: forever}
	if r, calls, _ := play(t, m, func(j *job) { j.MaxCalls = 3 }); r.Stopped != "stop rule: tool calls" || len(calls) != 3 {
		t.Errorf("%+v, %d calls", r, len(calls))
	}
}

func TestAgentHandsWorkToSkills(t *testing.T) {
	m := &model{reply: func(turn int, body map[string]any) (string, []map[string]any) {
		switch turn {
		case 0:
			return "", []map[string]any{ask("delegate", `{"skill":"lookup","task":"find it"}`), ask("delegate", `{"skill":"none","task":"x"}`)}
		case 1:
			return "found", nil
		}
		return "all done", nil
	}}
	r, _, _ := play(t, m, func(j *job) {
		j.Model, j.Skills = "dear", []Skill{{Name: "lookup", Description: "finds", Model: "cheap", Text: "SKILL"}}
	})
	if r.Response != "all done" || len(m.seen) != 3 || m.seen[0]["model"] != "dear" || m.seen[1]["model"] != "cheap" || strings.Contains(offeredTo(m.seen[1]), "delegate") {
		t.Errorf("%+v, models %v %v", r, m.seen[0]["model"], m.seen[1]["model"])
	}
}

// A skill whose model nobody offers runs on the agent's own, and the model is asked for once.
func TestSkillOfAnAbsentModel(t *testing.T) {
	m := &model{lacks: "gone", reply: func(turn int, body map[string]any) (string, []map[string]any) {
		if turn == 0 || turn == 2 {
			return "", []map[string]any{ask("delegate", `{"skill":"lookup","task":"find it"}`)}
		}
		return "found", nil
	}}
	for _, own := range []string{"dear", ""} { // without a name the gateway's first answers
		m.seen, m.asked = nil, 0
		r, _, _ := play(t, m, func(j *job) {
			j.Model, j.Skills = own, []Skill{{Name: "lookup", Description: "finds", Model: "gone", Text: "SKILL"}}
		})
		if r.Outcome != "ok" || len(m.seen) != 5 || m.asked != 1 {
			t.Fatalf("%+v, %d calls, asked for the absent model %d times", r, len(m.seen), m.asked)
		}
		for i, body := range m.seen {
			if got, _ := body["model"].(string); got != own {
				t.Errorf("call %d is by %q, want %q", i, got, own)
			}
		}
	}
	// The agent's own model that is absent ends the episode: there is nothing to go to.
	m.lacks, m.seen = "dear", nil
	if r, _, _ := play(t, m, func(j *job) { j.Model = "dear" }); r.Outcome == "ok" || !strings.Contains(r.Error, "404") {
		t.Errorf("%+v", r)
	}
}
