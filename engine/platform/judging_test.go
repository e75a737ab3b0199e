package platform

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/store"
)

// strangers is a fixture whose results are judged again at a share.
func strangers(t testing.TB, tasks int, share float64, change ...func(*Config, *agon.Arena)) *fixture {
	draw := rand.New(rand.NewPCG(1, 2))
	return newFixture(t, tasks, append([]func(*Config, *agon.Arena){func(c *Config, a *agon.Arena) {
		a.Evidence, a.UnjudgedSeats, a.Rejudge = agon.EvidenceRequired, false, &share
		c.Draw = draw.Float64
	}}, change...)...)
}

// judgeClaim asks for something to judge; it also tells the platform that the validator judges.
func (f *fixture) judgeClaim(validator string) *client.JudgeLease {
	f.t.Helper()
	l, err := f.ClaimJudging(bg, Caller{Hotkey: validator}, client.ClaimRequest{Kinds: []string{"fake"}, Driver: "runc"})
	must(f.t, err)
	return l
}

// attest puts evidence under a lease and names it.
func (f *fixture) attest(validator string, l *client.Lease, r client.Result) client.Result {
	f.t.Helper()
	d, err := blob.PutFiles(bg, under{f, validator, l.ID}, []blob.File{{Path: "outcome", Content: []byte(l.Run.Run)}}, blob.TreeLimits{})
	must(f.t, err)
	r.Evidence = d
	return r
}

func (f *fixture) play(validator string, value float64) *client.Lease {
	f.t.Helper()
	l := f.claim(validator)
	if l == nil {
		f.t.Fatalf("nothing for %s to play", validator)
	}
	f.result(validator, l, f.attest(validator, l, scored(l, value)))
	return l
}

// A server that ends keeps nobody waiting: not for runs, and not for results to judge.
func TestDrainEndsWaiting(t *testing.T) {
	f := strangers(t, 1, 1)
	wait := client.ClaimRequest{Kinds: []string{"fake"}, Driver: "runc", WaitMS: int(maxWait.Milliseconds())}
	ctx, late := context.WithTimeoutCause(bg, maxWait/2, errors.New("it waits on"))
	defer late()
	ended := make(chan error)
	go func() {
		_, err := f.Claim(ctx, Caller{Hotkey: val1}, wait)
		ended <- err
	}()
	go func() {
		_, err := f.ClaimJudging(ctx, Caller{Hotkey: val2}, wait)
		ended <- err
	}()
	f.Drain()
	must(t, errors.Join(<-ended, <-ended))
}

func (f *fixture) judge(validator string, value float64) *client.JudgeLease {
	f.t.Helper()
	l := f.judgeClaim(validator)
	if l == nil {
		f.t.Fatalf("nothing for %s to judge", validator)
	}
	f.judgeAs(validator, l, value)
	return l
}

func (f *fixture) judgeAs(validator string, l *client.JudgeLease, value float64) {
	f.t.Helper()
	_, err := f.JudgingResult(bg, Caller{Hotkey: validator}, l.ID, judged(l, value))
	must(f.t, err)
}

func judged(l *client.JudgeLease, value float64) client.JudgeResult {
	r := client.JudgeResult{Token: l.Token, Driver: agon.Driver{Name: "runc"}}
	for _, t := range l.Run.Tasks {
		r.Scores = append(r.Scores, agon.Score{Task: t.Key, Value: value, Solved: value > 0, Scorer: "fake-1"})
	}
	return r
}

func (f *fixture) standing(validator string) client.ValidatorStanding {
	f.t.Helper()
	s, err := f.ValidatorStandings(bg)
	must(f.t, err)
	for _, v := range s.Validators {
		if v.Hotkey == validator {
			return v
		}
	}
	return client.ValidatorStanding{Hotkey: validator, Standing: 1}
}

func (f *fixture) champion() string {
	f.t.Helper()
	a, err := f.Arena(bg, "demo")
	must(f.t, err)
	if a.Champion == nil {
		return ""
	}
	return a.Champion.Submission
}

