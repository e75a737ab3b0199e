package seeds

import "testing"

func TestDeriveSeparates(t *testing.T) {
	a, b := Derive("run", "ab", "c"), Derive("run", "a", "bc")
	if a == b || a == Derive("task", "ab", "c") {
		t.Error("parts or domains run together")
	}
	if a != Derive("run", "ab", "c") || a < 0 || a >= 1<<53 {
		t.Error("not deterministic or out of range")
	}
}
