package platform

import (
	"slices"
	"testing"
	"time"
)

// The pace is the mean time between ends lately; old ends and too few say nothing.
func TestPace(t *testing.T) {
	now := time.Unix(100_000, 0)
	at := func(list ...int) (out []time.Time) {
		for _, s := range list {
			out = append(out, now.Add(-time.Duration(s)*time.Second))
		}
		return out
	}
	for _, c := range []struct {
		ends []time.Time
		want time.Duration
	}{
		{nil, 0},
		{at(10, 20), 0},
		{at(10, 50, 30), 20 * time.Second},
		{at(10, 50, 30, 9000, -60), 20 * time.Second},
		{at(5, 5, 5), 0},
	} {
		if got := paceFrom(c.ends, now); got != c.want {
			t.Errorf("%v: %v, want %v", c.ends, got, c.want)
		}
	}
}

// A validator goes round the arenas: the long queue of one holds up no other, and
// within an arena the oldest submission is first.
func TestClaimsGoRound(t *testing.T) {
	f := newFixture(t, 2)
	second := f.arena
	second.ID = "second"
	must(t, f.EnsureArena(bg, second))
	for _, content := range []string{"a = 1", "b = 2"} {
		f.submit(miner1, content)
	}
	_, err := f.Submit(bg, Caller{Hotkey: miner2}, "second", request("c = 3"))
	must(t, err)
	var got []string
	for range 3 {
		l := f.claim(val1)
		if l == nil {
			t.Fatalf("after %v nothing waits", got)
		}
		got = append(got, l.Arena.ID)
	}
	if want := []string{"demo", "second", "demo"}; !slices.Equal(got, want) {
		t.Errorf("claimed of %v, want %v", got, want)
	}
	if l := f.claim(val1); l == nil || l.Arena.ID != "second" {
		t.Errorf("with two leases of demo and one of second: %v", l)
	}
	if l := f.claim(val2); l == nil || l.Arena.ID != "demo" {
		t.Errorf("a validator without a lease: %v, want the oldest submission's", l)
	}
}

// A validator with one box goes round as well: it takes no second run of an arena
// while an entry of another waits.
func TestOneBoxGoesRound(t *testing.T) {
	f := newFixture(t, 2)
	for _, id := range []string{"second", "third"} {
		a := f.arena
		a.ID = id
		must(t, f.EnsureArena(bg, a))
	}
	f.submit(miner1, "a = 1")
	f.submit(miner1, "b = 2")
	_, err := f.Submit(bg, Caller{Hotkey: miner2}, "second", request("c = 3"))
	must(t, err)
	var got []string
	play := func() {
		t.Helper()
		got = append(got, f.play(val1, 0.5).Arena.ID)
	}
	play()
	_, err = f.Submit(bg, Caller{Hotkey: miner2}, "third", request("d = 4"))
	must(t, err)
	play()
	play()
	play()
	if want := []string{"demo", "second", "third", "demo"}; !slices.Equal(got, want) {
		t.Errorf("played of %v, want %v", got, want)
	}
}
