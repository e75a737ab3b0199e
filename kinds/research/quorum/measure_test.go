package quorum

import (
	"math"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// The tail of Student's t, against values in print.
func TestStudentTail(t *testing.T) {
	for _, c := range []struct {
		t    float64
		df   int
		want float64
	}{{0, 5, 0.5}, {6.3138, 1, 0.05}, {2.5706, 5, 0.025}, {-2.5706, 5, 0.975}, {3.3649, 5, 0.01}, {2.326, 100_000, 0.01}, {63.657, 1, 0.005}} {
		if got := studentTail(c.t, c.df); math.Abs(got-c.want) > 2e-5 {
			t.Errorf("t %v, %d: %v, want %v", c.t, c.df, got, c.want)
		}
	}
}

func TestGate(t *testing.T) {
	for name, c := range map[string]struct {
		gate   Gate
		passes bool
		err    string
	}{
		"reached":         {Gate{agon.Minimize, 3.28, 0, []float64{3.276, 3.277, 3.275, 3.2765, 3.2772}}, true, ""},
		"a lucky mean":    {Gate{agon.Minimize, 3.28, 0, []float64{3.2, 3.3, 3.33}}, false, ""},
		"missed":          {Gate{agon.Minimize, 3.28, 0, []float64{3.29, 3.291, 3.289}}, false, ""},
		"higher":          {Gate{agon.Maximize, 0.9, 0.05, []float64{0.95, 0.96, 0.94}}, true, ""},
		"exact, at bound": {Gate{agon.Minimize, 1, 0, []float64{1, 1}}, true, ""},
		"exact, missed":   {Gate{agon.Minimize, 1, 0, []float64{1.5, 1.5}}, false, ""},
		"one seed":        {Gate{agon.Minimize, 1, 0, []float64{0.1}}, false, "at least 2 seeds"},
		"not a number":    {Gate{agon.Minimize, 1, 0, []float64{0.1, math.NaN()}}, false, "finite"},
		"no direction":    {Gate{"", 1, 0, []float64{0.1, 0.2}}, false, "direction"},
	} {
		got, err := c.gate.Pass()
		if got.Passes != c.passes || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

func TestSuite(t *testing.T) {
	got, err := SumSuite([]SuiteTask{{"a", 1, 0.5, true}, {"b", 3, 1, true}})
	if err != nil || !got.Passes || math.Abs(got.Score-2.4) > 1e-12 || got.SpeedUps["b"] != 3 {
		t.Errorf("%+v %v", got, err)
	}
	got, err = SumSuite([]SuiteTask{{"a", 1, 0.001, true}, {"b", 3, 1, false}, {"c", 1, math.NaN(), true}})
	if err != nil || got.Passes || got.Score != 0 || len(got.Failed) != 2 {
		t.Errorf("a failing member: %+v %v", got, err)
	}
	for _, list := range [][]SuiteTask{nil, {{"a", 0, 1, true}}, {{"a", 1, 1, true}, {"a", 1, 1, true}}, {{"", 1, 1, true}}} {
		if _, err := SumSuite(list); err == nil {
			t.Errorf("%v was taken", list)
		}
	}
}

// A gain in steps is worth what it is in one; a value near zero is worth no
// fortune; the same share is worth nearly the same anywhere.
func TestCredit(t *testing.T) {
	credit := func(d string, base, from, to float64) float64 {
		v, err := Credit(CreditIn{Direction: d, Baseline: base, From: from, To: to})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, d := range []string{agon.Minimize, agon.Maximize} {
		from, a, b, to := 100.0, 50.0, 20.0, 10.0
		if d == agon.Maximize {
			from, a, b, to = to, b, a, from
		}
		one, steps := credit(d, 100, from, to), credit(d, 100, from, a)+credit(d, 100, a, b)+credit(d, 100, b, to)
		if math.Abs(one-steps) > 1e-9 {
			t.Errorf("%s: %v in one step, %v in three", d, one, steps)
		}
		if back := credit(d, 100, to, from); back != 0 {
			t.Errorf("%s: a loss is worth %v", d, back)
		}
	}
	if all, half := credit(agon.Minimize, 100, 100, 0), credit(agon.Minimize, 100, 100, 50); all > 8*half {
		t.Errorf("down to nothing is worth %v, half of it %v", all, half)
	}
	if a, b := credit(agon.Minimize, 100, 100, 90), credit(agon.Minimize, 100, 50, 45); math.Abs(a-b) > 0.01*a {
		t.Errorf("a tenth is worth %v and %v", a, b)
	}
	if _, err := Credit(CreditIn{Direction: agon.Minimize, To: math.Inf(1)}); err == nil {
		t.Error("infinity was taken")
	}
}

// A band that is a share shrinks with the values: a fast program can still be beaten.
func TestRelativeBand(t *testing.T) {
	c := agon.Contest{Direction: agon.Minimize, Band: 0.002, BandRelative: 0.1}
	if !Beats(c, Pair{Challenger: 0.08, Incumbent: 0.1}) || Beats(c, Pair{Challenger: 0.091, Incumbent: 0.1}) || Beats(c, Pair{Challenger: 0.95, Incumbent: 1}) || Beats(c, Pair{Challenger: 0.001, Incumbent: 0.002}) {
		t.Error("the band is not a tenth of the incumbent, and 0.002 at least")
	}
	if d := RunDuel(agon.Contest{Direction: agon.Minimize, BandRelative: 0.1, Alpha: 0.01, Pairs: 12}, 1, []Pair{{Challenger: 0.5, Incumbent: 1}}); d.Done || d.Band != 0.1 {
		t.Errorf("one pair of a noisy task decides: %+v", d)
	}
}
