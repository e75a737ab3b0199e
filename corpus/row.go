package corpus

import (
	"encoding/json"
	"math"
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
	// Sampling are the settings of the model's last call: temperature, seed and the like.
	Sampling map[string]json.RawMessage `json:"sampling,omitempty"`
	Steps    []StepInfo                 `json:"steps"` // of the assistant's messages, in order
	Axis     Axis                       `json:"axis"`
	Ratio    float64                    `json:"axis_ratio"`
	// Dispatches are the calls of metered tools, as the gateway saw them.
	Dispatches Dispatches `json:"dispatches"`
	Tokens     int        `json:"tokens"`
	Quality    float64    `json:"quality"`
	Reward     Reward     `json:"reward"`
	Cluster    string     `json:"group_id"` // leak cluster
	Group      *Group     `json:"group"`    // all plays of the same problem
	Split      string     `json:"split"`
	From       Provenance `json:"provenance"`
	// Weight is what a row of a mix weighed when it was taken (Mix): what to sample by.
	Weight float64 `json:"mix_weight,omitempty"`
}

// Dispatches counts calls of metered tools, and those of them that a model asked for.
type Dispatches struct {
	Metered  int `json:"metered"`
	Credited int `json:"credited"`
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
	Finish   string       `json:"finish_reason,omitempty"`
	// What the upstream told of the tokens of this call, where it was asked for them.
	PromptIDs     []int64   `json:"prompt_token_ids,omitempty"`
	CompletionIDs []int64   `json:"completion_token_ids,omitempty"`
	Logprobs      []float64 `json:"logprobs,omitempty"`
}

// Group is what is known of all plays of the row's problem in which a model took
// part, also of those that became no row. It teaches where Size is at least 2
// and Std is not 0.
type Group struct {
	Size   int     `json:"group_size"`
	Solved int     `json:"group_solved"`
	Mean   float64 `json:"group_mean"` // of Reward.Rule where it is known
	Std    float64 `json:"group_std"`  // of the population
	// PassAt is the chance that one of k plays, drawn without putting back, solves
	// the problem; by k, up to Size.
	PassAt map[string]float64 `json:"pass_at,omitempty"`
	// AgentSize and AgentSolved count the plays of the row's own submission.
	AgentSize   int `json:"agent_size"`
	AgentSolved int `json:"agent_solved"`
}

// tally sums up the plays of one problem.
type tally struct {
	n, solved, known int
	sum, squares     float64
	agents           map[name][2]int // plays and solutions of a submission
}

func (t *tally) add(agent name, r *Reward) {
	solved := 0
	if r.Outcome != nil && *r.Outcome == 1 {
		solved = 1
	}
	t.n++
	t.solved += solved
	if r.Rule != nil {
		t.known++
		t.sum += *r.Rule
		t.squares += *r.Rule * *r.Rule
	}
	a := t.agents[agent]
	t.agents[agent] = [2]int{a[0] + 1, a[1] + solved}
}

func (t *tally) group(agent name) *Group {
	g := &Group{Size: t.n, Solved: t.solved, AgentSize: t.agents[agent][0], AgentSolved: t.agents[agent][1]}
	if t.known > 0 {
		mean := t.sum / float64(t.known)
		g.Mean, g.Std = round(mean, 6), round(math.Sqrt(max(0, t.squares/float64(t.known)-mean*mean)), 6)
	}
	for _, k := range []int{1, 2, 4, 8, 16, 32, 64} {
		if k > t.n {
			break
		}
		if g.PassAt == nil {
			g.PassAt = map[string]float64{}
		}
		g.PassAt[strconv.Itoa(k)] = round(passAt(t.n, t.solved, k), 6)
	}
	return g
}

// passAt is 1 - C(n-c, k) / C(n, k).
func passAt(n, c, k int) float64 {
	if n-c < k {
		return 1
	}
	none := 1.0
	for i := n - c + 1; i <= n; i++ {
		none *= 1 - float64(k)/float64(i)
	}
	return 1 - none
}

// Reward is what the row earned.
type Reward struct {
	Outcome    *int               `json:"outcome"` // 1: solved
	Rule       *float64           `json:"rule"`    // what the scorer's rule says, 0..1
	Value      *float64           `json:"value"`   // what counts in the arena, after all factors
	Judge      *float64           `json:"judge"`   // of a model as judge, where there is one
	Components map[string]float64 `json:"components,omitempty"`
	// CostMicros is what the agent spent on this task, JudgeMicros what its judges did.
	CostMicros  agon.Micros `json:"cost_micros"`
	JudgeMicros agon.Micros `json:"judge_micros"`
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
	Imported   bool        `json:"imported,omitempty"` // it comes from a file of others: no gateway vouches for it
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
		if m.Role == "system" || m.Role == "tool" {
			continue // shared by all rows of an agent, and by all who asked the same
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
		s := StepInfo{Step: i, Credited: !m.harness, LossMask: !m.harness, Cost: m.cost, Receipt: m.receipt, Finish: m.finish}
		if m.tokens != nil {
			s.PromptIDs, s.CompletionIDs, s.Logprobs = m.tokens.Prompt, m.tokens.Completion, m.tokens.Logprobs
		}
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
