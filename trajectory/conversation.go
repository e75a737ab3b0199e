package trajectory

import (
	"encoding/json"
	"slices"

	"github.com/agon-arena/agon"
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
	r, err := parse(events, attempt)
	if err != nil {
		return nil, Evidence{}, err
	}
	ev := Evidence{Skipped: r.skipped, Dispatched: len(r.tools)}
	for _, t := range r.tools {
		if t.Receipt.Emitted != "" {
			ev.Credited++
		}
	}
	var threads []*thread
	var out []Conversation
	for _, t := range r.turns {
		ev.ModelCalls++
		if t.cut {
			ev.Skipped++
			continue
		}
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
		c.Tools = nil
		_ = json.Unmarshal(t.tools, &c.Tools) // tools that are no list are none
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
