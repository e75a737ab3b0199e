package platform

import (
	"fmt"
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

// Where hidden problems decide the rank, tiers are of these alone: one that is
// far better on the public problems and a little worse on the hidden ones is not
// told apart by its public answers.
func TestTiersOfHidden(t *testing.T) {
	a := agon.Arena{}
	better, worse := map[string]float64{}, map[string]float64{}
	for i := range 12 {
		public, hidden := fmt.Sprintf("p/%d", i), fmt.Sprintf("h/%d", i)
		a.Tasks = append(a.Tasks, agon.TaskRef{Key: public}, agon.TaskRef{Key: hidden, Hidden: true})
		better[public], better[hidden], worse[public], worse[hidden] = 0, 0.5, 1, 0.5
	}
	worse["h/0"] = 0
	mean := func(of string, m map[string]float64) *float64 {
		sum := 0.0
		for i := range 12 {
			sum += m[fmt.Sprintf("%s/%d", of, i)]
		}
		sum /= 12
		return &sum
	}
	p := &Platform{}
	if got := p.tiers(a, []ranked{rankedOf(a, mean("h", better), nil, better), rankedOf(a, mean("h", worse), nil, worse)}); !slices.Equal(got, []int{1, 1}) {
		t.Errorf("tiers %v by 1 of 12 hidden problems", got)
	}
	if got := p.tiers(a, []ranked{rankedOf(a, mean("p", worse), nil, worse), rankedOf(a, mean("p", better), nil, better)}); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("tiers %v by 12 of 12 public problems", got)
	}
}
