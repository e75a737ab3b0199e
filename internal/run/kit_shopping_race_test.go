package run

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kind/shopping"
	"github.com/agon-arena/agon/platform"
	"github.com/agon-arena/agon/samples"
	"github.com/agon-arena/agon/shop/problem"
)

// A race closes when its time has come: what validators were given of it counts
// as seen, what is used up retires, and the arena goes on with other hidden
// problems. Nothing hidden is served before.
func TestRaceClock(t *testing.T) {
	ctx := t.Context()
	bankFile := filepath.Join(t.TempDir(), "bank.json")
	o := testOptions(t.TempDir())
	get := o.Getenv
	o.Getenv = func(k string) string {
		if k == "AGON_SHOP_BANK" {
			return bankFile
		}
		return get(k)
	}
	x, _, err := o.floor().open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := o.floor().encoder()
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
	ks := kinds(o, "")
	s, err := openServer(ctx, o, ks)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	f := ArenaFile{
		ID: "raced", Kind: shopping.Name, Title: "Raced", Netuid: 5, Incentive: shopping.RaceRule, Sets: []string{shopPublic},
		IncentiveNumbers: map[string]float64{shopping.RaceHours: 24, shopping.RaceProblems: 6},
	}
	f.defaults()
	f.Policy.Tools = shopping.ToolNames()
	val, err := loadParty(s.data.Path("wallets"), "validator")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.openArena(ctx, f, val); err != nil {
		t.Fatal(err)
	}
	raceOf := func() (race string, n int, digests []agon.Digest) {
		t.Helper()
		a, err := s.platform.Arena(ctx, f.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range a.Tasks {
			if x.Hidden {
				race, _, _ = strings.Cut(x.Key, "/")
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
		if _, err := s.platform.Blob(ctx, platform.Caller{}, d); err == nil {
			t.Errorf("hidden task %s is served to anybody", d)
		}
	}

	// One submission plays the suite and is given the first four of the race.
	miner, err := loadParty(s.data.Path("wallets"), "miner")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ensureRegistered(ctx, f.Arena(), miner); err != nil {
		t.Fatal(err)
	}
	files, err := samples.Files(shopping.Name, "rules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.platform.Submit(ctx, platform.Caller{Hotkey: miner.Hotkey.SS58()}, f.ID, client.SubmitRequest{
		Name: "rules", Licence: "MIT", Files: []client.File{{Path: shopping.AgentFile, Content: files[shopping.AgentFile]}},
	}); err != nil {
		t.Fatal(err)
	}
	who := platform.Caller{Hotkey: val.Hotkey.SS58()}
	claim := func() *client.Lease {
		t.Helper()
		l, err := s.platform.Claim(ctx, who, client.ClaimRequest{Kinds: []string{shopping.Name}, Driver: "runc"})
		if err != nil || l == nil {
			t.Fatalf("nothing to play: %v", err)
		}
		return l
	}
	solve := func(l *client.Lease) {
		t.Helper()
		r := client.Result{Token: l.Token, Outcome: "ok", Driver: agon.Driver{Name: "runc"}}
		for _, x := range l.Run.Tasks {
			r.Scores = append(r.Scores, agon.Score{Task: x.Key, Value: 1, Solved: true, Scorer: ks[shopping.Name].Scorer()})
		}
		if _, err := s.platform.Result(ctx, who, l.ID, r); err != nil {
			t.Fatal(err)
		}
	}
	solve(claim())
	first := claim()
	if len(first.Run.Tasks) != 4 || !strings.HasPrefix(first.Run.Tasks[0].Key, "race-0001/") {
		t.Fatalf("%+v", first.Run.Tasks)
	}

	for _, end := range s.ends { // from here on the test is the clock
		end()
	}
	s.ends = nil
	c := s.races[f.ID]
	opened := c.closes
	if err := c.advance(ctx, opened.Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if race, n, _ = raceOf(); race != "race-0001" || n != 6 {
		t.Fatalf("before its time: %s with %d problems", race, n)
	}
	if err := c.advance(ctx, opened); err != nil {
		t.Fatal(err)
	}
	if race, n, _ = raceOf(); race != "race-0002" || n != 5 || !c.closes.Equal(opened.Add(24*time.Hour)) {
		t.Fatalf("%s with %d problems until %s", race, n, c.closes)
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
	if !strings.HasPrefix(second.Run.Tasks[0].Key, "race-0002/") {
		t.Errorf("%+v", second.Run.Tasks)
	}
	solve(second)
	claim() // the fifth
	// The bank runs out: the arena is paused, it does not race on known problems.
	if err := c.advance(ctx, c.closes); err != nil {
		t.Fatal(err)
	}
	a, err := s.platform.Arena(ctx, f.ID)
	if err != nil || a.State != agon.ArenaPaused || !c.closes.IsZero() {
		t.Errorf("%v, %s", err, a.State)
	}
}

func TestRaceClockRefuses(t *testing.T) {
	s := &server{o: Options{Getenv: func(string) string { return "" }}, races: map[string]*raceClock{}}
	a := agon.Arena{ID: "a", Incentive: shopping.RaceRule, IncentiveNumbers: map[string]float64{shopping.RaceHours: 1}}
	var e *agon.Error
	if err := prepareRace(context.Background(), s, &a, time.Time{}); !errors.As(err, &e) || e.Field != "incentive_numbers" {
		t.Errorf("no bank: %v", err)
	}
	s.o.Getenv = func(string) string { return "bank.json" }
	a.Tasks = []agon.TaskRef{{Key: "h", Hidden: true}}
	if err := prepareRace(context.Background(), s, &a, time.Time{}); !errors.As(err, &e) || e.Field != "hidden" {
		t.Errorf("two sources: %v", err)
	}
	a.IncentiveNumbers = nil
	if err := prepareRace(context.Background(), s, &a, time.Time{}); err != nil || len(s.races) != 0 {
		t.Errorf("no clock: %v", err)
	}
	for _, hours := range []float64{-1, .001, 1e6} {
		if shopping.Race().CheckNumbers(map[string]float64{shopping.RaceHours: hours}) == nil {
			t.Errorf("%v hours pass", hours)
		}
	}
}
