// Package store holds the SQL of the engine: one schema, one set of
// statements, for every driver below it (store/sqlite, store/postgres).
//
// Writes are durable when Write returns: a caller may acknowledge what it
// wrote. Reads see everything whose Write has returned.
package store

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
)

// ErrNotFound is returned by lookups of a row that does not exist.
var ErrNotFound = errors.New("row not found")

// ErrConflict is returned by inserts that a uniqueness rule refuses.
var ErrConflict = errors.New("row conflicts with another")

// ErrAway is what fails because the database is away, is full, or is not this
// process's to write any more. It may pass: the same call can be made again.
var ErrAway = errors.New("the database is away")

// Querier runs SQL inside one transaction.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Deferrer is a Querier that can put statements off, so that many of them cost one
// trip to a server.
type Deferrer interface {
	// Defer takes a statement that changes want rows (negative: any number) and runs it
	// before the next statement that is not put off, at the latest before the commit.
	// Where it fails or changes another number of rows nothing of the transaction is kept,
	// and its function runs again under a Querier that puts nothing off and says so where it
	// happens. It reports false where the caller is to run the statement itself.
	Defer(ctx context.Context, want int64, query string, args ...any) bool
}

// Engine is what a driver gives: transactions. Safe for concurrent use.
type Engine interface {
	// Write runs fn in a serialisable transaction and returns after it is
	// durable. If fn fails nothing of it is kept. fn may run more than once,
	// and must have no effects but on q.
	Write(ctx context.Context, fn func(ctx context.Context, q Querier) error) error
	// Read runs fn on one consistent snapshot.
	Read(ctx context.Context, fn func(ctx context.Context, q Querier) error) error
	// Conflict reports whether err is a broken uniqueness rule.
	Conflict(err error) bool
	// Away reports whether err says that the database is away, and not that a call is wrong.
	Away(err error) bool
	Close() error
}

// Indexed is what an Engine has whose planner guesses by statistics, which a table that has
// just grown does not have yet.
type Indexed interface {
	// ByIndex has the statements that follow in the read of q look up rows by indexes.
	ByIndex(ctx context.Context, q Querier) error
}

// byIndex says that the statements of a read look up few rows of large tables.
func (t *Tx) byIndex() error {
	e, ok := t.e.(Indexed)
	if !ok || t.moved != nil { // writes do so anyway
		return nil
	}
	return e.ByIndex(t.ctx, t.q)
}

// Shared is what an Engine has whose rows other processes may write too: what
// a Store remembers of them is not kept then.
type Shared interface{ Shared() bool }

// Store is the state of a platform.
type Store struct {
	e        Engine
	arenas   arenas
	standing atomic.Int64 // grows when what validators' standings are made of begins to change, and when it has
	policies memo[agon.Policy]
	archive  atomic.Pointer[Archive] // nil: archived runs cannot be read
}

// New wraps an engine whose schema is current (Migrate).
func New(e Engine) *Store {
	s := &Store{e: e}
	s.arenas.off = s.Shared()
	return s
}

// KeepArenas says that from now on no other process changes arenas while writes of this
// one are kept: it leads.
func (s *Store) KeepArenas() {
	s.arenas.mu.Lock()
	defer s.arenas.mu.Unlock()
	s.arenas.off = false
}

// Close waits for running transactions and closes the engine.
func (s *Store) Close() error { return s.e.Close() }

// Write runs fn in a serialisable transaction; see Engine.Write.
func (s *Store) Write(ctx context.Context, fn func(*Tx) error) error {
	var moved moves
	defer func() {
		if moved.arenas {
			s.arenas.settled()
		}
		if moved.standing {
			s.standing.Add(1)
		}
	}()
	err := s.e.Write(ctx, func(ctx context.Context, q Querier) error {
		moved.then = nil // of a try that was not committed
		return fn(&Tx{q: q, ctx: ctx, e: s.e, s: s, arenasAt: s.arenas.now(), standingAt: s.standing.Load(), moved: &moved})
	})
	if err == nil {
		for _, f := range moved.then {
			f()
		}
	}
	return s.away(err)
}

