package quorum

import (
	"errors"
	"fmt"
	"math"

	"github.com/agon-arena/agon"
)

// CheckContest checks the bounds of a contest; every number must be finite.
func CheckContest(c agon.Contest) error {
	for name, v := range map[string]float64{"relative": c.Relative, "absolute": c.Absolute, "band": c.Band, "band_relative": c.BandRelative, "spent": c.Spent} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: want a finite number of at least 0", name)
		}
	}
	switch {
	case c.Direction != agon.Minimize && c.Direction != agon.Maximize:
		return fmt.Errorf("direction: %.20q is neither %s nor %s", c.Direction, agon.Minimize, agon.Maximize)
	case c.Secondary != "" && c.Secondary != agon.Minimize && c.Secondary != agon.Maximize:
		return fmt.Errorf("secondary: %.20q is neither %s nor %s", c.Secondary, agon.Minimize, agon.Maximize)
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
	if d == agon.Maximize {
		return a > b
	}
	return a < b
}
