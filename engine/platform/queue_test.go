package platform

import (
	"testing"
	"time"
)

// The pace is the mean time between ends lately; old ends and too few say nothing.
func TestPace(t *testing.T) {
	now := time.Unix(100_000, 0)
	at := func(list ...int) (out []time.Time) {
		for _, s := range list {
			out = append(out, now.Add(-time.Duration(s)*time.Second))
		}
		return out
	}
	for _, c := range []struct {
		ends []time.Time
		want time.Duration
	}{
		{nil, 0},
		{at(10, 20), 0},
		{at(10, 50, 30), 20 * time.Second},
		{at(10, 50, 30, 9000, -60), 20 * time.Second},
		{at(5, 5, 5), 0},
	} {
		if got := paceFrom(c.ends, now); got != c.want {
			t.Errorf("%v: %v, want %v", c.ends, got, c.want)
		}
	}
}
