//go:build interop

package mock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/interoptest"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
)

// The answers that the two servers must give alike, at least.
const wantAnswers = 3000

// clawbenchRepo is a checkout of ClawBench below AGON_STRANGERS, and the Python that runs it.
func clawbenchRepo(t *testing.T) (repo, python string) {
	t.Helper()
	repo = interoptest.Checkout(t, "clawbench", filepath.Join("clawbench", "mock_tools", "server.py"), "github.com/trajectoryRL/clawbench")
	python = filepath.Join(os.Getenv("AGON_INTEROP"), "clawbench", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		interoptest.Absent(t, "the Python environment clawbench")
	}
	return repo, python
}

// theirs starts ClawBench's own server and returns its address.
func theirs(t *testing.T, repo, python, work string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	cmd := exec.Command(python, "-m", "uvicorn", "clawbench.mock_tools.server:app", "--host", "127.0.0.1", "--port", port, "--log-level", "critical")
	cmd.Dir = repo
	cmd.Env = append(os.Environ(), "FIXTURES_PATH="+filepath.Join(repo, "fixtures"), "WORKSPACE_PATH="+work, "LOG_PATH="+t.TempDir(), "SCENARIO=client_escalation")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-gone })
	base := "http://127.0.0.1:" + port
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if r, err := http.Get(base + "/health"); err == nil {
			_ = r.Body.Close()
			return base
		}
	}
	t.Fatal("ClawBench's server did not start within a minute")
	return ""
}

func ours(t *testing.T, repo, work string) string {
	t.Helper()
	s, err := New(Config{Fixtures: os.DirFS(filepath.Join(repo, "fixtures")), Workspace: os.DirFS(work), Scenario: "client_escalation"})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return h.URL
}

// moment is the time in the names of what was made.
var moment = regexp.MustCompile(`(draft|evt|page|slack_msg)_20\d{12}`)

