package play

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
)

const prelude = `
import json, os, sys, time, threading
from dataclasses import dataclass
from src.agent.agent_interface import Tool, create_dialogue_step, execute_tool_call, get_tool, register_tool, format_content, generate_tool_call_id
from src.agent.proxy_client import ProxyClient
import ujson

def answer(id, steps=1, think="I found it."):
    return [create_dialogue_step(think, [{"name": "recommend_product", "parameters": {"product_ids": id}, "tool_call_id": "a", "result": "ok"},
        {"name": "terminate", "parameters": {"status": "success"}, "tool_call_id": "b", "result": "ok"}], "", "q", i + 1) for i in range(steps)]
`

// A problem that is not done in its time has timed out; a run with no other is
// the agent's fault.
func TestSlowProblem(t *testing.T) {
	w := newWorld(t, "")
	w.task("slow", "100001")
	pol := policy()
	pol.Agent.WallMS = 3000
	a, got := w.playWith(prelude+"\ndef agent_main(p): time.sleep(600)\n", pol)
	if a.Fault != agon.FaultAgent || a.Reason != "timeout" || len(a.Scores) != 1 {
		t.Fatalf("fault %q %s, %d scores", a.Fault, a.Reason, len(a.Scores))
	}
	if g := got[0]; g.env.Status != StatusTimedOut || !strings.Contains(g.score.Detail, "exceeded timeout") || g.score.Solved || g.score.Value > 0 {
		t.Errorf("%s %q solved %t %v", g.env.Status, g.score.Detail, g.score.Solved, g.score.Value)
	}
}

