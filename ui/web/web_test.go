package web

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
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store/teststore"
	"github.com/agon-arena/agon/internal/plain"
)

const (
	miner, rival = "5MinerMinerMinerMiner", "5RivalRivalRivalRival"
	player, idle = "5PlayerPlayerPlayer", "5IdleIdleIdleIdleIdle"
	boss         = "5BossBossBossBossBoss"
	netuid       = 7
)

// ledger knows everybody of the test.
type ledger struct{}

func (ledger) Registered(_ context.Context, _ uint16, hotkey string) (string, bool, error) {
	return "cold-" + hotkey, hotkey != "", nil
}

func (ledger) IsValidator(_ context.Context, _ uint16, hotkey string) (bool, error) {
	return hotkey == player || hotkey == idle, nil
}

func (ledger) Metagraph(_ context.Context, n uint16) (*client.Metagraph, error) {
	return &client.Metagraph{Netuid: n, Block: 12, Weights: []agon.Weight{{UID: 1, Hotkey: miner, Weight: 65535}}, Neurons: []client.Neuron{
		{UID: 0, Hotkey: boss, Coldkey: "cold"}, {UID: 1, Hotkey: miner, Coldkey: "cold"}, {UID: 2, Hotkey: player, Validator: true},
	}}, nil
}

// verifier takes the hotkey that a test's request names.
type verifier struct{}

func (verifier) CheckHeaders(_ string, h http.Header) (string, error) {
	return h.Get("Agon-Hotkey"), nil
}

func (verifier) VerifyRequest(_ context.Context, _, _ string, h http.Header, _ []byte) (string, error) {
	if h.Get("Agon-Hotkey") == "" {
		return "", &agon.Error{Code: "unsigned", Status: 401, Message: "unsigned"}
	}
	return h.Get("Agon-Hotkey"), nil
}

type fixture struct {
	*platform.Platform
	t    testing.TB
	url  string
	http *httptest.Server
	db   string // its database
	// mayLog is what the pages may log: a fault that the test makes. It is set before
	// the first request.
	mayLog string
}

// newFixture serves the pages of a real platform on a real database.
func newFixture(t testing.TB, tasks ...agon.TaskRef) *fixture {
	t.Helper()
	return newFixtureOf(t, kindtest.Fake{}, nil, tasks...)
}

// newFixtureOf is a fixture of a kind, and of a gate of its judges.
func newFixtureOf(t testing.TB, k kind.Kind, gate *agon.Gate, tasks ...agon.TaskRef) *fixture {
	t.Helper()
	ctx, dir := context.Background(), t.TempDir()
	st := teststore.Open(t, dir)
	t.Cleanup(func() { st.Close() })
	blobs, err := blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{})
	must(t, err)
	f := &fixture{t: t, db: filepath.Join(dir, "agon.db")}
	f.Platform, err = platform.New(platform.Config{
		Store: st, Blobs: blobs, Kinds: map[string]kind.Kind{k.Name(): k}, Ledger: ledger{},
		Incentives: map[string]incentive.Rule{incentive.WinnerTakesAllRule: incentive.WinnerTakesAll()},
	})
	must(t, err)
	if len(tasks) == 0 {
		tasks = []agon.TaskRef{{Key: "small/open"}, {Key: "small/closed", Hidden: true}}
	}
	for i := range tasks {
		tasks[i].Digest, err = blob.PutFiles(ctx, blobs, []blob.File{{Path: "task.toml", Content: []byte(taskText(tasks[i]))}}, blob.TreeLimits{})
		must(t, err)
	}
	must(t, f.EnsureArena(ctx, agon.Arena{
		ID: "demo", Kind: kindtest.Fake{}.Name(), Title: "Demo <b>arena</b>", Netuid: netuid, Licence: "MIT", Incentive: incentive.WinnerTakesAllRule, Evidence: agon.EvidenceForeign, UnjudgedSeats: true, Tasks: tasks, Gate: gate,
	}))
	h, err := New(Config{
		Platform: f.Platform, Ledger: ledger{}, Verifier: verifier{}, Server: client.Server{Operator: boss}, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(testWriter{f}, nil)),
	})
	must(t, err)
	f.http = httptest.NewServer(h)
	t.Cleanup(f.http.Close)
	f.url = f.http.URL
	return f
}

