package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/gateway/provider/scripted"
)

const helloStream = `{"model":"m","stream":true,"stream_options":{"include_usage":false},"messages":[{"role":"user","content":"hello"}]}`

func chunk(content string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", content)
}

const (
	finishChunk = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	usageChunk  = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5}}\n\n"
	doneChunk   = "data: [DONE]\n\n"
)

// streams serves parts as one event stream, flushed one by one; cut ends the connection in the middle.
func streams(cut bool, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, p := range parts {
			_, _ = io.WriteString(w, p)
			_ = http.NewResponseController(w).Flush()
		}
		if cut {
			panic(http.ErrAbortHandler)
		}
	}
}

func TestStreams(t *testing.T) {
	long := "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("x", maxLine+100) + "\"}}]}\n\n"
	for _, c := range []struct {
		name      string
		cut       bool
		parts     []string
		outcome   string
		cost      agon.Micros
		estimated bool
		message   string
		errors    int
	}{
		{"whole", false, []string{chunk("he"), chunk("llo"), finishChunk, usageChunk, doneChunk}, "ok", 20, false, "hello", 0},
		{"split anywhere", false, strings.SplitAfter(chunk("héllo")+finishChunk+usageChunk+doneChunk, "\""), "ok", 20, false, "héllo", 0},
		{"crlf", false, []string{strings.ReplaceAll(chunk("hello")+finishChunk+usageChunk+doneChunk, "\n", "\r\n")}, "ok", 20, false, "hello", 0},
		{"no done", false, []string{chunk("hello"), finishChunk, usageChunk}, "ok", 20, false, "hello", 0},
		{"no last newline", false, []string{chunk("hello"), finishChunk, strings.TrimSpace(usageChunk)}, "ok", 20, false, "hello", 0},
		{"after done", false, []string{chunk("hello"), finishChunk, usageChunk, doneChunk, ": bye\n\n"}, "ok", 20, false, "hello", 0},
		{"comments", false, []string{": ping\n\nevent: x\nid: 1\n", chunk("hello"), finishChunk, usageChunk, doneChunk}, "ok", 20, false, "hello", 0},
		{"no usage", false, []string{chunk("hello world"), finishChunk, doneChunk}, "ok", 0, true, "hello world", 0},
		{"negative usage", false, []string{chunk("hello"), finishChunk, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":-10,\"completion_tokens\":5}}\n\n", doneChunk}, "ok", 0, true, "hello", 0},
		{"usage of a wrong type", false, []string{chunk("hello"), finishChunk, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":\"many\",\"completion_tokens\":[]}}\n\n", doneChunk}, "ok", 0, true, "hello", 0},
		{"long line", false, []string{long, chunk("hello"), finishChunk, usageChunk, doneChunk}, "ok", 20, false, "hello", 0},
		{"not json", false, []string{"data: {nonsense\n\n", chunk("hello"), finishChunk, usageChunk, doneChunk}, "ok", 20, false, "hello", 0},
		{"cut", true, []string{chunk("hel"), chunk("lo")}, "truncated", 0, true, "hello", 1},
		{"ends without finish", false, []string{chunk("hello")}, "truncated", 0, true, "hello", 1},
		{"no newline at all", false, []string{strings.Repeat("z", 100_000)}, "truncated", 0, true, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				if !strings.Contains(string(b), `"stream":true`) { // the canary
					says(answerJSON)(w, r)
					return
				}
				if !strings.Contains(string(b), `"stream_options":{"include_usage":true}`) {
					t.Errorf("upstream got %s", b)
				}
				streams(c.cut, c.parts...)(w, r)
			})
			g := start(t, Config{Upstreams: []provider.Upstream{u}})
			var l log
			s := open(t, g, policy("m"), &l)
			r := post(t, s, chatPath, helloStream)
			want := strings.Join(c.parts, "")
			if r.status != 200 || r.body != want || r.header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
				t.Errorf("reply %d %.300q, want %.300q", r.status, r.body, want)
			}
			if (r.err != nil) != (c.outcome == "truncated") {
				t.Errorf("reading ended with %v", r.err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			x := s.Receipts()[0]
			if x.Outcome != c.outcome || x.Estimated != c.estimated || x.ResponseHash != agon.Sum([]byte(want)) {
				t.Errorf("receipt %+v", x)
			}
			if !c.estimated && x.Cost != c.cost {
				t.Errorf("cost %d, want %d", x.Cost, c.cost)
			}
			if c.estimated && (x.Cost <= 0 || x.Cost > x.Reserved) {
				t.Errorf("estimated cost %d of %d", x.Cost, x.Reserved)
			}
			ev := l.of(agon.EventModel)[0].(ModelCall)
			if (c.message != "" && ev.Message.Content != c.message) || !strings.HasPrefix(want, ev.Response.Text) ||
				ev.Response.Bytes != int64(len(want)) || ev.Response.Cut != (len(want) > maxEvent) {
				t.Errorf("event %.400s", fmt.Sprint(ev.Message, ev.Response))
			}
			if e := s.Evidence(); e.ProviderErrors != c.errors || e.CanaryFailed || e.Calls != 1 {
				t.Errorf("evidence %+v", e)
			}
		})
	}
}

