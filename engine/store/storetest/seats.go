package storetest

import (
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// seats: who took a seat comes in the order of the decisions, and the last of them is
// one that no script answered, as long as there is one.
func seats(t *testing.T, s *suite) {
	s.seed(1)
	var ids []string
	decide := func(scripted bool, outcome string) string {
		e := entry(10 + len(ids))
		e.Scripted = scripted
		s.write(func(tx *store.Tx) (err error) {
			if e, err = tx.InsertEntry(e); err != nil {
				return err
			}
			return tx.InsertDecision(agon.Decision{Arena: "demo", Challenger: e.ID, Outcome: outcome, Rule: "r", At: t0.Add(time.Duration(len(ids)) * time.Second)})
		})
		ids = append(ids, e.ID)
		return e.ID
	}
	check := func(what string, all []string, last ...string) {
		t.Helper()
		s.read(func(tx *store.Tx) error {
			list, err := tx.Seated("demo")
			if err != nil {
				return err
			}
			one, err := tx.LastSeated("demo")
			if err != nil {
				return err
			}
			same(t, what+": who sat", idsOf(list), all)
			same(t, what+": the last", idsOf(one), last)
			for _, x := range one {
				for _, y := range list {
					if x.ID == y.ID {
						same(t, what+": the row", x, y)
					}
				}
			}
			return nil
		})
	}
	check("nobody", nil)
	first := decide(true, agon.TookSeat)
	second := decide(true, agon.TookSeat)
	check("scripted", []string{first, second}, second)
	real1 := decide(false, agon.TookSeat)
	decide(false, "kept")
	real2 := decide(false, agon.TookSeat)
	third := decide(true, agon.TookSeat)
	check("both", []string{first, second, real1, real2, third}, real2)
	s.write(func(tx *store.Tx) error { return tx.SetEntryState(real2, agon.SubmissionExcluded, nil) })
	check("excluded", []string{first, second, real1, third}, real1)
	s.read(func(tx *store.Tx) error {
		ids := []string{"", "nobody"}
		for range 300 { // more than one statement takes
			ids = append(ids, real1)
		}
		names, err := tx.Names(append(ids, first))
		same(t, "names", names, map[string]string{first: entry(10).Name, real1: entry(12).Name})
		return err
	})
}

func idsOf(list []store.Seated) (out []string) {
	for _, x := range list {
		out = append(out, x.ID)
	}
	return out
}
