package shopping_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/kinds/shopping"
	"github.com/agon-arena/agon/kinds/shopping/data"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/problem"
)

// A race closes when its time has come: what validators were given of it counts
// as seen, what is used up retires, and the arena goes on with other hidden
// problems. Nothing hidden is served before.
func TestRaceClock(t *testing.T) {
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
	floor, races := &shopping.Floor{}, map[string]*shopping.Clock{}
	k := shopping.KitOver(floor.With(o), races)
	var clock sync.WaitGroup
	defer clock.Wait()
	run, stop := context.WithCancel(ctx)
	defer stop()
	open := k.Opened
	k.Opened = func(ctx context.Context, s *kit.Server, a *agon.Arena) error {
		own := *s // the clock runs until the test takes its place
		own.Background = func(f func(context.Context)) { clock.Go(func() { f(run) }) }
		return open(ctx, &own, a)
	}
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
	text := fmt.Sprintf("id = \"raced\"\nkind = \"shopping\"\ntitle = \"Raced\"\nnetuid = 5\nevidence = \"foreign\"\nincentive = %q\nsets = [\"demo\"]\n[incentive_numbers]\n%s = 24\n%s = 6\n[policy]\ntools = [\"%s\"]\n",
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
	f, err := kit.LoadArenaFile(arena, o.Kits)
	if err != nil {
		t.Fatal(err)
	}
	val, err := kit.LoadParty(s.Data.Path("wallets"), "validator")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.EnsureSubnet(ctx, f.Arena(), val); err != nil {
		t.Fatal(err)
	}
	raceOf := func() (race string, n int, digests []agon.Digest) {
		t.Helper()
		a, err := s.Platform.FullArena(ctx, f.ID)
		if err != nil {
			t.Fatal(err)
		}
		names, err := s.Platform.TaskNames(ctx, f.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range a.Tasks {
			if x.Hidden {
				race, _, _ = strings.Cut(names[x.Key], "/")
				digests = append(digests, x.Digest)
				n++
			}
		}
		return race, n, digests
	}
	race, n, digests := raceOf()
	if race != "race-0001" || n != 6 {
		t.Fatalf("%s with %d problems", race, n)
	}
	for _, d := range digests {
		if _, err := s.Platform.Blob(ctx, platform.Caller{}, d); err == nil {
			t.Errorf("hidden task %s is served to anybody", d)
		}
	}

	// One submission plays the suite and is given the first four of the race.
	miner, err := kit.LoadParty(s.Data.Path("wallets"), "miner")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnsureRegistered(ctx, f.Arena(), miner); err != nil {
		t.Fatal(err)
	}
	files, err := kit.SampleFiles(data.FS, "rules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Platform.Submit(ctx, platform.Caller{Hotkey: miner.Hotkey.SS58()}, f.ID, client.SubmitRequest{
		Name: "rules", Licence: "MIT", Files: []client.File{{Path: play.AgentFile, Content: files[play.AgentFile]}},
	}); err != nil {
		t.Fatal(err)
	}
	who := platform.Caller{Hotkey: val.Hotkey.SS58()}
	claim := func() *client.Lease {
		t.Helper()
		l, err := s.Platform.Claim(ctx, who, client.ClaimRequest{Kinds: []string{play.Name}, Driver: "runc"})
		if err != nil || l == nil {
			t.Fatalf("nothing to play: %v", err)
		}
		return l
	}
	solve := func(l *client.Lease) {
		t.Helper()
		r := client.Result{Token: l.Token, Outcome: "ok", Driver: agon.Driver{Name: "runc"}}
		for _, x := range l.Run.Tasks {
			r.Scores = append(r.Scores, agon.Score{Task: x.Key, Value: 1, Solved: true, Scorer: o.Kinds("")[play.Name].Scorer()})
		}
		if _, err := s.Platform.Result(ctx, who, l.ID, r); err != nil {
			t.Fatal(err)
		}
	}
	solve(claim())
	first := claim()
	names, err := s.Platform.TaskNames(ctx, f.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Run.Tasks) != 4 || !strings.HasPrefix(names[first.Run.Tasks[0].Key], "race-0001/") {
		t.Fatalf("%+v", first.Run.Tasks)
	}

	stop()
	clock.Wait() // from here on the test is the clock
	c := races[f.ID]
	opened := c.Closes()
	if err := c.Advance(ctx, opened.Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if race, n, _ = raceOf(); race != "race-0001" || n != 6 {
		t.Fatalf("before its time: %s with %d problems", race, n)
	}
	if err := c.Advance(ctx, opened); err != nil {
		t.Fatal(err)
	}
	if race, n, _ = raceOf(); race != "race-0002" || n != 5 || !c.Closes().Equal(opened.Add(24*time.Hour)) {
		t.Fatalf("%s with %d problems until %s", race, n, c.Closes())
	}
	if b, err = problem.LoadBank(bankFile); err != nil {
		t.Fatal(err)
	}
	if len(b.Public()) != 4 || b.Left() != 0 {
		t.Errorf("%d retired, %d left", len(b.Public()), b.Left())
	}
	// Who is under way goes on in the race that is open.
	solve(first)
	second := claim()
	if names, err = s.Platform.TaskNames(ctx, f.ID); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(names[second.Run.Tasks[0].Key], "race-0002/") {
		t.Errorf("%+v", second.Run.Tasks)
	}
	solve(second)
	claim() // the fifth
	// The bank runs out: the arena is paused, it does not race on known problems.
	if err := c.Advance(ctx, c.Closes()); err != nil {
		t.Fatal(err)
	}
	a, err := s.Platform.Arena(ctx, f.ID)
	if err != nil || a.State != agon.ArenaPaused || !c.Closes().IsZero() {
		t.Errorf("%v, %s", err, a.State)
	}
}
