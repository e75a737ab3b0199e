package platform

import (
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// blame has a validator say that the agent was at fault in the next run.
func (f *fixture) blame(validator string) *client.Lease {
	f.t.Helper()
	l := f.claim(validator)
	if l == nil {
		f.t.Fatalf("nothing for %s to play", validator)
		return nil
	}
	f.result(validator, l, client.Result{Token: l.Token, Outcome: "crashed", Fault: agon.FaultAgent, Reason: "it crashed", Driver: agon.Driver{Name: "runc"}})
	return l
}

// here has validators ask for work, so that they count as there.
func (f *fixture) here(validators ...string) {
	f.t.Helper()
	for _, v := range validators {
		if f.claim(v) != nil {
			f.t.Fatalf("something waits for %s", v)
		}
		f.judgeClaim(v)
	}
}

// counting is the score of a submission that counts.
func (f *fixture) counting(submission string) float64 {
	f.t.Helper()
	s, err := f.Submission(bg, Caller{}, submission)
	must(f.t, err)
	if s.Score == nil {
		f.t.Fatalf("submission %s has no score: %s %+v", submission, s.State, s.Findings)
	}
	return *s.Score
}

// A fault that keeps a submission from a seat is played again by another
// validator, and settled by a third where the agent scores.
func TestFaultIsPlayedAgain(t *testing.T) {
	for _, c := range []struct {
		name          string
		second, third float64 // below 0: the agent's fault
		played        int
		score         float64
		against       string
	}{
		{"the agent crashes", -1, 0, 1, 0, ""},
		{"it solves nothing there either", 0, 0, 1, 0, ""},
		{"invented", 1, 0.8, 2, 0.8, val1},
		{"the second is alone with it", 1, -1, 2, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := strangers(t, 1, 0)
			f.here(val2, val3)
			s := f.submit(miner1, "agent")
			first := f.blame(val1)
			if f.claim(val1) != nil {
				t.Fatal("a validator plays its own fault again")
			}
			for i, v := range []string{val2, val3}[:c.played] {
				if x, err := f.Submission(bg, Caller{}, s.ID); err != nil || decided(x) {
					t.Fatalf("decided before it was played again: %v", err)
				}
				if value := []float64{c.second, c.third}[i]; value < 0 {
					f.blame(v)
				} else {
					l := f.play(v, value)
					if l.Run.Seed != first.Run.Seed || l.Run.Run == first.Run.Run {
						t.Error("it is not the same play once more")
					}
				}
				if f.claim(v) != nil {
					t.Fatal("the same validator plays it twice")
				}
			}
			for _, v := range []string{val3, val2} { // what earned counts only after it is judged like all others
				if l := f.judgeClaim(v); l != nil {
					t.Fatalf("a fault is offered to judge: %+v", l.Run)
				}
			}
			if got := f.counting(s.ID); got != c.score {
				t.Errorf("score %v, want %v", got, c.score)
			}
			if got := f.champion(); (got == s.ID) != (c.score > 0) {
				t.Errorf("champion %q", got)
			}
			for _, v := range []string{val1, val2, val3} {
				if x := f.standing(v); (x.Contradicted == 1) != (v == c.against) || len(x.Cases) != int(x.Contradicted) {
					t.Errorf("%s: %+v", v, x)
				}
			}
			list, err := f.Judgings(bg, Caller{}, first.Run.Run)
			must(t, err)
			if len(list) != c.played || list[0].Why != agon.JudgeFault || list[0].Validator != val2 || list[0].Player != val1 {
				t.Errorf("on record: %+v", list)
			}
			f.read(func(tx *store.Tx) error { // the first word stays on record
				l, err := tx.Scores(first.Run.Run)
				if err == nil && l[0].Value != 0 {
					t.Errorf("the first result is gone: %+v", l)
				}
				return err
			})
		})
	}
}

// A share of faults is played again, seat or not, while the other runs go on.
func TestFaultIsDrawn(t *testing.T) {
	f := strangers(t, 3, 1, func(_ *Config, a *agon.Arena) { a.UnjudgedSeats, a.RejudgePerDay = true, 1 })
	f.here(val2, val3)
	s := f.submit(miner1, "agent")
	f.blame(val1)
	f.blame(val1) // beyond the day's budget
	f.play(val2, 1)
	if f.champion() != "" {
		t.Fatal("decided while a fault is played again")
	}
	n := 0
	for _, v := range []string{val2, val3, val2, val3} {
		if l := f.claim(v); l != nil {
			n++
			f.result(v, l, f.attest(v, l, scored(l, 1)))
		}
		for l := f.judgeClaim(v); l != nil; l = f.judgeClaim(v) {
			f.judgeAs(v, l, 1)
		}
	}
	f.judgeClaim(val1)
	if n != 2 {
		t.Errorf("%d plays, want a second and a third", n)
	}
	if got := f.counting(s.ID); got < 0.66 || got > 0.67 {
		t.Errorf("score %v, want 2 of 3", got)
	}
}

// An agent that crashes elsewhere too is not a case against who saw it crash.
func TestCrashByChanceIsNoCase(t *testing.T) {
	f := strangers(t, 2, 0)
	f.here(val2, val3)
	s := f.submit(miner1, "agent")
	f.blame(val1)
	f.blame(val2)
	for range 4 {
		for _, v := range []string{val3, val1, val2} {
			if l := f.claim(v); l != nil {
				f.result(v, l, f.attest(v, l, scored(l, 1)))
			}
		}
	}
	for _, v := range []string{val1, val2, val3} {
		if x := f.standing(v); x.Contradicted != 0 {
			t.Errorf("%s is named for a crash by chance: %+v", v, x)
		}
	}
	if got := f.counting(s.ID); got != 1 {
		t.Errorf("score %v: what two others saw does not count", got)
	}
}

// Who is alone, or left alone, waits for nobody.
func TestFaultWithNobodyElse(t *testing.T) {
	f := strangers(t, 1, 1)
	s := f.submit(miner1, "agent")
	f.blame(val1)
	if got := f.counting(s.ID); got != 0 {
		t.Errorf("score %v", got)
	}
	f.here(val2)
	later := f.submit(miner1, "another")
	f.blame(val1)
	if x, err := f.Submission(bg, Caller{}, later.ID); err != nil || decided(x) {
		t.Fatalf("it is not played again: %v", err)
	}
	f.clock.add(2 * time.Minute)
	must(t, f.Sweep(bg))
	if x, err := f.Submission(bg, Caller{}, later.ID); err != nil || !decided(x) {
		t.Fatalf("a validator that is gone holds the decision up: %v", err)
	}
}

// Validators of one owner are not strangers to each other.
func TestReplayerIsAStranger(t *testing.T) {
	f := strangers(t, 1, 1)
	f.ledger.coldkey[val2] = "cold-v1" // one owner with val1
	f.ledger.coldkey[val3] = "cold-1"  // of the miner
	f.here(val2, val3)
	s := f.submit(miner1, "agent")
	f.blame(val1)
	for _, v := range []string{val1, val2, val3} {
		if f.claim(v) != nil {
			t.Errorf("%s plays it again", v)
		}
	}
	if x, err := f.Submission(bg, Caller{}, s.ID); err != nil || !decided(x) {
		t.Errorf("the decision waits for those who may not play it: %v", err)
	}
}

func decided(s *client.Submission) bool {
	return s.State == agon.SubmissionScored || s.State == agon.SubmissionExcluded
}
