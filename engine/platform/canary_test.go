package platform

import (
	"math"
	"slices"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// canaries makes n canaries of a run, of three validators each.
func (f *fixture) canaries(n int, run string, r client.CanaryRequest) (list []string) {
	f.t.Helper()
	r.Validators, r.Reason = 3, "to see"
	for range n {
		c, err := f.MakeCanary(bg, Caller{Hotkey: "operator", Operator: true}, run, r)
		must(f.t, err)
		list = append(list, c.ID)
	}
	return list
}

// Canary runs and canary duels, of known gain and of none, feed the standing of
// each validator: who says something else is named with each case, and gets no
// leases in the end. What they come to moves nothing of the contest.
func TestCanaries(t *testing.T) {
	f := pairedArena(t, 2, lone())
	skill := map[string]float64{}
	truth := func(_ string, l *client.Lease) float64 { return skill[l.Submission.ID] }
	enter := func(miner, content string, x float64) (*client.Submission, string) {
		s := f.submit(miner, content)
		skill[s.ID] = x
		f.rounds([]string{val1}, truth)
		var run string
		f.read(func(tx *store.Tx) error {
			runs, err := tx.RunsOf(s.ID)
			run = runs[0].RunSpec.Run
			return err
		})
		return s, run
	}
	good, goodRun := enter(miner1, "good", 1)
	weak, weakRun := enter(miner2, "weak", 0.25)
	twin, _ := enter(miner2, "twin", 0.25)
	before, err := f.Board(bg, "demo")
	must(t, err)

	ids := f.canaries(8, goodRun, client.CanaryRequest{})
	ids = append(ids, f.canaries(8, goodRun, client.CanaryRequest{Rival: weak.ID})...)
	ids = append(ids, f.canaries(8, weakRun, client.CanaryRequest{Rival: twin.ID})...)
	seen := map[string]int{}
	for there := []string{val1, val2, val3}; len(there) > 0; {
		there = slices.DeleteFunc(there, func(v string) bool {
			l, err := f.Claim(bg, Caller{Hotkey: v}, client.ClaimRequest{Kinds: []string{"fake"}, Driver: "runc"})
			if err != nil && v == val3 {
				wantCode(t, err, 403, "low_standing") // it was found out
				return true
			}
			must(t, err)
			if l == nil {
				return true
			}
			seen[v]++
			x := skill[l.Submission.ID]
			if v == val3 && l.Submission.ID == weak.ID { // a friend of the weak one
				x = 0.9
			}
			f.result(v, l, scored(l, x))
			return false
		})
	}
	// 8 runs, and 16 duels of two halves.
	if seen[val1] != 40 || seen[val2] != 40 {
		t.Errorf("plays: %v", seen)
	}
	for _, v := range []string{val1, val2} {
		if s := f.standing(v); s.Canaries != 24 || s.Missed != 0 || s.Standing != 1 || s.Named || len(s.Cases) != 0 {
			t.Errorf("%s, who is honest: %+v", v, s)
		}
	}
	liar := f.standing(val3)
	if !liar.Named || !liar.Excluded || liar.Missed < 4 || len(liar.Cases) != liar.Missed {
		t.Errorf("who lies: %+v", liar)
	}
	for _, c := range liar.Cases {
		if c.Role != "canary" || c.Known == nil || c.Observed == nil || math.Abs(*c.Known-*c.Observed) < 0.6 || c.Run == "" {
			t.Errorf("case %+v", c)
		}
	}
	if err := f.believed(bg, val3); err == nil {
		t.Error("who lies still gets leases")
	}
	list, err := f.Canaries(bg, Caller{Hotkey: "operator", Operator: true}, "demo")
	must(t, err)
	if len(list) != len(ids) || len(list[0].Hits) < 2 {
		t.Errorf("%d canaries are listed, the first with %d hits", len(list), len(list[0].Hits))
	}
	// Nothing of the contest has moved.
	after, err := f.Board(bg, "demo")
	must(t, err)
	for i, r := range before.Submissions {
		if now := after.Submissions[i]; now.ID != r.ID || *now.Score != *r.Score || now.CostMicros != r.CostMicros {
			t.Errorf("%+v became %+v", r, now)
		}
	}
	if *after.Champion != good.ID || len(after.Decisions) != len(before.Decisions) {
		t.Errorf("champion %s, %d decisions", *after.Champion, len(after.Decisions))
	}
	checkInvariants(t, f.cfg.Store)
}

// A run that is not decided is refused, and only the operator makes or reads canaries.
func TestCanaryRefusals(t *testing.T) {
	f := pairedArena(t, 1, lone())
	s := f.submit(miner1, "x")
	var run string
	f.read(func(tx *store.Tx) error {
		runs, err := tx.RunsOf(s.ID)
		run = runs[0].RunSpec.Run
		return err
	})
	op, half, two := Caller{Hotkey: "operator", Operator: true}, 0.5, 2.0
	try := func(c Caller, id string, r client.CanaryRequest) error {
		r.Reason = "why"
		_, err := f.MakeCanary(bg, c, id, r)
		return err
	}
	wantCode(t, try(op, run, client.CanaryRequest{Validators: 1}), 409, "not_final")
	f.rounds([]string{val1}, func(string, *client.Lease) float64 { return 0 })
	wantCode(t, try(Caller{Hotkey: miner1}, run, client.CanaryRequest{Validators: 1}), 403, "not_operator")
	wantCode(t, try(op, "nowhere", client.CanaryRequest{Validators: 1}), 404, "not_found")
	wantCode(t, try(op, run, client.CanaryRequest{Validators: 0}), 422, "bad_validators")
	wantCode(t, try(op, run, client.CanaryRequest{Validators: 1, Known: &two}), 422, "bad_known")
	wantCode(t, try(op, run, client.CanaryRequest{Validators: 1, Tolerance: &two}), 422, "bad_tolerance")
	wantCode(t, try(op, run, client.CanaryRequest{Validators: 1, Rival: "nobody"}), 422, "bad_rival")
	must(t, try(op, run, client.CanaryRequest{Validators: 1, Known: &half}))
	_, err := f.Canaries(bg, Caller{Hotkey: val1}, "demo")
	wantCode(t, err, 403, "not_operator")
	// A fault of the agent that there is not is a score of 0.
	l := f.claim(val1)
	f.result(val1, l, client.Result{Token: l.Token, Outcome: "exited", Fault: agon.FaultAgent, Reason: "exit 1", Driver: agon.Driver{Name: "runc"}})
	if w := f.standing(val1); w.Canaries != 1 || w.Missed != 1 || w.Excluded || w.Named {
		t.Errorf("one miss: %+v", w)
	}
}
