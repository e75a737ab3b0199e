package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/clitest"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/progress"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"agon": func() { os.Exit(agonMain()) }})
}

// agonMain is the binary of the scripts: the real commands over fake services.
func agonMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	env, err := config.System()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	app := &cli.App{IO: iostreams.System(os.Getenv), Env: env, Commit: "abc123", Services: fakeServices(), Poll: 5 * time.Millisecond}
	return app.Main(ctx, os.Args[1:])
}

func fakeServices() cli.Services {
	score := func(v float64) *float64 { return &v }
	return cli.Services{
		Roles: cli.Roles{
			Up: func(ctx context.Context, o cli.UpOptions) (*client.Overview, error) {
				o.Say("listening on %s", o.Config.Get(config.Listen))
				for _, f := range o.ArenaFiles {
					o.Say("opens %s", f)
				}
				for i := range 4 {
					o.Progress(progress.State{Label: "playing", Total: 3, Done: i})
				}
				o.Ready("http://" + o.Config.Get(config.Listen))
				b := board()
				v := &client.Overview{Arenas: []client.Board{b}, Runs: client.RunCounts{Scored: 54, ByFault: map[agon.Fault]int{agon.FaultAgent: 1}}, BoxDriver: "runc"}
				o.Decided(v)
				if !o.Once {
					fmt.Fprintln(os.Stderr, "up and waiting")
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return v, nil
			},
			Validator: func(context.Context, cli.ValidatorOptions) error { return nil },
		},
		Host: cli.Host{
			Doctor: func(context.Context, cli.DoctorOptions) ([]cli.Check, error) {
				return []cli.Check{{Name: "sandbox", Status: os.Getenv("TEST_SANDBOX"), Detail: "runc", Mend: "install runc"}}, nil
			},
		},
		Agents: cli.Agents{
			EntryName: func(string, string) string { return "agent.py" },
			Templates: map[string]fs.FS{
				"golf":    fstest.MapFS{"agent.py": {Data: []byte("def agent_main(input):\n    return {\"patch\": \"\"}\n")}},
				"croquet": fstest.MapFS{"agent.py": {Data: []byte("def agent_main(input):\n    pass\n")}},
				"bowls":   fstest.MapFS{"agent.py": {Data: []byte("def agent_main(input):\n    pass\n")}},
			},
			Try: func(_ context.Context, o cli.TryOptions) (*cli.TryResult, error) {
				if len(o.Tasks) > 0 && o.Tasks[0] == "secret/one" {
					return nil, &agon.Error{Code: "hidden_task", Status: 422, Message: "secret/one is hidden", Mend: "try the public tasks"}
				}
				if len(o.Tasks) > 0 {
					r := &cli.TryResult{Arena: o.Arena, Score: score(1), Solved: 1, Total: 1, Runs: []cli.TryRun{{Task: o.Tasks[0], State: agon.RunScored, Score: score(1), Solved: true}}}
					if r.Scripted = strings.HasPrefix(o.Tasks[0], "script/"); r.Scripted {
						r.Rehearsal = o.Tasks[0] == "script/rehearsal"
					}
					if o.Tasks[0] == "small/broken" {
						return r, &agon.Error{Code: "failed_here", Status: 503, Fault: agon.FaultValidator, Message: "a run failed on our side"}
					}
					return r, nil
				}
				return &cli.TryResult{Arena: o.Arena, Score: score(0.5), Solved: 1, Total: 2, Runs: []cli.TryRun{
					{Task: "small/a", State: agon.RunScored, Score: score(1), MS: 12},
					{Task: "small/b", State: agon.RunScored, Fault: agon.FaultAgent, Score: score(0), MS: 7, Detail: "raised \x1b[31mboom"},
				}}, nil
			},
		},
		Tasks: cli.Tasks{
			Check: func(_ context.Context, o cli.TaskCheckOptions) ([]cli.TaskReport, error) {
				return []cli.TaskReport{{Task: o.Dirs[0], OK: o.Dirs[0] == "good", Oracle: score(1), Nop: score(0), Oracles: []float64{1, 1}, Nops: []float64{0, 0}, Reason: ""}}, nil
			},
			Fetch: func(_ context.Context, o cli.TaskFetchOptions) ([]cli.TaskFetched, error) {
				var out []cli.TaskFetched
				for _, t := range o.Tasks {
					out = append(out, cli.TaskFetched{Task: t, OK: !strings.HasPrefix(t, "bad"), Reason: "index unreachable"})
				}
				return out, nil
			},
			List: func(context.Context, cli.TaskListOptions) ([]cli.TaskInfo, error) {
				return []cli.TaskInfo{{Task: "small/a", Kind: "golf", Available: true}}, nil
			},
		},
		Kinds: cli.Kinds{
			List: func() []cli.KindInfo {
				return []cli.KindInfo{{Kind: "golf", Arena: "demo-golf", Sets: []string{"small"}, Samples: []string{"nop", "repair"}}, {Kind: "croquet", Arena: "lawn", Sets: []string{"short"}, Samples: []string{"nop"}}}
			},
			New: func(o cli.KindNewOptions) (*cli.KindNew, error) {
				if o.Name == "func" {
					return nil, &agon.Error{Code: "bad_name", Status: 422, Field: "name", Message: "\"func\" is a word of Go", Mend: "choose another name"}
				}
				return &cli.KindNew{Kind: o.Name, Dir: o.Dir, Module: o.Module, Package: o.Module, Arena: o.Name + ".toml", Files: []string{o.Dir + "/kit.go"}, Next: []string{"make build", "bin/agon up"}}, nil
			},
			Build: func(_ context.Context, o cli.BuildOptions) (*cli.Built, error) {
				o.Say("building with %d", len(o.With))
				return &cli.Built{File: o.File, With: o.With, Agon: o.Agon}, nil
			},
		},
		Calc:    calc.New(append(incentive.Rules(), auth.Rules()...)...),
		OpenAPI: map[string]func() ([]byte, error){"openapi.json": func() ([]byte, error) { return []byte("{}\n"), nil }},
	}
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: false,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			s := newStub()
			srv := httptest.NewServer(s)
			e.Defer(srv.Close)
			e.Setenv("AGON_URL", srv.URL)
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("TEST_SANDBOX", "ok")
			e.Setenv("NO_COLOR", "1")
			e.Setenv("GORACE", "atexit_sleep_ms=0") // the detector would sleep a second at each exit
			return os.MkdirAll(e.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": clitest.Exits, "node": node},
	})
}

