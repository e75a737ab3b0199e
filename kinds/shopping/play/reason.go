package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/lazyregexp"
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
		c.Calls.List = append(c.Calls.List, judge.ReasoningCall{Name: x.Name, Params: x.Args, Status: x.Status, IDs: x.IDs, Facts: x.Facts, Said: x.Said})
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

// RuleJudge walks the gates by rule, for arenas without a judging model. Thinking
// counts where a model said it: the gateway has the words. Ids of recorded results
// must stand in it, and for the last gate two of them in one step, with a reason and
// with what the results say of each and not of the other. It looks at words, not at
// sense: arenas with something to win use a model.
type RuleJudge struct{}

// Version implements Reasoner.
func (RuleJudge) Version() string { return "reasoning-rule-3" }

// Policy implements Reasoner: no model is asked.
func (RuleJudge) Policy(int) gateway.Policy { return gateway.Policy{} }

var (
	refers = lazyregexp.New(`(?i)\b(result|results|found|returned|search|candidate|candidates|option|options|listed|shows?)\b`)
	reason = lazyregexp.New(`(?i)\b(because|since|cheaper|better|closer|rather than|instead of|unlike|whereas|so i|therefore|matches more|best)\b`)
)

// Reason implements Reasoner.
func (RuleJudge) Reason(_ context.Context, _ gateway.Session, c judge.ReasoningCase) (Reasoning, error) {
	var known []string
	facts := map[string][]string{}
	for _, x := range c.Calls.List {
		for _, id := range x.IDs {
			if _, twice := facts[id]; !twice && id != "" {
				known, facts[id] = append(known, id), nil
			}
		}
		for id, list := range x.Facts {
			facts[id] = append(facts[id], list...)
		}
	}
	out := Reasoning{Quality: judge.GateResults, Explanation: "Gate 2: no thinking of a model refers to results", Model: "rule"}
	raise := func(q float64, why string) {
		if q > out.Quality {
			out.Quality, out.Explanation = q, why
		}
	}
	for _, s := range spoken(c) {
		if s.Thinking == "" {
			continue // words of the agent's code, or of nobody
		}
		var named []string
		for _, id := range known {
			if stands(s.Thinking, id) {
				named = append(named, id)
			}
		}
		switch {
		case len(named) > maxCompared:
			raise(judge.GateCompare, "Gate 4: a step that lists this many products compares none")
		case reason().MatchString(s.Thinking) && compared(s.Thinking, named, facts):
			raise(judge.GateAll, fmt.Sprintf("All gates: step %d compares recorded products by what the results say of them", s.Step))
		case len(named) > 0:
			raise(judge.GateCompare, "Gate 4: no step compares two recorded products by their data, with a reason")
		case len(known) > 0 && refers().MatchString(s.Thinking):
			raise(judge.GateDatum, "Gate 3: no thinking names a recorded product")
		}
	}
	return out, nil
}

// maxCompared is how many products of one step a rule takes for a comparison.
const maxCompared = 6

func oneBlank(s string) string { return strings.Join(strings.Fields(s), " ") }

// compared reports whether two of the products are told apart: of each a fact stands
// in the text that is not one of the other's.
func compared(text string, named []string, facts map[string][]string) bool {
	text = strings.ReplaceAll(strings.ToLower(text), ",", "")
	own := func(a, b string) bool {
		return slices.ContainsFunc(facts[a], func(x string) bool {
			return !slices.Contains(facts[b], x) && stands(text, strings.ToLower(strings.ReplaceAll(x, ",", "")))
		})
	}
	for i, a := range named {
		for _, b := range named[i+1:] {
			if own(a, b) && own(b, a) {
				return true
			}
		}
	}
	return false
}

// stands reports whether x is in the text as a word of its own: 12 is not in 1123,
// and is in "12.", but not in "12.5".
func stands(text, x string) bool {
	word := func(s string, at int) bool {
		return at >= 0 && at < len(s) && (s[at] >= '0' && s[at] <= '9' || s[at] >= 'a' && s[at] <= 'z' || s[at] >= 'A' && s[at] <= 'Z')
	}
	for from := 0; x != ""; {
		i := strings.Index(text[from:], x)
		if i < 0 {
			return false
		}
		at, end := from+i, from+i+len(x)
		point := func(dot, beyond int) bool {
			return dot >= 0 && dot < len(text) && text[dot] == '.' && word(text, beyond)
		}
		if !word(text, at-1) && !word(text, end) && !point(at-1, at-2) && !point(end, end+1) {
			return true
		}
		from = at + 1
	}
	return false
}

// ModelJudge asks models by the prompt of package judge, the next one where one
// fails or does not keep to the form.
type ModelJudge struct {
	// Models are asked in this order; empty: the gateway's first. Load balances
	// by rotation: the problem's number says who is asked first.
	Models []string
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
	// An episode without a verdict takes three rounds of tries (desk.reason).
	p.Budget = agon.Budget{Micros: 50_000 * agon.Micros(problems), Calls: 3 * int64(m.tries()) * int64(problems)}
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
	c.Steps = spoken(c)
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
			j, err := judge.New(judge.Config{Session: s, Model: model, Attempts: 1})
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
