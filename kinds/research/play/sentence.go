package play

import (
	"fmt"
	"strconv"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// Reasons are the words under which decisions of a research arena stand.
var Reasons = []string{RuleDuel, RuleFirst, RuleRejected, RuleBroken, RuleUnsteady}

// Sentence says a decision of a research arena; "" for those of others.
func Sentence(d agon.Decision) string {
	n := d.Numbers
	fig := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	better := "higher"
	if n["minimize"] == 1 {
		better = "lower"
	}
	against := "the champion's"
	if d.Rule == RuleFirst {
		against = "the base's"
	}
	switch d.Rule {
	case RuleRejected:
		if int(n["verdict"]) == quorum.VerdictRejected {
			return "Rejected: its replays agree that the patch, or the task's own check, fails; its runs say where."
		}
		return "Rejected: its replays agree that no number came of it; its runs say why."
	case RuleBroken:
		return "Kept out: too many of its duels left no pair of numbers to compare."
	case RuleUnsteady:
		if x, ok := n["again"]; ok {
			return fmt.Sprintf("Kept out: its program gave %s and then %s on one random seed, where this task wants the same number each time.", fig(n["first"]), fig(x))
		}
		return fmt.Sprintf("Kept out: replayed %s, which is not better than what the champion was accepted with; its pair was won only because the champion's program draws numbers of its own and gave %s this time.", fig(n["observed"]), fig(n["rival"]))
	case RuleDuel, RuleFirst:
	default:
		return ""
	}
	rival, ok := n["rival"]
	if !ok {
		return fmt.Sprintf("Replayed %s; no duel was played.", fig(n["observed"]))
	}
	claimed := ""
	if x, ok := n["claimed"]; ok && x != n["observed"] {
		claimed = "claimed " + fig(x) + ", "
	}
	compared := claimed + fmt.Sprintf("replayed %s against %s %s (%s is better)", fig(n["observed"]), against, fig(rival), better)
	switch {
	case d.Outcome == agon.TookSeat:
		return "Took the seat: " + compared + "."
	case n["gain"] <= 0:
		return "Kept out: " + compared + ": no gain."
	}
	return fmt.Sprintf("Kept out: %s; evidence %s, at least %s needed.", compared, incentive.Figure(n["evidence"]), incentive.Figure(n["need"]))
}