func TestStreamIsPassedOnAsItComes(t *testing.T) {
	more := make(chan struct{})
	u := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, chunk("first"))
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = io.WriteString(w, finishChunk+usageChunk+doneChunk)
	})
	g := start(t, Config{Upstreams: []provider.Upstream{u}})
	s := open(t, g, policy("m"), nil)
	req, _ := http.NewRequestWithContext(t.Context(), "POST", s.BaseURL()+chatPath, strings.NewReader(helloStream))
	req.Header.Set(TokenHeader, s.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	br := bufio.NewReader(resp.Body)
	line, err := br.ReadString('\n')
	if err != nil || !strings.Contains(line, "first") {
		t.Fatalf("%q %v", line, err)
	}
	close(more)
	rest, err := io.ReadAll(br)
	if err != nil || !strings.HasSuffix(string(rest), doneChunk) {
		t.Fatalf("%q %v", rest, err)
	}
	if s.Spent() != 20 {
		t.Errorf("spent %d", s.Spent())
	}
}

// When the client sees [DONE] the books are closed, even if the upstream keeps its connection open.
func TestBooksAreClosedBeforeDone(t *testing.T) {
	release := make(chan struct{})
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		streams(false, chunk("a"), finishChunk, usageChunk, doneChunk)(w, r)
		<-release
	})
	defer close(release)
	g := start(t, Config{Upstreams: []provider.Upstream{u}})
	s := open(t, g, policy("m"), nil)
	r := post(t, s, chatPath, helloStream)
	if !strings.HasSuffix(r.body, doneChunk) || r.err != nil || s.Spent() != 20 {
		t.Errorf("%q %v spent %d", r.body, r.err, s.Spent())
	}
}

// Who hangs up pays what the provider counted.
func TestClientHangsUp(t *testing.T) {
	for _, body := range []string{hello, helloStream} {
		arrived, release := make(chan struct{}), make(chan struct{})
		u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			close(arrived)
			<-release
			if body == helloStream {
				streams(false, chunk("hello"), finishChunk, usageChunk, doneChunk)(w, r)
				return
			}
			says(answerJSON)(w, r)
		})
		g := start(t, Config{Upstreams: []provider.Upstream{u}})
		recorded := make(chan ModelCall, 1)
		s := open(t, g, policy("m"), recorderFunc(func(_ string, data any) {
			if c, ok := data.(ModelCall); ok {
				recorded <- c
			}
		}))
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "POST", s.BaseURL()+chatPath, strings.NewReader(body))
		req.Header.Set(TokenHeader, s.token)
		req.Header.Set("Content-Type", "application/json")
		gone := make(chan struct{})
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			close(gone)
		}()
		<-arrived
		cancel()
		<-gone
		close(release)
		c := <-recorded
		if c.Receipt.Cost != 20 || (c.Receipt.Outcome != "client_gone" && c.Receipt.Outcome != "ok") {
			t.Errorf("receipt %+v", c.Receipt)
		}
		if e := s.Evidence(); e.ProviderErrors != 0 {
			t.Errorf("evidence %+v", e)
		}
	}
}

type recorderFunc func(typ string, data any)

func (f recorderFunc) Record(typ, _ string, data any) { f(typ, data) }

