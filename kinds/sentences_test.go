package kinds

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
)

// numbersOfSentences are numbers as decisions of all rules carry them.
var numbersOfSentences = map[string]float64{
	"incumbent": 0.2222, "margin": 1.015, "score": 0.3, "first": 0.5667, "places": 2,
	"public": 1, "hidden": 0, "qualify": 0.1, "bound": 0.3333, "leader": 0.3552, "gap_alarm": 1, "leads": 1,
	"qualified": 1, "cost": 0.0021, "incumbent_cost": 0.0033, "factor": 0.9, "delta": 0.1,
	"observed": 2.47, "claimed": 2, "rival": 2.22, "minimize": 1, "gain": -0.25, "evidence": 4, "need": 32.9, "support": 1, "pairs": 20, "won": 12, "lost": 3,
	"agree": 2, "validators": 3, "attempt": 2, "alpha": 0.03, "max_pairs": 64, "seated_by": 1, "outcome": 1, "min_gain": 0.2, "kept_need": 20, "kept_by": 0,
	"saves": 0.0012, "saves_within": 0.0003, "unattested": 2, "solved": 0, "verdict": 1,
}

// The sentence of each decision of each rule, as it stands in sentences.txt: UPDATE_GOLDEN=1 writes it anew.
func TestSentences(t *testing.T) {
	rules := All().Incentives()
	words := []string{incentive.ScriptedRule, incentive.ZeroRule, incentive.ForgedRule, incentive.ByHeartRule, incentive.UnattestedRule, incentive.VettedRule}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		words = append(words, name)
		words = append(words, rules[name].Reasons...)
	}
	bar := 0.4049
	var b strings.Builder
	seen := map[string]bool{}
	for _, w := range words {
		if seen[w] {
			continue
		}
		seen[w] = true
		fmt.Fprintf(&b, "%s\n", w)
		for _, outcome := range []string{agon.TookSeat, agon.KeptSeat} {
			for _, x := range []*float64{nil, &bar} {
				for _, score := range []float64{0, 0.3} {
					if outcome == agon.TookSeat && score == 0 {
						continue
					}
					d := agon.Decision{Challenger: "c", Incumbent: "i", Rule: w, Outcome: outcome, Score: score, Bar: x, Numbers: maps.Clone(numbersOfSentences)}
					d.Numbers["score"] = score
					if outcome == agon.TookSeat {
						d.Numbers["gain"], d.Numbers["seated_by"] = 0.25, 2
					}
					s := incentive.Say(rules, d)
					if !strings.HasSuffix(s, ".") || strings.Contains(s, "%!") || strings.Contains(s, "NaN") || strings.Contains(s, "e+") || strings.Contains(strings.Replace(s, w, "", 1), "_") && !strings.Contains(s, "AGON_LLM_") {
						t.Errorf("%s, %s: %q", w, outcome, s)
					}
					if outcome == agon.KeptSeat && (strings.HasPrefix(s, "Took") || strings.HasPrefix(s, "Leads")) {
						t.Errorf("%s was kept out and reads %q", w, s)
					}
					fmt.Fprintf(&b, "  %-10s score %-4v bar %-6v %s\n", outcome, score, x != nil, s)
					if d.Numbers["leads"] = 0; outcome == agon.TookSeat {
						if placed := incentive.Say(rules, d); placed != s {
							fmt.Fprintf(&b, "  %-10s score %-4v bar %-6v, placed behind the first: %s\n", outcome, score, x != nil, placed)
						}
					}
				}
			}
		}
	}
	const file = "sentences.txt"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		t.Errorf("%s differs (UPDATE_GOLDEN=1 writes it anew); now:\n%s", file, b.String())
	}
}