// A seat moves only after others have judged every result of the challenger;
// what they contradict does not count, and a third says whose word was wrong.
func TestSeatIsJudgedAgain(t *testing.T) {
	for _, c := range []struct {
		name                 string
		first, second, third float64
		against              string
		takes                bool
	}{
		{"all agree", 1, 1, -1, "", true},
		{"the player lied", 1, 0, 0, val1, false},
		{"the judge lied", 1, 0, 1, val2, true},
		{"three minds", 1, 0.2, 0.5, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := strangers(t, 1, 0)
			f.judgeClaim(val2)
			f.judgeClaim(val3)
			s := f.submit(miner1, "agent")
			l := f.play(val1, c.first)
			if f.champion() != "" {
				t.Fatal("the seat moved on one validator's word")
			}
			if x := f.judgeClaim(val1); x != nil {
				t.Fatal("a validator judges its own result")
			}
			f.judge(val2, c.second)
			if c.third >= 0 {
				if f.champion() != "" {
					t.Fatal("the seat moved on a contested result")
				}
				if x := f.judgeClaim(val2); x != nil {
					t.Fatal("the same validator judges twice")
				}
				f.judge(val3, c.third)
			}
			if got := f.champion(); (got == s.ID) != c.takes {
				t.Errorf("champion %q, want taken %v", got, c.takes)
			}
			for _, v := range []string{val1, val2, val3} {
				x := f.standing(v)
				if (x.Contradicted == 1) != (v == c.against) || x.Named != (v == c.against) || len(x.Cases) != int(x.Contradicted) {
					t.Errorf("%s: %+v", v, x)
				}
			}
			list, err := f.Judgings(bg, Caller{}, l.Run.Run)
			must(t, err)
			if want := 1 + map[bool]int{true: 1}[c.third >= 0]; len(list) != want {
				t.Errorf("%d judgings on record, want %d", len(list), want)
			}
			f.read(func(tx *store.Tx) error { // both stay on record
				first, err := tx.Scores(l.Run.Run)
				if err == nil && (len(first) != 1 || first[0].Value != c.first) {
					t.Errorf("the first result is gone: %+v", first)
				}
				return err
			})
		})
	}
}

// With nobody else there the decision goes on at once, and says so.
func TestAloneIsMarked(t *testing.T) {
	f := strangers(t, 2, 1)
	s := f.submit(miner1, "agent")
	f.play(val1, 1)
	f.play(val1, 1)
	if f.champion() != s.ID {
		t.Fatal("the decision waits for a judge that is not there")
	}
	b, err := f.Board(bg, "demo")
	must(t, err)
	if n := b.Decisions[0].Numbers; n[numUnjudged] != 2 || n[numJudged] != 0 {
		t.Errorf("numbers %v", n)
	}
	if want := "Of 2 results that count, 2 were judged by one validator alone."; !strings.Contains(b.Decisions[0].Sentence, want) {
		t.Errorf("sentence %q, want %q in it", b.Decisions[0].Sentence, want)
	}
}

// A judge that is gone holds nothing up, and one that was lost is replaced.
func TestJudgeIsLost(t *testing.T) {
	f := strangers(t, 1, 0)
	f.judgeClaim(val2)
	s := f.submit(miner1, "agent")
	f.play(val1, 1)
	l := f.judgeClaim(val2)
	f.clock.add(2 * time.Minute) // beyond the lease
	f.judgeClaim(val2)           // it takes it again
	must(t, f.Sweep(bg))
	l2 := f.judgeClaim(val2)
	if l2 == nil || l2.ID != l.ID {
		t.Fatalf("the lost judging is not offered again: %+v", l2)
	}
	_, err := f.JudgingResult(bg, Caller{Hotkey: val2}, l.ID, judged(l, 0)) // by the old token
	wantCode(t, err, 403, "not_holder")
	f.clock.add(2 * time.Minute)
	must(t, f.Sweep(bg))
	f.clock.add(2 * time.Minute) // nobody has asked for anything since
	must(t, f.Sweep(bg))
	if f.champion() != s.ID {
		t.Fatal("a judge that is gone holds the decision up")
	}
}

// Judgings survive a restart: they and the decision that waits are in the store.
func TestJudgingAfterRestart(t *testing.T) {
	f := strangers(t, 1, 0)
	f.judgeClaim(val2)
	s := f.submit(miner1, "agent")
	f.play(val1, 1)
	l := f.judgeClaim(val2)
	p, err := New(f.cfg)
	must(t, err)
	f.Platform = p
	f.judgeAs(val2, l, 1)
	if f.champion() != s.ID {
		t.Fatal("the decision did not follow the judging")
	}
}

