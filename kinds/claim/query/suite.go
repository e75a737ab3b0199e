package query

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Versions of how a benchmark's items are scored: by whether the answer is right, or
// by the weights of what it has.
const (
	ScoringCorrect = "correctness-v1"
	ScoringRubric  = "weighted-rubric-v1"
)

// Item is a question of a benchmark: with the answer to it, or with a rubric.
type Item struct {
	Question string
	Answer   string
	Rubric   []Requirement
}

// Requirement is one criterion of a rubric. A negative weight is a penalty.
type Requirement struct {
	ID      string  `json:"id"`
	Section string  `json:"section,omitempty"`
	Weight  float64 `json:"weight"`
	Text    string  `json:"requirement"`
}

// Limits of a benchmark's file.
const (
	MaxSuiteItems  = 20_000
	maxSuiteLine   = 1 << 20
	maxRequirement = 200
)

// ReadSuite reads a benchmark: JSON Lines, each {question, answer} or {question,
// rubric: [{id, section, weight, requirement}]}; the question may be called problem or
// query. All lines are scored alike. Errors name the line.
func ReadSuite(r io.Reader) (items []Item, scoring string, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxSuiteLine)
	line := 0
	for in.Scan() {
		line++
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		if len(items) == MaxSuiteItems {
			return nil, "", fmt.Errorf("line %d: more than %d items", line, MaxSuiteItems)
		}
		x, err := readItem(in.Bytes())
		if err != nil {
			return nil, "", fmt.Errorf("line %d: %w", line, err)
		}
		how := ScoringCorrect
		if x.Rubric != nil {
			how = ScoringRubric
		}
		if scoring != "" && scoring != how {
			return nil, "", fmt.Errorf("line %d: answer, rubric: the lines before have the other one", line)
		}
		scoring, items = how, append(items, x)
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, "", fmt.Errorf("line %d: longer than %d bytes", line+1, maxSuiteLine)
	case err != nil:
		return nil, "", fmt.Errorf("read items: %w", err)
	case len(items) == 0:
		return nil, "", errors.New("no item")
	}
	return items, scoring, nil
}

func readItem(b []byte) (Item, error) {
	var x struct {
		Question string        `json:"question"`
		Problem  string        `json:"problem"`
		Query    string        `json:"query"`
		Answer   string        `json:"answer"`
		Rubric   []Requirement `json:"rubric"`
	}
	if err := json.Unmarshal(b, &x); err != nil {
		return Item{}, fmt.Errorf("not an item: %w", err)
	}
	out := Item{Question: cmp.Or(x.Question, x.Problem, x.Query), Answer: x.Answer, Rubric: x.Rubric}
	switch {
	case strings.TrimSpace(out.Question) == "" || len(out.Question) > MaxChars:
		return Item{}, fmt.Errorf("question: want 1 to %d bytes", MaxChars)
	case len(out.Rubric) == 0 && strings.TrimSpace(out.Answer) == "":
		return Item{}, errors.New("answer, rubric: want one of them")
	case len(out.Rubric) > 0 && out.Answer != "":
		return Item{}, errors.New("answer, rubric: want one of them, not both")
	case len(out.Answer) > MaxChars:
		return Item{}, fmt.Errorf("answer: want at most %d bytes", MaxChars)
	case len(out.Rubric) > maxRequirement:
		return Item{}, fmt.Errorf("rubric: %d criteria, want at most %d", len(out.Rubric), maxRequirement)
	case len(out.Rubric) == 0:
		out.Rubric = nil
		return out, nil
	}
	verdicts := make([]Criterion, 0, len(out.Rubric))
	for i, q := range out.Rubric {
		if strings.TrimSpace(q.Text) == "" || len(q.Text) > MaxChars {
			return Item{}, fmt.Errorf("rubric[%d].requirement: want 1 to %d bytes", i, MaxChars)
		}
		verdicts = append(verdicts, Criterion{ID: q.ID, Section: q.Section, Weight: q.Weight, Verdict: "UNMET"})
	}
	if _, err := Rubric(verdicts); err != nil {
		return Item{}, fmt.Errorf("rubric: %w", err)
	}
	return out, nil
}

// States of a benchmark's run and of its items.
const (
	BenchCompleted = "completed"
	BenchPartial   = "partial_success"
	BenchFailed    = "failed"
)

// BenchSum is what the items of a run come to: the mean over all, failed ones as 0.
func BenchSum(scores []float64, failed int) (mean float64, state string) {
	sum := 0.0
	for _, x := range scores {
		sum += x
	}
	if n := len(scores) + failed; n > 0 {
		mean = sum / float64(n)
	}
	switch {
	case failed == 0:
		return mean, BenchCompleted
	case len(scores) > 0:
		return mean, BenchPartial
	}
	return mean, BenchFailed
}
