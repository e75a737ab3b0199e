package platform

import (
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// TestKeptRun: a run whose validator keeps what it had come to waits for that one, for
// a while and three times at most, and uses up no retry.
func TestKeptRun(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	keeps := func() {
		t.Helper()
		l := f.claim(val1)
		if l == nil {
			t.Fatal("its validator does not get it back")
		}
		r := failedBy(l, agon.FaultValidator)
		r.Outcome = client.OutcomeKept
		f.result(val1, l, r)
	}
	for range 3 {
		keeps()
		if other := f.claim(val2); other != nil {
			t.Fatal("another validator has it")
		}
	}
	if keeps(); f.claim(val2) == nil {
		t.Fatal("a validator that keeps it time and again holds it")
	}
}

// A validator that does not come back holds what it keeps for a while only.
func TestKeptRunOfOneThatIsGone(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	l := f.claim(val1)
	r := failedBy(l, agon.FaultValidator)
	r.Outcome = client.OutcomeKept
	f.result(val1, l, r)
	f.clock.add(client.KeptFor - time.Second)
	if f.claim(val2) != nil {
		t.Fatal("another validator has it too early")
	}
	f.clock.add(2 * time.Second)
	if l = f.claim(val2); l == nil {
		t.Fatal("it waits for its validator without end")
	}
	if r := f.result(val2, l, scored(l, 1)); !r.Counted {
		t.Fatalf("result: %+v", r)
	}
	checkInvariants(t, f.cfg.Store)
}