func ask(t *testing.T, base, path, body string) (status int, answer any) {
	t.Helper()
	// ClawBench's server drops the connection after a status of 500, so each question has its own.
	req, err := http.NewRequest(http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode == http.StatusInternalServerError {
		return r.StatusCode, nil // theirs is a bare text
	}
	if err := json.Unmarshal(moment.ReplaceAll(b, []byte("${1}_NOW")), &answer); err != nil {
		t.Fatalf("%s%s answers %q: %v", base, path, b, err)
	}
	return r.StatusCode, answer
}

// TestClawBench asks ClawBench's own server and this one the same random
// questions about its seven scenarios. No answer may differ.
func TestClawBench(t *testing.T) {
	repo, python := clawbenchRepo(t)
	work := t.TempDir()
	for name, text := range map[string]string{
		"AGENTS.md": "# Policy of {{USER_NAME}}\r\nBe brief.\n", "notes/plan.md": "one\ntwo\n\n{{USER_FIRST_NAME}} {{nothing}}", "USER.md": "I am {{USER_NAME}}, {{USER_ROLE}}.\n", "empty.txt": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	their, our := theirs(t, repo, python, work), ours(t, repo, work)
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("AGON_SEED"); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("seed %d (AGON_SEED repeats it)", seed)
	scenarios, err := filepath.Glob(filepath.Join(repo, "fixtures", "*"))
	if err != nil || len(scenarios) == 0 {
		t.Fatal("no fixtures: ", err)
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	count, differ, walls := 0, 0, 0
	for _, dir := range scenarios {
		a := asker{rng: rng, scenario: filepath.Base(dir)}
		a.learn(t, dir)
		steps := []string{"/set_scenario/" + a.scenario}
		if rng.IntN(4) > 0 {
			steps = append(steps, "/set_user_context")
		}
		for _, step := range steps {
			for _, base := range []string{their, our} {
				if status, _ := ask(t, base, step, `{"USER_NAME":"Jordan Rivera","USER_ROLE":"Lead","COMPANY":"Vertex Labs"}`); status != 200 {
					t.Fatalf("%s%s: status %d", base, step, status)
				}
			}
		}
		for range wantAnswers/len(scenarios) + 60 {
			tool, body := a.question()
			status, want := ask(t, their, "/tools/"+tool, body)
			got, have := ask(t, our, "/tools/"+tool, body)
			count++
			if status == http.StatusInternalServerError {
				walls++
			}
			if status != got || !reflect.DeepEqual(want, have) {
				if differ++; differ <= 20 {
					t.Errorf("%s: %s %s\n theirs %d %.600v\n ours   %d %.600v", a.scenario, tool, body, status, want, got, have)
				}
			}
		}
	}
	t.Logf("%d of %d answers differ (%d of them status 500 on both sides)", differ, count, walls)
	if count < wantAnswers {
		t.Errorf("%d answers were compared, want at least %d", count, wantAnswers)
	}
}

// asker makes questions about one scenario out of what its files hold.
type asker struct {
	rng      *rand.Rand
	scenario string
	known    []string // ids, names, URLs and words of the fixtures
	files    []string
}

func (a *asker) learn(t *testing.T, dir string) {
	t.Helper()
	seen := map[string]bool{}
	var walk func(v any)
	add := func(s string) {
		if s != "" && len(s) < 80 && !seen[s] {
			seen[s] = true
			a.known = append(a.known, s)
		}
	}
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				if strings.HasPrefix(k, "http") {
					add(k)
				}
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		case string:
			add(v)
		}
	}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		a.files = append(a.files, rel)
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if v := any(nil); json.Unmarshal(b, &v) == nil {
			walk(v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(a.known) // maps come in any order; the seed decides alone
}

func (a *asker) one(of ...string) string { return of[a.rng.IntN(len(of))] }

func (a *asker) id() string {
	if a.rng.IntN(6) == 0 {
		return a.one("zz", "None", "", "msg_101", "é", "  ")
	}
	return a.one(a.known...)
}

// odd is a value that seldom fits.
func (a *asker) odd() any {
	return []any{nil, true, false, 0, 1, 2, -1, -3, 7, 10000, 1.5, "3", "", []any{"a"}, map[string]any{"b": 1}, "#"}[a.rng.IntN(16)]
}

func (a *asker) question() (tool, body string) {
	tool = a.one(append(slices.Clone(clawbench.Tools), "exec", "exec", "exec", "read")...)
	args := map[string]any{}
	switch tool {
	case "exec":
		args["command"] = a.command()
	case "slack":
		args["action"] = a.one("readMessages", "readMessages", "readMessages", "sendMessage", "editMessage", "deleteMessage", "react", "reactions", "pinMessage",
			"unpinMessage", "listPins", "memberInfo", "memberInfo", "listChannels", "emojiList", "dance", "")
		for _, k := range []string{"channelId", "to", "limit", "content", "messageId", "emoji", "remove", "userId"} {
			if a.rng.IntN(2) == 0 {
				args[k] = a.one("", "#", "##") + a.id()
			}
		}
		if _, ok := args["limit"]; ok {
			args["limit"] = a.rng.IntN(12) - 3
		}
	case "memory_search":
		args["query"] = a.id() + a.one("", " ", "\t", "\u2003") + a.one("priority", "THE", "xyzzy", "a", "")
		if a.rng.IntN(2) == 0 {
			args["maxResults"] = a.rng.IntN(9) - 1
		}
	case "memory_get", "read":
		args["path"] = a.path()
		if a.rng.IntN(2) == 0 {
			args["from"] = a.rng.IntN(12) - 2
		}
		if a.rng.IntN(2) == 0 {
			args["lines"] = a.rng.IntN(12) - 4
		}
	case "web_search":
		args["query"] = a.id()
		if a.rng.IntN(2) == 0 {
			args["count"] = a.rng.IntN(6) - 2
		}
	case "web_fetch":
		args["url"] = a.id()
		if a.rng.IntN(2) == 0 {
			args["extractMode"] = a.one("text", "markdown", "")
		}
	}
	if a.rng.IntN(12) == 0 { // one argument of a wrong kind, or one that is missing
		keys := make([]string, 0, len(args))
		for k := range args {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		if len(keys) > 0 {
			k := a.one(keys...)
			if args[k] = a.odd(); a.rng.IntN(3) == 0 {
				delete(args, k)
			}
		}
	}
	if a.rng.IntN(60) == 0 {
		return a.one("shell", "slack/x", "", "Exec"), a.one("{}", "", "x")
	}
	if a.rng.IntN(40) == 0 {
		return tool, a.one("", "not json", "[]", "null", "3", `"x"`, "{", `{"command":`, "true")
	}
	b, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return tool, string(bytes.TrimSpace(b))
}

func (a *asker) path() string {
	switch a.rng.IntN(8) {
	case 0:
		return a.one("AGENTS.md", "USER.md", "notes/plan.md", "plan.md", "notes", "empty.txt", "/workspace/AGENTS.md", "/workspace/USER.md", "./USER.md", "x/USER.md")
	case 1:
		return a.one("../../etc/passwd", "/etc/passwd", "..", ".", "", "memory", "memory/", "../"+a.scenario+"/USER.md", "memory/../USER.md", "nowhere/../USER.md", "..\\x", "é.md", "../inbox.json")
	}
	f := a.one(a.files...)
	return a.one(f, f, f, filepath.Base(f), "./"+f, "memory/"+f, strings.ToUpper(f))
}

func (a *asker) command() string {
	id := a.id()
	blank := a.one(" ", " ", " ", "  ", "\t", "\n", "\u00a0")
	base := a.one(
		"himalaya"+blank+"list", "himalaya"+blank+"envelope"+blank+"list --folder INBOX", "himalaya message read "+id, "himalaya message"+blank+"read '"+id+"'",
		`himalaya message read "`+id+`"`, "himalaya read "+id, "himalaya message write x", "himalaya template write", "himalaya draft x", "himalaya message draft",
		"himalaya message send <x", "himalaya template send", "himalaya send", "himalaya flag add "+id+" seen", "himalaya flags", "HIMALAYA list",
		"curl https://api.notion.com/v1/databases/"+id+"/query", "curl -X POST https://api.notion.so/v1/databases/x/query", "CURL https://api.notion.com/v1/pages/"+id,
		"curl -s https://api.notion.so/v1/pages/"+id+"?x=1", "curl -X POST https://api.notion.com/v1/pages -d '{}'", "curl -XPOST https://api.notion.com/v1/pages",
		"curl https://api.notion.com/v1/pages -X POST", "curl -X PATCH https://api.notion.com/v1/pages/", "curl -X PATCH https://api.notion.com/v1/pages/"+id,
		"curl https://api.notion.com/v1/databases", "curl https://api.notion.com/v1/databasesé", "curl https://api.notion.com/v1/databases/x", "curl https://example.com/v1/pages/"+id,
		"curl https://www.googleapis.com/calendar/v3/calendars/primary/events", "curl -X"+blank+"POST https://www.googleapis.com/calendar/v3/calendars/p/events -d x",
		"curl -x post https://www.googleapis.com/calendar/v3/calendars/p/events", "curl -XDELETE https://googleapis.com/calendar/v3/calendars/p/events/e1",
		"curl -X PUT https://www.googleapis.com/calendar/v3/calendars/p/events/e1", "curl -X PATCH https://www.googleapis.com/calendar/v3/calendars/p/events/e1",
		"curl https://www.googleapis.com/calendar/v3/calendars/events", "gcalcli agenda", "gcalcli"+blank+"list", "GCALCLI search x", "gcal list-events", "gcalcli add x",
		"gcal create-event", "gcalcli delete "+id, "gcal delete-event "+id, "gh"+blank+"pr list", "gh", "xgh pr", "é gh pr", "égh pr", "a-gh x", "ls -la", "cat "+id, "", "éàü "+strings.Repeat("ß", 120),
		"echo 'himalaya message read "+id+"'; himalaya list",
	)
	return a.one(base, base, base, "cd /workspace && "+base, "sh -c '"+base+"'", "cat d | "+base, "  "+base+"\n", base+" | head -5", base+" && "+a.one("ls", "himalaya list", "gh x"))
}

// TestClawBenchScript runs ClawBench's own test of a mock server against its
// server and this one: this one passes what its own passes.
func TestClawBenchScript(t *testing.T) {
	repo, python := clawbenchRepo(t)
	empty := t.TempDir()
	passed := func(base string) (list []string) {
		out, err := exec.Command(python, filepath.Join(repo, "scripts", "test_mock_tools.py"), "--base-url", base).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "PASS") && strings.Contains(line, "[") {
				name, _, _ := strings.Cut(line, " — ")
				list = append(list, strings.TrimSpace(name))
			}
		}
		if len(list) == 0 {
			t.Fatalf("the script passes nothing against %s: %v\n%s", base, err, out)
		}
		return list
	}
	want, have := passed(theirs(t, repo, python, empty)), passed(ours(t, repo, empty))
	t.Log(fmt.Sprintf("ClawBench's script passes %d against its own server, %d against this one", len(want), len(have)))
	if !slices.Equal(want, have) {
		t.Errorf("theirs %q\nours %q", want, have)
	}
}
