package agon

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Every state has an exit and a deadline, or is final; nothing leaves a final state.
func TestRunMachine(t *testing.T) {
	for _, s := range RunStates {
		exits := map[Actor]int{}
		for _, tr := range Transitions {
			if tr.From == s {
				exits[tr.By]++
				if tr.Why == "" {
					t.Errorf("%s to %s has no reason", tr.From, tr.To)
				}
			}
		}
		d, ok := StateDeadline(s, time.Minute, time.Hour)
		if s.Final() {
			if len(exits) > 0 || ok {
				t.Errorf("%s is final but has exits %v or a deadline", s, exits)
			}
			continue
		}
		if exits[ByScheduler] == 0 {
			t.Errorf("%s cannot be left without its holder", s)
		}
		if exits[ByOperator] == 0 {
			t.Errorf("an operator cannot cancel %s", s)
		}
		if !ok || d <= 0 {
			t.Errorf("%s has no deadline", s)
		}
	}
}

// Every cell of the machine, written out once more: who may move a run from the
// state of the row to the state of the column (s scheduler, h holder, o operator).
func TestTransitionCells(t *testing.T) {
	actors := map[rune]Actor{'s': ByScheduler, 'h': ByHolder, 'o': ByOperator}
	columns := []RunState{"queued", "leased", "playing", "judging", "scored", "failed", "cancelled"}
	cells := map[RunState][]string{
		//           queued leased playing judging scored failed cancelled
		"queued":    {"-", "s", "-", "-", "-", "s", "o"},
		"leased":    {"s", "-", "h", "-", "h", "s", "o"},
		"playing":   {"s", "-", "-", "h", "h", "s", "o"},
		"judging":   {"s", "-", "-", "-", "h", "s", "o"},
		"scored":    {"-", "-", "-", "-", "-", "-", "-"},
		"failed":    {"-", "-", "-", "-", "-", "-", "-"},
		"cancelled": {"-", "-", "-", "-", "-", "-", "-"},
	}
	if !slices.Equal(RunStates, columns) || len(cells) != len(columns) {
		t.Fatalf("states %v, want %v", RunStates, columns)
	}
	allowed := 0
	for from, row := range cells {
		for i, to := range columns {
			for letter, by := range actors {
				want := strings.ContainsRune(row[i], letter)
				if err := CheckTransition(from, to, by); (err == nil) != want {
					t.Errorf("%s to %s by %s: %v, want allowed %t", from, to, by, err, want)
				}
				if want {
					allowed++
				}
			}
		}
	}
	if len(Transitions) != allowed { // none is listed twice, or for states and actors that there are not
		t.Errorf("%d transitions, want %d", len(Transitions), allowed)
	}
	for _, state := range []RunState{"", "other"} {
		if CheckTransition(RunQueued, state, ByScheduler) == nil || CheckTransition(state, RunQueued, ByScheduler) == nil {
			t.Errorf("state %q is taken", state)
		}
	}
	if CheckTransition(RunQueued, RunLeased, "") == nil || CheckTransition(RunQueued, RunLeased, "miner") == nil {
		t.Error("another actor may move a run")
	}
}

func FuzzDigest(f *testing.F) {
	f.Add(string(Sum(nil)))
	f.Add("sha256:XYZ")
	f.Fuzz(func(t *testing.T, s string) {
		if Digest(s).Validate() == nil && len(Digest(s).Hex()) != 64 {
			t.Fatal("valid digest of wrong length")
		}
	})
}
