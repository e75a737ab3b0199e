package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agon-arena/agon/gateway/provider"
)

func TestParseChat(t *testing.T) {
	msg := `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct {
		name, in string
		want     string // what the upstream gets
		err      string
	}{
		{"least", `{"model":"m",` + msg + `}`, `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":9}`, ""},
		{"dropped", `{"model":"m",` + msg + `,"user":"u","logit_bias":{"1":2},"x":[{"y":1}]}`, `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":9}`, ""},
		{"tokens", `{"model":"m",` + msg + `,"logprobs":true,"top_logprobs":3,"return_token_ids":true}`, `{"model":"m","messages":[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":3,"return_token_ids":true,"max_tokens":9}`, ""},
		{"top_logprobs", `{"model":"m",` + msg + `,"top_logprobs":21}`, "", "top_logprobs"},
		{
			"all fields", `{"temperature":1,"top_p":0.5,"frequency_penalty":-1,"presence_penalty":0,"seed":7,"n":1,"stop":["a","b"],"parallel_tool_calls":false,"response_format":{"type":"json_object","x":1},` + msg + `,"stream":false,"max_tokens":null}`,
			`{"model":"m","temperature":1,"top_p":0.5,"frequency_penalty":-1,"presence_penalty":0,"seed":7,"stop":["a","b"],"parallel_tool_calls":false,"response_format":{"type":"json_object"},"messages":[{"role":"user","content":"x"}],"max_tokens":9}`, "",
		},
		{"stream", `{"stream":true,"stream_options":{"include_usage":false,"x":1},` + msg + `}`, `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":9,"stream":true,"stream_options":{"include_usage":true}}`, ""},
		{
			"tools", `{` + msg + `,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true,"x":1},"y":2}],"tool_choice":{"type":"function","function":{"name":"f"}}}`,
			`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}}],"tool_choice":{"type":"function","function":{"name":"f"}},"max_tokens":9}`, "",
		},
		{"no tools", `{` + msg + `,"tools":[],"tool_choice":"none"}`, `{"model":"m","messages":[{"role":"user","content":"x"}],"tool_choice":"none","max_tokens":9}`, ""},
		{
			"conversation", `{"messages":[{"role":"system","content":[{"type":"text","text":"a","cache_control":{}},{"type":"text","text":"b"}]},{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"1","index":0,"type":"function","function":{"name":"f","arguments":"{}","z":1}}]},{"role":"tool","tool_call_id":"1","name":"f","content":"\u00fc\n"},{"role":"assistant","content":"","tool_calls":[]}]}`,
			`{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","name":"f","content":"\u00fc\n"},{"role":"assistant","content":""}],"max_tokens":9}`, "",
		},
		{"schema", `{` + msg + `,"response_format":{"type":"json_schema","json_schema":{"name":"n"}}}`, `{"model":"m","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"n"}},"max_tokens":9}`, ""},

		{"array", `[]`, "", "not a JSON object"},
		{"no messages", `{"model":"m"}`, "", "messages"},
		{"empty messages", `{"messages":[]}`, "", "messages"},
		{"n", `{` + msg + `,"n":2}`, "", "n: only one"},
		{"model", `{` + msg + `,"model":7}`, "", "model"},
		{"long model", `{` + msg + `,"model":"` + strings.Repeat("m", 300) + `"}`, "", "model"},
		{"web search", `{` + msg + `,"web_search_options":{}}`, "", "web_search_options"},
		{"web search null", `{` + msg + `,"web_search_options":null}`, "", "web_search_options"},
		{"provider tool", `{` + msg + `,"tools":[{"type":"web_search"}]}`, "", "tools[0].type"},
		{"untyped tool", `{` + msg + `,"tools":[{"function":{"name":"f"}}]}`, "", "tools[0].type"},
		{"unnamed tool", `{` + msg + `,"tools":[{"type":"function","function":{}}]}`, "", "tools[0].function.name"},
		{"odd tool", `{` + msg + `,"tools":[{"type":"function","function":{"name":"f","parameters":"x"}}]}`, "", "tools[0].function.parameters"},
		{"tool choice", `{` + msg + `,"tool_choice":{"type":"web_search"}}`, "", "tool_choice"},
		{"store", `{` + msg + `,"store":true}`, "", "store"},
		{"metadata", `{` + msg + `,"metadata":{"a":"b"}}`, "", "metadata"},
		{"service tier", `{` + msg + `,"service_tier":"priority"}`, "", "service_tier"},
		{"routing", `{` + msg + `,"provider":{"order":["x"]}}`, "", "provider"},
		{"models", `{` + msg + `,"models":["a","b"]}`, "", "models"},
		{"image", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://169.254.169.254/"}}]}]}`, "", "messages[0].content[0].type"},
		{"file", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"file","file":{"file_id":"x"}}]}]}`, "", "messages[0].content[1].type"},
		{"input audio", `{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`, "", "messages[0].content[0].type"},
		{"text object", `{"messages":[{"role":"user","content":[{"type":"text","text":{}}]}]}`, "", "messages[0].content[0].text"},
		{"audio of an assistant", `{"messages":[{"role":"assistant","audio":{"id":"x"}}]}`, "", "messages[0].audio"},
		{"role", `{"messages":[{"role":"root","content":"x"}]}`, "", "messages[0].role"},
		{"no role", `{"messages":[{"content":"x"}]}`, "", "messages[0].role"},
		{"no content", `{"messages":[{"role":"user"}]}`, "", "messages[0].content"},
		{"null content", `{"messages":[{"role":"user","content":null}]}`, "", "messages[0].content"},
		{"number content", `{"messages":[{"role":"user","content":5}]}`, "", "messages[0].content"},
		{"user's calls", `{"messages":[{"role":"user","content":"x","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`, "", "messages[0].tool_calls"},
		{"call's type", `{"messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"custom","function":{"name":"f","arguments":"{}"}}]}]}`, "", "messages[0].tool_calls[0].type"},
		{"call's arguments", `{"messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{}}}]}]}`, "", "messages[0].tool_calls[0]"},
		{"temperature", `{` + msg + `,"temperature":"hot"}`, "", "temperature"},
		{"seed", `{` + msg + `,"seed":1.5}`, "", "seed"},
		{"max_tokens 0", `{` + msg + `,"max_tokens":0}`, "", "max_tokens"},
		{"max_tokens huge", `{` + msg + `,"max_tokens":1e99}`, "", "max_tokens"},
		{"stream", `{` + msg + `,"stream":1}`, "", "stream"},
		{"stop", `{` + msg + `,"stop":[1]}`, "", "stop"},
		{"format", `{` + msg + `,"response_format":{"type":"grammar"}}`, "", "response_format.type"},
		{"many messages", `{"messages":[` + strings.Repeat(`{"role":"user","content":"x"},`, maxMessages) + `{"role":"user","content":"x"}]}`, "", "messages"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := checkJSON([]byte(c.in)); err != nil {
				t.Fatal(err)
			}
			q, err := ParseChat([]byte(c.in), nil)
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) && !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(q.body("m", 9, "max_tokens")); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	q, err := ParseChat([]byte(`{`+msg+`,"max_tokens":50,"max_completion_tokens":40}`), nil)
	if err != nil || q.Limit != 40 || strings.Contains(string(q.fields), "max_") {
		t.Errorf("%+v %v", q, err)
	}
}

func TestCheckJSON(t *testing.T) {
	for _, c := range []struct{ name, in, err string }{
		{"good", ` {"a":[1,{"a":"a\"]}"}],"b":"a"} `, ""},
		{"same key elsewhere", `{"a":{"a":1},"b":[{"a":1},{"a":1}]}`, ""},
		{"depth 64", strings.Repeat("[", 64) + strings.Repeat("]", 64), ""},
		{"depth 65", strings.Repeat("[", 65) + strings.Repeat("]", 65), "deeper"},
		{"depth 4 million", strings.Repeat("[", 4<<20), "not valid JSON"},
		{"duplicate", `{"model":"a","model":"b"}`, `"model" twice`},
		{"duplicate by escape", `{"model":"a","mod\u0065l":"b"}`, `"model" twice`},
		{"duplicate inside", `{"a":[{"b":1,"c":2,"b":3}]}`, `"b" twice`},
		{"utf-8", "{\"a\":\"\xff\"}", "UTF-8"},
		{"surrogate bytes", "{\"a\":\"\xed\xa0\x80\"}", "UTF-8"},
		{"two values", `{} {}`, "not valid JSON at byte 4"},
		{"comment", `{} // x`, "not valid JSON"},
		{"trailing comma", `{"a":1,}`, "not valid JSON"},
		{"empty", ``, "not valid JSON"},
		{"control character", "{\"a\":\"\n\"}", "not valid JSON"},
		{"many values", `[` + strings.Repeat("0,", maxValues+5) + `0]`, "more than"},
		{"NaN", `{"a":NaN}`, "not valid JSON"},
	} {
		err := checkJSON([]byte(c.in))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
}

func TestParseEmbedding(t *testing.T) {
	for _, c := range []struct {
		name string
		in   string
		want string
		err  string
	}{
		{"string", `{"model":"e","input":"x","user":"u"}`, `{"model":"e","input":"x"}`, ""},
		{"list", `{"input":["x","y"],"encoding_format":"base64","dimensions":8}`, `{"model":"e","input":["x","y"],"encoding_format":"base64","dimensions":8}`, ""},
		{"tokens", `{"input":[1,2]}`, "", "input"},
		{"none", `{}`, "", "input"},
		{"empty list", `{"input":[]}`, "", "input"},
		{"dimensions", `{"input":"x","dimensions":0}`, "", "dimensions"},
		{"format", `{"input":"x","encoding_format":"bits"}`, "", "encoding_format"},
	} {
		q, err := ParseEmbedding([]byte(c.in), nil)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := string(q.body("e", q.Limit, "")); got != c.want {
			t.Errorf("%s: got %s want %s", c.name, got, c.want)
		}
	}
}

func TestCountTokens(t *testing.T) {
	for _, s := range []string{"", "hello world", strings.Repeat("a", 100_000), strings.Repeat("€", 5000), strings.Repeat("\x80", 5000), strings.Repeat("x y", maxCounted)} {
		if n := countTokens(s); n < 0 || n > int64(len(s)) {
			t.Errorf("%d bytes counted as %d", len(s), n)
		}
	}
	if n := countTokens("hello world"); n != 2 {
		t.Errorf("hello world is %d tokens", n)
	}
}

// Whatever comes in: what goes out is JSON with known keys only, and reads back to itself.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte(helloStream))
	f.Add([]byte(`{"run_id":"r","messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}],"tools":[{"type":"function","function":{"name":"f","parameters":{"a":[1,{}]}}}]}`))
	f.Add([]byte(`{"input":["a","b"],"run_id":"x","stop":["\"",","],"response_format":{"type":"json_schema","json_schema":{"]":"}"}}}`))
	f.Add([]byte(" {\"a\" : [ 1 , -2.5e3 , true , null , {} , [ ] ] }\n"))
	known := map[string]bool{}
	for _, k := range strings.Fields("model messages temperature top_p frequency_penalty presence_penalty seed stop response_format tools tool_choice parallel_tool_calls max_tokens stream stream_options input encoding_format dimensions") {
		known[k] = true
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if err := checkJSON(in); err != nil {
			return
		}
		if !utf8.Valid(in) || !json.Valid(in) {
			t.Fatal("bad JSON passed")
		}
		for key, rt := range openAI().Routes {
			q, err := rt.Parse(in, nil)
			if err != nil {
				continue
			}
			field := ""
			if q.path == provider.PathChat {
				field = "max_tokens"
			}
			out := q.body("m", 5, field)
			if err := checkJSON(out); err != nil {
				t.Fatalf("%s: %s: %v", key, out, err)
			}
			ms, ok := members(out)
			if !ok {
				t.Fatalf("%s: %s", key, out)
			}
			for _, m := range ms {
				if !known[m.key] {
					t.Fatalf("%s: unknown key %q passed", key, m.key)
				}
			}
			q2, err := rt.Parse(out, nil)
			if err != nil {
				t.Fatalf("%s: own output is refused: %v\n%s", key, err, out)
			}
			if again := q2.body("m", 5, field); string(again) != string(out) {
				t.Fatalf("%s: not stable:\n%s\n%s", key, out, again)
			}
		}
	})
}

// The tailer finds the same whatever way the bytes are split, and never panics.
func FuzzTailer(f *testing.F) {
	f.Add([]byte(chunk("hello")+finishChunk+usageChunk+doneChunk), uint8(3))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-1,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\r\rdata:{\"usage\":{\"prompt_tokens\":-1}}"), uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, n uint8) {
		var whole, split tailer
		_, _ = whole.Write(in)
		step := int(n) + 1
		for i := 0; i < len(in); i += step {
			_, _ = split.Write(in[i:min(i+step, len(in))])
		}
		m1, u1, c1 := whole.end()
		m2, u2, c2 := split.end()
		if fmt.Sprint(m1, u1, c1) != fmt.Sprint(m2, u2, c2) {
			t.Fatalf("whole %+v %+v %v, split %+v %+v %v", m1, u1, c1, m2, u2, c2)
		}
		if u1.ok && (u1.prompt < 0 || u1.completion < 0 || u1.prompt > maxUsage || u1.completion > maxUsage) {
			t.Fatalf("usage %+v", u1)
		}
	})
}

