package platform

import (
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// TestRevive: the same files sent again replay what failed through us, and
// nothing that was scored.
func TestRevive(t *testing.T) {
	f := newFixture(t, 2)
	s := f.submit(miner1, "x")
	first := f.claim(val1)
	f.result(val1, first, scored(first, 0))
	for l := f.claim(val1); l != nil; l = f.claim(val1) {
		f.result(val1, l, failedBy(l, agon.FaultProvider))
	}
	got, err := f.Submission(bg, Caller{}, s.ID)
	must(t, err)
	if got.State != agon.SubmissionExcluded || got.Findings[len(got.Findings)-1].Code != FindingIncomplete {
		t.Fatalf("submission: %+v", got)
	}
	again := f.submit(miner1, "x")
	if again.ID != s.ID || again.Created || again.State != agon.SubmissionPlaying || len(again.Findings) != 1 {
		t.Fatalf("revived: %+v", again)
	}
	played := 0
	f.playAll(val1, func(l *client.Lease) float64 {
		played++
		if l.Run.Run == first.Run.Run {
			t.Error("a scored run is played again")
		}
		return 1
	})
	got, err = f.Submission(bg, Caller{}, s.ID)
	must(t, err)
	if played != 1 || got.State != agon.SubmissionScored || *got.Score != 0.5 || *got.Total != 2 {
		t.Fatalf("played %d, %+v", played, got)
	}
	checkInvariants(t, f.cfg.Store)
}

// TestReviveEnds: whoever makes a provider fail at will has two more tries, and
// then validators are left alone.
func TestReviveEnds(t *testing.T) {
	f := newFixture(t, 1)
	s := f.submit(miner1, "x")
	attempts := 0
	fail := func() {
		t.Helper()
		for l := f.claim(val1); l != nil; l = f.claim(val1) {
			attempts++
			f.result(val1, l, failedBy(l, agon.FaultProvider))
		}
		got, err := f.Submission(bg, Caller{}, s.ID)
		must(t, err)
		if got.State != agon.SubmissionExcluded {
			t.Fatalf("submission: %+v", got)
		}
	}
	fail()
	for range 2 {
		if again := f.submit(miner1, "x"); again.State != agon.SubmissionPlaying {
			t.Fatalf("not revived: %+v", again)
		}
		fail()
	}
	if attempts != 3*3 {
		t.Errorf("%d attempts of three runs with two retries each", attempts)
	}
	for range 3 {
		if again := f.submit(miner1, "x"); again.ID != s.ID || again.State != agon.SubmissionExcluded {
			t.Fatalf("revived for the third time: %+v", again)
		}
		if l := f.claim(val1); l != nil {
			t.Fatalf("played again: %+v", l.Run)
		}
	}
	checkInvariants(t, f.cfg.Store)
}

// TestMaxHold: one attempt is held for an hour, or for four times as long as all
// of its tasks may take where that is more, and never longer.
func TestMaxHold(t *testing.T) {
	for _, c := range []struct {
		name          string
		agent, grader time.Duration // of a task
		tasks, pairs  int
		want          time.Duration
	}{
		{"short tasks", 5 * time.Minute, 5 * time.Minute, 1, 0, time.Hour},
		{"no limits", 0, 0, 3, 0, time.Hour},
		{"nonsense", -time.Hour, -time.Hour, 3, 0, time.Hour},
		{"one long task", 20 * time.Minute, 10 * time.Minute, 1, 0, 2 * time.Hour},
		{"three tasks", 20 * time.Minute, 10 * time.Minute, 3, 0, 6 * time.Hour},
		{"a duel of two pairs plays each task four times", 20 * time.Minute, 10 * time.Minute, 1, 2, 8 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, 1)
			s := agon.RunSpec{Tasks: make([]agon.TaskRef, c.tasks)}
			s.Policy.Agent.WallMS, s.Policy.Grader.WallMS = c.agent.Milliseconds(), c.grader.Milliseconds()
			if c.pairs > 0 {
				s.Rival = &agon.Rival{Pairs: c.pairs}
			}
			if got := f.maxHold(s); got != c.want {
				t.Errorf("held for %v, want %v", got, c.want)
			}
		})
	}
}

// TestHeldTooLong: a holder that never stops its heartbeats loses the run when
// the longest hold is over, to the minute.
func TestHeldTooLong(t *testing.T) {
	f := newFixture(t, 1, func(_ *Config, a *agon.Arena) {
		a.Policy.Agent.WallMS, a.Policy.Grader.WallMS = (20 * time.Minute).Milliseconds(), (10 * time.Minute).Milliseconds()
	})
	f.submit(miner1, "x")
	l := f.claim(val1)
	start := f.clock.Now()
	for !f.beat(l, client.Heartbeat{}).Cancel {
		if f.clock.Now().Sub(start) > 3*time.Hour {
			t.Fatal("held for three hours")
		}
		f.sweepAfter(30 * time.Second)
	}
	if held := f.clock.Now().Sub(start); held < 2*time.Hour || held > 2*time.Hour+time.Minute {
		t.Errorf("held for %v, want two hours", held)
	}
	if r := f.run(l.Run.Run); r.State != agon.RunQueued || r.Fault != agon.FaultValidator {
		t.Errorf("run: %s %s", r.State, r.Fault)
	}
	checkInvariants(t, f.cfg.Store)
}

func TestCancelledIsNotRevived(t *testing.T) {
	f := newFixture(t, 1)
	s := f.submit(miner1, "x")
	l := f.claim(val1)
	wantCode(t, f.CancelRun(bg, Caller{Hotkey: val1}, l.Run.Run, ""), 403, "not_operator")
	must(t, f.CancelRun(bg, Caller{Operator: true}, l.Run.Run, "a leak"))
	wantCode(t, f.CancelRun(bg, Caller{Operator: true}, l.Run.Run, ""), 409, "bad_transition")
	wantCode(t, f.CancelRun(bg, Caller{Operator: true}, "x", ""), 404, "not_found")
	if !f.beat(l, client.Heartbeat{}).Cancel {
		t.Error("the holder is not told")
	}
	if r := f.result(val1, l, scored(l, 1)); r.Counted || !r.Late || r.State != agon.RunCancelled {
		t.Errorf("result of a cancelled run: %+v", r)
	}
	if again := f.submit(miner1, "x"); again.ID != s.ID || again.State != agon.SubmissionExcluded {
		t.Errorf("revived: %+v", again)
	}
	checkInvariants(t, f.cfg.Store)
}
