package platform

import (
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// TestKeptRun: a run whose validator keeps what it had come to waits for that one, for
// a while, and uses up no retry.
func TestKeptRun(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	for range 4 {
		l := f.claim(val1)
		if l == nil {
			t.Fatal("its validator does not get it back")
		}
		r := failedBy(l, agon.FaultValidator)
		r.Outcome = client.OutcomeKept
		f.result(val1, l, r)
		if other := f.claim(val2); other != nil {
			t.Fatal("another validator has it")
		}
	}
	f.clock.add(client.KeptFor - time.Second)
	if other := f.claim(val2); other != nil {
		t.Fatal("another validator has it too early")
	}
	f.clock.add(2 * time.Second)
	l := f.claim(val2)
	if l == nil {
		t.Fatal("it waits for its validator without end")
	}
	if r := f.result(val2, l, scored(l, 1)); !r.Counted {
		t.Fatalf("result: %+v", r)
	}
	checkInvariants(t, f.cfg.Store)
}
