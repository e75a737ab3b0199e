package gateway

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/gateway/provider"
)

const (
	// downFor is how long an upstream whose probe failed is passed over at
	// first; it doubles with each failed probe up to downMost.
	downFor  = 10 * time.Second
	downMost = 2 * time.Minute
	// maxRounds bounds how often one call goes round its upstreams because
	// they asked it to come back.
	maxRounds = 4
)

// target is one model at one upstream, with its breaker. The breaker opens on
// a failed probe of the gateway's own, never on a call of an agent's, so that
// nobody can talk an upstream down for others.
type target struct {
	model string
	up    provider.Upstream
	price Price

	mu    sync.Mutex
	until time.Time     // passed over until then; guarded by mu
	wait  time.Duration // of the last opening; guarded by mu
}

func (t *target) healthy(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !now.Before(t.until)
}

// probed moves the breaker by the answer of a probe.
func (t *target) probed(failed bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !failed {
		t.until, t.wait = time.Time{}, 0
		return
	}
	t.wait = min(max(2*t.wait, downFor), downMost)
	t.until = now.Add(t.wait)
}

// worked closes the breaker.
func (t *target) worked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until, t.wait = time.Time{}, 0
}

// takes reports whether the upstream can be asked: in OpenAI's form, or in the client's.
func (t *target) takes(q *Request) bool {
	return provider.Speaks(t.up, "") || t.native(q)
}

// native reports whether the upstream takes the client's own form.
func (t *target) native(q *Request) bool { return q.form != nil && provider.Speaks(t.up, q.form.name) }

// takes reports whether any upstream of the model can be asked.
func (o offer) takes(q *Request) bool {
	return slices.ContainsFunc(o.targets, func(t *target) bool { return t.takes(q) })
}

// ordered returns the upstreams of an offer, those in health first. None is
// left out that takes the request: a call is better tried than refused.
func (o offer) ordered(now time.Time, q *Request) []*target {
	out := make([]*target, 0, len(o.targets))
	for _, want := range []bool{true, false} {
		for _, t := range o.targets {
			if t.healthy(now) == want && t.takes(q) {
				out = append(out, t)
			}
		}
	}
	return out
}

// answer is what an upstream said: a whole body, or the stream after its first bytes.
type answer struct {
	reply *provider.Reply
	body  []byte // all of it, or the first bytes of a stream
	rest  bool   // a stream: more may come from reply.Body
	wire  *wireReply
	sent  bool // body was read in full though it is a refusal
}

// ask takes the call to its upstreams in turn until one answers. A stream has
// answered with its first bytes; before them nothing has reached the client
// and any failure may be tried elsewhere. If all fail and one asked to come
// back within the time of the call, ask waits for it. gone ends when the
// client leaves: then nobody waits.
func (c *call) ask(gone context.Context) (*answer, *provider.Failure) {
	g := c.s.g
	waited := time.Duration(0)
	for round := 1; ; round++ {
		var last *provider.Failure
		again := time.Duration(0)
		for _, t := range c.o.ordered(g.cfg.Clock(), c.q) {
			c.up = t
			a, f := c.try(t)
			if f == nil {
				t.worked()
				return a, nil
			}
			last = f
			if c.ctx.Err() != nil {
				return nil, f
			}
			c.tried(t, f)
			if f.RetryAfter > 0 && (again == 0 || f.RetryAfter < again) {
				again = f.RetryAfter
			}
		}
		if again == 0 || round == maxRounds || waited+again > g.cfg.RetryFor {
			return nil, last
		}
		if end, ok := c.ctx.Deadline(); ok && time.Until(end) < again {
			return nil, last
		}
		waited += again
		pause := time.NewTimer(again)
		select {
		case <-pause.C:
		case <-gone.Done():
		case <-c.ctx.Done():
		}
		pause.Stop()
		if gone.Err() != nil || c.ctx.Err() != nil {
			return nil, last
		}
	}
}

