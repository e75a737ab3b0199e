package judge

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

//go:embed prompts/reasoning.md
var reasoningText string

// ReasoningPrompt is the prompt of the shopping arena: how much reasoning
// stands behind an episode, by four gates (spec/oro.md 1.8). The first gate is
// decided by the gateway's books before a model is asked.
func ReasoningPrompt() Prompt {
	return Prompt{Name: "reasoning", Version: 2, System: reasoningText, MaxTokens: 3072}
}

// The values of the four gates, and of an episode that passes them all.
const (
	GateModel   = 0.1 // no model call of substance
	GateResults = 0.3 // no thinking refers to results
	GateDatum   = 0.5 // none names a datum out of them
	GateCompare = 0.7 // candidates are nowhere compared with a reason
	GateAll     = 0.9
)

// ReasoningValues are the answers that a judge may give after the first gate.
var ReasoningValues = [4]float64{GateResults, GateDatum, GateCompare, GateAll}

// ReasoningCase is what the judge sees of an episode. Query is the problem's
// and Calls are the gateway's; Steps is the agent's text, and of its thinking only
// what a model said.
type ReasoningCase struct {
	Query string          `json:"query"`
	Calls ReasoningCalls  `json:"verified_calls"`
	Steps []ReasoningStep `json:"steps"`
}

// ReasoningCalls sums up what the gateway recorded.
type ReasoningCalls struct {
	Search     int             `json:"search"`
	View       int             `json:"view"`
	Inference  int             `json:"inference"`
	Completion int64           `json:"completion_tokens"`
	Failed     int             `json:"failed"`
	List       []ReasoningCall `json:"list"`
	Warning    string          `json:"warning,omitempty"`
}

// ReasoningCall is one recorded call.
type ReasoningCall struct {
	Name   string   `json:"name"`
	Params string   `json:"params,omitempty"`
	Status int      `json:"status"`
	IDs    []string `json:"product_ids,omitempty"`
	// Facts are what the reply said of each product, and Said what a model said. No
	// prompt has them: judges compare the agent's text with them.
	Facts map[string][]string `json:"-"`
	Said  string              `json:"-"`
}

// ReasoningStep is one step of the episode.
type ReasoningStep struct {
	Step     int             `json:"step"`
	Thinking string          `json:"thinking,omitempty"`
	Tools    []ReasoningTool `json:"tools,omitempty"`
}

// ReasoningTool is a tool call as the episode tells it.
type ReasoningTool struct {
	Name   string `json:"name"`
	Params string `json:"params,omitempty"`
	Result string `json:"result,omitempty"`
}

// Limits of a case.
const (
	maxReasoningCalls  = 30
	maxReasoningParams = 200
	maxReasoningSteps  = 60
	maxReasoningTools  = 5        // of one step
	maxReasoningCase   = 96 << 10 // bytes of the document: an agent must not use up its judge's budget
	maxThinking        = 1000
	maxResult          = 300
	maxExplanation     = 180
)

// ReasoningVerdict is the judge's answer.
type ReasoningVerdict struct {
	Quality     float64 `json:"reasoning_quality"`
	Explanation string  `json:"explanation"`
}

// Reasoning judges one episode.
func (j *Judge) Reasoning(ctx context.Context, c ReasoningCase) (ReasoningVerdict, error) {
	var v ReasoningVerdict
	_, err := j.Ask(ctx, ReasoningPrompt(), c.bounded(), func(obj []byte) (err error) {
		v, err = ParseReasoning(obj)
		return err
	})
	if err != nil {
		return ReasoningVerdict{}, err
	}
	return v, nil
}

func (c ReasoningCase) bounded() ReasoningCase {
	c.Query = clip(c.Query, maxClaim)
	calls := make([]ReasoningCall, 0, maxReasoningCalls)
	for _, x := range c.Calls.List[:min(len(c.Calls.List), maxReasoningCalls)] {
		x.Name, x.Params = clip(x.Name, 100), clip(x.Params, maxReasoningParams)
		x.IDs = x.IDs[:min(len(x.IDs), 20)]
		calls = append(calls, x)
	}
	c.Calls.List = calls
	c.Steps = shownSteps(c.Steps, maxReasoningSteps)
	for n := len(c.Steps); n > 0 && c.large(); n = n * 3 / 4 {
		c.Steps = shownSteps(c.Steps, n)
	}
	return c
}

// large reports whether the document of a case is longer than a case may be.
func (c ReasoningCase) large() bool {
	b, err := Document(c)
	return err != nil || len(b) > maxReasoningCase
}

// shownSteps are at most n of the steps, each within its limits. Of a long episode the
// beginning and the end are shown: what was found and what was decided.
func shownSteps(steps []ReasoningStep, n int) []ReasoningStep {
	if len(steps) > n {
		steps = slices.Concat(steps[:n/2], steps[len(steps)-(n-n/2):])
	}
	out := make([]ReasoningStep, 0, len(steps))
	for _, s := range steps {
		s.Thinking = clip(s.Thinking, maxThinking)
		tools := make([]ReasoningTool, 0, len(s.Tools))
		for _, t := range s.Tools[:min(len(s.Tools), maxReasoningTools)] {
			tools = append(tools, ReasoningTool{clip(t.Name, 100), clip(t.Params, maxReasoningParams), clip(t.Result, maxResult)})
		}
		s.Tools = tools
		out = append(out, s)
	}
	return out
}

// ParseReasoning reads {reasoning_quality, explanation} and nothing else; the
// quality is one of the values that the tree can end with.
func ParseReasoning(obj []byte) (ReasoningVerdict, error) {
	if err := checkObject(obj); err != nil {
		return ReasoningVerdict{}, err
	}
	var in map[string]json.RawMessage
	if err := json.Unmarshal(obj, &in); err != nil {
		return ReasoningVerdict{}, errors.New("no JSON object")
	}
	if len(in) != 2 || in["reasoning_quality"] == nil || in["explanation"] == nil {
		return ReasoningVerdict{}, errors.New("want the keys reasoning_quality and explanation, and no other")
	}
	var v ReasoningVerdict
	if c := in["reasoning_quality"][0]; c < '0' || c > '9' || json.Unmarshal(in["reasoning_quality"], &v.Quality) != nil {
		return ReasoningVerdict{}, errors.New("reasoning_quality: want a number")
	}
	known := false
	for _, x := range ReasoningValues {
		known = known || v.Quality == x
	}
	if !known {
		return ReasoningVerdict{}, fmt.Errorf("reasoning_quality: want one of %v", ReasoningValues)
	}
	if bytes.IndexByte(in["explanation"], '"') != 0 || json.Unmarshal(in["explanation"], &v.Explanation) != nil || strings.TrimSpace(v.Explanation) == "" {
		return ReasoningVerdict{}, errors.New("explanation: want a text")
	}
	v.Explanation = clip(v.Explanation, maxExplanation)
	return v, nil
}
