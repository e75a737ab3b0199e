package platform

import (
	"errors"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// checkInvariants verifies everything that must hold between any two
// transactions, over the whole store.
func checkInvariants(t testing.TB, s *store.Store) {
	t.Helper()
	err := s.Read(bg, func(tx *store.Tx) error {
		arenas, err := tx.Arenas()
		if err != nil {
			return err
		}
		for _, a := range arenas {
			if err := checkArenaInvariants(t, tx, a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkArenaInvariants(t testing.TB, tx *store.Tx, a agon.Arena) error {
	runs, err := tx.Runs(store.RunFilter{Arena: a.ID, Limit: 1 << 20})
	if err != nil {
		return err
	}
	want := map[string]int64{}
	for _, r := range runs {
		id := r.RunSpec.Run
		attempts, err := tx.Attempts(id)
		if err != nil {
			return err
		}
		scores, err := tx.Scores(id)
		if err != nil {
			return err
		}
		live, counted := 0, 0
		for i, at := range attempts {
			if at.N != i+1 {
				t.Errorf("run %s: attempt %d is numbered %d", id, i+1, at.N)
			}
			if at.Live() {
				live++
				if at.State != string(r.State) {
					t.Errorf("run %s is %s, its lease %s", id, r.State, at.State)
				}
				if !at.EndedAt.IsZero() || at.ResultHash != "" {
					t.Errorf("run %s: live attempt has ended", id)
				}
			} else if at.EndedAt.IsZero() {
				t.Errorf("run %s: attempt %d is %s without an end", id, at.N, at.State)
			}
			if at.Counted {
				counted++
				if at.Late || at.Fault.Ours() || at.State != store.AttemptDone {
					t.Errorf("run %s: attempt %d counts: %+v", id, at.N, at.Attempt)
				}
			}
			if at.Fault != agon.FaultNone {
				want[faultKey(at.Fault)]++
			}
		}
		switch {
		case live > 1 || (live == 1) != r.State.Held():
			t.Errorf("run %s is %s with %d live leases", id, r.State, live)
		case counted > 1 || (counted == 1) != (r.State == agon.RunScored):
			t.Errorf("run %s is %s with %d counted results", id, r.State, counted)
		case (len(scores) == len(r.Tasks)) != (r.State == agon.RunScored) || (len(scores) > 0) != (r.State == agon.RunScored):
			t.Errorf("run %s is %s with %d scores of %d", id, r.State, len(scores), len(r.Tasks))
		case r.State.Final() == r.EndedAt.IsZero():
			t.Errorf("run %s is %s and ended at %v", id, r.State, r.EndedAt)
		case r.Attempts != len(attempts) || r.Attempts > maxLeasesOfRun:
			t.Errorf("run %s counts %d attempts, has %d", id, r.Attempts, len(attempts))
		case r.Retries > a.Attempts+1:
			t.Errorf("run %s used %d retries of %d", id, r.Retries, a.Attempts)
		case !r.State.Final() && r.Deadline.IsZero():
			t.Errorf("run %s is %s without a deadline", id, r.State)
		}
		if r.State.Final() {
			want[string(r.State)]++
		}
	}
	counters, err := tx.Counters(store.ScopeArena, a.ID)
	if err != nil {
		return err
	}
	for _, c := range counters {
		if want[c.Key] != c.N {
			t.Errorf("counter %s is %d, the rows say %d", c.Key, c.N, want[c.Key])
		}
		delete(want, c.Key)
	}
	if len(want) > 0 {
		t.Errorf("not counted: %v", want)
	}
	return checkEntryInvariants(t, tx, a)
}

func checkEntryInvariants(t testing.TB, tx *store.Tx, a agon.Arena) error {
	decisions, err := tx.Decisions(a.ID, 1<<20)
	if err != nil {
		return err
	}
	var lastSeq int64
	var champion string
	for _, d := range decisions {
		e, err := tx.Entry(d.Challenger)
		if err != nil {
			return err
		}
		if e.Seq <= lastSeq && !wasRevived(tx, e) {
			t.Errorf("submission %s was decided out of its turn", e.ID)
		}
		lastSeq = e.Seq
		if d.Incumbent != champion {
			t.Errorf("decision on %s saw incumbent %q, want %q", e.ID, d.Incumbent, champion)
		}
		if d.Outcome == agon.TookSeat {
			champion = e.ID
		}
	}
	seat, err := tx.Seat(a.ID)
	if err != nil {
		return err
	}
	if (seat == nil) != (champion == "") || (seat != nil && seat.Submission != champion) {
		t.Errorf("seat %+v, the decisions say %q", seat, champion)
	}
	entries, err := tx.Entries(store.EntryFilter{Arena: a.ID, Limit: 1 << 20})
	if err != nil {
		return err
	}
	for _, e := range entries {
		runs, err := tx.RunsOf(e.ID)
		if err != nil {
			return err
		}
		live, missing := 0, len(missingRuns(runs))
		for _, r := range runs {
			if !r.State.Final() {
				live++
			}
		}
		_, derr := tx.Decision(e.ID)
		if derr != nil && !errors.Is(derr, store.ErrNotFound) {
			return derr
		}
		switch {
		case e.State == agon.SubmissionRefused && live == 0: // a stage said no
		case len(runs) == 0:
			t.Errorf("submission %s has no runs", e.ID)
		case (e.Score != nil) != (live == 0 && missing == 0):
			t.Errorf("submission %s: score %v with %d live runs and %d missing", e.ID, e.Score, live, missing)
		case (derr == nil) != (e.State == agon.SubmissionScored):
			t.Errorf("submission %s is %s; decision: %v", e.ID, e.State, derr)
		case e.State == agon.SubmissionExcluded && (missing == 0 || live > 0):
			t.Errorf("submission %s is excluded with %d live runs and %d missing", e.ID, live, missing)
		case live == 0 && missing > 0 && e.State != agon.SubmissionExcluded:
			t.Errorf("submission %s is %s and cannot go on", e.ID, e.State)
		}
	}
	return nil
}

// wasRevived: a submission that is replayed after an exclusion is decided when
// it is done; others have gone on meanwhile.
func wasRevived(tx *store.Tx, e store.Entry) bool {
	runs, err := tx.RunsOf(e.ID)
	if err != nil {
		return false
	}
	for _, r := range runs {
		if r.State == agon.RunFailed {
			return true
		}
	}
	return false
}
