package gateway

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/gateway/provider/scripted"
)

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"error":{"message":"account org-secret `+testKey+` is out of luck"}}`)
	}
}

// endless sends 10 GB, or until nobody reads any more.
func endless(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	b := bytes.Repeat([]byte("[[[[[[[["), 128<<10)
	for range 10 << 10 {
		if _, err := w.Write(b); err != nil {
			return
		}
	}
}

func TestProviderFailures(t *testing.T) {
	var elsewhere atomic.Int64
	other := upstream(t, func(w http.ResponseWriter, r *http.Request) { elsewhere.Add(1) })
	_ = other
	release := make(chan struct{})
	defer close(release)
	hang := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	short := func(c *openai.Config) { c.Header = 50 * time.Millisecond }
	for _, c := range []struct {
		name   string
		h      http.HandlerFunc
		change func(*openai.Config)
		class  string
		status int
	}{
		{"401", status(401), nil, "auth", 502},
		{"402", status(402), nil, "payment", 502},
		{"403", status(403), nil, "auth", 502},
		{"429", status(429, "Retry-After", "40"), nil, "rate_limit", 503},
		{"500", status(500), nil, "server", 502},
		{"503", status(503), nil, "server", 502},
		{"408", status(408), nil, "timeout", 504},
		{"418", status(418), nil, "bad_reply", 502},
		{"redirect", status(302, "Location", "http://127.0.0.1:1/steal"), nil, "bad_reply", 502},
		{"redirect keeping the method", status(307, "Location", "/elsewhere"), nil, "bad_reply", 502},
		{"empty", status(204), nil, "bad_reply", 502},
		{"timeout", hang, short, "timeout", 504},
		{"total timeout", hang, func(c *openai.Config) { c.Timeout = 50 * time.Millisecond }, "timeout", 504},
		{"no json", says("<html>"), nil, "bad_reply", 502},
		{"no answer", says(`{"object":"x"}`), nil, "bad_reply", 502},
		{"array", says(`[]`), nil, "bad_reply", 502},
		{"half json", says(answerJSON[:60]), nil, "bad_reply", 502},
		{"broke off with nothing", says(`{"choices":[{"message":{"content":""},"finish_reason":"incomplete"}],"usage":{"prompt_tokens":3,"completion_tokens":0}}`), nil, "truncated", 502},
		{"an error for an answer", says(`{"choices":[{"message":{"role":"assistant"},"finish_reason":"error"}]}`), nil, "truncated", 502},
		{"cut", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, answerJSON)
		}, nil, "truncated", 502},
		{"connection cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, "server", 502},
		{"10 GB", endless, func(c *openai.Config) { c.MaxReply = 1 << 20 }, "bad_reply", 502},
		{"compressed", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			says(answerJSON)(w, r)
		}, nil, "bad_reply", 502},
		{"echoes the key", says(strings.Replace(answerJSON, "hi", testKey, 1)), nil, "bad_reply", 502},
		{"echoes the key in a refusal", status(400), nil, "bad_reply", 502},
	} {
		t.Run(c.name, func(t *testing.T) {
			var logged syncBuffer
			u := upstream(t, c.h, func(o *openai.Config) {
				if c.change != nil {
					c.change(o)
				}
			})
			g := start(t, Config{Upstreams: []provider.Upstream{u}, Log: slog.New(slog.NewJSONHandler(&logged, nil))})
			var l log
			s := open(t, g, policy("m"), &l)
			r := post(t, s, chatPath, hello)
			if r.status != c.status || !strings.Contains(r.body, "upstream_failed") {
				t.Errorf("reply %d %.300s, want %d", r.status, r.body, c.status)
			}
			if c.name == "429" && r.header.Get("Retry-After") != "40" {
				t.Errorf("headers %v", r.header)
			}
			told := post(t, s, "/words/chat", `{"say":"x"}`)
			if told.status != 200 || told.body != `"sorry: upstream_failed"` {
				t.Errorf("in words: %d %.300s", told.status, told.body)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			e := s.Evidence()
			if e.LastError != c.class || e.ProviderErrors != 2 || e.Calls != 2 || e.AgentErrors != 0 || !e.CanaryFailed {
				t.Errorf("evidence %+v, want %s", e, c.class)
			}
			if s.Spent() != 0 {
				t.Errorf("the run paid %d for a failure of the provider", s.Spent())
			}
			if x := s.Receipts()[1]; x.Outcome != "provider_error" || x.Status != 200 || x.Prompt != 0 {
				t.Errorf("receipt %+v", x)
			}
			all := r.body + fmt.Sprint(r.header) + told.body + l.text(t) + logged.String() + fmt.Sprintf("%+v %+v", s.Receipts(), e)
			if strings.Contains(all, testKey) || strings.Contains(all, testKey[8:]) {
				t.Errorf("the key leaks: %s", all)
			}
			if strings.Contains(r.body+told.body, "org-secret") {
				t.Errorf("the provider's text reaches the agent: %s", r.body)
			}
		})
	}
	if elsewhere.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestBadStreams(t *testing.T) {
	for _, c := range []struct {
		name   string
		h      http.HandlerFunc
		status int
		class  string
	}{
		{"empty", streams(false), 502, "truncated"},
		{"json instead", says(`{"choices":[{"message":{"content":"x"}}]}`), 200, ""},
		{"echoes the key", func(w http.ResponseWriter, r *http.Request) {
			streams(false, chunk("a"), "data: "+testKey+"\n\n", finishChunk, doneChunk)(w, r)
		}, 0, "bad_reply"}, // 502, or a cut where "a" had passed already
	} {
		u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			if strings.Contains(string(b), "ping") {
				says(answerJSON)(w, r)
				return
			}
			c.h(w, r)
		})
		g := start(t, Config{Upstreams: []provider.Upstream{u}})
		s := open(t, g, policy("m"), nil)
		r := post(t, s, chatPath, helloStream)
		_ = s.Close()
		if e := s.Evidence(); c.status != 0 && r.status != c.status || e.LastError != c.class || strings.Contains(r.body, testKey) ||
			c.status == 0 && r.status != 502 && r.err == nil {
			t.Errorf("%s: reply %d %q, evidence %+v", c.name, r.status, r.body, e)
		}
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// The agent's own errors pass unchanged, cost no money and blame nobody else.
func TestOwnErrorsPass(t *testing.T) {
	for _, code := range []int{400, 413, 422, 404} {
		const text = `{"error": {"message":"messages[3] is odd"}}`
		u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			if strings.Contains(string(b), "ping") {
				says(answerJSON)(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json; v=1")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		})
		g := start(t, Config{Upstreams: []provider.Upstream{u}})
		s := open(t, g, policy("m"), nil)
		r := post(t, s, chatPath, hello)
		if r.status != code || r.body != text || r.header.Get("Content-Type") != "application/json; v=1" {
			t.Errorf("%d: reply %d %s", code, r.status, r.body)
		}
		told := post(t, s, "/words/chat", `{"say":"x"}`)
		if told.status != 200 || told.body != `"sorry: upstream_refused"` {
			t.Errorf("%d: in words: %d %s", code, told.status, told.body)
		}
		if e := s.Evidence(); e.AgentErrors != 2 || e.ProviderErrors != 0 || e.CanaryFailed || s.Spent() != 0 {
			t.Errorf("%d: evidence %+v spent %d", code, e, s.Spent())
		}
		if x := s.Receipts()[0]; x.Outcome != "refused" || x.Status != code {
			t.Errorf("receipt %+v", x)
		}
	}
}

// A model that the upstream does not know at all is the operator's mistake.
func TestUnknownModelAtUpstreamIsNotTheAgentsFault(t *testing.T) {
	u := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(404)
		_, _ = io.WriteString(w, `{"error":{"message":"no such model"}}`)
	})
	g := start(t, Config{Upstreams: []provider.Upstream{u}})
	s := open(t, g, policy("m"), nil)
	if r := post(t, s, chatPath, hello); r.status != 502 {
		t.Errorf("reply %d %s", r.status, r.body)
	}
	if e := s.Evidence(); e.AgentErrors != 0 || e.ProviderErrors != 1 || !e.CanaryFailed || e.LastError != "not_found" {
		t.Errorf("evidence %+v", e)
	}
}

// One probe answers for many failures; a later success is told.
func TestCanary(t *testing.T) {
	var pings, now atomic.Int64
	var down, sick atomic.Bool
	down.Store(true)
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if strings.Contains(string(b), "ping") {
			pings.Add(1)
			if sick.Load() {
				w.WriteHeader(402)
				return
			}
			says(answerJSON)(w, r)
			return
		}
		if down.Load() {
			w.WriteHeader(500)
			return
		}
		says(answerJSON)(w, r)
	})
	g := start(t, Config{Upstreams: []provider.Upstream{u}, FairParallel: 64, Clock: func() time.Time { return time.Unix(1000+now.Load(), 0) }})
	var l log
	s := open(t, g, policy("m"), &l)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { post(t, s, chatPath, hello) })
	}
	wg.Wait()
	if pings.Load() != 1 {
		t.Errorf("%d probes, want 1", pings.Load())
	}
	if e := s.Evidence(); e.ProviderErrors != 8 || e.CanaryFailed || e.LastError != "server" {
		t.Errorf("evidence %+v", e)
	}
	sick.Store(true)
	now.Store(9)
	post(t, s, chatPath, hello)
	if e := s.Evidence(); pings.Load() != 1 || e.CanaryFailed {
		t.Errorf("%d probes, evidence %+v", pings.Load(), e)
	}
	now.Store(11)
	post(t, s, chatPath, hello)
	if e := s.Evidence(); pings.Load() != 2 || !e.CanaryFailed || e.Recovered {
		t.Errorf("%d probes, evidence %+v", pings.Load(), e)
	}
	down.Store(false)
	post(t, s, chatPath, hello)
	if e := s.Evidence(); !e.CanaryFailed || !e.Recovered {
		t.Errorf("evidence %+v", e)
	}
	if notes := l.of(agon.EventNote); len(notes) != 2 {
		t.Errorf("notes %v", notes)
	}
}

// A provider that hangs until the run's time is up is seen by the probe.
func TestHangingProvider(t *testing.T) {
	arrived, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if strings.Contains(string(b), "ping") {
			w.WriteHeader(503)
			return
		}
		close(arrived)
		select {
		case <-r.Context().Done():
		case <-end:
		}
	})
	var now atomic.Int64
	g := start(t, Config{Upstreams: []provider.Upstream{u}, Clock: func() time.Time { return time.Unix(1000+now.Load(), 0) }})
	s := open(t, g, policy("m"), nil)
	done := make(chan reply, 1)
	go func() { done <- post(t, s, chatPath, hello) }()
	<-arrived
	now.Store(31)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if e := s.Evidence(); e.ProviderErrors != 1 || !e.CanaryFailed || e.LastError != "timeout" {
		t.Errorf("evidence %+v", e)
	}
	<-done
}

func TestAbsurdUsage(t *testing.T) {
	for _, c := range []struct {
		usage     string
		estimated bool
		over      bool
	}{
		{`{"prompt_tokens":-10,"completion_tokens":5}`, true, false},
		{`{"prompt_tokens":10,"completion_tokens":-5}`, true, false},
		{`{"prompt_tokens":1e300,"completion_tokens":5}`, true, false},
		{`{"prompt_tokens":99999999999999999999999,"completion_tokens":5}`, true, false},
		{`{"prompt_tokens":10.5,"completion_tokens":5}`, true, false},
		{`{"prompt_tokens":"x","completion_tokens":5}`, true, false},
		{`{"prompt_tokens":{},"completion_tokens":5}`, true, false},
		{`{}`, true, false},
		{`null`, true, false},
		{`[]`, true, false},
		{`{"prompt_tokens":10.0,"completion_tokens":5}`, false, false},
		{`{"prompt_tokens":1000000000000,"completion_tokens":1000000000000}`, false, true},
		{`{"prompt_tokens":10,"completion_tokens":100000}`, false, true},
	} {
		body := `{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":` + c.usage + `}`
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(body))}})
		var l log
		s := open(t, g, policy("m"), &l)
		if r := post(t, s, chatPath, hello); r.status != 200 || r.body != body {
			t.Errorf("%s: reply %d %s", c.usage, r.status, r.body)
		}
		x := s.Receipts()[0]
		ev := l.of(agon.EventModel)[0].(ModelCall)
		if x.Estimated != c.estimated || x.Cost <= 0 || x.Cost > x.Reserved || (ev.Over > 0) != c.over || c.over && x.Cost != x.Reserved {
			t.Errorf("%s: over %d receipt %+v", c.usage, ev.Over, x)
		}
		if x.Estimated && x.Cost > 60 {
			t.Errorf("%s: the estimate of a tiny call is %d", c.usage, x.Cost)
		}
	}
}

