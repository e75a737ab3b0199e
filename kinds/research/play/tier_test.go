package play

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// Exact metrics are told apart by any difference, noisy ones beyond the band, in
// the direction of the metric; what was rejected has no measurement.
func TestTold(t *testing.T) {
	at := func(x float64) map[string]float64 { return map[string]float64{"observed": x} }
	for _, c := range []struct {
		name          string
		contest       agon.Contest
		better, worse map[string]float64
		told          bool
		says          string
	}{
		{"exact, one comparator fewer", agon.Contest{Direction: agon.Minimize}, at(59), at(60), true, "exact"},
		{"exact, alike", agon.Contest{Direction: agon.Minimize}, at(60), at(60), false, "exact"},
		{"the other direction", agon.Contest{Direction: agon.Maximize}, at(61), at(60), true, "exact"},
		{"inside the noise", agon.Contest{Direction: agon.Maximize, Band: 2}, at(61), at(60), false, "noise, 2"},
		{"beyond the noise", agon.Contest{Direction: agon.Maximize, Band: 2}, at(62.5), at(60), true, "noise, 2"},
		{"inside a share", agon.Contest{Direction: agon.Minimize, BandRelative: 0.1}, at(95), at(100), false, "10 %"},
		{"rejected", agon.Contest{Direction: agon.Minimize}, at(60), map[string]float64{"verdict": 2}, true, "exact"},
		{"both rejected", agon.Contest{Direction: agon.Minimize}, nil, nil, false, "exact"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := agon.Arena{Contest: &c.contest}
			if got := (Rules{}).Told(a, c.better, c.worse); got != c.told {
				t.Errorf("told %v, want %v", got, c.told)
			}
			if s := (Rules{}).TierTest(a); !strings.Contains(s, c.says) {
				t.Errorf("%q lacks %q", s, c.says)
			}
		})
	}
}
