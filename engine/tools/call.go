package tools

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
)

// plan is a call whose arguments were accepted: what it may cost at most, and
// how to make it. Nothing outside was touched yet.
type plan struct {
	worst   agon.Micros
	policy  string
	timeout time.Duration
	model   string
	backend string
	// probe asks the same back end something harmless after it failed.
	probe func(ctx context.Context) error
	run   func(ctx context.Context) (*reply, error)
}

// reply is what a tool answered.
type reply struct {
	response any      // the tool's own shape
	results  []Result // referenceable ones, without ids
	cost     agon.Micros
	usage    *usage
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

// Failure is how a back end failed. Its text is ours; no byte of a provider's
// reply, address or key is in it.
type Failure struct {
	// Class is auth, payment, rate_limit, server, timeout, truncated, bad_reply, refused or not_found.
	Class string
	// Own says that the request itself was at fault: the back end worked.
	Own    bool
	Detail string // for the operator's log only
}

func (f *Failure) Error() string { return "ask tool back end: " + f.Class }

// Classes of failed calls besides those of Failure.
const (
	ClassInvalid     = "invalid"    // the arguments
	ClassNoBackend   = "no_backend" // this host does not serve the tool
	ClassBudget      = "budget"
	ClassBooks       = "books"       // answered, and not booked
	ClassConcurrency = "concurrency" // too many calls at once
	ClassEnded       = "ended"       // the session is over
)

// errNoBackend marks a tool that this host does not serve.
var errNoBackend = errors.New("tool has no back end")

// errBudget marks a call that the session cannot carry.
var errBudget = errors.New("budget does not carry the call")

// errBooks marks a call that was answered and could not be booked: its answer
// may not be given, and settle has said whose failure that is.
type errBooks struct{ error }

const (
	callTimeout = 60 * time.Second
	longTimeout = 120 * time.Second
	probeTime   = 10 * time.Second
)

// call makes one call: arguments, reserve, run, settle, receipt. text is the
// sentence of a failure, class what it was.
func (s *Session) call(inv invocation) (out any, text, class string) {
	start := s.host.cfg.Now().UTC()
	if inv.Args == nil {
		inv.Args = []json.RawMessage{}
	}
	if inv.Kwargs == nil {
		inv.Kwargs = map[string]json.RawMessage{}
	}
	request, err := canonical(map[string]any{"args": inv.Args, "kwargs": inv.Kwargs})
	if err != nil {
		s.refused()
		return nil, TextInvalid, ClassInvalid
	}
	p, err := s.plan(inv)
	if err != nil {
		s.refused()
		switch {
		case errors.Is(err, errNoBackend):
			return nil, TextSession, ClassNoBackend
		case errors.Is(err, errBudget):
			s.failed(Receipt{Tool: inv.Tool, IssuedAt: start, Outcome: OutcomeBudget, Request: request, Error: "budget"})
			return nil, TextFailed, ClassBudget
		}
		return nil, TextInvalid, ClassInvalid
	}
	id := uuid.NewString()
	r := Receipt{
		ReceiptID: id, Tool: inv.Tool, IssuedAt: start, Request: request, Policy: p.policy, Model: p.model, Backend: p.backend, Reserved: p.worst,
	}
	// Reserved before anything is asked: what this session cannot pay for never
	// reaches a provider. (The original charged after the call.)
	if err := s.reserve(id, p.worst); err != nil {
		s.refused()
		r.Outcome, r.Error = OutcomeBudget, "budget"
		s.failed(r)
		return nil, TextFailed, ClassBudget
	}
	if p.timeout <= 0 {
		p.timeout = callTimeout
		if s.host.cfg.CallTimeout > 0 {
			p.timeout = s.host.cfg.CallTimeout
		}
	}
	// The session's life, not the connection's, bounds the call: one that hangs
	// up has still been paid for.
	cctx, cancel := context.WithTimeout(s.ctx, p.timeout)
	defer cancel()
	got, err := p.run(cctx)
	if err == nil {
		out, err = s.finish(&r, got)
	}
	if err != nil {
		r.Outcome = OutcomeProvider
		var f *Failure
		switch {
		case errors.As(err, &errBooks{}):
			s.host.cfg.Log.Error("tool call", "session", s.id, "error", err)
			return nil, TextFailed, ClassBooks
		case errors.As(err, &f):
			r.Error = f.Class
			if f.Class == "timeout" {
				r.Outcome = OutcomeTimeout
			}
		case cctx.Err() != nil:
			f = &Failure{Class: "timeout"}
			r.Outcome, r.Error = OutcomeTimeout, "timeout"
		default:
			f = &Failure{Class: "bad_reply", Detail: err.Error()}
			r.Error = f.Class
		}
		if s.ctx.Err() != nil {
			f.Own = true // we cut it off ourselves
		}
		if err := s.settle(&r, 0); err != nil { // a failed call is not billed to the script
			s.host.cfg.Log.Error("tool call", "session", s.id, "error", err)
		}
		s.blame(p, f)
		s.host.cfg.Log.Warn("tool call failed", "tool", inv.Tool, "backend", p.backend, "class", f.Class, "detail", f.Detail)
		s.failed(r)
		if f.Own && f.Class == "refused" {
			return nil, TextInvalid, ClassInvalid
		}
		return nil, TextFailed, f.Class
	}
	s.mu.Lock()
	s.ev.Calls++
	if p.probe != nil {
		s.ev.Recovered = s.ev.ProviderErrors > 0
	}
	s.mu.Unlock()
	if s.spentAll() {
		return nil, TextFailed, ClassBudget // its receipt stands
	}
	return out, "", ""
}

// blame books a failure as the back end's or the script's own.
func (s *Session) blame(p *plan, f *Failure) {
	canary := false
	if !f.Own && p.probe != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), probeTime)
		canary = p.probe(ctx) != nil
		cancel()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ev.Calls++
	if f.Own {
		s.ev.AgentErrors++
		return
	}
	s.ev.ProviderErrors++
	s.ev.LastError, s.ev.Recovered = f.Class, false
	s.ev.CanaryFailed = s.ev.CanaryFailed || canary
}

