package platform

import (
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
)

// A submission is scripted by what answered it, not by what its miner says.
func TestScriptedByReceipts(t *testing.T) {
	script := agon.Receipt{ID: "x", Provider: agon.Script, Model: agon.Script, Payer: "run", Outcome: "ok"}
	judge, failed, real := script, script, script
	judge.Payer, failed.Outcome, real.Provider = "platform", "provider_error", "openai"
	for _, c := range []struct {
		name     string
		receipts []agon.Receipt
		fault    agon.Fault
		scripted bool
	}{
		{"a script answered once", []agon.Receipt{real, script}, agon.FaultNone, true},
		{"a script answered, and the agent failed", []agon.Receipt{script}, agon.FaultAgent, true},
		{"the judge's model was a script", []agon.Receipt{judge}, agon.FaultNone, false},
		{"the script failed", []agon.Receipt{failed}, agon.FaultNone, false},
		{"a model answered", []agon.Receipt{real}, agon.FaultNone, false},
		{"nobody was called", nil, agon.FaultNone, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, 2)
			s := f.submit(miner1, "a")
			first := true
			for l := f.claim(val1); l != nil; l = f.claim(val1) {
				r := scored(l, 0.5)
				if first {
					for i, x := range c.receipts {
						x.ID = string(rune('a' + i))
						r.Receipts = append(r.Receipts, x)
					}
					if r.Fault = c.fault; c.fault != agon.FaultNone {
						r.Scores = nil
					}
				}
				first = false
				f.result(val1, l, r)
			}
			got, err := f.Submission(bg, Caller{}, s.ID)
			must(t, err)
			if got.Scripted != c.scripted || got.Decision == nil {
				t.Fatalf("scripted %v, decision %+v; want scripted %v", got.Scripted, got.Decision, c.scripted)
			}
			if seated := got.Decision.Outcome == agon.TookSeat; seated == c.scripted || (got.Decision.Rule == incentive.ScriptedRule) != c.scripted {
				t.Fatalf("decision %+v", got.Decision)
			}
			b, err := f.Board(bg, "demo")
			must(t, err)
			list, err := f.Submissions(bg, Caller{}, "demo", "", "", 10)
			must(t, err)
			if b.Submissions[0].Scripted != c.scripted || list.Items[0].Scripted != c.scripted {
				t.Fatalf("board %+v, list %+v", b.Submissions[0], list.Items[0])
			}
		})
	}
}

// One validator cannot mark a submission as scripted against the others.
func TestOneLiarMarksNobody(t *testing.T) {
	f := newFixture(t, 2, func(_ *Config, a *agon.Arena) { a.Replicas = 3 })
	s := f.submit(miner1, "a")
	for _, c := range []struct {
		by, provider string
		scripted     bool
	}{
		{val2, agon.Script, true}, // nobody else has said anything yet
		{val1, "openai", false},
		{val3, "openai", false},
	} {
		for l := f.claim(c.by); l != nil; l = f.claim(c.by) {
			r := scored(l, 0.5)
			r.Receipts = []agon.Receipt{{ID: "a", Provider: c.provider, Model: "m", Payer: "run", Outcome: "ok", Prompt: 1}}
			f.result(c.by, l, r)
		}
		got, err := f.Submission(bg, Caller{}, s.ID)
		must(t, err)
		if got.Scripted != c.scripted {
			t.Fatalf("after %s: scripted %v, want %v", c.provider, got.Scripted, c.scripted)
		}
	}
}
