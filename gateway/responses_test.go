package gateway

import (
	"fmt"
	"strings"
	"testing"
)

const (
	responsesTool  = `"tools":[{"type":"function","name":"f","description":"does f","parameters":{"type":"object"},"strict":false}]`
	responsesHello = `{"model":"m","max_output_tokens":50,"instructions":"be brief","input":[{"role":"user","content":[{"type":"input_text","text":"hello"}]}],"store":false,"user":"u",` + responsesTool + `}`
	responsesRest  = `"error":null,"id":"resp_ID","incomplete_details":null,"instructions":null,"max_output_tokens":null,"metadata":{},"model":"m","object":"response","output":%s,` +
		`"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"status":%q,"store":false,"temperature":null,"text":{"format":{"type":"text"}},` +
		`"tool_choice":"auto","tools":[],"top_p":null,"truncation":"disabled","usage":%s}`
	responsesTokens = `{"input_tokens":10,"input_tokens_details":{"cached_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":15}`
	responsesItem0  = `{"content":[{"annotations":[],"logprobs":[],"text":"hi","type":"output_text"}],"id":"msg_ID","role":"assistant","status":"completed","type":"message"}`
	responsesItem1  = `{"arguments":"{\"a\":1}","call_id":"c1","id":"fc_ID_0","name":"f","status":"completed","type":"function_call"}`
)

// responseWith is a whole response as the gateway writes it.
func responseWith(output, status, usage string) string {
	return `{"created_at":0,` + fmt.Sprintf(responsesRest, output, status, usage)
}

// responseEvents writes events: a type and the members before and after it, which are sorted.
func responseEvents(list ...[2]string) string {
	var b strings.Builder
	for i, e := range list {
		data := strings.Replace(e[1], "SEQ", fmt.Sprint(i), 1)
		fmt.Fprintf(&b, "event: %s\ndata: {%s,\"type\":%q}\n\n", e[0], data, e[0])
	}
	return b.String()
}

var responsesCase = formCase{
	dialect: DialectResponses, path: responsesPath, ask: responsesHello,
	stream: strings.Replace(responsesHello, `"model"`, `"stream":true,"model"`, 1),
	chat: `{"model":"m","tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object"}}}],` +
		`"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello"}],"max_tokens":50}`,
	native: `{"model":"m","max_output_tokens":50,"store":false,"instructions":"be brief","input":[{"role":"user","content":[{"type":"input_text","text":"hello"}]}],` + responsesTool + `}`,

	nativePath: "/v1/responses", keyHeader: "Authorization",
	answer: responseWith("["+responsesItem0+","+responsesItem1+"]", "completed", responsesTokens),
	events: responseEvents(
		[2]string{"response.created", `"response":` + responseWith("[]", "in_progress", "null") + `,"sequence_number":SEQ`},
		[2]string{"response.in_progress", `"response":` + responseWith("[]", "in_progress", "null") + `,"sequence_number":SEQ`},
		[2]string{"response.output_item.added", `"item":{"content":[],"id":"msg_ID","role":"assistant","status":"in_progress","type":"message"},"output_index":0,"sequence_number":SEQ`},
		[2]string{"response.content_part.added", `"content_index":0,"item_id":"msg_ID","output_index":0,"part":{"annotations":[],"logprobs":[],"text":"","type":"output_text"},"sequence_number":SEQ`},
		[2]string{"response.output_text.delta", `"content_index":0,"delta":"h","item_id":"msg_ID","logprobs":[],"output_index":0,"sequence_number":SEQ`},
		[2]string{"response.output_text.delta", `"content_index":0,"delta":"i","item_id":"msg_ID","logprobs":[],"output_index":0,"sequence_number":SEQ`},
		[2]string{"response.output_item.added", `"item":{"arguments":"","call_id":"c1","id":"fc_ID_0","name":"f","status":"in_progress","type":"function_call"},"output_index":1,"sequence_number":SEQ`},
		[2]string{"response.function_call_arguments.delta", `"delta":"{\"a\"","item_id":"fc_ID_0","output_index":1,"sequence_number":SEQ`},
		[2]string{"response.function_call_arguments.delta", `"delta":":1}","item_id":"fc_ID_0","output_index":1,"sequence_number":SEQ`},
		[2]string{"response.output_text.done", `"content_index":0,"item_id":"msg_ID","logprobs":[],"output_index":0,"sequence_number":SEQ,"text":"hi"`},
		[2]string{"response.content_part.done", `"content_index":0,"item_id":"msg_ID","output_index":0,"part":{"annotations":[],"logprobs":[],"text":"hi","type":"output_text"},"sequence_number":SEQ`},
		[2]string{"response.output_item.done", `"item":` + responsesItem0 + `,"output_index":0,"sequence_number":SEQ`},
		[2]string{"response.function_call_arguments.done", `"arguments":"{\"a\":1}","item_id":"fc_ID_0","name":"f","output_index":1,"sequence_number":SEQ`},
		[2]string{"response.output_item.done", `"item":` + responsesItem1 + `,"output_index":1,"sequence_number":SEQ`},
		[2]string{"response.completed", `"response":` + responseWith("["+responsesItem0+","+responsesItem1+"]", "completed", responsesTokens) + `,"sequence_number":SEQ`},
	),
	nativeAnswer: `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]},{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\":1}","status":"completed"}],"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15}}`,
	nativeEvents: responseEvents(
		[2]string{"response.created", `"sequence_number":SEQ,"response":{"id":"resp_1","status":"in_progress","output":[]}`},
		[2]string{"response.output_item.added", `"sequence_number":SEQ,"output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}`},
		[2]string{"response.output_text.delta", `"sequence_number":SEQ,"output_index":0,"item_id":"msg_1","delta":"hi"`},
		[2]string{"response.output_item.added", `"sequence_number":SEQ,"output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":""}`},
		[2]string{"response.function_call_arguments.delta", `"sequence_number":SEQ,"output_index":1,"item_id":"fc_1","delta":"{\"a\":1}"`},
		[2]string{"response.completed", `"sequence_number":SEQ,"response":{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":10,"output_tokens":5}}`},
	),
	broken: `{"model":"m"}`, tooMuch: `"code":"budget_exceeded"`,
}

