package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/gateway/book"
)

// Who pays for a call: there are no others.
const (
	payerRun      = PayerRun
	payerPlatform = PayerJudge
)

// Journal keeps the books through a crash. *store.Store is one.
type Journal interface {
	// AppendBooks applies entries in order, all or none, and returns when they
	// are durable. The books call it once at a time and never repeat a batch.
	AppendBooks(ctx context.Context, batch []book.Entry) error
	// RunBooks returns what is kept of one attempt; none is not an error.
	RunBooks(ctx context.Context, run string, attempt int) (book.Run, error)
	// OpenBooks returns the attempts whose accounts were not closed.
	OpenBooks(ctx context.Context) ([]book.Run, error)
}

// BooksConfig is what books are made of.
type BooksConfig struct {
	// Journal is where they are durable; nil: they live as long as the process.
	// A journal belongs to one gateway at a time.
	Journal Journal
	// Key signs receipts (ed25519); nil: a new one, which proves nothing later.
	Key   *auth.Key
	Clock func() time.Time // default time.Now
	// Linger is how long a reservation may stay in memory only while its call
	// is under way (default 1 ms): a call that is quicker costs one commit, not
	// two. No byte of a reply leaves before its reservation is durable.
	Linger time.Duration
}

// maxIdle bounds the attempts without a session that are kept in memory. Where
// there is a journal an older one is read back when it is opened again.
const maxIdle = 10_000

// Books keeps the accounts and the chains of receipts of attempts. Safe for
// concurrent use. In memory they are exact at once; waiting for a commit makes
// them durable, many callers with one write.
type Books struct {
	cfg BooksConfig

	mu      sync.Mutex
	runs    map[runKey]*runBooks // guarded by mu
	idle    []runKey             // runs without sessions, oldest first; guarded by mu
	pending *commit              // entries that no flush has taken; guarded by mu
	busy    bool                 // a flush is under way; guarded by mu
	broken  error                // a commit failed: nothing may be promised any more; guarded by mu
}

type runKey struct {
	run     string
	attempt int
}

// runBooks is one attempt. Guarded by Books.mu.
type runBooks struct {
	key      runKey
	accounts map[string]*openAccount
	n        int64 // receipts in the chain
	head     agon.Digest
	users    int  // open sessions
	sealed   bool // its statement is signed: nothing is opened any more
}

// openAccount is one budget. Guarded by Books.mu.
type openAccount struct {
	*Account
	name   string
	limit  agon.Budget
	opened time.Time
	users  int
}

// commit is a batch on its way to the journal.
type commit struct {
	entries []book.Entry
	done    chan struct{}
	err     error // read after done
}

// NewBooks returns books over what the journal holds. Reservations that a
// crash left open are released and their accounts closed: the sessions that
// made them are gone.
func NewBooks(ctx context.Context, c BooksConfig) (*Books, error) {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Linger <= 0 {
		c.Linger = time.Millisecond
	}
	if c.Key == nil {
		k, err := NewKey()
		if err != nil {
			return nil, err
		}
		c.Key = k
	}
	if c.Key.Scheme() != auth.Ed25519 {
		return nil, errors.New("open books: the gateway's key is not ed25519")
	}
	b := &Books{cfg: c, runs: map[runKey]*runBooks{}}
	if c.Journal == nil {
		return b, nil
	}
	left, err := c.Journal.OpenBooks(ctx)
	if err != nil {
		return nil, fmt.Errorf("open books: %w", err)
	}
	for _, r := range left {
		var batch []book.Entry
		for _, a := range r.Accounts {
			calls := make([]string, 0, len(a.Holds))
			for id := range a.Holds {
				calls = append(calls, id)
			}
			slices.Sort(calls)
			for _, id := range calls {
				batch = append(batch, book.Entry{Op: book.Settle, Run: r.Run, Attempt: r.Attempt, Account: a.Name, Call: id, At: c.Clock()})
			}
			if !a.Closed {
				batch = append(batch, book.Entry{Op: book.Close, Run: r.Run, Attempt: r.Attempt, Account: a.Name, At: c.Clock()})
			}
		}
		if err := c.Journal.AppendBooks(ctx, batch); err != nil {
			return nil, fmt.Errorf("release what run %s left: %w", r.Run, err)
		}
	}
	return b, nil
}

// Signer is the address of the key that signs receipts.
func (b *Books) Signer() string { return b.cfg.Key.SS58() }

// errBroken tells that the books could not be written. Nothing is accepted
// after it: memory knows more than the journal, and only a restart compares them.
var errBroken = errors.New("the gateway's books cannot be written")

