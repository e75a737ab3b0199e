package roles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/environment"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// shellScript answers the harbor template's agent.
const shellScript = "version = 1\n[[rule]]\nturn = 0\ncontent = '''\n```bash\nprintf 'Hello, world!\\n' > hello.txt\n```\n'''\n[[rule]]\ncontent = 'DONE'\n"

// trainerModel is a trainer's endpoint: a script behind HTTP that tells tokens, under
// a name and a key of the trainer's own.
func trainerModel(t *testing.T, script *scripted.Script, asked *atomic.Int64) environment.Client {
	t.Helper()
	model := scripted.Handler(script)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var q map[string]any
		if err != nil || json.Unmarshal(b, &q) != nil || r.Header.Get("Authorization") != "Bearer sk-trainers-own-0123456789" || q["model"] != "policy-7" || q["temperature"] != 0.7 {
			http.Error(w, "not the trainer's", http.StatusUnauthorized)
			return
		}
		asked.Add(1)
		q["model"] = scripted.Name
		b, _ = json.Marshal(q)
		r.Body = io.NopCloser(bytes.NewReader(b))
		model.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return environment.Client{URL: srv.URL + "/v1", Key: "sk-trainers-own-0123456789", Model: "policy-7"}
}

// entryOf writes a sample of a kind, or its template, where `--agent` finds it.
func entryOf(t *testing.T, k kit.Kit, name string) string {
	t.Helper()
	files, err := kit.SampleFiles(k.Data, name)
	if name == "" {
		files, err = map[string][]byte{}, nil
		var b []byte
		b, err = os.ReadFile("../../../kinds/harbor/template/agent.py")
		files["agent.py"] = b
	}
	if err != nil {
		t.Fatal(err)
	}
	for f, b := range files {
		path := filepath.Join(t.TempDir(), f)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Fatal("the sample has no file")
	return ""
}

// servedRuns serves the demo of a kind with an agent.
func servedRuns(t *testing.T, kindName, sample string, keep func(*task.Task) bool) (*servedEnv, []*task.Task) {
	t.Helper()
	o := testOptions(t.TempDir())
	k, _ := o.Kits.Of(kindName)
	list, _, _, err := envTasks(o, k.Demo().ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	list = slices.DeleteFunc(list, func(x *task.Task) bool { return !keep(x) })
	c := cli.EnvServeOptions{Agent: entryOf(t, k, sample)}
	run, err := newEnvRunner(t.Context(), o, list, nil, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(run.close)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e, err := serveEnv(t.Context(), o, list, ln, c, run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	return e, list
}

func postRun(t *testing.T, url string, body any) (status int, text string) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url+"/run", "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(out)
}

// pythonRun asks by the Python package.
func pythonRun(t *testing.T, url string, body any) (status int, text string) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	const program = `import json, sys
from agon.env import Client
q = json.loads(sys.argv[2])
c = q["client"]
print(json.dumps(Client(sys.argv[1], timeout=600).run(q["task"], c["base_url"], c["model"], c["api_key"], q["seed"], q["sampling"])))`
	cmd := exec.CommandContext(t.Context(), "python3", "-c", program, url, string(b))
	cmd.Env = append(os.Environ(), "PYTHONPATH=../../../client/sdk", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return http.StatusOK, string(out)
}

// Agents of four kinds are played in their boxes with a trainer's model, and every call
// comes back with its tokens; judges do not ask that model.
func TestRunsOfTrainers(t *testing.T) {
	kits := kinds.All()
	all, err := kits.Script()
	if err != nil {
		t.Fatal(err)
	}
	shell, err := scripted.Parse([]byte(shellScript), "toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind, sample, task string
		script             *scripted.Script
		reward             float64
	}{
		{"coding", "llm", "small/lru-cache", all, 1},
		{"shopping", "react", "demo/product-easy-01", all, 1},
		{"pack", "optimised", "office/morning-brief", all, 1},
		{"harbor", "", "basic/hello", shell, 1},
	} {
		t.Run(c.kind, func(t *testing.T) {
			var asked atomic.Int64
			client := trainerModel(t, c.script, &asked)
			e, list := servedRuns(t, c.kind, c.sample, func(x *task.Task) bool { return x.Key == c.task })
			ask, body := postRun, map[string]any{ // as NeMo Gym asks
				"verifier_metadata": map[string]string{"task": list[0].Key}, "responses_create_params": map[string]any{"input": "kept", "temperature": 0.7}, "client": client, "seed": 7,
			}
			if c.kind == "pack" {
				ask, body = pythonRun, map[string]any{"task": list[0].Key, "sampling": map[string]any{"temperature": 0.7}, "client": client, "seed": 7}
			}
			status, text := ask(t, e.url, body)
			if status != http.StatusOK {
				t.Fatalf("%d %.1000s", status, text)
			}
			var r struct {
				environment.Run
				Params   map[string]any `json:"responses_create_params"`
				Response struct {
					Output []map[string]any `json:"output"`
				} `json:"response"`
			}
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatal(err)
			}
			if r.Reward != c.reward || r.Fault != "" || r.Seed != 7 || r.Task != list[0].Key || r.BoxMS == 0 || c.kind != "pack" && r.Params["input"] != "kept" {
				t.Errorf("reward %v, fault %q, %s, %s, seed %d, %d ms in boxes", r.Reward, r.Fault, r.Outcome, r.Detail, r.Seed, r.BoxMS)
			}
			n := 0
			for _, x := range r.Trace.Turns {
				if len(x.Completion) == 0 || len(x.Logprobs) != len(x.Completion) || len(x.Mask) != len(x.Prompt)+len(x.Completion) || len(x.Request) == 0 || len(x.Response) == 0 {
					t.Errorf("turn %s: %d and %d ids, %d log-probabilities, %d of the mask", x.Node, len(x.Prompt), len(x.Completion), len(x.Logprobs), len(x.Mask))
				}
				n += len(x.Completion)
			}
			trained := 0
			for _, s := range r.Samples {
				for _, m := range s.Mask {
					trained += m
				}
			}
			told := 0
			for _, i := range r.Response.Output {
				if ids, ok := i["generation_token_ids"].([]any); ok {
					told += len(ids)
				}
			}
			if n == 0 || trained != n || told != n || len(r.Missing) != 0 {
				t.Errorf("%d tokens said, %d in samples, %d in the response; missing %v", n, trained, told, r.Missing)
			}
			if asked.Load() < int64(len(r.Trace.Turns)) || strings.Contains(text, client.Key) {
				t.Errorf("%d calls for %d turns, or the key is told", asked.Load(), len(r.Trace.Turns))
			}
			if c.kind != "harbor" {
				return
			}
			// A failure of the trainer's endpoint is not the agent's.
			client.Key = "sk-the-wrong-one-0123456789"
			status, text = postRun(t, e.url, map[string]any{"task": list[0].Key, "client": client})
			if status != http.StatusBadGateway || !strings.Contains(text, `"endpoint_failed"`) || strings.Contains(text, "reward") {
				t.Errorf("an endpoint that refuses: %d %.300s", status, text)
			}
		})
	}
}

// What a run is refused for, before anything is played.
func TestRunsThatAreRefused(t *testing.T) {
	e, _ := servedRuns(t, "shopping", "react", func(x *task.Task) bool { return x.Key == "demo/product-easy-01" })
	dead := environment.Client{URL: "http://127.0.0.1:1/v1", Model: "m"}
	k, _ := kinds.All().Of("shopping")
	hidden, _, err := kit.LoadSet(testOptions(t.TempDir()), "shopping", k.Demo().Hidden[0])
	if err != nil || len(hidden) == 0 {
		t.Fatal(hidden, err)
	}
	for _, c := range []struct {
		name string
		body map[string]any
		want string
	}{
		{"a hidden task", map[string]any{"task": hidden[0].Key, "client": dead}, `"not_found"`},
		{"another split", map[string]any{"split": "hidden", "index": 0, "client": dead}, `"split"`},
		{"no endpoint", map[string]any{"index": 0}, `"client.base_url"`},
		{"another machine's", map[string]any{"index": 0, "client": environment.Client{URL: "http://169.254.169.254/v1", Model: "m"}}, `"client.base_url"`},
		{"a name", map[string]any{"index": 0, "client": environment.Client{URL: "http://metadata.internal/v1", Model: "m"}}, `"client.base_url"`},
		{"no model", map[string]any{"index": 0, "client": environment.Client{URL: dead.URL}}, `"client.model"`},
		{"not sampling", map[string]any{"index": 0, "client": dead, "sampling": map[string]int{"n": 2}}, `"sampling"`},
		{"no number", map[string]any{"index": 0, "client": dead, "sampling": map[string]string{"top_p": "x"}}, `"bad_body"`},
	} {
		if status, text := postRun(t, e.url, c.body); status < 400 || !strings.Contains(text, c.want) || strings.Contains(text, "reward") {
			t.Errorf("%s: %d %.300s", c.name, status, text)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+"/run", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	if resp, err := http.DefaultClient.Do(req); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of a browser: %v %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
}

// Only loopback is asked unless the operator says otherwise, and of a server that
// others reach not even that.
func TestEndpoints(t *testing.T) {
	for _, c := range []struct {
		listen, named, url string
		want               bool
	}{
		{"127.0.0.1:8010", "", "http://127.0.0.1:8000/v1", true},
		{"localhost:8010", "", "http://[::1]:8000/v1", true},
		{"127.0.0.1:8010", "", "http://localhost/v1", true},
		{"127.0.0.1:8010", "", "http://10.0.0.1:8000/v1", false},
		{"127.0.0.1:8010", "", "file:///etc/passwd", false},
		{"0.0.0.0:8010", "", "http://127.0.0.1:8000/v1", false},
		{":8010", "", "http://localhost:8000/v1", false},
		{":8010", "10.0.0.1:8000", "http://10.0.0.1:8000/v1", true},
		{":8010", "10.0.0.1:8000", "http://10.0.0.1:9000/v1", false},
		{":8010", "gpu.example:443", "https://gpu.example/v1", true},
	} {
		var named []string
		if c.named != "" {
			named = []string{c.named}
		}
		if _, err := endpointsOf(c.listen, named).transport(c.url); (err == nil) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// A name that leads elsewhere is refused when it is dialled.
	rt, err := endpoints{local: true}.transport("http://localhost:8000/v1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.(*http.Transport).DialContext(t.Context(), "tcp", "192.0.2.1:80"); err == nil || !strings.Contains(err.Error(), "not on this machine") {
		t.Errorf("dialled: %v", err)
	}
}

// Kinds whose agents ask no model of the gateway's, and entries that the arena would
// refuse, are refused when the server starts.
func TestAgentsThatCannotBeRun(t *testing.T) {
	o := testOptions(t.TempDir())
	bad := filepath.Join(t.TempDir(), "agent.py")
	if err := os.WriteFile(bad, []byte("def ("), 0o600); err != nil {
		t.Fatal(err)
	}
	for kindName, want := range map[string]string{"claim": "wrong_kind", "research": "other_command", "coding": ""} {
		k, _ := o.Kits.Of(kindName)
		list, _, _, err := envTasks(o, k.Demo().ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		var e *agon.Error
		if _, err := newEnvRunner(context.Background(), o, list[:1], nil, cli.EnvServeOptions{Agent: bad}); !errors.As(err, &e) || want != "" && e.Code != want {
			t.Errorf("%s: %v", kindName, err)
		}
	}
}