func TestCloseCutsOpenCallsOff(t *testing.T) {
	for _, body := range []string{hello, helloStream} {
		arrived, end := make(chan struct{}), make(chan struct{})
		u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			if body == helloStream {
				streams(false, chunk("hello"))(w, r)
			}
			close(arrived)
			select {
			case <-r.Context().Done():
			case <-end:
			}
		})
		g := start(t, Config{Upstreams: []provider.Upstream{u}})
		var l log
		s := open(t, g, policy("m"), &l)
		got := make(chan reply, 1)
		go func() {
			req, _ := http.NewRequestWithContext(context.Background(), "POST", s.BaseURL()+chatPath, strings.NewReader(body))
			req.Header.Set(TokenHeader, s.token)
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				got <- reply{err: err}
				return
			}
			defer func() { _ = resp.Body.Close() }()
			b, err := io.ReadAll(resp.Body)
			got <- reply{status: resp.StatusCode, body: string(b), err: err}
		}()
		<-arrived
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		close(end)
		rs := s.Receipts()
		if len(rs) != 1 || rs[0].Outcome != "truncated" || !rs[0].Estimated || rs[0].Cost <= 0 || rs[0].Cost > rs[0].Reserved {
			t.Fatalf("receipts %+v", rs)
		}
		if body == hello && rs[0].Cost != rs[0].Reserved {
			t.Errorf("nothing is known of the call, yet %d of %d were booked", rs[0].Cost, rs[0].Reserved)
		}
		if e := s.Evidence(); e.ProviderErrors != 0 || e.Calls != 1 {
			t.Errorf("evidence %+v", e)
		}
		<-got
	}
}

// stuck is an upstream that does not even obey its context.
type stuck struct{ arrived, release chan struct{} }

func (stuck) Name() string     { return "stuck" }
func (stuck) Models() []string { return []string{"m"} }
func (u stuck) Do(context.Context, provider.Request) (*provider.Reply, error) {
	close(u.arrived)
	<-u.release
	return nil, &provider.Failure{Class: provider.ClassServer}
}

func TestCloseIsBounded(t *testing.T) {
	u := stuck{make(chan struct{}), make(chan struct{})}
	g := start(t, Config{Upstreams: []provider.Upstream{u}, CloseWait: 20 * time.Millisecond})
	var l log
	s := open(t, g, policy("m"), &l)
	done := make(chan struct{})
	go func() {
		defer close(done)
		req, _ := http.NewRequestWithContext(context.Background(), "POST", s.BaseURL()+chatPath, strings.NewReader(hello))
		req.Header.Set(TokenHeader, s.token)
		req.Header.Set("Content-Type", "application/json")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-u.arrived
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rs := s.Receipts()
	if len(rs) != 1 || rs[0].Cost != rs[0].Reserved || s.Spent() != rs[0].Cost {
		t.Errorf("receipts %+v spent %d", rs, s.Spent())
	}
	n := len(l.of(agon.EventModel))
	close(u.release)
	<-done
	if len(s.Receipts()) != 1 || len(l.of(agon.EventModel)) != n {
		t.Error("recorded after close")
	}
}

func TestScriptedStream(t *testing.T) {
	script, err := scripted.Parse([]byte(`{"version":1,"rule":[{"turn":0,"content":"some text that is longer than one piece of it","tool_calls":[{"name":"f","arguments":{"a":[1,"<&>"]}}]}]}`), "json")
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, Config{Upstreams: []provider.Upstream{scripted.New(script)}})
	var l log
	s := open(t, g, policy("*"), &l)
	r := post(t, s, chatPath, `{"stream":true,"messages":[{"role":"user","content":"x"}]}`)
	m := l.of(agon.EventModel)[0].(ModelCall)
	if r.status != 200 || m.Message.Content != "some text that is longer than one piece of it" || m.Message.Finish != "tool_calls" ||
		len(m.Message.ToolCalls) != 1 || m.Message.ToolCalls[0].Arguments != `{"a":[1,"<&>"]}` || m.Message.ToolCalls[0].Name != "f" ||
		m.Receipt.Estimated || m.Receipt.Completion == 0 {
		t.Errorf("%s\n%+v", r.body, m)
	}
}

func TestSilentStreamTimesOut(t *testing.T) {
	release := make(chan struct{})
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if strings.Contains(string(b), `"stream":true`) {
			streams(false, chunk("a"))(w, r)
		} else {
			w.Header().Set("Content-Type", "application/json")
			_ = http.NewResponseController(w).Flush()
		}
		<-release
	}, func(c *openai.Config) { c.Idle = time.Second }) // both heads come, however slow the machine is; both bodies fall silent
	defer close(release)
	g := start(t, Config{Upstreams: []provider.Upstream{u}})
	s := open(t, g, policy("m"), nil)
	r := post(t, s, chatPath, helloStream)
	if r.err == nil {
		t.Errorf("the stream looks whole: %q", r.body)
	}
	_ = s.Close()
	if e := s.Evidence(); e.LastError != "timeout" || !e.CanaryFailed {
		t.Errorf("evidence %+v", e)
	}
}
