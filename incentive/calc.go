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
	return append(costRules(),
		calc.Func(TakeoverRule, "{score, incumbent|null} -> {bar|null, takes}: does a challenger take the seat", calcTakeover),
		rosterRule(),
		mediansRule(),
	)
}

func calcTakeover(in takeoverIn) (takeoverOut, error) {
	bar, takes := Takeover(in.Score, in.Incumbent)
	return takeoverOut{Bar: bar, Takes: takes}, nil
}
