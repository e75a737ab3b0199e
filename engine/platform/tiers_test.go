package platform

import (
	"slices"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
)

// exactKind tells nobody apart.
type exactKind struct{ fakeKind }

func (k *exactKind) Told(agon.Arena, map[string]float64, map[string]float64) bool { return false }

func (k *exactKind) TierTest(agon.Arena) string { return "By tenths." }

var _ kind.Tierer = (*exactKind)(nil)

// A board's tiers follow the kind's own test where it has one, else the sign test,
// and say which.
func TestTiers(t *testing.T) {
	for _, own := range []bool{true, false} {
		f := newFixture(t, 6, func(c *Config, _ *agon.Arena) {
			if own {
				c.Kinds["fake"] = &exactKind{}
			}
		})
		skill := map[string]float64{}
		for miner, x := range map[string]float64{miner1: 0.9, miner2: 0.3} {
			skill[f.submit(miner, miner).ID] = x
			f.playAll(val1, func(l *client.Lease) float64 { return skill[l.Submission.ID] })
		}
		b, err := f.Board(bg, "demo")
		must(t, err)
		var got []int
		for _, r := range b.Submissions {
			got = append(got, r.Tier)
		}
		want, says := []int{1, 2}, signTiers // six of six tasks
		if own {
			want, says = []int{1, 1}, "By tenths."
		}
		if b.TierTest != says || !slices.Equal(got, want) {
			t.Errorf("own %v: tiers %v by %q", own, got, b.TierTest)
		}
		list, err := f.Standings(bg, "demo", 0, 10)
		must(t, err)
		var shown []int
		for _, s := range list {
			shown = append(shown, s.Tier)
		}
		if !slices.Equal(shown, got) {
			t.Errorf("own %v: the page shows %v, the board %v", own, shown, got)
		}
		if later, err := f.Standings(bg, "demo", 1, 10); err != nil || later[0].Tier != 0 {
			t.Errorf("a later page has tiers: %v", err)
		}
	}
}
