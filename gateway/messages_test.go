package gateway

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon/gateway/provider"
)

const (
	messagesTool  = `"tools":[{"name":"f","description":"does f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]`
	messagesHello = `{"model":"m","max_tokens":50,"system":"be brief","messages":[{"role":"user","content":[{"type":"text","text":"hello","cache_control":{"type":"ephemeral"}}]}],"metadata":{"user_id":"u"},` + messagesTool + `}`
)

var messagesCase = formCase{
	dialect: DialectAnthropic, path: messagesPath, ask: messagesHello,
	stream: strings.Replace(messagesHello, `"model"`, `"stream":true,"model"`, 1),
	chat: `{"model":"m","tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object"}}}],` +
		`"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello"}],"max_tokens":50}`,
	native: `{"model":"m","max_tokens":50,"system":"be brief","messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}],` +
		`"tools":[{"name":"f","description":"does f","input_schema":{"type":"object"}}]}`,
	nativePath: "/v1/messages", keyHeader: "X-Api-Key",
	answer: `{"content":[{"text":"hi","type":"text"},{"id":"c1","input":{"a":1},"name":"f","type":"tool_use"}],"id":"msg_ID","model":"m","role":"assistant",` +
		`"stop_reason":"tool_use","stop_sequence":null,"type":"message","usage":{"input_tokens":10,"output_tokens":5}}`,
	events: `event: message_start
data: {"message":{"content":[],"id":"msg_ID","model":"m","role":"assistant","stop_reason":null,"stop_sequence":null,"type":"message","usage":{"input_tokens":0,"output_tokens":0}},"type":"message_start"}

event: content_block_start
data: {"content_block":{"text":"","type":"text"},"index":0,"type":"content_block_start"}

event: content_block_delta
data: {"delta":{"text":"h","type":"text_delta"},"index":0,"type":"content_block_delta"}

event: content_block_delta
data: {"delta":{"text":"i","type":"text_delta"},"index":0,"type":"content_block_delta"}

event: content_block_stop
data: {"index":0,"type":"content_block_stop"}

event: content_block_start
data: {"content_block":{"id":"c1","input":{},"name":"f","type":"tool_use"},"index":1,"type":"content_block_start"}

event: content_block_delta
data: {"delta":{"partial_json":"{\"a\"","type":"input_json_delta"},"index":1,"type":"content_block_delta"}

event: content_block_delta
data: {"delta":{"partial_json":":1}","type":"input_json_delta"},"index":1,"type":"content_block_delta"}

event: content_block_stop
data: {"index":1,"type":"content_block_stop"}

event: message_delta
data: {"delta":{"stop_reason":"tool_use","stop_sequence":null},"type":"message_delta","usage":{"input_tokens":10,"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

`,
	nativeAnswer: `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"c1","name":"f","input":{"a":1}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"output_tokens":5}}`,
	nativeEvents: `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"f","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

`,
	broken: `{"model":"m","max_tokens":50}`, tooMuch: `"type":"rate_limit_error"`,
}

func TestMessages(t *testing.T) { checkForm(t, messagesCase) }

// messagesTurns is a conversation with everything that the form has.
const messagesTurns = `{"model":"m","max_tokens":9,"temperature":0.5,"top_p":0.9,"top_k":3,"stop_sequences":["x"],"thinking":{"type":"enabled","budget_tokens":1024},
"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}},
"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],
"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},` + messagesTool + `,
"messages":[{"role":"user","content":"q"},
{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"I "},{"type":"text","text":"look"},{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},
{"role":"user","content":[{"type":"text","text":"and"},{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"4"},{"type":"text","text":"2"}]}]}]}`

