package web

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A flood of sign-ins by one key, or by many, neither fills what there is nor
// keeps the operator out.
func TestSessionsUnderAFlood(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := newSessions(func() time.Time { return now }, "operator", nil)
	sign := func(key string) (string, error) {
		now = now.Add(time.Millisecond)
		return s.put(t.Context(), true, key, sessionLife)
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
		if _, ok, _ := s.take(t.Context(), true, tok, false); ok != (i >= 2) {
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
	if who, ok, _ := s.take(t.Context(), true, tok, false); !ok || who != "operator" || len(s.live) != maxSessions {
		t.Errorf("operator's session: %q %v, %d held", who, ok, len(s.live))
	}
}

// shelf is a Keep that two servers share.
type shelf map[string]shelved

type shelved struct {
	value string
	until time.Time
}

func (s shelf) Put(_ context.Context, key string, value []byte, until time.Time) error {
	s[key] = shelved{string(value), until}
	return nil
}

func (s shelf) PutFew(ctx context.Context, key string, value []byte, until time.Time, few int) error {
	for {
		n, first := 0, ""
		for k, v := range s {
			if v.value != string(value) {
				continue
			}
			if n++; first == "" || v.until.Before(s[first].until) {
				first = k
			}
		}
		if n < few {
			return s.Put(ctx, key, value, until)
		}
		delete(s, first)
	}
}

func (s shelf) Get(_ context.Context, key string) ([]byte, error) {
	if v, ok := s[key]; ok {
		return []byte(v.value), nil
	}
	return nil, nil
}

func (s shelf) Take(ctx context.Context, key string) ([]byte, error) {
	v, err := s.Get(ctx, key)
	delete(s, key)
	return v, err
}

// Who signed in at one server is signed in at the next one; a code works at one of them, once;
// a session that ended or that was pushed out is so everywhere.
func TestSessionsOfTwoServers(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	both := shelf{}
	a := newSessions(func() time.Time { return now }, "operator", both)
	b := newSessions(func() time.Time { return now }, "operator", both)
	put := func(s *sessions, live bool) string {
		t.Helper()
		now = now.Add(time.Millisecond)
		tok, err := s.put(t.Context(), live, "one", sessionLife)
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	is := func(s *sessions, live bool, tok string, once, want bool) {
		t.Helper()
		who, ok, err := s.take(t.Context(), live, tok, once)
		if err != nil || ok != want || ok && who != "one" {
			t.Errorf("%q, %v, %v, want %v", who, ok, err, want)
		}
	}
	code := put(a, false)
	is(b, false, code, true, true)
	is(b, false, code, true, false)
	is(a, false, code, true, false)
	first := put(a, true)
	is(b, true, first, false, true)
	is(b, false, first, false, false) // not a code
	second := put(a, true)
	for range maxPerKey - 1 {
		put(a, true)
	}
	is(b, true, first, false, false)
	is(b, true, second, false, true)
	put(b, false)
	last := put(b, true) // a key has its few, whichever servers gave them
	is(b, true, second, false, false)
	is(a, true, last, false, true)
	if len(both) != maxPerKey+1 { // and the code
		t.Errorf("%d are kept, want %d and a code", len(both), maxPerKey)
	}
	is(a, true, last, true, true)
	for key := range both {
		if strings.Contains(key, first) || strings.Contains(key, last) {
			t.Error("a secret is kept")
		}
	}
}