func TestResponses(t *testing.T) { checkForm(t, responsesCase) }

const responsesTurns = `{"model":"m","input":[{"type":"message","role":"developer","content":"a"},{"role":"user","content":"q"},
{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"zzz"},
{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I ","annotations":[]},{"type":"output_text","text":"look"}]},
{"type":"function_call","id":"fc_1","call_id":"t1","name":"f","arguments":"{\"a\":1}"},{"type":"function_call","call_id":"t2","name":"f","arguments":"{}"},
{"type":"function_call_output","call_id":"t1","output":"42"},{"type":"function_call_output","call_id":"t2","output":[{"type":"input_text","text":"4"},{"type":"input_text","text":"3"}]}],
"temperature":1,"reasoning":{"effort":"low"},"include":["reasoning.encrypted_content","web_search_call.results"],"prompt_cache_key":"k","text":{"format":{"type":"json_schema","name":"n","schema":{},"strict":true},"verbosity":"low"},
"tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false,` + responsesTool + `}`

func TestResponsesTurns(t *testing.T) {
	q, err := parseResponses([]byte(responsesTurns), nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `"temperature":1,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{},"strict":true}},"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,` +
		`"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object"}}}],` +
		`"messages":[{"role":"developer","content":"a"},{"role":"user","content":"q"},{"role":"assistant","content":"I look","tool_calls":[` +
		`{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"t2","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"t1","content":"42"},{"role":"tool","tool_call_id":"t2","content":"43"}]`
	if got := string(q.fields); got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
	native := string(responsesForm.fields(q.raw, nil))
	for _, keep := range []string{`"encrypted_content":"zzz"`, `"include":["reasoning.encrypted_content"]`, `"reasoning":{"effort":"low"}`, `"verbosity":"low"`} {
		if !strings.Contains(native, keep) {
			t.Errorf("native lacks %s: %s", keep, native)
		}
	}
	for _, drop := range []string{"prompt_cache_key", "web_search"} {
		if strings.Contains(native, drop) {
			t.Errorf("native keeps %s: %s", drop, native)
		}
	}
}

func TestResponsesRefusals(t *testing.T) {
	for name, c := range map[string]struct{ body, field string }{
		"kept":        {`{"input":"x","store":true}`, "store"},
		"behind":      {`{"input":"x","background":true}`, "background"},
		"previous":    {`{"input":"x","previous_response_id":"r"}`, "previous_response_id"},
		"prompt":      {`{"input":"x","prompt":{"id":"p"}}`, "prompt"},
		"reference":   {`{"input":[{"type":"item_reference","id":"i"}]}`, "input[0].type"},
		"tool":        {`{"input":"x","tools":[{"type":"web_search"}]}`, "tools[0].type"},
		"item":        {`{"input":[{"type":"computer_call"}]}`, "input[0].type"},
		"image":       {`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"http://a"}]}]}`, "input[0].content[0].type"},
		"role":        {`{"input":[{"role":"tool","content":"x"}]}`, "input[0].role"},
		"content":     {`{"input":[{"role":"user"}]}`, "input[0].content"},
		"nothing":     {`{"input":[]}`, "input"},
		"no words":    {`{"input":[{"type":"reasoning","id":"r"}]}`, "input"},
		"call":        {`{"input":[{"type":"function_call","call_id":"c","name":"f"}]}`, "input[0]"},
		"output":      {`{"input":[{"type":"function_call_output","output":"c"}]}`, "input[0].call_id"},
		"choice":      {`{"input":"x","tool_choice":{"type":"file_search"}}`, "tool_choice"},
		"limit":       {`{"input":"x","max_output_tokens":0}`, "max_output_tokens"},
		"format":      {`{"input":"x","text":{"format":{"type":"json_schema"}}}`, "text.format"},
		"instruction": {`{"input":"x","instructions":1}`, "instructions"},
	} {
		_, err := parseResponses([]byte(c.body), nil)
		fe, ok := err.(*fieldError)
		if !ok || fe.field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What ends early says so in this form too.
func TestResponsesIncomplete(t *testing.T) {
	w, ok := responsesForm.parse([]byte(`{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`))
	if m, _ := w.message(); !ok || m.Finish != "length" {
		t.Errorf("%+v %v", m, ok)
	}
	if _, ok := responsesForm.parse([]byte(`{"status":"failed","output":[]}`)); ok {
		t.Error("a failed response is an answer")
	}
	b, ok := responsesReply(Reply{Message: &Message{Content: "x", Finish: "length"}})
	if !ok || !strings.Contains(string(b), `"incomplete_details":{"reason":"max_output_tokens"}`) || !strings.Contains(string(b), `"status":"incomplete"`) {
		t.Errorf("%s", b)
	}
}

func FuzzResponses(f *testing.F) {
	fuzzForm(f, &responsesForm, parseResponses, responsesHello, responsesTurns, responsesCase.nativeAnswer, strings.ReplaceAll(responsesCase.nativeEvents, "data: ", ""))
}
