package platform

import (
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
)

// judgedKind is a fake kind whose judge errs.
type judgedKind struct{ fakeKind }

func (k *judgedKind) Gauge() string { return "support" }

// measured is a calibration of a judge that accepts falsely so many of 100 cases of
// one class, and else is right.
func measured(model string, at time.Time, falsely int) judge.Record {
	c := judge.Calibration{
		Prompt: "support.1-00000000", Model: model, Scorer: "support+support.1-00000000+" + model, Cases: 400, Judged: 400,
		Kappa: 0.9, CI: [2]float64{0.85, 0.95}, Negatives: map[string]int{"attack": 100}, FalseAccept: map[string]float64{"attack": float64(falsely) / 100},
	}
	return judge.Record{At: at, Set: judge.SetShipped, Calibration: c}
}

// judgedFixture has an arena of a judge that errs; play plays all by a judge.
func judgedFixture(t *testing.T, g *agon.Gate, book *judge.Book, rule ...func(*Config, *agon.Arena)) (f *fixture, play func(model string, value float64)) {
	t.Helper()
	f = newFixture(t, 4, append(rule, func(c *Config, a *agon.Arena) {
		c.Kinds = map[string]kind.Kind{"fake": &judgedKind{}}
		c.Gauged = book.Records
		a.Gate = g
	})...)
	return f, func(model string, value float64) {
		t.Helper()
		for l := f.claim(val1); l != nil; l = f.claim(val1) {
			r := scored(l, value)
			for i := range r.Scores {
				r.Scores[i].Scorer = "fake-1+support+support.1-00000000+" + model
			}
			f.result(val1, l, r)
		}
	}
}

func (f *fixture) decided(id string) *agon.Decision {
	f.t.Helper()
	s, err := f.Submission(bg, Caller{}, id)
	must(f.t, err)
	return s.Decision
}

func (f *fixture) gaugeShown() *client.JudgeStanding {
	f.t.Helper()
	a, err := f.Arena(bg, "demo")
	must(f.t, err)
	return a.Judge
}

func TestJudgeGate(t *testing.T) {
	book := judge.OpenBook(t.TempDir() + "/judges")
	f, play := judgedFixture(t, &agon.Gate{Kappa: 0.6, FalseAccepts: 0.2}, book)
	first := f.submit(miner1, "a")
	play("good", 0.5)
	must(t, f.recalibrated(bg))
	if d := f.decided(first.ID); d != nil {
		t.Fatalf("decided by a judge that was never measured: %+v", d)
	}
	if s := f.gaugeShown(); s == nil || s.Seats || len(s.Judges) != 0 || !strings.Contains(s.Sentence, "never measured") {
		t.Fatalf("standing %+v", s)
	}

	// One that is below the gate opens nothing, and is shown with its reason.
	at := f.clock.Now()
	must(t, book.Add(measured("yes", at, 90)))
	must(t, f.recalibrated(bg))
	s := f.gaugeShown()
	if f.decided(first.ID) != nil || s.Seats || len(s.Judges) != 1 || s.Judges[0].Passed || s.Judges[0].Classes[0] != (client.Class{Class: "attack", Cases: 100, FalseAccept: 0.9}) {
		t.Fatalf("standing %+v", s)
	}

	// A calibration that passes decides what waited; nothing was lost.
	must(t, book.Add(measured("good", at.Add(time.Second), 3)))
	must(t, f.recalibrated(bg))
	if d := f.decided(first.ID); d == nil || d.Outcome != agon.TookSeat {
		t.Fatalf("decision %+v", d)
	}
	if s := f.gaugeShown(); !s.Seats || len(s.Judges) != 2 || !s.Judges[0].Passed {
		t.Fatalf("standing %+v", s)
	}

	// Scores of another judge move no seat, however high.
	for _, model := range []string{"yes", "unknown"} {
		e := f.submit(miner2, model)
		play(model, 1)
		d := f.decided(e.ID)
		if d == nil || d.Outcome != agon.KeptSeat || d.Rule != incentive.GateRule || d.Numbers["ungauged"] != 4 || !strings.Contains(incentive.Say(f.cfg.Incentives, *d), "no calibration above the arena's gate") {
			t.Fatalf("judged by %s: %+v", model, d)
		}
	}
	e := f.submit(miner2, "better")
	play("good", 0.9)
	if d := f.decided(e.ID); d.Outcome != agon.TookSeat {
		t.Fatalf("decision %+v", d)
	}

	// The last calibration counts: a judge that became worse closes the arena.
	must(t, book.Add(measured("good", at.Add(time.Minute), 30)))
	e = f.submit(miner1, "best")
	play("good", 1)
	if s := f.gaugeShown(); f.decided(e.ID) != nil || s.Seats || s.Judges[0].Tries != 2 {
		t.Fatalf("standing %+v", s)
	}
	checkInvariants(t, f.cfg.Store)
}

func TestJudgeGateOfDemos(t *testing.T) {
	book := judge.OpenBook(t.TempDir() + "/judges")
	f, play := judgedFixture(t, &agon.Gate{Demo: true}, book)
	e := f.submit(miner1, "a")
	play("never measured", 0.5)
	if d, s := f.decided(e.ID), f.gaugeShown(); d == nil || d.Outcome != agon.TookSeat || !s.Seats || !strings.Contains(s.Sentence, "demo") {
		t.Fatalf("decision %+v, standing %+v", d, s)
	}
}

