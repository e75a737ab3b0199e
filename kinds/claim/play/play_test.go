package play

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
)

// fixedJudge counts what it is asked.
type fixedJudge struct {
	ok    bool
	err   error
	asked atomic.Int64
	last  atomic.Value
}

func (*fixedJudge) Version() string        { return "fixed" }
func (*fixedJudge) Policy() gateway.Policy { return gateway.Policy{} }
func (j *fixedJudge) Support(_ context.Context, _ func() (gateway.Session, error), in SupportInput) (SupportVerdict, error) {
	j.asked.Add(1)
	j.last.Store(in)
	return SupportVerdict{OK: j.ok, Rationale: "because"}, j.err
}

const head = `
from caster_miner_sdk.decorators import entrypoint
from caster_miner_sdk.api import search_web, test_tool, tooling_info
import asyncio, os, sys, time, threading, subprocess, json

@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    m = request["claim_text"]
    GOOD = {"verdict": 1, "justification": "fine", "citations": []}
`

// One script, one claim for each way to end: every pair has its own end and no
// pair spoils another.
func TestEveryPairHasItsOwnEnd(t *testing.T) {
	j := &fixedJudge{ok: true}
	w := newWorld(t, j)
	cases := []struct {
		claim, code, outcome, detail string
		value                        float64
	}{
		{"good", "return GOOD", agon.OutcomeOK, "", 1},
		{"wrong verdict", `return dict(GOOD, verdict=-1)`, agon.OutcomeOK, "", 0},
		{"illegal verdict", `return dict(GOOD, verdict=3)`, agon.OutcomeInvalid, "none of verdict_options", 0},
		{"text verdict", `return dict(GOOD, verdict="1")`, agon.OutcomeInvalid, "want an integer", 0},
		{"bool verdict", `return dict(GOOD, verdict=True)`, agon.OutcomeInvalid, "want an integer", 0},
		{"blank", `return dict(GOOD, justification="  ")`, agon.OutcomeInvalid, "empty", 0},
		{"null citations", `return dict(GOOD, citations=None)`, agon.OutcomeInvalid, "want a list", 0},
		{"strange citation", `return dict(GOOD, citations=[{"receipt_id": "a", "result_id": "b", "x": 1}])`, agon.OutcomeInvalid, "unknown", 0},
		{"list", `return [1]`, agon.OutcomeInvalid, "want an object", 0},
		{"none", `return None`, agon.OutcomeInvalid, "want an object", 0},
		{"extra keys", `return dict(GOOD, more={"a": [1]})`, agon.OutcomeOK, "", 1},
		{"nan", `return dict(GOOD, x=float("nan"))`, agon.OutcomeRaised, "NaN", 0},
		{"object", `return object()`, agon.OutcomeRaised, "NotJson", 0},
		{"subclass", "class D(dict): pass\n    return D(GOOD)", agon.OutcomeRaised, "NotJson", 0},
		{"hook", "class R:\n        def __reduce__(self): return (os._exit, (3,))\n    return R()", agon.OutcomeRaised, "NotJson", 0},
		{"raises", `raise KeyError("evaluate_criterion")`, agon.OutcomeRaised, "KeyError", 0},
		{"our words", "class PreloadInfrastructureFailed(Exception): pass\n    raise PreloadInfrastructureFailed('host')", agon.OutcomeRaised, "PreloadInfrastructureFailed", 0},
		{"system exit", `sys.exit(0)`, agon.OutcomeRaised, "SystemExit", 0},
		{"dies", `os._exit(0)`, OutcomeDied, "", 0},
		{"kills itself", `os.kill(os.getpid(), 9)`, OutcomeDied, "", 0},
		{"kills the server", `os.kill(os.getppid(), 9)`, agon.OutcomeRaised, "PermissionError", 0},
		{"reads the server", `open(f"/proc/{os.getppid()}/mem", "rb"); return GOOD`, agon.OutcomeRaised, "PermissionError", 0},
		{"forged frame", `f = b'{"status":"error","error":{"code":"PreloadInfrastructureFailed","exception":"x","error":"y","traceback":""}}'; os.write(3, len(f).to_bytes(8, "big") + f); os._exit(0)`, OutcomeDied, "", 0},
		{"half a frame", `os.write(3, (10**6).to_bytes(8, "big") + b"{"); os._exit(0)`, OutcomeDied, "", 0},
		{"frame, then exit", `f = json.dumps({"status": "ok", "result": GOOD}).encode(); os.write(3, len(f).to_bytes(8, "big") + f); os._exit(1)`, agon.OutcomeOK, "", 1},
		{"65 MiB", `return "x" * (65 << 20)`, OutcomeTooLarge, "", 0},
		{"2 MiB", `return "x" * (2 << 20)`, OutcomeTooLarge, "", 0},
		{"deep", "d = []\n    for _ in range(100000): d = [d]\n    return dict(GOOD, x=d)", agon.OutcomeRaised, "", 0},
		{"generator", `return (GOOD for _ in range(2))`, agon.OutcomeRaised, "NotJson", 0},
		{"65 KiB", `return dict(GOOD, justification="x" * (65 << 10))`, agon.OutcomeOK, "", 1}, // the contract bounds the result, not its parts
		{"memory", `x = b"x" * (2 << 30)`, agon.OutcomeRaised, "MemoryError", 0},
		{"threads", `threading.Thread(target=print).start()`, agon.OutcomeRaised, "thread", 0},
		{"programs", `subprocess.run(["true"])`, agon.OutcomeRaised, "PermissionError", 0},
		{"fork", `os.fork()`, agon.OutcomeRaised, "PermissionError", 0},
		{"much output", `print("x" * (100 << 20)); return GOOD`, agon.OutcomeOK, "", 1},
		{"writes tmp", `open("/tmp/a", "w").write("x"); return GOOD`, agon.OutcomeOK, "", 1},
		{"writes root", `open("/etc/a", "w").write("x"); return GOOD`, agon.OutcomeRaised, "Error", 0},
		{"writes itself", `open("/agon/agent.py", "a").write("x"); return GOOD`, agon.OutcomeRaised, "Error", 0},
		{"no network", `await asyncio.open_connection("1.1.1.1", 80); return GOOD`, agon.OutcomeRaised, "OSError", 0},
		{"state", `first = not hasattr(sys, "seen"); sys.seen = 1; return dict(GOOD, verdict=1 if first else -1)`, agon.OutcomeOK, "", 1},
		{"good again", "return GOOD", agon.OutcomeOK, "", 1},
	}
	script := head
	for _, c := range cases {
		w.task(c.claim, 1, "it is so")
		script += fmt.Sprintf("    if m == %q:\n        %s\n", c.claim, strings.ReplaceAll(c.code, "\n    ", "\n        "))
	}
	a, pairs := w.play(script)
	if a.Fault != agon.FaultNone || len(a.Scores) != len(cases) {
		t.Fatalf("fault %q %s, %d scores", a.Fault, a.Reason, len(a.Scores))
	}
	asked := int64(0)
	for i, c := range cases {
		p := pairs[w.refs[i].Key]
		if p.Outcome != c.outcome || !strings.Contains(p.detail(), c.detail) || a.Scores[i].Value != c.value {
			t.Errorf("%s: %s %q scores %v, want %s %q %v", c.claim, p.Outcome, p.detail(), a.Scores[i].Value, c.outcome, c.detail, c.value)
		}
		if p.Outcome == agon.OutcomeOK && p.Response.Verdict == 1 {
			asked++
		}
		if p.Session.ID == "" || p.Session.Status == "active" {
			t.Errorf("%s: session %+v", c.claim, p.Session)
		}
	}
	if j.asked.Load() != asked {
		t.Errorf("the judge was asked %d times for %d matching verdicts", j.asked.Load(), asked)
	}
}

