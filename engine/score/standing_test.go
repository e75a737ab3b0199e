package score

import (
	"fmt"
	"math"
	"testing"

	"github.com/agon-arena/agon"
)

// Each case stands for a word of the rule: one contradiction in twenty cases is
// the end in the long run, forty cases are given, a tenth of the canaries and
// one more are noise.
func TestStands(t *testing.T) {
	for _, c := range []struct {
		word Word
		want float64
	}{
		{Word{}, 1},
		{Word{Judged: 1, Contradicted: 1}, 1 - 20.0/41},
		{Word{Judged: 60, Contradicted: 2}, 1 - 40.0/100},
		{Word{Judged: 60, Canaries: 20, Contradicted: 2}, 1 - 40.0/120},
		{Word{Canaries: 5, Missed: 1}, 1},
		{Word{Canaries: 5, Missed: 2}, 1 - 20.0/45},
		{Word{Canaries: 20, Missed: 3}, 1},
		{Word{Canaries: 20, Missed: 4}, 1 - 20.0/60},
		{Word{Canaries: 100}, 1}, // canaries that hold make up for nothing
		{Word{Judged: 20, Contradicted: 20}, 0},
	} {
		if got := Stands(c.word); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %v, want %v", c.word, got, c.want)
		}
	}
}

// The edges of agreement: two others must have an opinion, theirs must be one,
// and who errs where the others are split as often is not an outlier.
func TestAgreeEdges(t *testing.T) {
	opinions := func(n int, values ...float64) (list []Opinion) {
		for i := range n {
			for j, v := range values {
				list = append(list, Opinion{string(rune('a' + j)), fmt.Sprint(len(values), values, i), v})
			}
		}
		return list
	}
	of := func(list []Opinion, v string) Standing {
		for _, s := range Concord(list) {
			if s.Validator == v {
				return s
			}
		}
		t.Fatalf("no standing of %s", v)
		return Standing{}
	}
	if s := of(opinions(4, 1, 0), "a"); s.Items != 0 || s.Deviates != 0 {
		t.Errorf("one other says nothing of anybody: %+v", s)
	}
	if s := of(opinions(4, 0, 0.5, 0.7), "a"); s.Items != 0 || s.Others != 1 {
		t.Errorf("others that are 0.2 apart are split: %+v", s)
	}
	// c deviates in 5 of 10 items while a, b, d are split in 8 of 18: 0.5 is below 2*0.44+0.1.
	noisy := append(opinions(5, 1, 1, 0, 1), opinions(5, 1, 1, 1, 1)...)
	noisy = append(noisy, opinions(8, 1, 0, 0.5, 0)...)
	if s := of(noisy, "c"); s.Flagged || s.Items != 10 || s.Deviates != 5 || math.Abs(s.Others-8.0/18) > 1e-12 {
		t.Errorf("as noisy as the rest is not an outlier: %+v", s)
	}
}

// A stage that asks for consensus takes the worst of each task, any other the mean.
func TestOfStage(t *testing.T) {
	list := []agon.Score{
		{Task: "x", Value: 1, Solved: true},
		{Task: "x", Value: 0.5},
		{Task: "y", Value: 0.2},
		{Task: "y", Value: 0.6, Solved: true},
	}
	if got := OfStage(agon.Stage{Consensus: true}, list); math.Abs(got-0.35) > 1e-12 {
		t.Errorf("by consensus: %v, want 0.35", got)
	}
	if got := OfStage(agon.Stage{}, list); math.Abs(got-0.575) > 1e-12 {
		t.Errorf("by the mean: %v, want 0.575", got)
	}
	for i, s := range Unanimous(list) {
		if s.Solved || s.Value != []float64{0.5, 0.2}[i] {
			t.Errorf("task %d: %+v, want the worst, unsolved", i, s)
		}
	}
}

// One forged task is enough to be forged.
func TestOneForgedTask(t *testing.T) {
	if got := Forged([]agon.Score{{Task: "x"}, {Task: "y", Metrics: map[string]float64{agon.MetricForged: 1}}}); got != 1 {
		t.Errorf("%v forged, want 1", got)
	}
}
