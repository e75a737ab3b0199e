package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
)

type embedder struct {
	chat
	vectors string
	sent    map[string]json.RawMessage
}

func (e *embedder) Embed(_ context.Context, _ string, body map[string]json.RawMessage) ([]byte, error) {
	e.sent = body
	return []byte(e.vectors), nil
}

func querySession(t *testing.T, llm tools.LLM, c tools.SessionConfig) (*tools.Host, *tools.Session) {
	t.Helper()
	docs, err := index.Load(fstest.MapFS{
		"a.md": {Data: []byte("url: https://a.example/1\ntitle: Bridge\n\nThe bridge at Olm opened in May.")},
		"b.md": {Data: []byte("url: https://a.example/2\n\nThe harbour at Olm froze.")},
	}, "docs", nil)
	if err != nil {
		t.Fatal(err)
	}
	h := tools.New(tools.Config{LLM: llm, Search: docs})
	c.Query = &tools.QueryTools{}
	return h, open(t, h, c)
}

const said = `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":1000}}`

// Every call names its provider, which decides the price; results can be cited.
func TestQueryCalls(t *testing.T) {
	llm := &embedder{chat: chat{reply: said}, vectors: `{"data":[{"index":1,"embedding":[0.5,0.5]},{"index":0,"embedding":[1,0]}],"usage":{"prompt_tokens":7,"total_tokens":7}}`}
	h, s := querySession(t, llm, tools.SessionConfig{Budget: 500_000})
	const call1 = `{"id":"c1","type":"function","name":"f","arguments":"{}"}`
	chatBody := func(more string) string {
		return `{"tool":"llm_chat","args":[],"kwargs":{"provider":"openrouter","model":"openai/GPT-oss-20b","messages":[{"role":"user","content":"q"}]` + more + `}}`
	}
	transcript := func(tail string) string {
		return `{"tool":"llm_chat","args":[],"kwargs":{"provider":"chutes","model":"zai-org/GLM-5.2-TEE","messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[` + call1 + `]}` + tail + `]}}`
	}
	for _, c := range []struct {
		name, body string
		status     int
		cost       float64
	}{
		{"one query", `{"tool":"search_web","args":[],"kwargs":{"provider":"desearch","search_queries":"bridge Olm"}}`, 200, .0002},
		{"two queries, parallel", `{"tool":"search_web","args":[],"kwargs":{"provider":"parallel","search_queries":["bridge","Olm"],"num":1}}`, 200, .005},
		{"parallel turbo", `{"tool":"search_web","args":[],"kwargs":{"provider":"parallel","search_queries":["bridge"],"provider_extra":{"mode":"turbo"}}}`, 200, .001},
		{"no provider", `{"tool":"search_web","args":[],"kwargs":{"search_queries":["bridge"]}}`, 400, 0},
		{"the older form", `{"tool":"search_web","args":[],"kwargs":{"query":"bridge"}}`, 400, 0},
		{"a blank query", `{"tool":"search_web","args":[],"kwargs":{"provider":"exa","search_queries":[" "]}}`, 400, 0},
		{"page", `{"tool":"fetch_page","args":[],"kwargs":{"provider":"exa","url":"https://a.example/1"}}`, 200, .0005},
		{"page that is not there", `{"tool":"fetch_page","args":[],"kwargs":{"provider":"exa","url":"https://a.example/9"}}`, 400, 0},
		{"embeddings", `{"tool":"embed_text","args":[],"kwargs":{"provider":"openrouter","model":"qwen/qwen3-embedding-8b","texts":["a","b"],"input_type":"query"}}`, 200, .000001},
		{"an instruction of documents", `{"tool":"embed_text","args":[],"kwargs":{"provider":"openrouter","model":"qwen/qwen3-embedding-8b","texts":["a","b"],"input_type":"document","instruction":"x"}}`, 400, 0},
		{"vectors of another length", `{"tool":"embed_text","args":[],"kwargs":{"provider":"openrouter","model":"qwen/qwen3-embedding-8b","texts":["a","b"],"input_type":"query","dimensions":64}}`, 400, 0},
		{"another provider's model", `{"tool":"embed_text","args":[],"kwargs":{"provider":"chutes","model":"qwen/qwen3-embedding-8b","texts":"a","input_type":"query"}}`, 400, 0},
		{"chat", chatBody(""), 200, .00017},
		{"chat, both limits", chatBody(`,"max_tokens":3,"max_output_tokens":3`), 400, 0},
		{"chat, unknown keyword", chatBody(`,"response_format":{}`), 400, 0},
		{"chat, choice of no tool", chatBody(`,"tool_choice":{"type":"function","function":{"name":"g"}}`), 400, 0},
		{"chat, budget and effort", chatBody(`,"thinking":{"enabled":true,"budget":3,"effort":"low"}`), 400, 0},
		{"transcript", transcript(`,{"role":"tool","tool_call_id":"c1","content":"42"}`), 200, .0058},
		{"transcript without the answer", transcript(``), 400, 0},
		{"transcript, something between", transcript(`,{"role":"user","content":"and?"},{"role":"tool","tool_call_id":"c1","content":"42"}`), 400, 0},
		{"transcript, answered twice", transcript(`,{"role":"tool","tool_call_id":"c1","content":"42"},{"role":"tool","tool_call_id":"c1","content":"42"}`), 400, 0},
		{"timeout true", `{"tool":"test_tool","args":["x"],"kwargs":{"timeout":true}}`, 400, 0},
		{"timeout 0", `{"tool":"test_tool","args":["x"],"kwargs":{"timeout":0}}`, 400, 0},
		{"timeout 3", `{"tool":"test_tool","args":["x"],"kwargs":{"timeout":3}}`, 200, 0},
		{"info", `{"tool":"tooling_info","args":[],"kwargs":{}}`, 200, 0},
		{"a tool of the older sessions", `{"tool":"search_x","args":[],"kwargs":{"query":"x"}}`, 422, 0},
	} {
		status, out := call(t, h, s, c.body)
		if status != c.status {
			t.Errorf("%s: status %d, want %d: %v", c.name, status, c.status, out)
			continue
		}
		if got, _ := out["cost_usd"].(float64); status == 200 && fmt.Sprintf("%.6f", got) != fmt.Sprintf("%.6f", c.cost) {
			t.Errorf("%s: cost %v, want %v", c.name, got, c.cost)
		}
	}
	var log []tools.Receipt
	for _, r := range s.Receipts() {
		if r.Tool == tools.FetchPage || r.Tool == tools.SearchWeb {
			log = append(log, r)
		}
	}
	if len(log) != 4 || log[3].Policy != tools.Referenceable || *log[3].Results[0].Note != "The bridge at Olm opened in May." {
		t.Errorf("receipts %+v", log)
	}
	if string(llm.sent["input"]) == `["a","b"]` {
		t.Error("a query is embedded without its instruction")
	}
	if sent := string(llm.body["messages"]); sent == "" {
		t.Error("nothing reached the model")
	}
}

