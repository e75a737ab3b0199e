package gateway

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon/gateway/provider"
)

const (
	googleTool  = `"tools":[{"functionDeclarations":[{"name":"f","description":"does f","parameters":{"type":"OBJECT"}}]}]`
	googleHello = `{"systemInstruction":{"parts":[{"text":"be brief"}],"role":"user"},"contents":[{"role":"user","parts":[{"text":"hello"}]}],"generationConfig":{"maxOutputTokens":50},"safetySettings":[],` + googleTool + `}`
)

var googleCase = formCase{
	dialect: DialectGoogle, path: "/v1beta/models/m:generateContent", ask: googleHello, stream: googleHello, streamPath: "/v1beta/models/m:streamGenerateContent?alt=sse",
	chat: `{"model":"m","tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object"}}}],` +
		`"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello"}],"max_tokens":50}`,
	native: `{"systemInstruction":{"parts":[{"text":"be brief"}],"role":"user"},"contents":[{"role":"user","parts":[{"text":"hello"}]}],` + googleTool +
		`,"generationConfig":{"candidateCount":1,"maxOutputTokens":50}}`,
	nativePath: "/v1/models/m:generateContent", keyHeader: "X-Goog-Api-Key",
	answer: `{"candidates":[{"content":{"parts":[{"text":"hi"},{"functionCall":{"args":{"a":1},"id":"c1","name":"f"}}],"role":"model"},"finishReason":"STOP","index":0}],` +
		`"modelVersion":"m","responseId":"ID","usageMetadata":{"candidatesTokenCount":5,"promptTokenCount":10,"totalTokenCount":15}}`,
	events: `data: {"candidates":[{"content":{"parts":[{"text":"h"}],"role":"model"},"index":0}],"modelVersion":"m","responseId":"ID"}` + "\r\n\r\n" +
		`data: {"candidates":[{"content":{"parts":[{"text":"i"}],"role":"model"},"index":0}],"modelVersion":"m","responseId":"ID"}` + "\r\n\r\n" +
		`data: {"candidates":[{"content":{"parts":[{"functionCall":{"args":{"a":1},"id":"c1","name":"f"}}],"role":"model"},"finishReason":"STOP","index":0}],` +
		`"modelVersion":"m","responseId":"ID","usageMetadata":{"candidatesTokenCount":5,"promptTokenCount":10,"totalTokenCount":15}}` + "\r\n\r\n",
	nativeAnswer: `{"candidates":[{"content":{"parts":[{"text":"hi"},{"functionCall":{"id":"c1","name":"f","args":{"a":1}}}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":8,"toolUsePromptTokenCount":2,"candidatesTokenCount":3,"thoughtsTokenCount":2}}`,
	nativeEvents: `data: {"candidates":[{"content":{"parts":[{"text":"h"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":10}}` + "\r\n\r\n" +
		`data: {"candidates":[{"content":{"parts":[{"text":"i"},{"functionCall":{"id":"c1","name":"f","args":{"a":1}}}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5}}` + "\r\n\r\n",
	broken: `{"generationConfig":{}}`, tooMuch: "RESOURCE_EXHAUSTED",
}

func TestGoogle(t *testing.T) { checkForm(t, googleCase) }

func parseGoogleOf(raw []byte, rules FieldRules) (*Request, error) {
	return parseGoogle(raw, rules, "m", false)
}

// googleTurns is a conversation with everything that the form has, in both spellings.
const googleTurns = `{"system_instruction":{"parts":[{"text":"a"},{"text":"b"}]},"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}},
"generationConfig":{"temperature":0.5,"topP":0.9,"topK":3,"maxOutputTokens":9,"stopSequences":["x"],"seed":4,"candidateCount":1,"responseMimeType":"application/json",
"responseSchema":{"type":"OBJECT","properties":{"type":{"type":"STRING"}}},"thinkingConfig":{"thinkingBudget":5}},` + googleTool + `,
"contents":[{"parts":[{"text":"q"}]},
{"role":"model","parts":[{"text":"hm","thought":true},{"text":"I look"},{"functionCall":{"name":"f","args":{"a_b":1}},"thoughtSignature":"s"}]},
{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"a_b":42}}},{"text":"and"}]}]}`

