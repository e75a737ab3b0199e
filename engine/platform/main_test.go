package platform

import (
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// TestMainPath enters three agents, plays them all and looks at every page.
func TestMainPath(t *testing.T) {
	f := newFixture(t, 3)
	nop, good := f.submit(miner1, "nop"), f.submit(miner2, "good")
	r := request("scripted")
	script, err := f.Submit(bg, Caller{Hotkey: miner1}, "demo", r)
	must(t, err)
	if !nop.Created || nop.State != agon.SubmissionQueued || nop.Score != nil || len(nop.Findings) != 1 {
		t.Fatalf("fresh submission: %+v", nop)
	}
	value := func(l *client.Lease) float64 {
		switch l.Submission.ID {
		case good.ID:
			if l.Run.Tasks[0].Key == "small/t0" {
				return 0
			}
			return 1
		case script.ID:
			return 1
		}
		return 0
	}
	for l := f.claim(val1); l != nil; l = f.claim(val1) {
		r := scored(l, value(l))
		if l.Submission.ID == script.ID {
			r.Receipts = []agon.Receipt{{ID: l.ID, Provider: agon.Script, Outcome: "ok"}}
		}
		f.result(val1, l, r)
	}
	o, err := f.Overview(bg)
	must(t, err)
	if o.Runs.Scored != 9 || o.Runs.Failed != 0 || len(o.Runs.ByFault) != 6 || o.BoxDriver != "runc" {
		t.Fatalf("runs: %+v %s", o.Runs, o.BoxDriver)
	}
	b := o.Arenas[0]
	if b.Champion == nil || *b.Champion != good.ID {
		t.Fatalf("champion: %v", b.Champion)
	}
	if got := []string{b.Submissions[0].ID, b.Submissions[1].ID, b.Submissions[2].ID}; got[0] != script.ID || got[1] != good.ID || got[2] != nop.ID {
		t.Fatalf("order: %v", got)
	}
	row := b.Submissions[1]
	if *row.Score < 0.66 || *row.Score > 0.67 || *row.Solved != 2 || *row.Total != 3 || row.CostMicros != 30 {
		t.Fatalf("row: %+v", row)
	}
	want := []struct {
		id, outcome, rule string
	}{{nop.ID, agon.KeptSeat, "winner_takes_all"}, {good.ID, agon.TookSeat, "winner_takes_all"}, {script.ID, agon.KeptSeat, "scripted"}}
	for i, w := range want {
		d := b.Decisions[i]
		if d.Challenger != w.id || d.Outcome != w.outcome || d.Rule != w.rule {
			t.Errorf("decision %d: %+v, want %+v", i, d, w)
		}
	}
	target, err := f.Target(bg, "demo")
	must(t, err)
	if len(target.UIDs) != 1 || target.UIDs[0] != 4 || target.Values[0] != 65535 {
		t.Fatalf("target: %+v", target)
	}
}
