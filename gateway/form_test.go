package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
)

// seen keeps what an upstream of a test was asked.
type seen struct {
	mu   sync.Mutex
	path string
	head http.Header
	body string
}

func (s *seen) then(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.path, s.head, s.body = r.URL.RequestURI(), r.Header.Clone(), string(b)
		s.mu.Unlock()
		h(w, r)
	}
}

func (s *seen) get() (path string, head http.Header, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.path, s.head, s.body
}

// speaking makes an upstream take only these forms.
func speaking(forms ...string) func(*openaiConfig) {
	return func(c *openaiConfig) { c.Speaks = forms }
}

// formCase is what holds for every form, with the form's own bytes.
type formCase struct {
	dialect, path string
	ask, stream   string // a request that says hello to m with room for 50 tokens
	streamPath    string // "": path
	chat          string // the request in OpenAI's form, without the stream's fields
	native        string // the request in the form's own
	nativePath    string // with the base path
	answer        string // what a client gets for chatCalls, with ID for the receipt's
	events        string // and for chatCallEvents
	nativeAnswer  string // a reply of a native upstream: text "hi", one call of f with {"a":1}, 10 in, 5 out
	nativeEvents  string // and as events
	keyHeader     string
	broken        string // a request that names no messages
	tooMuch       string // the code or type in a refusal for want of money
}

const chatCalls = `{"choices":[{"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`

var chatCallEvents = []string{
	`data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n",
	chunk("h"), chunk("i"),
	`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}}]}` + "\n\n",
	`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}}]}` + "\n\n",
	`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}` + "\n\n",
	`data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n", usageChunk, doneChunk,
}

func formPolicy(c formCase) Policy {
	p := policy("m")
	p.Dialects = []string{c.dialect}
	return p
}

