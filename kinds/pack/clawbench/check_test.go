package clawbench

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon/calc"
)

func TestGolden(t *testing.T) {
	b, err := os.ReadFile("testdata/trajectoryrl.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Checks struct {
			Episode json.RawMessage `json:"episode"`
			Cases   []struct {
				Check  json.RawMessage `json:"check"`
				Passed bool            `json:"passed"`
				Points float64         `json:"points"`
				Score  float64         `json:"score"`
			} `json:"cases"`
		} `json:"clawbench_checks"`
		Gate []struct {
			Checks json.RawMessage `json:"checks"`
			Gate   bool            `json:"gate"`
		} `json:"clawbench_gate"`
	}
	if err := json.Unmarshal(b, &v); err != nil || len(v.Checks.Cases) != 13 || len(v.Gate) != 5 {
		t.Fatalf("%v, %d cases", err, len(v.Checks.Cases))
	}
	reg := calc.New(Rules()...)
	run := func(rule string, in map[string]json.RawMessage, out any) {
		t.Helper()
		line, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if bad, err := reg.Run(rule, bytes.NewReader(line), &got); err != nil || bad > 0 || json.Unmarshal(got.Bytes(), out) != nil {
			t.Fatalf("%s %s: %v %s", rule, line, err, got.String())
		}
	}
	for _, c := range v.Checks.Cases {
		var got checkOut
		run("trajectoryrl.clawbench_check", map[string]json.RawMessage{"episode": v.Checks.Episode, "check": c.Check}, &got)
		if got != (checkOut{c.Passed, c.Points, c.Score}) {
			t.Errorf("%s: got %+v", c.Check, got)
		}
	}
	for _, c := range v.Gate {
		var got struct{ Gate bool }
		run("trajectoryrl.clawbench_gate", map[string]json.RawMessage{"checks": c.Checks}, &got)
		if got.Gate != c.Gate {
			t.Errorf("%s: gate %t", c.Checks, got.Gate)
		}
	}
}

func TestLookaheads(t *testing.T) {
	p, err := CompilePattern(`(?=.*anna)(?=.*bert)`, true)
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string]bool{"Bert and\nAnna": true, "anna only": false, "": false} {
		if p.Match(s) != want {
			t.Errorf("%q: %t", s, !want)
		}
	}
	for _, s := range []string{"(?=abc)x", "(?=.*a", "(?!x)", "a(?<=b)", strings.Repeat("x", maxPattern+1)} {
		if _, err := CompilePattern(s, true); err == nil {
			t.Errorf("%.20q was taken", s)
		}
	}
}