// A script that runs over its time is killed, leaves no marker, and the next
// claim is played as if nothing had been.
func TestTimeout(t *testing.T) {
	w := newWorld(t, &fixedJudge{ok: true})
	for _, c := range []string{"sleep", "marker", "spin", "marker"} {
		w.task(c, 1, "it is so")
	}
	pol := policy()
	pol.Agent.WallMS = 700
	a, pairs := w.playWith(head+`
    if m == "sleep":
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(2.5)  # beyond limit and grace: the worker is dead by then
        open("/tmp/marker", "w").write("x")
        time.sleep(30)
    if m == "spin":
        while True: pass
    time.sleep(0.5)
    return dict(GOOD, verdict=-1 if os.path.exists("/tmp/marker") else 1)
`, pol)
	if a.Fault != agon.FaultNone || scores(a) != "0 1 0 1" {
		t.Errorf("fault %q %s: %s", a.Fault, a.Reason, scores(a))
	}
	for _, i := range []int{0, 2} {
		if p := pairs[w.refs[i].Key]; p.Outcome != agon.OutcomeTimeout || p.ElapsedMS > 3700 || p.Session.Status != "timed_out" {
			t.Errorf("%d: %+v", i, p)
		}
	}
}

// Tools are reached through the door, by the session's token only; citations
// are hydrated from the session's own receipts.
func TestToolsAndCitations(t *testing.T) {
	j := &fixedJudge{ok: true}
	w := newWorld(t, j)
	for _, c := range []string{"harbour", "foreign", "info"} {
		w.task(c, 1, "depth of 14 metres")
	}
	a, pairs := w.play(head + `
    if m == "info":
        info = await tooling_info()
        echo = await test_tool("hello")
        return dict(GOOD, justification=json.dumps([info.response.tool_names, echo.response.echo]))
    found = await search_web("depth of the harbour of Vell", num=2)
    r = found.results[0]
    cite = {"receipt_id": found.receipt_id, "result_id": r.result_id}
    if m == "harbour":
        open("/tmp/cite", "w").write(json.dumps(cite))
        return {"verdict": 1, "justification": r.note, "citations": [cite, {"receipt_id": "no", "result_hash": "none"}]}
    return dict(GOOD, citations=[json.load(open("/tmp/cite"))])
`)
	if a.Fault != agon.FaultNone || scores(a) != "1 1 1" {
		t.Fatalf("fault %q %s: %s %+v", a.Fault, a.Reason, scores(a), pairs)
	}
	p := pairs[w.refs[0].Key]
	if len(p.Response.Citations) != 1 || p.Response.Dropped != 1 || *p.Response.Citations[0].URL != "https://docs.example/harbour" || !strings.Contains(*p.Response.Citations[0].Note, "14 metres") {
		t.Errorf("citations %+v", p.Response)
	}
	if p.Session.Spent != 2500 || len(p.Tools) != 1 || len(p.Tools[0].RequestHash) != 64 || len(p.Tools[0].ResponseHash) != 64 || p.Session.Status != "completed" {
		t.Errorf("session %+v tools %+v", p.Session, p.Tools)
	}
	if f := pairs[w.refs[1].Key]; len(f.Response.Citations) != 0 || f.Response.Dropped != 1 {
		t.Errorf("a receipt of another session was cited: %+v", f.Response)
	}
	if a.Cost != 5000 {
		t.Errorf("the attempt cost %d, want two searches", a.Cost)
	}
	events := 0
	for _, e := range a.Events() {
		if e.Type == agon.EventTool {
			events++
		}
	}
	if events != 4 {
		t.Errorf("%d tool events, want 4", events)
	}
	if info := pairs[w.refs[2].Key].Response.Justification; !strings.Contains(info, `"search_web"`) || !strings.Contains(info, `"hello"`) {
		t.Errorf("tooling_info %s", info)
	}
}

