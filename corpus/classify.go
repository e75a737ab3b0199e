// Package corpus turns runs into data that a trainer can trust: records with
// axis, rewards and provenance, filtered, scrubbed, deduplicated, split by leak
// cluster, decontaminated, and written in the formats of trainers. Everything
// is a function of what gateway and engine wrote; no word of an agent decides.
package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus/trajectory"
	"github.com/agon-arena/agon/gateway"
)

// Axis says who acted.
type Axis string

// Axes. Agentic: the model itself asked for nearly all tool calls. Narrated:
// a harness acted and the model only spoke. Sub-task: anything between, and
// whatever had no model at all.
const (
	Agentic  Axis = "agentic"
	SubTask  Axis = "sub_task"
	Narrated Axis = "narrated"
)

// Bounds of the axes, on the ratio of credited tool calls.
const (
	AgenticFrom   = 0.9
	NarratedBelow = 0.1
)

// MaxTokens is the longest record that is kept, in tokens of o200k_base.
const MaxTokens = 14_336

// Reasons for which a record's structure is refused.
const (
	RejectUnanswered   = "unanswered_call"   // a tool call without its result before the model's next turn
	RejectFinalCount   = "final_call_count"  // not exactly one call that hands the answer over
	RejectFinalInvalid = "final_call_bad"    // its arguments do not parse, or name nothing that was found
	RejectTooLong      = "too_long"          // over MaxTokens
	RejectThinkingEnd  = "thinking_only_end" // the model's last turn says and does nothing
)

// Class is what Classify says of a trajectory.
type Class struct {
	Axis    Axis     `json:"axis"`
	Ratio   float64  `json:"ratio"`   // credited tool calls of all; 0 without any
	Rejects []string `json:"rejects"` // sorted as listed above
	Tokens  int      `json:"tokens"`  // o200k_base over the canonical JSON of messages and tools
}

// MaxDocument bounds a foreign ATIF file, in bytes.
const MaxDocument = 64 << 20

// document is an ATIF file as far as this package reads it.
type document struct {
	SchemaVersion string `json:"schema_version"`
	Agent         struct {
		Name  string            `json:"name"`
		Model string            `json:"model_name"`
		Tools []json.RawMessage `json:"tool_definitions"`
	} `json:"agent"`
	Steps []docStep `json:"steps"`
	Extra struct {
		Kind string `json:"kind"`
		// Dispatches are the calls of metered tools and how many of them a model asked
		// for, in a file that was made of a gateway's log.
		Dispatches *struct {
			Metered  int `json:"metered"`
			Credited int `json:"credited"`
		} `json:"dispatches"`
	} `json:"extra"`
}

type docStep struct {
	Source      string                `json:"source"`
	Message     json.RawMessage       `json:"message"`
	Reasoning   string                `json:"reasoning_content"`
	ToolCalls   []trajectory.StepCall `json:"tool_calls"`
	Observation *struct {
		Results []struct {
			Source  string          `json:"source_call_id"`
			Content json.RawMessage `json:"content"`
		} `json:"results"`
	} `json:"observation"`
	Copied   bool            `json:"is_copied_context"`
	LLMCalls *int            `json:"llm_call_count"`
	Metrics  json.RawMessage `json:"metrics"`
}

// byHarness reports that no model made this agent step.
func (s *docStep) byHarness() bool { return s.LLMCalls != nil && *s.LLMCalls == 0 }

// plainText is a message or content: a string, or the text parts together.
func plainText(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// ParseATIF reads a foreign file of at most MaxDocument bytes.
func ParseATIF(b []byte) (*document, error) { //nolint:revive // callers only hand it to Classify
	if len(b) > MaxDocument {
		return nil, fmt.Errorf("read trajectory: %d bytes, at most %d", len(b), MaxDocument)
	}
	if err := trajectory.Validate(b); err != nil {
		return nil, fmt.Errorf("read trajectory: %w", err)
	}
	var d document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("read trajectory: %w", err)
	}
	return &d, nil
}

// ClassifyFile classifies the bytes of an ATIF file. kind says which rules of
// structure hold beside the common ones; empty: what the file itself says.
func ClassifyFile(b []byte, kind string, finals Finals) (Class, error) {
	d, err := ParseATIF(b)
	if err != nil {
		return Class{}, err
	}
	return classify(d, kind, finals)
}

