package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// groups: a validator that holds, or has settled, a run of a group takes no
// other of it; one that lost it may; duels are left out on demand.
func groups(t *testing.T, s *suite) {
	first := s.seed(0)
	s.write(func(tx *store.Tx) error {
		duel := run("duel", first)
		duel.Group, duel.Rival = "duel 1", &agon.Rival{Submission: "old", Digest: agon.Sum([]byte("x")), Round: 1, Pairs: 4}
		a, b := run("a", first), run("b", first)
		a.Group, b.Group = "replay", "replay"
		return errors.Join(tx.InsertRun(a), tx.InsertRun(b), tx.InsertRun(duel))
	})
	next := func(c store.Claimant) (id string) {
		s.write(func(tx *store.Tx) error {
			r, err := tx.NextRun("demo", c)
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			id = r.RunSpec.Run
			return err
		})
		return id
	}
	s.write(func(tx *store.Tx) error { _, err := take(tx, "v1"); return err })
	if got := next(store.Claimant{Validator: "v1", NoDuels: true}); got != "" {
		t.Errorf("the holder of a gets %q of the same group", got)
	}
	if got := next(store.Claimant{Validator: "v1"}); got != "duel" {
		t.Errorf("the holder of a gets %q, want the duel, which is of another group", got)
	}
	if got := next(store.Claimant{Validator: "v2"}); got != "b" {
		t.Errorf("another gets %q, want b", got)
	}
	s.read(func(tx *store.Tx) error {
		r, err := tx.Run("duel")
		if err == nil && (r.Rival == nil || r.Rival.Submission != "old" || r.Rival.Pairs != 4 || r.Group != "duel 1") {
			t.Errorf("the rival came back as %+v", r.Rival)
		}
		return err
	})
}

// docs: rows of a coordinator.
func docs(t *testing.T, s *suite) {
	row := func(id, task, owner, status string) store.Doc {
		return store.Doc{ID: id, Task: task, Owner: owner, Ref: "r-" + id, Status: status, At: t0, Body: []byte(`{"x":"\u0000é"}`)}
	}
	const table = store.DocTable("research_claims")
	s.write(func(tx *store.Tx) error {
		return errors.Join(tx.InsertDoc(table, row("a", "t1", "m1", "active")), tx.InsertDoc(table, row("b", "t1", "m2", "active")), tx.InsertDoc(table, row("c", "t2", "m1", "done")))
	})
	err := s.Write(ctx, func(tx *store.Tx) error { return tx.InsertDoc(table, row("a", "t9", "m9", "active")) })
	if !errors.Is(err, store.ErrConflict) {
		t.Errorf("one id twice: %v", err)
	}
	ids := func(f store.DocFilter) (out []string) {
		s.read(func(tx *store.Tx) error {
			list, err := tx.Docs(table, f)
			for _, d := range list {
				out = append(out, d.ID)
			}
			return err
		})
		return out
	}
	same(t, "newest first", ids(store.DocFilter{}), []string{"c", "b", "a"})
	same(t, "oldest first, of a task", ids(store.DocFilter{Task: "t1", Oldest: true}), []string{"a", "b"})
	same(t, "owner and status", ids(store.DocFilter{Owner: "m1", Status: "active"}), []string{"a"})
	same(t, "ref, with a limit", ids(store.DocFilter{Ref: "r-b", Limit: 5}), []string{"b"})
	s.read(func(tx *store.Tx) error {
		d, err := tx.Doc(table, "a")
		if err == nil && (d.Ref != "r-a" || !d.At.Equal(t0) || d.N == 0 || string(d.Body) != `{"x":"\u0000é"}`) {
			t.Errorf("%+v %s", d, d.Body)
		}
		if n, err := tx.CountDocs(table, store.DocFilter{Task: "t1", Status: "active"}); n != 2 || err != nil {
			t.Errorf("%d active, %v", n, err)
		}
		return err
	})
	// A guarded write loses to the first.
	moved := row("a", "t1", "m1", "submitted")
	s.write(func(tx *store.Tx) error { return tx.SetDoc(table, moved, "active") })
	if err := s.Write(ctx, func(tx *store.Tx) error { return tx.SetDoc(table, moved, "active") }); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a move from a state that is over: %v", err)
	}
	if err := s.Read(ctx, func(tx *store.Tx) error { _, err := tx.Doc(table, "none"); return err }); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no such row: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	same(t, "after a reopen", ids(store.DocFilter{Status: "submitted"}), []string{"a"})
}

// take leases the next run to v, or returns ErrNotFound.
func take(tx *store.Tx, v string) (store.Run, error) {
	r, err := tx.NextRun("demo", store.Claimant{Validator: v, SeenSince: t0})
	if err != nil {
		return r.Run, err
	}
	if err := tx.LeaseRun(r.RunSpec.Run, t0.Add(time.Minute)); err != nil {
		return r.Run, err
	}
	return r.Run, tx.InsertAttempt(attempt(r.RunSpec.Run, r.Attempts+1, v))
}
