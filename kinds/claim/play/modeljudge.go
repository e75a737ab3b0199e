package play

import (
	"context"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
)

// ModelJudge asks a model by the prompt of package judge.
type ModelJudge struct {
	// Model is the judge's; empty means the gateway's first, which the
	// scorer's version cannot name then.
	Model string
	// Cache keeps verdicts by case and prompt. Optional.
	Cache judge.Cache
	// Budget is that of one pair; zero means 50,000 µ$ and 6 calls.
	Budget agon.Budget
}

// Version implements SupportJudge.
func (m ModelJudge) Version() string { return judge.Scorer("support", judge.SupportPrompt(), m.Model) }

// Policy implements SupportJudge.
func (m ModelJudge) Policy() gateway.Policy {
	p := gateway.Policy{Models: []string{"*"}, Budget: m.Budget, Dialects: []string{gateway.DialectOpenAI}}
	if m.Model != "" {
		p.Models = []string{m.Model}
	}
	if p.Budget == (agon.Budget{}) {
		p.Budget = agon.Budget{Micros: 50_000, Calls: 6}
	}
	return p
}

// Support implements SupportJudge.
func (m ModelJudge) Support(ctx context.Context, open func() (gateway.Session, error), in SupportInput) (SupportVerdict, error) {
	s := &lazySession{open: open}
	j, err := judge.New(judge.Config{Session: s, Model: m.Model, Cache: m.Cache})
	if err != nil {
		return SupportVerdict{}, err
	}
	v, err := j.Support(ctx, judge.SupportCase{
		Claim:     in.Claim,
		Reference: judge.Side{Verdict: in.ReferenceOption, Justification: in.ReferenceJustification},
		Answer:    judge.Side{Verdict: in.Option, Justification: in.Justification, Citations: in.Citations},
	})
	if s.err != nil {
		return SupportVerdict{}, s.err
	}
	if err != nil {
		return SupportVerdict{}, err
	}
	return SupportVerdict{OK: v.SupportOK, Rationale: v.Rationale}, nil
}

// lazySession opens with the first call, so that a cached verdict costs no session.
type lazySession struct {
	gateway.Session // nil: only the methods below are used by a judge
	open            func() (gateway.Session, error)

	once sync.Once
	got  gateway.Session
	err  error
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
