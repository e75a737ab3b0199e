package local

import (
	"context"
	"errors"

	"github.com/agon-arena/agon/ledger"
)

// draft is what a copy of a ledger has applied.
type draft struct{ made []logged }

// Together lets f change a copy of the ledger, in one block. Where f returns nil what
// it did is the ledger's, durable on return; else nothing happened. f asks the copy
// only: the ledger itself waits until f is done.
func (l *Ledger) Together(ctx context.Context, f func(ledger.Full) error) error {
	return l.together(ctx, func(copied *Ledger) error { return f(copied) })
}

func (l *Ledger) together(ctx context.Context, f func(*Ledger) error) error {
	return l.submit(ctx, &job{together: f}).err
}

// takeOver lets f change a copy and takes its state. l.mu is held.
func (l *Ledger) takeOver(f func(*Ledger) error) ([]logged, error) {
	body, err := l.state.encode()
	if err != nil {
		return nil, err
	}
	s, err := decodeState(body)
	if err != nil {
		return nil, err
	}
	c := &Ledger{now: l.now, hyper: l.hyper, genesis: l.genesis, entropy: l.entropy, drand: l.drand, state: s, draft: &draft{}}
	c.newest.Store(s.Block)
	if err := f(c); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.state, c.dead = s, errors.New("the copy is the ledger's now")
	return c.draft.made, nil
}

// drafted applies a job to a copy.
func (l *Ledger) drafted(ctx context.Context, j *job) outcome {
	if err := ctx.Err(); err != nil {
		return outcome{err: err}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dead != nil:
		return outcome{err: l.dead}
	case j.body == nil && j.together == nil:
		return outcome{err: errors.New("a copy of a ledger takes calls only")}
	}
	var o outcome
	var made []logged
	if j.together != nil {
		made, o.err = l.takeOver(j.together)
	} else {
		o, made = l.state.applyBody(j.body)
	}
	l.draft.made = append(l.draft.made, made...)
	return o
}
