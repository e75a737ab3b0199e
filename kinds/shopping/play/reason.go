package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
)

// minThought is how many tokens one model call must have completed to count as
// thinking (gate 1).
const minThought = 30

// Reasoning is a judge's word on one episode.
type Reasoning struct {
	Quality     float64 `json:"quality"` // one of the five values of spec/oro.md 1.8
	Explanation string  `json:"explanation"`
	Model       string  `json:"model"` // who said so; "gateway" for the first gate
	Tries       int     `json:"tries"` // models asked
	Failed      int     `json:"failed"`
}

// Reasoner tells how much reasoning stands behind an episode. Safe for
// concurrent use.
type Reasoner interface {
	// Version changes whenever the same episode could be judged differently.
	Version() string
	// Policy is what a judge's session may do, for the problems of one run; Task
	// is filled in. Models empty: the judge needs no session.
	Policy(problems int) gateway.Policy
	// Reason judges an episode that passed the first gate. session is nil where
	// Policy names no model. An error means that it could not say: it is never a
	// verdict. The counts of the reply stand with an error too.
	Reason(ctx context.Context, session gateway.Session, c judge.ReasoningCase) (Reasoning, error)
}

// reasoningCase is what a judge sees of an episode: the problem's words and the
// gateway's calls, and the agent's text.
func reasoningCase(query string, ev *Evidence, dialogue []byte) judge.ReasoningCase {
	c := judge.ReasoningCase{Query: query}
	c.Calls.Inference, c.Calls.Completion, c.Calls.Failed = ev.Models, ev.Completion, ev.Failed
	for _, x := range ev.Calls {
		switch x.Name {
		case "find_product":
			c.Calls.Search++
		case "view_product_information":
			c.Calls.View++
		}
		if len(c.Calls.List) < 30 {
			c.Calls.List = append(c.Calls.List, judge.ReasoningCall{Name: x.Name, Params: x.Args, Status: x.Status, IDs: x.IDs})
		}
	}
	switch {
	case len(ev.Calls) == 0:
		c.Calls.Warning = "no call at all was recorded"
	case ev.Models == 0:
		c.Calls.Warning = "calls were recorded, but none of a model"
	}
	c.Steps = readSteps(dialogue)
	return c
}

// readSteps reads what an episode says of its steps; what is of another form is skipped.
func readSteps(dialogue []byte) []judge.ReasoningStep {
	var steps []json.RawMessage
	_ = json.Unmarshal(dialogue, &steps) // no steps, no reasoning
	out := make([]judge.ReasoningStep, 0, len(steps))
	for i, raw := range steps {
		var s struct {
			Completion struct {
				Message struct {
					Think json.RawMessage `json:"think"`
					Calls json.RawMessage `json:"tool_call"`
				} `json:"message"`
			} `json:"completion"`
		}
		_ = json.Unmarshal(raw, &s)
		step := judge.ReasoningStep{Step: i + 1, Thinking: textOf(s.Completion.Message.Think)}
		var calls []json.RawMessage
		_ = json.Unmarshal(s.Completion.Message.Calls, &calls)
		for _, c := range calls {
			var t struct {
				Name       json.RawMessage `json:"name"`
				Parameters json.RawMessage `json:"parameters"`
				Result     json.RawMessage `json:"result"`
			}
			_ = json.Unmarshal(c, &t)
			step.Tools = append(step.Tools, judge.ReasoningTool{Name: textOf(t.Name), Params: clip(string(t.Parameters), 400), Result: clip(string(t.Result), 600)})
		}
		out = append(out, step)
	}
	return out
}

func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// gate1 decides the first gate by the gateway's books alone.
func gate1(ev *Evidence) (Reasoning, bool) {
	if ev.LongCompletion >= minThought {
		return Reasoning{}, false
	}
	why := "Gate 1: the gateway recorded no model call"
	if ev.Models > 0 {
		why = fmt.Sprintf("Gate 1: no model call completed %d tokens", minThought)
	}
	return Reasoning{Quality: judge.GateModel, Explanation: why, Model: "gateway"}, true
}

// RuleJudge walks the gates by rule, for arenas without a judging model: ids
// and prices of recorded results must stand in the thinking, two of them in one
// step beside a word that gives a reason. It is strict, and easy to satisfy for
// who knows it: arenas with something to win use a model.
type RuleJudge struct{}

