package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
)

// Outcomes of a receipt.
const (
	outcomeOK         = "ok"
	outcomeRefused    = "refused"        // the provider called the request bad: 400, 404, 413, 422
	outcomeProvider   = "provider_error" // the provider failed
	outcomeClientGone = "client_gone"    // the client hung up; the call was still paid
	outcomeTruncated  = "truncated"      // the stream broke off, or the session was closed under the call
)

const (
	// maxOwnError bounds the text of a provider's 400, 404, 413 or 422.
	maxOwnError = 1 << 20
	// afterDone bounds the wait for the end of a stream whose [DONE] was seen.
	afterDone = 500 * time.Millisecond
	// slowCall is how long a call must have lasted for its provider to be suspected of hanging.
	slowCall = 30 * time.Second
)

// call is one metered call: reserved when it is made, settled exactly once by finish.
type call struct {
	s      *session
	n      int64
	id     string
	rt     Route
	q      *Request
	o      offer
	up     *target // that was asked last
	failed []failedTry
	got    []byte // what a failed upstream had sent
	form   *form  // in which the upstream was asked last, nil: OpenAI's
	body   []byte // of that
	limit  int64
	held   Amount
	kept   *commit // of the reservation
	start  time.Time
	cancel context.CancelFunc
	ctx    context.Context // ends with the session, or after CallTimeout
	done   bool            // settled or being settled; guarded by s.mu
}

// begin resolves the model and reserves the worst case.
func (s *session) begin(ctx context.Context, rt Route, q *Request) (*call, *Refusal) {
	o, ok := s.pick(q, rt.Prefer)
	if !ok {
		return nil, noModel(q.model)
	}
	c := &call{s: s, n: s.calls.Add(1), rt: rt, q: q, o: o, start: s.g.cfg.Clock().UTC()}
	c.id = fmt.Sprintf("%s-%d", s.id, c.n)
	if q.form != nil && slices.ContainsFunc(o.targets, func(t *target) bool { return t.native(q) }) {
		q.native = q.form.fields(q.raw, s.policy.Fields)
		q.texts += formOverhead / perMessage
	}
	var err error
	c.limit, c.held, c.kept, err = s.reserve(c.id, q, o)
	if err != nil {
		var short *ErrBudget
		if errors.As(err, &short) {
			return nil, noBudget(short)
		}
		s.g.cfg.Log.Error("reserve for a call", "session", s.id, "error", err)
		return nil, noBooks()
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_, _ = s.acct.settle(context.WithoutCancel(ctx), c.id, Amount{}, nil)
		return nil, &Refusal{Status: http.StatusForbidden, Code: "session_closed", Message: "the session is closed"}
	}
	s.open[c] = struct{}{}
	s.ev.Calls++
	if len(s.open) > s.g.cfg.FairParallel {
		s.loadAt = c.start
	}
	if s.begun = append(s.begun, c.start); len(s.begun) > s.g.cfg.FairCalls+1 {
		s.begun = slices.Delete(s.begun, 0, 1)
	}
	s.mu.Unlock()
	// The session's context, not the client's: who hangs up still pays, and
	// the provider's own count is the exact one.
	c.ctx, c.cancel = context.WithTimeout(s.ctx, s.g.cfg.CallTimeout)
	if end := s.acct.until(); !end.IsZero() {
		stop, ctx := c.cancel, c.ctx
		c.ctx, c.cancel = context.WithTimeout(ctx, end.Sub(c.start))
		inner := c.cancel
		c.cancel = func() { inner(); stop() }
	}
	return c, nil
}

// run makes the call and answers the client.
func (c *call) run(w http.ResponseWriter, r *http.Request) {
	defer c.cancel()
	// A panic below must not leave money held.
	defer c.finish(ending{outcome: outcomeTruncated, status: http.StatusInternalServerError, worst: true})
	a, f := c.ask(r.Context())
	if f != nil {
		c.fail(w, f, c.got)
		return
	}
	switch {
	case a.sent:
		c.own(w, a)
	case a.rest:
		defer func() { _ = a.reply.Body.Close() }()
		c.stream(w, r, a)
	default:
		c.whole(w, r, a)
	}
}

