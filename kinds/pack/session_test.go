package pack_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	pack "github.com/agon-arena/agon/kinds/pack"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/kinds/pack/season"
)

// worker is what both agents of TestSession run in their box: it reads the office,
// does the day's work over HTTP and SMTP, and, if told to, keeps notes.
const worker = `
import json, os, re, smtplib, socket, sys, urllib.request
from email.message import EmailMessage
keep = sys.argv[1] == "keep"
def ask(method, path, body=None):
    r = urllib.request.Request("http://localhost:8090" + path, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method)
    return json.load(urllib.request.urlopen(r))
state = ask("GET", "/state")
assert ask("GET", "/health")["status"] == "ok" and not state["sent_emails"] and not state["action_log"], "yesterday's office"
assert not os.path.exists("/tmp/yesterday") and not os.path.exists("/workspace/yesterday"), "yesterday's files"
for place in ("/tmp/yesterday", "/workspace/yesterday"):
    open(place, "w").close()
try:
    socket.create_connection(("1.1.1.1", 80), 3)
    sys.exit("the internet answers")
except OSError:
    pass
try:
    ask("POST", "/reset", {})
    sys.exit("an agent may reset")
except urllib.error.HTTPError as e:
    assert e.code == 403
notes = "/workspace/learned/notes.json"
known = json.load(open(notes)) if keep and os.path.exists(notes) else {}
chat = [m["text"] for c in state["slack_channels"].values() for m in c["messages"]]
text = "\n".join(chat + [m["body"] for m in state["emails"]])
def find(pattern, name):
    m = re.search(pattern, text)
    if m:
        known[name] = m.group(1)
    return known.get(name, "?")
cause = re.search(r"Found it: (.*?)\.", text).group(1)
runbook = find(r"run .(\S[^\x60]*)\x60", cause)
end = find(r'clients end with "([^"]*)"', "end")
at = find(r"(?:next day, |with it, are at )(\d+:\d\d [AP]M)", "at")
client = next(m["from"] for m in state["emails"] if "urgent" in m["flags"])
ticket = next(t for t in state["tasks"] if t["priority"] == "P1")
mail = EmailMessage()
mail["Subject"], mail["From"], mail["To"] = "Today", "oncall@office.example", client
mail.set_content("The cause: %s. #%d mends it.\n\n%s\n" % (cause, state["gitea_prs"][0]["number"], end))
with smtplib.SMTP("localhost", 1025) as s:
    s.send_message(mail)
ask("POST", "/slack/channels/incidents/messages", {"text": "I run " + runbook})
ask("PATCH", "/notion/pages/" + ticket["id"], {"status": "in_progress", "assignee": "oncall"})
h, m = re.match(r"(\d+):(\d\d)", at).groups() if at != "?" else ("0", "00")
day = re.search(r"It is \w+, (\d{4})-(\d\d)-(\d\d)", open("INSTRUCTION.md").read())
import datetime
next_day = datetime.date(*map(int, day.groups())) + datetime.timedelta(1)
hour = int(h) % 12 + (12 if at.endswith("PM") else 0)
ask("POST", "/calendar/events", {"summary": "Review of " + ticket["id"], "start": "%sT%02d:%s:00" % (next_day, hour, m)})
if keep:
    json.dump(known, open(notes, "w"))
print("done", sorted(known))
`

// answers makes kits whose model answers by rules.
func answers(t *testing.T, rules ...map[string]any) func() []byte {
	t.Helper()
	script, err := json.Marshal(map[string]any{"version": 1, "for": "Epoch Evaluation Context", "fallback": "I do not know.", "rule": rules})
	if err != nil {
		t.Fatal(err)
	}
	return func() []byte { return script }
}

