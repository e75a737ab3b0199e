package query

import (
	"fmt"
	"strings"
	"testing"
)

func TestReadSuite(t *testing.T) {
	items, how, err := ReadSuite(strings.NewReader("{\"question\": \"who?\", \"answer\": \"she\"}\n\n{\"problem\": \"when?\", \"answer\": \"in 1931\", \"source\": \"x\"}\n"))
	if err != nil || how != ScoringCorrect || fmt.Sprint(items) != "[{who? she []} {when? in 1931 []}]" {
		t.Fatalf("%v %s %v", items, how, err)
	}
	items, how, err = ReadSuite(strings.NewReader(`{"query": "why?", "rubric": [{"id": "a", "weight": 2, "requirement": "says why"}, {"id": "b", "weight": -1, "requirement": "guesses"}]}`))
	if err != nil || how != ScoringRubric || len(items) != 1 || len(items[0].Rubric) != 2 {
		t.Fatalf("%v %s %v", items, how, err)
	}
	for text, want := range map[string]string{
		"":                  "no item",
		"{}":                "line 1: question",
		`{"question": "q"}`: "line 1: answer, rubric: want one",
		"\n\nnot JSON":      "line 3: not an item",
		`{"question": 3}`:   "line 1: not an item",
		`{"question": "q", "answer": "a", "rubric": [{"id": "a", "weight": 1, "requirement": "r"}]}`:                                            "not both",
		`{"question": "q", "rubric": [{"id": "a", "weight": 0, "requirement": "r"}]}`:                                                           "weight",
		`{"question": "q", "rubric": [{"id": "a", "weight": 1, "requirement": " "}]}`:                                                           "rubric[0].requirement",
		`{"question": "q", "rubric": [{"id": "a", "weight": 1, "requirement": "r"}, {"id": "a", "weight": 1, "requirement": "r"}]}`:             "an id that no other has",
		`{"question": "q", "rubric": [{"id": "a", "weight": -1, "requirement": "r"}]}`:                                                          "positive weight",
		"{\"question\": \"q\", \"answer\": \"a\"}\n{\"question\": \"q\", \"rubric\": [{\"id\": \"a\", \"weight\": 1, \"requirement\": \"r\"}]}": "line 2: answer, rubric",
		`{"question": "` + strings.Repeat("x", maxSuiteLine) + `"}`:                                                                             "line 1: longer than",
	} {
		if _, _, err := ReadSuite(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %s", text, err, want)
		}
	}
}

func TestBenchSum(t *testing.T) {
	for _, c := range []struct {
		scores []float64
		failed int
		mean   float64
		state  string
	}{{[]float64{1, 0}, 0, .5, BenchCompleted}, {[]float64{1}, 3, .25, BenchPartial}, {nil, 2, 0, BenchFailed}} {
		if mean, state := BenchSum(c.scores, c.failed); mean != c.mean || state != c.state {
			t.Errorf("%+v: %v %s", c, mean, state)
		}
	}
}

func FuzzReadSuite(f *testing.F) {
	f.Add([]byte(`{"question": "q", "answer": "a"}`))
	f.Add([]byte(`{"question": "q", "rubric": [{"id": "a", "weight": 1, "requirement": "r"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		items, how, err := ReadSuite(strings.NewReader(string(b)))
		if err != nil {
			return
		}
		for _, x := range items {
			if x.Question == "" || (x.Rubric == nil) != (how == ScoringCorrect) {
				t.Fatalf("%+v as %s", x, how)
			}
		}
	})
}
