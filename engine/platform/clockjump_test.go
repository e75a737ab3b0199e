package platform

import (
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// A clock that goes forward takes no lease from a holder that is alive, and one
// that goes back lets no dead one hold its run for as long as it went.
func TestClockMovesUnderLeases(t *testing.T) {
	for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute, -400 * 24 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			f := newFixture(t, 2)
			f.submit(miner1, "x")
			alive, dead := f.claim(val1), f.claim(val1)
			last := f.now()
			f.clock.add(by)
			must(t, f.clockMoved(bg, last))
			must(t, f.Sweep(bg))
			f.clock.add(f.cfg.Lease / 2)
			if f.beat(alive, client.Heartbeat{State: agon.RunPlaying}).Cancel {
				t.Fatal("a holder that is alive lost its lease")
			}
			f.sweepAfter(f.cfg.Lease/2 + time.Second)
			if r := f.result(val1, alive, scored(alive, 1)); !r.Counted {
				t.Error("its result does not count")
			}
			if r := f.run(dead.Run.Run); r.State != agon.RunQueued {
				t.Errorf("the dead holder's run: %s", r.State)
			}
			checkInvariants(t, f.cfg.Store)
		})
	}
}

// A round that comes a little late moves nothing.
func TestClockStands(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	l := f.claim(val1)
	last := f.now()
	f.clock.add(f.cfg.Lease / 2)
	must(t, f.clockMoved(bg, last))
	f.sweepAfter(f.cfg.Lease/2 + time.Second)
	if r := f.run(l.Run.Run); r.State != agon.RunQueued {
		t.Errorf("a silent holder keeps its run: %s", r.State)
	}
}

// A period whose secret is public serves no more when the clock goes back into it.
func TestClockGoesBackIntoAnEndedPeriod(t *testing.T) {
	f := newFixture(t, 1)
	first := f.submit(miner1, "x")
	f.clock.add(DefaultPeriod)
	must(t, f.periods(bg))
	f.clock.add(-DefaultPeriod)
	var n int
	for i, m := range []string{miner2, miner1} {
		s := f.submit(m, "y"+string(rune('0'+i)))
		if s.Beacon.Period == first.Beacon.Period {
			t.Fatal("seeds come of a secret that is public")
		}
		list, err := f.Seeds(bg, "demo")
		must(t, err)
		for _, p := range list {
			if p.Period == s.Beacon.Period && p.Secret != "" {
				t.Fatalf("period %d is public: %+v", p.Period, p)
			}
		}
		if i == 0 {
			n = len(list)
		} else if len(list) != n {
			t.Errorf("each submission begins periods: %d, then %d", n, len(list))
		}
	}
	f.clock.add(DefaultPeriod + time.Hour)
	must(t, f.periods(bg))
	if s := f.submit(miner2, "z"); s.Beacon.Period != first.Beacon.Period+1 {
		t.Errorf("period %d when the clock is where it was", s.Beacon.Period)
	}
}

// Requests whose nonces were forgotten while the clock was ahead are not new when
// it comes back; what is signed after that is.
func TestClockGoesBackBeforeForgottenNonces(t *testing.T) {
	f := newFixture(t, 1)
	use := func(nonce string, until time.Time) (fresh bool) {
		must(t, f.cfg.Store.Write(bg, func(tx *store.Tx) (err error) {
			fresh, err = tx.UseNonce("agon-v1", "5key", nonce, until)
			return err
		}))
		return fresh
	}
	until := f.now().Add(time.Minute)
	if !use("a", until) || use("a", until) {
		t.Fatal("a nonce is used once")
	}
	f.clock.add(365 * 24 * time.Hour)
	must(t, f.purge(bg))
	must(t, f.purge(bg))
	f.clock.add(-365 * 24 * time.Hour)
	if use("a", until) {
		t.Error("a forgotten request counts again")
	}
	if !use("b", until.Add(time.Second)) {
		t.Error("a request signed later is refused")
	}
}
