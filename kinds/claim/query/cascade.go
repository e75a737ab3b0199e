// Package query holds the rules of the query era of claim arenas: what a query
// and a response are, who is champion, who is paid, which scripts are alike.
// Everything in it is pure; agon calc recomputes it.
package query

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Names of the rules of the cascade, in order.
const (
	PositiveScore    = "positive_score"
	ScoreMargin      = "score_margin"
	CostReduction    = "cost_reduction"
	RuntimeReduction = "runtime_reduction"
)

// What became of a rule.
const (
	Passed        = "passed"
	Failed        = "failed"
	Unavailable   = "unavailable"    // a number is missing
	NotApplicable = "not_applicable" // the incumbent scored nothing
)

// absoluteFrom is the data version since which the margin is ten points.
const absoluteFrom = 8

// Standing is an artifact over the tasks of a batch.
type Standing struct {
	ID          string   `json:"id,omitempty"`
	Hotkey      string   `json:"hotkey,omitempty"`
	UID         int      `json:"uid,omitempty"`
	SubmittedAt string   `json:"submitted_at,omitempty"`
	Total       float64  `json:"total"`                // sum over the tasks
	Cost        *float64 `json:"cost,omitempty"`       // reference cost, dollars
	ElapsedMS   *float64 `json:"elapsed_ms,omitempty"` // null: not known
}

// RuleResult is one rule of a step.
type RuleResult struct {
	Rule   string `json:"rule"`
	Status string `json:"status"`
	// Required and Observed are the bar and what was seen, where the rule compares.
	Required *float64 `json:"required,omitempty"`
	Observed *float64 `json:"observed,omitempty"`
	// RequiredAbsolute is the bar of the score margin as a share of the tasks.
	RequiredAbsolute *float64 `json:"required_absolute,omitempty"`
}

// Step is one challenge.
type Step struct {
	Challenger string       `json:"challenger,omitempty"`
	Incumbent  string       `json:"incumbent,omitempty"`
	Winner     string       `json:"winner"` // challenger, incumbent or none
	Rule       string       `json:"rule,omitempty"`
	Rules      []RuleResult `json:"rules"`
}

// Rulebook says which thresholds hold.
type Rulebook struct {
	Version int // of the data; 0: the newest
	// Historical leaves out that cost and runtime must not get worse, as before that was asked.
	Historical bool
}

// near is Python's isclose with 1e-9 for both tolerances.
func near(a, b float64) bool {
	return math.Abs(a-b) <= max(1e-9*max(math.Abs(a), math.Abs(b)), 1e-9)
}

func atLeast(a, b float64) bool { return a > b || near(a, b) }

// Decide lets a challenger meet an incumbent over n tasks; nil is not an incumbent.
func (b Rulebook) Decide(n int, inc *Standing, ch Standing) (Step, error) {
	if n < 1 {
		return Step{}, errors.New("tasks: want at least 1")
	}
	for _, s := range []*Standing{inc, &ch} {
		if s != nil && (math.IsNaN(s.Total) || s.Total < 0 || s.Total > float64(n)*1.5) {
			return Step{}, fmt.Errorf("total of %q is not a score over %d tasks", s.ID, n)
		}
	}
	st := Step{Challenger: ch.ID, Winner: "incumbent"}
	if inc != nil {
		st.Incumbent = inc.ID
	}
	if inc == nil || inc.Total == 0 {
		r := RuleResult{Rule: PositiveScore, Status: Failed}
		st.Winner = "none"
		if ch.Total > 0 {
			r.Status, st.Winner, st.Rule = Passed, "challenger", PositiveScore
		}
		st.Rules = []RuleResult{r, {Rule: ScoreMargin, Status: NotApplicable}, {Rule: CostReduction, Status: NotApplicable}, {Rule: RuntimeReduction, Status: NotApplicable}}
		return st, nil
	}
	st.Rules = []RuleResult{b.margin(float64(n), *inc, ch), b.cost(*inc, ch), b.runtime(*inc, ch)}
	for _, r := range st.Rules {
		if r.Status == Passed {
			st.Winner, st.Rule = "challenger", r.Rule
			break
		}
	}
	return st, nil
}

func (b Rulebook) absolute() bool {
	return !b.Historical && (b.Version == 0 || b.Version >= absoluteFrom)
}

