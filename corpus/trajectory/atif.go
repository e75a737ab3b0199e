package trajectory

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// ATIFVersion is the version of the format that ATIF writes.
const ATIFVersion = "ATIF-v1.8"

// atifRead are the versions that Validate takes: the one before has no audio.
var atifRead = []string{ATIFVersion, "ATIF-v1.7"}

// Document is a trajectory in the Agent Trajectory Interchange Format.
type Document struct {
	SchemaVersion string         `json:"schema_version"`
	SessionID     string         `json:"session_id"`
	TrajectoryID  string         `json:"trajectory_id"`
	Agent         AgentInfo      `json:"agent"`
	Steps         []Step         `json:"steps"`
	Notes         string         `json:"notes,omitempty"`
	Final         FinalMetrics   `json:"final_metrics"`
	Extra         map[string]any `json:"extra,omitempty"`
}

// AgentInfo names who acted.
type AgentInfo struct {
	Name    string            `json:"name"`
	Version string            `json:"version"`
	Model   string            `json:"model_name,omitempty"`
	Tools   []json.RawMessage `json:"tool_definitions,omitempty"`
	Extra   map[string]any    `json:"extra,omitempty"`
}

// Step is one turn. Fields below Message are for source agent only, but
// Observation and what follows it.
type Step struct {
	ID          int            `json:"step_id"`
	Timestamp   string         `json:"timestamp,omitempty"`
	Source      string         `json:"source"` // system, user, agent
	Message     string         `json:"message"`
	Model       string         `json:"model_name,omitempty"`
	Reasoning   string         `json:"reasoning_content,omitempty"`
	ToolCalls   []StepCall     `json:"tool_calls,omitempty"`
	Metrics     *Metrics       `json:"metrics,omitempty"`
	Observation *Observation   `json:"observation,omitempty"`
	Copied      bool           `json:"is_copied_context,omitempty"`
	LLMCalls    *int           `json:"llm_call_count,omitempty"`
	Extra       map[string]any `json:"extra,omitempty"`
}

// StepCall is a call that the agent made.
type StepCall struct {
	ID        string          `json:"tool_call_id"`
	Name      string          `json:"function_name"`
	Arguments json.RawMessage `json:"arguments"` // an object
	Extra     map[string]any  `json:"extra,omitempty"`
}

// Observation is what came back.
type Observation struct {
	Results []Result `json:"results"`
}

// Result answers one call of the same step.
type Result struct {
	Source  string         `json:"source_call_id,omitempty"`
	Content string         `json:"content"`
	Extra   map[string]any `json:"extra,omitempty"`
}

// Metrics are those of one call, as the gateway booked them.
type Metrics struct {
	Prompt     int64          `json:"prompt_tokens"`
	Completion int64          `json:"completion_tokens"`
	Cost       float64        `json:"cost_usd"`
	PromptIDs  []int64        `json:"prompt_token_ids,omitempty"`
	IDs        []int64        `json:"completion_token_ids,omitempty"`
	Logprobs   []float64      `json:"logprobs,omitempty"`
	Extra      map[string]any `json:"extra,omitempty"`
}

// FinalMetrics are sums.
type FinalMetrics struct {
	Prompt     int64   `json:"total_prompt_tokens"`
	Completion int64   `json:"total_completion_tokens"`
	Cost       float64 `json:"total_cost_usd"`
	Steps      int     `json:"total_steps"`
}

// NoModel is the one step of a play in which the agent called no model.
const NoModel = "The agent called no model."

