package platform

import (
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// A validator is never leased what its own hotkey or coldkey entered; another is.
func TestOwnRunsAreLeftToOthers(t *testing.T) {
	f := newFixture(t, 1)
	f.ledger.coldkey[miner2] = "cold-v1" // miner2 belongs to the owner of val1
	f.submit(miner2, "of the same coldkey")
	f.submit(val1, "of the validator itself")
	if l := f.claim(val1); l != nil {
		t.Errorf("it plays the submission of %s", l.Submission.Miner)
	}
	f.ledger.coldkey[miner1] = "cold-1"
	theirs := f.submit(miner1, "of a stranger")
	if l := f.claim(val1); l == nil || l.Submission.ID != theirs.ID {
		t.Errorf("it is leased %+v instead of the stranger's", l)
	}
	for range 2 {
		if l := f.claim(val2); l == nil || l.Submission.ID == theirs.ID {
			t.Error("the others do not play what is left")
		}
	}
}

// A result without a fault needs evidence, unless the arena takes bare words;
// those are marked.
func TestEvidenceRequired(t *testing.T) {
	f := newFixture(t, 2)
	f.arena.Evidence = ""
	must(t, f.EnsureArena(bg, f.arena))
	f.submit(miner1, "code")
	one, two := f.claim(val1), f.claim(val1)
	for _, c := range []Caller{{Hotkey: val1}, {Hotkey: val1, Wire: "foreign"}} {
		_, err := f.Platform.Result(bg, c, one.ID, scored(one, 1))
		wantCode(t, err, 422, "evidence_required")
	}
	r := scored(one, 1)
	r.Evidence = under{f, val1, one.ID}.tree("what the play left")
	f.result(val1, one, r)
	failed := client.Result{Token: two.Token, Fault: agon.FaultAgent, Outcome: "raised", Driver: agon.Driver{Name: "runc"}}
	f.result(val1, two, failed) // the agent's failure scores 0, whatever is left of it

	f.arena.Evidence = agon.EvidenceForeign
	must(t, f.EnsureArena(bg, f.arena))
	f.submit(miner2, "code of another")
	l := f.claim(val1)
	f.result(val1, l, scored(l, 1))
	got, err := f.Run(bg, Caller{}, l.Run.Run)
	must(t, err)
	if got.List[0].Mark != agon.Unattested {
		t.Errorf("a bare word is marked %q", got.List[0].Mark)
	}
	f.arena.Evidence = "some"
	if err := f.EnsureArena(bg, f.arena); err == nil {
		t.Error("an arena takes an unknown kind of evidence")
	}
}