func TestMessagesTurns(t *testing.T) {
	q, err := parseMessages([]byte(messagesTurns), nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `"temperature":0.5,"top_p":0.9,"stop":["x"],"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}},` +
		`"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object"}}}],` +
		`"messages":[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"q"},` +
		`{"role":"assistant","content":"I look","tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},` +
		`{"role":"tool","tool_call_id":"t1","content":"42"},{"role":"user","content":"and"}]`
	if got := string(q.fields); got != want || q.Limit != 9 {
		t.Errorf(" got %s\nwant %s", got, want)
	}
	// A native upstream gets the thoughts back that it signed.
	if got := string(messagesForm.fields(q.raw, nil)); !strings.Contains(got, `{"type":"thinking","thinking":"hm","signature":"s"}`) || !strings.Contains(got, `"top_k":3`) {
		t.Errorf("native: %s", got)
	}
	if got := string(messagesForm.fields(q.raw, FieldRules{"sampling": "strip"})); strings.Contains(got, "top_k") || strings.Contains(got, "temperature") {
		t.Errorf("native keeps what is stripped: %s", got)
	}
	if _, err := parseMessages([]byte(messagesTurns), FieldRules{"sampling": "refuse"}); err == nil {
		t.Error("sampling is not refused")
	}
}

func TestMessagesRefusals(t *testing.T) {
	base := func(more string) string {
		return `{"model":"m","max_tokens":9,` + more + `}`
	}
	hi := `"messages":[{"role":"user","content":"hi"}]`
	for name, c := range map[string]struct{ body, field string }{
		"image":        {base(`"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"http://a"}}]}]`), "messages[0].content[0].type"},
		"server tool":  {base(hi + `,"tools":[{"type":"web_search_20250305","name":"web_search"}]`), "tools[0].type"},
		"mcp":          {base(hi + `,"mcp_servers":[]`), "mcp_servers"},
		"container":    {base(hi + `,"container":"c"`), "container"},
		"tier":         {base(hi + `,"service_tier":"auto"`), "service_tier"},
		"no limit":     {`{"model":"m",` + hi + `}`, "max_tokens"},
		"limit":        {`{"model":"m","max_tokens":0,` + hi + `}`, "max_tokens"},
		"role":         {base(`"messages":[{"role":"tool","content":"x"}]`), "messages[0].role"},
		"result":       {base(`"messages":[{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"x"}]}]`), "messages[0].content[0].type"},
		"call":         {base(`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":"{}"}]}]`), "messages[0].content[0]"},
		"many":         {base(`"messages":[` + strings.Repeat(`{"role":"user","content":"x"},`, maxMessages) + `{"role":"user","content":"x"}]`), "messages"},
		"choice":       {base(hi + `,"tool_choice":"auto"`), "tool_choice.type"},
		"no schema":    {base(hi + `,"tools":[{"name":"f"}]`), "tools[0]"},
		"system":       {base(hi + `,"system":[{"type":"text","text":1}]`), "system[0].text"},
		"output":       {base(hi + `,"output_config":{"format":{"type":"text"}}`), "output_config.format"},
		"stop":         {base(hi + `,"stop_sequences":[1]`), "stop_sequences"},
		"temperature":  {base(hi + `,"temperature":"hot"`), "temperature"},
		"stream":       {base(hi + `,"stream":1`), "stream"},
		"description":  {base(hi + `,"tools":[{"name":"f","description":1,"input_schema":{}}]`), "tools[0].function.description"},
		"result parts": {base(`"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"image"}]}]}]`), "messages[0].content[0].content[0].type"},
	} {
		_, err := parseMessages([]byte(c.body), nil)
		fe, ok := err.(*fieldError)
		if !ok || fe.field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The same may be stripped where the policy says so.
	q, err := parseMessages([]byte(base(`"tools":[{"type":"web_search_20250305","name":"w"}],"mcp_servers":[],"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image"}]}]`)),
		FieldRules{"media": "strip", "provider_tools": "strip"})
	if err != nil || string(q.fields) != `"messages":[{"role":"user","content":"x"}]` || string(messagesForm.fields(q.raw, nil)) != `"tools":[],"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]` {
		t.Errorf("stripped: %v %s %s", err, q.fields, messagesForm.fields(q.raw, nil))
	}
}

func TestMessagesCount(t *testing.T) {
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(chatCalls))}})
	s := open(t, g, formPolicy(messagesCase), nil)
	got := post(t, s, messagesPath+"/count_tokens", `{"model":"m","messages":[{"role":"user","content":"hello"}]}`)
	if got.status != 200 || !strings.HasPrefix(got.body, `{"input_tokens":1`) || len(s.Receipts()) != 0 || s.Spent() != 0 {
		t.Errorf("%d %s %v", got.status, got.body, s.Receipts())
	}
	if got := post(t, s, messagesPath+"/count_tokens", `{"model":"other","messages":[{"role":"user","content":"hello"}]}`); got.status != 404 || !strings.Contains(got.body, "not_found_error") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func FuzzMessages(f *testing.F) {
	fuzzForm(f, &messagesForm, parseMessages, messagesHello, messagesTurns, messagesCase.nativeAnswer, strings.ReplaceAll(messagesCase.nativeEvents, "data: ", ""))
}
