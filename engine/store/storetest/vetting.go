package storetest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// vettings are taken by lease, each submission has one of a sort, and those that wait
// are not the first undecided.
func vettings(t *testing.T, s *suite) {
	e := s.seed(0)
	v := store.Vetting{ID: "v1", Arena: e.Arena, Submission: e.ID, What: store.VetEntry, State: store.VettingOpen, NextAt: t0, CreatedAt: t0}
	s.write(func(tx *store.Tx) error { return tx.InsertVetting(v) })
	err := s.Write(ctx, func(tx *store.Tx) error { x := v; x.ID = "v2"; return tx.InsertVetting(x) })
	if !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second one of the same: %v", err)
	}
	next := func(what string, at time.Time) (id string) {
		s.read(func(tx *store.Tx) error {
			x, err := tx.NextVetting(e.Arena, what, at)
			if id = x.ID; errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		})
		return id
	}
	first := func() (id string) {
		s.read(func(tx *store.Tx) error {
			x, err := tx.FirstUndecided(e.Arena)
			if id = x.ID; errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		})
		return id
	}
	if next(store.VetEntry, t0.Add(-time.Second)) != "" || next(store.VetSeat, t0) != "" || next(store.VetEntry, t0) != "v1" || first() != "" {
		t.Error("one that is due is not the next, or it holds up nobody")
	}
	v.State, v.Worker, v.TokenHash, v.Tries, v.ClaimedAt, v.LeaseUntil = store.VettingHeld, "wörker\x00", "hash", 1, t0, t0.Add(time.Minute)
	v.Verdict, v.Score, v.Confidence, v.Summary, v.Detail, v.Error, v.Actor, v.EndedAt = store.VetUnsure, 0.5, 1, "s", `{"a":1}`, "e", "ann", t0
	s.write(func(tx *store.Tx) error { return tx.SetVetting(v) })
	v.Worker = "wörker"
	if next(store.VetEntry, t0.Add(59*time.Second)) != "" || next(store.VetEntry, t0.Add(time.Minute)) != "v1" {
		t.Error("a lease does not hold, or for ever")
	}
	s.read(func(tx *store.Tx) error {
		got, err := tx.VettingOf(e.ID, store.VetEntry)
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%+v, %v", got, err)
		}
		for state, want := range map[string]int{"": 1, store.VettingHeld: 1, store.VettingSent: 0} {
			if list, err := tx.Vettings(e.Arena, store.VetEntry, state, 9); err != nil || len(list) != want {
				t.Errorf("%q: %d, %v", state, len(list), err)
			}
		}
		waits, err := tx.InVetting(e.ID)
		if !waits {
			t.Error("it waits for none")
		}
		return err
	})
	v.State = store.VettingDone
	s.write(func(tx *store.Tx) error { return tx.SetVetting(v) })
	if first() != e.ID || next(store.VetEntry, t0.Add(time.Hour)) != "" {
		t.Error("what is answered is asked again")
	}
	v.State = store.VettingOpen
	s.write(func(tx *store.Tx) error {
		return errors.Join(tx.SetVetting(v), tx.SetEntryState(e.ID, agon.SubmissionExcluded, nil))
	})
	if next(store.VetEntry, t0.Add(time.Hour)) != "" {
		t.Error("of a submission that is out a worker is asked")
	}
}