// closed reports whether the session ended under the call: then a cut is not a failure.
func (c *call) closed() bool { return c.s.ctx.Err() != nil }

// fail ends a call that the provider failed. Nothing is charged but the call itself.
func (c *call) fail(w http.ResponseWriter, f *provider.Failure, got []byte) {
	if c.closed() {
		// The provider may be working on it still: the worst case is booked.
		c.suspect()
		ref := &Refusal{Status: http.StatusForbidden, Code: "session_closed", Message: "the session is closed"}
		c.finish(ending{outcome: outcomeTruncated, status: ref.Status, worst: true, response: got, total: int64(len(got))})
		ref.write(w)
		return
	}
	ref := failed(f)
	c.blame(f)
	status, _ := c.rt.shown(ref)
	c.finish(ending{outcome: outcomeProvider, status: status, class: f.Class, response: got, total: int64(len(got))})
	c.rt.refuse(w, ref)
}

// blame notes that the providers failed a call, and asks whether the gateway's
// own probe fails as well: then, and only then, may blame move to them. Failures
// that load can make (rate limits, overload, time) count only from a session
// that was not load: an agent must not be able to buy a second run with calls.
func (c *call) blame(f *provider.Failure) {
	s := c.s
	if len(c.failed) == 0 {
		c.failed = []failedTry{{c.up, f}}
	}
	heavy := s.heavy()
	down, told := true, ""
	for _, x := range c.failed {
		if heavy && loadClass(x.f) {
			down = false
			if s.later(x) {
				told = fmt.Sprintf("provider %s failed (%s) under this session's own load: that alone proves nothing", x.t.up.Name(), x.f.Class)
			}
			continue
		}
		class, fresh := s.g.canaries.ask(x.t, c.q.path)
		down = down && class != ""
		switch {
		case !fresh:
		case class == "":
			s.note("provider %s failed (%s); the gateway's own call of %s worked", x.t.up.Name(), x.f.Class, c.o.model)
		default:
			s.note("provider %s failed (%s); the gateway's own call of %s failed too (%s)", x.t.up.Name(), x.f.Class, c.o.model, class)
		}
	}
	if told != "" {
		s.note("%s", told)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ev.ProviderErrors++
	s.ev.LastError = string(f.Class)
	if down {
		s.ev.CanaryFailed, s.ev.Recovered = true, false
	}
}

// suspect looks at a call that the end of its session cut off. If it had hung
// for long and the gateway's own call hangs or fails as well, then the
// provider kept the agent waiting until its time was up.
func (c *call) suspect() {
	if c.s.g.cfg.Clock().Sub(c.start) < slowCall {
		return
	}
	if c.up == nil {
		return
	}
	class, _ := c.s.g.canaries.ask(c.up, c.q.path)
	if class == "" {
		return
	}
	c.s.mu.Lock()
	c.s.ev.ProviderErrors++
	c.s.ev.LastError = string(provider.ClassTimeout)
	c.s.ev.CanaryFailed, c.s.ev.Recovered = true, false
	c.s.mu.Unlock()
	c.s.note("a call of %s had no end when the session closed; the gateway's own call failed too (%s)", c.o.model, class)
}

// own hands on a reply that calls the request bad. It costs a call and no money.
func (c *call) own(w http.ResponseWriter, a *answer) {
	ref := &Refusal{Status: a.reply.Status, Code: CodeRefused, Message: "the model's provider refused this request as malformed"}
	status, _ := c.rt.shown(ref)
	c.s.mu.Lock()
	c.s.ev.AgentErrors++
	c.s.mu.Unlock()
	if !c.finish(ending{outcome: outcomeRefused, status: status, response: a.body, total: int64(len(a.body))}) {
		c.rt.refuse(w, noBooks())
		return
	}
	if c.rt.Refuse != nil {
		c.rt.refuse(w, ref)
		return
	}
	c.send(w, a.reply.ContentType, status, a.body)
}

// whole answers with a reply that is one JSON document.
func (c *call) whole(w http.ResponseWriter, r *http.Request, a *answer) {
	out, ctype := a.body, a.reply.ContentType
	e := ending{
		outcome: outcomeOK, status: http.StatusOK, response: a.body, total: int64(len(a.body)),
		used: a.wire.used(c.q.path == provider.PathEmbeddings),
	}
	if msg, ok := a.wire.message(); ok {
		e.message = &msg
	}
	a.wire.tokens(&e.tokens)
	switch {
	case c.form != nil, c.rt.Reply == nil:
	case c.q.stream && e.message != nil:
		// The client asked for events and the upstream has none.
		t := c.rt.stream(c.reply(a.wire, &e))
		out, ctype = append(t.chunk(a.wire.asChunk()), t.end(c.reply(a.wire, &e))...), eventStream
	default:
		ok := false
		if out, ok = c.rt.Reply(c.reply(a.wire, &e)); !ok {
			c.fail(w, &provider.Failure{Class: provider.ClassBadReply, Detail: "reply has no answer in it"}, a.body)
			return
		}
		ctype = "application/json"
	}
	if r.Context().Err() != nil {
		e.outcome = outcomeClientGone
	}
	if !c.finish(e) {
		c.rt.refuse(w, noBooks())
		return
	}
	if f := c.s.policy.NonceField; f != "" && e.message != nil && c.rt.Reply == nil {
		out = c.s.nonces.mark(c.s.policy.Run, f, out, c.s.asked(e.message))
	}
	c.send(w, ctype, http.StatusOK, out)
}

// parseReply reads an answer; false if it is none.
func parseReply(b []byte) (*wireReply, bool) {
	w, ok := read(b)
	return &w, ok && (len(w.Choices) > 0 || len(w.Data) > 0)
}

// send writes the provider's bytes, unchanged.
func (c *call) send(w http.ResponseWriter, ctype string, status int, b []byte) {
	if ctype == "" {
		ctype = "application/json"
	}
	w.Header().Set("Content-Type", ctype)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeTime))
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that is gone has been paid for
	_ = rc.SetWriteDeadline(time.Time{})
}

