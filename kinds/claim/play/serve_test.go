package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

// freePort is a port of the loopback that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// serve starts the sandbox alone over a script and returns its address.
func serve(t *testing.T, script string, bare bool, env map[string]string) string {
	t.Helper()
	d, root := kittest.Driver(t)
	vars := map[string]string{"SANDBOX_PORT": "0", "ENTRYPOINT_TIMEOUT_SECONDS": "1.5", "PATH": os.Getenv("PATH")}
	if script != "" {
		vars["CASTER_AGENT_PATH"] = filepath.Join(t.TempDir(), "agent.py")
		if err := os.WriteFile(vars["CASTER_AGENT_PATH"], []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if bare {
		vars["SANDBOX_PORT"] = freePort(t) // the runner's own listener takes no free port for us
	}
	for k, v := range env {
		vars[k] = v
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- Serve(ctx, ServeConfig{Getenv: func(k string) string { return vars[k] }, Driver: d, Rootfs: root, Bare: bare, Ready: func(a string) { ready <- a }})
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case a := <-ready:
		return "http://" + a
	case err := <-done:
		done <- err
		t.Fatalf("serve: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("it does not serve")
	}
	return ""
}

func post(t *testing.T, u, body string, header map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestServeProtocol(t *testing.T) {
	docs := index.New([]index.Doc{{URL: "https://d/1", Title: "Harbour", Text: "The harbour is 14 metres deep."}}, "docs", time.Now)
	host := tools.New(tools.Config{Search: docs, Headers: Headers(), PriceVersion: PriceVersion})
	srv := httptest.NewServer(host)
	defer srv.Close()
	defer host.Stop()
	s, err := host.Open(tools.SessionConfig{Budget: 3000})
	if err != nil {
		t.Fatal(err)
	}
	const script = `
from caster_miner_sdk.api import search_web
from caster_miner_sdk.decorators import entrypoint
import asyncio, os, time
SEEN = []
@entrypoint("evaluate_criterion")
async def f(request):
    m = request.get("m")
    SEEN.append(m)
    if m == "key": raise KeyError("evaluate_criterion")
    if m == "sleep": time.sleep(30)
    if m == "die": os._exit(0)
    if m == "mark":
        open("/tmp/begun", "w").write("x")
        time.sleep(1.2)
        open("/tmp/marker", "w").write("x")
    if m == "look": return {"begun": os.path.exists("/tmp/begun"), "marker": os.path.exists("/tmp/marker")}
    if m == "look later":
        time.sleep(1.3)
        return {"marker": os.path.exists("/tmp/marker")}
    if m == "search":
        found = await search_web("harbour", num=1)
        return {"note": found.results[0].note, "left": found.budget.session_remaining_budget_usd, "data": found.response.data[0].link}
    if m == "twice":
        await search_web("harbour", num=1)
        await search_web("harbour", num=1)
    return {"seen": len(SEEN), "request": request}
@entrypoint("query")
async def g(request):
    if request["m"] == "search": await search_web("harbour", num=1)
    return {"text": request["m"]}
`
	for _, bare := range []bool{false, true} {
		u := serve(t, script, bare, nil)
		resp, err := http.Get(u + "/healthz")
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("healthz: %v", err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(b) != `{"status":"ok"}` {
			t.Errorf("healthz %s", b)
		}
		all := map[string]string{"x-caster-token": s.Token(), "x-caster-session-id": s.ID(), "x-caster-host-container-url": srv.URL}
		without := func(k string) map[string]string {
			m := map[string]string{}
			for h, v := range all {
				if h != k {
					m[h] = v
				}
			}
			return m
		}
		body := func(m string) string {
			return `{"payload":{"m":"` + m + `"},"context":{"claim_id":"` + uuid.NewString() + `"}}`
		}
		for _, c := range []struct {
			name, path, body string
			header           map[string]string
			status           int
			holds            string
		}{
			{"ok", "/entry/evaluate_criterion", body("x"), all, 200, `{"ok":true,"result":{"seen":1,"request":{"m":"x"}}}`},
			{"no state", "/entry/evaluate_criterion", body("x"), all, 200, `"seen":1`},
			{"no token", "/entry/evaluate_criterion", body("x"), without("x-caster-token"), 401, `{"detail":"missing x-caster-token header"}`},
			{"no session", "/entry/evaluate_criterion", body("x"), without("x-caster-session-id"), 500, `"code":"UnhandledException","exception":"RuntimeError"`},
			{"no host", "/entry/evaluate_criterion", body("x"), without("x-caster-host-container-url"), 500, `"exception":"RuntimeError"`},
			{"later era, no host", "/entry/query", body("x"), without("x-caster-host-container-url"), 200, `"text":"x"`},
			{"later era, no session, a tool", "/entry/query", body("search"), without("x-caster-session-id"), 500, `"exception":"RuntimeError","error":"no tool invoker bound in this context"`},
			{"later headers", "/entry/evaluate_criterion", body("x"), map[string]string{"x-platform-token": s.Token(), "x-session-id": s.ID(), "x-host-container-url": srv.URL}, 200, `"seen":1`},
			{"unknown", "/entry/nope", body("x"), all, 404, `{"detail":{"code":"MissingEntrypoint","exception":"KeyError","error":"'nope'"`},
			{"key error", "/entry/evaluate_criterion", body("key"), all, 500, `"code":"UnhandledException","exception":"KeyError"`},
			{"dies", "/entry/evaluate_criterion", body("die"), all, 500, `{"detail":{"error":"entrypoint worker failed","exception":"EOFError"}}`},
			{"tool config", "/entry/evaluate_criterion", `{"payload":{},"context":{},"tool_config":{"a":1}}`, all, 500, "tool_config"},
			{"bad body", "/entry/evaluate_criterion", `{"payload":[],"context":{}}`, all, 422, `"detail":[`},
			{"no body", "/entry/evaluate_criterion", ``, all, 422, `"detail":[`},
			{"other path", "/x", body("x"), all, 404, `{"detail":"Not Found"}`},
			{"late", "/entry/evaluate_criterion", body("sleep"), all, 504, `{"detail":{"error":"entrypoint exceeded 1.5s","exception":"TimeoutError"}}`},
			{"after", "/entry/evaluate_criterion", body("x"), all, 200, `"ok":true`},
		} {
			start := time.Now()
			status, got := post(t, u+c.path, c.body, c.header)
			if status != c.status || !strings.Contains(got, c.holds) {
				t.Errorf("bare %v, %s: %d %s", bare, c.name, status, got)
			}
			if took := time.Since(start); c.status == 504 && (took < 1400*time.Millisecond || took > 3500*time.Millisecond) {
				t.Errorf("bare %v: 504 after %s", bare, took)
			}
		}
		if bare {
			continue // the session's money is spent
		}
		// A caller that goes away takes its worker along.
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, u+"/entry/evaluate_criterion", strings.NewReader(body("mark")))
			if err != nil {
				gone <- err
				return
			}
			for k, v := range all {
				req.Header.Set(k, v)
			}
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			gone <- err
		}()
		for {
			status, got := post(t, u+"/entry/evaluate_criterion", body("look"), all)
			if status != http.StatusOK {
				t.Fatalf("looking for the other worker's mark: %d %s", status, got)
			}
			if strings.Contains(got, `"marker":true`) {
				t.Fatal("the worker ended before its caller could go away")
			}
			if strings.Contains(got, `"begun":true`) {
				break
			}
		}
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that went away got %v", err)
		}
		if status, got := post(t, u+"/entry/evaluate_criterion", body("look later"), all); status != 200 || !strings.Contains(got, `"marker":false`) {
			t.Errorf("after a caller went away: %d %s", status, got)
		}
		status, got := post(t, u+"/entry/evaluate_criterion", body("search"), all)
		var out struct {
			Result struct {
				Note, Data string
				Left       float64
			}
		}
		if err := json.Unmarshal([]byte(got), &out); err != nil || status != 200 || out.Result.Note != "The harbour is 14 metres deep." || out.Result.Data != "https://d/1" || out.Result.Left != 0.0005 {
			t.Errorf("search: %d %s", status, got)
		}
		status, got = post(t, u+"/entry/evaluate_criterion", body("twice"), all)
		if status != 500 || !strings.Contains(got, `"exception":"ToolInvocationError","error":"tool invocation failed with 400: tool execution failed"`) {
			t.Errorf("over budget: %d %s", status, got)
		}
	}
}

func TestServeWithoutScript(t *testing.T) {
	u := serve(t, "", false, nil)
	status, got := post(t, u+"/entry/evaluate_criterion", `{"payload":{},"context":{}}`, map[string]string{"x-caster-token": "t", "x-caster-session-id": "s", "x-caster-host-container-url": "http://127.0.0.1:1"})
	if status != 404 || !strings.Contains(got, `"code":"MissingEntrypoint"`) {
		t.Errorf("%d %s", status, got)
	}
}

func TestReadVars(t *testing.T) {
	for _, env := range []map[string]string{
		{"CASTER_AGENT_MODULE": "x"},
		{"SANDBOX_PORT": "x"},
		{"SANDBOX_PORT": "70000"},
		{"ENTRYPOINT_TIMEOUT_SECONDS": "0"},
		{"ENTRYPOINT_TIMEOUT_SECONDS": "nan"},
		{"ENTRYPOINT_TIMEOUT_SECONDS": "inf"},
		{"ENTRYPOINT_TIMEOUT_SECONDS": "-1"},
	} {
		if _, err := readVars(func(k string) string { return env[k] }); err == nil {
			t.Errorf("%v is let in", env)
		}
	}
	v, err := readVars(func(string) string { return "" })
	if err != nil || v.listen != "127.0.0.1:8000" || v.timeout != 120*time.Second {
		t.Errorf("%+v %v", v, err)
	}
}

// Sixteen callers at once are each answered by a fresh state. The bench measures how fast; here
// it is faster than the six calls a second of the original, whatever else the machine does.
func TestServeManyCalls(t *testing.T) {
	const script = `
from caster_miner_sdk.decorators import entrypoint
SEEN = []
@entrypoint("evaluate_criterion")
async def f(request):
    SEEN.append(request["m"])
    return {"seen": SEEN}
`
	const callers, calls = 16, 4
	u := serve(t, script, false, map[string]string{"ENTRYPOINT_TIMEOUT_SECONDS": "60"})
	header := map[string]string{"x-caster-token": "t", "x-caster-session-id": uuid.NewString(), "x-caster-host-container-url": "http://127.0.0.1:1"}
	start := time.Now()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for k := range calls {
				m := fmt.Sprintf("%d-%d", i, k)
				status, got := post(t, u+"/entry/evaluate_criterion", `{"payload":{"m":"`+m+`"},"context":{}}`, header)
				if want := `{"ok":true,"result":{"seen":["` + m + `"]}}`; status != http.StatusOK || got != want {
					t.Errorf("%d %s, want %s", status, got, want)
				}
			}
		})
	}
	all.Wait()
	if rate := callers * calls / time.Since(start).Seconds(); rate < 6 {
		t.Errorf("%.1f calls a second", rate)
	} else {
		t.Logf("%.1f calls a second", rate)
	}
}
