package platform

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// watchLine returns a function that blocks until n claims wait in line.
func (f *fixture) watchLine() func(n int) {
	lengths := make(chan int, 1000)
	f.waiters.watch = func(n int) { lengths <- n }
	return func(want int) {
		f.t.Helper()
		deadline := time.After(10 * time.Second)
		for {
			select {
			case n := <-lengths:
				if n == want {
					return
				}
			case <-deadline:
				f.t.Fatalf("never %d in line", want)
			}
		}
	}
}

func (f *fixture) longClaim(v string) chan *client.Lease {
	ch := make(chan *client.Lease, 1)
	go func() {
		l, err := f.Claim(bg, Caller{Hotkey: v}, client.ClaimRequest{Kinds: []string{"fake"}, WaitMS: 15_000})
		if err != nil {
			f.t.Errorf("claim: %v", err)
		}
		ch <- l
	}()
	return ch
}

func receive(t *testing.T, what string, ch chan *client.Lease) *client.Lease {
	t.Helper()
	select {
	case l := <-ch:
		return l
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: nobody woke", what)
		return nil
	}
}

func TestLongPoll(t *testing.T) {
	t.Run("a submission wakes one claim for each run", func(t *testing.T) {
		f := newFixture(t, 2)
		line := f.watchLine()
		a, b, c := f.longClaim(val1), f.longClaim(val2), f.longClaim(val3)
		line(3)
		f.submit(miner1, "x")
		line(1)
		f.submit(miner2, "y")
		for _, ch := range []chan *client.Lease{a, b, c} {
			if receive(t, "submission", ch) == nil {
				t.Error("woke without a run")
			}
		}
	})
	t.Run("a result frees the cap", func(t *testing.T) {
		f := newFixture(t, 2, func(_ *Config, a *agon.Arena) { a.MaxLeases = 1 })
		line := f.watchLine()
		f.submit(miner1, "x")
		l := f.claim(val1)
		ch := f.longClaim(val1)
		line(1)
		f.result(val1, l, scored(l, 1))
		if receive(t, "cap", ch) == nil {
			t.Error("no run")
		}
	})
	t.Run("news passes to who may have it", func(t *testing.T) {
		f := newFixture(t, 1)
		line := f.watchLine()
		f.submit(miner1, "x")
		l := f.claim(val1)
		loser := f.longClaim(val1)
		line(1)
		other := f.longClaim(val2)
		line(2)
		f.result(val1, l, failedBy(l, agon.FaultTask))
		if got := receive(t, "other", other); got == nil || got.Run.Run != l.Run.Run || got.Attempt != 2 {
			t.Errorf("other got %+v", got)
		}
		f.submit(miner2, "y")
		if receive(t, "loser", loser) == nil {
			t.Error("the loser gets no other run")
		}
	})
	t.Run("the loser gets it back when the other is gone", func(t *testing.T) {
		f := newFixture(t, 1)
		line := f.watchLine()
		if f.claim(val2) != nil { // seen once
			t.Fatal("a run from nowhere")
		}
		f.submit(miner1, "x")
		l := f.claim(val1)
		f.result(val1, l, failedBy(l, agon.FaultTask))
		ch := f.longClaim(val1)
		line(1)
		f.sweepAfter(91 * time.Second)
		if got := receive(t, "loser", ch); got == nil || got.Attempt != 2 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("nothing comes", func(t *testing.T) {
		f := newFixture(t, 1)
		if l := f.claim(val1); l != nil {
			t.Errorf("got %+v", l)
		}
		ctx, cancel := context.WithCancel(bg)
		cancel()
		_, err := f.Claim(ctx, Caller{Hotkey: val1}, client.ClaimRequest{Kinds: []string{"fake"}, WaitMS: 10_000})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if len(f.waiters.line) != 0 {
			t.Error("somebody still waits")
		}
	})
}

func TestWait(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	l := f.claim(val1)
	done := make(chan error, 2)
	for _, id := range []string{l.Run.Run, ""} {
		go func() { done <- f.Wait(bg, id) }()
	}
	for heard := 0; heard < 2; {
		select {
		case err := <-done:
			must(t, err)
			heard++
		default:
			f.beat(l, client.Heartbeat{State: agon.RunPlaying}) // until both have come to wait
		}
	}
	// A change just before the wait is heard by its echo.
	f.beat(l, client.Heartbeat{State: agon.RunJudging})
	ctx, cancel := context.WithTimeout(bg, 10*time.Second)
	defer cancel()
	must(t, f.Wait(ctx, l.Run.Run))
	gone, cancel := context.WithCancel(bg)
	cancel()
	if err := f.Wait(gone, "other"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if len(f.hub.topic) != 0 {
		t.Errorf("topics left: %v", f.hub.topic)
	}
}

// TestAbandonedIsClaimedAgain: with the real clock and sweeper a run whose
// holder fell silent is with the next validator within a second of the lease's
// end. A loaded machine may need a second try, not a third.
func TestAbandonedIsClaimedAgain(t *testing.T) {
	const lease = 300 * time.Millisecond
	late := []time.Duration{}
	for range 3 {
		f := newFixture(t, 1, func(c *Config, _ *agon.Arena) { c.Now, c.Lease, c.Heartbeat = time.Now, lease, lease/3 })
		must(t, f.Start(bg))
		f.submit(miner1, "x")
		first := f.claim(val1)
		second := receive(t, "the abandoned run", f.longClaim(val2))
		took := time.Since(first.Until)
		if second == nil || second.Run.Run != first.Run.Run || second.Attempt != 2 {
			t.Fatalf("claimed %+v after %+v", second, first)
		}
		if took < 0 {
			t.Fatalf("claimed again %v before the lease ended", -took)
		}
		f.Stop()
		if late = append(late, took); took <= time.Second {
			return
		}
	}
	t.Errorf("claimed again %v after the leases ended", late)
}
