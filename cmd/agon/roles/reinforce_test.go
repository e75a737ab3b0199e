package roles

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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

// An arena whose rules need three validators ends by itself: `up` plays as three.
func TestUpPlaysAsMany(t *testing.T) {
	path := smallArena(t, "small/interval-merge")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte("replicas = 3\n"), b...), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := testOptions(dir)
	o.Once, o.Arenas = true, []string{path}
	var mu sync.Mutex // guards said
	var said strings.Builder
	o.Say = func(format string, _ ...any) {
		mu.Lock()
		defer mu.Unlock()
		said.WriteString(format + "\n")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	played := map[string]bool{}
	ov, err := Up(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if ov.Runs.Failed != 0 || ov.Runs.Scored != 12 || ov.Arenas[0].Champion == nil {
		t.Errorf("runs %+v, champion %v, %+v, %+v", ov.Runs, ov.Arenas[0].Champion, ov.Arenas[0].Submissions, ov.Arenas[0].Decisions)
	}
	s, err := sqlite.Open(t.Context(), filepath.Join(dir, "agon.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Read(t.Context(), func(tx *store.Tx) error {
		n, err := tx.CountedRuns()
		for v := range n {
			played[v] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(played) != 3 {
		t.Errorf("%d validators played: %v", len(played), played)
	}
	if !strings.Contains(said.String(), "this machine plays as") {
		t.Errorf("nothing says so:\n%s", said.String())
	}
}