// Nobody judges for itself: not who played it, not the same coldkey, not the miner.
func TestJudgeIsAStranger(t *testing.T) {
	f := strangers(t, 1, 0)
	f.ledger.coldkey[val2] = "cold-v1" // one owner with val1
	f.ledger.coldkey[val3] = "cold-1"  // of the miner
	f.judgeClaim(val2)
	f.judgeClaim(val3)
	f.submit(miner1, "agent")
	f.play(val1, 1)
	for _, v := range []string{val1, val2, val3} {
		if l := f.judgeClaim(v); l != nil {
			t.Errorf("%s judges it", v)
		}
	}
	if f.champion() == "" {
		t.Error("the decision waits for those who may not judge")
	}
}

// Where the ledger knows no coldkeys, a validator still does not judge itself.
func TestJudgeWithoutColdkeys(t *testing.T) {
	f := strangers(t, 1, 0)
	f.ledger.coldkey[val1], f.ledger.coldkey[val2] = "", ""
	f.judgeClaim(val1)
	f.judgeClaim(val2)
	f.submit(miner1, "agent")
	f.play(val1, 1)
	if f.judgeClaim(val1) != nil {
		t.Error("it judges its own result")
	}
	if f.judgeClaim(val2) == nil {
		t.Error("nobody judges it")
	}
}

// Below the bar a validator gets no leases, and what it still reports is played by others.
func TestOutcast(t *testing.T) {
	f := strangers(t, 1, 1)
	f.judgeClaim(val2)
	f.judgeClaim(val3)
	for i := range 3 {
		f.submit(miner1, fmt.Sprintf("agent %d", i))
	}
	f.submit(miner2, "late")
	first, second := f.claim(val1), f.claim(val1)
	late := f.claim(val1)
	for _, l := range []*client.Lease{first, second} {
		f.result(val1, l, f.attest(val1, l, scored(l, 1)))
		f.judge(val2, 0)
		f.judge(val3, 0)
	}
	if s := f.standing(val1); !s.Excluded || s.Contradicted != 2 {
		t.Fatalf("standing %+v", s)
	}
	_, err := f.Claim(bg, Caller{Hotkey: val1}, client.ClaimRequest{Kinds: []string{"fake"}})
	wantCode(t, err, 403, "low_standing")
	_, err = f.ClaimJudging(bg, Caller{Hotkey: val1}, client.ClaimRequest{Kinds: []string{"fake"}})
	wantCode(t, err, 403, "low_standing")
	if r := f.result(val1, late, f.attest(val1, late, scored(late, 1))); r.Counted || r.State != agon.RunQueued {
		t.Errorf("a late result of it counts: %+v", r)
	}
	if f.champion() != "" {
		t.Error("a lie took the seat")
	}
}

// What nobody can judge again moves no seat.
func TestUnattestedMovesNoSeat(t *testing.T) {
	f := strangers(t, 1, 1, func(_ *Config, a *agon.Arena) { a.Evidence = agon.EvidenceForeign })
	f.submit(miner1, "agent")
	l := f.claim(val1)
	f.result(val1, l, scored(l, 1))
	if f.champion() != "" {
		t.Fatal("a bare word moved the seat")
	}
	b, err := f.Board(bg, "demo")
	must(t, err)
	if b.Decisions[0].Rule != incentive.UnattestedRule {
		t.Errorf("rule %q", b.Decisions[0].Rule)
	}
}

// exemptKind cannot be judged again.
type exemptKind struct{ fakeKind }

func (*exemptKind) Rejudging() kind.Rejudging { return kind.Rejudging{Exempt: "it samples"} }

func TestExemptKind(t *testing.T) {
	f := strangers(t, 1, 1, func(c *Config, _ *agon.Arena) { c.Kinds["fake"] = &exemptKind{} })
	f.judgeClaim(val2)
	s := f.submit(miner1, "agent")
	f.play(val1, 1)
	if f.champion() != s.ID || f.judgeClaim(val2) != nil {
		t.Error("a kind that is exempt was judged again")
	}
}

