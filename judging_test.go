package agon_test

import (
	"testing"

	"github.com/agon-arena/agon"
)

// Every cell of the table: what is listed may move, all else is refused, and
// every judging can end.
func TestJudgingMachine(t *testing.T) {
	actors := []agon.Actor{agon.ByScheduler, agon.ByHolder, agon.ByOperator}
	allowed := 0
	for _, from := range agon.JudgingStates {
		for _, to := range agon.JudgingStates {
			for _, by := range actors {
				listed := false
				for _, x := range agon.JudgingTransitions {
					listed = listed || (x.From == from && x.To == to && x.By == by)
				}
				err := agon.CheckJudging(from, to, by)
				if (err == nil) != listed {
					t.Errorf("%s by %s to %s: %v", from, by, to, err)
				}
				if err == nil {
					allowed++
					if from.Final() {
						t.Errorf("%s is final and moves to %s", from, to)
					}
				}
			}
		}
	}
	if allowed != len(agon.JudgingTransitions) {
		t.Errorf("%d moves allowed, %d listed", allowed, len(agon.JudgingTransitions))
	}
	for _, s := range agon.JudgingStates {
		reached := map[agon.JudgingState]bool{s: true}
		for range agon.JudgingStates {
			for _, x := range agon.JudgingTransitions {
				if reached[x.From] {
					reached[x.To] = true
				}
			}
		}
		if !reached[agon.JudgingDone] && !reached[agon.JudgingSkipped] {
			t.Errorf("%s never ends", s)
		}
	}
}
