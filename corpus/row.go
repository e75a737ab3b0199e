package corpus

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
)

// Row is one record: an agent's trajectory on one task, with what became of it
// and where it comes from. Unknown rewards are null, never 0.
type Row struct {
	ID       string            `json:"id"` // of the content: arena, run, task and messages
	Messages []Message         `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
	Steps    []StepInfo        `json:"steps"` // of the assistant's messages, in order
	Axis     Axis              `json:"axis"`
	Ratio    float64           `json:"axis_ratio"`
	Tokens   int               `json:"tokens"`
	Quality  float64           `json:"quality"`
	Reward   Reward            `json:"reward"`
	Cluster  string            `json:"group_id"` // leak cluster
	Group    *Group            `json:"group"`    // the rows of the same problem in this corpus
	Split    string            `json:"split"`
	From     Provenance        `json:"provenance"`
}

// StepInfo is what is known of one message of the assistant.
type StepInfo struct {
	Step      int   `json:"step_id"` // index in Messages
	Credited  bool  `json:"credited"`
	ToolValid *bool `json:"tool_valid"` // its calls name tools that were offered, with arguments that parse; null without calls
	Result    *bool `json:"result_nonempty"`
	NewIDs    int   `json:"new_ids_seen"` // product ids that no result has shown before
	// Reward is how well its calls match those of the best solved row of the
	// problem, from -3 to 3 (toolMatch); null without calls or without such a row.
	Reward   *float64     `json:"reward_step"`
	LossMask bool         `json:"loss_mask"` // train on it: a model said it
	Cost     *agon.Micros `json:"cost_micros"`
	Receipt  string       `json:"receipt,omitempty"` // of the gateway's call
}

// Group is what GRPO wants to know of the rows of one problem. It teaches
// where Size is at least 2 and Std is not 0.
type Group struct {
	Size int     `json:"group_size"`
	Mean float64 `json:"group_mean"` // of Reward.Rule where it is known
	Std  float64 `json:"group_std"`  // of the population
}

// Reward is what the row earned.
type Reward struct {
	Outcome    *int               `json:"outcome"` // 1: solved
	Rule       *float64           `json:"rule"`    // the judge's value, 0..1
	Judge      *float64           `json:"judge"`   // of a model as judge, where there is one
	Components map[string]float64 `json:"components,omitempty"`
	CostMicros agon.Micros        `json:"cost_micros"`
}

// Provenance says where a row comes from and under what licence.
type Provenance struct {
	Arena      string      `json:"arena"`
	Kind       string      `json:"kind"`
	Task       string      `json:"problem_id"`
	TaskDigest agon.Digest `json:"problem_digest"`
	Run        string      `json:"run"`
	Attempt    int         `json:"attempt"`
	Seed       int64       `json:"seed"`
	Submission string      `json:"submission"`
	Agent      agon.Digest `json:"agent_version"`
	Miner      string      `json:"miner_hotkey"`
	Coldkey    string      `json:"miner_coldkey"`
	Validator  string      `json:"validator_hotkey"`
	Model      string      `json:"model"`
	Scorer     string      `json:"scorer_version"`
	Licence    string      `json:"licence"`
	Scripted   bool        `json:"scripted,omitempty"` // its model was a script
}

// solved reports that the judge says so.
func (r *Row) solved() bool { return r.Reward.Outcome != nil && *r.Reward.Outcome == 1 }

// query is the problem as the row's first user message tells it.
func (r *Row) query() string {
	for _, m := range r.Messages {
		if m.Role == "user" {
			return m.Content
		}
	}
	return ""
}

// callSequence is what a row did: the names and arguments of its calls.
func (r *Row) callSequence() string {
	var b strings.Builder
	for _, m := range r.Messages {
		for _, c := range m.ToolCalls {
			b.WriteString(c.Function.Name)
			b.WriteByte(' ')
			b.WriteString(Normalise(c.Function.Arguments))
			b.WriteByte('\n')
		}
		if m.Role == "assistant" && len(m.ToolCalls) == 0 {
			b.WriteString(Normalise(m.Content))
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// text is all that the row says, for finding near-duplicates.
func (r *Row) text() string {
	var b strings.Builder
	for _, m := range r.Messages {
		if m.Role == "system" {
			continue // shared by all rows of an agent
		}
		b.WriteString(m.Content)
		b.WriteByte(' ')
		for _, c := range m.ToolCalls {
			b.WriteString(c.Function.Arguments)
			b.WriteByte(' ')
		}
	}
	return Normalise(b.String())
}

// annotate fills in what follows from the messages: steps and quality.
func (r *Row) annotate() {
	offered := map[string]bool{}
	for _, t := range r.Tools {
		var d struct {
			Name     string `json:"name"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if json.Unmarshal(t, &d) == nil {
			offered[d.Function.Name], offered[d.Name] = true, true
		}
	}
	results := map[string]string{}
	for _, m := range r.Messages {
		if m.Role == "tool" {
			results[m.ToolCallID] = m.Content
		}
	}
	r.Steps = []StepInfo{}
	var calls []string
	depth, verified := 0, false
	queries, ids := map[string]bool{}, map[string]bool{}
	for i, m := range r.Messages {
		if m.Role != "assistant" {
			continue
		}
		s := StepInfo{Step: i, Credited: !m.harness, LossMask: !m.harness, Cost: m.cost, Receipt: m.receipt}
		if len(m.ToolCalls) > 0 {
			depth++
			valid, full := true, true
			for _, c := range m.ToolCalls {
				valid = valid && (len(offered) == 0 || offered[c.Function.Name]) && json.Valid([]byte(c.Function.Arguments))
				full = full && strings.TrimSpace(results[c.ID]) != ""
				for _, id := range shownIDs(results[c.ID]) {
					if !ids[id] {
						ids[id] = true
						s.NewIDs++
					}
				}
				calls = append(calls, c.Function.Name+" "+c.Function.Arguments)
				if strings.Contains(c.Function.Name, "search") || strings.Contains(c.Function.Name, "find") {
					queries[c.Function.Arguments] = true
				}
				if strings.Contains(c.Function.Name, "test") || strings.Contains(c.Function.Name, "view") || strings.Contains(c.Function.Name, "check") || strings.Contains(c.Function.Name, "validate") {
					verified = true
				}
			}
			s.ToolValid, s.Result = &valid, &full
		}
		r.Steps = append(r.Steps, s)
	}
	r.Quality = quality(depth, len(queries), verified, calls)
}

// quality ranks rows of one cluster: depth of thinking and calling, different
// queries, a look before the answer, and no loops. 0..1.
func quality(depth, queries int, verified bool, calls []string) float64 {
	q := 0.4*min(float64(depth)/8, 1) + 0.2*min(float64(queries)/3, 1)
	if verified {
		q += 0.2
	}
	if len(calls) > 0 {
		slices.Sort(calls)
		different := len(slices.Compact(calls))
		q += 0.2 * float64(different) / float64(len(calls))
	}
	return round(q, 4)
}

func round(x float64, digits int) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', digits, 64), 64)
	if err != nil {
		return x
	}
	return v
}
