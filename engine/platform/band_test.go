package platform_test

import (
	"math"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
)

// An interval holds its score and is of the same problems; there is none where
// one problem, or a measure without chance, made the score.
func TestBandOf(t *testing.T) {
	a := agon.Arena{Tasks: []agon.TaskRef{{Key: "p1"}, {Key: "p2"}, {Key: "h1", Hidden: true}, {Key: "h2", Hidden: true}}}
	contest := a
	contest.Contest = &agon.Contest{}
	values := map[string]float64{"p1": 1, "p2": 1, "h1": 0, "h2": 0.2}
	even, two, four := map[string]float64{"p1": 1, "p2": 0, "h1": 0, "h2": 1}, 2, 4
	for _, c := range []struct {
		name   string
		arena  agon.Arena
		score  float64
		values map[string]float64
		of     *int
		n      int // 0: none
		public float64
	}{
		{"of all", a, 0.55, values, nil, 4, -1},
		{"of the hidden ones", a, 0.1, values, nil, 2, 1},
		{"of the public ones", a, 1, map[string]float64{"p1": 1, "p2": 1, "h1": 0}, nil, 2, -1},
		{"of the hidden ones, and the mean of all is the same", a, 0.5, even, &two, 2, 0.5},
		{"of all, and the mean of the hidden ones is the same", a, 0.5, even, &four, 4, -1},
		{"of none of these", a, 0.7, values, nil, 0, -1},
		{"of one problem", a, 0.5, map[string]float64{"p1": 0.5}, nil, 0, -1},
		{"without chance", contest, 0.55, values, nil, 0, -1},
	} {
		b, public := platform.BandOf(c.arena, &c.score, c.of, c.values)
		if (b == nil) != (c.n == 0) || b != nil && (b.N != c.n || b.Low > c.score || b.High < c.score) {
			t.Errorf("%s: %+v", c.name, b)
		}
		if got := public; (got == nil) != (c.public < 0) || got != nil && math.Abs(*got-c.public) > 1e-9 {
			t.Errorf("%s: public %v", c.name, public)
		}
	}
	if b, _ := platform.BandOf(a, nil, nil, values); b != nil {
		t.Error("no score has an interval")
	}
}
