package platform

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/store"
)

// Arenas whose judge errs (kind.Gauged) seat nobody by a judge that was not measured,
// and those whose judging lacks a part (kind.Propped) nobody by what stands in for it.
// Where the server has a judge of its own, it is the only one that counts.
// While none passes the arena's gate decisions wait, and nothing is lost: the sweeper
// goes on when a calibration comes (recalibrated), or the part with the next start.
// Where one passes, scores of others move no seat.

// gauge is how an arena's judges stand; nil: its scores decide as they come.
type gauge struct {
	errs bool            // its judges are measured
	open map[string]bool // the judges whose scores count, where they are
	prop *kind.Prop      // what stands in here; nil: nothing
	by   kind.Propped    // nil: nothing ever does
	// below says that the server's own judge was measured and is below the gate: what
	// it says would count for nothing, so nothing is played and paid for.
	below bool
}

// shut says that no seat is decided.
func (g *gauge) shut() bool { return g != nil && (g.prop != nil || g.errs && len(g.open) == 0) }

// propped says whether a score rests on what stands in.
func (g *gauge) propped(scorer string) bool { return g.by != nil && g.by.RestsOnProp(scorer) }

// counts says whether a score's scorer is one whose scores move seats.
func (g *gauge) counts(scorer string) bool {
	_, by, _ := strings.Cut(scorer, "+")
	return !g.propped(scorer) && (!g.errs || g.open[by])
}

func (p *Platform) gauge(a agon.Arena) (*gauge, error) {
	judged, errs := p.cfg.Kinds[a.Kind].(kind.Gauged)
	propped, may := p.cfg.Kinds[a.Kind].(kind.Propped)
	if !errs && !may || a.Gate == nil || a.Gate.Demo {
		return nil, nil
	}
	g := &gauge{errs: errs, by: propped}
	if may {
		g.prop = propped.Prop()
	}
	if errs {
		list, err := p.calibrations()
		if err != nil {
			return nil, err
		}
		own := OwnJudge(p.cfg.Kinds[a.Kind])
		g.open, _ = judge.Standing(*a.Gate, judged.Gauge(), own, list)
		g.below = own != "" && len(g.open) == 0 && slices.ContainsFunc(list, func(r judge.Record) bool { return r.Of(judged.Gauge()) && r.Scorer == own })
	}
	return g, nil
}

// OwnJudge is the judge of a kind as this server is set up, as scorers name it; "":
// it asks no model that has a name.
func OwnJudge(k kind.Kind) string {
	if _, by, _ := strings.Cut(k.Scorer(), "+"); judge.ScorerModels(by) != nil {
		return by
	}
	return ""
}

// misjudged says why the scores of a result are not what the arena's judge said, or
// "". A name is not believed by itself: whoever says that a model judged has calls of
// it in the attempt's receipts, one at least for each task of which something counts.
func (p *Platform) misjudged(a agon.Arena, r client.Result) string {
	k := p.cfg.Kinds[a.Kind]
	if _, ok := k.(kind.Gauged); !ok || a.Gate == nil || a.Gate.Demo {
		return ""
	}
	own := OwnJudge(k)
	asked := map[string]bool{}
	for _, x := range r.Receipts {
		if x.Payer == "platform" && x.Outcome == "ok" && x.Provider != agon.Script {
			asked[x.Task+"\n"+x.Model] = true
		}
	}
	for _, s := range r.Scores {
		_, by, _ := strings.Cut(s.Scorer, "+")
		if own != "" && by != own {
			return fmt.Sprintf("judged by %.150q, the arena's judge is %.150q: set AGON_JUDGE_MODEL", by, own)
		}
		models := judge.ScorerModels(by)
		if s.Value == 0 || s.Metrics[score.MetricUnscored] > 0 || models == nil {
			continue // no judge was needed, or none whose scores move seats
		}
		if !slices.ContainsFunc(models, func(m string) bool { return asked[s.Task+"\n"+m] }) {
			return fmt.Sprintf("it says that %.150q judged task %.80q, and no receipt shows that it was asked", by, s.Task)
		}
	}
	return ""
}

func (p *Platform) calibrations() ([]judge.Record, error) {
	if p.cfg.Gauged == nil {
		return nil, nil
	}
	return p.cfg.Gauged()
}

// Numbers of a decision under incentive.GateRule.
const (
	numUngauged = "ungauged" // scores that move no seat
	numPropped  = "propped"  // those of them that rest on what stands in
)