func classify(d *document, kind string, finals Finals) (Class, error) {
	c := Class{Rejects: []string{}}
	calls, credited, models := 0, 0, 0
	for i := range d.Steps {
		s := &d.Steps[i]
		if s.Source != "agent" || s.Copied {
			continue
		}
		if !s.byHarness() {
			models++
			credited += len(s.ToolCalls)
		}
		calls += len(s.ToolCalls)
	}
	if x := d.Extra.Dispatches; x != nil && x.Credited >= 0 && x.Metered >= x.Credited && x.Metered > 0 {
		calls, credited = x.Metered, x.Credited
	}
	if calls > 0 {
		c.Ratio = round(float64(credited)/float64(calls), 6)
	}
	c.Axis = axisOf(c.Ratio, calls, models)
	messages := d.chat()
	if f := finals.of(d, kind); f != nil {
		messages = f.ended(messages)
	}
	messages = closeLast(messages)
	c.Tokens = Tokens(canonicalChat(messages, d.Agent.Tools))
	c.Rejects = append(c.Rejects, structure(messages, finals.of(d, kind))...)
	if c.Tokens > MaxTokens {
		c.Rejects = append(c.Rejects, RejectTooLong)
	}
	slices.SortFunc(c.Rejects, func(a, b string) int { return rejectRank(a) - rejectRank(b) })
	return c, nil
}

func rejectRank(r string) int {
	return slices.Index([]string{RejectUnanswered, RejectFinalCount, RejectFinalInvalid, RejectTooLong, RejectThinkingEnd}, r)
}

func axisOf(ratio float64, calls, models int) Axis {
	switch {
	case calls > 0 && ratio >= AgenticFrom:
		return Agentic
	case ratio < NarratedBelow && models > 0:
		return Narrated
	}
	return SubTask
}

// Message is one message in OpenAI's shape.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Reasoning  string     `json:"reasoning_content,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	Name       string     `json:"name,omitempty"` // of the tool, on tool messages

	harness bool         // no model said this
	receipt string       // of the call that brought it, where the gateway saw one
	cost    *agon.Micros // of that call
	finish  string
	tokens  *gateway.Tokens
}

// ToolCall is a call in OpenAI's shape: Arguments is JSON in a string.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"` // "function"
	Function Function `json:"function"`
}

// Function names what is called.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// chat renders the steps as a conversation. Ids are made unique, since some
// agents repeat theirs.
func (d *document) chat() []Message {
	var out []Message
	seen := map[string]bool{}
	for i := range d.Steps {
		s := &d.Steps[i]
		m := Message{Content: plainText(s.Message)}
		switch s.Source {
		case "system", "user":
			m.Role = s.Source
		default:
			m.Role, m.Reasoning, m.harness = "assistant", s.Reasoning, s.byHarness()
		}
		ids := map[string]string{}
		names := map[string]string{}
		for j, c := range s.ToolCalls {
			id := c.ID
			if seen[id] || id == "" {
				id = fmt.Sprintf("%d_%d_%s", i+1, j, c.ID)
			}
			seen[id] = true
			ids[c.ID], names[c.ID] = id, c.Name
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: id, Type: "function", Function: Function{Name: c.Name, Arguments: arguments(c.Arguments)}})
		}
		if m.Role != "assistant" || m.Content != "" || m.Reasoning != "" || len(m.ToolCalls) > 0 || !s.byHarness() {
			out = append(out, m)
		}
		if s.Observation == nil {
			continue
		}
		for _, r := range s.Observation.Results {
			if id, ok := ids[r.Source]; ok {
				out = append(out, Message{Role: "tool", ToolCallID: id, Name: names[r.Source], Content: plainText(r.Content)})
			}
		}
	}
	return out
}