// node serves the ledger in a file as a chain's node, at $NODE and $NODE_HTTP.
func node(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: node FILE")
	}
	ctx := context.Background()
	l, err := local.Open(ctx, ts.MkAbs(args[0]), local.Config{})
	ts.Check(err)
	h, err := rpc.New(rpc.Config{Ledger: l, Genesis: "script", Replay: l, Now: time.Now})
	ts.Check(err)
	s := httptest.NewServer(h)
	ts.Defer(func() {
		s.Close()
		ts.Check(l.Close())
	})
	ts.Setenv("NODE_HTTP", s.URL)
	ts.Setenv("NODE", "ws"+strings.TrimPrefix(s.URL, "http"))
}

// stub is a small /v1 with state enough for the scripts. It checks signatures.
type stub struct {
	mu      sync.Mutex
	mux     *http.ServeMux
	verify  auth.Verifier
	polls   int
	neurons []client.Neuron
	streams int
}

func board() client.Board {
	f := func(v float64) *float64 { return &v }
	n := func(v int) *int { return &v }
	champion := "s1"
	return client.Board{
		ID: "demo-golf", Kind: "golf", Champion: &champion,
		Submissions: []client.BoardRow{
			{ID: "s1", Name: "repair", Miner: "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY", Score: f(0.75), Solved: n(9), Total: n(12), CostMicros: 1500, State: agon.SubmissionScored},
			{ID: "s2", Name: "evil\x1b[2J\u202ename", Miner: "5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty", Score: f(0), Solved: n(0), Total: n(12), State: agon.SubmissionScored, Scripted: true, Zero: "its run took too long"},
			{ID: "s3", Name: "new", Miner: "5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty", State: agon.SubmissionQueued},
		},
		Weights: []agon.Weight{{UID: 1, Hotkey: "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY", Weight: 65535}},
		Decisions: []client.BoardDecision{
			{Challenger: "s1", Score: 0.75, Outcome: agon.TookSeat, Rule: "winner_takes_all"},
			{Challenger: "s2", Incumbent: "s1", Bar: f(0.76125), Score: 0, Outcome: agon.KeptSeat, Rule: "scripted", Numbers: map[string]float64{"score": 0, "incumbent": 0.75}, Sentence: "Played and shown, never seated: its model was the stand-in script."},
		},
	}
}

