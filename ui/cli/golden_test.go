package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/clitest"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// Every list and view, as a wide terminal, a narrow one and a pipe get it, over
// an arena whose ids and times stand still. UPDATE_GOLDEN=1 writes the files anew.

// views are the commands; the key names the file in testdata/golden.
var views = map[string][]string{
	"arena-list":       {"arena", "list"},
	"arena-view":       {"arena", "view", "demo-golf"},
	"board":            {"board", "demo-golf"},
	"submission-list":  {"submission", "list"},
	"submission-view":  {"submission", "view", "sub-scored"},
	"submission-gate":  {"submission", "view", "sub-refused"},
	"run-list":         {"run", "list"},
	"run-view":         {"run", "view", "run-scored"},
	"run-view-failed":  {"run", "view", "run-failed"},
	"run-logs":         {"run", "logs", "run-scored"},
	"run-trace":        {"run", "trace", "run-scored"},
	"ledger-view":      {"ledger", "view", "--netuid", "1"},
	"operator-log":     {"operator", "log", "--wallet.name", "alice"},
	"operator-webhook": {"operator", "webhook", "--wallet.name", "alice"},
	"operator-vetting": {"operator", "vetting", "list", "demo-golf", "--wallet.name", "alice"},
	"task-list":        {"task", "list"},
	"kind-list":        {"kind", "list"},
	"key-list":         {"key", "list"},
	"key-show":         {"key", "show", "--wallet.name", "alice"},
	"config-view":      {"config", "view", "--origin"},
	"doctor":           {"doctor"},
	"version":          {"version"},
}

// elsewhere are lists and views that stand on data of their own, with the test that looks at them.
var elsewhere = map[string]string{
	"log":                  "a group: what it prints are signed notes, which engine/translog and engine/audit test",
	"image list":           "cmd/agon: a cache that holds images",
	"dataset list":         "cmd/agon: a cache that holds data sets",
	"corpus stats":         "corpus.txtar and package corpus: a built corpus",
	"ledger metagraph":     "ledger.txtar: a ledger file",
	"ledger commitments":   "ledger.txtar: a ledger file",
	"pack status":          "internal/run: a chain",
	"operator webhook add": "internal/run: changes something",
}

