package platform

import (
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// A held arena plays nothing: what is under way goes back into the queue at no
// retry, the holder must stop and its late result does not count, waiting claims
// get nothing, and the queue outlasts the hold.
func TestHold(t *testing.T) {
	f := newFixture(t, 2, func(c *Config, _ *agon.Arena) { c.SweepEvery = time.Hour }) // this test sweeps itself
	line := f.watchLine()
	op := Caller{Hotkey: operator, Operator: true}
	f.submit(miner1, "x")
	f.submit(miner2, "y")
	l := f.claim(val1)
	f.beat(l, client.Heartbeat{State: agon.RunPlaying})
	f.playAll(val2, func(*client.Lease) float64 { return 1 })
	waits := f.longClaim(val3)
	line(1)
	wantCode(t, f.SetArenaState(bg, Caller{Hotkey: miner1}, "demo", agon.ArenaHeld, ""), 403, "not_operator")
	must(t, f.SetArenaState(bg, op, "demo", agon.ArenaHeld, "the provider bills twice"))
	if r := f.run(l.Run.Run); r.State != agon.RunQueued || r.Fault != agon.FaultPlatform {
		t.Errorf("%+v", r)
	}
	if r, err := f.Heartbeat(bg, Caller{Hotkey: val1}, l.ID, client.Heartbeat{Token: l.Token, State: agon.RunPlaying}); err != nil || !r.Cancel {
		t.Errorf("its holder plays on: %+v, %v", r, err)
	}
	if r := f.result(val1, l, scored(l, 1)); r.Counted || r.State != agon.RunQueued {
		t.Errorf("a result of before counts: %+v", r)
	}
	if l := f.claim(val1); l != nil {
		t.Errorf("leased: %+v", l.Run)
	}
	_, err := f.Submit(bg, Caller{Hotkey: miner1}, "demo", request("z"))
	wantCode(t, err, 409, "arena_held")
	// Longer than a run may wait elsewhere, over a restart's reopening too.
	f.sweepAfter(10 * f.cfg.QueueFor)
	must(t, f.SetArenaState(bg, op, "demo", agon.ArenaHeld, "again"))
	f.sweepAfter(10 * f.cfg.QueueFor)
	if r := f.run(l.Run.Run); r.State != agon.RunQueued {
		t.Fatalf("%+v", r)
	}
	must(t, f.SetArenaState(bg, op, "demo", agon.ArenaPaused, ""))
	if got := receive(t, "released", waits); got == nil || got.Run.Run != l.Run.Run {
		t.Fatalf("%+v", got)
	} else if r := f.run(l.Run.Run); r.Deadline.After(f.clock.Now().Add(f.cfg.QueueFor)) {
		t.Errorf("it waits until %v", r.Deadline)
	} else {
		f.result(val3, got, scored(got, 0.5))
	}
	if r := f.run(l.Run.Run); r.State != agon.RunScored {
		t.Errorf("%+v", r)
	}
}

// What is queued when a hold ends lapses as it would without one.
func TestHoldEnds(t *testing.T) {
	f := newFixture(t, 1, func(c *Config, _ *agon.Arena) { c.SweepEvery = time.Hour })
	op := Caller{Hotkey: operator, Operator: true}
	f.submit(miner1, "x")
	l := f.claim(val1)
	must(t, f.SetArenaState(bg, op, "demo", agon.ArenaHeld, ""))
	must(t, f.SetArenaState(bg, op, "demo", agon.ArenaOpen, ""))
	f.sweepAfter(f.cfg.QueueFor + time.Second)
	if r := f.run(l.Run.Run); r.State == agon.RunQueued {
		t.Errorf("it waits for ever: %+v", r)
	}
}

// Results of a held arena are not judged again until the arena is open.
func TestHoldOfJudgings(t *testing.T) {
	f := strangers(t, 1, 1)
	op := Caller{Hotkey: operator, Operator: true}
	f.judgeClaim(val2)
	f.submit(miner1, "x")
	f.play(val1, 1)
	must(t, f.SetArenaState(bg, op, "demo", agon.ArenaHeld, ""))
	for range 4 {
		f.clock.add(f.cfg.QueueFor / 2)
		if l := f.judgeClaim(val2); l != nil {
			t.Errorf("to judge: %+v", l)
		}
		must(t, f.Sweep(bg))
	}
	must(t, f.SetArenaState(bg, op, "demo", agon.ArenaOpen, ""))
	f.judge(val2, 1)
}
