// Package trajectory turns the events of an attempt into the forms in which
// others read trajectories: ATIF v1.7 and OpenAI chat messages. It takes
// nothing but what the gateway and the engine wrote. All text in its output is
// an agent's or a model's: hostile.
package trajectory

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// Meta is what events do not say about a run.
type Meta struct {
	Run, Arena, Submission string
	Agent                  string // name for people
	Version                string // of the agent: the submission's digest
	Task                   string // only what belongs to this task of the run; empty: all
	Kind                   string // of the arena; optional
	Rules                  *Rules // of its kind; nil: only marks give credit
}

// message is one message of a conversation, in OpenAI's shape.
type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content,omitempty"`
	Name       string          `json:"name,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	ToolCalls  []toolCall      `json:"tool_calls,omitempty"`
	// Reasoning is kept beside the message; no request carries it.
	Reasoning string `json:"-"`

	plain   string // text, once settled
	settled bool
}

// settle works the text out once, for messages that are compared often.
func (m *message) settle() { m.plain, m.settled = m.text(), true }

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// text is the content as plain text: a string, or the text parts together.
func (m message) text() string {
	if m.settled {
		return m.plain
	}
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &parts) // anything else has no text
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// same reports whether two messages say the same. The model's own message
// comes back from the agent in its own spelling, so texts are compared, not bytes.
func (m *message) same(o *message) bool {
	if m.Role != o.Role || m.ToolCallID != o.ToolCallID || m.text() != o.text() || len(m.ToolCalls) != len(o.ToolCalls) {
		return false
	}
	for i, c := range m.ToolCalls {
		d := o.ToolCalls[i]
		if c.ID != d.ID || c.Function != d.Function {
			return false
		}
	}
	return true
}

// turn is one chat call: what was asked, what was answered.
type turn struct {
	receipt  agon.Receipt
	at       time.Time // of the event
	messages []message
	tools    json.RawMessage
	reply    *message
	finish   string
	tokens   *gateway.Tokens
	cut      bool // the request is not whole: messages is empty
}

// run is what the events of one attempt hold.
type run struct {
	attempt int
	turns   []turn
	tools   []gateway.ToolCallEvent // metered tools
	credits []Credit                // of each of tools
	score   *agon.Score
	outcome string
	fault   string
	skipped int // model calls that are not chat, and failed ones
}

// parse reads the events of the last attempt that has any, or of the one named.
func parse(events []agon.Event, attempt int, meta Meta) (*run, error) {
	if attempt == 0 {
		for _, e := range events {
			attempt = max(attempt, e.Attempt)
		}
	}
	r := &run{attempt: attempt}
	found := false
	tell := newTeller(meta.Rules)
	for _, e := range events {
		if e.Attempt != attempt || meta.Task != "" && e.Task != "" && e.Task != meta.Task {
			continue
		}
		found = true
		switch e.Type {
		case agon.EventModel:
			var m gateway.ModelCall
			if err := json.Unmarshal(e.Data, &m); err != nil {
				r.skipped++ // cut by a full log
				continue
			}
			t, ok := turnOf(m)
			if !ok || t.cut {
				if own(m.Receipt) {
					tell.failed(m.Receipt.ID)
				}
			} else {
				tell.turn(&t)
			}
			if ok {
				t.at = e.At
				r.turns = append(r.turns, t)
			} else {
				r.skipped++
			}
		case agon.EventTool:
			var t gateway.ToolCallEvent
			if json.Unmarshal(e.Data, &t) == nil && t.Receipt.ID != "" {
				r.tools = append(r.tools, t)
				r.credits = append(r.credits, tell.tool(&t))
			}
		case agon.EventScore:
			var s agon.Score
			if json.Unmarshal(e.Data, &s) == nil {
				r.score = &s
			}
		case agon.EventPhase:
			var p struct{ Outcome, Fault string }
			if json.Unmarshal(e.Data, &p) == nil && p.Outcome != "" {
				r.outcome, r.fault = p.Outcome, p.Fault
			}
		}
	}
	if !found {
		return nil, errors.New("read trajectory: the run has no events of this attempt")
	}
	return r, nil
}

// turnOf reads a chat call of the run's own agent; judges are not part of its trajectory.
func turnOf(m gateway.ModelCall) (turn, bool) {
	if m.Message == nil || (m.Receipt.Payer != "" && m.Receipt.Payer != "run") {
		return turn{}, false
	}
	t := turn{receipt: m.Receipt, finish: m.Message.Finish, tokens: m.Tokens, reply: replyOf(*m.Message), cut: m.Request.Cut}
	if t.cut {
		return t, true
	}
	body := []byte(m.Request.Text)
	if m.Request.Base64 != nil {
		body = m.Request.Base64
	}
	var q struct {
		Messages []message       `json:"messages"`
		Tools    json.RawMessage `json:"tools"`
	}
	if json.Unmarshal(body, &q) != nil || len(q.Messages) == 0 {
		return turn{}, false
	}
	t.messages, t.tools = q.Messages, q.Tools
	return t, true
}

func replyOf(m gateway.Message) *message {
	content, err := json.Marshal(m.Content)
	if err != nil {
		content = []byte(`""`)
	}
	out := callsOf(m)
	out.Content = content
	return out
}

// callsOf is replyOf without the content.
func callsOf(m gateway.Message) *message {
	out := &message{Role: "assistant", Reasoning: m.Reasoning}
	for _, c := range m.ToolCalls {
		tc := toolCall{ID: c.ID, Type: "function"}
		tc.Function.Name, tc.Function.Arguments = c.Name, c.Arguments
		out.ToolCalls = append(out.ToolCalls, tc)
	}
	return out
}

// thread is a conversation as it grows: what was said so far.
type thread struct {
	said  []message
	steps []int // of each message, where it stands in the output; -1 unknown
	last  int   // index of the turn that grew it last
}

// grow finds the thread that a turn goes on with, the one that shares most of
// its beginning, and how many of its messages are known. A turn that shares
// nothing with any begins a thread of its own.
func grow(threads []*thread, t turn) (*thread, int) {
	var best *thread
	known := 0
	for _, th := range threads {
		n := 0
		for n < len(th.said) && n < len(t.messages) && th.said[n].same(&t.messages[n]) {
			n++
		}
		// A thread is only gone on with as a whole: else it is a branch.
		if n == len(th.said) && n > known {
			best, known = th, n
		}
	}
	return best, known
}

// OpenAI writes one conversation a line: {"messages", "tools", "run",
// "attempt", "model", "receipts", "score"}, each conversation in full, in the
// order in which they began. The last message of each is the model's.
func OpenAI(events []agon.Event, attempt int, m Meta) ([][]byte, error) {
	r, err := parse(events, attempt, m)
	if err != nil {
		return nil, err
	}
	type line struct {
		Messages []message       `json:"messages"`
		Tools    json.RawMessage `json:"tools,omitempty"`
		Run      string          `json:"run"`
		Attempt  int             `json:"attempt"`
		Arena    string          `json:"arena,omitempty"`
		Agent    string          `json:"agent,omitempty"`
		Model    string          `json:"model"`
		Receipts []string        `json:"receipts"`
		Score    *float64        `json:"score"`
	}
	var threads []*thread
	var lines []*line
	for _, t := range r.turns {
		if t.cut {
			continue
		}
		th, _ := grow(threads, t)
		i := slices.Index(threads, th)
		if th == nil {
			i = len(threads)
			threads = append(threads, &thread{})
			lines = append(lines, &line{Run: m.Run, Attempt: r.attempt, Arena: m.Arena, Agent: m.Agent})
		}
		said := append(slices.Clone(t.messages), *t.reply)
		threads[i].said = said
		l := lines[i]
		l.Messages, l.Tools, l.Model = said, t.tools, t.receipt.Model
		l.Receipts = append(l.Receipts, t.receipt.ID)
		if r.score != nil {
			l.Score = &r.score.Value
		}
	}
	out := make([][]byte, len(lines))
	for i, l := range lines {
		if out[i], err = json.Marshal(l); err != nil {
			return nil, fmt.Errorf("write conversation: %w", err)
		}
	}
	return out, nil
}