func write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, b := range files {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// episode plays one scenario of a folder with a pack, in real boxes.
func episode(t *testing.T, dir, scenario, policy string, script func() []byte) *commands.Episode {
	t.Helper()
	return episodeBy(t, dir, scenario, policy, script, nil)
}

// episodeBy is episode with an environment of its own.
func episodeBy(t *testing.T, dir, scenario, policy string, script func() []byte, environ map[string]string) *commands.Episode {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pack.json")
	if err := os.WriteFile(path, packfile.BuildS1(policy).Canonical, 0o600); err != nil {
		t.Fatal(err)
	}
	kits := kinds.All()
	for i := range kits {
		if kits[i].EntryName == "pack.json" && script != nil {
			kits[i].Script = script
		}
	}
	o := kittest.Options(t.TempDir(), kits)
	if usual := o.Getenv; environ != nil {
		o.Getenv = func(k string) string {
			if v, ok := environ[k]; ok {
				return v
			}
			return usual(k)
		}
	}
	e, err := pack.RunEpisode(t.Context(), o, commands.EpisodeOptions{Scenarios: dir, Scenario: scenario, Pack: path})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Two agents do four days of work in real boxes, one that keeps notes and one that
// does not. Both see fresh services, fresh files and no internet every day; only
// what lies in learned/ goes on, and it is worth something.
func TestSession(t *testing.T) {
	s, err := season.Make(7, 3)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, s.Files)
	run := func(how string) map[string]any {
		return map[string]any{"name": "exec", "arguments": map[string]any{"command": "python3 - " + how + " <<'WORK'" + worker + "\nWORK"}}
	}
	script := answers(t,
		map[string]any{"task": "Keep notes.", "turn": 0, "tool_calls": []any{run("keep")}},
		map[string]any{"turn": 0, "tool_calls": []any{run("forget")}},
		map[string]any{"last_re": "done", "content": "All is done."},
	)
	keeps := episode(t, dir, s.Name, "Keep notes.", script)
	forgets := episode(t, dir, s.Name, "Be quick.", script)
	if !keeps.Qualified || keeps.Score != 1 || keeps.ToolCalls != season.Episodes {
		t.Errorf("who keeps notes: qualified %t, score %v, %d calls: %s\n%s", keeps.Qualified, keeps.Score, keeps.ToolCalls, keeps.Detail, keeps.CallsRaw)
	}
	if !forgets.Qualified || !(forgets.Score < keeps.Score) || !strings.Contains(forgets.Detail, "says_the_runbook") || strings.Contains(forgets.Detail, "1:") {
		t.Errorf("who forgets: qualified %t, score %v: %s\n%s", forgets.Qualified, forgets.Score, forgets.Detail, forgets.CallsRaw)
	}
}

// A verifier's script grades what an agent left, in a box of its own.
func TestVerifier(t *testing.T) {
	const test = `import json, os
with open("/app/out.json") as f:
    got = json.load(f)
assert not os.path.exists("/app/stray"), "the agent's box is not the verifier's"
assert os.access("/app/out.json", os.X_OK)
if "passed" in got:
    json.dump({"results": {"summary": {"tests": 7, "passed": got["passed"]}}}, open("/logs/verifier/ctrf.json", "w"))
with open("/logs/verifier/reward.txt", "w") as f:
    f.write(str(got.get("reward", 0)))
`
	dir := t.TempDir()
	write(t, dir, map[string][]byte{
		"scenarios/sum_up.yaml":                 []byte("name: sum_up\nprompt: Sum up.\ntools: [exec]\nverifier: {tests: tests, output: /app/out.json, timeout: 60}\n"),
		"fixtures/sum_up/tests/test.sh":         []byte("python3 /tests/test_outputs.py\n"),
		"fixtures/sum_up/tests/test_outputs.py": []byte(test),
	})
	leave := func(name, content string) map[string]any {
		return map[string]any{"task": name, "turn": 0, "tool_calls": []any{map[string]any{"name": "exec", "arguments": map[string]any{"command": "touch stray; ls -A /tests | grep . && exit 1; " + content}}}}
	}
	script := answers(t,
		leave("counts", `echo '{"passed": 3}' > out.json`), leave("rewards", `echo '{"reward": 5}' > out.json`), leave("breaks", `echo broken > out.json`), leave("nothing", "true"),
		map[string]any{"last_re": "exitCode", "content": "Done."},
	)
	for _, c := range []struct {
		policy    string
		score     string
		qualified bool
		detail    string
	}{
		{"counts", "0.4286", true, "3 of 7 tests (ctrf)"},
		{"rewards", "1.0000", true, "1 of 1 tests (reward)"},
		{"breaks", "0.0000", false, "no test gave a result"},
		{"nothing", "0.0000", false, "left no /app/out.json"},
	} {
		t.Run(c.policy, func(t *testing.T) {
			t.Parallel()
			e := episode(t, dir, "sum_up", c.policy, script)
			if got := fmt.Sprintf("%.4f", e.Score); got != c.score || e.Qualified != c.qualified || !strings.Contains(e.Detail, c.detail) {
				t.Errorf("score %s, qualified %t, %q; want %s, %t, %q\n%s", got, e.Qualified, e.Detail, c.score, c.qualified, c.detail, e.CallsRaw)
			}
		})
	}
}

// The judge reads a pack before anything is played: one that it refuses costs no call
// of the agent, and the score says why; one that it lets through is played.
func TestIntegrityFirst(t *testing.T) {
	t.Parallel()
	var asked, played atomic.Int32
	judge := func(rule scripted.Rule) http.Handler {
		b, err := json.Marshal(scripted.Script{Version: 1, Fallback: "no", Rules: []scripted.Rule{
			{Task: "GAMING", TaskRE: "may take part", Content: `{"integrity_passed": false, "flags": [{"type": "scenario_gaming", "severity": "critical"}], "summary": "it games"}`},
			{Task: "may take part", Content: `{"integrity_passed": true, "flags": []}`},
			rule,
		}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := scripted.Parse(b, "json")
		if err != nil {
			t.Fatal(err)
		}
		return scripted.Handler(s)
	}
	replies := judge(scripted.Rule{Task: "Epoch Evaluation Context", Content: "Nothing to tell."})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		switch {
		case bytes.Contains(b, []byte("may take part")):
			asked.Add(1)
		case bytes.Contains(b, []byte("Epoch Evaluation Context")):
			played.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
		replies.ServeHTTP(w, r)
	}))
	defer model.Close()
	dir := t.TempDir()
	write(t, dir, map[string][]byte{"scenarios/quiet.yaml": []byte("name: quiet\nprompt: Anything new?\ntools: [exec]\n"), "fixtures/quiet/inbox.json": []byte("[]")})
	keyed := map[string]string{
		"AGON_LLM_BASE_URL": model.URL + "/v1", "AGON_LLM_API_KEY": "sk-test", "AGON_LLM_MODEL": "scripted", "AGON_LLM_PRICE_IN": "1000000", "AGON_LLM_PRICE_OUT": "1000000",
	}
	if e := episodeBy(t, dir, "quiet", "GAMING", nil, keyed); e.Qualified || e.Score != 0 || e.Turns != 0 || e.Cost != nil || !strings.Contains(e.Detail, "integrity_failed: it games") || played.Load() != 0 || asked.Load() != 1 {
		t.Errorf("a gaming pack: %+v; the agent's model was asked %d times, the judge %d", e, played.Load(), asked.Load())
	}
	if e := episodeBy(t, dir, "quiet", "Be brief.", nil, keyed); !e.Qualified || e.Turns != 1 || e.Response != "Nothing to tell." || played.Load() != 1 {
		t.Errorf("a sound pack: %+v; the agent's model was asked %d times", e, played.Load())
	}
}

// The judge may be another model than the players', at a server of its own, and of a list the
// first answers before the next stands in; of the players' list the agent is played by the first.
func TestJudgeOfItsOwn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{} // by server, key, model and what for
	serve := func(name string, down string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			var q struct{ Model string }
			if err = errors.Join(err, json.Unmarshal(b, &q)); err != nil {
				t.Error(err)
			}
			what, reply := "play", "Nothing to tell."
			if bytes.Contains(b, []byte("may take part")) {
				what, reply = "judge", `{"integrity_passed": true, "flags": []}`
			}
			mu.Lock()
			asked[strings.Join([]string{name, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), q.Model, what}, " ")]++
			mu.Unlock()
			if q.Model == down {
				http.Error(w, `{"error":{"message":"down"}}`, http.StatusNotFound)
				return
			}
			if err := json.NewEncoder(w).Encode(map[string]any{
				"id": "c", "object": "chat.completion", "model": q.Model, "choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": reply}}},
				"usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
			}); err != nil {
				t.Error(err)
			}
		}))
		t.Cleanup(s.Close)
		return s.URL + "/v1"
	}
	dir := t.TempDir()
	write(t, dir, map[string][]byte{"scenarios/quiet.yaml": []byte("name: quiet\nprompt: Anything new?\ntools: [exec]\n"), "fixtures/quiet/inbox.json": []byte("[]")})
	e := episodeBy(t, dir, "quiet", "Be brief.", nil, map[string]string{
		"AGON_LLM_BASE_URL": serve("players", ""), "AGON_LLM_API_KEY": "sk-play", "AGON_LLM_MODEL": "fake-1,fake-cheap", "AGON_LLM_PRICE_IN": "1000000", "AGON_LLM_PRICE_OUT": "1000000",
		"AGON_JUDGE_BASE_URL": serve("judges", "strict-1"), "AGON_JUDGE_API_KEY": "sk-judge", "AGON_JUDGE_MODEL": "strict-1,strict-2",
	})
	mu.Lock()
	defer mu.Unlock()
	if !e.Qualified || e.Response != "Nothing to tell." || asked["players sk-play fake-1 play"] != 1 || asked["judges sk-judge strict-2 judge"] == 0 {
		t.Errorf("%+v: %v", e, asked)
	}
	for call := range asked {
		if f := strings.Fields(call); f[0] == "players" && (f[3] != "play" || f[2] != "fake-1") || f[0] == "judges" && f[1] != "sk-judge" { // the gateway probes a judge that fails
			t.Errorf("a call to the wrong place: %s", call)
		}
	}
}