// A box that ends in the middle takes its own pair with it; the others get a fresh one.
func TestBoxDies(t *testing.T) {
	w := newWorld(t, &fixedJudge{ok: true})
	for _, c := range []string{"one", "flood", "two"} {
		w.task(c, 1, "x")
	}
	pol := policy()
	pol.Agent.Pids = 64
	a, pairs := w.playWith(head+`
    if m == "flood":
        # more than the box's memory, piece by piece, in files of the box
        for i in range(100):
            with open(f"/tmp/f{i}", "wb") as f: f.write(b"x" * (8 << 20))
    return GOOD
`, pol)
	if a.Fault != agon.FaultNone || scores(a) != "1 0 1" {
		t.Errorf("fault %q %s: %s %+v", a.Fault, a.Reason, scores(a), pairs)
	}
}

func TestScriptThatCannotBeLoaded(t *testing.T) {
	for name, c := range map[string]struct{ script, outcome string }{
		"raises":         {"raise ValueError('no')", agon.OutcomeLoadError},
		"import":         {"import no_such_module", agon.OutcomeLoadError},
		"no entrypoint":  {"x = 1", agon.OutcomeNoEntry},
		"another":        {"from agon_sdk import entrypoint\n@entrypoint('other')\nasync def f(request): return 1", agon.OutcomeNoEntry},
		"twice":          {"from agon_sdk import entrypoint\n@entrypoint('f')\nasync def f(request): return 1\n@entrypoint('f')\nasync def g(request): return 1", agon.OutcomeLoadError},
		"not async":      {"from agon_sdk import entrypoint\n@entrypoint('evaluate_criterion')\ndef f(request): return 1", agon.OutcomeLoadError},
		"no parentheses": {"from agon_sdk import entrypoint\n@entrypoint\nasync def f(request): return 1", agon.OutcomeLoadError},
		"other param":    {"from agon_sdk import entrypoint\n@entrypoint('evaluate_criterion')\nasync def f(q): return 1", agon.OutcomeLoadError},
		"exits":          {"import os; os._exit(0)", OutcomeDied},
		"sys.exit":       {"import sys; sys.exit(0)", agon.OutcomeLoadError},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &fixedJudge{ok: true})
			w.task("x", 1, "y")
			w.task("x", 1, "y")
			a, pairs := w.play(c.script)
			if a.Fault != agon.FaultNone || scores(a) != "0 0" || pairs["t/c0"].Outcome != c.outcome || pairs["t/c1"].Outcome != c.outcome {
				t.Errorf("fault %q %s %+v", a.Fault, a.Reason, pairs)
			}
			if p := pairs["t/c0"]; c.outcome == agon.OutcomeNoEntry && p.detail() != "the script registers no entry point 'evaluate_criterion'" {
				t.Errorf("a miner is told %q", p.detail())
			}
		})
	}
}

