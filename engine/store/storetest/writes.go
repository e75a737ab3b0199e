package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// putOff: statements that a driver may put off are seen by what is asked after them,
// and one that does not do what it should undoes its own write alone, wherever in a
// group that stands.
func putOff(t *testing.T, s *suite) {
	const n = 24
	s.seed(n)
	s.write(func(tx *store.Tx) error {
		if err := errors.Join(tx.LeaseRun("r0", t0), tx.InsertAttempt(attempt("r0", 1, "v1"))); err != nil {
			return err
		}
		r, err := tx.Run("r0")
		if err != nil || r.State != agon.RunLeased || r.Attempts != 1 {
			t.Errorf("a run that was just leased: %s, %d attempts, %v", r.State, r.Attempts, err)
		}
		a, err := tx.LiveAttempt("r0")
		if err != nil || a.Validator != "v1" {
			t.Errorf("its attempt: %q, %v", a.Validator, err)
		}
		return nil
	})
	// The first write holds the writer until all others wait: they are one group.
	release, began := make(chan struct{}), make(chan struct{})
	errs := make([]error, n)
	var wg sync.WaitGroup
	var once sync.Once
	wg.Go(func() {
		errs[0] = s.Write(ctx, func(*store.Tx) error { once.Do(func() { close(began) }); <-release; return nil })
	})
	<-began
	for i := 1; i < n; i++ {
		wg.Go(func() {
			id := fmt.Sprintf("r%d", i)
			errs[i] = s.Write(ctx, func(tx *store.Tx) error {
				err := errors.Join(tx.Count("put", "off", "n"), tx.LeaseRun(id, t0), tx.InsertAttempt(attempt(id, 1, "v1")))
				switch {
				case err != nil:
					return err
				case i%4 == 1: // it is not queued any more
					return tx.LeaseRun(id, t0)
				case i%4 == 2: // it has a live attempt
					return tx.InsertAttempt(attempt(id, 2, "v2"))
				case i%4 == 3: // its own reason, after what was put off
					return errOdd
				}
				return nil
			})
		})
	}
	close(release)
	wg.Wait()
	want := []error{nil, store.ErrNotFound, store.ErrConflict, errOdd}
	for i, err := range errs {
		if !errors.Is(err, want[i%4]) {
			t.Errorf("write %d: %v, want %v", i, err, want[i%4])
		}
	}
	s.read(func(tx *store.Tx) error {
		for i := 1; i < n; i++ {
			r, err := tx.Run(fmt.Sprintf("r%d", i))
			if kept := i%4 == 0; err != nil || (r.State == agon.RunLeased) != kept {
				t.Errorf("run %d is %s (%v): its write failed: %v", i, r.State, err, !kept)
			}
		}
		counts, err := tx.Counters("put", "off")
		if len(counts) != 1 || counts[0].N != n/4-1 {
			t.Errorf("counted: %+v, want %d writes", counts, n/4-1)
		}
		return err
	})
}

var errOdd = errors.New("odd")

func atomicWrite(t *testing.T, s *suite) {
	s.seed(1)
	boom := errors.New("boom")
	err := s.Write(ctx, func(tx *store.Tx) error {
		if err := tx.LeaseRun("r0", t0); err != nil {
			return err
		}
		if _, err := tx.InsertEntry(entry(2)); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
	s.read(func(tx *store.Tx) error {
		r, err := tx.Run("r0")
		if r.State != agon.RunQueued {
			t.Errorf("run is %s, want queued", r.State)
		}
		if _, err := tx.Entry("sub-2"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("entry: %v, want ErrNotFound", err)
		}
		return err
	})
	// A neighbour in the same group commit is not touched by a failure.
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			err := s.Write(ctx, func(tx *store.Tx) error {
				if err := tx.Count("scope", "name", "key"); err != nil {
					return err
				}
				if i%2 == 0 {
					return boom
				}
				return nil
			})
			if (i%2 == 0) != errors.Is(err, boom) {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	s.read(func(tx *store.Tx) error {
		c, err := tx.Counters("scope", "")
		same(t, "counters", c, []store.Counter{{Scope: "scope", Name: "name", Key: "key", N: 25}})
		return err
	})
}

func panics(t *testing.T, s *suite) {
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not come back")
			}
		}()
		_ = s.Write(ctx, func(tx *store.Tx) error {
			if err := tx.Count("p", "p", "p"); err != nil {
				return err
			}
			panic("boom")
		})
	}()
	s.read(func(tx *store.Tx) error {
		c, err := tx.Counters("p", "")
		if len(c) != 0 {
			t.Errorf("kept %v", c)
		}
		return err
	})
	s.write(func(tx *store.Tx) error { return tx.Count("p", "p", "p") })
}

func closed(t *testing.T, s *suite) {
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(ctx, func(*store.Tx) error { return nil }); !errors.Is(err, store.ErrAway) {
		t.Errorf("write after close: %v", err)
	}
	if err := s.Read(ctx, func(*store.Tx) error { return nil }); !errors.Is(err, store.ErrAway) {
		t.Errorf("read after close: %v", err)
	}
}
