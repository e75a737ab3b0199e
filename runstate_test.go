package agon

import (
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

// The machine is the table: every cell not listed is refused.
func TestTransitionCells(t *testing.T) {
	listed := map[[3]string]bool{}
	for _, tr := range Transitions {
		k := [3]string{string(tr.From), string(tr.To), string(tr.By)}
		if listed[k] {
			t.Errorf("%v is listed twice", k)
		}
		listed[k] = true
	}
	for _, from := range RunStates {
		for _, to := range RunStates {
			for _, by := range []Actor{ByScheduler, ByHolder, ByOperator} {
				err := CheckTransition(from, to, by)
				if want := listed[[3]string{string(from), string(to), string(by)}]; (err == nil) != want {
					t.Errorf("%s to %s by %s: %v", from, to, by, err)
				}
			}
		}
	}
}

func TestDeriveSeedSeparates(t *testing.T) {
	a, b := DeriveSeed("run", "ab", "c"), DeriveSeed("run", "a", "bc")
	if a == b || a == DeriveSeed("task", "ab", "c") {
		t.Error("parts or domains run together")
	}
	if a != DeriveSeed("run", "ab", "c") || a < 0 || a >= 1<<53 {
		t.Error("not deterministic or out of range")
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
