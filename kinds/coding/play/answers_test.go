package play

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon"
)

// A table of patches is refused, data in letters is told, and a prompt with an example is neither.
func TestEmbeddedAnswers(t *testing.T) {
	diff := func(n int) string {
		return fmt.Sprintf("--- a/x%d.py\n+++ b/x%d.py\n@@ -%d,3 +%d,3 @@\n a\n-b\n+c\n", n, n, n+1, n+1)
	}
	table := func(n int, quote func(string) string) string {
		var b strings.Builder
		b.WriteString("TABLE = {\n")
		for i := range n {
			fmt.Fprintf(&b, "    'task %d': %s,\n", i, quote(diff(i)))
		}
		return b.String() + "}\ndef agent_main(input):\n    return TABLE.get(input['problem_statement'], '')\n"
	}
	triple := func(s string) string { return `"""` + s + `"""` }
	escaped := func(s string) string { return fmt.Sprintf("%q", s) }
	pieces := func(s string) string { // one text beside the other
		var out []string
		for l := range strings.Lines(s) {
			out = append(out, fmt.Sprintf("%q", l))
		}
		return "(" + strings.Join(out, "\n        ") + ")"
	}
	data := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("patch", 3000)))
	main := "\ndef agent_main(input):\n    return ''\n"
	for _, c := range []struct{ name, src, code string }{
		{"a table", table(27, triple), FindAnswers},
		{"with escapes", table(27, escaped), FindAnswers},
		{"in pieces", table(27, pieces), FindAnswers},
		{"an example or two", table(2, triple), ""},
		{"a comment full of them", "# " + strings.ReplaceAll(strings.Repeat(diff(1), 20), "\n", "\n# ") + main, ""},
		{"data in letters", "D = '" + data + "'" + main, FindCoded},
		{"a long text", "P = '''" + strings.Repeat("You are an engineer who reads before he writes. ", 400) + "'''" + main, ""},
	} {
		found := CheckSource([]byte(c.src))
		got := ""
		for _, f := range found {
			got += f.Code
		}
		if got != c.code || len(found) > 0 && found[0].Warning != (c.code == FindCoded) {
			t.Errorf("%s: %+v, want %q", c.name, found, c.code)
		}
	}
}

// What looks its answers up by the names of the arena's tasks is refused, however the answers are written. Hidden tasks tell nothing.
func TestNamedTasks(t *testing.T) {
	var tasks, hidden []agon.TaskRef
	table, few := "T = {", "T = {"
	for i := range 12 {
		name := fmt.Sprintf("released/package-%d-1-0", i)
		tasks, hidden = append(tasks, agon.TaskRef{Key: name}), append(hidden, agon.TaskRef{Key: name, Hidden: true})
		entry := fmt.Sprintf("'package-%d-1-0': ('calc.py', 'a - b', 'a + b'), ", i)
		if table += entry; i < 3 {
			few += entry
		}
	}
	main := "}\ndef agent_main(input):\n    return ''\n"
	k := New(Config{})
	for name, c := range map[string]struct {
		src     string
		arena   *agon.Arena
		refused bool
	}{
		"a table":           {table + main, &agon.Arena{Tasks: tasks}, true},
		"a few":             {few + main, &agon.Arena{Tasks: tasks}, false},
		"of another arena":  {table + main, &agon.Arena{Tasks: []agon.TaskRef{{Key: "small/semver"}}}, false},
		"of hidden tasks":   {table + main, &agon.Arena{Tasks: hidden}, false},
		"no arena is known": {table + main, nil, false},
		"in a comment":      {"#" + table + "\nT = {" + main, &agon.Arena{Tasks: tasks}, false},
	} {
		found, err := k.Check(t.Context(), c.arena, fstest.MapFS{AgentFile: {Data: []byte(c.src)}})
		if err != nil || (len(found) > 0) != c.refused || c.refused && (found[0].Code != FindAnswers || found[0].Warning) {
			t.Errorf("%s: %+v %v", name, found, err)
		}
	}
}
