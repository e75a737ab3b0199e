// Package incentive decides who holds a seat and what weights follow. It is
// pure: the platform stores what it decides.
package incentive

import "math"

// Names of rules, as decisions and arenas carry them.
const (
	// WinnerTakesAllRule is an arena's rule: one seat for the best score. Its
	// decisions carry it, and agon calc recomputes them under it.
	WinnerTakesAllRule = "winner_takes_all"
	// ScriptedRule is the reason why a scripted sample never takes a seat.
	ScriptedRule = "scripted"
)

// Numbers of the takeover rule.
const (
	// Margin is by what factor a challenger must reach the incumbent's score.
	Margin = 1.015
	// Tolerance absorbs rounding in the comparison with the bar.
	Tolerance = 1e-9
)

// Takeover decides whether score takes the seat. bar is nil on an empty seat,
// else min(1, incumbent × Margin). A challenger takes the seat iff score > 0,
// score > incumbent and score ≥ bar − Tolerance; ties keep the seat. Scores
// that are not numbers never take it.
func Takeover(score float64, incumbent *float64) (bar *float64, takes bool) {
	if incumbent == nil {
		return nil, score > 0
	}
	b := math.Min(1, *incumbent*Margin)
	return &b, score > 0 && score > *incumbent && score >= b-Tolerance
}

// WinnerTakesAll is the rule of one seat: whoever takes it has everything.
func WinnerTakesAll() Rule {
	return Rule{CopyRate: &CopyRate{One: 0.45, Five: 0.80, Discordance: 0.3, Tasks: 50}, Decide: func(c Challenge) Verdict {
		first := c.First()
		bar, takes := Takeover(c.Challenger.Score, first)
		v := Verdict{
			Rule: WinnerTakesAllRule, Bar: bar, Takes: takes,
			Numbers: map[string]float64{"score": c.Challenger.Score, "margin": Margin, "tolerance": Tolerance},
		}
		if first != nil {
			v.Numbers["incumbent"], v.Numbers["bar"] = *first, *bar
		}
		return v
	}}
}
