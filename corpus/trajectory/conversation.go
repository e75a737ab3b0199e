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
}

// SaidCall is a tool call of a message; Arguments is the JSON text as it was sent.
type SaidCall struct{ ID, Name, Arguments string }

// Evidence counts what the gateway knows of an attempt's tool calls.
type Evidence struct {
	ModelCalls int
	Dispatched int // calls of the gateway's own tools
	Credited   int // of these, by a mark that a model's reply carried
	Skipped    int // model calls that are no chat, failed or cut
}

// Conversations returns the threads of an attempt (0: the last), in the order in which they began.
func Conversations(events []agon.Event, attempt int) ([]Conversation, Evidence, error) {
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
				if t.Receipt.Emitted != "" {
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
			continue
		}
		ev.ModelCalls++
		if t.cut {
			ev.Skipped++
			continue
		}
		t.reply.settle()
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
		said.Receipt, said.Cost = t.receipt.ID, t.receipt.Cost
		c.Said = append(c.Said, said)
		threads[i].said = append(slices.Clone(t.messages), *t.reply)
		c.Model, c.Provider = t.receipt.Model, t.receipt.Provider
		c.Receipts = append(c.Receipts, t.receipt.ID)
		c.Tools, last = rd.offered(t.tools, last), t.tools
	}
	if !found {
		return nil, Evidence{}, errors.New("read trajectory: the run has no events of this attempt")
	}
	return out, ev, nil
}

func saidOf(m message, byModel bool) Said {
	s := Said{Role: m.Role, Content: m.text(), Reasoning: m.Reasoning, Name: m.Name, ToolCallID: m.ToolCallID, ByModel: byModel}
	for _, c := range m.ToolCalls {
		s.Calls = append(s.Calls, SaidCall{c.ID, c.Function.Name, c.Function.Arguments})
	}
	return s
}
