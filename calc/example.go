package calc

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// WithExamples gives rules the inputs of examples, a line each:
// {"rule": NAME, "in": OBJECT}. The file is part of the program: a line that
// cannot be read or names none of the rules is a programming error and panics.
func WithExamples(rules []Rule, examples []byte) []Rule {
	out := append([]Rule(nil), rules...)
	for line := range bytes.Lines(examples) {
		var x struct {
			Rule string          `json:"rule"`
			In   json.RawMessage `json:"in"`
		}
		if err := json.Unmarshal(line, &x); err != nil || len(x.In) == 0 {
			panic(fmt.Sprintf("calc: example %q: %v", line, err))
		}
		found := false
		for i := range out {
			if out[i].Name == x.Rule {
				out[i].Example, found = string(x.In), true
			}
		}
		if !found {
			panic("calc: example of the unknown rule " + x.Rule)
		}
	}
	return out
}

// Example returns an input line of a rule that it answers, or "".
func (r *Registry) Example(rule string) string { return r.rules[rule].Example }
