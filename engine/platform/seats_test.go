package platform

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
)

// enter submits content for miner and scores it.
func (f *fixture) enter(miner, content string, score float64) *client.Submission {
	f.t.Helper()
	s := f.submit(miner, content)
	f.playAll(val1, func(*client.Lease) float64 { return score })
	s, err := f.Submission(bg, Caller{}, s.ID)
	must(f.t, err)
	return s
}

func withRule(name string, numbers map[string]float64) func(*Config, *agon.Arena) {
	return func(_ *Config, a *agon.Arena) { a.Incentive, a.IncentiveNumbers = name, numbers }
}

func TestSeveralSeats(t *testing.T) {
	f := newFixture(t, 1, withRule(podiumRule, map[string]float64{"margin": 0.05}))
	f.ledger.coldkey["m-gone"] = "cold-gone"
	board := func() *client.Board {
		t.Helper()
		b, err := f.Board(bg, "demo")
		must(t, err)
		return b
	}
	target := func(uids []uint16, values []uint16) {
		t.Helper()
		g, err := f.Target(bg, "demo")
		must(t, err)
		if !slices.Equal(g.UIDs, uids) || !slices.Equal(g.Values, values) {
			t.Fatalf("target %v %v, want %v %v", g.UIDs, g.Values, uids, values)
		}
	}
	share := func(s, of float64) uint16 {
		return uint16(math.RoundToEven(float64(float32(s)) / float64(float32(of)) * math.MaxUint16))
	}

	target([]uint16{0}, []uint16{65535}) // nobody sits: all is burned
	a := f.enter(miner1, "a", 0.5)
	b := f.enter(miner2, "b", 0.54) // more, but not by the margin
	if b.Decision.Outcome != agon.KeptSeat || b.Decision.Bar == nil || *b.Decision.Bar != 0.55 || b.Decision.Rule != podiumVerdict || b.Decision.Incumbent != a.ID {
		t.Fatalf("decision %+v", b.Decision)
	}
	target([]uint16{0, 3}, []uint16{share(.4, .6), 65535}) // two empty places burn
	c := f.enter(miner2, "c", 0.6)
	if got := board(); len(got.Seats) != 2 || got.Seats[0].Submission != c.ID || got.Seats[1].Submission != a.ID || *got.Champion != c.ID ||
		got.Seats[0].Share != 0.6 || got.Seats[1].Share != 0.3 || got.Seats[1].Place != 2 || math.Abs(got.Burned-0.1) > 1e-12 {
		t.Fatalf("board %+v", got)
	}
	target([]uint16{0, 3, 4}, []uint16{share(.1, .6), share(.3, .6), 65535})
	d := f.enter("m-gone", "d", 0.7) // registered when it entered, gone from the metagraph
	got := board()
	if len(got.Seats) != 3 || got.Seats[0].Submission != d.ID || got.Seats[2].Submission != a.ID || got.Burned != 0 {
		t.Fatalf("board %+v", got)
	}
	if got.Seats[0].Since != d.Decision.At || got.Seats[0].Score != 0.7 {
		t.Fatalf("seat %+v of decision %+v", got.Seats[0], d.Decision)
	}
	target([]uint16{0, 3, 4}, []uint16{65535, share(.1, .6), share(.3, .6)})
	arena, err := f.Arena(bg, "demo")
	must(t, err)
	if len(arena.Seats) != 3 || arena.Champion == nil || arena.Champion.Submission != d.ID {
		t.Fatalf("arena %+v", arena)
	}
	checkInvariants(t, f.cfg.Store)

	// What must be burned is never spread where nobody can burn it.
	f.cfg.OwnerUID = func(context.Context, uint16) (uint16, bool, error) { return 0, false, nil }
	target([]uint16{}, []uint16{})
}