func newStub() *stub {
	s := &stub{mux: http.NewServeMux()}
	s.verify = auth.Verifier{Audience: "agon:test", Now: time.Now, Replay: auth.NewMemoryReplay(time.Now)}
	reply := func(pattern string, v any) {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { send(w, 200, v) })
	}
	arena := client.Arena{Arena: agon.Arena{
		ID: "demo-golf", Kind: "golf", Title: "Mend the bug", Netuid: 1, State: agon.ArenaOpen, Licence: "MIT",
		Tasks: []agon.TaskRef{{Key: "small/a", Digest: agon.Sum([]byte("a"))}},
	}, Queued: 2}
	reply("GET /v1/server", client.Server{Name: "stub", Version: agon.Version, Audience: "agon:test", Time: time.Now()})
	reply("GET /v1/arenas", client.Page[client.Arena]{Items: []client.Arena{arena}})
	reply("GET /v1/arenas/demo-golf", arena)
	reply("GET /v1/arenas/demo-golf/board", board())
	reply("GET /v1/overview", client.Overview{Arenas: []client.Board{board()}})
	s.mux.HandleFunc("GET /v1/arenas/{arena}", fail(404, "not_found", "no arena", "list them with `agon arena list`"))
	s.mux.HandleFunc("GET /v1/arenas/{arena}/board", fail(404, "not_found", "no arena \x1b[31mred", "list them with `agon arena list`"))
	s.mux.HandleFunc("POST /v1/arenas/demo-golf/submissions", s.submit)
	s.mux.HandleFunc("GET /v1/submissions", func(w http.ResponseWriter, r *http.Request) {
		items := []client.Submission{submission("s3", agon.SubmissionQueued), submission("s1", agon.SubmissionScored)}
		if r.URL.Query().Get("cursor") == "" { // two pages
			send(w, 200, client.Page[client.Submission]{Items: items[:1], Next: "two"})
			return
		}
		send(w, 200, client.Page[client.Submission]{Items: items[1:]})
	})
	s.mux.HandleFunc("GET /v1/submissions/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.polls++
		switch {
		case id == "s1", id == "wins" && s.polls > 2:
			send(w, 200, submission(id, agon.SubmissionScored))
		case id == "gate" && s.polls > 2:
			x := submission(id, agon.SubmissionExcluded)
			x.Findings = []agon.Finding{{Code: "copy", Message: "a copy of s1"}}
			send(w, 200, x)
		case id == "wins", id == "gate", id == "slow", id == "broken":
			send(w, 200, submission(id, agon.SubmissionPlaying))
		default:
			fail(404, "not_found", "no submission "+id, "")(w, r)
		}
	})
	s.mux.HandleFunc("GET /v1/submissions/{id}/files", func(w http.ResponseWriter, r *http.Request) {
		name := "agent.py"
		if r.PathValue("id") == "evil" {
			name = "../../.bashrc"
		}
		send(w, 200, client.Page[client.File]{Items: []client.File{{Path: name, Content: []byte("print(1)\n")}}})
	})
	s.runs()
	s.mux.HandleFunc("GET /v1/ledger/1", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		send(w, 200, client.Metagraph{Netuid: 1, Block: 7, Neurons: s.neurons})
	})
	s.mux.HandleFunc("POST /v1/ledger/1/register", func(w http.ResponseWriter, r *http.Request) {
		var in client.RegisterRequest
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			fail(400, "bad", err.Error(), "")(w, r)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.neurons = append(s.neurons, client.Neuron{UID: uint16(len(s.neurons)), Hotkey: in.Hotkey, Coldkey: in.Coldkey})
		send(w, 200, struct{}{})
	})
	return s
}

func (s *stub) runs() {
	run := func(id string, state agon.RunState) client.Run {
		r := client.Run{Run: agon.Run{RunSpec: agon.RunSpec{Run: id, Arena: "demo-golf", Tasks: []agon.TaskRef{{Key: "small/a"}}, Seed: 1 << 52}, Submission: "s1", State: state, Attempts: 1}}
		if state == agon.RunScored {
			r.Scores = []agon.Score{{Run: id, Task: "small/a", Value: 1, Solved: true, Scorer: "golf/1"}}
			r.List = []agon.Attempt{{Run: id, N: 1, Validator: "5Grw", State: "done", Driver: agon.Driver{Name: "runc"}, Counted: true, BoxMS: 40}}
		}
		if state == agon.RunFailed {
			r.Fault, r.Reason = agon.FaultProvider, "provider is down"
		}
		return r
	}
	events := []agon.Event{
		{Run: "r1", Attempt: 1, Seq: 1, Type: agon.EventPhase, Data: json.RawMessage(`{"phase":"playing"}`)},
		{Run: "r1", Attempt: 1, Seq: 2, Type: agon.EventOutput, Data: json.RawMessage(`{"stream":"stdout","text":"hello \u001b]0;owned\u0007world\r\n"}`)},
		{Run: "r1", Attempt: 1, Seq: 3, Type: agon.EventOutput, Data: json.RawMessage(`{"stream":"stderr","text":"oops","truncated":true}`)},
		{Run: "r1", Attempt: 1, Seq: 4, Type: agon.EventScore, Data: json.RawMessage(`{"task":"small/a","value":1,"solved":true}`)},
	}
	s.mux.HandleFunc("GET /v1/runs", func(w http.ResponseWriter, r *http.Request) {
		state := agon.RunScored
		if r.URL.Query().Get("submission") == "broken" {
			state = agon.RunFailed
		}
		send(w, 200, client.Page[client.Run]{Items: []client.Run{run("r1", state)}})
	})
	s.mux.HandleFunc("GET /v1/runs/{id}", func(w http.ResponseWriter, r *http.Request) { send(w, 200, run(r.PathValue("id"), agon.RunScored)) })
	s.mux.HandleFunc("GET /v1/runs/{id}/events", func(w http.ResponseWriter, r *http.Request) {
		after, _ := client.ParseCursor(r.URL.Query().Get("after"))
		page := client.Page[agon.Event]{Items: []agon.Event{}}
		for _, e := range events {
			if after.Before(client.CursorOf(e)) && len(page.Items) < 3 {
				page.Items = append(page.Items, e)
			}
		}
		send(w, 200, page)
	})
	s.mux.HandleFunc("GET /v1/runs/{id}/stream", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.streams++
		n := s.streams
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		after, _ := client.ParseCursor(r.Header.Get("Last-Event-ID"))
		sent := 0
		for _, e := range events {
			if !after.Before(client.CursorOf(e)) {
				continue
			}
			if sent == 2 && n == 1 {
				return // the first connection breaks
			}
			b, _ := json.Marshal(e)
			fmt.Fprintf(w, "retry: 1\nid: %s\nevent: %s\ndata: %s\n\n", client.CursorOf(e), e.Type, b)
			sent++
		}
		if r.PathValue("id") == "hangs" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		state := agon.RunScored
		if r.PathValue("id") == "failed" {
			state = agon.RunFailed
		}
		b, _ := json.Marshal(run(r.PathValue("id"), state))
		fmt.Fprintf(w, "event: end\ndata: %s\n\n", b)
	})
}

