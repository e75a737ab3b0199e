package platform

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/store"
)

// pairedArena is an arena under the rule paired whose numbers are changed by own.
func pairedArena(t testing.TB, tasks int, own map[string]float64) *fixture {
	t.Helper()
	return newFixture(t, tasks, func(c *Config, a *agon.Arena) {
		c.Incentives[incentive.PairedRule] = incentive.Paired()
		c.Kinds["script"] = &scriptKind{}
		a.Incentive, a.MaxLeases = incentive.PairedRule, 4
		a.IncentiveNumbers = own
		must(t, incentive.Paired().CheckNumbers(own))
	})
}

func (f *fixture) decision(id string) agon.Decision {
	f.t.Helper()
	var d agon.Decision
	f.read(func(tx *store.Tx) (err error) {
		d, err = tx.Decision(id)
		return err
	})
	return d
}

// rounds plays with validators in turn until nobody gets anything; value is
// what a lease scores at a validator.
func (f *fixture) rounds(validators []string, value func(v string, l *client.Lease) float64) (plays int) {
	f.t.Helper()
	for idle := 0; idle < len(validators); {
		idle = 0
		for _, v := range validators {
			l := f.claim(v)
			if l == nil {
				idle++
				continue
			}
			plays++
			f.result(v, l, scored(l, value(v, l)))
		}
	}
	return plays
}

func lone() map[string]float64 {
	return map[string]float64{incentive.NumValidators: 1, incentive.NumAgree: 1}
}

// An empty seat is held by the baseline; who beats it sits. Then the better one
// takes the seat by pairs of both sides, on the same tasks and seeds.
func TestPairedSeat(t *testing.T) {
	f := pairedArena(t, 5, lone())
	skill := map[string]float64{}
	play := func(_ string, l *client.Lease) float64 { return skill[l.Submission.ID] }
	a := f.submit(miner1, "a")
	skill[a.ID] = 0
	f.rounds([]string{val1}, play)
	d := f.decision(a.ID)
	if d.Outcome == agon.TookSeat {
		t.Fatal("who has solved nothing sits")
	}
	b := f.submit(miner2, "b")
	skill[b.ID] = 1
	f.rounds([]string{val1}, play)
	if d = f.decision(b.ID); d.Outcome != agon.TookSeat || d.Incumbent != "" || d.Rule != incentive.PairedRule || d.Numbers["pairs"] < 12 {
		t.Fatalf("%+v", d)
	}
	var halves []store.Half
	c := f.submit(miner1, "c")
	skill[c.ID] = 1
	f.cfg.Incentives[incentive.PairedRule] = incentive.Paired()
	f.rounds([]string{val1}, func(v string, l *client.Lease) float64 {
		if l.Run.Half() && l.Submission.ID == b.ID {
			return 0.4 // it was lucky before
		}
		return 1
	})
	f.read(func(tx *store.Tx) (err error) {
		halves, err = tx.Halves(c.ID)
		return err
	})
	seeds := map[int64]int{}
	for _, h := range halves {
		seeds[h.Seed]++
		if (h.Rival.Side == agon.SideIncumbent) != (h.Submission == b.ID) || h.Validator != val1 {
			t.Errorf("half %+v", h.Rival)
		}
	}
	for s, n := range seeds {
		if n != 2 {
			t.Errorf("seed %d was played %d times", s, n)
		}
	}
	if d = f.decision(c.ID); d.Outcome != agon.TookSeat || d.Incumbent != b.ID || len(halves) == 0 || d.Numbers["attempt"] != 1 {
		t.Fatalf("%+v", d)
	}
	if n := d.Numbers; n["need"] != 2000 || n["evidence"] < n["need"] || n["gain"] < 0.59 || n["gain"] > 0.61 {
		t.Errorf("numbers %v", n)
	}
	s := incentive.Say(f.cfg.Incentives, d)
	for _, want := range []string{"Took the seat", "at least 2000 needed", "attempt 1", "pairs"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q lacks %q", s, want)
		}
	}
	// What a submission scored alone does not change by the pairs it defended.
	v, err := f.Submission(bg, Caller{Hotkey: miner2}, b.ID)
	must(t, err)
	if v.Score == nil || *v.Score != 1 {
		t.Errorf("the champion's score moved: %v", v.Score)
	}
}

