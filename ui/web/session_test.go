package web

import (
	"fmt"
	"testing"
	"time"
)

// A flood of sign-ins by one key, or by many, neither fills what there is nor
// keeps the operator out.
func TestSessionsUnderAFlood(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := newSessions(func() time.Time { return now }, "operator")
	sign := func(key string) (string, error) {
		now = now.Add(time.Millisecond)
		return s.put(s.live, key, sessionLife)
	}
	var of []string
	for range maxPerKey + 2 {
		tok, err := sign("one")
		if err != nil {
			t.Fatal(err)
		}
		of = append(of, tok)
	}
	if len(s.live) != maxPerKey {
		t.Fatalf("one key holds %d sessions, want %d", len(s.live), maxPerKey)
	}
	for i, tok := range of {
		if _, ok := s.take(s.live, tok, false); ok != (i >= 2) {
			t.Errorf("session %d of one key lives: %v; the oldest must have ended", i, ok)
		}
	}
	for i := len(s.live); i < maxSessions; i++ {
		s.live[[32]byte{1, byte(i), byte(i >> 8)}] = held{fmt.Sprint("key", i), now.Add(sessionLife)}
	}
	if _, err := sign("stranger"); err == nil {
		t.Error("a session beyond the cap was given to a stranger")
	}
	tok, err := sign("operator")
	if err != nil {
		t.Fatalf("the operator is shut out: %v", err)
	}
	if who, ok := s.take(s.live, tok, false); !ok || who != "operator" || len(s.live) != maxSessions {
		t.Errorf("operator's session: %q %v, %d held", who, ok, len(s.live))
	}
}