func (b Rulebook) share() float64 {
	if b.absolute() {
		return 0.9
	}
	return 0.8
}

func (b Rulebook) margin(n float64, inc, ch Standing) RuleResult {
	r := RuleResult{Rule: ScoreMargin, Status: Failed}
	if b.absolute() {
		bar, abs, seen := min(n, inc.Total+0.1*n), min(0.1, (n-inc.Total)/n), (ch.Total-inc.Total)/n
		r.Required, r.RequiredAbsolute, r.Observed = &bar, &abs, &seen
		if ch.Total > inc.Total && atLeast(ch.Total, bar) {
			r.Status = Passed
		}
		return r
	}
	bar := 1.2 * inc.Total
	r.Required, r.Observed = &bar, &ch.Total
	if ch.Total >= bar { // this one has no tolerance
		r.Status = Passed
	}
	return r
}

func (b Rulebook) cost(inc, ch Standing) RuleResult {
	r := RuleResult{Rule: CostReduction, Status: Failed}
	if inc.Cost == nil || ch.Cost == nil || !b.Historical && (inc.ElapsedMS == nil || ch.ElapsedMS == nil) {
		r.Status = Unavailable
		return r
	}
	bar := b.share() * *inc.Cost
	r.Required, r.Observed = &bar, ch.Cost
	if atLeast(ch.Total, inc.Total) && atLeast(bar, *ch.Cost) && *inc.Cost > 0 && (b.Historical || atLeast(*inc.ElapsedMS, *ch.ElapsedMS)) {
		r.Status = Passed
	}
	return r
}

func (b Rulebook) runtime(inc, ch Standing) RuleResult {
	r := RuleResult{Rule: RuntimeReduction, Status: Failed}
	if inc.ElapsedMS == nil || ch.ElapsedMS == nil || inc.Cost == nil || ch.Cost == nil {
		r.Status = Unavailable
		return r
	}
	bar := b.share() * *inc.ElapsedMS
	r.Required, r.Observed = &bar, ch.ElapsedMS
	if atLeast(ch.Total, inc.Total) && atLeast(*inc.Cost, *ch.Cost) && atLeast(bar, *ch.ElapsedMS) && atLeast(*inc.ElapsedMS-*ch.ElapsedMS, 1000) {
		r.Status = Passed
	}
	return r
}

// Outcome is a batch decided.
type Outcome struct {
	Champion *string  `json:"champion"` // null: there is none
	Score    float64  `json:"score"`    // total over tasks of the champion, 0 without one
	Lineage  []string `json:"lineage"`  // who held the seat, in order
	Steps    []Step   `json:"steps"`
}

// Champion lets challengers meet whoever sits then: first the incumbent's own
// newer script, then by time of submission, uid and id.
func (b Rulebook) Champion(n int, inc *Standing, list []Standing) (Outcome, error) {
	own := func(s Standing) int {
		if inc != nil && inc.Hotkey != "" && s.Hotkey == inc.Hotkey {
			return 0
		}
		return 1
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(x, y Standing) int {
		return cmp.Or(cmp.Compare(own(x), own(y)), cmp.Compare(x.SubmittedAt, y.SubmittedAt), cmp.Compare(x.UID, y.UID), cmp.Compare(x.ID, y.ID))
	})
	out := Outcome{Lineage: []string{}, Steps: []Step{}}
	sits := inc
	if inc != nil {
		out.Lineage = append(out.Lineage, inc.ID)
	}
	for i := range list {
		st, err := b.Decide(n, sits, list[i])
		if err != nil {
			return out, err
		}
		out.Steps = append(out.Steps, st)
		if st.Winner == "challenger" {
			sits = &list[i]
			out.Lineage = append(out.Lineage, sits.ID)
		}
	}
	if sits != nil && sits.Total > 0 {
		out.Champion, out.Score = &sits.ID, sits.Total/float64(n)
	}
	return out, nil
}

// MainOrder ranks who played the main stage, for pay: champions of it from the
// last to the first, then the others from the last that qualified to the first.
func MainOrder(lineage, order []string) []string {
	var out []string
	for _, list := range [][]string{lineage, order} {
		for _, id := range slices.Backward(list) {
			if !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}