// arguments are the compact JSON of an object; "_text" is how a call that was not JSON is kept.
func arguments(raw json.RawMessage) string {
	var odd struct {
		Text *string `json:"_text"`
	}
	if json.Unmarshal(raw, &odd) == nil && odd.Text != nil {
		return *odd.Text
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// FinalCall is what a kind demands of the end of a conversation: one call of a
// tool that hands over an answer, which names only what was shown before.
type FinalCall struct {
	Tool string // whose call must come exactly once
	// Marks are tools by which a file that names no kind is taken for one of this
	// kind, besides Tool: it offers or calls one of them.
	Marks []string
	// End is the tool with which an agent ends; what comes after it, and calls
	// nothing more, is not part of the conversation. Optional.
	End string
	// Credit says how agents of the kind carry out what a model asks for.
	Credit *trajectory.Rules
	// Rule and Judge are the scorer's metrics that are the reward by rule and the
	// verdict of a model as judge; empty: the score's value, and "judge".
	Rule, Judge string
	// IDs reads what the call's arguments name. An error refuses the row.
	IDs  func(arguments string) ([]string, error)
	Noun string // what IDs are, for people: "product"
}

// Finals are the final calls of the kinds that have one, by kind.
type Finals map[string]*FinalCall

// named is what the answers of a row name.
func (f Finals) named(r *Row) []string {
	final := f[r.From.Kind]
	if final == nil {
		return nil
	}
	var out []string
	for _, m := range r.Messages {
		for _, c := range m.ToolCalls {
			if c.Function.Name != final.Tool {
				continue
			}
			if ids, err := final.IDs(c.Function.Arguments); err == nil {
				out = append(out, ids...)
			}
		}
	}
	return out
}

// ended cuts what follows the call that ends a conversation, if nothing is called after it.
func (f *FinalCall) ended(list []Message) []Message {
	if f.End == "" {
		return list
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Role != "assistant" || len(list[i].ToolCalls) == 0 || list[i].harness {
			continue // what an agent did by itself may stand after what it asked a model for
		}
		if !slices.ContainsFunc(list[i].ToolCalls, func(c ToolCall) bool { return c.Function.Name == f.End }) {
			return list
		}
		n := i + 1
		for n < len(list) && list[n].Role == "tool" {
			n++
		}
		return list[:n]
	}
	return list
}

// of returns the final call that a file must have; nil: there is none.
func (f Finals) of(d *document, kind string) *FinalCall {
	if kind == "" {
		kind = d.Extra.Kind
	}
	if kind != "" {
		return f[kind]
	}
	for _, k := range slices.Sorted(maps.Keys(f)) {
		marks := append([]string{f[k].Tool}, f[k].Marks...)
		for _, t := range d.Agent.Tools {
			for _, n := range marks {
				if strings.Contains(string(t), `"`+n+`"`) {
					return f[k]
				}
			}
		}
		for i := range d.Steps {
			for _, c := range d.Steps[i].ToolCalls {
				if slices.Contains(marks, c.Name) {
					return f[k]
				}
			}
		}
	}
	return nil
}

// structure returns why a conversation's form is refused; the token limit is the caller's.
func structure(list []Message, final *FinalCall) []string {
	var out []string
	add := func(r string) {
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	open := map[string]bool{}
	finals, finalOK, last := 0, true, -1
	var found strings.Builder
	for i, m := range list {
		switch m.Role {
		case "tool":
			if !open[m.ToolCallID] {
				add(RejectUnanswered) // an answer to nothing
			}
			delete(open, m.ToolCallID)
			if final != nil && m.Name != final.Tool {
				found.WriteString(m.Content)
				found.WriteByte('\n')
			}
		case "assistant":
			if len(open) > 0 {
				add(RejectUnanswered)
				clear(open)
			}
			last = i
			for _, c := range m.ToolCalls {
				open[c.ID] = true
				if final != nil && c.Function.Name == final.Tool {
					finals++
					finalOK = finalOK && final.resolves(c.Function.Arguments, found.String())
				}
			}
		}
	}
	if len(open) > 0 {
		add(RejectUnanswered)
	}
	if final != nil && finals != 1 {
		add(RejectFinalCount)
	}
	if finals > 0 && !finalOK {
		add(RejectFinalInvalid)
	}
	if last >= 0 && strings.TrimSpace(list[last].Content) == "" && len(list[last].ToolCalls) == 0 {
		add(RejectThinkingEnd)
	}
	return out
}

// resolves reports whether all that the answer names was shown by some tool before.
func (f *FinalCall) resolves(args, shown string) bool {
	ids, err := f.IDs(args)
	if err != nil {
		return false
	}
	for _, id := range ids {
		if !strings.Contains(shown, id) {
			return false
		}
	}
	return true
}