// stream passes events on as they come and watches them.
func (c *call) stream(w http.ResponseWriter, r *http.Request, a *answer) {
	reply := a.reply
	rc := http.NewResponseController(w)
	gone, begun := false, false
	ctype := reply.ContentType
	pass := func(p []byte) {
		if gone || len(p) == 0 {
			return
		}
		if !begun {
			if c.s.acct.waitHeld(context.WithoutCancel(c.ctx), c.kept) != nil {
				gone = true
				return
			}
			begun = true
			w.Header().Set("Content-Type", ctype)
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusOK)
		}
		_ = rc.SetWriteDeadline(time.Now().Add(writeTime))
		_, err := w.Write(p)
		if err == nil {
			err = rc.Flush()
		}
		gone = err != nil || r.Context().Err() != nil
	}
	t := tailer{as: c.form.reader()}
	var tr translator
	var words []byte // what tr wrote of the last bytes
	if c.form == nil && c.rt.stream != nil {
		tr, ctype = c.rt.stream(c.reply(nil, &ending{})), eventStream
		t.on = func(w *wireReply) { words = append(words, tr.chunk(w)...) }
	}
	sum, total := sha256.New(), int64(0)
	var kept, last, hold []byte
	marks := c.s.policy.NonceField
	if c.rt.stream != nil {
		marks = "" // its events are not OpenAI's
	}
	buf, n := a.body[:cap(a.body)], len(a.body)
	var err error
	for first := true; err == nil; first = false {
		if !first {
			if n == len(buf) && n < mostBuffer {
				buf = make([]byte, 2*n)
			}
			n, err = reply.Body.Read(buf)
		}
		p := buf[:n]
		total += int64(len(p))
		sum.Write(p)
		kept = append(kept, p[:min(len(p), keepStream-len(kept))]...)
		was := t.done
		_, _ = t.Write(p)
		if tr != nil {
			p, words = words, nil
		}
		switch {
		case !t.done && marks == "":
			pass(p)
		case !t.done:
			// Marks go before the line of [DONE]: no part of a line may be out by then.
			hold = append(hold, p...)
			if i := bytes.LastIndexAny(hold, "\r\n"); i >= 0 || len(hold) > maxLine {
				if i < 0 {
					i = len(hold) - 1
				}
				pass(hold[:i+1])
				hold = append(hold[:0], hold[i+1:]...)
			}
		case !was:
			// The client may leave at [DONE]: it is held until the books are closed.
			last = append(append(last, hold...), p...)
			hold = nil
			stop := time.AfterFunc(afterDone, c.cancel)
			defer stop.Stop()
		case len(last) < keepStream:
			last = append(last, p...)
		}
	}
	last = append(hold, last...) // one of the two is empty
	msg, used, complete := t.end()
	e := ending{
		outcome: outcomeOK, status: http.StatusOK, response: kept, total: total, sum: sum, used: used, message: &msg, tokens: t.toks,
	}
	if tr != nil && complete {
		last = append(append(last, words...), tr.end(c.reply(nil, &e))...)
	}
	var f *provider.Failure
	switch {
	case complete:
	case c.closed():
		e.outcome = outcomeTruncated
		c.suspect()
	default:
		f = &provider.Failure{Class: provider.ClassTruncated}
		if err != io.EOF {
			f = failureOf(err)
		}
		e.outcome, e.class = outcomeTruncated, f.Class
		c.failed = append(c.failed, failedTry{c.up, f})
		c.blame(f)
	}
	if gone && e.outcome == outcomeOK {
		e.outcome = outcomeClientGone
	}
	if !c.finish(e) || e.outcome == outcomeTruncated {
		// What broke off must not look finished to the client.
		panic(http.ErrAbortHandler)
	}
	if marks != "" {
		last = c.s.nonces.markStream(c.s.policy.Run, marks, c.o.model, last, msg.ToolCalls)
	}
	pass(last)
}