// What a provider counts is held against the text: none where there is some is
// estimated, and what does not fit is said beside what is booked.
func TestUsageIsCrossChecked(t *testing.T) {
	const prose = "The quick brown fox jumps over the lazy dog and runs home before it rains. "
	long := strings.Repeat(prose, 40) // 3,000 bytes, 600 tokens
	for _, c := range []struct {
		usage, say string
		estimated  bool
		doubt      string
	}{
		{`{"prompt_tokens":650,"completion_tokens":640}`, long, false, ""},
		{`{"prompt_tokens":250,"completion_tokens":240}`, long, false, ""},  // a coarser vocabulary
		{`{"prompt_tokens":650,"completion_tokens":9000}`, long, false, ""}, // hidden reasoning
		{`{"prompt_tokens":0,"completion_tokens":640}`, long, true, ""},
		{`{"prompt_tokens":650,"completion_tokens":0}`, long, true, ""},
		{`{"prompt_tokens":650,"completion_tokens":0}`, "", false, ""},
		{`{"prompt_tokens":7,"completion_tokens":640}`, long, false, "the provider counts 7 prompt tokens, the tokenizer "},
		{`{"prompt_tokens":650,"completion_tokens":3}`, long, false, "the provider counts 3 completion tokens, the tokenizer "},
		{`{"prompt_tokens":9000,"completion_tokens":640}`, long, false, "the provider counts 9000 prompt tokens, the prompt has at most "},
	} {
		body := `{"choices":[{"message":{"role":"assistant","content":"` + c.say + `"},"finish_reason":"stop"}],"usage":` + c.usage + `}`
		var told bytes.Buffer
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(body))}, Log: slog.New(slog.NewTextHandler(&told, nil))})
		var l log
		s := open(t, g, policy("m"), &l)
		if r := post(t, s, chatPath, strings.Replace(hello, "hello", long, 1)); r.status != 200 || r.body != body {
			t.Errorf("%s: reply %d %s", c.usage, r.status, r.body)
		}
		x := s.Receipts()[0]
		ev := l.of(agon.EventModel)[0].(ModelCall)
		if x.Estimated != c.estimated || x.Cost <= 0 || x.Cost > x.Reserved || !strings.HasPrefix(ev.Doubt, c.doubt) || (c.doubt == "") != (ev.Doubt == "") {
			t.Errorf("%s: doubt %q, receipt %+v", c.usage, ev.Doubt, x)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		g.Stop()
		// By the arena's choice such a count is worth no more than none.
		g = start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(body))}})
		p := policy("m")
		p.Usage = agon.UsageRefuse
		var again log
		s = open(t, g, p, &again)
		if r := post(t, s, chatPath, strings.Replace(hello, "hello", long, 1)); r.status != 200 || r.body != body {
			t.Errorf("%s: refused: reply %d %s", c.usage, r.status, r.body)
		}
		y := s.Receipts()[0]
		if y.Estimated != (c.estimated || c.doubt != "") || !strings.HasPrefix(again.of(agon.EventModel)[0].(ModelCall).Doubt, c.doubt) {
			t.Errorf("%s: refused: %+v", c.usage, y)
		}
		if c.doubt != "" && (y.Prompt < 550 || y.Prompt > 800 || y.Completion < 550 || y.Completion > 800) {
			t.Errorf("%s: refused: booked %d and %d tokens", c.usage, y.Prompt, y.Completion)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		g.Stop()
		if heard := strings.Contains(told.String(), "does not fit the text") && strings.Contains(told.String(), "call="+x.ID); heard != (c.doubt != "") {
			t.Errorf("%s: the operator is told %q", c.usage, told.String())
		}
	}
}

