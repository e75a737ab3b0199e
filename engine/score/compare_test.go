package score

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestInterval(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) < 5e-4 }
	for _, c := range []struct {
		values    []float64
		low, high float64
	}{
		{nil, 0, 1},
		{[]float64{0.4}, 0, 1},
		// mean 0.5, se 0.18898, t(7) = 2.3646
		{[]float64{0, 1, 0, 1, 0, 1, 0, 1}, 0.0531, 0.9469},
		{slices.Repeat([]float64{0}, 30), 0, 0.1},
		{slices.Repeat([]float64{1}, 2), 0, 1},
	} {
		b := Interval(c.values)
		if !near(b.Low, c.low) || !near(b.High, c.high) || b.N != len(c.values) {
			t.Errorf("%v: %+v, want %v to %v", c.values, b, c.low, c.high)
		}
	}
	for df, want := range map[int]float64{3: 3.182, 5: 2.571, 10: 2.228, 30: 2.042, 120: 1.980} {
		if got := student95(df); math.Abs(got/want-1) > 0.01 {
			t.Errorf("t(%d) = %v, want %v", df, got, want)
		}
	}
}

func TestCompareAndTiers(t *testing.T) {
	of := func(n int, solved func(i int) bool) map[string]float64 {
		m := map[string]float64{}
		for i := range n {
			m[fmt.Sprint(i)] = 0
			if solved(i) {
				m[fmt.Sprint(i)] = 1
			}
		}
		return m
	}
	first := of(27, func(i int) bool { return i < 20 })
	alike := of(27, func(i int) bool { return i < 19 })
	weak := of(27, func(i int) bool { return i < 8 })
	if p := Compare(first, alike); p.Better != 1 || p.Worse != 0 || p.P != 1 {
		t.Errorf("%+v", p)
	}
	// 12 to 0: 2 / 2^12
	if p := Compare(first, weak); p.Better != 12 || math.Abs(p.P-2/math.Exp2(12)) > 1e-12 {
		t.Errorf("%+v", p)
	}
	if p := Compare(first, map[string]float64{"x": 1}); p.Tasks != 0 || p.P != 1 {
		t.Errorf("%+v", p)
	}
	if got := Tiers([]map[string]float64{first, alike, weak}); !slices.Equal(got, []int{1, 1, 2}) {
		t.Errorf("tiers %v", got)
	}
}