// taskText is what stands in the tree of a task.
func taskText(t agon.TaskRef) string {
	if t.Hidden {
		return "TASK-HIDDEN " + t.Key
	}
	return "TASK-OPEN " + t.Key
}

// putter is somebody who stores blobs at a platform.
type putter struct {
	*platform.Platform
	who string
}

func (p putter) Put(ctx context.Context, b []byte) (agon.Digest, error) {
	d := agon.Sum(b)
	return d, p.PutBlob(ctx, platform.Caller{Hotkey: p.who}, "", d, b)
}

func (putter) Get(context.Context, agon.Digest) ([]byte, error) { return nil, blob.ErrNotFound }

func (putter) Has(context.Context, agon.Digest) (bool, error) { return false, nil }

// testWriter fails a test that logs, but for what the fixture says it may.
type testWriter struct{ f *fixture }

func (w testWriter) Write(b []byte) (int, error) {
	if w.f.mayLog != "" && strings.Contains(string(b), w.f.mayLog) {
		return len(b), nil
	}
	w.f.t.Errorf("logged: %s", b)
	return len(b), nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) submit(hotkey, name, code string) *client.Submission {
	f.t.Helper()
	s, err := f.Submit(context.Background(), platform.Caller{Hotkey: hotkey}, "demo", client.SubmitRequest{
		Name: name, Licence: "MIT", Files: []client.File{{Path: "agent", Content: []byte(code)}},
	})
	must(f.t, err)
	return s
}

func (f *fixture) claim() *client.Lease {
	f.t.Helper()
	l, err := f.Claim(context.Background(), platform.Caller{Hotkey: player}, client.ClaimRequest{Kinds: []string{kindtest.Fake{}.Name()}, Driver: "runc", Version: "7.7.7\x1b"})
	must(f.t, err)
	return l
}

func event(seq int64, typ, task string, data any) agon.Event {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return agon.Event{Seq: seq, Type: typ, Task: task, At: time.Now(), Data: b}
}

func (f *fixture) beat(l *client.Lease, evs ...agon.Event) {
	f.t.Helper()
	_, err := f.Heartbeat(context.Background(), platform.Caller{Hotkey: player}, l.ID, client.Heartbeat{Token: l.Token, State: agon.RunPlaying, Events: evs})
	must(f.t, err)
}

func (f *fixture) score(l *client.Lease, value float64, detail string) {
	f.t.Helper()
	f.scoreWith(l, value, detail, "")
}

func (f *fixture) scoreWith(l *client.Lease, value float64, detail string, evidence agon.Digest) {
	f.t.Helper()
	r := client.Result{Evidence: evidence, Token: l.Token, Outcome: "ok", Driver: agon.Driver{Name: "runc", Version: "1"}, Cost: 1234, BoxMS: 5}
	for _, t := range l.Run.Tasks {
		r.Scores = append(r.Scores, agon.Score{Task: t.Key, Value: value, Solved: value == 1, Scorer: "fake-1", Detail: detail})
	}
	_, err := f.Result(context.Background(), platform.Caller{Hotkey: player}, l.ID, r)
	must(f.t, err)
}

