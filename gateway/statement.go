package gateway

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/book"
)

// closeDomain keeps a signature over a statement from being one over anything else.
const closeDomain = "agon-statement-v1\n"

// statementText is what a statement's signature covers: every field but sig, a
// line each, in this order. No field holds a line end (Check).
func statementText(s *agon.Statement) []byte {
	b := append([]byte(closeDomain), s.Run...)
	b = append(b, '\n')
	for _, n := range []int64{int64(s.Attempt), s.Calls, int64(s.Cost)} {
		b = strconv.AppendInt(b, n, 10)
		b = append(b, '\n')
	}
	b = append(b, s.Head...)
	b = append(b, '\n')
	return append(b, s.Signer...)
}

// Seal ends an attempt for good and says what was called in it: no session of
// it opens after this, at this gateway, and asking again gives the same
// statement. Its sessions must be closed. It is durable on return.
func (b *Books) Seal(ctx context.Context, run string, attempt int) (*agon.Statement, error) {
	b.mu.Lock()
	if b.broken != nil {
		b.mu.Unlock()
		return nil, b.broken
	}
	r, err := b.runOf(ctx, runKey{run, attempt})
	if err != nil {
		b.mu.Unlock()
		return nil, err
	}
	if r.users > 0 {
		b.mu.Unlock()
		return nil, fmt.Errorf("seal attempt %d of run %s: %w", attempt, run, errSessionsOpen)
	}
	s := &agon.Statement{Run: run, Attempt: attempt, Calls: r.n, Head: r.head, Signer: b.cfg.Key.SS58()}
	for _, a := range r.accounts {
		s.Cost += a.Spent().Micros
	}
	var c *commit
	if !r.sealed {
		r.sealed = true
		c = b.add(book.Entry{Op: book.Seal, Run: run, Attempt: attempt, At: b.cfg.Clock().UTC()})
	}
	b.retire(r)
	b.mu.Unlock()
	if c != nil {
		if err := b.wait(ctx, c); err != nil {
			return nil, err
		}
	}
	sig, err := b.cfg.Key.Sign(statementText(s))
	if err != nil {
		return nil, fmt.Errorf("sign statement: %w", err)
	}
	s.Sig = hex.EncodeToString(sig)
	return s, nil
}

var (
	errSessionsOpen = errors.New("it has open sessions")
	errSealed       = errors.New("the attempt is closed: its statement is signed")
)

// Seal closes the attempt's sessions that are open here and returns its statement.
func (g *Gateway) Seal(ctx context.Context, run string, attempt int) (*agon.Statement, error) {
	g.mu.RLock()
	var open []*session
	for _, s := range g.sessions {
		if s.policy.Run == run && s.policy.Attempt == attempt {
			open = append(open, s)
		}
	}
	g.mu.RUnlock()
	for _, s := range open {
		if err := s.Close(); err != nil {
			return nil, fmt.Errorf("seal attempt %d of run %s: %w", attempt, run, err)
		}
	}
	return g.cfg.Books.Seal(ctx, run, attempt)
}

// SealAt is Seal for callers that also know gateways elsewhere: this one has no other.
func (g *Gateway) SealAt(ctx context.Context, _, _, run string, attempt int) (*agon.Statement, error) {
	return g.Seal(ctx, run, attempt)
}

// CheckStatement says what is wrong with a statement beside the receipts of its
// attempt: every call must be there, none more, in the order and for the money
// that the gateway signed, the signatures that receipts have good. trusted are the
// keys to accept; empty accepts any.
func CheckStatement(s *agon.Statement, run string, attempt int, receipts []agon.Receipt, trusted []string) error {
	return new(Checker).statement(s, run, attempt, receipts, trusted, true)
}

// Statement is CheckStatement with one signature, the statement's: it covers
// the end of the chain, and so all that the receipts say. What their own
// signatures are worth is not looked at: keep the statement, not those.
func (k *Checker) Statement(s *agon.Statement, run string, attempt int, receipts []agon.Receipt, trusted []string) error {
	return k.statement(s, run, attempt, receipts, trusted, false)
}

func (k *Checker) statement(s *agon.Statement, run string, attempt int, receipts []agon.Receipt, trusted []string, own bool) error {
	switch {
	case s == nil:
		return errors.New("the gateway's closing statement is missing")
	case s.Run != run || s.Attempt != attempt:
		return errors.New("the statement is of another run or attempt")
	case len(trusted) > 0 && !slices.Contains(trusted, s.Signer):
		return fmt.Errorf("the statement is signed by %.60q, which is not a gateway of this arena", s.Signer)
	}
	if err := k.signature(string(statementText(s)), s.Signer, s.Sig); err != nil {
		return fmt.Errorf("the statement: %w", err)
	}
	if int64(len(receipts)) != s.Calls {
		return fmt.Errorf("the gateway answered %d calls, %d receipts came", s.Calls, len(receipts))
	}
	c := k.chain(receipts, []string{s.Signer}, true, own)
	switch {
	case len(c.Problems) > 0:
		return fmt.Errorf("receipt %d: %s", c.Problems[0].N, c.Problems[0].Message)
	case len(receipts) > 0 && (receipts[0].Run != run || receipts[0].Attempt != attempt):
		return errors.New("the receipts belong to another run or attempt")
	case c.Head != s.Head:
		return errors.New("the receipts do not end where the gateway's chain does")
	case c.Cost != s.Cost:
		return fmt.Errorf("the receipts sum to %d micro-dollars, the gateway's statement to %d", c.Cost, s.Cost)
	}
	return nil
}