func (s *Session) failed(r Receipt) {
	if r.ReceiptID == "" {
		r.ReceiptID = uuid.NewString()
	}
	s.stamp(&r)
	s.write(r)
}

func (s *Session) stamp(r *Receipt) {
	r.SessionID, r.UID, r.RequestHash = s.id, s.cfg.UID, hexSum(r.Request)
	r.ElapsedMS = s.host.cfg.Now().Sub(r.IssuedAt).Milliseconds()
}

// finish settles a call that was answered, writes its receipt and makes the answer.
func (s *Session) finish(r *Receipt, got *reply) (any, error) {
	response, err := json.Marshal(got.response)
	if err != nil || len(response) > maxReply/2 {
		return nil, &Failure{Class: "bad_reply", Detail: "reply is too large"}
	}
	canon, err := canonical(json.RawMessage(response))
	if err != nil {
		return nil, &Failure{Class: "bad_reply", Detail: "reply cannot be hashed"}
	}
	r.Response, r.ResponseHash, r.Outcome = response, hexSum(canon), OutcomeOK
	r.Results = got.results
	if r.Policy == LogOnly {
		r.Results = []Result{{Raw: response}}
	}
	for i := range r.Results {
		r.Results[i].Index, r.Results[i].ResultID = i, strings.ReplaceAll(uuid.NewString(), "-", "")
	}
	if got.usage != nil {
		r.Prompt, r.Completion = got.usage.Prompt, got.usage.Completion
	}
	if err := s.settle(r, got.cost); err != nil {
		return nil, errBooks{err}
	}
	s.stamp(r)
	s.write(*r)
	type shown struct {
		Index    int              `json:"index"`
		ResultID string           `json:"result_id"`
		URL      *string          `json:"url"`
		Note     *string          `json:"note"`
		Title    *string          `json:"title"`
		Raw      *json.RawMessage `json:"raw"`
	}
	list := make([]shown, 0, len(r.Results))
	for _, x := range r.Results {
		v := shown{x.Index, x.ResultID, x.URL, x.Note, x.Title, nil}
		if x.Raw != nil {
			v.Raw = &x.Raw
		}
		list = append(list, v)
	}
	return map[string]any{
		"receipt_id": r.ReceiptID, "response": json.RawMessage(response), "results": list, "result_policy": r.Policy,
		"cost_usd": usd(r.Cost), "usage": got.usage, "budget": s.snapshot(),
	}, nil
}

// plan reads the arguments of a call.
func (s *Session) plan(inv invocation) (*plan, error) {
	if s.cfg.Query != nil {
		return s.planQuery(inv)
	}
	a := &args{kw: inv.Kwargs}
	if len(inv.Args) > 0 && inv.Tool != Test {
		return nil, errInvalid
	}
	switch inv.Tool {
	case Test:
		return planTest(a, inv.Args)
	case Info:
		return static(a.done(), infoReply(s.cfg.Models))
	case LLMChat:
		return s.planChat(a)
	case SearchRepo, GetRepoFile:
		return s.planRepo(inv.Tool, a)
	case SearchItems:
		return s.planItems(a)
	}
	return s.planSearch(inv.Tool, a)
}

func planTest(a *args, positional []json.RawMessage) (*plan, error) {
	if len(positional) == 1 && a.kw["message"] == nil {
		a.kw = maps.Clone(a.kw)
		a.kw["message"] = positional[0]
	} else if len(positional) > 0 {
		return nil, errInvalid
	}
	message := a.str("message", true, maxText/4)
	return static(a.done(), map[string]any{"status": "ok", "echo": message})
}

// static is a free call that is answered here.
func static(err error, response any) (*plan, error) {
	if err != nil {
		return nil, err
	}
	return &plan{policy: LogOnly, backend: "host", run: func(context.Context) (*reply, error) {
		return &reply{response: response}, nil
	}}, nil
}