// ATIF makes the document of one attempt (0: the last). Messages that stood in
// an earlier request are not repeated; a tool's result stands with the step
// whose call it answers, and where a harness made up a message of the model's,
// that step says that no model was called (llm_call_count 0).
func ATIF(events []agon.Event, attempt int, m Meta) (*Document, error) {
	r, err := parse(events, attempt, m)
	if err != nil {
		return nil, err
	}
	d := &Document{
		SchemaVersion: ATIFVersion, SessionID: m.Run, TrajectoryID: fmt.Sprintf("%s.%d", m.Run, r.attempt),
		Agent: AgentInfo{Name: orUnknown(m.Agent), Version: orUnknown(m.Version)},
		Extra: map[string]any{"arena": m.Arena, "submission": m.Submission, "attempt": r.attempt, "producer": "agon " + agon.Version},
	}
	if r.score != nil {
		d.Extra["score"] = map[string]any{"task": r.score.Task, "value": r.score.Value, "solved": r.score.Solved, "scorer": r.score.Scorer}
	}
	for k, v := range map[string]string{"outcome": r.outcome, "fault": r.fault} {
		if v != "" {
			d.Extra[k] = v
		}
	}
	if m.Kind != "" {
		d.Extra["kind"] = m.Kind
	}
	if m.Task != "" {
		d.Extra["task"], d.TrajectoryID = m.Task, d.TrajectoryID+"."+m.Task
	}
	if len(r.tools) > 0 {
		n := 0
		for _, c := range r.credits {
			if c.How != "" {
				n++
			}
		}
		d.Extra["dispatches"] = map[string]any{"metered": len(r.tools), "credited": n}
	}
	if r.skipped > 0 {
		d.Notes = fmt.Sprintf("%d model calls have no place here: embeddings, judges, failures, or cut from a full log", r.skipped)
	}
	b := atifBuilder{d: d}
	for i, t := range r.turns {
		b.turn(i, t)
	}
	b.metered(r)
	if len(d.Steps) == 0 {
		b.add(Step{Source: "system", Message: NoModel})
	}
	d.Final.Steps = len(d.Steps)
	d.Final.Cost = usd(b.cost)
	return d, nil
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func usd(m agon.Micros) float64 { return float64(m) / 1e6 }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// atifBuilder puts steps together.
type atifBuilder struct {
	d       *Document
	threads []*thread
	cost    agon.Micros
	tools   map[string]bool
}

func (b *atifBuilder) add(s Step) int {
	s.ID = len(b.d.Steps) + 1
	b.d.Steps = append(b.d.Steps, s)
	return s.ID - 1
}

// turn adds what is new in a request, then the reply.
func (b *atifBuilder) turn(i int, t turn) {
	if b.d.Agent.Model == "" {
		b.d.Agent.Model = t.receipt.Model
	}
	b.define(t.tools)
	th, known := grow(b.threads, t)
	if th == nil {
		th = &thread{}
		b.threads = append(b.threads, th)
	}
	// Messages that another thread has shown already are context, not news.
	_, copied := b.shared(t)
	for j, m := range t.messages {
		if j < known {
			continue
		}
		at := b.said(t, th, m, j < copied)
		th.said = append(th.said, m)
		th.steps = append(th.steps, at)
	}
	one := 1
	s := Step{
		Timestamp: stamp(t.receipt.End), Source: "agent", Message: t.reply.text(), Reasoning: t.reply.Reasoning, LLMCalls: &one,
		ToolCalls: stepCalls(t.reply.ToolCalls),
		Metrics:   &Metrics{Prompt: t.receipt.Prompt, Completion: t.receipt.Completion, Cost: usd(t.receipt.Cost)},
		Extra:     map[string]any{"receipt": t.receipt.ID, "request_hash": t.receipt.RequestHash, "response_hash": t.receipt.ResponseHash, "provider": t.receipt.Provider},
	}
	if x := t.tokens; x != nil {
		s.Metrics.PromptIDs, s.Metrics.IDs, s.Metrics.Logprobs = x.Prompt, x.Completion, x.Logprobs
	}
	if t.receipt.Model != b.d.Agent.Model {
		s.Model = t.receipt.Model
	}
	if t.finish != "" {
		s.Extra["finish_reason"] = t.finish
	}
	if t.receipt.Estimated {
		s.Metrics.Extra = map[string]any{"estimated": true}
	}
	if t.receipt.Outcome != "ok" {
		s.Extra["outcome"] = t.receipt.Outcome
	}
	if t.cut {
		s.Extra["request_cut"] = true
	}
	th.said = append(th.said, *t.reply)
	th.steps = append(th.steps, b.add(s))
	th.last = i
	b.d.Final.Prompt += t.receipt.Prompt
	b.d.Final.Completion += t.receipt.Completion
	b.cost += t.receipt.Cost
}

// shared tells how many of a turn's first messages some thread has said.
func (b *atifBuilder) shared(t turn) (*thread, int) {
	var best *thread
	most := 0
	for _, th := range b.threads {
		n := 0
		for n < len(th.said) && n < len(t.messages) && th.said[n].same(&t.messages[n]) {
			n++
		}
		if n > most {
			best, most = th, n
		}
	}
	return best, most
}

// said adds a message of a request that stood in none before, and returns its step.
func (b *atifBuilder) said(t turn, th *thread, m message, copied bool) int {
	at := stamp(t.receipt.Start)
	switch m.Role {
	case "tool":
		if i := th.caller(m.ToolCallID); i >= 0 && th.steps[i] >= 0 {
			s := &b.d.Steps[th.steps[i]]
			if s.Observation == nil {
				s.Observation = &Observation{}
			}
			s.Observation.Results = append(s.Observation.Results, Result{Source: m.ToolCallID, Content: m.text()})
			return th.steps[i]
		}
		return b.add(Step{Timestamp: at, Source: "user", Message: m.text(), Copied: copied, Extra: map[string]any{"role": "tool", "tool_call_id": m.ToolCallID}})
	case "assistant":
		// No model said this: the harness put it into the conversation.
		none := 0
		return b.add(Step{Timestamp: at, Source: "agent", Message: m.text(), ToolCalls: stepCalls(m.ToolCalls), LLMCalls: &none, Copied: copied, Extra: map[string]any{"dispatcher": "harness"}})
	case "user":
		return b.add(Step{Timestamp: at, Source: "user", Message: m.text(), Copied: copied})
	}
	return b.add(Step{Timestamp: at, Source: "system", Message: m.text(), Copied: copied})
}

// caller finds the last message that made a call, -1 if none did.
func (th *thread) caller(id string) int {
	for i := len(th.said) - 1; i >= 0; i-- {
		for _, c := range th.said[i].ToolCalls {
			if c.ID == id {
				return i
			}
		}
	}
	return -1
}

// stepCalls turns calls into the form's; arguments that are not an object stand under "_text".
func stepCalls(list []toolCall) []StepCall {
	var out []StepCall
	for _, c := range list {
		x := StepCall{ID: c.ID, Name: c.Function.Name}
		var obj map[string]json.RawMessage
		if json.Unmarshal([]byte(c.Function.Arguments), &obj) == nil && obj != nil {
			x.Arguments = json.RawMessage(c.Function.Arguments)
		} else {
			x.Arguments, _ = json.Marshal(map[string]string{"_text": c.Function.Arguments}) // strings always encode
		}
		out = append(out, x)
	}
	return out
}

// define collects the tools that were offered to the model, each once.
func (b *atifBuilder) define(raw json.RawMessage) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return
	}
	for _, t := range list {
		if b.tools == nil {
			b.tools = map[string]bool{}
		}
		if !b.tools[string(t)] && len(b.tools) < 256 {
			b.tools[string(t)] = true
			b.d.Agent.Tools = append(b.d.Agent.Tools, t)
		}
	}
}

