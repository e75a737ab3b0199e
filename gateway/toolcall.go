package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/tool"
	"github.com/agon-arena/agon/internal/plain"
)

const (
	toolsPath   = "/v1/tools"
	toolTimeout = 2 * time.Minute
)

// tool finds a tool that the session may call.
func (s *session) tool(name string) tool.Tool {
	if !slices.Contains(s.policy.Tools, name) && !slices.Contains(s.policy.Tools, "*") {
		return nil
	}
	for _, t := range s.g.cfg.Tools {
		if t.Name() == name {
			return t
		}
	}
	return nil
}

// toolsDialect lists and calls metered tools.
func toolsDialect() Dialect {
	return Dialect{Name: DialectTools, Serve: func(x *Exchange) bool {
		name, below := strings.CutPrefix(x.R.URL.Path, toolsPath+"/")
		switch {
		case x.R.Method == http.MethodGet && x.R.URL.Path == toolsPath:
			x.s.listTools(x.W)
		case x.R.Method == http.MethodPost && below:
			x.Tool(toolsPath+"/"+plain.Head(name, 64), name, func() ([]byte, error) {
				args, ref := readBody(x.W, x.R)
				switch {
				case ref != nil:
					return nil, ref
				case len(args) > MaxToolArgs:
					return nil, &Refusal{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Message: fmt.Sprintf("body is larger than %d bytes", MaxToolArgs)}
				}
				return args, nil
			})
		default:
			return false
		}
		return true
	}}
}

func (s *session) listTools(w http.ResponseWriter) {
	type entry struct {
		Name      string      `json:"name"`
		PerCall   agon.Micros `json:"micros_per_call"`
		PerResult agon.Micros `json:"micros_per_result"`
	}
	list := []entry{}
	for _, t := range s.g.cfg.Tools {
		if s.tool(t.Name()) != nil {
			list = append(list, entry{t.Name(), t.Price().PerCall, t.Price().PerResult})
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"data": list})
}

// callTool serves one metered call: the same books, receipts and limits as a model's.
func (s *session) callTool(w http.ResponseWriter, r *http.Request, route, name string, read func() ([]byte, error)) {
	refuse := func(ref *Refusal) {
		s.refused(route, ref, ref.Status)
		ref.write(w)
	}
	if ref := s.slot(r.Context()); ref != nil {
		refuse(ref)
		return
	}
	defer func() { <-s.slots }()
	args, err := read()
	if err == nil {
		err = checkJSON(args)
	}
	if err != nil {
		var ref *Refusal
		if !errors.As(err, &ref) {
			ref = badRequest(err)
		}
		refuse(ref)
		return
	}
	t := s.tool(name)
	if t == nil {
		refuse(&Refusal{Status: http.StatusNotFound, Code: "tool_not_found", Param: "name", Message: fmt.Sprintf("tool: %.64q is not offered here", name)})
		return
	}
	checked, err := t.Check(args)
	if err != nil {
		refuse(badRequest(err))
		return
	}
	p := t.Price()
	held := Amount{Micros: toolCost(p, p.MaxResults), Calls: 1}
	n := s.calls.Add(1)
	c := &toolCall{s: s, t: t, id: fmt.Sprintf("%s-%d", s.id, n), args: args, route: route, held: held, start: s.g.cfg.Clock().UTC()}
	if _, err := s.acct.reserve(c.id, held); err != nil {
		var short *ErrBudget
		if errors.As(err, &short) {
			refuse(noBudget(short))
		} else {
			refuse(noBooks())
		}
		return
	}
	c.nonce, c.emitted = s.nonces.check(s.policy.Run, name, r.Header.Get(CallHeader), r.Header.Get(NonceHeader), args)
	w.Header().Set(statusHeader, c.nonce)
	s.mu.Lock()
	s.ev.Calls++
	s.mu.Unlock()
	c.run(w, checked)
}

// toolCost is the price of a call with so many results.
func toolCost(p tool.Price, results int64) agon.Micros {
	return p.PerCall + p.PerResult*agon.Micros(min(max(results, 0), p.MaxResults))
}

type toolCall struct {
	s              *session
	t              tool.Tool
	id, route      string
	args           []byte
	held           Amount
	start          time.Time
	nonce, emitted string
}

func (c *toolCall) run(w http.ResponseWriter, checked any) {
	ctx, cancel := context.WithTimeout(c.s.ctx, toolTimeout)
	defer cancel()
	settled := false
	defer func() {
		if !settled { // a tool panicked: its money must not stay held
			_ = c.finish(agon.Receipt{Outcome: outcomeTruncated, Status: http.StatusInternalServerError}, c.held, nil, "")
		}
	}()
	reply, err := c.t.Do(ctx, checked)
	if err == nil && (len(reply.Body) > maxEvent/2 || !json.Valid(reply.Body)) {
		err = &provider.Failure{Class: provider.ClassBadReply, Detail: "tool's reply is not JSON, or too large"}
	}
	settled = true
	if err != nil {
		f := failureOf(err)
		c.s.g.cfg.Log.Warn("tool failed", "session", c.s.id, "tool", c.t.Name(), "class", string(f.Class), "status", f.Status, "detail", f.Detail)
		ref := failed(f)
		ref.Message = "the tool did not answer this call; it may work later"
		if !c.finish(agon.Receipt{Outcome: outcomeProvider, Status: ref.Status}, Amount{Calls: 1}, nil, string(f.Class)) {
			ref = noBooks()
		}
		ref.write(w)
		return
	}
	used := Amount{Micros: toolCost(c.t.Price(), reply.Results), Calls: 1}
	end := agon.Receipt{Outcome: outcomeOK, Status: http.StatusOK}
	if reply.Status >= 400 && reply.Status < 500 {
		used, end = Amount{Calls: 1}, agon.Receipt{Outcome: outcomeRefused, Status: reply.Status}
		c.s.mu.Lock()
		c.s.ev.AgentErrors++
		c.s.mu.Unlock()
	}
	if !c.finish(end, used, reply.Body, "") {
		noBooks().write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(end.Status)
	_, _ = w.Write(reply.Body) // a client that is gone has been paid for
}

// finish settles and records. A tool's failure is noted, but moves no blame:
// only models have a probe.
func (c *toolCall) finish(r agon.Receipt, used Amount, body []byte, class string) bool {
	s := c.s
	r.ID, r.Session, r.Run, r.Attempt, r.Task, r.Payer = c.id, s.id, s.policy.Run, s.policy.Attempt, s.policy.Task, s.policy.Payer
	r.Route, r.Model, r.Provider, r.PriceVersion = c.route, c.t.Name(), c.t.Source(), c.t.Price().Version
	r.RequestHash, r.ResponseHash = agon.Sum(c.args), agon.Sum(body)
	r.Reserved, r.Start, r.End, r.Emitted = c.held.Micros, c.start, s.g.cfg.Clock().UTC(), c.emitted
	booked, err := s.acct.settle(context.WithoutCancel(s.ctx), c.id, used, &r)
	s.recMu.Lock()
	defer s.recMu.Unlock()
	if err != nil {
		s.bookErr = fmt.Errorf("settle call %s: %w", c.id, err)
		return false
	}
	if s.sealed {
		return true
	}
	s.spent += booked.Micros
	s.receipts = append(s.receipts, r)
	s.record(agon.EventTool, ToolCallEvent{
		Receipt: r, Arguments: json.RawMessage(c.args), Response: bodyOf(body, int64(len(body)), maxEvent/2), Nonce: c.nonce, Error: class,
	})
	return true
}
