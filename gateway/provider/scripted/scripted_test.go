package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/gateway/provider"
)

const sample = `
version = 1
fallback = "no rule"

[[rule]]
task = "stack"
turn = 0
[[rule.tool_calls]]
name = "read"
arguments = { path = "s.py", n = 3 }
[[rule.tool_calls]]
name = "raw"
arguments = '{"a" : 1}'
[[rule.tool_calls]]
name = "bare"

[[rule]]
task_re = "(?i)STACK"
last_re = "^def \\w+"
content = "second"

[[rule]]
last = "old"
content = "third"
`

func parse(t *testing.T, s, format string) *Script {
	t.Helper()
	x, err := Parse([]byte(s), format)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestRules(t *testing.T) {
	u := New(parse(t, sample, "toml"))
	for _, c := range []struct{ name, messages, want string }{
		{"first", `{"role":"system","content":"you"},{"role":"user","content":"the stack is wrong"}`, `"arguments":"{\"n\":3,\"path\":\"s.py\"}"`},
		{"raw arguments", `{"role":"user","content":"stack"}`, `"arguments":"{\"a\" : 1}"`},
		{"no arguments", `{"role":"user","content":"stack"}`, `"name":"bare","arguments":"{}"`},
		{"parts", `{"role":"user","content":[{"type":"text","text":"sta"},{"type":"text","text":"ck"}]}`, `"name":"read"`},
		{"second turn", `{"role":"user","content":"Stack"},{"role":"assistant","content":""},{"role":"tool","tool_call_id":"1","content":"def pop():"}`, `"content":"second"`},
		{"last is the last", `{"role":"user","content":"old"},{"role":"user","content":"new"}`, `"content":"no rule"`},
		{"task ends at the assistant", `{"role":"user","content":"a"},{"role":"assistant","content":"stack"},{"role":"user","content":"def x"}`, `"content":"no rule"`},
		{"any order", `{"role":"user","content":"old"}`, `"content":"third"`},
	} {
		req := provider.Request{Path: provider.PathChat, Model: Name, Body: []byte(`{"model":"scripted","messages":[` + c.messages + `]}`)}
		var got [2]string
		for i := range got {
			r, err := u.Do(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(r.Body)
			got[i] = string(b)
		}
		if !strings.Contains(got[0], c.want) {
			t.Errorf("%s: %s", c.name, got[0])
		}
		if got[0] != got[1] {
			t.Errorf("%s: two answers", c.name)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, format, in, want string }{
		{"version", "toml", ``, "version"},
		{"unknown field", "toml", "version=1\n[[rule]]\nlst='x'\ncontent='y'", "lst"},
		{"unknown field in json", "json", `{"version":1,"rules":[]}`, "rules"},
		{"two documents", "json", `{"version":1} {}`, "after"},
		{"no answer", "toml", "version=1\n[[rule]]\nlast='x'", "rule 1"},
		{"expression", "toml", "version=1\n[[rule]]\ntask_re='('\ncontent='y'", "task_re"},
		{"last expression", "toml", "version=1\n[[rule]]\nlast_re='('\ncontent='y'", "last_re"},
		{"status", "toml", "version=1\n[[rule]]\nstatus=200", "status"},
		{"nameless call", "toml", "version=1\n[[rule]]\n[[rule.tool_calls]]\narguments='{}'", "no name"},
		{"format", "yaml", "", "format"},
		{"size", "toml", strings.Repeat("#", maxScript+1), "larger"},
	} {
		if _, err := Parse([]byte(c.in), c.format); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestLoad(t *testing.T) {
	p := filepath.Join(t.TempDir(), "s.toml")
	if err := os.WriteFile(p, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Load(p); err != nil || len(s.Rules) != 3 {
		t.Errorf("%+v %v", s, err)
	}
	if _, err := Load(p + "x"); err == nil {
		t.Error("loaded nothing")
	}
}

func TestHandler(t *testing.T) {
	srv := httptest.NewServer(Handler(parse(t, `{"version":1,"rule":[{"last":"fail","status":429},{"content":"hello <you>"}]}`, "json")))
	defer srv.Close()
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/models", "", 200, `"id":"scripted"`},
		{"POST", "/v1/chat/completions", `{"model":"scripted","messages":[{"role":"user","content":"x"}]}`, 200, `"message":{"role":"assistant","content":"hello <you>"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,`},
		{"POST", "/v1/chat/completions", `{"model":"scripted","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}`, 200, "\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":3,\"total_tokens\":6}}\n\ndata: [DONE]\n\n"},
		{"POST", "/v1/chat/completions", `{"model":"scripted","stream":true,"messages":[{"role":"user","content":"x"}]}`, 200, "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"},
		{"POST", "/v1/chat/completions", `{"model":"scripted","messages":[{"role":"user","content":"fail"}]}`, 429, "script"},
		{"POST", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":"x"}]}`, 404, "only"},
		{"POST", "/v1/chat/completions", `{"model":"scripted","messages":[]}`, 400, "messages"},
		{"POST", "/v1/chat/completions", `[`, 400, "JSON"},
		{"POST", "/v1/embeddings", `{"model":"scripted","input":"x"}`, 200, `"embedding":[`},
		{"POST", "/v1/embeddings", `{"model":"scripted","input":7}`, 400, "input"},
		{"POST", "/v1/images", `{}`, 404, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, srv.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || !strings.Contains(string(b), c.want) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, resp.StatusCode, b)
		}
	}
}

// A hanging rule ends with its caller.
func TestHang(t *testing.T) {
	u := New(parse(t, `{"version":1,"rule":[{"hang":true}]}`, "json"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := u.Do(ctx, provider.Request{Path: provider.PathChat, Body: []byte(`{"model":"scripted","messages":[{"role":"user","content":"x"}]}`)})
	if err == nil {
		t.Error("it answered")
	}
}

// Any bytes get an answer whose events are JSON.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"model":"scripted","stream":true,"messages":[{"role":"user","content":[{"text":"stack"}]}]}`))
	f.Add([]byte(`{"model":"scripted","messages":[{"role":"tool","content":null}],"input":["a"]}`))
	s, err := Parse([]byte(sample), "toml")
	if err != nil {
		f.Fatal(err)
	}
	u := New(s)
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, path := range []string{provider.PathChat, provider.PathEmbeddings} {
			a := u.answer(path, in)
			for _, p := range a.parts {
				p = bytes.TrimSuffix(bytes.TrimPrefix(p, []byte("data: ")), []byte("\n\n"))
				if string(p) != "[DONE]" && !json.Valid(p) {
					t.Fatalf("%s: %s", path, p)
				}
			}
		}
	})
}

func TestJoinKeepsScriptsApart(t *testing.T) {
	parse := func(text string) *Script {
		s, err := Parse([]byte(text), "json")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := Join(
		parse(`{"version":1,"for":"You mend code.","fallback":"no code","rule":[{"turn":1,"content":"any"}]}`),
		parse(`{"version":1,"for":"You judge claims.","fallback":"no claim","rule":[{"task":"ships","content":"true"}]}`),
	)
	for _, c := range []struct {
		task string
		turn int
		want string
	}{
		{"You mend code. The ships sink.", 0, "no code"},
		{"You mend code.", 1, "any"},
		{"You judge claims. The ships came.", 1, "true"},
		{"You judge claims. Cranes.", 1, "no claim"},
		{"You dance.", 1, "The script has no reply for this."},
	} {
		if got := s.find(conversation{task: c.task, turn: c.turn}); got.Content != c.want {
			t.Errorf("%+v: got %q", c, got.Content)
		}
	}
}

// Whoever asks for tokens gets as many as usage counts, whole or as a stream.
func TestTokens(t *testing.T) {
	u := New(parse(t, sample, "toml"))
	for _, ask := range []string{
		`"stream":false`, `"stream":true,"stream_options":{"include_usage":true}`,
	} {
		r, err := u.Do(t.Context(), provider.Request{Path: provider.PathChat, Model: Name, Body: []byte(`{"model":"scripted","logprobs":true,"return_token_ids":true,` + ask + `,"messages":[{"role":"user","content":"the stack is wrong"}]}`)})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(r.Body)
		var prompt, ids, logprobs int
		var used usage
		for line := range strings.Lines(string(b)) {
			var got reply
			if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &got) != nil {
				continue
			}
			prompt += len(got.Prompt)
			if got.Usage != nil {
				used = *got.Usage
			}
			for _, c := range got.Choices {
				ids += len(c.IDs)
				if c.Logprobs != nil {
					logprobs += len(c.Logprobs.Content)
				}
			}
		}
		if prompt == 0 || prompt != used.Prompt || ids != used.Completion || logprobs != ids {
			t.Errorf("%s: %d of %d of the prompt, %d ids and %d log-probabilities of %d", ask, prompt, used.Prompt, ids, logprobs, used.Completion)
		}
	}
	if r, err := u.Do(t.Context(), provider.Request{Path: provider.PathChat, Model: Name, Body: []byte(`{"model":"scripted","messages":[{"role":"user","content":"x"}]}`)}); err != nil {
		t.Error(err)
	} else if b, _ := io.ReadAll(r.Body); strings.Contains(string(b), "token_ids") || strings.Contains(string(b), "logprobs") {
		t.Errorf("unasked: %s", b)
	}
}
