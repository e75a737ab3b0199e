package play

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// asked is a PairJudge that keeps what it is asked.
type asked struct {
	cases []judge.PairCase
	wins  int
	err   error
}

func (*asked) Version() string        { return "asked" }
func (*asked) Policy() gateway.Policy { return gateway.Policy{} }
func (a *asked) Compare(_ context.Context, _ func() (gateway.Session, error), c judge.PairCase) (judge.PairVerdict, error) {
	a.cases = append(a.cases, c)
	return judge.PairVerdict{Wins: a.wins}, a.err
}

const longPage = "The bridge at Orm was opened in 1931 by the railway company of Vell. It has three arches of granite, carries a single line, and was closed twice for repairs, in 1954 and in 1988."

func queryWorld(t *testing.T, j PairJudge) *world {
	t.Helper()
	d, root := kittest.Driver(t)
	k := NewQuery(QueryConfig{Rootfs: root, Judge: j})
	w := &world{t: t, trees: kittest.Trees{}}
	docs := index.New([]index.Doc{{URL: "https://docs.example/bridge", Title: "Bridge", Text: longPage}}, "docs", time.Now)
	host := tools.New(tools.Config{Search: docs, Headers: Headers()})
	srv := httptest.NewServer(host)
	t.Cleanup(func() { host.Stop(); srv.Close() })
	w.player = &validator.Player{
		Driver: d, Gateway: noGateway{}, Kinds: map[string]kind.Kind{QueryName: k}, Trees: w.trees, Now: time.Now,
		Tools: &validator.ToolHost{Host: host, URL: srv.URL},
	}
	return w
}

func (w *world) query(text, schema string, budget agon.Micros) {
	w.t.Helper()
	q := map[string]any{"text": text}
	if schema != "" {
		q["output_schema"] = json.RawMessage(schema)
	}
	b, err := json.Marshal(map[string]any{"task_id": uuid.NewString(), "query": q, "budget_micros": budget})
	if err != nil {
		w.t.Fatal(err)
	}
	key := fmt.Sprintf("t/q%02d", len(w.refs))
	d := w.trees.Add(w.t, map[string]string{
		"task.toml": "version = \"1.0\"\n[agon]\nkind = \"query\"\n", "instruction.md": text, QueryFile: string(b),
		ReferenceFile: `{"text":"It was opened in 1931 by the railway company.","citations":[{"url":"https://docs.example/bridge","note":"opened in 1931"},null]}`,
	})
	w.refs = append(w.refs, agon.TaskRef{Key: key, Digest: d})
}

func (w *world) playQueries(script string) (*validator.Attempt, []Pair) {
	w.t.Helper()
	d := w.trees.Add(w.t, map[string]string{AgentFile: script})
	a := w.player.Play(w.t.Context(), validator.Job{
		Run: agon.RunSpec{Run: "run-1", Arena: "a", Tasks: w.refs, Policy: policy()}, Attempt: 1,
		Arena: agon.Arena{ID: "a", Kind: QueryName, Tasks: w.refs, Policy: policy()}, Submission: agon.Submission{ID: "s", Digest: d},
	})
	pairs, err := DecodePairs(a.Files[PairsFile])
	if err != nil {
		w.t.Fatal(err)
	}
	return a, pairs
}

