package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// Step is one event as the viewer shows it.
type Step struct {
	Cursor  string // ATTEMPT.SEQ
	Seq     int64
	Attempt int
	Run     string
	At      time.Time
	Task    string
	Type    string
	Icon    string
	Title   string
	Facts   []string
	Bad     bool
	Blocks  []Block
	// Withheld: the reader may know that it happened, not what it was.
	Withheld bool
}

// Block is a piece of text in a step. Agent text is fenced: it was written by
// a model, an agent or a task, and is never ours.
type Block struct {
	Label  string
	Text   string
	Agent  bool
	Folded bool
	More   bool       // the rest is on the event's own page
	Diff   []diffLine // instead of Text: lines by which it differs from an earlier one
}

// event data as far as the viewer reads it; unknown fields are skipped.
type modelData struct {
	Receipt  agon.Receipt `json:"receipt"`
	Request  cutText      `json:"request"`
	Response cutText      `json:"response"`
	Message  struct {
		Content   string `json:"content"`
		Reasoning string `json:"reasoning"`
		ToolCalls []struct {
			ID        string `json:"id"`
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"tool_calls"`
		Finish string `json:"finish_reason"`
	} `json:"message"`
	Error string `json:"error"`
}

type cutText struct {
	Text  string `json:"text"`
	Bytes int    `json:"bytes"`
	Head  string `json:"head"`
}

func (c cutText) body() string {
	if c.Text == "" {
		return c.Head
	}
	return c.Text
}

type toolData struct {
	Receipt   *agon.Receipt   `json:"receipt"`
	Arguments json.RawMessage `json:"arguments"`
	Response  cutText         `json:"response"`
	Nonce     string          `json:"nonce"`
	Error     string          `json:"error"`
	Tool      *struct {
		Tool      string          `json:"tool"`
		Outcome   string          `json:"outcome"`
		Elapsed   int64           `json:"elapsed_ms"`
		Cost      agon.Micros     `json:"cost_micros"`
		Request   json.RawMessage `json:"request"`
		Response  json.RawMessage `json:"response"`
		ReceiptID string          `json:"receipt_id"`
	} `json:"tool"`
}

// Slim says that nothing of a step stands open: it takes one line.
func (s Step) Slim() bool {
	return !slices.ContainsFunc(s.Blocks, func(b Block) bool { return !b.Folded })
}

// step makes a step of an event. limit bounds each block.
func (t *talk) step(e agon.Event, limit int) Step {
	s := Step{
		Cursor: fmt.Sprintf("%d.%d", e.Attempt, e.Seq), Seq: e.Seq, Attempt: e.Attempt, Run: e.Run, At: e.At, Task: plain.Line(e.Task), Type: e.Type,
		Title: strings.ReplaceAll(plain.Line(e.Type), "_", " "), Icon: "note",
	}
	if string(e.Data) == `{"withheld":true}` {
		s.Withheld = true
		return s
	}
	b := blocks{limit: limit}
	switch e.Type {
	case agon.EventModel:
		s.model(e.Data, t, &b)
	case agon.EventTool:
		s.tool(e.Data, &b)
	case agon.EventOutput:
		var d struct {
			Stream, Text string
			Truncated    bool
		}
		_ = json.Unmarshal(e.Data, &d) // what does not parse shows as nothing
		s.Icon, s.Title = "out", "output on "+plain.Line(d.Stream)
		b.agent("", d.Text, false)
	case agon.EventPhase, agon.EventBox, agon.EventScore, agon.EventNote, agon.EventRefused:
		s.plain(e, &b)
	default:
		b.add("", string(e.Data), true)
	}
	s.Blocks = b.list
	return s
}

type blocks struct {
	limit int
	list  []Block
}

func (b *blocks) put(label, body string, agent, folded bool) {
	if body == "" {
		return
	}
	t, more := text(body, b.limit)
	b.list = append(b.list, Block{Label: label, Text: t, Agent: agent, Folded: folded, More: more})
}

func (b *blocks) agent(label, body string, folded bool) { b.put(label, body, true, folded) }
func (b *blocks) add(label, body string, folded bool)   { b.put(label, body, false, folded) }

func (s *Step) receipt(r agon.Receipt) {
	s.Facts = append(s.Facts, r.End.Sub(r.Start).Round(time.Millisecond).String(), usd(r.Cost))
	if r.Prompt+r.Completion > 0 {
		s.Facts = append(s.Facts, fmt.Sprintf("%d + %d tokens", r.Prompt, r.Completion))
	}
	if r.Provider != "" {
		s.Facts = append(s.Facts, "by "+plain.Line(r.Provider))
	}
	if r.Estimated {
		s.Facts = append(s.Facts, "usage estimated")
	}
	if r.Outcome != "ok" {
		s.Bad = true
		s.Facts = append(s.Facts, plain.Line(r.Outcome)+", status "+strconv.Itoa(r.Status))
	}
	if r.Emitted != "" {
		s.Facts = append(s.Facts, "asked for by the model")
	}
	s.Facts = append(s.Facts, "receipt "+plain.Line(r.ID))
}

func (s *Step) model(data json.RawMessage, t *talk, b *blocks) {
	var d modelData
	if json.Unmarshal(data, &d) != nil {
		b.add("", string(data), true)
		return
	}
	s.Icon, s.Title = "model", "model call: "+plain.Line(d.Receipt.Model)
	s.receipt(d.Receipt)
	fresh, before := t.fresh(s, d.Request.body(), b)
	if before > 0 {
		s.Facts = append(s.Facts, plain.Count(before, "earlier message")+" folded")
	}
	for _, m := range fresh {
		b.agent(m.Role, m.text(), m.Role == "system")
	}
	if len(fresh)+before == 0 {
		b.agent("request", d.Request.body(), true)
	}
	b.agent("reasoning", d.Message.Reasoning, true)
	b.agent("model", d.Message.Content, false)
	for _, c := range d.Message.ToolCalls {
		b.agent("asks for "+plain.Line(c.Name), indent([]byte(c.Arguments)), false)
	}
	if d.Message.Content == "" && len(d.Message.ToolCalls) == 0 {
		b.agent("response", d.Response.body(), true)
	}
	b.add("error", d.Error, false)
}

func (s *Step) tool(data json.RawMessage, b *blocks) {
	var d toolData
	if json.Unmarshal(data, &d) != nil {
		b.add("", string(data), true)
		return
	}
	s.Icon = "tool"
	switch {
	case d.Tool != nil:
		t := d.Tool
		s.Title = "tool call: " + plain.Line(t.Tool)
		s.Facts = append(s.Facts, showMS(t.Elapsed), usd(t.Cost), "receipt "+plain.Line(t.ReceiptID))
		if t.Outcome != "ok" {
			s.Bad = true
			s.Facts = append(s.Facts, plain.Line(t.Outcome))
		}
		b.agent("arguments", indent(t.Request), false)
		b.agent("result", indent(t.Response), true)
	case d.Receipt != nil:
		s.Title = "tool call: " + plain.Line(d.Receipt.Model)
		s.receipt(*d.Receipt)
		if d.Nonce != "" {
			s.Facts = append(s.Facts, "nonce "+plain.Line(d.Nonce))
		}
		b.agent("arguments", indent(d.Arguments), false)
		b.agent("result", indent([]byte(d.Response.body())), true)
		b.add("error", d.Error, false)
	default:
		b.add("", string(data), true)
	}
}

func (s *Step) plain(e agon.Event, b *blocks) {
	var d map[string]any
	if json.Unmarshal(e.Data, &d) != nil {
		b.add("", string(e.Data), true)
		return
	}
	str := func(k string) string {
		v, _ := d[k].(string)
		return plain.Line(v)
	}
	switch e.Type {
	case agon.EventPhase:
		s.Icon, s.Title = "phase", str("phase")
		if o := str("outcome"); o != "" {
			s.Facts = append(s.Facts, "outcome "+o)
		}
		if f := str("fault"); f != "" {
			s.Bad = true
			s.Facts = append(s.Facts, "fault "+f, str("reason"))
		}
	case agon.EventBox:
		s.Icon, s.Title = "box", "box "+str("role")+": "+str("action")
		if ms, ok := d["ms"].(float64); ok {
			s.Facts = append(s.Facts, showMS(int64(ms)))
		}
	case agon.EventScore:
		s.Icon, s.Title = "score", "score"
		if v, ok := d["value"].(float64); ok {
			s.Title = "score " + showScore(v)
		}
		b.agent("", str("detail"), false)
	case agon.EventNote:
		b.add("", str("text"), false)
		return
	case agon.EventRefused:
		s.Icon, s.Bad, s.Title = "refused", true, "refused: "+str("code")
		b.add("", str("message"), false)
	}
	b.add("data", indent(e.Data), true)
}

// indent lays JSON out for reading; what is not JSON stays as it is.
func indent(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	var out bytes.Buffer
	if len(b) > maxWhole || json.Indent(&out, b, "", "  ") != nil {
		return string(b)
	}
	return out.String()
}