var golden = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// filled is a /v1 whose answers have every field.
func filled(t *testing.T) *httptest.Server {
	f := func(v float64) *float64 { return &v }
	n := func(v int) *int { return &v }
	const alice, bob = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY", "5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty"
	hidden := agon.TaskRef{Key: "small/a-task-with-a-rather-long-name", Digest: agon.Sum([]byte("b")), Hidden: true}
	open := agon.TaskRef{Key: "small/a", Digest: agon.Sum([]byte("a"))}
	arenas := []client.Arena{
		{Arena: agon.Arena{
			ID: "demo-golf", Kind: "golf", Title: "Software engineering: mend the bug", Netuid: 1, State: agon.ArenaOpen, Licence: "MIT", Incentive: "winner_takes_all",
			Tasks: []agon.TaskRef{open, hidden}, MaxLeases: 4, Attempts: 2, SubmissionsPerColdkey: 10,
			Policy: agon.Policy{Models: []string{"*"}, Budget: agon.Budget{Micros: 2_000_000, Calls: 50}, Agent: agon.Limits{WallMS: 300_000}},
		}, Queued: 12, Playing: 3, Champion: &agon.Seat{Arena: "demo-golf", Submission: "sub-scored", Score: 0.75, Since: golden}},
		{Arena: agon.Arena{ID: "demo-chess", Kind: "chess", Title: "Claims \x1b[31mred \u202eesrever", Netuid: 2, State: agon.ArenaPaused, Licence: "CC-BY-4.0"}},
	}
	subs := []client.Submission{
		{Submission: agon.Submission{ID: "sub-scored", Arena: "demo-golf", Name: "repair", Miner: alice, Coldkey: bob, Digest: agon.Sum([]byte("s")), Licence: "MIT", State: agon.SubmissionScored, Seq: 3, CreatedAt: golden}, Score: f(0.75), Solved: n(9), Total: n(12), CostMicros: 1500, Decision: &agon.Decision{Arena: "demo-golf", Challenger: "sub-scored", Incumbent: "sub-old", Bar: f(0.7), Score: 0.75, Outcome: agon.TookSeat, Rule: "winner_takes_all", Numbers: map[string]float64{"margin": 1.015, "incumbent": 0.69}, At: golden}},
		{Submission: agon.Submission{ID: "sub-playing", Arena: "demo-golf", Name: "a submission whose name goes on for rather longer than a terminal is wide", Miner: bob, Licence: "MIT", State: agon.SubmissionPlaying, Scripted: true, Seq: 4, CreatedAt: golden}},
		{Submission: agon.Submission{ID: "sub-refused", Arena: "demo-chess", Name: "evil\x1b[2J\u202ename\nline", Miner: bob, Licence: "MIT", State: agon.SubmissionExcluded, Seq: 5, CreatedAt: golden}, Findings: []agon.Finding{{Code: "copy", Field: "agent.py", Limit: "0.9", Message: "a copy of sub-scored\x1b[1m"}}},
	}
	runs := []client.Run{
		{Run: agon.Run{RunSpec: agon.RunSpec{Run: "run-scored", Arena: "demo-golf", Tasks: []agon.TaskRef{open}, Seed: 42}, Submission: "sub-scored", State: agon.RunScored, Attempts: 2, CreatedAt: golden, EndedAt: golden.Add(90 * time.Second), Scores: []agon.Score{{Run: "run-scored", Task: "small/a", Value: 1, Solved: true, Scorer: "golf-1", Detail: "12 of 12 tests passed", Metrics: map[string]float64{"tests": 12}}}}, List: []agon.Attempt{
			{Run: "run-scored", N: 1, Validator: alice, State: "done", Fault: agon.FaultProvider, Reason: "the provider is down\x1b[0m", Driver: agon.Driver{Name: "runsc", Version: "1"}, LeasedAt: golden, EndedAt: golden.Add(time.Second)},
			{Run: "run-scored", N: 2, Validator: bob, State: "done", Driver: agon.Driver{Name: "runc", Version: "1.1"}, Counted: true, CostMicros: 1500, BoxMS: 4321, LeasedAt: golden.Add(time.Minute), EndedAt: golden.Add(90 * time.Second)},
		}},
		{Run: agon.Run{RunSpec: agon.RunSpec{Run: "run-failed", Arena: "demo-golf", Tasks: []agon.TaskRef{hidden}, Replica: 1, Seed: 7}, Submission: "sub-playing", State: agon.RunFailed, Attempts: 3, Fault: agon.FaultValidator, Reason: "the box \x1b]0;owned\x07died", CreatedAt: golden, EndedAt: golden.Add(time.Hour)}},
		{Run: agon.Run{RunSpec: agon.RunSpec{Run: "run-queued", Arena: "demo-chess", Tasks: []agon.TaskRef{open, hidden}}, Submission: "sub-playing", State: agon.RunQueued, CreatedAt: golden}},
	}
	event := func(seq int64, typ, data string) agon.Event {
		return agon.Event{Run: "run-scored", Attempt: 2, Seq: seq, Type: typ, At: golden.Add(time.Duration(seq) * time.Second), Task: "small/a", Data: json.RawMessage(data)}
	}
	events := []agon.Event{
		event(1, agon.EventPhase, `{"phase":"playing"}`),
		event(2, agon.EventOutput, `{"stream":"stdout","text":"hello \u001b]0;owned\u0007world\n"}`),
		event(3, agon.EventModel, `{"receipt":{"id":"r1","model":"m-1","prompt_tokens":10,"completion_tokens":5,"cost_micros":1500,"outcome":"ok","start":"2026-03-04T05:06:10Z","end":"2026-03-04T05:06:11Z"},"message":{"content":"I look first.\u202e"}}`),
		event(4, agon.EventScore, `{"task":"small/a","value":1,"solved":true}`),
	}
	mux := http.NewServeMux()
	reply := func(pattern string, v any) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, _ *http.Request) { send(w, 200, v) })
	}
	reply("/v1/server", client.Server{Name: "stub", Version: agon.Version, Audience: "agon:test", Operator: alice, Time: golden})
	reply("/v1/arenas", client.Page[client.Arena]{Items: arenas})
	reply("/v1/arenas/demo-golf", arenas[0])
	reply("/v1/arenas/demo-golf/board", board())
	reply("/v1/overview", client.Overview{Arenas: []client.Board{board()}})
	reply("/v1/submissions", client.Page[client.Submission]{Items: subs})
	reply("/v1/submissions/sub-scored", subs[0])
	reply("/v1/submissions/sub-refused", subs[2])
	reply("/v1/runs", client.Page[client.Run]{Items: runs})
	reply("/v1/runs/run-scored", runs[0])
	reply("/v1/runs/run-failed", runs[1])
	reply("/v1/operator/log", client.Page[agon.OperatorAction]{Items: []agon.OperatorAction{
		{At: golden, Actor: alice, What: "retune", Target: "demo-golf", Reason: "the model is slow today", Change: "max_leases 2 -> 4"},
		{At: golden, Actor: alice, What: "ban", Target: "sub-refused", Reason: "a copy\x1b[2J"},
	}})
	until := golden.Add(5 * time.Minute)
	reply("/v1/arenas/demo-golf/vettings", client.Page[client.Vetting]{Items: []client.Vetting{
		{ID: "vetting-2", Arena: "demo-golf", Submission: "sub-playing", What: "entry", State: "held", Tries: 1, Worker: "judge\x1b[2J one", LeaseUntil: &until, CreatedAt: golden},
		{ID: "vetting-1", Arena: "demo-golf", Submission: "sub-scored", What: "entry", State: "sent", Tries: 2, Worker: "judge one", Verdict: "unsure", Confidence: 0.4, Summary: "a table of constants \u202elooks odd", CreatedAt: golden},
	}})
	reply("/v1/webhooks", client.Webhooks{Key: "whpk_AAAA", Items: []agon.Webhook{
		{ID: "hook-1", URL: "https://example.org/hook", Types: []string{"seat.taken"}, CreatedAt: golden},
		{ID: "hook-2", URL: "https://example.org/a/rather/long/path/of/another/hook", Types: []string{"*"}, CreatedAt: golden, Disabled: "it did not answer for three days"},
	}})
	reply("/v1/ledger/1", client.Metagraph{Netuid: 1, Block: 1234, Weights: []agon.Weight{{UID: 1, Hotkey: alice, Weight: 65535}}, Neurons: []client.Neuron{
		{UID: 0, Hotkey: bob, Coldkey: alice, Validator: true, Stake: 1_000_000_000_000, Registered: 1, LastUpdate: 1200},
		{UID: 1, Hotkey: alice, Coldkey: bob, Registered: 12, Incentive: 65535},
	}})
	mux.HandleFunc("GET /v1/runs/{id}/events", func(w http.ResponseWriter, r *http.Request) {
		page := client.Page[agon.Event]{Items: []agon.Event{}}
		after, _ := client.ParseCursor(r.URL.Query().Get("after"))
		for _, e := range events {
			if after.Before(client.CursorOf(e)) {
				page.Items = append(page.Items, e)
			}
		}
		send(w, 200, page)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

// goldenApp is one invocation: width 0 is a pipe.
func goldenApp(home, url string, width int, env map[string]string) (*cli.App, *iostreams.Buffer, *iostreams.Buffer) {
	s, out, errOut := iostreams.Test("")
	if width > 0 {
		s.ForceTTY(width)
	}
	getenv := func(k string) string {
		switch k {
		case "AGON_URL":
			return url
		case "TEST_SANDBOX":
			return "fail"
		}
		return env[k]
	}
	return &cli.App{
		IO: s, Now: func() time.Time { return golden }, Commit: "abc123", Services: fakeServices(),
		Env: config.Env{Getenv: getenv, Dir: home, Home: home, UserCacheDir: home},
	}, out, errOut
}

func TestGolden(t *testing.T) {
	t.Setenv("TEST_SANDBOX", "fail")
	srv := filled(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	const home = "home" // of one length, wherever the test runs
	// Everybody knows these keys.
	for _, name := range []string{"alice", "bob"} {
		file := name + ".uri"
		if err := os.WriteFile(file, []byte("//"+strings.ToUpper(name[:1])+name[1:]+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		a, _, errOut := goldenApp(home, srv.URL, 0, nil)
		if code := a.Main(t.Context(), []string{"key", "import", file, "--wallet.name", name, "--coldkey", "5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty"}); code != 0 {
			t.Fatalf("import %s: %s", name, errOut)
		}
	}
	dir := filepath.Join(here, "testdata", "golden")
	plainText := func(s string) string {
		s = strings.NewReplacer(srv.URL, "http://SERVER").Replace(s)
		return regexp.MustCompile(`go1\.[0-9.]+`).ReplaceAllString(s, "go1.X")
	}
	for name, args := range views {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, width := range []int{110, 40, 0} {
				a, out, errOut := goldenApp(home, srv.URL, width, map[string]string{"NO_COLOR": "1"})
				code := a.Main(t.Context(), args)
				text := out.String()
				if strings.ContainsAny(text, "\x1b\x07\u202e") {
					t.Errorf("width %d: control characters of others reach the reader: %q", width, text)
				}
				fmt.Fprintf(&b, "-- %s --\n", map[int]string{110: "terminal", 40: "narrow terminal", 0: "pipe"}[width])
				if width == 0 {
					text = clitest.Indent(text)
				}
				b.WriteString(plainText(text))
				if e := errOut.String(); e != "" || code != 0 {
					fmt.Fprintf(&b, "-- stderr, exit code %d --\n%s", code, plainText(e))
				}
			}
			clitest.Golden(t, filepath.Join(dir, name+".txt"), b.String())
		})
	}
}

// TestEveryViewHasAGolden: no list or view is forgotten.
func TestEveryViewHasAGolden(t *testing.T) {
	dir := t.TempDir()
	a, _, errOut := goldenApp(dir, "", 0, nil)
	if code := a.Main(t.Context(), []string{"docs", dir}); code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	ref, err := os.ReadFile(filepath.Join(dir, "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"list", "view", "show", "log", "logs", "trace", "board", "status", "stats", "metagraph", "commitments", "webhook", "doctor", "version"}
	n := 0
	for _, m := range regexp.MustCompile(`(?m)^## agon (.+)$`).FindAllStringSubmatch(string(ref), -1) {
		path := strings.Fields(m[1])
		if !slices.Contains(words, path[len(path)-1]) {
			continue
		}
		n++
		here := elsewhere[m[1]] != ""
		for _, args := range views {
			here = here || (len(args) >= len(path) && slices.Equal(args[:len(path)], path))
		}
		if !here {
			t.Errorf("agon %s: no golden", m[1])
		}
	}
	if n < 20 {
		t.Errorf("only %d lists and views", n)
	}
}

// Colour is for terminals that take it; --jq filters what a pipe would get.
func TestColourAndJQ(t *testing.T) {
	srv, home := filled(t), t.TempDir()
	for _, x := range []struct {
		name   string
		width  int
		env    map[string]string
		args   []string
		colour bool
	}{
		{"terminal", 100, nil, nil, true},
		{"NO_COLOR", 100, map[string]string{"NO_COLOR": "1"}, nil, false},
		{"dumb terminal", 100, map[string]string{"TERM": "dumb"}, nil, false},
		{"pipe", 0, nil, []string{"-o", "table"}, false},
		{"pipe, forced", 0, nil, []string{"-o", "table", "--color", "always"}, true},
		{"terminal, never", 100, nil, []string{"--color", "never"}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, out, errOut := iostreams.Test("")
			if x.width > 0 {
				s.ForceTTY(x.width)
			}
			getenv := func(k string) string {
				if k == "AGON_URL" {
					return srv.URL
				}
				return x.env[k]
			}
			sys := iostreams.System(getenv) // decides by the environment as the real one does
			a := &cli.App{IO: s, Now: func() time.Time { return golden }, Env: config.Env{Getenv: getenv, Dir: home, Home: home, UserCacheDir: home}}
			if x.width > 0 && len(x.args) == 0 {
				sys.ForceTTY(x.width)
				sys.Out, sys.Err = out, errOut
				a.IO = sys
			}
			if code := a.Main(t.Context(), append([]string{"run", "list"}, x.args...)); code != 0 {
				t.Fatalf("exit code %d: %s", code, errOut)
			}
			if got := strings.Contains(out.String(), "\x1b["); got != x.colour {
				t.Errorf("colour %v, want %v: %q", got, x.colour, out)
			}
		})
	}
	for expr, want := range map[string]string{`.[].run`: "\"run-scored\"\n\"run-failed\"\n\"run-queued\"\n", `map(select(.fault == "validator")) | length`: "1\n"} {
		a, out, errOut := goldenApp(home, srv.URL, 0, nil)
		if code := a.Main(t.Context(), []string{"run", "list", "--jq", expr}); code != 0 || !strings.Contains(strings.ReplaceAll(want, `"`, ""), strings.ReplaceAll(out.String(), `"`, "")) || out.String() == "" {
			t.Errorf("--jq %s: %d, %q, %s", expr, code, out, errOut)
		}
	}
}

// Ids are offered as arguments, and nothing else when the server is away.
func TestCompleteIDs(t *testing.T) {
	srv, home := filled(t), t.TempDir()
	for _, x := range []struct {
		args []string
		want string // each line up to the directive
	}{
		{[]string{"arena", "view"}, "demo-golf demo-chess"},
		{[]string{"board"}, "demo-golf demo-chess"},
		{[]string{"submission", "view"}, "sub-scored sub-playing sub-refused"},
		{[]string{"submission", "download"}, "sub-scored sub-playing sub-refused"},
		{[]string{"verify"}, "run-scored run-failed run-queued"},
		{[]string{"operator", "pause"}, "demo-golf demo-chess"},
		{[]string{"operator", "retune"}, "demo-golf demo-chess"},
		{[]string{"operator", "cancel"}, "run-scored run-failed run-queued"},
		{[]string{"operator", "ban"}, "sub-scored sub-playing sub-refused"},
		{[]string{"run", "view"}, "run-scored run-failed run-queued"},
		{[]string{"run", "watch"}, "run-scored run-failed run-queued"},
		{[]string{"run", "logs"}, "run-scored run-failed run-queued"},
		{[]string{"run", "trace"}, "run-scored run-failed run-queued"},
		{[]string{"run", "view", "run-scored"}, ""}, // one is enough
	} {
		for _, url := range []string{srv.URL, "http://127.0.0.1:1"} {
			a, out, errOut := goldenApp(home, url, 0, nil)
			a.CompleteIn = time.Minute // a busy machine is slower than a prompt may be
			code := a.Main(t.Context(), append(append([]string{"__complete"}, x.args...), ""))
			words, _, _ := strings.Cut(out.String(), ":4\n")
			want := x.want
			if url != srv.URL {
				want = ""
			}
			if got := strings.Join(strings.Fields(words), " "); code != 0 || got != want {
				t.Errorf("%v at %s: %d, %q, want %q (%s)", x.args, url, code, got, want, errOut)
			}
		}
	}
}