// Under a rule of pairs the gate holds for the entry's scores, before pairs are paid
// for, and for those of the pairs.
func TestJudgeGateOfPairs(t *testing.T) {
	book := judge.OpenBook(t.TempDir() + "/judges")
	f := pairedArena(t, 16, lone())
	f.cfg.Kinds["fake"] = &judgedKind{}
	f.cfg.Gauged = book.Records
	f.arena.Gate = &agon.Gate{Kappa: 0.6, FalseAccepts: 0.2}
	must(t, f.EnsureArena(bg, f.arena))
	must(t, book.Add(measured("good", f.clock.Now(), 0)))
	by := func(own, pairs string) *agon.Decision {
		t.Helper()
		e := f.submit(miner1, own+pairs)
		for l := f.claim(val1); l != nil; l = f.claim(val1) {
			model := own
			if l.Run.Half() {
				model = pairs
			}
			r := scored(l, 1)
			for i := range r.Scores {
				r.Scores[i].Scorer = "fake-1+support+support.1-00000000+" + model
			}
			f.result(val1, l, r)
		}
		return f.decided(e.ID)
	}
	for _, c := range []struct{ own, pairs, outcome, rule string }{
		{"unknown", "good", agon.KeptSeat, incentive.GateRule},
		{"good", "unknown", agon.KeptSeat, incentive.GateRule},
		{"good", "good", agon.TookSeat, incentive.PairedRule},
	} {
		if d := by(c.own, c.pairs); d == nil || d.Outcome != c.outcome || d.Rule != c.rule {
			t.Errorf("scored by %s, pairs by %s: %+v", c.own, c.pairs, d)
		}
	}
}

// proppedKind is a fake kind whose scores may rest on a stand-in.
type proppedKind struct {
	fakeKind
	prop *kind.Prop
}

func (k *proppedKind) Prop() *kind.Prop               { return k.prop }
func (k *proppedKind) RestsOnProp(scorer string) bool { return strings.HasSuffix(scorer, "+spelling") }

// What stands in for a part of the judging decides no seat, and neither do scores that
// were made by it once the part is there.
func TestPropDecidesNothing(t *testing.T) {
	k := &proppedKind{prop: &kind.Prop{Needs: "an encoder", Why: "What stands in spells", Mend: "set one"}}
	f := newFixture(t, 2, func(c *Config, a *agon.Arena) {
		c.Kinds = map[string]kind.Kind{"fake": k}
		a.Gate = &agon.Gate{}
	})
	play := func(by string, value float64) {
		t.Helper()
		for l := f.claim(val1); l != nil; l = f.claim(val1) {
			r := scored(l, value)
			for i := range r.Scores {
				r.Scores[i].Scorer = "fake-1+" + by
			}
			f.result(val1, l, r)
		}
	}
	gamed := f.submit(miner1, "gamed")
	play("spelling", 1)
	must(t, f.recalibrated(bg))
	if d := f.decided(gamed.ID); d != nil {
		t.Fatalf("decided by a stand-in: %+v", d)
	}
	if s := f.gaugeShown(); s == nil || s.Seats || s.Sentence != "It decides no seat: it needs an encoder. What stands in spells: set one." {
		t.Fatalf("standing %+v", s)
	}

	// The operator sets one and starts anew: what the stand-in said seats nobody.
	k.prop, f.gauges.seen = nil, ""
	must(t, f.recalibrated(bg))
	if d := f.decided(gamed.ID); d == nil || d.Outcome != agon.KeptSeat || d.Rule != incentive.GateRule || d.Numbers["propped"] != 2 || !strings.Contains(incentive.Say(f.cfg.Incentives, *d), "only stands in") {
		t.Fatalf("decision %+v", d)
	}
	if s := f.gaugeShown(); s != nil {
		t.Fatalf("standing %+v", s)
	}
	honest := f.submit(miner2, "honest")
	play("meaning", 0.5)
	if d := f.decided(honest.ID); d == nil || d.Outcome != agon.TookSeat {
		t.Fatalf("decision %+v", d)
	}
	checkInvariants(t, f.cfg.Store)
}

func TestPropOfDemos(t *testing.T) {
	k := &proppedKind{prop: &kind.Prop{Needs: "an encoder", Why: "What stands in spells", Mend: "set one"}}
	f := newFixture(t, 2, func(c *Config, a *agon.Arena) {
		c.Kinds = map[string]kind.Kind{"fake": k}
		a.Gate = &agon.Gate{Demo: true}
	})
	e := f.submit(miner1, "a")
	f.playAll(val1, func(*client.Lease) float64 { return 1 })
	if d, s := f.decided(e.ID), f.gaugeShown(); d == nil || d.Outcome != agon.TookSeat || !s.Seats || s.Sentence != "A demo: it decides seats without an encoder. What stands in spells." {
		t.Fatalf("decision %+v, standing %+v", d, s)
	}
}