// A whole reply is read without panic and its usage is believed only in range.
func FuzzReply(f *testing.F) {
	f.Add([]byte(answerJSON))
	f.Add([]byte(`{"data":[{"embedding":[0.1,2]},{"embedding":"AAAA"}],"usage":{"prompt_tokens":3,"total_tokens":3}}`))
	f.Add([]byte(`{"choices":[{"message":"x"},1,null,{"delta":{"content":5,"tool_calls":[{"index":1.5,"id":null,"function":[]},{"index":"1"},{"index":-2,"function":{"name":"n","arguments":"\u00e9\ud800"}}]}}],"usage":[1]}`))
	f.Add([]byte(`{"Choices":[{"Message":{"CONTENT":"a"},"finish_reason":null}],"usage":{"prompt_tokens":"12","completion_tokens":"0x1p4"},"data":{}}`))
	f.Add([]byte("{\"choices\":[{\"message\":{\"content\":\"\xff\"}}],\"usage\":{\"prompt_tokens\":1e2,\"completion_tokens\":null}}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		w, ok := parseReply(in)
		// It reads what encoding/json reads, but for keys that come twice.
		if checkJSON(bytes.ToLower(in)) == nil {
			var want wireReply
			_ = json.Unmarshal(in, &want) // members of wrong types are told and skipped
			if whole := w; isObject(bytes.TrimSpace(in)) && json.Valid(in) && !reflect.DeepEqual(*whole, want) {
				t.Fatalf("%q\n got %+v\nwant %+v", in, *whole, want)
			}
		}
		if !ok {
			return
		}
		for _, d := range w.Data {
			if v := d.Embedding; len(v) > 0 && !json.Valid(v) {
				t.Fatalf("%q", v)
			}
		}
		for _, path := range []string{provider.PathChat, provider.PathEmbeddings} {
			if u := w.used(path == provider.PathEmbeddings); u.ok && (u.prompt < 0 || u.completion < 0 || u.prompt > maxUsage || u.completion > maxUsage) {
				t.Fatalf("usage %+v", u)
			}
		}
	})
}

