package problem

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Races of a bank on a clock that the test sets: nothing of a race is shown
// before it closes, what was played counts, what is used up retires.
func TestTurn(t *testing.T) {
	public := generate(t, Config{Seed: 1, Label: "public", Counts: Suite(3, false), Pools: 2})
	hidden := generate(t, Config{Seed: 2, Label: "hidden", Counts: Suite(9, false), Pools: 2, Pool: 1})
	b, err := NewBank(Policy{MaxExposures: 2}, public, hidden)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 3, 1, 19, 0, 0, 0, time.UTC)
	daily := Schedule{Every: 24 * time.Hour, Count: 6}
	nobody := func(Race) (map[string][]string, error) { return nil, errors.New("asked before the race closes") }
	everything := func(r Race) (map[string][]string, error) {
		return map[string][]string{"a": r.Problems, "b": r.Problems[:1]}, nil
	}
	one, err := b.Turn(start, daily, nobody)
	if err != nil || !one.Changed || one.Race.ID != "race-0001" || len(one.Race.Problems) != 6 || !one.Race.Closes.Equal(start.Add(24*time.Hour)) {
		t.Fatalf("%v, %+v", err, one)
	}
	// Until the last second nothing changes and nothing is shown, also after a restart.
	path := filepath.Join(t.TempDir(), "bank.json")
	if err := b.Save(path); err != nil {
		t.Fatal(err)
	}
	if b, err = LoadBank(path); err != nil {
		t.Fatal(err)
	}
	same, err := b.Turn(start.Add(24*time.Hour-time.Second), daily, nobody)
	if err != nil || same.Changed || same.Race.ID != "race-0001" {
		t.Fatalf("%v, %+v", err, same)
	}
	for _, p := range hidden {
		if _, err := b.Shown(p.ProblemID); !errors.Is(err, ErrHidden) {
			t.Errorf("%s is shown before the race closes", p.ProblemID)
		}
	}
	// Away for two and a half races: one opens, and it ends on the beat.
	two, err := b.Turn(start.Add(60*time.Hour), daily, everything)
	worn := one.Race.Problems[0]
	if err != nil || two.Closed != "race-0001" || !slices.Equal(two.Retired, []string{worn}) || two.Race.ID != "race-0002" || !two.Race.Closes.Equal(start.Add(72*time.Hour)) {
		t.Fatalf("%v, %+v", err, two)
	}
	if _, err := b.Shown(worn); err != nil {
		t.Errorf("a retired problem is hidden: %v", err)
	}
	if slices.Contains(two.Race.Problems, worn) || b.Entries[one.Race.Problems[1]].Exposures != 1 {
		t.Errorf("%v, %+v", two.Race.Problems, b.Entries[one.Race.Problems[1]])
	}
	fresh := 0
	for _, id := range two.Race.Problems {
		if !slices.Contains(one.Race.Problems, id) {
			fresh++
		}
	}
	if fresh != 3 {
		t.Errorf("%d of the 3 problems that nobody has seen are drawn", fresh)
	}
	// In the end nothing is left: the last race is closed and no other opens.
	at, last := two.Race.Closes, Turned{}
	for range 10 {
		if last, err = b.Turn(at, daily, func(r Race) (map[string][]string, error) {
			return map[string][]string{"x": r.Problems, "y": r.Problems}, nil
		}); err != nil {
			break
		}
		at = last.Race.Closes
	}
	if !Exhausted(err) || last.Closed == "" || last.Race.ID != "" || b.Left() != 0 || b.timed() != nil {
		t.Errorf("%v, %+v, %d left", err, last, b.Left())
	}
	if err := b.check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Schedule{{}, {Every: time.Hour}, {Every: time.Millisecond, Count: 1}} {
		if _, err := b.Turn(at, bad, nobody); err == nil || Exhausted(err) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	// The tasks of a race have the names that WriteTasks gives them.
	tasks, err := b.Tasks("race-0002")
	if err != nil {
		t.Fatal(err)
	}
	list, err := b.Racing("race-0002")
	if err != nil {
		t.Fatal(err)
	}
	names, err := WriteTasks(filepath.Join(t.TempDir(), "r"), "test", list)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range tasks {
		if x.Name != names[i] || x.Problem.ProblemID != two.Race.Problems[i] {
			t.Errorf("%s %s, want %s %s", x.Name, x.Problem.ProblemID, names[i], two.Race.Problems[i])
		}
	}
}
