package gateway

import (
	"context"

	"github.com/agon-arena/agon"
)

// Books is where this gateway's money and receipts are. Hosts of other metered
// things on the same machine keep theirs there too: one journal, one key.
func (g *Gateway) Books() *Books { return g.cfg.Books }

// Purse is an account for calls that a host other than the gateway makes. Its
// receipts are a chain of their own, numbered from 1 for each (run, attempt)
// that it was opened with. Safe for concurrent use.
type Purse struct{ a *account }

// Purse opens the account of an attempt under that name, or joins it: then the
// limit must be the same.
func (b *Books) Purse(ctx context.Context, run string, attempt int, name string, limit agon.Budget) (*Purse, error) {
	a, err := b.open(ctx, run, attempt, name, limit)
	if err != nil {
		return nil, err
	}
	return &Purse{a}, nil
}

// Reserve holds want for the call id, or returns *ErrBudget and holds nothing.
func (p *Purse) Reserve(id string, want Amount) error {
	_, err := p.a.reserve(id, want)
	return err
}

// Settle books what the call used, clamped to its reservation, and appends r to
// the chain, with its cost, number, link and signer filled in. It returns when
// both are durable. r nil releases the reservation. A call is settled once.
func (p *Purse) Settle(ctx context.Context, id string, used Amount, r *agon.Receipt) (Amount, error) {
	if r != nil {
		r.Run, r.Attempt = p.a.run.key.run, p.a.run.key.attempt
	}
	return p.a.settle(ctx, id, used, r)
}

// Balance tells what was booked and what is neither spent nor held.
func (p *Purse) Balance() (spent, left Amount) { return p.a.balance() }

// Close leaves the account and returns when that is durable. It is an error
// while calls are open.
func (p *Purse) Close(ctx context.Context) error { return p.a.close(ctx) }