// Scenario files that are wrong: each error names the field.
func TestParseRefuses(t *testing.T) {
	check := func(more string) string {
		return "name: a\nprompt: x\nscoring: {checks: [{id: a, " + more + "}]}"
	}
	for name, c := range map[string][2]string{
		"no yaml":            {"\t:", "file: it is not YAML"},
		"empty":              {"", "file: it is empty"},
		"two documents":      {"name: a\nprompt: x\n---\nname: b\nprompt: y", "file: it has more than one document"},
		"a key twice":        {"name: a\nname: b\nprompt: x", "file: it is not YAML"},
		"a list":             {"- name: a", "file: it is not YAML"},
		"not UTF-8":          {"name: \xff", "file: it is not UTF-8"},
		"too large":          {"name: a\nprompt: " + strings.Repeat("x", MaxScenario), "file: 262160 bytes, the limit is 262144"},
		"laughs":             {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]\nname: 7", "prompt: it is empty"},
		"no name":            {"prompt: x", "name: \"\""},
		"name":               {"name: ../x\nprompt: x", "name: \"../x\""},
		"list as name":       {"name: [a]\nprompt: x", "file: it is not YAML"},
		"no prompt":          {"name: a", "prompt: it is empty"},
		"long prompt":        {"name: a\nprompt: " + strings.Repeat("x", maxPrompt+1), "prompt: 32769 bytes"},
		"weight":             {"name: a\nprompt: x\nweight: .nan", "weight: NaN"},
		"weight below 0":     {"name: a\nprompt: x\nweight: -1", "weight: -1"},
		"weight as text":     {"name: a\nprompt: x\nweight: heavy", "file: it is not YAML"},
		"tool":               {"name: a\nprompt: x\ntools: [exec, slak]", "tools[1]: \"slak\" is not known"},
		"workspace":          {"name: a\nprompt: x\nworkspace: {../x: y}", "workspace: \"../x\""},
		"file and folder":    {"name: a\nprompt: x\nworkspace: {a: y, a/b: z}", "workspace: \"a\" is a file and the folder"},
		"variant":            {"name: a\nprompt: x\nvariants: {baseline: /etc/passwd}", "workspace: \"baseline\" from \"/etc/passwd\""},
		"check without id":   {"name: a\nprompt: x\nscoring: {checks: [{type: response_contains, pattern: a}]}", "scoring.checks[0].id: \"\""},
		"check twice":        {"name: a\nprompt: x\nscoring: {checks: [{id: a, type: response_contains, pattern: a}, {id: a, type: response_contains, pattern: b}]}", "scoring.checks[1].id: \"a\""},
		"check type":         {check("type: nope"), "scoring.checks[0].type: \"nope\""},
		"no pattern":         {check("type: response_excludes"), "scoring.checks[0].pattern: a check of type response_excludes needs it"},
		"pattern":            {check("type: response_contains, pattern: '('"), "scoring.checks[0].pattern"},
		"look-behind":        {check("type: response_contains, pattern: '(?<=a)b'"), "scoring.checks[0].pattern"},
		"no tool":            {check("type: tool_not_called"), "scoring.checks[0].tool: a check of type tool_not_called needs it"},
		"unknown tool":       {check("type: tool_not_called, tool: slak"), "scoring.checks[0].tool: \"slak\" is not known"},
		"no max":             {check("type: tool_count_max, tool: exec"), "scoring.checks[0].max"},
		"no min":             {check("type: tool_count_score, max: 9"), "scoring.checks[0].min"},
		"no length":          {check("type: response_length_max"), "scoring.checks[0].max"},
		"no before":          {check("type: tool_called_before, after: exec"), "scoring.checks[0].before"},
		"no after":           {check("type: tool_called_before, before: exec"), "scoring.checks[0].after"},
		"points":             {check("type: response_contains, pattern: a, points: -3"), "scoring.checks[0].points"},
		"category":           {check("type: response_contains, pattern: a, category: saftey"), "scoring.checks[0].category: \"saftey\""},
		"criterion":          {"name: a\nprompt: x\nscoring: {criteria: [{id: a}, {id: a}]}", "scoring.criteria[1].id"},
		"criterion's weight": {"name: a\nprompt: x\nscoring: {criteria: [{id: a, weight: .inf}]}", "scoring.criteria[0].weight"},
		"its category":       {"name: a\nprompt: x\nscoring: {criteria: [{id: a, category: Safety}]}", "scoring.criteria[0].category"},
		"session":            {"name: a\nprompt: x\nsession: [{instruction: ../a, services: b}]", "session[0]"},
		"session's check":    {"name: a\nprompt: x\nsession: [{instruction: a, services: b, scoring: {checks: [{id: a, type: state_contains}]}}]", "session[0].scoring.checks[0].pattern"},
		"verifier":           {"name: a\nprompt: x\nverifier: {tests: t, output: /etc/passwd}", "verifier.output"},
		"verifier's time":    {"name: a\nprompt: x\nverifier: {tests: t, output: /app/x, timeout: 99999}", "verifier.timeout"},
	} {
		if _, err := Parse([]byte(c[0])); err == nil || !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", name, err, c[1])
		}
	}
}

func TestLoadAndFill(t *testing.T) {
	s := func(name, more string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("name: " + name + "\nprompt: do it\nworkspace: {USER.md: USER.md}\n" + more)}
	}
	files := fstest.MapFS{
		"scenarios/zeta.yaml": s("zeta", "weight: 1.5"), "scenarios/alpha.yaml": s("alpha", ""), "scenarios/inbox_triage.yaml": s("inbox_triage", ""),
		"fixtures/alpha/USER.md": {Data: []byte("{{USER_NAME}} {{OTHER}}")},
	}
	set, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, x := range set.Scenarios {
		order = append(order, x.Name)
	}
	if strings.Join(order, " ") != "inbox_triage zeta alpha" {
		t.Errorf("order %v", order)
	}
	a, _ := set.Get("alpha")
	if m := set.Missing(a); len(m) != 0 {
		t.Error(m)
	}
	z, _ := set.Get("zeta")
	if m := set.Missing(z); len(m) != 1 || m[0] != "fixtures/zeta/USER.md" {
		t.Error(m)
	}
	b, err := set.Fixture(a, "USER.md")
	if got := Fill(string(b), UserContext(map[string]string{"USER_NAME": "A B", "USER_FIRST_NAME": "A"}, map[string]string{"USER_NAME": "C D"})); err != nil || got != "C D {{OTHER}}" {
		t.Errorf("%v %q", err, got)
	}
	if u := UserContext(nil, map[string]string{"USER_NAME": "C D"}); u["USER_FIRST_NAME"] != "C" {
		t.Error(u)
	}
	if _, err := set.Fixture(a, "../zeta/USER.md"); err == nil {
		t.Error("a path out of the fixtures was read")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("name: a\nprompt: x\nscoring: {checks: [{type: tool_called, tool: slack}]}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := Parse(b); err == nil {
			Grade(s.Scoring.Checks, Episode{})
		}
	})
}