// ending is how a call went.
type ending struct {
	outcome  string
	status   int // what the client got
	class    provider.Class
	used     usage
	worst    bool   // nothing is known of the usage and it may be anything: book the reservation
	response []byte // the beginning of what the provider sent
	total    int64  // bytes that it sent
	sum      hash.Hash
	message  *Message
	tokens   Tokens
}

// finish settles the call and records it; when it returns true all of that is
// durable. Only the first finish of a call counts. False means that the books
// could not be written: then nothing may be promised to the client.
func (c *call) finish(e ending) bool {
	s := c.s
	s.mu.Lock()
	was := c.done
	c.done = true
	if e.outcome == outcomeOK {
		s.ev.Recovered = s.ev.ProviderErrors > 0
		s.suspects = nil // it answers again
	}
	s.mu.Unlock()
	if was {
		return true
	}
	doubt := ""
	if e.outcome != outcomeProvider && e.outcome != outcomeRefused && !e.worst && e.used.ok && !c.impossible(e.used, e.message) {
		doubt = c.doubt(e.used, e.message)
	}
	if doubt != "" && s.policy.Usage == agon.UsageRefuse {
		e.used.ok = false // it is worth no more than none
		doubt += "; refused: the tokenizer's count is booked"
	}
	want, u, estimated := c.charge(e)
	rec := &agon.Receipt{
		ID: c.id, Session: s.id, Run: s.policy.Run, Attempt: s.policy.Attempt, Task: s.policy.Task, Payer: s.policy.Payer,
		Route: c.rt.Path, Model: c.o.model, Provider: c.provider(),
		RequestHash: agon.Sum(c.body), ResponseHash: agon.Sum(e.response),
		Prompt: u.prompt, Cached: u.cached, Completion: u.completion, Estimated: estimated,
		PriceVersion: c.o.price.Version, Reserved: c.held.Micros,
		Status: e.status, Outcome: e.outcome, Start: c.start, End: s.g.cfg.Clock().UTC(),
	}
	if e.sum != nil {
		rec.ResponseHash = agon.Digest(agon.DigestPrefix + hex.EncodeToString(e.sum.Sum(nil)))
	}
	booked, err := s.acct.settle(context.WithoutCancel(s.ctx), c.id, want, rec)
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	if err != nil {
		s.g.cfg.Log.Error("settle a call", "session", s.id, "call", c.id, "error", err)
		s.recMu.Lock()
		defer s.recMu.Unlock()
		s.bookErr = fmt.Errorf("settle call %s: %w", c.id, err)
		return false
	}
	if e.message != nil {
		s.nonces.emit(rec.ID, s.asked(e.message))
	}
	ev := ModelCall{
		Receipt: *rec, Message: e.message, Stream: c.q.stream, Error: string(e.class),
		Form: c.form.wire(), Over: max(0, want.Micros-booked.Micros), ClaimedRun: c.q.Claim,
	}
	ev.Doubt = doubt
	if e.tokens.any() {
		ev.Tokens = &e.tokens
	}
	if ev.Doubt != "" {
		// Whoever pays the provider has to hear of it: the books believe the count.
		s.g.cfg.Log.Warn("a provider's usage does not fit the text", "doubt", ev.Doubt, "provider", rec.Provider, "model", rec.Model, "run", rec.Run, "call", c.id, "cost", int64(booked.Micros))
	}

	s.recMu.Lock()
	defer s.recMu.Unlock()
	if s.sealed {
		return true
	}
	s.spent += booked.Micros
	s.receipts = append(s.receipts, *rec)
	s.kept += ev.keep(c.body, e.response, e.total, s.kept > s.g.cfg.KeepBytes)
	s.g.keepWhole(&ev.Request, c.body)
	s.g.keepWhole(&ev.Response, e.response)
	s.record(agon.EventModel, ev)
	return true
}

