package storetest

import (
	"testing"
	"time"

	"github.com/agon-arena/agon/engine/store"
)

// kept: a value is there until its time, under its purpose and key alone; a later one takes
// its place; what is over is purged a few at a time.
func kept(t *testing.T, s *suite) {
	read := func(what, key string, now time.Time) (v string) {
		t.Helper()
		err := s.Read(ctx, func(tx *store.Tx) error {
			b, err := tx.Kept(what, key, now)
			if b == nil {
				v = "none"
			} else {
				v = string(b)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	put := func(what, key, value string, until time.Time) {
		t.Helper()
		s.write(func(tx *store.Tx) error { return tx.Keep(what, key, []byte(value), until) })
	}
	put("a", "k", "one\x00\xff", t0.Add(time.Minute))
	put("b", "k", "", t0.Add(time.Hour))
	for _, x := range []struct {
		what, key string
		at        time.Duration
		want      string
	}{
		{"a", "k", 0, "one\x00\xff"},
		{"a", "k", time.Minute, "one\x00\xff"},
		{"a", "k", time.Minute + time.Microsecond, "none"},
		{"b", "k", time.Minute + time.Microsecond, ""},
		{"a", "other", 0, "none"},
	} {
		if got := read(x.what, x.key, t0.Add(x.at)); got != x.want {
			t.Errorf("%s %s after %s: %q, want %q", x.what, x.key, x.at, got, x.want)
		}
	}
	put("a", "k", "two", t0.Add(2*time.Minute))
	if got := read("a", "k", t0.Add(2*time.Minute)); got != "two" {
		t.Errorf("a later value: %q", got)
	}
	few := func(key string, until time.Time) {
		t.Helper()
		s.write(func(tx *store.Tx) error { return tx.KeepFew("few", key, []byte("one"), until, 2, t0) })
	}
	put("few", "of another", "two", t0.Add(time.Minute))
	put("few", "over", "one", t0.Add(-time.Minute))
	few("c", t0.Add(3*time.Minute))
	few("b", t0.Add(2*time.Minute))
	few("b", t0.Add(4*time.Minute)) // the same key is not another
	few("d", t0.Add(time.Minute))
	for key, want := range map[string]string{"of another": "two", "b": "one", "c": "none", "d": "one"} {
		if got := read("few", key, t0); got != want {
			t.Errorf("few %s: %q, want %q", key, got, want)
		}
	}
	s.write(func(tx *store.Tx) error {
		_, err := tx.PurgeKept(t0.Add(time.Hour/2), 10)
		return err
	})
	put("a", "k", "two", t0.Add(2*time.Minute))
	put("a", "l", "three", t0.Add(time.Minute))
	for i, want := range []int64{1, 1, 0} {
		s.write(func(tx *store.Tx) error {
			n, err := tx.PurgeKept(t0.Add(3*time.Minute), 1)
			if n != want {
				t.Errorf("purge %d took %d, want %d", i, n, want)
			}
			return err
		})
	}
	if got := read("b", "k", t0.Add(3*time.Minute)); got != "" {
		t.Errorf("what is not over was purged: %q", got)
	}
	for _, want := range []bool{true, false} {
		s.write(func(tx *store.Tx) error {
			was, err := tx.Forget("b", "k")
			if was != want {
				t.Errorf("forgotten: %v, want %v", was, want)
			}
			return err
		})
	}
	if got := read("b", "k", t0); got != "none" {
		t.Errorf("what is forgotten: %q", got)
	}
}
