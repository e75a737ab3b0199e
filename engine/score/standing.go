package score

import "github.com/agon-arena/agon/calc"

// StandingRule is the name under which agon calc recomputes a validator's standing.
const StandingRule = "score.standing"

// StandingBar is the standing below which a validator gets no leases and its
// results do not count.
const StandingBar = 0.5

// Word is what is known of how far a validator's word holds.
type Word struct {
	// Judged are the cases in which another judged with it: its results that
	// others judged again, and results of others that it judged.
	Judged int `json:"judged"`
	// Contradicted are those that a third settled against it.
	Contradicted int `json:"contradicted"`
	// Canaries are replays and duels whose outcome was known, Missed those of
	// them where it said something else.
	Canaries int `json:"canaries"`
	Missed   int `json:"missed"`
}

// Numbers of the rule: who is contradicted in one case of standingOne is believed
// not at all in the long run; standingPrior cases without a fault are given to everybody, so
// that one mistake alone ends nobody; of canaries one in standingNoise is noise.
const (
	standingOne   = 20
	standingPrior = 40
	standingNoise = 10
)

// Stands is the standing that a word has earned, 0 to 1. Pure.
func Stands(w Word) float64 {
	against := w.Contradicted + max(0, w.Missed-w.Canaries/standingNoise-1)
	return max(0, 1-float64(standingOne*against)/float64(w.Judged+w.Canaries+standingPrior))
}

// StandingRules are this file's rules for agon calc.
func StandingRules() []calc.Rule {
	type out struct {
		Standing float64 `json:"standing"`
		Bar      float64 `json:"bar"`
	}
	return []calc.Rule{calc.Func(StandingRule, "{judged, contradicted, canaries, missed} -> {standing, bar}: how far a validator is believed; below the bar its results do not count", func(w Word) (out, error) {
		return out{Stands(w), StandingBar}, nil
	})}
}