func submission(id string, state agon.SubmissionState) client.Submission {
	x := client.Submission{Submission: agon.Submission{ID: id, Arena: "demo-golf", Name: "mine", Miner: "5Grw", Licence: "MIT", State: state, Seq: 3}}
	if state == agon.SubmissionScored {
		v, n, total, bar := 0.5, 6, 12, 0.76125
		x.Score, x.Solved, x.Total = &v, &n, &total
		x.Decision = &agon.Decision{Challenger: id, Incumbent: "s1", Score: v, Bar: &bar, Outcome: agon.KeptSeat, Rule: "winner_takes_all"}
	}
	return x
}

func (s *stub) submit(w http.ResponseWriter, r *http.Request) {
	var in client.SubmitRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		fail(400, "bad", err.Error(), "")(w, r)
		return
	}
	text := string(in.Files[0].Content)
	if in.Files[0].Path != "agent.py" || in.Licence != "MIT" {
		fail(422, "bad_entry", fmt.Sprintf("path %s, licence %s", in.Files[0].Path, in.Licence), "")(w, r)
		return
	}
	switch word, _, _ := strings.Cut(strings.TrimSpace(text), "\n"); word {
	case "# refused":
		p := client.Problem{
			Status: 422, Code: "refused", Detail: "agent.py was refused", Mend: "repair the file", RequestID: "q1",
			Findings: []agon.Finding{{Code: "no_agent_main", Field: "agent.py", Message: "no agent_main\x1b[2J"}, {Code: "too_large", Field: "agent.py", Limit: "2 MiB", Message: "too large"}},
		}
		sendProblem(w, p)
	case "# copy":
		fail(409, "duplicate", "entered before by another miner", "")(w, r)
	case "# stranger":
		fail(403, "unregistered", "the hotkey is not registered", "run `agon ledger register`")(w, r)
	case "# crash":
		fail(500, "internal", "something broke", "")(w, r)
	default:
		x := submission(strings.TrimPrefix(word, "# "), agon.SubmissionQueued)
		x.Created, x.Name = true, in.Name
		send(w, 200, x)
	}
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if auth.Signed(r.Header) || r.Method != http.MethodGet {
		body := readAll(r)
		if _, err := s.verify.Verify(r.Context(), r.Method, auth.RequestTarget(r), r.Header, body); err != nil {
			fail(err.Status, err.Code, err.Message, err.Mend)(w, r)
			return
		}
	}
	s.mux.ServeHTTP(w, r)
}

func readAll(r *http.Request) []byte {
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := r.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	r.Body = http.NoBody
	r.Body = nopCloser{strings.NewReader(b.String())}
	return []byte(b.String())
}

type nopCloser struct{ *strings.Reader }

func (nopCloser) Close() error { return nil }

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func sendProblem(w http.ResponseWriter, p client.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

func fail(status int, code, detail, mend string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		sendProblem(w, client.Problem{Status: status, Code: code, Detail: detail, Mend: mend, RequestID: "q7"})
	}
}
