package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

func claimers(t *testing.T, s *suite) {
	const n = 200
	s.seed(n)
	var mu sync.Mutex
	got := map[string]string{}
	var wg sync.WaitGroup
	for w := range 16 {
		v := fmt.Sprintf("v%d", w)
		wg.Go(func() {
			for {
				var r store.Run
				err := s.Write(ctx, func(tx *store.Tx) (err error) { r, err = take(tx, v); return err })
				if errors.Is(err, store.ErrNotFound) {
					return
				}
				if err != nil {
					t.Errorf("take: %v", err)
					return
				}
				mu.Lock()
				if other, twice := got[r.RunSpec.Run]; twice {
					t.Errorf("run %s: both %s and %s have it", r.RunSpec.Run, other, v)
				}
				got[r.RunSpec.Run] = v
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(got) != n {
		t.Errorf("%d runs taken, want %d", len(got), n)
	}
	s.read(func(tx *store.Tx) error {
		q, h, err := tx.Waiting("demo")
		if q != 0 || h != n {
			t.Errorf("waiting: %d queued, %d held", q, h)
		}
		return err
	})
}

func oneLive(t *testing.T, s *suite) {
	s.seed(1)
	s.write(func(tx *store.Tx) error { return second(take(tx, "v1")) })
	err := s.Write(ctx, func(tx *store.Tx) error { return tx.InsertAttempt(attempt("r0", 2, "v2")) })
	if !errors.Is(err, store.ErrConflict) {
		t.Fatalf("second live lease: %v, want ErrConflict", err)
	}
}

func oneCounted(t *testing.T, s *suite) {
	s.seed(1)
	s.write(func(tx *store.Tx) error {
		a := attempt("r0", 1, "v1")
		b := attempt("r0", 2, "v2")
		if err := tx.InsertAttempt(a); err != nil {
			return err
		}
		a.State, a.Counted = store.AttemptDone, true
		return errors.Join(tx.EndAttempt(a), tx.InsertAttempt(b))
	})
	err := s.Write(ctx, func(tx *store.Tx) error {
		b := attempt("r0", 2, "v2")
		b.State, b.Counted = store.AttemptDone, true
		return tx.EndAttempt(b)
	})
	if !errors.Is(err, store.ErrConflict) {
		t.Fatalf("second counted result: %v, want ErrConflict", err)
	}
	err = s.Write(ctx, func(tx *store.Tx) error {
		sc := agon.Score{Run: "r0", Task: "a/b", Scorer: "v1"}
		return errors.Join(tx.InsertScore(sc, 1, "k"), tx.InsertScore(sc, 2, "k"))
	})
	if !errors.Is(err, store.ErrConflict) {
		t.Fatalf("second score: %v, want ErrConflict", err)
	}
}

func guardedMove(t *testing.T, s *suite) {
	s.seed(1)
	s.write(func(tx *store.Tx) error { return second(take(tx, "v1")) })
	wins := make(chan error, 8)
	for range 8 {
		go func() {
			wins <- s.Write(ctx, func(tx *store.Tx) error {
				to := store.Run{Run: agon.Run{State: agon.RunScored, EndedAt: t0}}
				return tx.MoveRun("r0", agon.RunLeased, to)
			})
		}()
	}
	won := 0
	for range 8 {
		switch err := <-wins; {
		case err == nil:
			won++
		case !errors.Is(err, store.ErrNotFound):
			t.Errorf("loser: %v, want ErrNotFound", err)
		}
	}
	if won != 1 {
		t.Errorf("%d moves won, want 1", won)
	}
}

func queueOrder(t *testing.T, s *suite) {
	first := s.seed(2)
	s.write(func(tx *store.Tx) error {
		e, err := tx.InsertEntry(entry(2))
		if err != nil {
			return err
		}
		x := run("other-driver", first)
		x.Policy.Driver = "runsc"
		return errors.Join(tx.InsertRun(run("younger", e)), tx.InsertRun(run("late", first)), tx.InsertRun(x))
	})
	var got []string
	s.write(func(tx *store.Tx) error {
		r, err := take(tx, "v1")
		if err != nil {
			return err
		}
		if err := lose(tx, r.RunSpec.Run); err != nil {
			return err
		}
		for {
			r, err := take(tx, "v2")
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			got = append(got, r.RunSpec.Run)
		}
	})
	same(t, "order", got, []string{"r0", "r1", "late", "younger"})
}

func anotherFirst(t *testing.T, s *suite) {
	s.seed(1)
	next := func(v string) string {
		var id string
		err := s.Read(ctx, func(tx *store.Tx) error {
			r, err := tx.NextRun("demo", store.Claimant{Validator: v, SeenSince: t0})
			id = r.RunSpec.Run
			return err
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		return id
	}
	lost := func(v string) {
		s.write(func(tx *store.Tx) error {
			r, err := tx.Run("r0")
			if err != nil {
				return err
			}
			return errors.Join(tx.LeaseRun("r0", t0), tx.InsertAttempt(attempt("r0", r.Attempts+1, v)), lose(tx, "r0"))
		})
	}
	see := func(v string, at time.Time) {
		s.write(func(tx *store.Tx) error { return tx.SawValidator("demo", v, "runc", "0.1.0", "", at) })
	}
	lost("v1")
	if next("v1") != "r0" {
		t.Error("nobody else serves the arena: v1 should get it back")
	}
	see("v2", t0.Add(-time.Hour))
	if next("v1") != "r0" {
		t.Error("v2 was seen too long ago: v1 should get it back")
	}
	see("v2", t0.Add(time.Second))
	if next("v1") != "" || next("v2") != "r0" {
		t.Error("v2 serves the arena: it goes first")
	}
	lost("v2")
	see("v1", t0.Add(time.Second))
	if next("v2") != "" || next("v1") != "r0" {
		t.Error("both have lost it: not the last loser first")
	}
	see("v3", t0.Add(time.Second))
	if next("v1") != "" || next("v2") != "" || next("v3") != "r0" {
		t.Error("v3 has not had it: it goes first")
	}
	s.read(func(tx *store.Tx) error {
		d, err := tx.LastDriver()
		if d != "runc" {
			t.Errorf("last driver %q", d)
		}
		any, err2 := tx.AnyRetry(t0)
		if !any {
			t.Error("no retried run is seen")
		}
		return errors.Join(err, err2)
	})
	s.write(func(tx *store.Tx) error {
		r, err := tx.Run("r0")
		r.RetryAt = t0.Add(time.Minute)
		return errors.Join(err, tx.MoveRun("r0", agon.RunQueued, r))
	})
	s.read(func(tx *store.Tx) error {
		for _, c := range []struct {
			after time.Duration
			due   bool
		}{{59 * time.Second, false}, {time.Minute, true}} {
			now := t0.Add(c.after)
			_, err := tx.NextRun("demo", store.Claimant{Validator: "v3", SeenSince: t0, Now: now})
			any, err2 := tx.AnyRetry(now)
			if err2 != nil || any != c.due || errors.Is(err, store.ErrNotFound) == c.due {
				t.Errorf("after %s: %v, retried %v, %v", c.after, err, any, err2)
			}
		}
		r, err := tx.Run("r0")
		if !r.RetryAt.Equal(t0.Add(time.Minute)) {
			t.Errorf("not before %s", r.RetryAt)
		}
		return err
	})
}