// tried keeps what a failed try means: the upstream is looked at when the whole call is judged.
func (c *call) tried(t *target, f *provider.Failure) {
	c.failed = append(c.failed, failedTry{t, f})
	c.s.g.cfg.Log.Warn("provider failed", "session", c.s.id, "provider", t.up.Name(), "model", c.o.model,
		"class", string(f.Class), "status", f.Status, "detail", f.Detail)
	if len(c.o.targets) > 1 {
		// The next is tried at once; the probe only moves the breaker.
		c.s.g.background(func() { c.s.g.canaries.ask(t, c.q.path) })
	}
}

// failedTry is one upstream that failed a call.
type failedTry struct {
	t *target
	f *provider.Failure
}

// requestTo writes the call as its upstream takes it: in the client's own form where it can be.
func (c *call) requestTo(t *target) provider.Request {
	c.form = nil
	req := provider.Request{Path: c.q.path, Model: t.model, Stream: c.q.stream}
	if t.native(c.q) {
		c.form = c.q.form
		req.Path, req.Form = c.form.path(t.model, c.q.stream), c.form.name
		c.body = c.form.body(c.q, t.model, c.limit)
	} else {
		field := ""
		if c.q.path == provider.PathChat {
			field = c.o.price.LimitField
		}
		c.body = c.q.body(t.model, c.limit, field)
	}
	req.Body = c.body
	return req
}

// try makes the call at one upstream.
func (c *call) try(t *target) (*answer, *provider.Failure) {
	req := c.requestTo(t)
	reply, err := t.up.Do(c.ctx, req)
	if err != nil {
		return nil, failureOf(err)
	}
	a := &answer{reply: reply}
	ok := false
	defer func() {
		if !ok || !a.rest {
			_ = reply.Body.Close()
		}
	}()
	var f *provider.Failure
	switch {
	case provider.Own(reply.Status):
		f = c.readOwn(t, a)
	case c.q.stream && strings.HasPrefix(reply.ContentType, "text/event-stream"):
		f = a.readFirst()
	default:
		f = c.readWhole(a)
	}
	if f != nil {
		c.got = a.body
		return nil, f
	}
	ok = true
	return a, nil
}

// Bytes of a stream are read into a buffer of leastBuffer, and into one of twice the size, up
// to mostBuffer, after each that was full: most streams come in small pieces, and thousands
// may be open.
const leastBuffer, mostBuffer = 2 << 10, 32 << 10

// readFirst waits for the first bytes of a stream.
func (a *answer) readFirst() *provider.Failure {
	a.rest = true
	a.body = make([]byte, leastBuffer)
	n, err := 0, error(nil)
	for n == 0 && err == nil {
		n, err = a.reply.Body.Read(a.body)
	}
	a.body = a.body[:n]
	switch {
	case n > 0:
		return nil // an error comes back with the next read
	case err == io.EOF: //nolint:errorlint // a reader returns it bare
		return &provider.Failure{Class: provider.ClassTruncated}
	}
	return failureOf(err)
}

// readWhole reads a reply that is one JSON document.
func (c *call) readWhole(a *answer) *provider.Failure {
	b, err := io.ReadAll(a.reply.Body)
	a.body = b
	if err != nil {
		return failureOf(err)
	}
	w, ok := c.form.parse(b)
	if !ok {
		return &provider.Failure{Class: provider.ClassBadReply, Detail: "reply is not the JSON of an answer"}
	}
	if w.brokeOff() {
		return &provider.Failure{Class: provider.ClassTruncated, Detail: "the reply says that it broke off, and has nothing in it"}
	}
	a.wire = w
	return nil
}

// readOwn reads a reply that calls the request bad.
func (c *call) readOwn(t *target, a *answer) *provider.Failure {
	b, err := io.ReadAll(io.LimitReader(a.reply.Body, maxOwnError+1))
	if err != nil || len(b) > maxOwnError {
		return &provider.Failure{Class: provider.ClassBadReply, Status: a.reply.Status, Detail: "read a refusal"}
	}
	a.body, a.sent = b, true
	if a.reply.Status != 404 {
		return nil
	}
	// The session's models are ours to name: if our own call is not found
	// either, the name is wrong at the upstream and no agent can help it.
	if class, _ := c.s.g.canaries.ask(t, c.q.path); class == provider.ClassNotFound {
		return &provider.Failure{Class: provider.ClassNotFound, Status: 404, Detail: "the upstream does not know the model"}
	}
	return nil
}
