package judge

import (
	"context"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// The graded answers that ship are many, no case says twice the same, and every class
// that attacks has enough cases for the gate to look at it.
func TestShippedItems(t *testing.T) {
	for _, x := range Exams() {
		if x.Form == "" || x.Shipped == "" {
			t.Errorf("%s: %+v", x.Prompt.Name, x)
		}
	}
	for name, shipped := range map[string]string{"correct": shippedCorrect, "criterion": shippedCriterion} {
		cases, err := ReadItems(strings.NewReader(shipped))
		if err != nil || len(cases) < 300 {
			t.Fatalf("%s: %d cases %v", name, len(cases), err)
		}
		yes, no, seen := 0, map[string]int{}, map[ItemCase]string{}
		for _, c := range cases {
			if c.bounded() != c.ItemCase {
				t.Errorf("%s: %s is cut", name, c.ID)
			}
			if other := seen[c.ItemCase]; other != "" {
				t.Errorf("%s: %s is %s again", name, c.ID, other)
			}
			seen[c.ItemCase] = c.ID
			if c.Holds {
				yes++
			} else {
				no[c.Class]++
			}
		}
		if yes < 100 {
			t.Errorf("%s: %d cases hold", name, yes)
		}
		for _, class := range []string{"injection", "authority", "imitated reply", "wrong fact", "length", "language"} {
			if no[class] < gateCases {
				t.Errorf("%s: class %q has %d cases that do not hold", name, class, no[class])
			}
		}
	}
}

// Through the gateway: a judge that reads the labels passes, one that obeys what an answer
// orders is below the gate by that class, and one that accepts everything by kappa.
func TestCalibrateItems(t *testing.T) {
	for _, p := range []Prompt{CorrectPrompt(), CriterionPrompt()} {
		shipped, reply := shippedCorrect, map[bool]string{true: `{"reason": "r", "is_correct": true}`, false: `{"reason": "r", "is_correct": false}`}
		if p.Name == CriterionPrompt().Name {
			shipped, reply = shippedCriterion, map[bool]string{true: `{"justification": "r", "verdict": "MET"}`, false: `{"justification": "r", "verdict": "UNMET"}`}
		}
		cases, err := ReadItems(strings.NewReader(shipped))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name   string
			says   func(LabelledItem) bool
			passed bool
			why    string
		}{
			{"by the labels", func(l LabelledItem) bool { return l.Holds }, true, "passed"},
			{"what obeys", func(l LabelledItem) bool { return l.Holds || l.Class == "injection" }, false, `"injection"`},
			{"yes", func(LabelledItem) bool { return true }, false, "kappa"},
		} {
			n := 0 // asked in order, and once each: every reply has the form
			j := against(t, Config{Model: "m"}, func(asked) (int, string) {
				l := cases[n]
				n++
				return 200, text(reply[c.says(l)])
			})
			got, err := j.CalibrateItems(context.Background(), p, cases, nil)
			if err != nil || got.Passed != c.passed || !strings.Contains(got.Why, c.why) || got.Judged != len(cases) || got.Scorer != ItemScorer(p, []string{"m"}) {
				t.Errorf("%s, %s: %v, passed %v, %s, %d judged, scorer %s", p.Name, c.name, err, got.Passed, got.Why, got.Judged, got.Scorer)
			}
		}
	}
}

// A judge on the gateway is measured; cases in another form are refused.
func TestReadItems(t *testing.T) {
	j, rec := scriptedJudge(t, `version = 1
[[rule]]
content = '{"reason": "r", "is_correct": true}'
`, agon.Budget{Micros: 100_000, Calls: 10})
	const good = `{"id":"1","class":"c","question":"q","wanted":"w","answer":"a","holds":false}`
	cases, err := ReadItems(strings.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	got, err := j.CalibrateItems(context.Background(), CorrectPrompt(), cases, nil)
	if err != nil || got.FalseAccepts != 1 || got.FalseAccept["c"] != 1 || rec.n() != 1 {
		t.Errorf("%+v %v, %d calls", got, err, rec.n())
	}
	for _, bad := range []string{
		"", "{}", strings.Replace(good, `,"holds":false`, "", 1), strings.Replace(good, `"w"`, `""`, 1), strings.Replace(good, `"holds"`, `"hold"`, 1), good + good, good + "\n" + good,
	} {
		if _, err := ReadItems(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
