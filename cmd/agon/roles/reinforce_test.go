package roles

import (
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/sqlite"
)

func TestValidatorsFor(t *testing.T) {
	rules := map[string]incentive.Rule{incentive.PairedRule: incentive.Paired(), incentive.WinnerTakesAllRule: incentive.WinnerTakesAll()}
	paired := int(incentive.Paired().Of(nil)[incentive.NumValidators])
	if paired < 2 {
		t.Fatalf("the rule paired asks for %d validators", paired)
	}
	for _, c := range []struct {
		a    agon.Arena
		want int
	}{
		{agon.Arena{Incentive: incentive.WinnerTakesAllRule}, 1},
		{agon.Arena{Incentive: incentive.WinnerTakesAllRule, Replicas: 3}, 3},
		{agon.Arena{Contest: &agon.Contest{Agree: 2}}, 2},
		{agon.Arena{Incentive: incentive.PairedRule}, paired},
		{agon.Arena{Incentive: incentive.PairedRule, IncentiveNumbers: map[string]float64{incentive.NumValidators: 1, incentive.NumAgree: 1}}, 1},
	} {
		if got := validatorsFor(&client.Arena{Arena: c.a}, rules); got != c.want {
			t.Errorf("%+v: %d, want %d", c.a, got, c.want)
		}
	}
}

// playedBy returns the validators whose runs count in the database of dir.
func playedBy(t *testing.T, dir string) map[string]bool {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(dir, "agon.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	played := map[string]bool{}
	if err := s.Read(t.Context(), func(tx *store.Tx) error {
		n, err := tx.CountedRuns()
		for v := range n {
			played[v] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return played
}