// browser is somebody's browser, signed in by a link unless hotkey is empty.
func (f *fixture) browser(hotkey string) *http.Client {
	f.t.Helper()
	jar, err := cookiejar.New(nil)
	must(f.t, err)
	c := &http.Client{Jar: jar}
	if hotkey == "" {
		return c
	}
	req, err := http.NewRequest(http.MethodPost, f.url+"/web/sessions", nil)
	must(f.t, err)
	req.Header.Set("Agon-Hotkey", hotkey)
	resp, err := c.Do(req)
	must(f.t, err)
	defer resp.Body.Close()
	var link struct{ Path string }
	must(f.t, json.NewDecoder(resp.Body).Decode(&link))
	if _, page := f.get(c, link.Path); !strings.Contains(page, "<button>Sign in</button>") {
		f.t.Fatalf("no button: %s", page)
	}
	_, code, _ := strings.Cut(link.Path, "code=")
	resp, err = c.PostForm(f.url+"/signin", map[string][]string{"code": {code}})
	must(f.t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		f.t.Fatalf("sign-in: %d", resp.StatusCode)
	}
	// The link works once.
	resp, err = http.PostForm(f.url+"/signin", map[string][]string{"code": {code}})
	must(f.t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		f.t.Fatalf("a used link: %d", resp.StatusCode)
	}
	return c
}

func (f *fixture) get(c *http.Client, path string) (int, string) {
	f.t.Helper()
	req, err := http.NewRequest(http.MethodGet, f.url+path, nil)
	must(f.t, err)
	req.Header.Set("Accept", "text/html")
	resp, err := c.Do(req)
	must(f.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(f.t, err)
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
		f.t.Errorf("%s: policy %q", path, csp)
	}
	return resp.StatusCode, string(b)
}

var link = regexp.MustCompile(`(?:href|src|data-live)="(/[^"]*)"`)

// walk follows every link from the first page and returns what each page said.
func (f *fixture) walk(c *http.Client, more ...string) map[string]string {
	f.t.Helper()
	seen := map[string]string{}
	todo := append([]string{"/"}, more...)
	for len(todo) > 0 {
		at := strings.ReplaceAll(todo[0], "&amp;", "&")
		todo = todo[1:]
		at, _, _ = strings.Cut(at, "#")
		if _, ok := seen[at]; ok || len(seen) > 500 {
			continue
		}
		if strings.HasPrefix(at, "/live") || strings.Contains(at, "/live?") || at == "/openapi.json" {
			seen[at] = ""
			continue
		}
		status, body := f.get(c, at)
		if status >= 500 {
			f.t.Errorf("%s: %d %s", at, status, body)
		}
		seen[at] = body
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			todo = append(todo, m[1])
		}
	}
	return seen
}

const hostile = "<script>alert(1)</script>\x1b[31mred\x1b[0m \u202eesrever\u2066 &amp; \x00 <img src=x onerror=alert(2)>"

// plant leaves a decided submission, one under way and one queued, with a
// secret in everything that somebody may not read.
func (f *fixture) plant() (decided, playing string, run string) {
	a := f.submit(miner, "first "+"<i>x</i>", "# CODE-DECIDED\n"+hostile)
	for l := f.claim(); l != nil; l = f.claim() {
		secret := "LOG-DECIDED"
		if l.Run.Tasks[0].Hidden {
			secret = "LOG-HIDDEN"
		}
		run = l.Run.Run
		f.beat(l,
			event(1, agon.EventPhase, "", map[string]any{"phase": "playing"}),
			event(2, agon.EventOutput, l.Run.Tasks[0].Key, map[string]any{"stream": "stdout", "text": secret + hostile}),
			event(3, agon.EventModel, l.Run.Tasks[0].Key, map[string]any{
				"receipt": agon.Receipt{ID: "r", Model: hostile, Outcome: "ok"},
				"request": map[string]any{"text": `{"messages":[{"role":"user","content":"` + secret + ` <script>x</script>"}]}`},
				"message": map[string]any{"content": secret + hostile, "tool_calls": []any{map[string]any{"name": hostile, "arguments": "{\"a\":\"" + secret + "\"}"}}},
			}),
			event(4, agon.EventNote, l.Run.Tasks[0].Key, map[string]any{"text": secret + strings.Repeat("x", 30_000)}),
			event(5, "unknown_kind", l.Run.Tasks[0].Key, map[string]any{"x": secret + hostile}),
		)
		evidence, err := blob.PutFiles(context.Background(), putter{f.Platform, player}, []blob.File{{Path: "log", Content: []byte(strings.Replace(secret, "LOG", "EVIDENCE", 1))}}, blob.TreeLimits{})
		must(f.t, err)
		f.scoreWith(l, 1, secret+hostile, evidence)
	}
	b := f.submit(rival, "second", "# CODE-PLAYING")
	l := f.claim()
	f.beat(l, event(1, agon.EventOutput, l.Run.Tasks[0].Key, map[string]any{"stream": "stdout", "text": "LOG-PLAYING"}))
	return a.ID, b.ID, run
}

