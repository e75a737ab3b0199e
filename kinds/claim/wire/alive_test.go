package wire

import (
	"testing"
	"time"
)

// Batches are for the validators that are there: who has asked lately, or answers at its
// address. One that has died costs nobody its grace, and is asked again once it is back.
func TestLiveValidators(t *testing.T) {
	w := newWorld(t)
	w.cfg.Driver = Driver{Key: w.keys['o'], Private: true}
	p, h, err := NewPlatform(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.h = h
	nothing := func(string, string) []byte { return nil }
	quiet := w.validator('e', 11, nothing, func(Pair) Result { return Result{} })
	dead := w.validator('f', 12, nothing, func(Pair) Result { return Result{} })
	deliveries := func() map[int]bool {
		t.Helper()
		d, _, err := p.begin(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		out := map[int]bool{}
		if d != nil {
			for _, v := range d.Deliveries {
				out[v.UID] = true
			}
		}
		return out
	}
	dead.srv.Close()
	if got := deliveries(); !got[11] || !got[12] {
		t.Errorf("heard of a moment ago: %v", got)
	}
	w.later(liveFor + time.Minute)
	if got := deliveries(); !got[11] || got[12] {
		t.Errorf("one is silent and answers, one is dead: %v", got)
	}
	// It asks for something: it is back.
	send(t, w.h, w.keys['f'], "GET", "/v1/weights", "")
	if got := deliveries(); !got[12] {
		t.Errorf("it has asked: %v", got)
	}
	if p, w.h, err = NewPlatform(w.cfg); err != nil { // another server
		t.Fatal(err)
	}
	if got := deliveries(); !got[12] {
		t.Errorf("it has asked the server before: %v", got)
	}
	w.later(liveFor + time.Minute)
	quiet.srv.Close()
	if got := deliveries(); len(got) != 0 {
		t.Errorf("nobody is there: %v", got)
	}
}
