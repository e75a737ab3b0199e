package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/agon-arena/agon/engine/store"
)

// arenasAreCurrent: the list of arenas may be kept, but whoever asks after a
// change has returned sees it, who changes sees his own, and who fails nothing.
func arenasAreCurrent(t *testing.T, s *suite) {
	put := func(tx *store.Tx, title string) error {
		a := arena()
		a.Title = title
		return tx.PutArena(a)
	}
	title := func() string {
		var inTx string
		s.read(func(tx *store.Tx) error {
			a, err := tx.Arena("demo")
			inTx = a.Title
			return err
		})
		list, err := s.Arenas(context.Background())
		if err != nil || len(list) != 1 || list[0].Title != inTx {
			t.Errorf("the list says %v, %v; a transaction says %q", list, err, inTx)
		}
		return inTx
	}
	s.write(func(tx *store.Tx) error { return put(tx, "one") })
	if got := title(); got != "one" {
		t.Errorf("after a change: %q", got)
	}
	boom := errors.New("boom")
	if err := s.Write(context.Background(), func(tx *store.Tx) error {
		if err := put(tx, "two"); err != nil {
			return err
		}
		if a, err := tx.Arena("demo"); err != nil || a.Title != "two" {
			t.Errorf("within the change: %q, %v", a.Title, err)
		}
		return boom
	}); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if got := title(); got != "one" {
		t.Errorf("after a change that failed: %q", got)
	}
	// Readers at work while the arena changes never leave an old list behind.
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.Arenas(context.Background()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 50 {
		want := string(rune('a' + i%26))
		s.write(func(tx *store.Tx) error { return put(tx, want) })
		if got := title(); got != want {
			t.Errorf("change %d: %q, want %q", i, got, want)
		}
	}
	close(stop)
	wg.Wait()
}
