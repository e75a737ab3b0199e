package roster

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func ms(v float64) *float64 { return &v }

// gridOf is an example of two validators, two artifacts and two tasks.
func gridOf() []GridCell {
	return []GridCell{
		{"A", "1", "a", .9, 1, ms(3000)},
		{"A", "1", "b", .3, 1, ms(2000)},
		{"B", "1", "a", .7, 3, ms(4000)},
		{"B", "1", "b", .5, 3, ms(1000)},
		{"A", "2", "a", .4, 2, ms(1000)},
		{"A", "2", "b", .2, 2, ms(1000)},
		{"B", "2", "a", .6, 4, ms(2000)},
		{"B", "2", "b", .4, 4, ms(3000)},
	}
}

func TestMedians(t *testing.T) {
	g, err := Medians(gridOf(), 2)
	if err != nil {
		t.Fatal(err)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	for i, want := range []struct {
		vector             []float64
		total, cost, spent float64
	}{{[]float64{.8, .4}, 1.2, 4, 5000}, {[]float64{.5, .3}, .8, 6, 3500}} {
		r := g.Rows[i]
		if !slices.EqualFunc(r.Vector, want.vector, near) || !near(r.Total, want.total) || !near(r.Cost, want.cost) || r.ElapsedMS == nil || !near(*r.ElapsedMS, want.spent) {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
	cells := gridOf()
	cells[5].ElapsedMS = nil
	if g, err := Medians(cells, 1); err != nil || g.Rows[0].ElapsedMS == nil || g.Rows[1].ElapsedMS != nil {
		t.Errorf("a missing time: %+v %v", g, err)
	}
	if _, err := Medians(gridOf(), 3); !errors.Is(err, ErrQuorum) {
		t.Errorf("quorum: %v", err)
	}
	if _, err := Medians(nil, 0); !errors.Is(err, ErrQuorum) {
		t.Errorf("nothing at all: %v", err)
	}
	if _, err := Medians(gridOf()[1:], 1); err == nil || !strings.Contains(err.Error(), "does not cover") {
		t.Errorf("a hole: %v", err)
	}
	if _, err := Medians(append(gridOf(), gridOf()[0]), 1); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a repetition: %v", err)
	}
	bad := gridOf()
	bad[0].Score = math.NaN()
	if _, err := Medians(bad, 1); err == nil {
		t.Error("a NaN was let in")
	}
}
