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

// In a rehearsal the script's entries sit, unpaid, until one sits that a model
// answered: that one need not beat them, and no scripted one follows it.
func TestRehearsal(t *testing.T) {
	f := newFixture(t, 2, func(_ *Config, a *agon.Arena) { a.Rehearsal = true })
	enter := func(miner, name, provider string, value float64) (id string) {
		t.Helper()
		s := f.submit(miner, name)
		for l := f.claim(val1); l != nil; l = f.claim(val1) {
			r := scored(l, value)
			r.Receipts = []agon.Receipt{{ID: "a", Provider: provider, Model: "m", Payer: "run", Outcome: "ok", Prompt: 1}}
			f.result(val1, l, r)
		}
		return s.ID
	}
	ids := map[string]string{}
	for _, c := range []struct {
		miner, name, provider string
		value                 float64
		outcome, rule, seat   string
		earns, burned         float64
	}{
		{miner1, "a", agon.Script, 0.5, agon.TookSeat, "winner_takes_all", "a", 0, 1},
		{miner2, "b", agon.Script, 0.9, agon.TookSeat, "winner_takes_all", "b", 0, 1},
		{miner1, "c", "openai", 0.2, agon.TookSeat, "winner_takes_all", "c", 1, 0},
		{miner2, "d", agon.Script, 1, agon.KeptSeat, incentive.ScriptedRule, "c", 1, 0},
	} {
		id := enter(c.miner, c.name, c.provider, c.value)
		got, err := f.Submission(bg, Caller{}, id)
		must(t, err)
		if d := got.Decision; d == nil || d.Outcome != c.outcome || d.Rule != c.rule {
			t.Fatalf("%s: decision %+v, want %s by %s", c.name, d, c.outcome, c.rule)
		}
		b, err := f.Board(bg, "demo")
		must(t, err)
		if len(b.Seats) != 1 || b.Seats[0].Share != c.earns || b.Burned != c.burned {
			t.Fatalf("%s: seats %+v, burned %v; want a share of %v, %v burned", c.name, b.Seats, b.Burned, c.earns, c.burned)
		}
		if ids[c.name] = id; b.Seats[0].Submission != ids[c.seat] || b.Champion == nil || *b.Champion != ids[c.seat] {
			t.Fatalf("%s: %s sits, champion %v; want %s, %v", c.name, b.Seats[0].Submission, b.Champion, c.seat, ids)
		}
	}
}