// account is an account of one attempt, held by a session.
type account struct {
	b    *Books
	run  *runBooks
	acct *openAccount
}

// open joins or makes the account name of an attempt. All who join one must
// name the same limit: an account is a budget, not a wish.
func (b *Books) open(ctx context.Context, run string, attempt int, name string, limit agon.Budget) (*account, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return nil, b.broken
	}
	key := runKey{run, attempt}
	r, err := b.runOf(ctx, key)
	if err != nil {
		return nil, err
	}
	if r.sealed {
		return nil, fmt.Errorf("open account %s: %w", name, errSealed)
	}
	a := r.accounts[name]
	if a != nil && a.limit != limit {
		return nil, fmt.Errorf("open account %s: it has the limit %+v, not %+v", name, a.limit, limit)
	}
	if a == nil {
		acc, err := NewAccount(limit)
		if err != nil {
			return nil, err
		}
		a = &openAccount{Account: acc, name: name, limit: limit, opened: b.cfg.Clock().UTC()}
		r.accounts[name] = a
	}
	if a.users == 0 {
		b.add(book.Entry{Op: book.Open, Account: name, Run: run, Attempt: attempt, Amount: limit, At: a.opened})
	}
	a.users++
	r.users++
	return &account{b, r, a}, nil
}

// runOf returns the books of an attempt. The caller holds mu.
func (b *Books) runOf(ctx context.Context, key runKey) (*runBooks, error) {
	if r := b.runs[key]; r != nil {
		return r, nil
	}
	r := &runBooks{key: key, accounts: map[string]*openAccount{}}
	if b.cfg.Journal != nil {
		// Under the lock: two sessions of an attempt must find one chain.
		if err := b.load(ctx, r); err != nil {
			return nil, err
		}
	}
	b.runs[key] = r
	return r, nil
}

// load reads what the journal has of an attempt.
func (b *Books) load(ctx context.Context, r *runBooks) error {
	was, err := b.cfg.Journal.RunBooks(ctx, r.key.run, r.key.attempt)
	if err != nil {
		return fmt.Errorf("read books of run %s: %w", r.key.run, err)
	}
	for _, x := range was.Accounts {
		acc, err := NewAccount(x.Limit)
		if err != nil {
			return err
		}
		acc.spent = Amount{x.Spent.Micros, x.Spent.Calls, x.Spent.Tokens}
		r.accounts[x.Name] = &openAccount{Account: acc, name: x.Name, limit: x.Limit, opened: x.OpenedAt}
	}
	if was.Last != nil {
		r.n, r.head = was.Last.N, ReceiptHash(*was.Last)
	}
	r.sealed = was.Sealed
	return nil
}

// reserve holds want for the call id, or returns *ErrBudget and holds nothing.
// What it returns is durable when the commit is waited for.
func (a *account) reserve(id string, want Amount) (*commit, error) {
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return nil, b.broken
	}
	if t := a.acct.limit.TimeMS; t > 0 && b.cfg.Clock().Sub(a.acct.opened) >= time.Duration(t)*time.Millisecond {
		return nil, &ErrBudget{What: "time", Left: a.acct.Left()}
	}
	if err := a.acct.Reserve(id, want); err != nil {
		return nil, err
	}
	c := b.add(book.Entry{Op: book.Reserve, Account: a.acct.name, Run: a.run.key.run, Attempt: a.run.key.attempt, Call: id, Amount: want.budget(), At: b.cfg.Clock().UTC()})
	return c, nil
}

// settle books what the call used, clamped to its reservation, appends its
// receipt to the chain and returns both when they are durable. A second settle
// of a call is an error and books nothing. rec nil releases the reservation.
func (a *account) settle(ctx context.Context, id string, used Amount, rec *agon.Receipt) (Amount, error) {
	b := a.b
	b.mu.Lock()
	if b.broken != nil {
		b.mu.Unlock()
		return Amount{}, b.broken
	}
	if rec == nil {
		used = Amount{}
	}
	booked, err := a.acct.Settle(id, used)
	if err != nil {
		b.mu.Unlock()
		return Amount{}, err
	}
	if rec != nil {
		a.run.n++
		rec.Cost, rec.N, rec.Prev, rec.Signer = booked.Micros, a.run.n, a.run.head, b.cfg.Key.SS58()
		a.run.head = ReceiptHash(*rec)
	}
	c := b.add(book.Entry{
		Op: book.Settle, Account: a.acct.name, Run: a.run.key.run, Attempt: a.run.key.attempt, Call: id,
		Amount: booked.budget(), Receipt: rec, At: b.cfg.Clock().UTC(),
	})
	b.mu.Unlock()
	return booked, b.wait(ctx, c)
}

