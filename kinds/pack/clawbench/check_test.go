package clawbench

import (
	"bytes"
	"encoding/json"
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

func TestParseRefuses(t *testing.T) {
	for name, s := range map[string]string{
		"no yaml":      "\t:",
		"no name":      "prompt: x",
		"name":         "name: ../x\nprompt: x",
		"no prompt":    "name: a",
		"weight":       "name: a\nprompt: x\nweight: .nan",
		"check type":   "name: a\nprompt: x\nscoring: {checks: [{type: nope}]}",
		"pattern":      "name: a\nprompt: x\nscoring: {checks: [{type: response_contains, pattern: '('}]}",
		"criterion":    "name: a\nprompt: x\nscoring: {criteria: [{id: a}, {id: a}]}",
		"workspace":    "name: a\nprompt: x\nworkspace: {../x: y}",
		"variant":      "name: a\nprompt: x\nvariants: {baseline: /etc/passwd}",
		"not UTF-8":    "name: \xff",
		"too large":    "name: a\nprompt: " + strings.Repeat("x", MaxScenario),
		"laughs":       "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]\nname: 7",
		"list as name": "name: [a]\nprompt: x",
	} {
		if _, err := Parse([]byte(s)); err == nil {
			t.Errorf("%s: taken", name)
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