// away marks an error that says that the database is away.
func (s *Store) away(err error) error {
	if err == nil || !errors.Is(err, ErrDeposed) && !s.e.Away(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// Then has f called when the transaction has been committed: a waiter that is woken
// earlier finds nothing and is not woken again. A read-only transaction never calls f.
func (t *Tx) Then(f func()) {
	if t.moved != nil {
		t.moved.then = append(t.moved.then, f)
	}
}

// moves are the kept things that a Write has changed, in any of its tries, and what is
// to be called after its last one.
type moves struct {
	arenas, standing bool
	then             []func()
}

// Shared reports whether other processes may write to the store too.
func (s *Store) Shared() bool {
	x, ok := s.e.(Shared)
	return ok && x.Shared()
}

// Read runs fn on one consistent snapshot; see Engine.Read.
func (s *Store) Read(ctx context.Context, fn func(*Tx) error) error {
	at, standing := s.arenas.now(), s.standing.Load() // before the snapshot: what it sees is at least as new
	return s.away(s.e.Read(ctx, func(ctx context.Context, q Querier) error {
		return fn(&Tx{q: q, ctx: ctx, e: s.e, s: s, arenasAt: at, standingAt: standing})
	}))
}

// Tx is one transaction. It ends with the function it was given to and is not
// safe for concurrent use. It carries its context because it lives no longer
// than one call.
type Tx struct {
	q   Querier
	ctx context.Context
	e   Engine
	s   *Store

	arenasAt    int64  // the version of the arenas when it began
	arenasMoved bool   // it changes arenas itself
	standingAt  int64  // the version of the standings when it began
	moved       *moves // of its Write; nil in a read
	runsOf      *runsOf
}

// arenasMove says that this transaction is about to change arenas.
func (t *Tx) arenasMove() {
	t.arenasMoved = true
	if t.moved != nil && !t.moved.arenas {
		t.moved.arenas = true
		t.s.arenas.move()
	}
}

// StandingMoves says that this transaction changes what a validator's standing is
// made of: judgings, canaries, or what a kind counts beside them.
func (t *Tx) StandingMoves() {
	if t.moved != nil {
		t.moved.standing = true
		t.s.standing.Add(1)
	}
}

// Standing is the version of what standings are made of, as this transaction sees it:
// what was read under it holds as long as others see the same. It is false where
// the transaction's Write changes them itself.
func (t *Tx) Standing() (version int64, ok bool) {
	return t.standingAt, t.moved == nil || !t.moved.standing
}

// arenas is the list of all arenas as of a version: nearly every transaction
// asks for one of the few, and they change when an operator says so. It is not
// kept where other processes may change them. The zero value is ready.
type arenas struct {
	mu      sync.Mutex
	off     bool  // guarded by mu; nothing is kept
	version int64 // guarded by mu; grows when a change begins and when it ends
	writers int   // guarded by mu; changes under way: the list is not kept then
	list    []agon.Arena
	known   bool // guarded by mu, as list is: list is that of version
}

func (a *arenas) now() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.version
}

func (a *arenas) get(at int64) ([]agon.Arena, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list, a.known && a.version == at
}

func (a *arenas) put(at int64, list []agon.Arena) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.off && a.writers == 0 && a.version == at {
		a.list, a.known = list, true
	}
}

func (a *arenas) move() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.writers++
	a.list, a.known = nil, false
}

func (a *arenas) settled() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.writers--
}

// memo remembers what texts of the database decode to: the same few policies
// are read all day. What it returns is shared: nobody may change what
// it points to. The zero value is ready.
type memo[T any] struct {
	mu   sync.Mutex
	seen map[string]T // guarded by mu
}

// maxMemo bounds the texts of a memo.
const maxMemo = 256

func (m *memo[T]) decode(text string) (v T, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.seen[text]
	if ok {
		return v, nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, err
	}
	if m.seen == nil || len(m.seen) >= maxMemo {
		m.seen = map[string]T{}
	}
	m.seen[text] = v
	return v, nil
}

// exec runs a statement and returns how many rows it changed.
func (t *Tx) exec(query string, args ...any) (int64, error) {
	if t.runsOf != nil && changesRuns(query) {
		t.runsOf = nil
	}
	r, err := t.q.ExecContext(t.ctx, query, args...)
	if err != nil {
		if t.e.Conflict(err) {
			return 0, fmt.Errorf("%w: %w", ErrConflict, err)
		}
		return 0, err
	}
	return r.RowsAffected()
}

// put runs a statement whatever it changes; it may be put off.
func (t *Tx) put(query string, args ...any) error {
	if t.later(-1, query, args) {
		return nil
	}
	_, err := t.exec(query, args...)
	return err
}

// put1 is exec1 of a statement that may be put off.
func (t *Tx) put1(query string, args ...any) error {
	if t.later(1, query, args) {
		return nil
	}
	return t.exec1(query, args...)
}

