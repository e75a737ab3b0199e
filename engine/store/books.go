package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/book"
)

// AppendBooks applies entries of the gateway's books in order, all or none,
// and returns when they are durable. A hold that is settled in the same batch
// never becomes a row.
func (s *Store) AppendBooks(ctx context.Context, batch []book.Entry) error {
	// Outside the transaction: the single writer is not to wait for encoding.
	bodies := make([]string, len(batch))
	settled := make(map[string]bool, len(batch))
	for i, e := range batch {
		if e.Op != book.Settle {
			continue
		}
		settled[e.Account+"\x00"+e.Call] = true
		if e.Receipt != nil {
			b, err := json.Marshal(e.Receipt)
			if err != nil {
				return fmt.Errorf("encode receipt: %w", err)
			}
			bodies[i] = string(b)
		}
	}
	return s.Write(ctx, func(t *Tx) error {
		held := make(map[string]bool, len(batch))
		spent := map[string]agon.Budget{}
		var order []string
		for i, e := range batch {
			if err := t.bookEntry(e, bodies[i], held, settled); err != nil {
				return fmt.Errorf("%s in account %s: %w", e.Op, e.Account, err)
			}
			if e.Op == book.Settle {
				sum, known := spent[e.Account]
				if !known {
					order = append(order, e.Account)
				}
				sum.Micros += e.Amount.Micros
				sum.Calls += e.Amount.Calls
				sum.Tokens += e.Amount.Tokens
				spent[e.Account] = sum
			}
		}
		for _, name := range order {
			a := spent[name]
			if err := t.exec1(`UPDATE gateway_accounts SET spent_micros = spent_micros + $1, spent_calls = spent_calls + $2,
				spent_tokens = spent_tokens + $3 WHERE name = $4`, int64(a.Micros), a.Calls, a.Tokens, name); err != nil {
				return fmt.Errorf("book in account %s: %w", name, err)
			}
		}
		return nil
	})
}

func (t *Tx) bookEntry(e book.Entry, body string, held, settled map[string]bool) error {
	key := e.Account + "\x00" + e.Call
	switch e.Op {
	case book.Open:
		_, err := t.exec(`INSERT INTO gateway_accounts
			(name, run, attempt, limit_micros, limit_calls, limit_tokens, limit_ms, opened_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name) DO UPDATE SET closed = 0`,
			e.Account, e.Run, int64(e.Attempt), int64(e.Amount.Micros), e.Amount.Calls, e.Amount.Tokens, e.Amount.TimeMS, micros(e.At))
		return err
	case book.Reserve:
		if settled[key] {
			held[key] = true
			return nil
		}
		_, err := t.exec(`INSERT INTO gateway_holds (account, call, micros, calls, tokens) VALUES ($1, $2, $3, $4, $5)`,
			e.Account, e.Call, int64(e.Amount.Micros), e.Amount.Calls, e.Amount.Tokens)
		return err
	case book.Settle:
		if !held[key] {
			if err := t.exec1(`DELETE FROM gateway_holds WHERE account = $1 AND call = $2`, e.Account, e.Call); err != nil {
				return err
			}
		}
		if e.Receipt == nil {
			return nil
		}
		_, err := t.exec(`INSERT INTO gateway_receipts (run, attempt, n, account, body) VALUES ($1, $2, $3, $4, $5)`,
			e.Run, int64(e.Attempt), e.Receipt.N, e.Account, body)
		return err
	case book.Close:
		return t.exec1(`UPDATE gateway_accounts SET closed = 1 WHERE name = $1`, e.Account)
	}
	if e.Op == book.Seal {
		_, err := t.exec(`INSERT INTO gateway_sealed (run, attempt, at) VALUES ($1, $2, $3) ON CONFLICT (run, attempt) DO NOTHING`,
			e.Run, int64(e.Attempt), micros(e.At))
		return err
	}
	return fmt.Errorf("unknown entry %q", e.Op)
}

const accountColumns = `name, run, attempt, limit_micros, limit_calls, limit_tokens, limit_ms, spent_micros, spent_calls,
	spent_tokens, opened_at, closed`

type bookRow struct {
	book.Account
	run     string
	attempt int
}

func scanAccount(r scanner) (a bookRow, err error) {
	var opened, closed int64
	err = r.Scan(&a.Name, &a.run, &a.attempt, &a.Limit.Micros, &a.Limit.Calls, &a.Limit.Tokens, &a.Limit.TimeMS,
		&a.Spent.Micros, &a.Spent.Calls, &a.Spent.Tokens, &opened, &closed)
	a.OpenedAt, a.Closed = fromMicros(opened), closed != 0
	return a, err
}

type holdRow struct {
	account, call string
	amount        agon.Budget
}

func scanHold(r scanner) (h holdRow, err error) {
	err = r.Scan(&h.account, &h.call, &h.amount.Micros, &h.amount.Calls, &h.amount.Tokens)
	return h, err
}

func scanReceipt(r scanner) (x agon.Receipt, err error) {
	var body string
	if err := r.Scan(&body); err != nil {
		return x, err
	}
	return x, json.Unmarshal([]byte(body), &x)
}