// Equal sides cannot be told apart; a worse one is kept out early; one that
// crashes loses its pairs.
func TestPairedKeptAndUndecided(t *testing.T) {
	own := lone()
	own[incentive.NumMaxPairs] = 40
	f := pairedArena(t, 3, own)
	first := f.submit(miner1, "first")
	f.rounds([]string{val1}, func(string, *client.Lease) float64 { return 1 })
	if f.decision(first.ID).Outcome != agon.TookSeat {
		t.Fatal("the first does not sit")
	}
	same := f.submit(miner2, "same")
	f.rounds([]string{val1}, func(string, *client.Lease) float64 { return 1 })
	d := f.decision(same.ID)
	if d.Outcome != agon.KeptSeat || d.Numbers["outcome"] != 0 && d.Numbers["outcome"] != -1 {
		t.Errorf("a copy: %+v", d)
	}
	crash := f.submit(miner2, "crash")
	for {
		l := f.claim(val1)
		if l == nil {
			break
		}
		r := scored(l, 1)
		if l.Run.Half() && l.Submission.ID == crash.ID {
			r = client.Result{Token: l.Token, Outcome: "exited", Fault: agon.FaultAgent, Reason: "exit 3", Driver: agon.Driver{Name: "runc"}}
		}
		f.result(val1, l, r)
	}
	d = f.decision(crash.ID)
	if d.Outcome != agon.KeptSeat || d.Numbers["outcome"] != -1 || d.Numbers["lost"] != d.Numbers["pairs"] || d.Numbers["pairs"] > 16 || d.Numbers["attempt"] != 2 {
		t.Errorf("a crash: %+v", d)
	}
}

// Each validator has a stream of its own, and two of three decide: one that
// says the challenger always wins seats nobody, and one that says it always
// loses keeps nobody out.
func TestPairedTwoOfThree(t *testing.T) {
	for _, lie := range []float64{0, 1} {
		f := pairedArena(t, 4, map[string]float64{incentive.NumMaxPairs: 64})
		all := []string{val1, val2, val3}
		first := f.submit(miner1, "first")
		f.rounds(all, func(string, *client.Lease) float64 { return 1 })
		if f.decision(first.ID).Outcome != agon.TookSeat {
			t.Fatalf("the first does not sit: %+v", f.decision(first.ID))
		}
		c := f.submit(miner2, "c")
		byPair := map[string]map[string]int{}
		f.rounds(all, func(v string, l *client.Lease) float64 {
			if !l.Run.Half() {
				return 1
			}
			g := fmt.Sprint(l.Run.Rival.Round, l.Run.Seed)
			if byPair[g] == nil {
				byPair[g] = map[string]int{}
			}
			byPair[g][v]++
			mine := l.Submission.ID == c.ID
			switch {
			case v == val2 && mine:
				return lie
			case v == val2:
				return 1 - lie
			case mine:
				return 1 - lie // truth: the opposite
			}
			return lie
		})
		shared := 0
		for g, who := range byPair {
			for v, halves := range who {
				if halves != 2 {
					t.Errorf("pair %s: %s played %d halves", g, v, halves)
				}
			}
			if len(who) == len(all) {
				shared++
			}
		}
		if shared == 0 {
			t.Errorf("no pair was played by all on one seed: %v", byPair)
		}
		d := f.decision(c.ID)
		if got, want := d.Outcome == agon.TookSeat, lie == 0; got != want {
			t.Errorf("lie %v: %+v", lie, d)
		}
		if d.Numbers["validators"] != 3 || d.Numbers["agree"] != 2 {
			t.Errorf("numbers %v", d.Numbers)
		}
	}
}

// After as many entries as share the arena's alpha, the next waits for the
// next period, and those behind it.
func TestPairedPeriod(t *testing.T) {
	own := lone()
	own[incentive.NumEntries], own[incentive.NumArenaAlpha], own[incentive.NumPeriod], own[incentive.NumMaxPairs] = 2, 0.004, 1, 40
	f := pairedArena(t, 3, own)
	for i := range 3 {
		f.submit(miner1, fmt.Sprint("agent ", i))
	}
	f.rounds([]string{val1}, func(string, *client.Lease) float64 { return 1 })
	count := func() int {
		b, err := f.Board(bg, "demo")
		must(t, err)
		return len(b.Decisions)
	}
	if n := count(); n != 2 {
		t.Fatalf("%d decisions in the first period", n)
	}
	f.clock.add(24 * time.Hour)
	must(t, f.periods(bg))
	f.rounds([]string{val1}, func(string, *client.Lease) float64 { return 1 })
	if n := count(); n != 3 {
		t.Fatalf("%d decisions in the second", n)
	}
}

// Money ends a contest.
func TestPairedMoney(t *testing.T) {
	own := lone()
	own[incentive.NumMaxUSD] = 0.0005 // 10 micro-dollars a half
	f := pairedArena(t, 3, own)
	f.submit(miner1, "first")
	f.rounds([]string{val1}, func(string, *client.Lease) float64 { return 1 })
	c := f.submit(miner2, "same")
	f.rounds([]string{val1}, func(string, *client.Lease) float64 { return 1 })
	d := f.decision(c.ID)
	if d.Numbers["money_ended"] != 1 || d.Numbers["pairs"] != 32 || d.Outcome != agon.KeptSeat || d.Numbers["cost_usd"] < 0.0005 {
		t.Errorf("%+v", d)
	}
}

