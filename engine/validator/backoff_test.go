package validator

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
)

// The pauses of ORO's validator (spec/oro.md 2.3): they double to five minutes, a fifth
// more or less; an answer begins anew; a ban waits five minutes and counts for nothing.
func TestBackoff(t *testing.T) {
	b := backoff{first: 5 * time.Second}
	down := errors.New("no answer")
	off := func(err error, want time.Duration) {
		t.Helper()
		if d := b.after(err); d < want*8/10 || d > want*12/10 {
			t.Errorf("%s, want %s and a fifth more or less", d, want)
		}
	}
	for _, s := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		off(down, s*time.Second)
	}
	for range 100 {
		off(down, 300*time.Second)
	}
	b.answered()
	off(down, 5*time.Second)
	off(fmt.Errorf("claim: %w", &agon.Error{Code: "forbidden", Status: 403, Message: "Hotkey is banned"}), 300*time.Second)
	off(down, 10*time.Second)
	off(&agon.Error{Code: "forbidden", Status: 403, Message: "not a validator"}, 20*time.Second)
	seen := map[time.Duration]bool{}
	for range 20 {
		seen[b.after(down)] = true
	}
	if len(seen) < 2 {
		t.Error("all validators come back at once")
	}
}

// A hotkey without a permit hears so at every claim of every worker: that is said
// once, with what to do, and again only after work was given meanwhile.
func TestNoPermitIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	l := NewLoop(LoopConfig{Player: &Player{}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	none := fmt.Errorf("POST /v1/leases: %w", &agon.Error{Code: "no_permit", Status: 403, Message: "no permit here", Mend: "get one"})
	for range 3 {
		l.refused("claiming a run", none)
	}
	l.refused("claiming a run", errors.New("connection refused"))
	if got := log.String(); strings.Count(got, "no permit here") != 1 || !strings.Contains(got, "fix=\"get one\"") || strings.Count(got, "connection refused") != 1 {
		t.Errorf("said: %s", got)
	}
	l.served()
	l.refused("claiming a run", none)
	if got := log.String(); strings.Count(got, "no permit here") != 2 {
		t.Errorf("after work was given: %s", got)
	}
}