// The share is bounded by the day's budget.
func TestRejudgeBudget(t *testing.T) {
	f := strangers(t, 8, 1, func(_ *Config, a *agon.Arena) { a.RejudgePerDay = 3 })
	f.judgeClaim(val2)
	f.submit(miner1, "agent")
	for range 8 {
		f.play(val1, 0)
	}
	n := 0
	for f.judgeClaim(val2) != nil {
		n++
		if n > 3 {
			t.Fatal("more than the day's judgings")
		}
	}
	if n != 3 {
		t.Errorf("%d judgings, want 3", n)
	}
}

// Three validators, one lies on 5 % of its runs, upwards or by faults that it
// invents, a share of 10 %: it is named within 500 of its runs in at least 90 %
// of simulations of either sort, its lies decide no seat, and nobody else is named.
func TestLiarIsNamed(t *testing.T) {
	const runs, batch = 500, 25
	sims := 40
	if race {
		sims = 4 // make figures plays all
	}
	for _, down := range []bool{false, true} {
		named := 0
		for sim := range sims {
			if oneLiar(t, uint64(sim), runs, batch, down) {
				named++
			}
		}
		if named*10 < sims*9 {
			t.Errorf("downwards %t: the liar was named in %d of %d simulations", down, named, sims)
		}
		t.Logf("downwards %t: named in %d of %d", down, named, sims)
	}
}

// TestLiarRule is the same by the rule alone, many times.
func TestLiarRule(t *testing.T) {
	const sims = 20_000
	named, excluded := 0, 0
	for sim := range sims {
		r := rand.New(rand.NewPCG(uint64(sim), 7))
		w := score.Word{}
		share := agon.DefaultRejudge
		for range 500 {
			lie := r.Float64() < 0.05
			if r.Float64() >= share {
				continue
			}
			w.Judged++
			if lie {
				w.Contradicted++
				share = agon.DefaultRejudge * suspectShare
			}
		}
		if w.Contradicted > 0 {
			named++
		}
		if score.Stands(w) < score.StandingBar {
			excluded++
		}
	}
	if named*10 < sims*9 {
		t.Errorf("named in %d of %d", named, sims)
	}
	t.Logf("named %.1f %%, excluded %.1f %%", 100*float64(named)/sims, 100*float64(excluded)/sims)
}

// oneLiar plays a simulation: val1 lies on 5 % of its runs, val2 and val3 are
// honest. Upwards, every agent is worth nothing, so that each seat is a lie's;
// downwards, every agent is worth all, so that only the first may sit, and who
// else takes a seat does so by a lie. It reports whether val1 was named within runs of its own.
func oneLiar(t *testing.T, seed uint64, runs, batch int, down bool) bool {
	honest, sits := 0.0, ""
	if down {
		honest = 1
	}
	r := rand.New(rand.NewPCG(seed, 3))
	f := strangers(t, batch, agon.DefaultRejudge, func(c *Config, _ *agon.Arena) { c.Draw = rand.New(rand.NewPCG(seed, 5)).Float64 })
	vals := []string{val1, val2, val3}
	for n, entry := 0, 0; n < runs; entry++ {
		f.judgeClaim(val2)
		f.judgeClaim(val3)
		for _, v := range vals[1:] {
			if f.claim(v) != nil { // it is seen from now on
				t.Fatalf("simulation %d: something was left to play", seed)
			}
		}
		s := f.submit([]string{miner1, miner2}[entry%2], fmt.Sprintf("agent %d", entry))
		if down && entry == 0 {
			sits = s.ID
		}
		for range batch {
			switch lie := r.Float64() < 0.05; {
			case lie && down:
				f.blame(val1)
			case lie:
				f.play(val1, 1)
			default:
				f.play(val1, honest)
			}
			n++
		}
		for busy := true; busy; {
			busy = false
			for _, v := range vals[1:] {
				if l := f.judgeClaim(v); l != nil {
					f.judgeAs(v, l, honest)
					busy = true
				}
				if l := f.claim(v); l != nil {
					f.result(v, l, f.attest(v, l, scored(l, honest)))
					busy = true
				}
			}
		}
		if got := f.champion(); got != sits {
			t.Fatalf("simulation %d, downwards %t: a lie took the seat: %q sits, want %q", seed, down, got, sits)
		}
		f.clock.add(25 * time.Hour) // the miners' quota
		for _, v := range vals[1:] {
			if s := f.standing(v); s.Named {
				t.Fatalf("simulation %d: an honest validator is named: %+v", seed, s)
			}
		}
		if f.standing(val1).Named {
			return true
		}
	}
	return false
}
