package incentive

import "github.com/agon-arena/agon/calc"

type takeoverIn struct {
	Score     float64  `json:"score"`
	Incumbent *float64 `json:"incumbent"`
}

type takeoverOut struct {
	Bar   *float64 `json:"bar"`
	Takes bool     `json:"takes"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return append(pairedRules(), seatRule(), TakeoverCalc(WinnerTakesAllRule))
}

// TakeoverCalc recomputes a takeover under a name of the caller's: that of an
// arena's rule built on Takeover, or an earlier name that decisions still carry.
func TakeoverCalc(name string) calc.Rule {
	return calc.Func(name, "{score, incumbent|null} -> {bar|null, takes}: does a challenger take the seat", calcTakeover)
}

func calcTakeover(in takeoverIn) (takeoverOut, error) {
	bar, takes := Takeover(in.Score, in.Incumbent)
	return takeoverOut{Bar: bar, Takes: takes}, nil
}
