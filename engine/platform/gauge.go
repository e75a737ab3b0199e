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

// Arenas whose judge errs (kind.Gauged) seat nobody by a judge that was not measured.
// While none passes the arena's gate decisions wait, and nothing is lost: the sweeper
// goes on when a calibration comes (recalibrated). Where one passes, scores of others
// move no seat.

// gauge is how an arena's judges stand; nil: its scores decide as they come.
type gauge struct {
	open     map[string]bool // the judges whose scores count
	sentence string
	records  []judge.Record
}

// shut says that no seat is decided.
func (g *gauge) shut() bool { return g != nil && len(g.open) == 0 }

// counts says whether a score's scorer is one whose scores move seats.
func (g *gauge) counts(scorer string) bool {
	_, by, _ := strings.Cut(scorer, "+")
	return g.open[by]
}

func (p *Platform) gauge(a agon.Arena) (*gauge, error) {
	k, ok := p.cfg.Kinds[a.Kind].(kind.Gauged)
	if !ok || a.Gate == nil || a.Gate.Demo {
		return nil, nil
	}
	list, err := p.calibrations()
	if err != nil {
		return nil, err
	}
	g := &gauge{records: list}
	g.open, g.sentence = judge.Standing(*a.Gate, k.Gauge(), list)
	return g, nil
}

func (p *Platform) calibrations() ([]judge.Record, error) {
	if p.cfg.Gauged == nil {
		return nil, nil
	}
	return p.cfg.Gauged()
}

// ungauged counts the scores of a submission by judges whose scores move no seat.
func (p *Platform) ungauged(tx *store.Tx, a agon.Arena, submission string) (int, error) {
	if _, ok := p.cfg.Kinds[a.Kind].(kind.Gauged); !ok {
		return 0, nil
	}
	runs, err := tx.RunsOf(submission)
	if err != nil {
		return 0, err
	}
	return p.ungaugedOf(a, slices.DeleteFunc(runs, func(r store.Run) bool { return !counts(a, r) }))
}

// ungaugedOf is ungauged for runs.
func (p *Platform) ungaugedOf(a agon.Arena, runs []store.Run) (n int, err error) {
	g, err := p.gauge(a)
	if g == nil || err != nil {
		return 0, err
	}
	for _, r := range runs {
		if r.Fault != agon.FaultNone {
			continue // a zero that no judge gave
		}
		for _, s := range score.Given(r.Scores) {
			if !g.counts(s.Scorer) {
				n++
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
	now := ""
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
// they did on labelled cases; nil: its judge does not err.
func (p *Platform) JudgeStanding(a agon.Arena) (*client.JudgeStanding, error) {
	k, ok := p.cfg.Kinds[a.Kind].(kind.Gauged)
	if !ok || a.Gate == nil {
		return nil, nil
	}
	list, err := p.calibrations()
	if err != nil {
		return nil, err
	}
	return StandingOf(*a.Gate, k.Gauge(), list), nil
}

// StandingOf is JudgeStanding for a gate, a prompt and the calibrations on record.
func StandingOf(g agon.Gate, prompt string, list []judge.Record) *client.JudgeStanding {
	open, sentence := judge.Standing(g, prompt, list)
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
