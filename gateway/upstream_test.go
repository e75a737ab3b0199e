package gateway

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/openai"
)

// switchable is an upstream whose agent calls and probes answer as told.
type switchable struct {
	call, ping   atomic.Int64 // statuses; 0 is 200
	calls, ping1 atomic.Int64
	retry        string
	gate         chan struct{} // if set, agent calls wait for it
}

func (s *switchable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	code := s.call.Load()
	if strings.Contains(string(b), `"ping"`) {
		s.ping1.Add(1)
		code = s.ping.Load()
	} else {
		s.calls.Add(1)
		if s.gate != nil {
			<-s.gate
		}
	}
	if code != 0 {
		if s.retry != "" {
			w.Header().Set("Retry-After", s.retry)
		}
		w.WriteHeader(int(code))
		return
	}
	if strings.Contains(string(b), `"stream":true`) {
		streams(true, chunk("hi"), finishChunk, doneChunk)(w, r)
		return
	}
	says(answerJSON)(w, r)
}

func named(t *testing.T, name string, s *switchable) provider.Upstream {
	return upstream(t, s.ServeHTTP, func(c *openai.Config) { c.Name = name })
}

func TestFailOver(t *testing.T) {
	for _, c := range []struct {
		name     string
		one, two int64 // statuses of calls
		want     int
		provider string
		errors   int
		canary   bool // evidence
	}{
		{"first works", 0, 500, 200, "one", 0, false},
		{"first is out of money", 402, 0, 200, "two", 0, false},
		{"first is overloaded", 503, 0, 200, "two", 0, false},
		{"first refuses our key", 401, 0, 200, "two", 0, false},
		{"bad request is not tried elsewhere", 400, 0, 400, "one", 0, false},
		{"all fail", 500, 402, 502, "two", 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			one, two := &switchable{}, &switchable{}
			one.call.Store(c.one)
			two.call.Store(c.two)
			if c.one != 400 {
				one.ping.Store(c.one)
			}
			two.ping.Store(c.two)
			g := start(t, Config{Upstreams: []provider.Upstream{named(t, "one", one), named(t, "two", two)}})
			for _, body := range []string{hello, helloStream} {
				p := policy("m")
				p.Run += body[:9]
				s := open(t, g, p, nil)
				if r := post(t, s, chatPath, body); r.status != c.want {
					t.Errorf("reply %d %s", r.status, r.body)
				}
				_ = s.Close()
				if x := s.Receipts()[0]; x.Provider != c.provider {
					t.Errorf("receipt of %s, want %s", x.Provider, c.provider)
				}
				if e := s.Evidence(); e.ProviderErrors != c.errors || e.CanaryFailed != c.canary {
					t.Errorf("evidence %+v", e)
				}
			}
		})
	}
}

// If one upstream would have served the gateway's own call, the failure was not the providers'.
func TestOneHealthyUpstreamClearsThem(t *testing.T) {
	one, two := &switchable{}, &switchable{}
	one.call.Store(402)
	one.ping.Store(402)
	two.call.Store(500) // at this prompt only
	g := start(t, Config{Upstreams: []provider.Upstream{named(t, "one", one), named(t, "two", two)}})
	s := open(t, g, policy("m"), nil)
	post(t, s, chatPath, hello)
	_ = s.Close()
	if e := s.Evidence(); e.ProviderErrors != 1 || e.CanaryFailed {
		t.Errorf("evidence %+v", e)
	}
}

// A failed probe opens the breaker, for a while; an agent's poison does not.
func TestBreaker(t *testing.T) {
	var now atomic.Int64
	one, two := &switchable{}, &switchable{}
	g := start(t, Config{Upstreams: []provider.Upstream{named(t, "one", one), named(t, "two", two)}, Clock: func() time.Time { return time.Unix(1000+now.Load(), 0) }})
	s := open(t, g, policy("m"), nil)
	settle := func() { g.behind.Wait() }
	one.call.Store(500)
	for range 4 {
		post(t, s, chatPath, hello)
		settle()
	}
	if one.calls.Load() != 4 {
		t.Errorf("poison closed an upstream after %d calls", one.calls.Load())
	}
	now.Add(11)
	one.ping.Store(500)
	post(t, s, chatPath, hello)
	settle()
	for range 3 {
		post(t, s, chatPath, hello)
	}
	if one.calls.Load() != 5 {
		t.Errorf("a broken upstream was called %d times", one.calls.Load()-4)
	}
	one.call.Store(0)
	now.Add(11)
	post(t, s, chatPath, hello)
	if one.calls.Load() != 6 {
		t.Error("it was not tried again")
	}
	if n := two.calls.Load(); n != 8 {
		t.Errorf("the second answered %d calls", n)
	}
	if e := s.Evidence(); e.ProviderErrors != 0 {
		t.Errorf("evidence %+v", e)
	}
}

// An agent that floods its provider until it says 429, to the canary too, proves nothing.
func TestFloodProvokesNoEvidence(t *testing.T) {
	for _, code := range []int64{429, 503} {
		up := &switchable{gate: make(chan struct{})}
		up.call.Store(code)
		up.ping.Store(code)
		g := start(t, Config{Upstreams: []provider.Upstream{named(t, "one", up)}})
		var l log
		s := open(t, g, policy("m"), &l)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() { post(t, s, chatPath, hello) })
		}
		for up.calls.Load() < 16 {
			time.Sleep(time.Millisecond) // until all are inside; bounded by the test's own time
		}
		close(up.gate)
		wg.Wait()
		post(t, s, chatPath, hello) // alone, but just after
		up.ping.Store(0)            // the load is over
		now := s.Close()
		if e := s.Evidence(); now != nil || e.ProviderErrors != 17 || up.ping1.Load() > 1 || e.CanaryFailed {
			t.Errorf("%d: evidence %+v", code, e)
		}
	}
	// A provider that is down after the flood as well was down.
	up := &switchable{}
	g := start(t, Config{Upstreams: []provider.Upstream{named(t, "one", up)}, FairCalls: 1})
	s := open(t, g, policy("m"), nil)
	post(t, s, chatPath, hello)
	up.call.Store(503)
	up.ping.Store(503)
	post(t, s, chatPath, hello)
	if e := s.Evidence(); e.CanaryFailed {
		t.Errorf("under load: evidence %+v", e)
	}
	_ = s.Close()
	if e := s.Evidence(); !e.CanaryFailed {
		t.Errorf("evidence %+v", e)
	}
}

// A provider that asks to come back soon is asked again; the run pays once.
func TestRetryAfter(t *testing.T) {
	up := &switchable{retry: "1"}
	up.call.Store(429)
	g := start(t, Config{Upstreams: []provider.Upstream{named(t, "one", up)}})
	var l log
	s := open(t, g, policy("m"), &l)
	time.AfterFunc(300*time.Millisecond, func() { up.call.Store(0) })
	if r := post(t, s, chatPath, hello); r.status != 200 || up.calls.Load() != 2 {
		t.Errorf("reply %d after %d calls", r.status, up.calls.Load())
	}
	if e := s.Evidence(); e.ProviderErrors != 0 || s.Spent() != 20 || len(l.of(agon.EventModel)) != 1 {
		t.Errorf("evidence %+v spent %d", e, s.Spent())
	}
	// Not beyond the account's time.
	up.call.Store(429)
	p := policy("m")
	p.Run, p.Budget.TimeMS = "short", 500
	s = open(t, g, p, nil)
	at := time.Now()
	if r := post(t, s, chatPath, hello); r.status != 503 || time.Since(at) > 450*time.Millisecond {
		t.Errorf("reply %d after %v", r.status, time.Since(at))
	}
}