// checkForm plays a form against upstreams of both sorts.
func checkForm(t *testing.T, c formCase) {
	if c.streamPath == "" {
		c.streamPath = c.path
	}
	const said = `{"content":"hi","tool_calls":[{"id":"c1","name":"f","arguments":"{\"a\":1}"}],"finish_reason":"tool_calls"}`
	// booked checks the one call of a session: 10 in at 1, 5 out at 2.
	booked := func(t *testing.T, s *session, l *log, form string, stream bool, sent string) {
		t.Helper()
		rs := s.Receipts()
		if len(rs) != 1 || rs[0].Cost != 20 || rs[0].Prompt != 10 || rs[0].Completion != 5 || rs[0].Outcome != outcomeOK || rs[0].Estimated || s.Spent() != 20 {
			t.Fatalf("receipts %+v", rs)
		}
		if rs[0].RequestHash != agon.Sum([]byte(sent)) {
			t.Errorf("the receipt's hash is not of what was sent")
		}
		evs := l.of(agon.EventModel)
		if len(evs) != 1 {
			t.Fatalf("%d events", len(evs))
		}
		ev := evs[0].(ModelCall)
		if got, _ := json.Marshal(ev.Message); string(got) != said || ev.Form != form || ev.Stream != stream {
			t.Errorf("event: message %s, form %q, stream %v", got, ev.Form, ev.Stream)
		}
		again, ok := MessageOf(ev.Response.Content(), stream, form)
		if got, _ := json.Marshal(again); !ok || string(got) != said {
			t.Errorf("from the response: %s %v", got, ok)
		}
		if strings.Contains(l.text(t), testKey) {
			t.Error("the log shows the key")
		}
	}
	created := regexp.MustCompile(`"created_at":[1-9][0-9]*`)
	id := func(s *session, text string) string { return strings.ReplaceAll(text, "ID", s.id+"-1") }

	t.Run("translated", func(t *testing.T) {
		var sn seen
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, sn.then(says(chatCalls)))}})
		var l log
		s := open(t, g, formPolicy(c), &l)
		got := post(t, s, c.path, c.ask)
		got.body = created.ReplaceAllString(got.body, `"created_at":0`)
		if want := id(s, c.answer); got.status != 200 || got.body != want {
			t.Fatalf("%d\n got %s\nwant %s", got.status, got.body, want)
		}
		path, head, body := sn.get()
		if path != "/v1/chat/completions" || body != c.chat || head.Get("Authorization") != "Bearer "+testKey {
			t.Errorf("upstream got %s\n got %s\nwant %s", path, body, c.chat)
		}
		booked(t, s, &l, "", false, body)
	})
	t.Run("translated stream", func(t *testing.T) {
		var sn seen
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, sn.then(streams(false, chatCallEvents...)))}})
		var l log
		s := open(t, g, formPolicy(c), &l)
		got := post(t, s, c.streamPath, c.stream)
		got.body = created.ReplaceAllString(got.body, `"created_at":0`)
		if want := id(s, c.events); got.status != 200 || got.body != want || got.header.Get("Content-Type") != eventStream {
			t.Fatalf("%d %s\n got %s\nwant %s", got.status, got.header.Get("Content-Type"), got.body, want)
		}
		_, _, body := sn.get()
		booked(t, s, &l, "", true, body)
	})
	t.Run("events of an upstream without", func(t *testing.T) {
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(chatCalls))}})
		s := open(t, g, formPolicy(c), nil)
		got := post(t, s, c.streamPath, c.stream)
		if got.status != 200 || got.header.Get("Content-Type") != eventStream || !strings.Contains(got.body, "hi") || strings.Contains(got.body, "choices") {
			t.Fatalf("%d %s %s", got.status, got.header.Get("Content-Type"), got.body)
		}
	})
	t.Run("native", func(t *testing.T) {
		var sn seen
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, sn.then(says(c.nativeAnswer)), speaking(c.dialect))}})
		var l log
		s := open(t, g, formPolicy(c), &l)
		got := post(t, s, c.path, c.ask)
		if got.status != 200 || got.body != c.nativeAnswer {
			t.Fatalf("%d %s", got.status, got.body)
		}
		path, head, body := sn.get()
		if path != c.nativePath || body != c.native || !strings.HasSuffix(head.Get(c.keyHeader), testKey) {
			t.Errorf("upstream got %s, key %q\n got %s\nwant %s", path, head.Get(c.keyHeader), body, c.native)
		}
		booked(t, s, &l, c.dialect, false, body)
	})
	t.Run("native stream", func(t *testing.T) {
		var sn seen
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, sn.then(streams(false, strings.SplitAfter(c.nativeEvents, "\"")...)), speaking(c.dialect))}})
		var l log
		s := open(t, g, formPolicy(c), &l)
		got := post(t, s, c.streamPath, c.stream)
		if got.status != 200 || got.body != c.nativeEvents {
			t.Fatalf("%d\n got %s\nwant %s", got.status, got.body, c.nativeEvents)
		}
		_, _, body := sn.get()
		booked(t, s, &l, c.dialect, true, body)
	})
	t.Run("native stream that breaks off", func(t *testing.T) {
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, streams(true, c.nativeEvents[:len(c.nativeEvents)/3]), speaking(c.dialect))}})
		s := open(t, g, formPolicy(c), nil)
		if got := post(t, s, c.streamPath, c.stream); got.err == nil {
			t.Errorf("looks whole: %s", got.body)
		}
		if rs := s.Receipts(); len(rs) != 1 || rs[0].Outcome != outcomeTruncated {
			t.Errorf("receipts %+v", rs)
		}
	})
	t.Run("a provider that says the key", func(t *testing.T) {
		for _, speaks := range []string{"openai", c.dialect} {
			g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, streams(false, "data: {\"x\":\""+testKey+"\"}\n\n"), speaking(speaks))}})
			var l log
			s := open(t, g, formPolicy(c), &l)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.BaseURL()+c.streamPath, strings.NewReader(c.stream))
			req.Header.Set(TokenHeader, s.token)
			req.Header.Set("Content-Type", "application/json")
			var got []byte
			if resp, err := http.DefaultClient.Do(req); err == nil { // it may break off before it begins
				got, _ = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			if strings.Contains(string(got), testKey) || strings.Contains(l.text(t), testKey) || len(s.Receipts()) != 1 {
				t.Errorf("%s: the key is shown, or no receipt: %s", speaks, got)
			}
		}
	})
	t.Run("budget", func(t *testing.T) {
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(chatCalls))}})
		p := formPolicy(c)
		p.Budget.Micros = 10
		s := open(t, g, p, nil)
		got := post(t, s, c.path, c.ask)
		if got.status != 429 || !strings.Contains(got.body, c.tooMuch) || got.header.Get("X-Should-Retry") != "false" || len(s.Receipts()) != 0 {
			t.Errorf("%d %s %v", got.status, got.body, s.Receipts())
		}
	})
	t.Run("refusals", func(t *testing.T) {
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(chatCalls))}})
		s := open(t, g, formPolicy(c), nil)
		for _, body := range []string{c.broken, "[]", "{", `{"a":1,"a":2}`} {
			if got := post(t, s, c.path, body); got.status != 400 || !json.Valid([]byte(got.body)) {
				t.Errorf("%s: %d %s", body, got.status, got.body)
			}
		}
		if got := post(t, s, c.path, strings.Repeat(" ", maxBody)+c.ask); got.status != 413 {
			t.Errorf("too large: %d", got.status)
		}
		if len(s.Receipts()) != 0 {
			t.Errorf("receipts %+v", s.Receipts())
		}
	})
	t.Run("not open", func(t *testing.T) {
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(chatCalls))}})
		if got := post(t, open(t, g, policy("m"), nil), c.path, c.ask); got.status != 403 {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	t.Run("chat does not reach an upstream of this form", func(t *testing.T) {
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(c.nativeAnswer), speaking(c.dialect))}})
		if got := post(t, open(t, g, policy("m"), nil), chatPath, hello); got.status != 404 {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	t.Run("a failing provider", func(t *testing.T) {
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, testKey, 500) }, speaking(c.dialect))}})
		s := open(t, g, formPolicy(c), nil)
		got := post(t, s, c.path, c.ask)
		if got.status != 502 || strings.Contains(got.body, testKey) || !s.Evidence().CanaryFailed || s.Spent() != 0 {
			t.Errorf("%d %s %+v", got.status, got.body, s.Evidence())
		}
	})
}