// exec1 runs a statement that must change one row.
func (t *Tx) exec1(query string, args ...any) error {
	n, err := t.exec(query, args...)
	if err == nil && n != 1 {
		return ErrNotFound
	}
	return err
}

// later puts a statement off where the driver can.
func (t *Tx) later(want int64, query string, args []any) bool {
	d, ok := t.q.(Deferrer)
	if !ok || !d.Defer(t.ctx, want, query, args...) {
		return false
	}
	if t.runsOf != nil && changesRuns(query) {
		t.runsOf = nil
	}
	return true
}

// scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(...any) error }

// one runs scan on the first row of a query, or returns ErrNotFound.
func one[T any](t *Tx, scan func(scanner) (T, error), query string, args ...any) (T, error) {
	v, err := scan(t.q.QueryRowContext(t.ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		var zero T
		return zero, ErrNotFound
	}
	return v, err
}

// many runs scan on every row of a query.
func many[T any](t *Tx, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := t.q.QueryContext(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

func scanInt(r scanner) (n int64, err error) { err = r.Scan(&n); return n, err }

// micros and fromMicros map times to the database; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

//go:embed migrations/*.sql
var migrations embed.FS

// worksFrom is the oldest schema whose programs work on the newest one. A migration that adds
// tables, indexes and columns with a default leaves it as it is; one that takes something
// away, or that older programs would read wrongly, raises it to its own number.
const worksFrom = 33

// Migrate brings the schema up to date, one transaction for all steps. id is
// the driver's text for a growing integer key. A database that a newer program has
// written stays as it is: it is refused unless that one said that this program works on it
// (a server of the version before that starts again, or comes back after an update that failed).
func Migrate(ctx context.Context, e Engine, id string) error {
	files, err := fs.Glob(migrations, "migrations/*.sql") // sorted by name
	if err != nil {
		return err
	}
	return e.Write(ctx, func(ctx context.Context, q Querier) error {
		if _, err := q.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS schema_version (one bigint PRIMARY KEY, version bigint NOT NULL)`); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		var have int
		err := q.QueryRowContext(ctx, `SELECT version FROM schema_version WHERE one = 1`).Scan(&have)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("migrate: %w", err)
		}
		if have > len(files) {
			return worksOn(ctx, q, have, len(files))
		}
		for _, name := range files[have:] {
			b, err := migrations.ReadFile(name)
			if err != nil {
				return err
			}
			for _, stmt := range statements(strings.ReplaceAll(string(b), "$ID", id)) {
				if _, err := q.ExecContext(ctx, stmt); err != nil {
					return fmt.Errorf("migrate %s: %w", name, err)
				}
			}
		}
		_, err = q.ExecContext(ctx, `INSERT INTO schema_version (one, version) VALUES (1, $1), (2, $2)
			ON CONFLICT (one) DO UPDATE SET version = excluded.version`, len(files), worksFrom)
		return err
	})
}

// worksOn is nil where a program that knows a schema works on a newer one: the row 2 of
// schema_version names the oldest that does.
func worksOn(ctx context.Context, q Querier, have, known int) error {
	var from int
	err := q.QueryRowContext(ctx, `SELECT version FROM schema_version WHERE one = 2`).Scan(&from)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("migrate: %w", err)
	}
	if err != nil || from > known {
		return fmt.Errorf("migrate: the database has schema %d, this program knows %d: use a newer agon", have, known)
	}
	return nil
}

// Current is an error where the schema is not the one that this program knows.
func Current(ctx context.Context, e Engine) error {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	return e.Read(ctx, func(ctx context.Context, q Querier) error {
		var have int
		if err := q.QueryRowContext(ctx, `SELECT version FROM schema_version WHERE one = 1`).Scan(&have); err != nil {
			return fmt.Errorf("read the schema's version: %w", err)
		}
		if have != len(files) {
			return fmt.Errorf("the database has schema %d, this program knows %d: use the agon that its server runs", have, len(files))
		}
		return nil
	})
}

// statements splits a migration at its semicolons. Migrations hold no
// semicolon inside text.
func statements(script string) []string {
	var lines []string
	for l := range strings.Lines(script) {
		if !strings.HasPrefix(strings.TrimSpace(l), "--") {
			lines = append(lines, l)
		}
	}
	var out []string
	for s := range strings.SplitSeq(strings.Join(lines, ""), ";") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