func TestFieldPolicy(t *testing.T) {
	strip := FieldRules{"sampling": "strip", "routing": "strip", "provider_tools": "strip", "media": "strip", "state": "strip", "n": "strip"}
	const in = `{"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"http://a"}}]}],` +
		`"temperature":1,"seed":3,"models":["a"],"provider":{"order":["z"]},"plugins":[],"store":true,"n":4,"best_of":2,` +
		`"tools":[{"type":"web_search"},{"type":"function","function":{"name":"f"}}]}`
	q, err := ParseChat([]byte(in), strip)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(q.fields); got != `"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"tools":[{"type":"function","function":{"name":"f"}}]` {
		t.Errorf("stripped to %s", got)
	}
	for _, c := range []struct{ group, in, field string }{
		{"sampling", `"temperature":1`, "temperature"},
		{"routing", `"models":["a"]`, "models"},
		{"provider_tools", `"tools":[{"type":"web_search"}]`, "tools[0].type"},
		{"state", `"store":true`, "store"},
		{"n", `"n":2`, "n"},
	} {
		rules := FieldRules{c.group: fieldRefuse}
		_, err := ParseChat([]byte(`{"messages":[{"role":"user","content":"x"}],`+c.in+`}`), rules)
		if err == nil || !strings.HasPrefix(err.Error(), c.field+": ") {
			t.Errorf("%s: %v", c.group, err)
		}
	}
	only, err := ParseChat([]byte(`{"messages":[{"role":"user","content":[{"type":"image_url"}]}],"tools":[{"type":"web_search"}]}`), strip)
	if err != nil || string(only.fields) != `"messages":[{"role":"user","content":""}]` {
		t.Errorf("nothing left: %v", err)
	}
	for _, bad := range []map[string]string{{"x": "strip"}, {"n": "allow"}, {"sampling": "maybe"}} {
		if checkFields(bad) == nil {
			t.Errorf("took %v", bad)
		}
	}
	if err := checkFields(map[string]string{"sampling": "allow", "media": "refuse"}); err != nil {
		t.Error(err)
	}
}
