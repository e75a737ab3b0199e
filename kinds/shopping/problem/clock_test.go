package problem

import (
	"slices"
	"testing"
	"time"
)

// A race is drawn once, notes who has seen what when it ends, and retires what
// the policy calls used up; all of it may be done again.
func TestOpenAndEnd(t *testing.T) {
	hidden := generate(t, Config{Seed: 2, Label: "hidden", Counts: Suite(4, false), Pools: 2, Pool: 1})
	b, err := NewBank(Policy{MaxExposures: 1}, nil, hidden)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r, err := b.Open("arena-0-aa", 2, now)
	if err != nil || len(r.Problems) != 2 || !r.Opened.Equal(now) {
		t.Fatalf("%+v %v", r, err)
	}
	if again, err := b.Open("arena-0-aa", 2, now.Add(time.Hour)); err != nil || !slices.Equal(again.Problems, r.Problems) || b.Left() != 2 {
		t.Fatalf("%+v %v, %d left", again, err, b.Left())
	}
	if _, err := b.Open("arena-1-bb", 3, now); err == nil {
		t.Error("three problems of two")
	}
	for range 2 {
		retired, err := b.End("arena-0-aa", map[string][]string{r.Problems[0]: {"s1"}})
		if err != nil || len(retired) != 1 || retired[0] != r.Problems[0] {
			t.Fatalf("retired %v, %v", retired, err)
		}
	}
	if b.Left() != 3 {
		t.Errorf("%d left", b.Left())
	}
	if last, err := b.LastRace("arena-0-"); err != nil || last.ID != "arena-0-aa" {
		t.Errorf("%+v %v", last, err)
	}
	for _, p := range []string{"arena-1-", "arena-0-aa"} {
		if _, err := b.LastRace(p); err == nil {
			t.Errorf("there is a race of %s", p)
		}
	}
	if _, err := b.End("other", nil); err == nil {
		t.Error("a race that is not there ends")
	}
}
