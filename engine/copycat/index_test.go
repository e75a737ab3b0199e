package copycat

import (
	"fmt"
	"testing"

	"github.com/agon-arena/agon"
)

// numbered is a sketch of n prints of weight 1 with the hashes from, from+1, ...
func numbered(from uint64, n int) Sketch {
	s := Sketch{Exact: agon.Digest(fmt.Sprintf("%d+%d", from, n)), Weight: float64(n)}
	for i := range uint64(n) {
		s.Prints = append(s.Prints, Print{from + i, 1})
	}
	return s
}

// Each bound of a cluster, from both sides, on sketches whose overlap is known.
func TestClusterBounds(t *testing.T) {
	first := numbered(0, 100)
	for name, x := range map[string]struct {
		s       Sketch
		measure string // "" = not of one cluster
	}{
		"the same":                      {first, MeasureExact},
		"two thirds of all":             {numbered(20, 100), MeasureStructure},
		"half of all":                   {numbered(40, 110), ""},
		"contained, a third of all":     {numbered(0, 300), MeasureContained},
		"contained in much more":        {numbered(0, 601), ""},
		"contained, as large as it may": {numbered(0, 600), MeasureContained},
		"mostly contained":              {numbered(70, 41), MeasureContained}, // 30 of 41 are shared
		"shorter than can be compared":  {numbered(0, 39), ""},
		"just long enough":              {numbered(0, 40), MeasureContained},
		"nothing shared":                {numbered(1000, 100), ""},
	} {
		index := NewIndex()
		index.Add("first", first)
		m, ok := index.Nearest(x.s)
		if ok != (x.measure != "") || m.Measure != x.measure {
			t.Errorf("%s: %+v %v, want %q", name, m, ok, x.measure)
		}
	}
}

// The most similar one is nearest, not the first; what is common does not count.
func TestNearestOfSeveral(t *testing.T) {
	near, far := numbered(10, 100), numbered(25, 100)
	index := NewIndex()
	index.Add("far", far)
	index.Add("near", near)
	index.Add("nearer", numbered(5, 100))
	index.Add("again far", numbered(30, 100))
	if m, ok := index.Nearest(numbered(0, 100)); !ok || m.ID != "nearer" {
		t.Errorf("nearest: %+v %v", m, ok)
	}
	if list := index.Matches(numbered(0, 100)); len(list) != 4 || list[0].ID != "far" || list[3].ID != "again far" {
		t.Errorf("matches: %+v", list)
	}
	// The shared ones are what a template holds: nothing of their own is alike.
	index = NewIndex(numbered(0, 60))
	index.Add("first", numbered(0, 110))
	other := numbered(0, 60)
	other.Prints = append(other.Prints, numbered(1000, 50).Prints...)
	other.Weight, other.Exact = 110, "other"
	if m, ok := index.Nearest(other); ok {
		t.Errorf("alike by the template only: %+v", m)
	}
}
