package incentive

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/agon-arena/agon"
)

// ZeroRule is the reason why a score of 0 takes no seat.
const ZeroRule = "zero_score"

// ForgedRule is the reason why a submission whose grade was forged takes no seat.
const ForgedRule = "forged"

// ByHeartRule is the reason why a submission that knows answers by heart takes no seat.
const ByHeartRule = "by_heart"

// UnattestedRule is the reason why a seat does not move on results that nobody can judge again.
const UnattestedRule = "unattested"

// VettedRule is the reason why a seat does not move to a submission that a vetting refused.
const VettedRule = "vetting"

// GateRule is the reason why a seat does not move on scores of a judge that was not
// measured, is below its arena's gate, or lacks a part that something stands in for.
const GateRule = "judge_gate"

// Say puts a decision into one sentence with its numbers. rules are those that
// arenas may name; a rule without a sentence of its own gets the general one. Where
// a seat moved on what nobody else has judged, a second sentence says so.
func Say(rules map[string]Rule, d agon.Decision) string {
	s := say(rules, d)
	if n, all := d.Numbers["not_judged"], d.Numbers["not_judged"]+d.Numbers["judged_again"]; n > 0 && d.Outcome == agon.TookSeat {
		s += fmt.Sprintf(" Of %[2]s results that count, %[1]s were judged by one validator alone.", Figure(n), Figure(all))
	}
	return s
}

func say(rules map[string]Rule, d agon.Decision) string {
	if d.Rule == UnattestedRule {
		return "Kept out: " + Figure(d.Numbers["unattested"]) + " of its results came without evidence that another could judge again."
	}
	if d.Rule == VettedRule {
		return "Kept out: its result would sit, and whom the arena asks before a seat moves has refused it."
	}
	if n := d.Numbers["propped"]; d.Rule == GateRule && n > 0 {
		return "Kept out: " + Figure(n) + " of its scores rest on what only stands in for a part of the judging, which the arena has now. Enter it again, with a change, to have it judged by that."
	}
	if d.Rule == GateRule {
		return "Kept out: " + Figure(d.Numbers["ungauged"]) + " of its scores are of a judge that has no calibration above the arena's gate (agon judge calibrate)."
	}
	if d.Rule == ScriptedRule {
		return "Played and shown, never seated: no model is set here, so the stand-in script answered it. The operator sets one with AGON_LLM_*." + remark(rules, d)
	}
	if d.Rule == ForgedRule {
		return "Kept out: it forged a grade. A test passed, and so did its twin: a copy of the test that expects something false and must fail. So nothing that it solved counts."
	}
	if d.Rule == ByHeartRule {
		return "Kept out: it knows answers by heart. To a task that looks like another one it gave that one's answer, so nothing that it solved counts."
	}
	if d.Rule == ZeroRule && d.Score > 0 {
		return "Kept out: an entry that has solved no task never takes a seat."
	}
	for name, r := range rules {
		if r.Sentence == nil || name != d.Rule && !slices.Contains(r.Reasons, d.Rule) {
			continue
		}
		if s := r.Sentence(d); s != "" {
			return s
		}
	}
	score := Figure(d.Score)
	switch {
	case d.Outcome == agon.TookSeat && d.Bar == nil:
		return "Took the seat: " + score + "; nobody sat there."
	case d.Outcome == agon.TookSeat:
		return "Took the seat: " + score + " reached the bar of " + Figure(*d.Bar) + "."
	case !(d.Score > 0):
		return "Kept out: a score of 0 never takes a seat."
	case d.Bar == nil:
		return "Kept out: " + score + "; the rule " + d.Rule + " does not seat it."
	}
	return "Kept out: " + score + "; needs " + Figure(*d.Bar) + champion(d.Numbers) + "."
}

// remark is the first that a rule makes of d.
func remark(rules map[string]Rule, d agon.Decision) string {
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if f := rules[name].Remark; f != nil {
			if s := f(d); s != "" {
				return " " + s
			}
		}
	}
	return ""
}

// champion explains the bar by who sits, where the numbers say so.
func champion(n map[string]float64) string {
	held, ok := n["incumbent"]
	margin, has := n["margin"]
	if !ok || !has || margin < 1 {
		return ""
	}
	return fmt.Sprintf(" (champion %s plus %s %%)", Figure(held), Figure((margin-1)*100))
}

// Figure writes a number for people: at most four digits behind the point.
func Figure(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return "no number"
	}
	return strconv.FormatFloat(math.Round(f*1e4)/1e4, 'f', -1, 64)
}