// queryScript does what its query says. It uses the names that scripts of the era import.
const queryScript = `
from __future__ import annotations
import asyncio
from harnyx_miner_sdk.api import LlmChatResult, fetch_page, llm_chat, search_web, test_tool, tooling_info
from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.llm import LlmMessage, LlmMessageContentPart, LlmUsage
from harnyx_miner_sdk.query import CitationRef, CitationSlice, Query, Response
from harnyx_miner_sdk.safe_exec import SafeExecError, safe_exec
from harnyx_miner_sdk.tools.proxy import ToolInvocationError

@entrypoint("query")
async def answer(q: Query) -> Response:
    if q.text == "cited":
        found = await search_web(["bridge", "Orm"], provider="exa", num=1)
        page = await fetch_page(found.results[0].url, provider="exa", timeout=5)
        assert page.response.data[0].content == page.results[0].note
        return Response(text="Opened in 1931. [[1]] [[2]] [[3]]", note="see the page", citations=[
            CitationRef(receipt_id=page.receipt_id, result_id=page.results[0].result_id, slices=[CitationSlice(start=0, end=100)]),
            CitationRef(receipt_id="nobody", result_id="x"),
            CitationRef(receipt_id=found.receipt_id, result_id=found.results[0].result_id),
        ])
    if q.text == "short slice":
        page = await fetch_page("https://docs.example/bridge", provider="exa")
        return Response(text="x", citations=[CitationRef(receipt_id=page.receipt_id, result_id=page.results[0].result_id, slices=[CitationSlice(start=0, end=10)])])
    if q.text == "structured":
        assert q.output_schema["type"] == "object"
        return Response(output={"year": 1931})
    if q.text == "wrong structure":
        return Response(output={"year": "1931"})
    if q.text == "text for structure":
        return Response(text="1931")
    if q.text == "plain dict":
        return {"text": " stripped "}
    if q.text == "bad dict":
        return {"text": 5}
    if q.text == "both":
        return Response(text="a", output=1)
    if q.text == "broke":
        try:
            await fetch_page("https://docs.example/bridge", provider="exa")
        except ToolInvocationError:
            pass
        return Response(text="caught")
    if q.text == "many":
        all = await asyncio.gather(*(test_tool(str(i)) for i in range(25)))
        return Response(text=" ".join(r.response.echo for r in all))
    if q.text == "old tool":
        try:
            await fetch_page("https://docs.example/none", provider="exa")
        except ToolInvocationError as e:
            return Response(text=str(e))
    if q.text == "exec":
        try:
            safe_exec("x = 1")
        except SafeExecError as e:
            return Response(text=f"{safe_exec('result = [a * 2 for a in xs]', {'xs': [1, 2]})} {e}")
    if q.text == "bad timeout":
        try:
            await test_tool("x", timeout=True)
        except ValueError as e:
            return Response(text=str(e))
    raise KeyError(q.text)
`

const yearSchema = `{"type":"object","properties":{"year":{"type":"integer"}},"required":["year"],"additionalProperties":false}`

// One script of the query era in a real box: each query has its own end, and
// only what keeps the contract reaches the judge.
func TestQueryPairs(t *testing.T) {
	j := &asked{wins: 1}
	w := queryWorld(t, j)
	cases := []struct {
		text, schema string
		budget       agon.Micros
		outcome      string
		said         string // in the answer, or in the error
	}{
		{"cited", "", 0, agon.OutcomeOK, "Opened in 1931."},
		{"short slice", "", 0, agon.OutcomeInvalid, "shorter than 100"},
		{"structured", yearSchema, 0, agon.OutcomeOK, `{"year":1931}`},
		{"wrong structure", yearSchema, 0, agon.OutcomeInvalid, "does not agree"},
		{"text for structure", yearSchema, 0, agon.OutcomeInvalid, "wants output"},
		{"plain dict", "", 0, agon.OutcomeOK, "stripped"},
		{"bad dict", "", 0, agon.OutcomeRaised, "text"},
		{"both", "", 0, agon.OutcomeRaised, "exactly one"},
		{"broke", "", 500, OutcomeBudget, "budget"},
		{"many", "", 0, agon.OutcomeOK, "0 1 2 3"},
		{"old tool", "", 0, agon.OutcomeOK, "tool invocation failed with 400: tool execution failed"},
		{"exec", "", 0, agon.OutcomeOK, "[2, 4] code must assign result"},
		{"bad timeout", "", 0, agon.OutcomeOK, "above 0"},
		{"nothing", "", 0, agon.OutcomeRaised, "KeyError"},
	}
	for _, c := range cases {
		w.query(c.text, c.schema, c.budget)
	}
	a, pairs := w.playQueries(queryScript)
	if a.Fault != agon.FaultNone || len(pairs) != len(cases) {
		t.Fatalf("fault %q %s, %d pairs", a.Fault, a.Reason, len(pairs))
	}
	ok := 0
	for i, c := range cases {
		p := pairs[i]
		said := p.detail()
		if p.Answer != nil {
			said = p.Answer.shown()
		}
		if p.Outcome != c.outcome || !strings.Contains(said, c.said) {
			t.Errorf("%s: %s %q, want %s with %q", c.text, p.Outcome, said, c.outcome, c.said)
		}
		want := 0.0
		if c.outcome == agon.OutcomeOK {
			want = Half
			ok++
		}
		if a.Scores[i].Value != want {
			t.Errorf("%s: score %v, want %v", c.text, a.Scores[i].Value, want)
		}
	}
	if len(j.cases) != ok {
		t.Fatalf("the judge saw %d cases, want %d", len(j.cases), ok)
	}
	cited := j.cases[0].Answer.Citations
	if len(cited) != 3 || cited[1] != nil || cited[0] == nil || cited[2] == nil || cited[0].Note != "[slice 0:100]\n"+longPage[:100] {
		t.Errorf("citations %+v", cited)
	}
	if string(j.cases[1].Contract) == "" || j.cases[1].Answer.Text != `{"year":1931}` || j.cases[0].Reference.Citations[1] != nil {
		t.Errorf("structured case %+v", j.cases[1])
	}
}

