package agon

import "testing"

// A word that no list knows is the agent's failure too: a kind cannot spare an agent by a new word.
func TestOrdinary(t *testing.T) {
	for outcome, want := range map[string]bool{
		OutcomeOK: true, OutcomeEmpty: true,
		OutcomeInvalid: false, OutcomeBadPatch: false, OutcomeTimeout: false, "": false, "OK": false, "rejected": false,
	} {
		if Ordinary(outcome) != want {
			t.Errorf("%q: %v", outcome, !want)
		}
	}
}
