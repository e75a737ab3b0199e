package trajectory

import (
	"encoding/json"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// How a call of the gateway's tools was credited to a model.
const (
	// ByNonce: it brought the mark that the gateway had put into the reply that asked for it.
	ByNonce = "nonce"
	// ByOrder: it is the next one of what the last reply asked for.
	ByOrder = "order"
	// ByPart: it is a part of a call of the last reply that is made of several at the gateway.
	ByPart = "part"
)

// Limits of what is credited.
const (
	maxAsked = 64 // calls of one reply
	maxParts = 61 // calls at the gateway that one call may be made of
)

// Rules say how the agents of a kind carry out what a model asks for. Without
// rules only marks count.
type Rules struct {
	// Same reports whether sent, a call at the gateway, is what a model asked for.
	Same func(asked, sent SaidCall) bool
	// Part reports whether sent is one of the calls that asked is made of. Optional.
	Part func(asked, sent SaidCall) bool
}

// Credit says who asked for a call of the gateway's tools: no model if How is empty.
type Credit struct {
	How     string
	Receipt string // of the model's call that asked for it
	Call    int    // its place among what that reply asked for; -1: not known
}

// Creditor gives credit for the calls of one problem, in the order of the
// gateway's log. A new reply replaces what was asked for before and not done.
type Creditor struct {
	rules   *Rules
	receipt string
	calls   []SaidCall
	from    int // calls before it are done, or were skipped
	part    int // the call under way that is made of several; -1: none
	used    int // calls that it has paid for
}

// NewCreditor returns a creditor by the rules of a kind, which may be nil.
func NewCreditor(r *Rules) *Creditor {
	if r == nil {
		r = &Rules{}
	}
	return &Creditor{rules: r, part: -1}
}

// Model notes a reply and what it asked for.
func (c *Creditor) Model(receipt string, asked []SaidCall) {
	*c = Creditor{rules: c.rules, receipt: receipt, calls: asked[:min(len(asked), maxAsked)], part: -1}
}

// Tool gives credit for a call at the gateway; emitted is the receipt of the
// reply whose mark it brought, if it brought one.
func (c *Creditor) Tool(sent SaidCall, emitted string) Credit {
	how, at := c.take(sent)
	if emitted != "" {
		if emitted != c.receipt {
			at = -1
		}
		return Credit{ByNonce, emitted, at}
	}
	if how == "" {
		return Credit{Call: -1}
	}
	return Credit{how, c.receipt, at}
}

// take credits a dispatch to the queue: the first call in it that asks for
// exactly this is done, and what stood before it was skipped.
func (c *Creditor) take(sent SaidCall) (how string, at int) {
	isPart := func(asked SaidCall) bool { return c.rules.Part != nil && c.rules.Part(asked, sent) }
	if c.part >= 0 && c.used < maxParts && isPart(c.calls[c.part]) {
		c.used++
		return ByPart, c.part
	}
	for i := c.from; i < len(c.calls); i++ {
		switch a := c.calls[i]; {
		case a.Name == sent.Name && c.rules.Same != nil && c.rules.Same(a, sent):
			c.from, c.part = i+1, -1
			return ByOrder, i
		case isPart(a):
			c.from, c.part, c.used = i+1, i, 1
			return ByPart, i
		}
	}
	return "", -1
}

// Asked is what a reply asked for: its tool calls, or those in its text.
func Asked(m *gateway.Message) []SaidCall {
	if m == nil {
		return nil
	}
	if len(m.ToolCalls) == 0 {
		calls, _, _ := Spoken(m.Content)
		return calls
	}
	out := make([]SaidCall, 0, min(len(m.ToolCalls), maxAsked))
	for _, t := range m.ToolCalls[:min(len(m.ToolCalls), maxAsked)] {
		out = append(out, SaidCall{t.ID, t.Name, t.Arguments})
	}
	return out
}

// teller goes over the log of one problem: it credits calls, and tells the
// conversations of agents that call tools in text as if they had called them by name.
type teller struct {
	credit *Creditor
	talks  []*talk
	// got are what the gateway's tools answered to calls of a reply, by its receipt.
	got map[string]map[int]string
}

func newTeller(r *Rules) *teller {
	return &teller{credit: NewCreditor(r), got: map[string]map[int]string{}}
}

// failed notes a model call that brought no reply: what was asked before is stale.
func (s *teller) failed(receipt string) { s.credit.Model(receipt, nil) }

// turn notes a model's reply and rewrites the turn where calls are text.
func (s *teller) turn(t *turn) {
	asked := make([]SaidCall, 0, len(t.reply.ToolCalls))
	for _, c := range t.reply.ToolCalls {
		asked = append(asked, SaidCall{c.ID, c.Function.Name, c.Function.Arguments})
	}
	if len(asked) == 0 {
		asked = s.spoken(t)
	}
	s.credit.Model(t.receipt.ID, asked)
}

// tool credits a call of a gateway's tool and keeps what it answered.
func (s *teller) tool(t *gateway.ToolCallEvent) Credit {
	c := s.credit.Tool(SaidCall{Name: t.Receipt.Model, Arguments: string(t.Arguments)}, t.Receipt.Emitted)
	if c.How != "" && c.How != ByPart && c.Call >= 0 {
		if s.got[c.Receipt] == nil {
			s.got[c.Receipt] = map[int]string{}
		}
		if _, twice := s.got[c.Receipt][c.Call]; !twice {
			s.got[c.Receipt][c.Call] = t.Response.Text
		}
	}
	return c
}

// own reports that the run's agent pays for a call: judges are not part of its log.
func own(r agon.Receipt) bool { return r.Payer == "" || r.Payer == "run" }

// payer is what is read of a model call that is not a chat.
func payer(data []byte) (agon.Receipt, bool) {
	var m struct {
		Receipt agon.Receipt `json:"receipt"`
	}
	return m.Receipt, json.Unmarshal(data, &m) == nil
}