// Invalid UTF-8 in a reply passes unchanged and is kept.
func TestReplyOfBadUTF8(t *testing.T) {
	body := strings.Replace(answerJSON, "hi", "\xff\xfe", 1)
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(body))}})
	var l log
	s := open(t, g, policy("m"), &l)
	if r := post(t, s, chatPath, hello); r.status != 200 || r.body != body {
		t.Errorf("reply %d %q", r.status, r.body)
	}
	if b := l.of(agon.EventModel)[0].(ModelCall).Response; string(b.Base64) != body || b.Text != "" {
		t.Errorf("kept %+v", b)
	}
}

func TestScriptedFaults(t *testing.T) {
	script, err := scripted.Parse([]byte(`{"version":1,"rule":[{"last":"poor","status":402},{"last":"bad","status":422},{"status":503}]}`), "json")
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, Config{Upstreams: []provider.Upstream{scripted.New(script)}})
	s := open(t, g, policy("*"), nil)
	for word, want := range map[string]int{"poor": 502, "bad": 422, "x": 502} {
		if r := post(t, s, chatPath, `{"messages":[{"role":"user","content":"`+word+`"}]}`); r.status != want {
			t.Errorf("%s: %d %s", word, r.status, r.body)
		}
	}
	if e := s.Evidence(); !e.CanaryFailed || e.ProviderErrors != 2 || e.AgentErrors != 1 {
		t.Errorf("evidence %+v", e)
	}
}
