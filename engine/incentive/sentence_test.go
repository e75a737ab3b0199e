package incentive

import (
	"testing"

	"github.com/agon-arena/agon"
)

func TestSay(t *testing.T) {
	bar := ptr(0.22553333)
	own := map[string]Rule{"own": {Sentence: func(agon.Decision) string { return "Said by the rule." }}, "shy": {Sentence: func(agon.Decision) string { return "" }}}
	for want, d := range map[string]agon.Decision{
		"Played and shown, never seated: no model is set here, so the stand-in script answered it. The operator sets one with AGON_LLM_*.": {Rule: ScriptedRule, Score: 1, Outcome: agon.KeptSeat},
		"Took the seat: 0.2222; nobody sat there.":                     {Rule: WinnerTakesAllRule, Score: 0.22222, Outcome: agon.TookSeat},
		"Took the seat: 0.3 reached the bar of 0.2255.":                {Rule: WinnerTakesAllRule, Score: 0.3, Bar: bar, Outcome: agon.TookSeat},
		"Kept out: a score of 0 never takes a seat.":                   {Rule: WinnerTakesAllRule, Outcome: agon.KeptSeat},
		"Kept out: 0.1852; needs 0.2255 (champion 0.2222 plus 1.5 %).": {Rule: WinnerTakesAllRule, Score: 0.18518, Bar: bar, Outcome: agon.KeptSeat, Numbers: map[string]float64{"incumbent": 0.22222, "margin": Margin}},
		"Kept out: 0.1; needs 0.2255.":                                 {Rule: "shy", Score: 0.1, Bar: bar, Outcome: agon.KeptSeat},
		"Said by the rule.":                                            {Rule: "own", Score: 0.1, Bar: bar, Outcome: agon.KeptSeat},
		"Kept out: 0.5; the rule golf.caddie does not seat it.":        {Rule: "golf.caddie", Score: 0.5, Outcome: agon.KeptSeat},
	} {
		if got := Say(own, d); got != want {
			t.Errorf("%+v\n got %s\nwant %s", d, got, want)
		}
	}
}