// until is when the account's time ends; zero if it has no end.
func (a *account) until() time.Time {
	if a.acct.limit.TimeMS <= 0 {
		return time.Time{}
	}
	return a.acct.opened.Add(time.Duration(a.acct.limit.TimeMS) * time.Millisecond)
}

// balance tells what was booked and what is left.
func (a *account) balance() (spent, left Amount) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	return a.acct.Spent(), a.acct.Left()
}

// close leaves the account and returns when that is durable. The last session
// that leaves closes it; what was spent stays spent if it is opened again.
func (a *account) close(ctx context.Context) error {
	b := a.b
	b.mu.Lock()
	a.acct.users--
	a.run.users--
	if a.acct.users == 0 {
		if n := a.acct.Open(); n > 0 {
			b.mu.Unlock()
			return fmt.Errorf("close account %s: %d calls are open", a.acct.name, n)
		}
		c := b.add(book.Entry{Op: book.Close, Account: a.acct.name, Run: a.run.key.run, Attempt: a.run.key.attempt, At: b.cfg.Clock().UTC()})
		if a.run.users == 0 {
			b.retire(a.run)
		}
		b.mu.Unlock()
		return b.wait(ctx, c)
	}
	b.mu.Unlock()
	return nil
}

// retire keeps an attempt without sessions for a while. The caller holds mu.
func (b *Books) retire(r *runBooks) {
	b.idle = append(b.idle, r.key)
	for len(b.idle) > maxIdle {
		old := b.runs[b.idle[0]]
		b.idle = b.idle[1:]
		if old != nil && old.users == 0 {
			delete(b.runs, old.key)
		}
	}
}

// add queues an entry and makes sure that it is written soon. The caller holds mu.
func (b *Books) add(e book.Entry) *commit {
	if b.pending == nil {
		b.pending = &commit{done: make(chan struct{})}
		if b.cfg.Journal == nil {
			// Nothing to write: everybody is told when they ask.
			close(b.pending.done)
		} else {
			c := b.pending
			time.AfterFunc(b.cfg.Linger, func() { b.flush(c) })
		}
	}
	c := b.pending
	if b.cfg.Journal == nil {
		if e.Receipt != nil {
			c.err = b.sign([]book.Entry{e})
		}
		b.pending = nil
		return c
	}
	c.entries = append(c.entries, e)
	return c
}

// wait returns when c is durable.
func (b *Books) wait(ctx context.Context, c *commit) error {
	b.flush(c)
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flush makes sure that c is being written, or will be by the writer at work.
func (b *Books) flush(c *commit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy || b.pending != c {
		return
	}
	b.busy = true
	go b.drain() // ends when nothing is pending
}

// drain writes batch after batch: what came while one was written is the next.
func (b *Books) drain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.pending != nil {
		batch := b.pending
		b.pending = nil
		batch.err = b.broken
		b.mu.Unlock()
		if batch.err == nil {
			batch.err = b.write(batch)
		}
		b.mu.Lock()
		if batch.err != nil && b.broken == nil {
			b.broken = fmt.Errorf("%w: %w", errBroken, batch.err)
		}
		close(batch.done)
	}
	b.busy = false
}

// write signs a batch and hands it to the journal.
func (b *Books) write(c *commit) error {
	if err := b.sign(c.entries); err != nil {
		return err
	}
	// Not a caller's context: the batch belongs to many.
	return b.cfg.Journal.AppendBooks(context.Background(), c.entries)
}

// sign puts a signature on the last receipt of each chain in a batch. Nobody
// else looks at the receipts before the commit is done.
func (b *Books) sign(entries []book.Entry) error {
	done := map[runKey]bool{}
	for _, e := range slices.Backward(entries) {
		key := runKey{e.Run, e.Attempt}
		if e.Receipt == nil || done[key] {
			continue
		}
		done[key] = true
		if err := signReceipt(b.cfg.Key, e.Receipt, ReceiptHash(*e.Receipt)); err != nil {
			return err
		}
	}
	return nil
}

// waitHeld waits until a reservation is durable.
func (a *account) waitHeld(ctx context.Context, c *commit) error { return a.b.wait(ctx, c) }

func (a Amount) budget() agon.Budget {
	return agon.Budget{Micros: a.Micros, Calls: a.Calls, Tokens: a.Tokens}
}