// Of equal scores who sits stands first, in every list and on every stretch of
// it, though others came earlier.
func TestSeatsStandFirstAmongEquals(t *testing.T) {
	f := newFixture(t, 1, withRule(podiumRule, map[string]float64{"margin": 0.05}))
	enter := func(miner, name, provider string, value float64) string {
		t.Helper()
		s := f.submit(miner, name)
		for l := f.claim(val1); l != nil; l = f.claim(val1) {
			r := scored(l, value)
			r.Receipts = []agon.Receipt{{ID: "a", Provider: provider, Model: "m", Payer: "run", Outcome: "ok", Prompt: 1}}
			f.result(val1, l, r)
		}
		return s.ID
	}
	f.ledger.coldkey["m-gone"] = "cold-gone"
	low := enter(miner1, "sits third", "openai", 0.5)
	early := enter(miner2, "a script, 0.6", agon.Script, 0.6) // a script takes no seat
	best := enter(miner2, "a script, 0.7", agon.Script, 0.7)
	second := enter(miner2, "sits second", "openai", 0.6)
	equal := enter(miner1, "as much as second", "openai", 0.6)
	first := enter("m-gone", "sits first", "openai", 0.7)
	want := []string{first, best, second, early, equal, low}
	b, err := f.Board(bg, "demo")
	must(t, err)
	for i, s := range b.Submissions {
		if s.ID != want[i] {
			t.Fatalf("line %d of the board is %s with %v, want %s", i+1, s.ID, *s.Score, want[i])
		}
	}
	for size := 1; size <= len(want); size++ {
		var got []string
		for at := 0; at < len(want); at += size {
			list, err := f.Standings(bg, "demo", at, size)
			must(t, err)
			for i, s := range list {
				if s.Rank != at+i+1 {
					t.Fatalf("rank %d at line %d", s.Rank, at+i+1)
				}
				got = append(got, s.Submission.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("by stretches of %d: %v, want %v", size, got, want)
		}
	}
}

// The same decisions mean other seats under another rule: there is no other state.
func TestSeatsFollowFromDecisions(t *testing.T) {
	f := newFixture(t, 1, withRule(podiumRule, nil))
	f.enter(miner1, "a", 0.2)
	f.enter(miner2, "b", 0.4)
	f.arena.Incentive = incentive.WinnerTakesAllRule
	must(t, f.EnsureArena(bg, f.arena))
	b, err := f.Board(bg, "demo")
	must(t, err)
	if len(b.Seats) != 1 || b.Seats[0].Miner != miner2 || b.Seats[0].Share != 1 || b.Burned != 0 {
		t.Fatalf("board %+v", b)
	}
}

func TestArenaNumbersChecked(t *testing.T) {
	f := newFixture(t, 1)
	for _, c := range []struct {
		rule    string
		numbers map[string]float64
	}{
		{incentive.WinnerTakesAllRule, map[string]float64{"margin": 1}},
		{podiumRule, map[string]float64{"margin": -1}},
		{podiumRule, map[string]float64{"share_1": 2}},
		{"nothing", nil},
	} {
		a := f.arena
		a.Incentive, a.IncentiveNumbers = c.rule, c.numbers
		if err := f.EnsureArena(bg, a); err == nil {
			t.Errorf("%s %v was taken", c.rule, c.numbers)
		}
	}
}

// A rule of another kind sees all there is: scores, cost, time, every play; it
// may keep a seat for each task and let its shares follow the clock.
func TestRuleSeesEverything(t *testing.T) {
	var seen []incentive.Challenge
	rule := incentive.Rule{
		Numbers: map[string]float64{"half_life_s": 60},
		Plays:   true,
		Decide: func(c incentive.Challenge) incentive.Verdict {
			seen = append(seen, c)
			v := incentive.Verdict{Takes: true, Numbers: map[string]float64{"cost": float64(c.Challenger.Cost), "odd": math.NaN()}}
			for _, s := range c.Seats {
				inf := math.Inf(1)
				v.Incumbent, v.Bar = s.Submission, &inf
			}
			return v
		},
		Seats: func(_ map[string]float64, entered []incentive.Entry) []incentive.Entry { return entered },
		Shares: func(n map[string]float64, seats []incentive.Entry, at time.Time) []float64 {
			return []float64{math.Exp2(-at.Sub(seats[0].At).Seconds() / n["half_life_s"])}
		},
	}
	f := newFixture(t, 2, func(c *Config, a *agon.Arena) {
		c.Incentives = map[string]incentive.Rule{"best": rule}
		a.Incentive = "best"
	})
	a := f.enter(miner1, "a", 0.5)
	f.clock.add(time.Minute)
	b := f.enter(miner2, "b", 0.25)
	if len(seen) != 2 || len(seen[1].Seats) != 1 {
		t.Fatalf("saw %+v", seen)
	}
	c := seen[1]
	if c.Arena.ID != "demo" || c.Challenger.Score != 0.25 || c.Challenger.Cost != 20 || c.Challenger.Total != 2 || len(c.Challenger.Plays) != 2 ||
		c.Seats[0].Submission != a.ID || c.Seats[0].Cost != 20 || len(c.Seats[0].Plays) != 2 || c.Seats[0].Plays[1].Task != "small/t1" ||
		c.Seats[0].Plays[1].Value != 0.5 || c.Seats[0].Plays[0].Seed == 0 || c.At.Sub(c.Seats[0].At) < time.Minute || c.Numbers["half_life_s"] != 60 {
		t.Fatalf("saw %+v", c)
	}
	if d := b.Decision; d.Incumbent != a.ID || d.Bar != nil || d.Rule != "best" || fmt.Sprint(d.Numbers) != "map[cost:20]" {
		t.Fatalf("decision %+v", d)
	}
	f.clock.add(time.Minute)
	board, err := f.Board(bg, "demo")
	must(t, err)
	if len(board.Seats) != 2 || math.Abs(board.Seats[0].Share-0.25) > 0.01 || board.Seats[1].Share != 0 || math.Abs(board.Burned-0.75) > 0.01 {
		t.Fatalf("board %+v", board)
	}
}