// A judge that cannot say costs nobody: a pair without a verdict counts for nobody.
func TestQueryUnscored(t *testing.T) {
	w := queryWorld(t, &asked{err: fmt.Errorf("down: %w", judge.ErrNoVerdict)})
	w.query("plain dict", "", 0)
	if a, _ := w.playQueries(queryScript); a.Fault == agon.FaultNone || a.Fault == agon.FaultAgent {
		t.Errorf("fault %q of a judge that is down", a.Fault)
	}
}

// Scripts of the other era are refused by name.
func TestQueryCheck(t *testing.T) {
	for src, code := range map[string]string{
		queryScript: "",
		"@entrypoint(\"evaluate_criterion\")\nasync def evaluate_criterion(request):\n    return {}\n": FindEra,
		"x = 1\n":                              FindNoEntry,
		"x = (\n":                              FindSyntax,
		strings.Repeat("#", MaxQueryBytes+1):   FindTooLarge,
		strings.Repeat("#\n", MaxQueryBytes/2): FindNoEntry,
	} {
		got := ""
		if f := CheckQuerySource([]byte(src)); len(f) > 0 {
			got = f[0].Code
		}
		if got != code {
			t.Errorf("%.30q: %q, want %q", src, got, code)
		}
	}
}

// The engine's rules hold of this kind too.
func TestQueryConformance(t *testing.T) {
	w := queryWorld(t, &asked{wins: 2})
	w.query("plain dict", "", 0)
	w.query("exec", "", 0)
	digest := w.trees.Add(w.t, map[string]string{AgentFile: queryScript})
	code := func(s string) fs.FS { return fstest.MapFS{AgentFile: {Data: []byte(s)}} }
	kindtest.Run(t, kindtest.Case{
		Kind: w.player.Kinds[QueryName], Trees: w.trees, Tools: w.player.Tools,
		Arena:      agon.Arena{ID: "a", Kind: QueryName, Tasks: w.refs, Policy: policy()},
		Submission: agon.Submission{ID: "s", Arena: "a", Digest: digest},
		Good:       code(queryScript),
		Bad:        []fs.FS{fstest.MapFS{}, code("x = ("), code("\xff"), code(""), fstest.MapFS{AgentFile: {Data: []byte(queryScript)}, "b.py": {Data: []byte("x")}}},
		Behave: func(_ context.Context, _ *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
			if cmd.Untrusted {
				_, _ = io.Copy(cmd.Stdout, strings.NewReader(`{"type":"ready"}`+"\n"))
			}
			return sandbox.Exit{}
		},
	})
}
