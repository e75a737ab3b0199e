package agon

import (
	"errors"
	"fmt"
	"math"
)

// Directions of a metric.
const (
	Minimize = "minimize"
	Maximize = "maximize"
)

// Contest is how an arena turns replays of one measured number into a result,
// and results into a takeover (package score has the arithmetic).
type Contest struct {
	Direction string `json:"direction" toml:"-"` // of the metric
	// Secondary is the direction of a second metric that decides where the first
	// stays inside the band; empty: one metric alone counts.
	Secondary string `json:"secondary,omitempty" toml:"-"`
	// Agree is how many replays by different validators must agree, Replays
	// the most that are tried until they do.
	Agree   int `json:"agree" toml:"agree"`
	Replays int `json:"replays" toml:"replays"`
	// Two results agree if they differ by at most Absolute + Relative x the
	// larger size. Both 0: they must be equal.
	Relative float64 `json:"relative" toml:"relative"`
	Absolute float64 `json:"absolute" toml:"absolute"`
	// Band is the noise of the metric as preflight measured it, in its unit. A
	// gain must pass it.
	Band float64 `json:"band" toml:"band"`
	// Alpha is the chance that one coldkey's attempts together may take the
	// seat without being better; Pairs is the most paired replays of challenger
	// and incumbent. Deterministic tasks (Band 0) need one pair.
	Alpha float64 `json:"alpha" toml:"alpha"`
	Pairs int     `json:"pairs" toml:"pairs"`
}

// Validate checks the bounds; every number must be finite.
func (c Contest) Validate() error {
	for name, v := range map[string]float64{"relative": c.Relative, "absolute": c.Absolute, "band": c.Band} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: want a finite number of at least 0", name)
		}
	}
	switch {
	case c.Direction != Minimize && c.Direction != Maximize:
		return fmt.Errorf("direction: %.20q is neither %s nor %s", c.Direction, Minimize, Maximize)
	case c.Secondary != "" && c.Secondary != Minimize && c.Secondary != Maximize:
		return fmt.Errorf("secondary: %.20q is neither %s nor %s", c.Secondary, Minimize, Maximize)
	case c.Agree < 1 || c.Agree > 9 || c.Replays < c.Agree || c.Replays > 25:
		return errors.New("agree, replays: want 1 to 9 that agree of at most 25")
	case !(c.Alpha > 0 && c.Alpha <= 0.5):
		return errors.New("alpha: want more than 0 and at most 0.5")
	case c.Pairs < 1 || c.Pairs > 200:
		return errors.New("pairs: want 1 to 200")
	}
	return nil
}

// Better reports whether a beats b in direction d.
func Better(d string, a, b float64) bool {
	if d == Maximize {
		return a > b
	}
	return a < b
}