// TestWhoSeesWhat walks every page as each role. The table of rights decides.
func TestWhoSeesWhat(t *testing.T) {
	f := newFixture(t)
	_, playing, _ := f.plant()
	for _, c := range []struct {
		who, hotkey string
		sees        []string
	}{
		{"public", "", []string{"CODE-DECIDED", "LOG-DECIDED"}},
		{"the miner of the decided", miner, []string{"CODE-DECIDED", "LOG-DECIDED"}},
		{"the miner of the playing", rival, []string{"CODE-DECIDED", "LOG-DECIDED", "CODE-PLAYING", "LOG-PLAYING"}},
		{"a validator that plays them", player, []string{"CODE-DECIDED", "LOG-DECIDED", "LOG-HIDDEN", "CODE-PLAYING", "LOG-PLAYING"}},
		{"a validator that does not", idle, []string{"CODE-DECIDED", "LOG-DECIDED"}},
		{"the operator", boss, []string{"CODE-DECIDED", "LOG-DECIDED", "LOG-HIDDEN", "CODE-PLAYING", "LOG-PLAYING"}},
	} {
		t.Run(c.who, func(t *testing.T) {
			f.t = t
			pages := f.walk(f.browser(c.hotkey), "/submissions/"+playing+"/file?path=agent", "/ledger/7", "/operator")
			if len(pages) < 20 {
				t.Errorf("only %d pages were found", len(pages))
			}
			seen := map[string]string{}
			for at, body := range pages {
				for _, s := range []string{"CODE-DECIDED", "LOG-DECIDED", "LOG-HIDDEN", "CODE-PLAYING", "LOG-PLAYING"} {
					if strings.Contains(body, s) {
						seen[s] = at
					}
				}
				if strings.Contains(at, "/file?") || strings.HasPrefix(at, "/static/") {
					continue // bytes, handed over as a download
				}
				for _, bad := range []string{"<script>alert", "<script>x", "<img src=x", "<i>x", "<b>arena", "\x1b", "\x00", "\u202e", "\u2066"} {
					if strings.Contains(body, bad) {
						t.Errorf("%s holds %q", at, bad)
					}
				}
			}
			for s, at := range seen {
				if !slices.Contains(c.sees, s) {
					t.Errorf("%s shows %s", at, s)
				}
			}
			for _, s := range c.sees {
				if seen[s] == "" {
					t.Errorf("no page shows %s", s)
				}
			}
			if page := pages["/arenas/demo/validators"]; !strings.Contains(page, "<td>7.7.7</td>") {
				t.Errorf("no version of a validator: %s", page)
			}
			if (strings.Contains(pages["/operator"], "Only the operator")) == (c.hotkey == boss) {
				t.Error("the operator's page is open to the wrong ones")
			}
		})
	}
}

