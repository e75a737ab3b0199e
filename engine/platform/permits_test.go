package platform

import (
	"context"
	"testing"
	"time"
)

// countingLedger grants permits while on is set.
type countingLedger struct {
	Ledger
	on    bool
	asked int
}

func (l *countingLedger) IsValidator(context.Context, uint16, string) (bool, error) {
	l.asked++
	return l.on, nil
}

// TestPermitsAreAskedAgain: a permit that was taken away ends within a second,
// one that was given counts at once.
func TestPermitsAreAskedAgain(t *testing.T) {
	l, p, now := &countingLedger{}, &permits{}, time.Unix(1_800_000_000, 0)
	for i, step := range []struct {
		on    bool
		later time.Duration
		want  bool
		asked int
	}{
		{on: false, want: false, asked: 1},
		{on: true, want: true, asked: 2},
		{on: false, later: permitFor - 1, want: true, asked: 2},
		{on: false, later: 1, want: false, asked: 3},
		{on: false, want: false, asked: 4},
	} {
		l.on, now = step.on, now.Add(step.later)
		got, err := p.ask(bg, l, place{netuid: 1}, "v", now)
		if err != nil || got != step.want || l.asked != step.asked {
			t.Errorf("step %d: %v after %d questions, %v; want %v after %d", i, got, l.asked, err, step.want, step.asked)
		}
	}
}
