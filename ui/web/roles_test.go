package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/ui/api"
	"github.com/agon-arena/agon/ui/mcp"
)

// What is planted for readers to find. Each stands in exactly one place.
var secrets = []string{
	"CODE-DECIDED", "LOG-DECIDED", "EVIDENCE-DECIDED", "TASK-OPEN", // all may read these
	"LOG-HIDDEN", "EVIDENCE-HIDDEN", "TASK-HIDDEN", // of the hidden task: staff only
	"CODE-PLAYING", "LOG-PLAYING", // its miner's, and whose business it is to play it
}

// found looks for secrets in text as it is, and in every string of a document
// that is base64.
func found(text string) (list []string) {
	all := text + decoded(text)
	for _, s := range secrets {
		if strings.Contains(all, s) {
			list = append(list, s)
		}
	}
	return list
}

var base64Strings = regexp.MustCompile(`"[A-Za-z0-9+/]{8,}={0,2}"`)

func decoded(text string) string {
	var b strings.Builder
	for _, m := range base64Strings.FindAllString(text, -1) {
		var v []byte
		if json.Unmarshal([]byte(m), &v) == nil {
			b.Write(v)
		}
	}
	return b.String()
}

// world is the planted arena with all ways to read it, and the values that
// fill the parameters of paths.
type world struct {
	*fixture
	v1     string
	doc    map[string]any
	values map[string][]string
	runs   []client.Run
}

func newWorld(t *testing.T) *world {
	f := newFixture(t)
	decided, playing, _ := f.plant()
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.Handler(mcp.New(mcp.Local{Platform: f.Platform})))
	mux.Handle("/", api.New(api.Config{
		Platform: f.Platform, Ledger: writableLedger{}, Verifier: verifier{}, Server: client.Server{Operator: boss}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	w := &world{fixture: f, v1: srv.URL, values: map[string][]string{"arena": {"demo"}, "netuid": {"7"}, "coldkey": {"mine", "cold"}}}
	ctx, op := context.Background(), platform.Caller{Hotkey: boss, Operator: true}
	a, err := f.FullArena(ctx, "demo")
	must(t, err)
	var roots []agon.Digest
	for _, task := range a.Tasks {
		roots = append(roots, task.Digest)
	}
	for _, id := range []string{decided, playing} {
		sub, err := f.Submission(ctx, op, id)
		must(t, err)
		roots = append(roots, sub.Digest)
		w.values["submissions/{id}"] = append(w.values["submissions/{id}"], id)
		page, err := f.Runs(ctx, op, "", id, "", "", 100)
		must(t, err)
		for _, r := range page.Items {
			run, err := f.Run(ctx, op, r.Run.Run)
			must(t, err)
			w.runs = append(w.runs, *run)
			w.values["runs/{id}"] = append(w.values["runs/{id}"], run.Run.Run)
			for _, at := range run.List {
				if at.Evidence != "" {
					roots = append(roots, at.Evidence)
				}
			}
		}
	}
	// Every blob: the trees, and what they list.
	any64 := regexp.MustCompile(`sha256:[0-9a-f]{64}`)
	for _, d := range roots {
		b, err := f.Blob(ctx, op, d)
		must(t, err)
		w.values["digest"] = append(w.values["digest"], string(d))
		w.values["digest"] = append(w.values["digest"], any64.FindAllString(string(b), -1)...)
	}
	_, doc := w.read("", "/openapi.json")
	must(t, json.Unmarshal([]byte(doc), &w.doc))
	return w
}

// writableLedger is the ledger of the test as /v1 wants it.
type writableLedger struct{ ledger }

func (writableLedger) Fund(context.Context, client.FundRequest) (*client.Balance, error) {
	return nil, errors.New("not here")
}

func (writableLedger) Register(context.Context, uint16, string, client.RegisterRequest) (uint16, error) {
	return 0, errors.New("not here")
}

func (writableLedger) SetWeights(context.Context, uint16, string, client.SetWeightsRequest) error {
	return errors.New("not here")
}

// paths are all reads of /v1 with every value that fits.
func (w *world) paths() []string {
	w.t.Helper()
	var out []string
	hole := regexp.MustCompile(`([a-z]+)/\{([a-z]+)\}`)
	for at, ops := range w.doc["paths"].(map[string]any) {
		if _, ok := ops.(map[string]any)["get"]; !ok {
			continue
		}
		list := []string{at}
		for {
			m := hole.FindStringSubmatch(list[0])
			if m == nil {
				break
			}
			vals := w.values[m[2]]
			if v := w.values[m[1]+"/{"+m[2]+"}"]; v != nil {
				vals = v
			}
			if len(vals) == 0 {
				w.t.Fatalf("%s: nothing fills %s: teach the walk", at, m[0])
			}
			var next []string
			for _, l := range list {
				for _, v := range vals {
					next = append(next, strings.Replace(l, m[0], m[1]+"/"+v, 1))
				}
			}
			list = next
		}
		out = append(out, list...)
	}
	slices.Sort(out)
	return out
}

// read asks as who. A stream is read until it ends, or has told the last event that there is.
func (w *world) read(who, path string) (int, string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.v1+path, nil)
	must(w.t, err)
	if strings.Contains(path, "/live") {
		req.URL.Host = strings.TrimPrefix(w.url, "http://")
	} else if who != "" {
		req.Header.Set("Agon-Signature", "x")
		req.Header.Set("Agon-Hotkey", who)
	}
	c := http.DefaultClient
	if strings.Contains(path, "/live") {
		c = w.browser(who)
	}
	resp, err := c.Do(req)
	must(w.t, err)
	defer resp.Body.Close()
	var b bytes.Buffer
	buf := make([]byte, 64<<10)
	for {
		n, err := resp.Body.Read(buf)
		b.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		must(w.t, err)
		// The run under way has one event, and its stream never ends.
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			if _, after, ok := strings.Cut(b.String(), "id: 1.1\n"); ok && strings.Contains(after, "\n\n") && strings.Contains(path, w.runs[len(w.runs)-1].Run.Run) {
				break
			}
		}
	}
	if resp.StatusCode >= 500 {
		w.t.Errorf("%s as %q: %d %s", path, who, resp.StatusCode, b.String())
	}
	return resp.StatusCode, b.String()
}

