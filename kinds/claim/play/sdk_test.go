package play

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// What the modules that scripts import send for each tool, byte for byte.
func TestSDKWire(t *testing.T) {
	var mu sync.Mutex
	var got []string
	var headers []http.Header
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		got, headers = append(got, string(b)), append(headers, r.Header)
		mu.Unlock()
		switch {
		case strings.Contains(string(b), "refuse"):
			w.WriteHeader(http.StatusUnprocessableEntity)
			io.WriteString(w, `{"detail":[{"loc":["header"],"msg":"bad","n":1}]}`)
		case strings.Contains(string(b), "chunked"):
			w.(http.Flusher).Flush()
			io.WriteString(w, `{"receipt_id":"r","results":[],`)
			w.(http.Flusher).Flush()
			io.WriteString(w, `"response":{"ok":true}}`)
		default:
			io.WriteString(w, `{"receipt_id":"r","response":{"choices":[{"message":{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]},"results":[{"index":0,"result_id":"x","url":"u","note":null}],"result_policy":"referenceable","cost_usd":0.1,"usage":null,"budget":{"session_budget_usd":1.0}}`)
		}
	}))
	defer host.Close()
	const script = `
import caster_miner_sdk
import harnyx_miner_sdk
from caster_miner_sdk import api
from caster_miner_sdk.api import (get_repo_file, llm_chat, search_ai, search_items, search_repo, search_web, search_x, test_tool, tooling_info)
from caster_miner_sdk.criterion_evaluation import CriterionEvaluationRequest, CriterionEvaluationResponse, VerdictOption
from caster_miner_sdk.decorators import entrypoint
from caster_miner_sdk.json_types import JsonObject
from caster_miner_sdk.llm import parse_json_reply
from caster_miner_sdk.tools import ToolInvocationError

@entrypoint("evaluate_criterion")
async def evaluate(request: JsonObject):
    r = CriterionEvaluationRequest.model_validate(request)
    assert r.verdict_options[1] == VerdictOption(value=1, description="Pass")
    try:
        CriterionEvaluationRequest.model_validate(dict(request, verdict_options=[{"value": 0, "description": "a"}, {"value": 1, "description": "b"}])).verdict_options_domain()
        raise SystemExit("a bad scale was let in")
    except ValueError:
        pass
    await test_tool("hello")
    await tooling_info()
    found = await search_web("q", num=2)
    assert found.results[0].url == "u" and found["results"][0]["result_id"] == "x" and found.results[0].title is None
    await search_x("q", count=3, sort="Latest")
    await search_ai("p", tools=["web"], count=10)
    await search_repo(repo_url="https://g/r", commit_sha="a" * 40, query="q")
    await get_repo_file(repo_url="https://g/r", commit_sha="a" * 40, path="p", start_line=1)
    await search_items(feed_id="f", enqueue_seq=3, search_queries=["a"], num_hit=5)
    said = await llm_chat(model="m", messages=[{"role": "user", "content": "é"}], temperature=None)
    assert said.response.raw_text == "ab" and said.llm.choices[0].message.content[0].text == "a"
    await harnyx_miner_sdk.api.test_tool("hello", timeout=3.0)
    await harnyx_miner_sdk.api.llm_chat(provider="chutes", model="m", messages=[], temperature=None)
    assert (await test_tool("chunked")).response.ok is True
    fence = chr(96) * 3
    assert parse_json_reply(fence + "json\n{\"a\": 1}\n" + fence) == {"a": 1} and parse_json_reply("[2]") == [2]
    try:
        await search_web("refuse")
    except ToolInvocationError as e:
        return CriterionEvaluationResponse(verdict=1, justification=str(e), citations=[{"receipt_id": "r", "result_id": "x"}])
`
	u := serve(t, script, false, nil)
	status, answer := post(t, u+"/entry/evaluate_criterion", `{"payload":{"claim_text":"c","rubric_title":"t","rubric_description":"d","verdict_options":[{"value":-1,"description":"Fail"},{"value":1,"description":"Pass"}]},"context":{}}`,
		map[string]string{"x-caster-token": "tok", "x-caster-session-id": "5416d1c7-6442-4571-b9b5-179115902c3a", "x-caster-host-container-url": host.URL})
	want := `{"ok":true,"result":{"verdict":1,"justification":"tool invocation failed with 422: [{'loc': ['header'], 'msg': 'bad', 'n': 1}]","citations":[{"receipt_id":"r","result_id":"x"}]}}`
	if status != 200 || answer != want {
		t.Errorf("%d %s", status, answer)
	}
	sha := strings.Repeat("a", 40)
	bodies := []string{
		`{"tool":"test_tool","args":["hello"],"kwargs":{}}`,
		`{"tool":"tooling_info","args":[],"kwargs":{}}`,
		`{"tool":"search_web","args":[],"kwargs":{"query":"q","num":2}}`,
		`{"tool":"search_x","args":[],"kwargs":{"query":"q","count":3,"sort":"Latest"}}`,
		`{"tool":"search_ai","args":[],"kwargs":{"prompt":"p","tools":["web"],"count":10}}`,
		`{"tool":"search_repo","args":[],"kwargs":{"repo_url":"https://g/r","commit_sha":"` + sha + `","query":"q"}}`,
		`{"tool":"get_repo_file","args":[],"kwargs":{"repo_url":"https://g/r","commit_sha":"` + sha + `","path":"p","start_line":1}}`,
		`{"tool":"search_items","args":[],"kwargs":{"feed_id":"f","enqueue_seq":3,"search_queries":["a"],"num_hit":5}}`,
		`{"tool":"llm_chat","args":[],"kwargs":{"model":"m","messages":[{"role":"user","content":"\u00e9"}],"temperature":null}}`,
		`{"tool":"test_tool","args":["hello"],"kwargs":{"timeout":3.0}}`,
		`{"tool":"llm_chat","args":[],"kwargs":{"provider":"chutes","model":"m","messages":[]}}`,
		`{"tool":"test_tool","args":["chunked"],"kwargs":{}}`,
		`{"tool":"search_web","args":[],"kwargs":{"query":"refuse"}}`,
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != len(bodies) {
		t.Fatalf("%d calls, want %d: %q", len(got), len(bodies), got)
	}
	for i := range bodies {
		if got[i] != bodies[i] {
			t.Errorf("call %d:\n%s want\n%s", i, got[i], bodies[i])
		}
		if headers[i].Get("X-Caster-Token") != "tok" || headers[i].Get("X-Caster-Session-Id") != "5416d1c7-6442-4571-b9b5-179115902c3a" {
			t.Errorf("call %d: headers %v", i, headers[i])
		}
	}
}