// provider names the upstream that was asked last, else the one that would have been.
func (c *call) provider() string {
	if c.up == nil {
		return c.o.targets[0].up.Name()
	}
	return c.up.up.Name()
}

// noBooks is the answer when a call cannot be booked: the client gets no reply that was not paid for.
func noBooks() *Refusal {
	return &Refusal{Status: http.StatusInternalServerError, Code: "internal", Message: "the gateway's books do not answer"}
}

// charge tells what a call is to be billed. It is not clamped: the books do that.
func (c *call) charge(e ending) (Amount, usage, bool) {
	free := Amount{Calls: 1}
	switch {
	case e.worst:
		// The rough bound of the reservation is not a count of tokens.
		return c.held, usage{prompt: max(0, c.held.Tokens-c.limit), completion: c.limit}, true
	case e.outcome == outcomeProvider, e.outcome == outcomeRefused:
		return free, usage{}, false
	}
	u, estimated := e.used, false
	u.ok = u.ok && !c.impossible(u, e.message)
	if !u.ok {
		estimated = true
		u.prompt, u.completion, u.cached = 0, 0, 0
		// Counting is for money and token limits; a free model needs neither.
		if c.held.Micros > 0 || c.s.policy.Budget.Tokens > 0 {
			u.prompt = countTokens(string(c.q.prompt()))
		}
		if e.message != nil {
			u.completion = e.message.tokens()
		}
	}
	if c.o.price.CacheRead == 0 {
		u.cached = 0 // no price rests on it
	}
	return Amount{Micros: c.o.price.billed(u.prompt, u.cached, u.completion), Calls: 1, Tokens: addCapped(u.prompt, u.completion)}, u, estimated
}

// tokens counts what the model wrote.
func (m *Message) tokens() int64 {
	n := countTokens(m.Content) + countTokens(m.Reasoning)
	for _, t := range m.ToolCalls {
		n += countTokens(t.Name) + countTokens(t.Arguments)
	}
	return n
}
