package platform

import (
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
)

// One forged grade, or one answer known by heart, makes the whole submission zero,
// and says so by name; a single liar among several validators does not mark an entry.
func TestForgedIsZero(t *testing.T) {
	t.Run("forged", func(t *testing.T) { marked(t, agon.MetricForged, FindingForged, incentive.ForgedRule) })
	t.Run("by heart", func(t *testing.T) { marked(t, agon.MetricByHeart, FindingByHeart, incentive.ByHeartRule) })
}

func marked(t *testing.T, metric, finding, rule string) {
	forge := func(r *client.Result) {
		r.Scores = slices.Clone(r.Scores)
		r.Scores[0].Metrics = map[string]float64{metric: 1}
	}
	for _, c := range []struct {
		name     string
		replicas int
		by       []string // who calls it forged
		forged   bool
	}{
		{"honest", 1, nil, false},
		{"its only validator", 1, []string{val1}, true},
		{"one of three", 3, []string{val2}, false},
		{"all of three", 3, []string{val1, val2, val3}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, 4, func(_ *Config, a *agon.Arena) { a.Replicas = c.replicas })
			s := f.submit(miner1, "a")
			for _, v := range []string{val1, val2, val3}[:c.replicas] {
				n := 0
				for l := f.claim(v); l != nil; l = f.claim(v) {
					r := scored(l, 1)
					if slices.Contains(c.by, v) && n == 0 {
						forge(&r)
						if !c.forged {
							r.Scores[0].Solved, r.Scores[0].Value = false, 0
						}
					}
					n++
					f.result(v, l, r)
				}
			}
			got, err := f.Submission(bg, Caller{}, s.ID)
			must(t, err)
			d := got.Decision
			if d == nil {
				t.Fatalf("no decision: %+v", got)
			}
			named := slices.ContainsFunc(got.Findings, func(x agon.Finding) bool { return x.Code == finding })
			if named != c.forged || (d.Rule == rule) != c.forged || (d.Score == 0) != c.forged || (d.Outcome == agon.KeptSeat) != c.forged {
				t.Fatalf("findings %+v, decision %+v; forged is %v", got.Findings, d, c.forged)
			}
			board, err := f.Standings(bg, "demo", 0, 10)
			must(t, err)
			if why := board[0].Zero; c.forged && !strings.Contains(why, "nothing of it counts") || !c.forged && why != "" {
				t.Errorf("the board says why it is 0: %q", why)
			}
		})
	}
}