// Copies of a sampling agent, five of each coldkey, through the real platform,
// store and rule with drawn outcomes.
func TestPairedCopies(t *testing.T) {
	own := lone()
	own[incentive.NumMaxPairs], own[incentive.NumBatch], own[incentive.NumEntries] = 40, 20, 0
	f := pairedArena(t, 24, own)
	r := rand.New(rand.NewPCG(5, 6))
	coldkeys := 30
	if race {
		coldkeys = 6 // make figures plays all
	}
	if n, err := strconv.Atoi(os.Getenv("AGON_BENCH_COPIES")); err == nil {
		coldkeys = n / 5 // 2,000 take a minute
	}
	for i := range coldkeys {
		f.ledger.coldkey[fmt.Sprint("m", i)] = fmt.Sprint("c", i)
	}
	f.kindNamed("script")
	play := func(coin float64) {
		for {
			l, err := f.Claim(bg, Caller{Hotkey: val1}, client.ClaimRequest{Kinds: []string{"script"}, Driver: "runc"})
			must(t, err)
			if l == nil {
				return
			}
			res := scored(l, 0)
			for i := range res.Scores {
				if r.Float64() < coin {
					res.Scores[i].Value, res.Scores[i].Solved = 1, true
				}
			}
			f.result(val1, l, res)
		}
	}
	enter := func(miner string, i int) *client.Submission {
		s, err := f.Submit(bg, Caller{Hotkey: miner}, "demo", client.SubmitRequest{
			Name: "x", Licence: "MIT", Files: []client.File{{Path: "agent.py", Content: []byte(script(i, nil))}},
		})
		must(t, err)
		return s
	}
	enter(miner1, 0)
	play(1) // someone sits
	seated, n := map[string]bool{}, 0
	for try := range 5 {
		for i := range coldkeys {
			m := fmt.Sprint("m", i)
			n++
			s := enter(m, n)
			play(0.5) // the champion flips the same coin
			if f.decision(s.ID).Outcome == agon.TookSeat {
				seated[m] = true
				t.Logf("coldkey %d took the seat at try %d", i, try+1)
			}
		}
	}
	if len(seated) > coldkeys/100 {
		t.Errorf("%d of %d coldkeys were seated within five tries", len(seated), coldkeys)
	}
}

// kindNamed makes the arena one of another kind.
func (f *fixture) kindNamed(name string) {
	f.t.Helper()
	must(f.t, f.cfg.Store.Write(bg, func(tx *store.Tx) error {
		a, err := tx.Arena("demo")
		if err != nil {
			return err
		}
		a.Kind = name
		f.arena = a
		return tx.PutArena(a)
	}))
}

// While a challenge is under way everybody sees what it needs and has; where
// validators are missing it ends, and those behind it go on.
func TestPairedAbsentValidators(t *testing.T) {
	f := pairedArena(t, 3, nil) // two of three
	a := f.submit(miner1, "a")
	b := f.submit(miner2, "b")
	one := func(string, *client.Lease) float64 { return 1 }
	f.rounds([]string{val1}, one)
	s, err := f.Submission(bg, Caller{}, a.ID)
	must(t, err)
	if n := s.Contest; n["need"] != 2000 || n["pairs"] != 16 || n["attempt"] != 1 || n["validators"] != 3 {
		t.Fatalf("under way: %v", n)
	}
	for range 2 {
		f.clock.add(pairWait + time.Minute)
		must(t, f.Sweep(bg))
		f.rounds([]string{val1}, one)
	}
	d := f.decision(a.ID)
	if d.Outcome != agon.KeptSeat || d.Numbers["absent"] != 2 || d.Numbers["evidence_1"] < 2000 {
		t.Errorf("%+v", d)
	}
	if s := incentive.Say(f.cfg.Incentives, d); !strings.Contains(s, "2 of 3 were missing") {
		t.Error(s)
	}
	if s, err = f.Submission(bg, Caller{}, a.ID); err != nil || s.Contest != nil {
		t.Errorf("decided: %v %v", s.Contest, err)
	}
	// With two of three there the third is not waited for again.
	for range 4 {
		f.clock.add(pairWait + time.Minute)
		must(t, f.Sweep(bg))
		f.rounds([]string{val1, val2}, one)
	}
	if d = f.decision(b.ID); d.Outcome != agon.TookSeat || d.Numbers["seated_by"] != 2 {
		t.Errorf("%+v", d)
	}
}
