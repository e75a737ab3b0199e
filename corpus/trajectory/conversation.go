package trajectory

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// Conversation is one thread of chat calls, as it stood at its end.
type Conversation struct {
	Said     []Said
	Tools    []json.RawMessage // offered with the last call
	Model    string
	Provider string // "scripted" is a script, no model
	Receipts []string
	// Sampling are the settings of the last call that say how its words were drawn.
	Sampling map[string]json.RawMessage
}

// Said is one message of a conversation.
type Said struct {
	Role       string
	Content    string
	Reasoning  string
	Name       string
	ToolCallID string
	Calls      []SaidCall
	// ByModel: the gateway saw a model answer exactly this. Messages of the
	// assistant without it were put there by the agent's code.
	ByModel bool
	// Receipt and Cost are of the call that brought it, ByModel only.
	Receipt string
	Cost    agon.Micros
	Finish  string
	// Tokens are what the upstream told of them, where it was asked; nil: nothing.
	Tokens *gateway.Tokens
}

// SaidCall is a tool call of a message; Arguments is the JSON text as it was sent.
type SaidCall struct{ ID, Name, Arguments string }

// Evidence counts what the gateway knows of an attempt's tool calls.
type Evidence struct {
	ModelCalls int
	Dispatched int // calls of the gateway's own tools
	Credited   int // of these, those that a model asked for (see Rules)
	Skipped    int // model calls that are not chat, failed or cut
	// Cost is of the run's own calls, Judged of those that its judges made.
	Cost, Judged agon.Micros
}

// Conversations returns the threads of an attempt (0: the last), in the order in
// which they began. Rules are of the run's kind; nil: only marks give credit.
func Conversations(events []agon.Event, attempt int, rules *Rules) ([]Conversation, Evidence, error) {
	if attempt == 0 {
		for _, e := range events {
			attempt = max(attempt, e.Attempt)
		}
	}
	var ev Evidence
	var rd reader
	var threads []*thread
	var out []Conversation
	var last []byte
	found := false
	tell := newTeller(rules)
	var lasts [][]byte // the last call of each of out
	for i := range events {
		e := &events[i]
		if e.Attempt != attempt {
			continue
		}
		found = true
		switch e.Type {
		case agon.EventTool:
			var t gateway.ToolCallEvent
			if json.Unmarshal(e.Data, &t) == nil && t.Receipt.ID != "" {
				ev.Dispatched++
				ev.Cost += t.Receipt.Cost
				if tell.tool(&t).How != "" {
					ev.Credited++
				}
			}
			continue
		case agon.EventModel:
		default:
			continue
		}
		t, chat, ok := rd.turn(e.Data)
		if !ok || !chat { // cut by a full log, or no chat of the agent's
			ev.Skipped++
			if r, ok := payer(e.Data); ok && own(r) {
				ev.Cost += r.Cost
				tell.failed(r.ID)
			} else if ok {
				ev.Judged += r.Cost
			}
			continue
		}
		ev.ModelCalls++
		ev.Cost += t.receipt.Cost
		if t.cut {
			ev.Skipped++
			tell.failed(t.receipt.ID)
			continue
		}
		t.reply.settle()
		tell.turn(&t)
		th, known := grow(threads, t)
		i := slices.Index(threads, th)
		if th == nil {
			i = len(threads)
			threads = append(threads, &thread{})
			out = append(out, Conversation{})
		}
		c := &out[i]
		for _, m := range t.messages[known:] {
			c.Said = append(c.Said, saidOf(m, false))
		}
		said := saidOf(*t.reply, true)
		said.Receipt, said.Cost, said.Finish, said.Tokens = t.receipt.ID, t.receipt.Cost, t.finish, t.tokens
		c.Said = append(c.Said, said)
		threads[i].said = append(slices.Clone(t.messages), *t.reply)
		c.Model, c.Provider = t.receipt.Model, t.receipt.Provider
		c.Receipts = append(c.Receipts, t.receipt.ID)
		c.Tools, last = rd.offered(t.tools, last), t.tools
		for len(lasts) < len(out) {
			lasts = append(lasts, nil)
		}
		lasts[i] = e.Data
	}
	if !found {
		return nil, Evidence{}, errors.New("read trajectory: the run has no events of this attempt")
	}
	for i := range out {
		out[i].end(tell)
		out[i].Sampling = samplingOf(lasts[i])
	}
	return out, ev, nil
}

// end answers the calls of a conversation's last reply that the gateway has answered.
func (c *Conversation) end(tell *teller) {
	last := len(c.Said) - 1
	if last < 0 || !c.Said[last].ByModel {
		return
	}
	got := tell.got[c.Said[last].Receipt]
	for i, x := range c.Said[last].Calls {
		if text, ok := got[i]; ok {
			c.Said = append(c.Said, Said{Role: "tool", Content: text, Name: x.Name, ToolCallID: x.ID})
		}
	}
}

func saidOf(m message, byModel bool) Said {
	s := Said{Role: m.Role, Content: m.text(), Reasoning: m.Reasoning, Name: m.Name, ToolCallID: m.ToolCallID, ByModel: byModel}
	for _, c := range m.ToolCalls {
		s.Calls = append(s.Calls, SaidCall{c.ID, c.Function.Name, c.Function.Arguments})
	}
	return s
}

// sampling are the fields of a request that Conversation.Sampling keeps.
var sampling = []string{"temperature", "top_p", "top_k", "min_p", "max_tokens", "max_completion_tokens", "seed", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty", "reasoning_effort"}

// samplingOf reads the settings of a model call.
func samplingOf(data []byte) map[string]json.RawMessage {
	var m struct {
		Request gateway.Body `json:"request"`
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &m) != nil || json.Unmarshal(m.Request.Content(), &fields) != nil {
		return nil
	}
	var out map[string]json.RawMessage
	for _, k := range sampling {
		if v := fields[k]; len(v) > 0 && len(v) < 1000 && string(v) != "null" {
			if out == nil {
				out = map[string]json.RawMessage{}
			}
			out[k] = v
		}
	}
	return out
}