func TestLiveSteps(t *testing.T) {
	f := newFixture(t)
	f.submit(miner, "first", "x = 1")
	l := f.claim()
	f.beat(l, event(1, agon.EventNote, "", map[string]any{"text": "one"}), event(2, agon.EventNote, "", map[string]any{"text": "two"}))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/runs/"+l.Run.Run+"/live?after=1.1", nil)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	f.beat(l, event(3, agon.EventNote, "", map[string]any{"text": "three"}))
	f.score(l, 1, "")
	// The miner's logs are not public while the rest is played: the steps come, their text does not.
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	got := string(b)
	if strings.Contains(got, "id: 1.1\n") || !strings.Contains(got, "id: 1.2\nevent: step") || !strings.Contains(got, "id: 1.3\n") || !strings.Contains(got, "event: end\ndata: scored") {
		t.Errorf("stream:\n%s", got)
	}
	if strings.Contains(got, "three") {
		t.Error("the stream shows what the page withholds")
	}
}

func TestForeignFormsAreRefused(t *testing.T) {
	f := newFixture(t)
	c := f.browser(boss)
	post := func(origin string) int {
		req, err := http.NewRequest(http.MethodPost, f.url+"/operator/arena", strings.NewReader("arena=demo&state=paused"))
		must(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", origin)
		resp, err := c.Do(req)
		must(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	state := func() agon.ArenaState {
		a, err := f.Arena(context.Background(), "demo")
		must(t, err)
		return a.State
	}
	if got := post("cross-site"); got != http.StatusForbidden || state() != agon.ArenaOpen {
		t.Errorf("a form of another site: %d, arena %s", got, state())
	}
	if got := post("same-origin"); got != http.StatusOK || state() != agon.ArenaPaused {
		t.Errorf("the operator's own form: %d, arena %s", got, state())
	}
}

func TestSearchAndPaging(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"})
	f.submit(miner, "long", "x = 1")
	l := f.claim()
	var evs []agon.Event
	for i := range int64(950) {
		evs = append(evs, event(i+1, agon.EventNote, "small/one", map[string]any{"text": fmt.Sprintf("note %d.", i+1)}))
	}
	f.beat(l, evs[:500]...)
	f.beat(l, evs[500:]...)
	f.score(l, 0.5, "")
	c := f.browser("")
	at := "/runs/" + l.Run.Run
	for _, x := range []struct{ query, has, not string }{
		{"?attempt=1&page=1", "note 100.", "note 101."},
		{"?attempt=1&step=250", "note 250.", "note 301."},
		{"?attempt=1&q=NOTE+77", `id="s1.777"`, `id="s1.100"`},
		{"?attempt=1&type=model_call", "0 hits", "note 1."},
	} {
		status, body := f.get(c, at+x.query)
		if status != 200 || !strings.Contains(body, x.has) || strings.Contains(body, x.not) {
			t.Errorf("%s: %d, has %q %v, has %q %v", x.query, status, x.has, strings.Contains(body, x.has), x.not, strings.Contains(body, x.not))
		}
	}
	if status, _ := f.get(c, at+"?q="+strings.Repeat("x", 201)); status != 422 {
		t.Errorf("a long query: %d", status)
	}
}

func FuzzStep(f *testing.F) {
	for _, s := range []string{`{}`, `{"receipt":{},"request":{"text":"{\"messages\":[{}]}"}}`, `{"tool":{"request":[1]}}`, `[`, `{"phase":3}`} {
		for _, t := range []string{agon.EventModel, agon.EventTool, agon.EventOutput, agon.EventPhase, agon.EventScore, "x"} {
			f.Add(t, []byte(s))
		}
	}
	p, err := loadPages(time.Now)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, typ string, data []byte) {
		var b bytes.Buffer
		says := talk{calls: []said{{task: plain.Line(string(data)), parts: []string{"user\nbefore\n"}}}}
		for range 2 { // the second time, the same was said before
			if err := p["run"].ExecuteTemplate(&b, "step", says.step(agon.Event{Run: "r", Attempt: 1, Seq: 1, Type: typ, Task: string(data), Data: data}, maxBlock)); err != nil {
				t.Fatal(err)
			}
		}
		if strings.ContainsAny(b.String(), "\x1b\x00\u202e") {
			t.Fatalf("%q", b.String())
		}
	})
}