func TestGoogleTurns(t *testing.T) {
	q, err := parseGoogleOf([]byte(googleTurns), nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `"temperature":0.5,"top_p":0.9,"stop":["x"],"seed":4,"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","properties":{"type":{"type":"string"}}}}},` +
		`"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object"}}}],"tool_choice":{"type":"function","function":{"name":"f"}},` +
		`"messages":[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"q"},` +
		`{"role":"assistant","content":"I look","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a_b\":1}"}}]},` +
		`{"role":"tool","tool_call_id":"call_1","content":"{\"a_b\":42}"},{"role":"user","content":"and"}]`
	if got := string(q.fields); got != want || q.Limit != 9 {
		t.Errorf(" got %s\nwant %s", got, want)
	}
	if got := string(googleForm.fields(q.raw, nil)); !strings.Contains(got, `"thoughtSignature":"s"`) || !strings.Contains(got, `"topK":3`) || !strings.Contains(got, `"systemInstruction"`) {
		t.Errorf("native: %s", got)
	}
	if got := string(googleForm.fields(q.raw, FieldRules{"sampling": "strip"})); strings.Contains(got, "topK") || strings.Contains(got, "temperature") {
		t.Errorf("native keeps what is stripped: %s", got)
	}
	if _, err := parseGoogleOf([]byte(googleTurns), FieldRules{"sampling": "refuse"}); err == nil {
		t.Error("sampling is not refused")
	}
}

func TestGoogleRefusals(t *testing.T) {
	base := func(more string) string { return `{"contents":[{"parts":[{"text":"hi"}]}],` + more + `}` }
	for name, c := range map[string]struct{ body, field string }{
		"image":      {`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":""}}]}]}`, "contents[0].parts[0]"},
		"file":       {`{"contents":[{"parts":[{"fileData":{"fileUri":"http://a"}}]}]}`, "contents[0].parts[0]"},
		"search":     {base(`"tools":[{"googleSearch":{}}]`), "tools[0].googleSearch"},
		"code":       {base(`"tools":[{"code_execution":{}}]`), "tools[0].codeExecution"},
		"cache":      {base(`"cachedContent":"x"`), "cachedContent"},
		"candidates": {base(`"generationConfig":{"candidateCount":2}`), "generationConfig.candidateCount"},
		"limit":      {base(`"generationConfig":{"maxOutputTokens":0}`), "generationConfig.maxOutputTokens"},
		"audio":      {base(`"generationConfig":{"responseModalities":["AUDIO"]}`), "generationConfig.responseModalities"},
		"stop":       {base(`"generationConfig":{"stopSequences":[1]}`), "generationConfig.stopSequences"},
		"heat":       {base(`"generationConfig":{"temperature":"hot"}`), "generationConfig.temperature"},
		"mode":       {base(`"toolConfig":{"functionCallingConfig":{"mode":"SOME"}}`), "toolConfig.functionCallingConfig.mode"},
		"role":       {`{"contents":[{"role":"tool","parts":[]}]}`, "contents[0].role"},
		"parts":      {`{"contents":[{"role":"user"}]}`, "contents[0].parts"},
		"call":       {`{"contents":[{"role":"model","parts":[{"functionCall":{"args":{}}}]}]}`, "contents[0].parts[0].functionCall"},
		"system":     {base(`"systemInstruction":{"parts":[{"inlineData":{}}]}`), "systemInstruction.parts[0]"},
		"tool":       {base(`"tools":[{"functionDeclarations":[{"parameters":{}}]}]`), "tools[0].functionDeclarations[0]"},
	} {
		_, err := parseGoogleOf([]byte(c.body), nil)
		fe, ok := err.(*fieldError)
		if !ok || fe.field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGoogleCount(t *testing.T) {
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(chatCalls))}})
	s := open(t, g, formPolicy(googleCase), nil)
	for _, body := range []string{`{"contents":[{"parts":[{"text":"hello"}]}]}`, `{"generateContentRequest":{"model":"models/m","contents":[{"parts":[{"text":"hello"}]}]}}`} {
		got := post(t, s, "/v1beta/models/m:countTokens", body)
		if got.status != 200 || !strings.HasPrefix(got.body, `{"totalTokens":1`) || len(s.Receipts()) != 0 || s.Spent() != 0 {
			t.Errorf("%d %s %v", got.status, got.body, s.Receipts())
		}
	}
	if got := post(t, s, "/v1beta/models/other:generateContent", `{"contents":[{"parts":[{"text":"hello"}]}]}`); got.status != 404 || !strings.Contains(got.body, "NOT_FOUND") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := post(t, s, "/v1beta/models/m:streamGenerateContent", googleHello); got.status != 400 || !strings.Contains(got.body, "alt=sse") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func FuzzGoogle(f *testing.F) {
	fuzzForm(f, &googleForm, parseGoogleOf, googleHello, googleTurns, googleCase.nativeAnswer, strings.ReplaceAll(googleCase.nativeEvents, "data: ", ""))
}