// TestWhoReadsWhat walks every read of /v1, every stream and every tool of MCP
// as each role, and looks for what was planted.
func TestWhoReadsWhat(t *testing.T) {
	w := newWorld(t)
	// The run under way is the last one that has an attempt; its stream is read so far only.
	slices.SortStableFunc(w.runs, func(a, b client.Run) int {
		return boolInt(!a.State.Final() && len(a.List) > 0) - boolInt(!b.State.Final() && len(b.List) > 0)
	})
	paths := w.paths()
	var streams []string
	for _, r := range w.runs {
		if len(r.List) > 0 {
			streams = append(streams, "/runs/"+r.Run.Run+"/live")
		}
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { // a queued run's stream says nothing yet, and has no end
		return slices.ContainsFunc(w.runs, func(r client.Run) bool { return len(r.List) == 0 && strings.HasSuffix(p, r.Run.Run+"/stream") })
	})
	if len(paths) < 25 {
		t.Fatalf("only %d paths: %v", len(paths), paths)
	}
	public := secrets[:4]
	for _, c := range []struct {
		who, hotkey string
		sees        []string
	}{
		{"public", "", public},
		{"the miner of the decided", miner, public},
		{"the miner of the playing", rival, append(slices.Clone(public), "CODE-PLAYING", "LOG-PLAYING")},
		{"a validator that plays them", player, secrets},
		{"a validator that does not", idle, append(slices.Clone(public), "TASK-HIDDEN")},
		{"the operator", boss, secrets},
	} {
		t.Run(c.who, func(t *testing.T) {
			w.t = t
			seen := map[string][]string{}
			ok := 0
			for _, p := range append(slices.Clone(paths), streams...) {
				status, body := w.read(c.hotkey, p)
				if status == http.StatusOK {
					ok++
				}
				for _, s := range found(body) {
					seen[s] = append(seen[s], p)
				}
			}
			if ok < 15 {
				t.Errorf("only %d of %d paths answered", ok, len(paths))
			}
			for _, s := range secrets {
				if !slices.Contains(c.sees, s) && len(seen[s]) > 0 {
					t.Errorf("%s is shown by %v", s, seen[s])
				}
				if slices.Contains(c.sees, s) && len(seen[s]) == 0 {
					t.Errorf("%s is shown nowhere", s)
				}
			}
		})
	}
	t.Run("language models", func(t *testing.T) { w.t = t; w.tools(public) })
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tools calls every tool of MCP with every value, asking for the agents' text too.
func (w *world) tools(public []string) {
	ctx := context.Background()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &sdk.StreamableClientTransport{Endpoint: w.v1 + "/mcp", DisableStandaloneSSE: true}, nil)
	must(w.t, err)
	defer s.Close()
	list, err := s.ListTools(ctx, nil)
	must(w.t, err)
	seen, called := map[string]bool{}, 0
	for _, tool := range list.Tools {
		b, err := json.Marshal(tool.InputSchema)
		must(w.t, err)
		var in struct {
			Properties map[string]struct{ Type any }
			Required   []string
		}
		must(w.t, json.Unmarshal(b, &in))
		calls := []map[string]any{{}}
		for _, name := range in.Required {
			vals := map[string][]string{"arena": w.values["arena"], "submission": w.values["submissions/{id}"], "run": w.values["runs/{id}"], "id": w.values["submissions/{id}"]}[name]
			if name == "id" && strings.Contains(tool.Name, "run") {
				vals = w.values["runs/{id}"]
			}
			if len(vals) == 0 {
				w.t.Fatalf("tool %s: nothing fills %s: teach the walk", tool.Name, name)
			}
			var next []map[string]any
			for _, c := range calls {
				for _, v := range vals {
					next = append(next, map[string]any{name: v})
					for k, old := range c {
						next[len(next)-1][k] = old
					}
				}
			}
			calls = next
		}
		for _, c := range calls {
			if _, ok := in.Properties["include_agent_text"]; ok {
				c["include_agent_text"] = true
			}
			r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: tool.Name, Arguments: c})
			must(w.t, err)
			called++
			out, err := json.Marshal(r)
			must(w.t, err)
			for _, x := range found(string(out)) {
				seen[x] = true
				if !slices.Contains(public, x) {
					w.t.Errorf("%s of %v shows %s", tool.Name, c, x)
				}
			}
		}
	}
	if called < 15 || !seen["CODE-DECIDED"] || !seen["LOG-DECIDED"] {
		w.t.Errorf("%d calls found %v", called, seen)
	}
}
