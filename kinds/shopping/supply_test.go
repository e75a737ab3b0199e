package shopping_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/kinds/shopping"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/problem"
)

// The races of an arena come out of a bank, by the engine's periods: the race that
// is open and the next are drawn when the arena opens, nothing of them is served,
// and what its policy calls used up retires when a race ends.
func TestRacesFromABank(t *testing.T) {
	ctx := t.Context()
	bankFile := filepath.Join(t.TempDir(), "bank.json")
	o := kittest.Options(t.TempDir(), nil)
	get := o.Getenv
	o.Getenv = func(k string) string {
		if k == "AGON_SHOP_BANK" {
			return bankFile
		}
		return get(k)
	}
	floor := &shopping.Floor{}
	k := shopping.KitOver(floor.With(o))
	o.Kits = kit.List{k}
	x, _, err := floor.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := floor.Encoder()
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := problem.Generate(ctx, problem.DemoHidden(x, enc, 77, 9))
	if err != nil {
		t.Fatal(err)
	}
	b, err := problem.NewBank(problem.Policy{MaxExposures: 1}, nil, hidden)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Save(bankFile); err != nil {
		t.Fatal(err)
	}
	arena := filepath.Join(t.TempDir(), "arena.toml")
	text := fmt.Sprintf("id = \"raced\"\nkind = \"shopping\"\ntitle = \"Raced\"\nnetuid = 5\nevidence = \"foreign\"\nincentive = %q\nsets = [\"demo\"]\n[incentive_numbers]\n%s = 24\n%s = 4\n[policy]\ntools = [\"%s\"]\n",
		play.RaceRule, play.RaceHours, play.RaceProblems, strings.Join(play.ToolNames(), `", "`))
	if err := os.WriteFile(arena, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Arenas = []string{arena}
	s, end, err := roles.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	a, err := s.Platform.FullArena(ctx, "raced")
	if err != nil {
		t.Fatal(err)
	}
	var set []agon.TaskRef
	for _, r := range a.Tasks {
		if r.Hidden {
			set = append(set, r)
			if _, err := s.Platform.Blob(ctx, platform.Caller{}, r.Digest); err == nil {
				t.Errorf("hidden task %s is served to anybody", r.Key)
			}
		}
	}
	if len(set) != 4 || len(a.Seeds.NextTasks) != 4 || a.Period.Hours != 24 {
		t.Fatalf("%d tasks, next %v, %+v", len(set), a.Seeds.NextTasks, a.Period)
	}
	if b, err = problem.LoadBank(bankFile); err != nil || b.Left() != 1 {
		t.Fatalf("%d left, %v", b.Left(), err)
	}
	f, err := kit.LoadArenaFile(arena, o.Kits)
	if err != nil {
		t.Fatal(err)
	}
	again := f.Arena()
	sup, err := f.SupplyOf(s, &again)
	if err != nil {
		t.Fatal(err)
	}
	// One submission was given the first two of the race.
	ended := platform.EndedSet{Arena: "raced", Period: 0, Tasks: set, Played: map[agon.Digest][]string{set[0].Digest: {"s"}, set[1].Digest: {"s"}}}
	for range 2 {
		used, err := sup.Ended(ctx, ended)
		if err != nil || len(used) != 2 {
			t.Fatalf("used up: %v, %v", used, err)
		}
	}
	if b, err = problem.LoadBank(bankFile); err != nil || b.Left() != 3 || len(b.Public()) != 2 {
		t.Errorf("%d left, %d public, %v", b.Left(), len(b.Public()), err)
	}
	// Three are left where a race needs four.
	if _, err := sup.Draw(ctx, platform.SetRequest{Arena: again, Period: 2, Tasks: 4, Seed: 5}); err == nil || !strings.Contains(err.Error(), "3 hidden ones are left") {
		t.Errorf("too few: %v", err)
	}
	// A generator gives others for each seed, and the same ones for one.
	one, err := k.Generate(ctx, o, kit.GenerateRequest{Tasks: 3, Seed: 11})
	if err != nil {
		t.Fatal(err)
	}
	same, err := k.Generate(ctx, o, kit.GenerateRequest{Tasks: 3, Seed: 11})
	if err != nil {
		t.Fatal(err)
	}
	other, err := k.Generate(ctx, o, kit.GenerateRequest{Tasks: 3, Seed: 12})
	if err != nil {
		t.Fatal(err)
	}
	for i := range one {
		if one[i].Digest != same[i].Digest || one[i].Digest == other[i].Digest || len(one) != 3 {
			t.Errorf("task %d: %s, %s, %s", i, one[i].Digest, same[i].Digest, other[i].Digest)
		}
	}
}