// Version implements Reasoner.
func (RuleJudge) Version() string { return "reasoning-rule-1" }

// Policy implements Reasoner: no model is asked.
func (RuleJudge) Policy(int) gateway.Policy { return gateway.Policy{} }

var (
	refers = regexp.MustCompile(`(?i)\b(result|results|found|returned|search|candidate|candidates|option|options|listed|shows?)\b`)
	reason = regexp.MustCompile(`(?i)\b(because|since|cheaper|better|closer|rather than|instead of|unlike|whereas|so i|therefore|matches more|best)\b`)
)

// Reason implements Reasoner.
func (RuleJudge) Reason(_ context.Context, _ gateway.Session, c judge.ReasoningCase) (Reasoning, error) {
	var known []string
	for _, x := range c.Calls.List {
		known = append(known, x.IDs...)
	}
	out := Reasoning{Quality: judge.GateResults, Explanation: "Gate 2: no thinking refers to results", Model: "rule"}
	raise := func(q float64, why string) {
		if q > out.Quality {
			out.Quality, out.Explanation = q, why
		}
	}
	for _, s := range c.Steps {
		named := map[string]bool{}
		for _, id := range known {
			if id != "" && strings.Contains(s.Thinking, id) {
				named[id] = true
			}
		}
		switch {
		case len(named) >= 2 && reason.MatchString(s.Thinking):
			raise(judge.GateAll, fmt.Sprintf("All gates: step %d compares recorded products with a reason", s.Step))
		case len(named) > 0:
			raise(judge.GateCompare, "Gate 4: no step compares two recorded products with a reason")
		case len(known) > 0 && refers.MatchString(s.Thinking):
			raise(judge.GateDatum, "Gate 3: no thinking names a recorded product")
		}
	}
	return out, nil
}

// ModelJudge asks models by the prompt of package judge, the next one where one
// fails or does not keep to the form.
type ModelJudge struct {
	// Models are asked in this order; empty: the gateway's first. Load balances
	// by rotation: the problem's number says who is asked first.
	Models []string
	Cache  judge.Cache
	// Tries bounds how many models are asked about one episode; 8.
	Tries int
}

// Version implements Reasoner.
func (m ModelJudge) Version() string {
	return judge.Scorer("reasoning", judge.ReasoningPrompt(), strings.Join(m.Models, ","))
}

// Policy implements Reasoner.
func (m ModelJudge) Policy(problems int) gateway.Policy {
	p := gateway.Policy{Models: slices.Clone(m.Models), Dialects: []string{gateway.DialectOpenAI}}
	if len(p.Models) == 0 {
		p.Models = []string{"*"}
	}
	p.Budget = agon.Budget{Micros: 50_000 * agon.Micros(problems), Calls: int64(m.tries()) * int64(problems)}
	return p
}

func (m ModelJudge) tries() int {
	if m.Tries > 0 {
		return m.Tries
	}
	return 8
}

// Reason implements Reasoner.
func (m ModelJudge) Reason(ctx context.Context, s gateway.Session, c judge.ReasoningCase) (Reasoning, error) {
	models := slices.Clone(m.Models)
	if len(models) == 0 {
		models = []string{""}
	}
	if n := len(c.Steps) % len(models); n > 0 { // the same episode starts with the same model everywhere
		models = append(models[n:], models[:n]...)
	}
	out := Reasoning{}
	var last error
	dropped := map[string]bool{} // that answered, but not in the form: it would again
	for len(dropped) < len(models) && out.Tries < m.tries() {
		asked := false
		for _, model := range models {
			if dropped[model] || out.Tries == m.tries() {
				continue
			}
			asked = true
			out.Tries++
			j, err := judge.New(judge.Config{Session: s, Model: model, Cache: m.Cache, Attempts: 1})
			if err != nil {
				return out, err
			}
			v, err := j.Reasoning(ctx, c)
			if err == nil {
				out.Quality, out.Explanation, out.Model = v.Quality, v.Explanation, model
				return out, nil
			}
			out.Failed++
			last = err
			if ctx.Err() != nil || errors.Is(err, judge.ErrBudget) || errors.Is(err, judge.ErrInput) {
				return out, err
			}
			if errors.Is(err, judge.ErrForm) {
				dropped[model] = true
			}
		}
		if !asked {
			break
		}
	}
	return out, fmt.Errorf("every model failed: %w", last)
}