// metered adds the calls of the gateway's own tools. One that a model asked for
// is already told by that model's step: it is noted there, and answered there
// if no message has. The rest were the agent's code alone.
func (b *atifBuilder) metered(r *run) {
	for i, t := range r.tools {
		b.cost += t.Receipt.Cost
		if r.credits[i].How != "" && b.dispatched(t, r.credits[i]) {
			continue
		}
		none := 0
		args := t.Arguments
		var obj map[string]json.RawMessage
		if json.Unmarshal(args, &obj) != nil || obj == nil {
			args, _ = json.Marshal(map[string]string{"_text": string(args)})
		}
		b.add(Step{
			Timestamp: stamp(t.Receipt.Start), Source: "agent", Message: "", LLMCalls: &none,
			ToolCalls:   []StepCall{{ID: t.Receipt.ID, Name: t.Receipt.Model, Arguments: args}},
			Observation: &Observation{Results: []Result{{Source: t.Receipt.ID, Content: t.Response.Text}}},
			Extra:       map[string]any{"receipt": t.Receipt.ID, "dispatcher": "harness", "cost_usd": usd(t.Receipt.Cost), "nonce": t.Nonce},
		})
	}
}

// dispatched notes a metered call at the step of the model that asked for it;
// false if there is no such step or none of its calls is still open for it.
func (b *atifBuilder) dispatched(t gateway.ToolCallEvent, credit Credit) bool {
	for i := range b.d.Steps {
		s := &b.d.Steps[i]
		if s.Extra["receipt"] != credit.Receipt {
			continue
		}
		for j := range s.ToolCalls {
			c := &s.ToolCalls[j]
			if credit.How == ByPart && j == credit.Call && c.Extra != nil {
				return true // the first part stands for all
			}
			if c.Extra != nil || (credit.Call >= 0 && j != credit.Call) || (credit.How != ByPart && c.Name != t.Receipt.Model) {
				continue
			}
			c.Extra = map[string]any{"receipt": t.Receipt.ID, "dispatcher": "model", "cost_usd": usd(t.Receipt.Cost), "nonce": t.Nonce}
			answered := false
			if s.Observation != nil {
				for _, r := range s.Observation.Results {
					answered = answered || r.Source == c.ID
				}
			}
			if !answered && credit.How != ByPart {
				if s.Observation == nil {
					s.Observation = &Observation{}
				}
				s.Observation.Results = append(s.Observation.Results, Result{Source: c.ID, Content: t.Response.Text})
			}
			return true
		}
	}
	return false
}