// ungauged counts the scores of a submission that move no seat; nil: there are none.
func (p *Platform) ungauged(tx *store.Tx, a agon.Arena, submission string) (map[string]float64, error) {
	g, err := p.gauge(a)
	if g == nil || err != nil {
		return nil, err
	}
	runs, err := tx.RunsOf(submission)
	if err != nil {
		return nil, err
	}
	return p.ungaugedOf(a, slices.DeleteFunc(runs, func(r store.Run) bool { return !counts(a, r) }))
}

// ungaugedOf is ungauged for runs.
func (p *Platform) ungaugedOf(a agon.Arena, runs []store.Run) (map[string]float64, error) {
	g, err := p.gauge(a)
	if g == nil || err != nil {
		return nil, err
	}
	var n map[string]float64
	for _, r := range runs {
		if r.Fault != agon.FaultNone {
			continue // a zero that no judge gave
		}
		for _, s := range score.Given(r.Scores) {
			if g.counts(s.Scorer) {
				continue
			}
			if n == nil {
				n = map[string]float64{}
			}
			n[numUngauged]++
			if g.propped(s.Scorer) {
				n[numPropped]++
			}
		}
	}
	return n, nil
}

// gauges are the calibrations that decisions last saw.
type gauges struct {
	mu   sync.Mutex
	seen string // guarded by mu
}

// recalibrated decides what waited for a judge, where a calibration came since it was
// last called.
func (p *Platform) recalibrated(ctx context.Context) error {
	list, err := p.calibrations()
	if err != nil {
		return err
	}
	now := "." // also the first look decides: what was lacking may have come with the start
	for _, r := range list {
		now += fmt.Sprintf("%s %d\n", r.Scorer, r.At.UnixMicro())
	}
	p.gauges.mu.Lock()
	defer p.gauges.mu.Unlock()
	if now == p.gauges.seen {
		return nil
	}
	queued := 0
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		queued = 0
		arenas, err := tx.Arenas()
		if err != nil {
			return err
		}
		for _, a := range arenas {
			g, err := p.gauge(a)
			if err != nil {
				return err
			}
			if g == nil || g.shut() {
				continue
			}
			n, err := p.decideReady(tx, a)
			if queued += n; err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.gauges.seen = now
	if queued > 0 {
		p.news(queued)
	}
	return nil
}

// JudgeStanding says whether an arena seats anybody by what its judges say, and how
// they did on labelled cases; nil: its judge does not err, and lacks nothing.
func (p *Platform) JudgeStanding(a agon.Arena) (*client.JudgeStanding, error) {
	if a.Gate == nil {
		return nil, nil
	}
	list, err := p.calibrations()
	if err != nil {
		return nil, err
	}
	return StandingOf(*a.Gate, p.cfg.Kinds[a.Kind], list), nil
}

// StandingOf is JudgeStanding for a gate, a kind as the server is set up, and the calibrations on record.
func StandingOf(g agon.Gate, k kind.Kind, list []judge.Record) *client.JudgeStanding {
	var out *client.JudgeStanding
	if x, ok := k.(kind.Gauged); ok {
		out = measuredStanding(g, x.Gauge(), OwnJudge(k), list)
	}
	if x, ok := k.(kind.Propped); ok {
		if prop := x.Prop(); prop != nil {
			if out == nil {
				out = &client.JudgeStanding{Seats: true, Judges: []client.Judge{}}
			}
			out.Seats = out.Seats && g.Demo
			out.Sentence = strings.TrimSpace(prop.Sentence(g.Demo) + " " + out.Sentence)
		}
	}
	return out
}

// measuredStanding is StandingOf for judges that are measured by a prompt.
func measuredStanding(g agon.Gate, prompt, own string, list []judge.Record) *client.JudgeStanding {
	open, sentence := judge.Standing(g, prompt, own, list)
	out := &client.JudgeStanding{Seats: g.Demo || len(open) > 0, Sentence: sentence, Judges: []client.Judge{}}
	for _, r := range list {
		if !r.Of(prompt) {
			continue
		}
		x := client.Judge{
			Model: r.Model, Scorer: r.Scorer, At: r.At, Set: r.Set, Tries: r.Tries, Cases: r.Cases, Failed: r.Failed,
			Kappa: r.Kappa, CI: r.CI[:], Accepts: r.FalseAcceptRate, Rejects: r.FalseRejectRate, Classes: []client.Class{},
		}
		x.Passed, x.Why = r.Against(g)
		for _, c := range slices.Sorted(maps.Keys(r.FalseAccept)) {
			x.Classes = append(x.Classes, client.Class{Class: c, Cases: r.Negatives[c], FalseAccept: r.FalseAccept[c]})
		}
		out.Judges = append(out.Judges, x)
	}
	return out
}