// The call that uses up the budget fails and keeps its receipt; so does the session.
func TestQueryExhausted(t *testing.T) {
	h, s := querySession(t, nil, tools.SessionConfig{Budget: 500})
	const page = `{"tool":"fetch_page","args":[],"kwargs":{"provider":"exa","url":"https://a.example/1"}}`
	if status, out := call(t, h, s, page); status != 400 || out["detail"] != tools.TextFailed {
		t.Errorf("%d %v", status, out)
	}
	if s.Status() != tools.StatusExhausted || s.Spent() != 500 || len(s.Receipts()) != 1 {
		t.Errorf("status %s, spent %d, %d receipts", s.Status(), s.Spent(), len(s.Receipts()))
	}
	if status, _ := call(t, h, s, `{"tool":"test_tool","args":["x"],"kwargs":{}}`); status != 400 {
		t.Errorf("an exhausted session answers %d", status)
	}
}

// A call's own timeout ends it, and its receipt says so.
func TestQueryTimeout(t *testing.T) {
	slow := &stub{hold: make(chan struct{}), began: make(chan struct{}, 1)}
	h := tools.New(tools.Config{Search: slow})
	s := open(t, h, tools.SessionConfig{Budget: 100_000, Query: &tools.QueryTools{}})
	began := time.Now()
	status, _ := call(t, h, s, `{"tool":"search_web","args":[],"kwargs":{"provider":"exa","search_queries":"x","timeout":0.2}}`)
	if took := time.Since(began); status != 400 || took > 5*time.Second {
		t.Errorf("status %d after %s", status, took)
	}
	if log := s.Log(); len(log) != 1 || log[0].Outcome != tools.OutcomeTimeout {
		t.Errorf("%+v", log)
	}
}