// One agent, one problem for each way to end: every problem has its own end and
// none spoils another.
func TestEveryProblemHasItsOwnEnd(t *testing.T) {
	w := newWorld(t, "")
	cases := []struct {
		query, code, status, detail string
		solved                      bool
	}{
		{"right", `return answer("100001")`, StatusSuccess, "", true},
		{"wrong", `return answer("100002")`, StatusSuccess, "", false},
		{"object", `return {"a": 1}`, StatusSuccess, "no list", false},
		{"none", `return None`, StatusSuccess, "no list", false},
		{"empty", `return []`, StatusSuccess, "", false},
		{"raises", `raise KeyError("agon-episode")`, StatusFailed, "KeyError", false},
		{"system exit", `sys.exit(0)`, StatusFailed, "SystemExit", false},
		{"dies", `os._exit(0)`, StatusFailed, "produced no result", false},
		{"kills itself", `os.kill(os.getpid(), 9)`, StatusFailed, "produced no result", false},
		{"not json", `return [{"completion": {"message": {"think": object()}}}]`, StatusFailed, "TypeError", false},
		{"step no object", `return [1]`, StatusFailed, "step 1", false},
		{"last step malformed", `return answer("100001") + [{"extra_info": {}}]`, StatusFailed, "last step (2) has no completion", false},
		{"last step no message", `return answer("100001") + [{"completion": {"message": None}}]`, StatusFailed, "no completion.message", false},
		{"null think", `x = answer("100001"); x[0]["completion"]["message"]["think"] = None; return x`, StatusSuccess, "", true},
		{"nan", `x = answer("100001"); x[0]["extra"] = float("nan"); return x`, StatusSuccess, "", true},
		{"10 MB", `x = answer("100001", 20); x[0]["completion"]["message"]["note"] = "é" * 6_000_000; return x`, StatusSuccess, "", true},
		{"40 MB", `return answer("x" * 40_000_000)`, StatusFailed, "", false},
		{"half a frame", `os.write(3, b"agon-episode 100\n{"); os._exit(0)`, StatusFailed, "broke off", false},
		{"another frame", `os.write(3, b"agon-episode 2\n{}\n"); return answer("100001")`, StatusFailed, "broke off", false},
		{"deep", `x = []
    for i in range(500): x = [x]
    return [{"completion": {"message": {"x": x}}}]`, StatusFailed, "", false},
		{"threads", `threading.Thread(target=time.sleep, args=(60,)).start(); return answer("100001")`, StatusSuccess, "", true},
		{"much output", `print("x" * (20 << 20)); return answer("100001")`, StatusSuccess, "", true},
		{"postponed dataclass", `return answer(Point("100001").id)`, StatusSuccess, "", true},
		{"no network", `import socket; socket.create_connection(("1.1.1.1", 80), 2); return answer("100001")`, StatusFailed, "Error", false},
		{"writes its directory", `open("x", "w").write("x"); open("/tmp/x", "w").write("x"); return answer("100001")`, StatusSuccess, "", true},
		{"writes itself", `open("/app/agent/agent.py", "a").write("x"); return answer("100001")`, StatusFailed, "Error", false},
		{"sees nobody else", `return answer("100001") if os.listdir("/app/logs") == [] else None`, StatusSuccess, "", true},
		{"environment", `
    for k in ("SANDBOX_PROXY_URL", "CHUTES_ACCESS_TOKEN", "SANDBOX_OUTPUT_FILE", "INFERENCE_STATS_FILE", "REQUEST_LOG_FILE", "SANDBOX_MODEL"): os.environ[k]
    assert json.loads(os.environ["PROBLEM_DATA"]) == p and set(p) == {"problem_id", "query", "category", "difficulty", "title"}
    return answer("100001")`, StatusSuccess, "", true},
		{"helpers", `
    @Tool
    def one(a): return a + 1
    @Tool("two")
    def other(**kw): return kw
    assert execute_tool_call("one", {"a": 1})["result"] == 2 and get_tool("two")(x=1) == {"x": 1}
    try: get_tool("three")
    except ValueError as e: assert "one" in str(e)
    assert generate_tool_call_id("find_product", {"q": "lamp", "page": 1}) == "` + callID + `", generate_tool_call_id("find_product", {"q": "lamp", "page": 1})
    assert ujson.loads(ujson.dumps({"a": "b/c"})) == {"a": "b/c"}
    c = ProxyClient(os.environ["SANDBOX_PROXY_URL"], max_retries=1)
    assert [x["product_id"] for x in c.get("/search/find_product", {"q": "lamp", "page": 1, "shop_id": None})] == ["100001", "100002"]
    assert c.get("/search/get_product_raw", {"product_ids": "100001"}) is None and c.get("/v1/tools") is None
    return answer("100001")`, StatusSuccess, "", true},
	}
	agent := "from __future__ import annotations\n" + prelude + "\n@dataclass(frozen=True)\nclass Point:\n    id: str\n\ndef agent_main(p):\n    q = p['query']\n"
	for _, c := range cases {
		w.task(c.query, "100001")
		agent += fmt.Sprintf("    if q == %q: return f%d(p)\n", c.query, len(w.refs))
	}
	for i, c := range cases {
		agent += fmt.Sprintf("\ndef f%d(p):\n    %s\n", i+1, c.code)
	}
	pol := policy()
	pol.Agent.WallMS = 60_000 // TestSlowProblem has a problem that needs more than it may
	start := time.Now()
	a, got := w.playWith(agent, pol)
	if a.Fault != agon.FaultNone || len(a.Scores) != len(cases) {
		t.Fatalf("fault %q %s, %d scores", a.Fault, a.Reason, len(a.Scores))
	}
	t.Logf("%d problems in %s", len(cases), time.Since(start))
	for i, c := range cases {
		g := got[i]
		if g.env.Status != c.status || !strings.Contains(g.score.Detail, c.detail) || g.score.Solved != c.solved || (g.score.Value > 0) != c.solved {
			t.Errorf("%s: %s %q solved %t %v; error %+v", c.query, g.env.Status, g.score.Detail, g.score.Solved, g.score.Value, g.env.Error)
		}
		if g.env.ProblemID == "" {
			t.Errorf("%s: no problem id", c.query)
		}
	}
	var big []json.RawMessage
	for i, c := range cases {
		if c.query == "10 MB" {
			if err := json.Unmarshal(got[i].env.Dialogue, &big); err != nil || len(big) != 20 || len(got[i].env.Dialogue) < 10<<20 {
				t.Errorf("the long episode did not arrive whole: %d steps, %d bytes, %v", len(big), len(got[i].env.Dialogue), err)
			}
		}
		if c.query == "helpers" && (got[i].ev.Tools != 1 || got[i].ev.Refused != 2) {
			t.Errorf("evidence of helpers: %+v", got[i].ev)
		}
	}
}

// callID is what the original names this call: md5 of name, line feed and the
// dict's repr, urlsafe base64 without =, + and /, eight characters.
const callID = "uiWIfTOZ"
