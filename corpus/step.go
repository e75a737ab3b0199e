package corpus

import (
	_ "embed" // verl_tools.py
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// productID finds product ids in what a shop's tool answers.
var productID = lazyregexp.New(`"product_id"\s*:\s*"?([^",}\s]{1,64})`)

// shownIDs are the product ids in a tool's result, repeats included.
func shownIDs(result string) []string {
	if !strings.Contains(result, "product_id") {
		return nil // what makes it fast for all kinds but one
	}
	var out []string
	for _, m := range productID().FindAllStringSubmatch(result, -1) {
		out = append(out, m[1])
	}
	return out
}

// processRewards fills in reward_step of every row of one problem, from the
// best of them that a model solved. rows stand best first.
func processRewards(rows []*Row) {
	var best [][]parsedCall
	for _, r := range rows {
		if r.Axis == Agentic && r.solved() {
			for _, m := range r.Messages {
				if len(m.ToolCalls) > 0 {
					best = append(best, parseCalls(m.ToolCalls))
				}
			}
			break
		}
	}
	if len(best) == 0 {
		return // nothing to measure by: null, never 0
	}
	for _, r := range rows {
		for i := range r.Steps {
			calls := parseCalls(r.Messages[r.Steps[i].Step].ToolCalls)
			if len(calls) == 0 {
				continue
			}
			v := math.Inf(-1)
			for _, want := range best {
				v = max(v, toolMatch(calls, want))
			}
			v = round(v, 4)
			r.Steps[i].Reward = &v
		}
	}
}

// parsedCall is a call with its arguments by name, each as canonical JSON.
type parsedCall struct {
	name string
	args map[string]string
}

func parseCalls(list []ToolCall) []parsedCall {
	out := make([]parsedCall, 0, len(list))
	for _, c := range list {
		p := parsedCall{c.Function.Name, map[string]string{}}
		tree, err := decodeTree([]byte(c.Function.Arguments))
		if obj, ok := tree.(map[string]any); ok && err == nil {
			for k, v := range obj {
				if b, err := appendTree(nil, v); err == nil {
					p.args[k] = string(b)
				}
			}
		}
		out = append(out, p)
	}
	return out
}

// toolMatch is how well calls match those wanted, from -3 to 3: the names'
// Jaccard index, plus for each wanted call, with the one that fits it best, the
// Jaccard index of the parameters' names and the number of equal values; all of
// what could be had (the shape of ToolRL's correctness reward).
func toolMatch(calls, want []parsedCall) float64 {
	names := func(list []parsedCall) map[string]bool {
		m := map[string]bool{}
		for _, c := range list {
			m[c.name] = true
		}
		return m
	}
	got, most := jaccard(names(calls), names(want)), 1.0
	used := make([]bool, len(calls))
	for _, w := range want {
		most += 1 + float64(len(w.args))
		best, at := 0.0, -1
		for i, c := range calls {
			if used[i] || c.name != w.name {
				continue
			}
			v := jaccard(keysOf(c.args), keysOf(w.args))
			for k, x := range w.args {
				if y, ok := c.args[k]; ok && x == y {
					v++
				}
			}
			if at < 0 || v > best {
				best, at = v, i
			}
		}
		if at >= 0 {
			used[at] = true
			got += best
		}
	}
	return 6*got/most - 3
}

func keysOf(m map[string]string) map[string]bool {
	out := make(map[string]bool, len(m))
	for k := range m {
		out[k] = true
	}
	return out
}

// jaccard is the share of what two sets have in common; 1 for two empty ones.
func jaccard(a, b map[string]bool) float64 {
	both := 0
	for k := range a {
		if b[k] {
			both++
		}
	}
	if len(a)+len(b) == 0 {
		return 1
	}
	return float64(both) / float64(len(a)+len(b)-both)
}

// verlClass is the class of the tools in verlTools: it carries a call out at a
// tool server, so that a trainer's model acts as the arena's agents did.
//
//go:embed verl_tools.py
var verlClass string

// verlTools is verl's list of tools: every tool that a row of the corpus was
// offered, with the class of verl_tools.py, which stands beside it.
func verlTools(schemas offered) ([]byte, error) {
	list := make([]any, 0, len(schemas))
	for _, n := range slices.Sorted(maps.Keys(schemas)) {
		schema, err := decodeTree(schemas[n])
		if err != nil {
			return nil, err
		}
		list = append(list, map[string]any{"class_name": "verl_tools.ServedTool", "config": map[string]any{"type": "native"}, "tool_schema": plainNumbers(schema)})
	}
	return yaml.Marshal(map[string]any{"tools": list})
}

// plainNumbers turns the numbers of a JSON tree into those that YAML writes.
func plainNumbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		if f, err := x.Float64(); err == nil {
			return f
		}
		return x.String()
	case []any:
		for i := range x {
			x[i] = plainNumbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = plainNumbers(x[k])
		}
	}
	return v
}
