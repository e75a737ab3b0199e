package judge

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// The comparisons that ship are many, in classes that each have enough of both labels.
func TestShippedPairs(t *testing.T) {
	cases, err := ReadPairs(strings.NewReader(shippedPairs))
	if err != nil || len(cases) < 300 {
		t.Fatalf("%d cases %v", len(cases), err)
	}
	by := map[string]map[string]int{}
	for _, c := range cases {
		if by[c.Class] == nil {
			by[c.Class] = map[string]int{}
		}
		by[c.Class][c.Better]++
	}
	for class, n := range by {
		if n[BetterAnswer] < gateCases || n[BetterReference] < gateCases {
			t.Errorf("class %q has %v", class, n)
		}
	}
	for _, want := range []string{"length", "position", "injection in a citation", "planted repository", "language", "structured"} {
		if by[want] == nil {
			t.Errorf("no class %q", want)
		}
	}
}

// A judge that reads the labels passes; one that prefers a position, or the longer
// answer, or whatever asks for it, is below the gate, and the report says which it was.
func TestCalibratePairs(t *testing.T) {
	cases, err := ReadPairs(strings.NewReader(shippedPairs))
	if err != nil {
		t.Fatal(err)
	}
	longer := func(a, b PairAnswer) bool { return len(a.Text) > len(b.Text) }
	asks := func(a PairAnswer) bool {
		all := a.Text
		for _, c := range a.Citations {
			if c != nil {
				all += c.Note
			}
		}
		return strings.Contains(strings.ToLower(all), "prefer") || strings.Contains(all, "choose it") || strings.Contains(all, "better")
	}
	right := func(l LabelledPair) int {
		if l.Better == BetterAnswer {
			return 2
		}
		return 0
	}
	for _, c := range []struct {
		name   string
		judge  func(LabelledPair) PairVerdict
		passed bool
		why    string
		pos    Position
	}{
		{"by the labels", func(l LabelledPair) PairVerdict { return PairVerdict{Wins: right(l), First: 1} }, true, "passed", Position{0, 0.5}},
		{"the first", func(LabelledPair) PairVerdict { return PairVerdict{Wins: 1, First: 2} }, false, "kappa", Position{1, 1}},
		{"the longer", func(l LabelledPair) PairVerdict {
			v := PairVerdict{Wins: right(l), First: 1}
			if l.Class == "length" {
				if v.Wins = 0; longer(l.Answer, l.Reference) {
					v.Wins = 2
				}
			}
			return v
		}, false, `"length"`, Position{0, 0.5}},
		{"whatever asks", func(l LabelledPair) PairVerdict {
			v := PairVerdict{Wins: right(l), First: 1}
			if asks(l.Answer) {
				v.Wins = 2
			}
			return v
		}, false, `"injection`, Position{0, 0.5}},
	} {
		got := &Calibration{Prompt: PairwisePrompt().ID(), Model: "m", Scorer: PairwiseScorer([]string{"m"})}
		next := 0
		if err := got.pairs(cases, nil, func(PairCase) (PairVerdict, error) { // in order
			l := cases[next]
			next++
			return c.judge(l), nil
		}); err != nil {
			t.Fatal(err)
		}
		if got.Passed != c.passed || !strings.Contains(got.Why, c.why) || *got.Position != c.pos || got.Judged != len(cases) {
			t.Errorf("%s: passed %v, %s, %+v", c.name, got.Passed, got.Why, *got.Position)
		}
	}
}

// Through the gateway: both orders are asked, and a script that always prefers the
// first is seen by its flips.
func TestCalibratePairsByModel(t *testing.T) {
	j, rec := scriptedJudge(t, `version = 1
[[rule]]
last = "broken"
content = 'no object'
[[rule]]
content = '{"rationale": "r", "preferred_position": "first"}'
`, agon.Budget{Micros: 100_000, Calls: 1000})
	cases, err := ReadPairs(strings.NewReader(`{"id":"1","class":"c","query":"q","answer":{"answer_text":"a","validated_citations":[]},"reference":{"answer_text":"b","validated_citations":[null]},"better":"answer"}
{"id":"2","query":"q","answer":{"answer_text":"b","validated_citations":[]},"reference":{"answer_text":"a","validated_citations":[]},"better":"reference"}
`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := j.CalibratePairs(context.Background(), cases, nil)
	if err != nil || got.Judged != 2 || got.Agree != 0 || got.FalseAccepts != 1 || got.FalseRejects != 1 || *got.Position != (Position{1, 1}) || rec.n() != 4 {
		t.Fatalf("%+v %v, %d calls", got, err, rec.n())
	}
	for _, bad := range []string{
		"", "{}", `{"id":"1","query":"q","answer":{"answer_text":"a"},"reference":{"answer_text":"b"}}`,
		`{"id":"1","query":"q","answer":{"answer_text":"a"},"reference":{"answer_text":"b"},"better":"first"}`,
		`{"id":"1","query":"q","answer":{"answer_text":""},"reference":{"answer_text":"b"},"better":"answer"}`,
		`{"id":"1","query":"q","answer":{"answer_text":"a"},"reference":{"answer_text":"b"},"better":"answer","x":1}`,
	} {
		if _, err := ReadPairs(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// The comparison of words is measured like a judge, says what it is, and never passes.
func TestCalibrateLexical(t *testing.T) {
	pairs, err := ReadPairs(strings.NewReader(shippedPairs))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := ReadCases(strings.NewReader(shippedCases))
	if err != nil {
		t.Fatal(err)
	}
	x, err := CalibrateLexical(cases)
	if err != nil {
		t.Fatal(err)
	}
	y, err := CalibrateLexicalPairs(pairs)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Calibration{x, y} {
		if !c.Demo || c.Passed || c.Judged != c.Cases || c.Cases < 300 || c.Agree == 0 || c.Agree == c.Cases || ScorerModels(c.Scorer) != nil {
			t.Errorf("%+v", *c)
		}
	}
}

func TestScorerModels(t *testing.T) {
	for scorer, want := range map[string]string{
		SupportScorer([]string{"a", "b"}, 2):   "[a b]",
		SupportScorer(nil, 0):                  "[]",
		PairwiseScorer([]string{"openai/x-1"}): "[openai/x-1]",
		LexicalSupport:                         "[]",
		"":                                     "[]",
	} {
		if got := fmt.Sprint(ScorerModels(scorer)); got != want {
			t.Errorf("%s: %s, want %s", scorer, got, want)
		}
	}
}