// A judge that cannot say is never a verdict.
func TestJudgeFailureIsOurs(t *testing.T) {
	w := newWorld(t, &fixedJudge{err: errors.New("down")})
	w.task("x", 1, "y")
	a, _ := w.play(head + "    return GOOD\n")
	if !a.Fault.Ours() || len(a.Scores) != 0 {
		t.Errorf("fault %q, scores %v", a.Fault, a.Scores)
	}
	// Where the verdict differs it is not asked.
	a, _ = w.play(head + "    return dict(GOOD, verdict=-1)\n")
	if a.Fault != agon.FaultNone || scores(a) != "0" {
		t.Errorf("fault %q %s", a.Fault, a.Reason)
	}
}

func TestSupportDecidesTheOtherHalf(t *testing.T) {
	j := &fixedJudge{}
	w := newWorld(t, j)
	w.task("x", 1, "the reason")
	a, _ := w.play(head + "    return GOOD\n")
	if scores(a) != "0.5" || a.Scores[0].Solved || a.Scores[0].Metrics["verdict_score"] != 0.5 || a.Scores[0].Detail != "verdict 1, as the reference; support: because" {
		t.Errorf("%+v", a.Scores)
	}
	in := j.last.Load().(SupportInput)
	if in.ReferenceOption != "Pass" || in.Option != "Pass" || in.ReferenceJustification != "the reason" || in.Justification != "fine" || in.Claim != "x" {
		t.Errorf("%+v", in)
	}
}

// benchPairs is how many pairs a run of the benchmark has, by AGON_BENCH_PAIRS.
func benchPairs(b *testing.B) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("AGON_BENCH_PAIRS"), "0"))
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkPairs plays whole runs, as many at once as there are cores: box,
// tool sessions, script, receipts, grade. Its pairs/s are what a validator does.
func BenchmarkPairs(b *testing.B) {
	w := newWorld(b, &fixedJudge{ok: true})
	for range cmp.Or(benchPairs(b), perRun) {
		w.task("x", 1, "y")
	}
	d := w.trees.Add(w.t, map[string]string{AgentFile: head + "    return GOOD\n"})
	var mu sync.Mutex
	var took []int64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a := w.player.Play(b.Context(), validator.Job{
				Run: agon.RunSpec{Run: "run-1", Arena: "a", Tasks: w.refs, Policy: policy()}, Attempt: 1,
				Arena: agon.Arena{ID: "a", Kind: Name, Tasks: w.refs, Policy: policy()}, Submission: agon.Submission{ID: "s", Digest: d},
			})
			pairs, err := DecodePairs(a.Files[PairsFile])
			if err != nil || len(a.Scores) != len(w.refs) {
				b.Error(a.Reason, err)
				return
			}
			mu.Lock()
			for _, p := range pairs {
				took = append(took, p.ElapsedMS)
			}
			mu.Unlock()
		}
	})
	slices.Sort(took)
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(took[len(took)/2]), "p50-ms/call")
}

// brokenSearch fails like a provider; its probe fails too if down.
type brokenSearch struct {
	tools.Search
	down bool
}

func (brokenSearch) Name() string { return "broken" }
func (brokenSearch) Web(context.Context, tools.WebQuery) ([]tools.WebHit, error) {
	return nil, &tools.Failure{Class: "server"}
}

func (b brokenSearch) Probe(context.Context) error {
	if b.down {
		return errors.New("down")
	}
	return nil
}

// A provider's failure moves blame only when the host's own probe failed too;
// what a script raises or says about it never does.
func TestProviderOut(t *testing.T) {
	script := head + `
    try:
        await search_web("x", num=1)
    except Exception:
        if m == "raise": raise
    return dict(GOOD, verdict=-1)
`
	for _, down := range []bool{true, false} {
		w := newWorldWith(t, &fixedJudge{ok: true}, brokenSearch{down: down})
		w.task("raise", 1, "x")
		w.task("hide", 1, "x")
		a, _ := w.play(script)
		if down && (a.Fault != agon.FaultProvider || len(a.Scores) != 0) || !down && (a.Fault != agon.FaultNone || scores(a) != "0 0") {
			t.Errorf("down %v: fault %q %s, scores %s, %+v", down, a.Fault, a.Reason, scores(a), a.Observed.Gateway)
		}
	}
}
