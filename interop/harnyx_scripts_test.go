//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/internal/interoptest"
	"github.com/agon-arena/agon/kinds/claim/play"
)

// echoModel answers by what it is asked, the same in both runners.
type echoModel struct{}

func (echoModel) Name() string { return "echo" }

func (echoModel) Chat(_ context.Context, model string, body map[string]json.RawMessage) ([]byte, error) {
	all := string(body["messages"])
	message := map[string]any{"role": "assistant", "content": "I would say so (" + model + ")."}
	finish := "stop"
	switch {
	case strings.Contains(all, `"tool_call_id"`):
		message["content"] = "The page says so."
	case strings.Contains(all, "Call a tool."):
		message["content"], finish = nil, "tool_calls"
		message["tool_calls"] = []any{map[string]any{"id": "c1", "type": "function", "function": map[string]string{"name": "look", "arguments": `{"q": "harbour"}`}}}
	case strings.Contains(all, "fenced JSON"):
		message["content"] = "```json\n{\"verdict\": 1, \"justification\": \"The office says so.\"}\n```"
	case strings.Contains(all, "bare JSON"), strings.Contains(all, "justification"):
		message["content"] = `{"verdict": 1, "justification": "yes"}`
	}
	return json.Marshal(map[string]any{
		"id": "x", "object": "chat.completion", "created": 1, "model": model, "usage": map[string]int{"prompt_tokens": 40, "completion_tokens": 7, "total_tokens": 47},
		"choices": []any{map[string]any{"index": 0, "finish_reason": finish, "message": message}},
	})
}

func (echoModel) Embed(_ context.Context, _ string, body map[string]json.RawMessage) ([]byte, error) {
	var in []string
	if err := json.Unmarshal(body["input"], &in); err != nil {
		return nil, err
	}
	data := []any{}
	for i, s := range in {
		v := make([]float64, 32)
		for j, r := range s {
			v[j%32] += float64(r%17) + 1
		}
		data = append(data, map[string]any{"index": i, "embedding": v, "object": "embedding"})
	}
	return json.Marshal(map[string]any{"object": "list", "data": data, "usage": map[string]int{"prompt_tokens": 9, "total_tokens": 9}})
}

const scriptsFeed = "6ba7b811-9dad-11d1-80b4-00c04fd430c9"

// era is what differs between the two.
type era struct {
	checkout, sandbox, entry, agentVar string
	token, session, host               string // headers
	paths                              []string
	payload                            string
	config                             tools.SessionConfig
}

var eras = []era{
	{
		"caster", "caster_sandbox.app", "evaluate_criterion", "CASTER_AGENT_PATH", "x-caster-token", "x-caster-session-id", "x-caster-host-container-url",
		[]string{"packages/miner-sdk/src", "sandbox/src"},
		`{"claim_text":"The outer basin of the harbour was dredged to 14 metres.","rubric_title":"Accuracy","rubric_description":"Is it right?","verdict_options":[{"value":-1,"description":"Fail"},{"value":1,"description":"Pass"}],"context":{"feed_id":"` + scriptsFeed + `","enqueue_seq":3}}`,
		tools.SessionConfig{UID: 7, Budget: 50_000},
	},
	{
		"harnyx", "harnyx_sandbox.app", "query", "AGENT_PATH", "x-platform-token", "x-session-id", "x-host-container-url",
		[]string{"packages/miner-sdk/src", "sandbox/src"},
		`{"text":"How deep is the outer basin of the harbour?"}`,
		tools.SessionConfig{UID: 7, Budget: 500_000, Parallel: 20, Queue: true, Query: &tools.QueryTools{}},
	},
}