// fuzzForm feeds a form's parsers: whatever parses is JSON that OpenAI's parser
// takes, keeps no dangerous field, and nothing panics.
func fuzzForm(f *testing.F, fm *form, parse func([]byte, FieldRules) (*Request, error), seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	rules := FieldRules{"media": "strip", "provider_tools": "strip", "state": "strip", "routing": "strip", "n": "strip"}
	f.Fuzz(func(t *testing.T, in []byte) {
		if w, ok := fm.parse(in); ok {
			w.message()
			w.used(false)
		}
		tl := tailer{as: fm.reader()}
		for line := range strings.Lines(string(in)) {
			_, _ = tl.Write([]byte("data: " + line))
		}
		if _, u, _ := tl.end(); u.ok && (u.prompt < 0 || u.completion < 0) {
			t.Fatalf("usage %+v", u)
		}
		if checkJSON(in) != nil {
			return
		}
		for _, r := range []FieldRules{nil, rules} {
			q, err := parse(in, r)
			if err != nil {
				continue
			}
			body := q.body("m", 1, "max_tokens")
			if err := checkJSON(body); err != nil {
				t.Fatalf("chat %s: %v", body, err)
			}
			if q.native = fm.fields(q.raw, r); len(q.native) == 0 {
				t.Fatalf("nothing native of %s", in)
			}
			body = fm.body(q, "m", 1)
			if err := checkJSON(body); err != nil {
				t.Fatalf("native %s: %v", body, err)
			}
			ms, _ := members(body)
			for _, m := range ms {
				if _, bad := dangerous[m.key]; bad && m.key != "store" {
					t.Fatalf("native keeps %s: %s", m.key, body)
				}
			}
		}
	})
}
