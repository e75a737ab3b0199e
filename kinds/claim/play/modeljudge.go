package play

import (
	"context"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
)

// ModelJudge asks a model by the prompt of package judge.
type ModelJudge struct {
	// Models are the judge's and those that stand in for it, or its panel; empty
	// means the gateway's first, which the scorer's version cannot name then.
	Models []string
	// Panel is how many of Models judge each case; below 2: one.
	Panel int
	// Sleep is judge.Config's.
	Sleep func(ctx context.Context, d time.Duration) error
	// Budget is that of one pair; zero means 50,000 µ$ and 12 calls for each model.
	Budget agon.Budget
}

// Version implements SupportJudge.
func (m ModelJudge) Version() string { return judge.SupportScorer(m.Models, m.Panel) }

// Policy implements SupportJudge.
func (m ModelJudge) Policy() gateway.Policy {
	p := gateway.Policy{Models: []string{"*"}, Budget: m.Budget, Dialects: []string{gateway.DialectOpenAI}}
	if len(m.Models) > 0 {
		p.Models = m.Models
	}
	if n := max(len(m.Models), 1); p.Budget == (agon.Budget{}) {
		p.Budget = agon.Budget{Micros: 50_000 * agon.Micros(n), Calls: 12 * int64(n)}
	}
	return p
}

// Support implements SupportJudge.
func (m ModelJudge) Support(ctx context.Context, open func() (gateway.Session, error), in SupportInput) (SupportVerdict, error) {
	v, err := asking(m, open, 5, func(j *judge.Judge) (judge.SupportVerdict, error) { return j.Support(ctx, in.supportCase()) })
	if err != nil {
		return SupportVerdict{}, err
	}
	return SupportVerdict{OK: v.SupportOK, Rationale: v.Rationale, Votes: len(v.Votes), For: v.For()}, nil
}

// asking has a judge of m's models ask, each up to attempts times. What stopped the
// session from opening is its error.
func asking[V any](m ModelJudge, open func() (gateway.Session, error), attempts int, ask func(*judge.Judge) (V, error)) (V, error) {
	var none V
	s := &lazySession{open: open}
	c := judge.Config{Session: s, Panel: m.Panel, Attempts: attempts, Waits: judgeWaits, Sleep: s.sleeping(m.Sleep)}
	if len(m.Models) > 0 {
		c.Model, c.Others = m.Models[0], m.Models[1:]
	}
	j, err := judge.New(c)
	if err != nil {
		return none, err
	}
	v, err := ask(j)
	if s.err != nil {
		return none, s.err
	}
	return v, err
}

func (in SupportInput) supportCase() judge.SupportCase {
	return judge.SupportCase{
		Claim:     in.Claim,
		Reference: judge.Side{Verdict: in.ReferenceOption, Justification: in.ReferenceJustification},
		Answer:    judge.Side{Verdict: in.Option, Justification: in.Justification, Citations: in.Citations},
	}
}

// judgeWaits are between attempts after a failure of the provider: what is judged
// was paid for by others, so it is worth waiting for.
var judgeWaits = []time.Duration{time.Second, 5 * time.Second, 20 * time.Second, 40 * time.Second}

// lazySession opens with the first call, so that a cached verdict costs no session.
type lazySession struct {
	gateway.Session // nil: only the methods below are used by a judge
	open            func() (gateway.Session, error)

	once sync.Once
	got  gateway.Session
	err  error
}

// sleeping is sleep, but that it ends at once where no session could be opened: no
// time mends that.
func (l *lazySession) sleeping(sleep func(context.Context, time.Duration) error) func(context.Context, time.Duration) error {
	return func(ctx context.Context, d time.Duration) error {
		if l.session() == nil || l.err != nil {
			return l.err
		}
		if sleep != nil {
			return sleep(ctx, d)
		}
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *lazySession) session() gateway.Session {
	l.once.Do(func() { l.got, l.err = l.open() })
	return l.got
}

// BaseURL is empty if no session could be opened: the request is refused then.
func (l *lazySession) BaseURL() string {
	if s := l.session(); s != nil && l.err == nil {
		return s.BaseURL()
	}
	return ""
}

func (l *lazySession) Header() map[string]string {
	if s := l.session(); s != nil && l.err == nil {
		return s.Header()
	}
	return nil
}

func (l *lazySession) Spent() agon.Micros {
	if l.got == nil {
		return 0
	}
	return l.got.Spent()
}
