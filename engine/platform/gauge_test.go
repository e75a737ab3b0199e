package platform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/gateway"
)

// judgedKind is a fake kind whose judge errs; own is the server's model, if it has one.
type judgedKind struct {
	fakeKind
	own string
}

func (k *judgedKind) Gauge() string { return "support" }

func (k *judgedKind) Scorer() string {
	if k.own == "" {
		return "fake-1+lexical-1"
	}
	return judgedBy(k.own)
}

func judgedBy(model string) string { return "fake-1+support+support.1-00000000+" + model }

// judgedResult is a result whose scores a model gave, with the receipts of its calls.
func judgedResult(l *client.Lease, model string, value float64) client.Result {
	r := scored(l, value)
	for i := range r.Scores {
		r.Scores[i].Scorer = judgedBy(model)
		r.Receipts = append(r.Receipts, agon.Receipt{ID: fmt.Sprintf("%s-%d", l.ID, i), Task: r.Scores[i].Task, Model: model, Provider: "openai", Payer: gateway.PayerJudge, Outcome: "ok"})
	}
	return r
}

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
			f.result(val1, l, judgedResult(l, model, value))
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

// Where the server's own judge was measured and is below the gate, its word would count
// for nothing: what is entered waits unplayed, and is played once a calibration passes.
func TestBelowTheGateNothingIsPlayed(t *testing.T) {
	book := judge.OpenBook(t.TempDir() + "/judges")
	f, play := judgedFixture(t, &agon.Gate{Kappa: 0.6, FalseAccepts: 0.2}, book)
	f.cfg.Kinds["fake"].(*judgedKind).own = "ours"
	at := f.clock.Now()
	must(t, book.Add(measured("another", at, 90)))
	first := f.submit(miner1, "a")
	if l := f.claim(val1); l == nil {
		t.Fatal("a judge that was never measured: nothing is played")
	} else {
		f.result(val1, l, judgedResult(l, "ours", 0.5))
	}
	must(t, book.Add(measured("ours", at.Add(time.Second), 90)))
	if l := f.claim(val1); l != nil {
		t.Fatalf("below the gate a run is leased: %+v", l)
	}
	if s := f.gaugeShown(); s.Seats || !strings.HasSuffix(s.Sentence, "Nothing is played until one does.") {
		t.Errorf("standing %+v", s)
	}
	// Calibrations that cannot be read are no reason to answer a validator with an error: it has other arenas.
	read := f.cfg.Gauged
	f.cfg.Gauged = func() ([]judge.Record, error) { return nil, errors.New("the disk is gone") }
	if l := f.claim(val1); l != nil {
		t.Fatalf("a run is leased while nobody knows whether it counts: %+v", l)
	}
	f.cfg.Gauged = read
	must(t, book.Add(measured("ours", at.Add(time.Minute), 3)))
	play("ours", 0.5)
	if d := f.decided(first.ID); d == nil || d.Outcome != agon.TookSeat {
		t.Fatalf("decision %+v", d)
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
			f.result(val1, l, judgedResult(l, model, 1))
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

// The name of a judge is not believed by itself: where the server has a judge no other
// one's scores count, and none does without receipts of its calls. What a validator
// says so falsely is its own fault, and another plays.
func TestJudgeIsNotBelieved(t *testing.T) {
	book := judge.OpenBook(t.TempDir() + "/judges")
	f, play := judgedFixture(t, &agon.Gate{Kappa: 0.6, FalseAccepts: 0.2}, book)
	at := f.clock.Now()
	must(t, book.Add(measured("good", at, 0)))
	must(t, book.Add(measured("own", at, 0)))
	for _, c := range []struct {
		name, own, model string
		spoil            func(*client.Result)
		taken            bool
	}{
		{"any that passed, with its calls", "", "good", func(*client.Result) {}, true},
		{"without calls", "", "good", func(r *client.Result) { r.Receipts = nil }, false},
		{"without those of one task", "", "good", func(r *client.Result) { r.Receipts = r.Receipts[1:] }, false},
		{"with calls of another model", "", "good", func(r *client.Result) { r.Receipts[0].Model = "cheap" }, false},
		{"with calls that the agent made", "", "good", func(r *client.Result) { r.Receipts[0].Payer = gateway.PayerRun }, false},
		{"with calls that a script answered", "", "good", func(r *client.Result) { r.Receipts[0].Provider = agon.Script }, false},
		{"with calls that failed", "", "good", func(r *client.Result) { r.Receipts[0].Outcome = "provider_error" }, false},
		{"nothing to judge", "", "good", func(r *client.Result) { r.Receipts, r.Scores[0].Value = nil, 0 }, true},
		{"the server's own", "own", "own", func(*client.Result) {}, true},
		{"another than the server's own", "own", "good", func(*client.Result) {}, false},
		{"words where the server has a judge", "own", "", func(r *client.Result) { r.Scores[0].Scorer = "fake-1+lexical-1" }, false},
	} {
		f.cfg.Kinds["fake"] = &judgedKind{own: c.own}
		e := f.submit(miner1, c.name)
		l := f.claim(val1)
		r := judgedResult(l, c.model, 0.5)
		c.spoil(&r)
		reply := f.result(val1, l, r)
		if taken := reply.State == agon.RunScored; taken != c.taken {
			t.Errorf("%s: %+v", c.name, reply)
		}
		play(map[bool]string{true: "own", false: "good"}[c.own != ""], 0.5)
		if d := f.decided(e.ID); d == nil {
			t.Errorf("%s: not decided after an honest validator played", c.name)
		}
	}
	// The standing follows the server's own judge: what another one showed opens nothing.
	f.cfg.Kinds["fake"] = &judgedKind{own: "unknown"}
	if s := f.gaugeShown(); s.Seats || !slices.ContainsFunc(s.Judges, func(j client.Judge) bool { return j.Passed }) {
		t.Errorf("standing %+v", s)
	}
	checkInvariants(t, f.cfg.Store)
}

// What compares words passes no gate, whatever it did on labelled cases.
func TestWordsPassNoGate(t *testing.T) {
	book := judge.OpenBook(t.TempDir() + "/judges")
	f, _ := judgedFixture(t, &agon.Gate{Kappa: 0.6, FalseAccepts: 0.2}, book)
	r := measured("lexical", f.clock.Now(), 0)
	r.Demo = true
	must(t, book.Add(r))
	if s := f.gaugeShown(); s.Seats || s.Judges[0].Passed || !strings.Contains(s.Sentence, "demos") {
		t.Errorf("standing %+v", s)
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