// RunBooks returns the accounts of an attempt, by name, with their holds and
// the last receipt of its chain. No account is not an error.
func (s *Store) RunBooks(ctx context.Context, run string, attempt int) (book.Run, error) {
	out := book.Run{Run: run, Attempt: attempt}
	err := s.Read(ctx, func(t *Tx) error {
		rows, err := many(t, scanAccount, `SELECT `+accountColumns+` FROM gateway_accounts WHERE run = $1 AND attempt = $2 ORDER BY name`, run, int64(attempt))
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := t.holds(&r.Account); err != nil {
				return err
			}
			out.Accounts = append(out.Accounts, r.Account)
		}
		sealed, err := one(t, scanInt, `SELECT count(*) FROM gateway_sealed WHERE run = $1 AND attempt = $2`, run, int64(attempt))
		if err != nil {
			return err
		}
		out.Sealed = sealed > 0
		last, err := one(t, scanReceipt, `SELECT body FROM gateway_receipts WHERE run = $1 AND attempt = $2 ORDER BY n DESC LIMIT 1`, run, int64(attempt))
		switch {
		case errors.Is(err, ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		out.Last = &last
		return nil
	})
	return out, err
}

func (t *Tx) holds(a *book.Account) error {
	list, err := many(t, scanHold, `SELECT account, call, micros, calls, tokens FROM gateway_holds WHERE account = $1 ORDER BY call`, a.Name)
	if err != nil {
		return err
	}
	a.Holds = make(map[string]agon.Budget, len(list))
	for _, h := range list {
		a.Holds[h.call] = h.amount
	}
	return nil
}

// OpenBooks returns every attempt that has an account which was not closed: at
// the start of a gateway, what the one before it left.
func (s *Store) OpenBooks(ctx context.Context) ([]book.Run, error) {
	type key struct {
		run     string
		attempt int
	}
	var keys []key
	err := s.Read(ctx, func(t *Tx) error {
		rows, err := many(t, scanAccount, `SELECT `+accountColumns+` FROM gateway_accounts WHERE closed = 0 ORDER BY run, attempt, name`)
		for _, r := range rows {
			if k := (key{r.run, r.attempt}); len(keys) == 0 || keys[len(keys)-1] != k {
				keys = append(keys, k)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]book.Run, 0, len(keys))
	for _, k := range keys {
		r, err := s.RunBooks(ctx, k.run, k.attempt)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// GatewayReceipts returns receipts of an attempt's chain after n, in its
// order, at most limit.
func (s *Store) GatewayReceipts(ctx context.Context, run string, attempt int, after int64, limit int) (out []agon.Receipt, err error) {
	err = s.Read(ctx, func(t *Tx) error {
		out, err = many(t, scanReceipt, `SELECT body FROM gateway_receipts WHERE run = $1 AND attempt = $2 AND n > $3 ORDER BY n LIMIT $4`,
			run, int64(attempt), after, limit)
		return err
	})
	return out, err
}

// CheckBooks checks what must hold of the books at every moment, and returns
// a line for each violation: no account is over its limit, what was spent is
// what its receipts say, holds belong to open accounts, chains have no gap.
func (s *Store) CheckBooks(ctx context.Context) ([]string, error) {
	var bad []string
	err := s.Read(ctx, func(t *Tx) error {
		bad = nil
		accounts, err := many(t, scanAccount, `SELECT `+accountColumns+` FROM gateway_accounts ORDER BY name`)
		if err != nil {
			return err
		}
		sums := map[string]agon.Micros{}
		type link struct {
			run           string
			attempt, n    int64
			account, body string
		}
		links, err := many(t, func(r scanner) (l link, err error) {
			err = r.Scan(&l.run, &l.attempt, &l.n, &l.account, &l.body)
			return l, err
		}, `SELECT run, attempt, n, account, body FROM gateway_receipts ORDER BY run, attempt, n`)
		if err != nil {
			return err
		}
		ids := map[string]bool{}
		var before link
		for _, l := range links {
			var r agon.Receipt
			if err := json.Unmarshal([]byte(l.body), &r); err != nil {
				return fmt.Errorf("decode receipt: %w", err)
			}
			want := int64(1)
			if l.run == before.run && l.attempt == before.attempt {
				want = before.n + 1
			}
			before = l
			if l.n != want || r.N != l.n {
				bad = append(bad, fmt.Sprintf("run %s attempt %d: receipt %d (%d) where %d is due", l.run, l.attempt, l.n, r.N, want))
			}
			if r.Cost < 0 || r.Cost > r.Reserved {
				bad = append(bad, fmt.Sprintf("receipt %s: cost %d of %d reserved", r.ID, r.Cost, r.Reserved))
			}
			if ids[r.ID] {
				bad = append(bad, "receipt "+r.ID+" stands twice")
			}
			ids[r.ID] = true
			sums[l.account] += r.Cost
		}
		for _, a := range accounts {
			if err := t.holds(&a.Account); err != nil {
				return err
			}
			m, c, k := a.Spent.Micros, a.Spent.Calls, a.Spent.Tokens
			for _, h := range a.Holds {
				m, c, k = m+h.Micros, c+h.Calls, k+h.Tokens
			}
			if m > a.Limit.Micros || c > a.Limit.Calls || (a.Limit.Tokens > 0 && k > a.Limit.Tokens) {
				bad = append(bad, fmt.Sprintf("account %s: %d micros, %d calls, %d tokens spent and held of %+v", a.Name, m, c, k, a.Limit))
			}
			if sums[a.Name] != a.Spent.Micros {
				bad = append(bad, fmt.Sprintf("account %s: spent %d, receipts say %d", a.Name, a.Spent.Micros, sums[a.Name]))
			}
			if a.Closed && len(a.Holds) > 0 {
				bad = append(bad, fmt.Sprintf("account %s is closed and holds %d calls", a.Name, len(a.Holds)))
			}
		}
		stray, err := many(t, scanHold, `SELECT account, call, micros, calls, tokens FROM gateway_holds
			WHERE account NOT IN (SELECT name FROM gateway_accounts) ORDER BY account, call`)
		for _, h := range stray {
			bad = append(bad, "hold "+strings.ToValidUTF8(h.call, "?")+" belongs to no account")
		}
		return err
	})
	slices.Sort(bad)
	return bad, err
}
