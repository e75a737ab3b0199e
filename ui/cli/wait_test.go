package cli

import (
	"testing"
	"time"
)

// A time to wait is a duration; a bare number is minutes.
func TestWaitTime(t *testing.T) {
	for in, want := range map[string]time.Duration{"5": 5 * time.Minute, "90s": 90 * time.Second, "0": 0, "-5": -1, "soon": -1, "99999999": -1, "": -1} {
		var w waitTime
		err := w.Set(in)
		if (err != nil) != (want == -1) || err == nil && time.Duration(w) != want {
			t.Errorf("%q: %v, %v; want %v", in, time.Duration(w), err, want)
		}
	}
}