// runner is a sandbox server, theirs or agon's, for one script.
func runner(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(ln.Addr().String())
	ln.Close()
	cmd := exec.Command(name, args...)
	cmd.Env = append(append(os.Environ(), env...), "SANDBOX_HOST="+host, "SANDBOX_PORT="+port, "ENTRYPOINT_TIMEOUT_SECONDS=60")
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said: %s", filepath.Base(name), out.String())
		}
	})
	url := "http://" + net.JoinHostPort(host, port)
	until(t, 4*time.Minute, "the runner answers", func() bool {
		resp, err := http.Get(url + "/healthz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
	return url
}

var (
	drawn = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b|gs-[0-9a-f]{32}-\d+`)
	trace = regexp.MustCompile(`"traceback":"(\\.|[^"\\])*",?|,?"traceback":"(\\.|[^"\\])*"`)
)

// same makes two answers comparable: ids that are drawn anew are numbered in the order
// in which they come, and tracebacks, which name paths, are left out.
func same(b []byte) string {
	seen := map[string]string{}
	s := drawn.ReplaceAllStringFunc(trace.ReplaceAllString(string(b), ""), func(id string) string {
		if id == scriptsFeed {
			return id
		}
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("ID-%d", len(seen)+1)
		}
		return seen[id]
	})
	var v map[string]any
	if json.Unmarshal([]byte(s), &v) != nil {
		return s
	}
	if d, ok := v["detail"].(map[string]any); ok && d["exception"] == "ValidationError" {
		delete(d, "error") // the words are pydantic's own, with a link to its pages
	}
	out, _ := json.MarshalIndent(v, "", " ")
	return string(out)
}

// Scripts as miners write them, twelve of each era and the reference agent of each,
// play unmodified in Harnyx's own sandbox server with its own SDK and in agon's runner,
// both on agon's tool host, and leave the same JSON.
func TestHarnyxScripts(t *testing.T) {
	root := os.Getenv("AGON_STRANGERS")
	if root == "" {
		t.Skip("NOT RUN: AGON_STRANGERS names no folder with checkouts of others' repositories (caster, harnyx)")
	}
	python := interoptest.Python(t, "harnyx")
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	docs := index.New([]index.Doc{
		{ID: "a.md", URL: "https://docs.example/harbour", Title: "Harbour report", Text: "The outer basin of the harbour was dredged to 14 metres in spring, the harbour office says. Ships of 200 metres can berth there now.", At: at},
		{ID: "b.md", URL: "https://docs.example/ferry", Title: "Ferry", Text: "The ferry over the harbour sails every hour; the bridge is closed to lorries.", At: at},
		{ID: "c.md", URL: "https://x.example/1", Kind: "post", User: "pilot", Text: "They dredged the harbour again, basin after basin!", At: at},
		{ID: "d.md", URL: "https://docs.example/later", Title: "Later", Text: "The harbour will be dredged once more.", At: at},
	}, "docs", time.Now)
	host := tools.New(tools.Config{Search: docs, Items: index.Items{FeedID: scriptsFeed, Folder: docs}, Headers: play.Headers()})
	srv := httptest.NewServer(host)
	defer func() { host.Stop(); srv.Close() }()
	for _, e := range eras {
		repo := filepath.Join(root, e.checkout)
		if _, err := os.Stat(repo); err != nil {
			interoptest.Absent(t, "AGON_STRANGERS/"+e.checkout+" (github.com/harnyx/harnyx)")
			continue
		}
		list, err := filepath.Glob(filepath.Join("scripts", e.checkout, "*.py"))
		if err != nil || len(list) < 12 {
			t.Fatalf("%d scripts, %v", len(list), err)
		}
		list = append(list, filepath.Join(repo, "miner", "tests", "docker_sandbox_entrypoint.py"))
		path := "PYTHONPATH="
		for _, p := range e.paths {
			path += filepath.Join(repo, p) + ":"
		}
		for _, script := range list {
			t.Run(e.checkout+"/"+filepath.Base(script), func(t *testing.T) {
				script, err := filepath.Abs(script)
				if err != nil {
					t.Fatal(err)
				}
				env := []string{e.agentVar + "=" + script}
				ask := func(url string) (int, []byte) {
					c := e.config
					c.LLM = echoModel{}
					session, err := host.Open(c)
					if err != nil {
						t.Fatal(err)
					}
					defer session.Close(tools.StatusError)
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/entry/"+e.entry, strings.NewReader(`{"payload":`+e.payload+`,"context":{"claim_id":"`+scriptsFeed+`"}}`))
					if err != nil {
						t.Fatal(err)
					}
					for k, v := range map[string]string{e.token: session.Token(), e.session: session.ID(), e.host: srv.URL, "Content-Type": "application/json"} {
						req.Header.Set(k, v)
					}
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
					b, err := io.ReadAll(resp.Body)
					if err != nil {
						t.Fatal(err)
					}
					return resp.StatusCode, b
				}
				status, theirs := ask(runner(t, append(env, path), python, "-m", e.sandbox, "--serve"))
				own, ours := ask(runner(t, append(env, "AGON_DATA="+t.TempDir()), agonBinary(t), "claim", "sandbox", "--serve", "--libraries", "caster"))
				if status != own || same(theirs) != same(ours) {
					t.Errorf("Harnyx's runner: %d %s\nagon's: %d %s", status, same(theirs), own, same(ours))
				}
				crashes := strings.Contains(script, "crashes") || strings.Contains(script, "bad_answer")
				if (status == 200) == crashes {
					t.Errorf("%d %s", status, theirs)
				}
			})
		}
	}
}
