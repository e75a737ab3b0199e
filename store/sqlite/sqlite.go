// Package sqlite is the store on one SQLite file: write-ahead log,
// synchronous=FULL, one writer that commits in groups, a pool of readers.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"sync"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/agon-arena/agon/store"
)

// groupMax bounds how many writes share one commit, so that none waits long
// for the work of others.
const groupMax = 128

// ErrClosed is returned after Close.
var ErrClosed = errors.New("store is closed")

// Open opens or makes the database file and brings its schema up to date.
// Close it with Store.Close.
func Open(ctx context.Context, path string) (*store.Store, error) {
	e, err := openEngine(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	if err := store.Migrate(ctx, e, "integer PRIMARY KEY AUTOINCREMENT"); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, errors.Join(err, e.Close()))
	}
	return store.New(e), nil
}

func dsn(path string, pragmas ...string) string {
	q := url.Values{}
	for _, p := range append(pragmas, "busy_timeout(10000)") {
		q.Add("_pragma", p)
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// engine implements store.Engine. The goroutine of loop owns conn.
type engine struct {
	write *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt // of conn; owned by loop
	read  *sql.DB
	jobs  chan *job
	quit  chan struct{} // closed by Close
	done  chan struct{} // closed when loop has ended
	once  sync.Once
}

// job is one Write on its way. err may be read after done is closed.
type job struct {
	ctx  context.Context
	fn   func(context.Context, store.Querier) error
	err  error
	pan  any // what fn panicked with, raised again in the caller
	done chan struct{}
}

func openEngine(ctx context.Context, path string) (*engine, error) {
	// temp_store: the undo pages of savepoints stay in memory; only the log is a file.
	w, err := sql.Open("sqlite", dsn(path, "journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(4000)", "temp_store(MEMORY)"))
	if err != nil {
		return nil, err
	}
	w.SetMaxOpenConns(1)
	conn, err := w.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		return nil, errors.Join(fmt.Errorf("journal mode is %q, want wal", mode), err, conn.Close(), w.Close())
	}
	r, err := sql.Open("sqlite", dsn(path, "query_only(1)"))
	if err != nil {
		return nil, errors.Join(err, conn.Close(), w.Close())
	}
	r.SetMaxOpenConns(2 + runtime.GOMAXPROCS(0))
	e := &engine{
		write: w, conn: conn, stmts: map[string]*sql.Stmt{}, read: r,
		jobs: make(chan *job, groupMax), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go e.loop()
	return e, nil
}

// Close ends the writer after the group under way, then both pools.
func (e *engine) Close() error {
	var err error
	e.once.Do(func() {
		close(e.quit)
		<-e.done
		for _, s := range e.stmts {
			err = errors.Join(err, s.Close())
		}
		err = errors.Join(err, e.read.Close(), e.conn.Close(), e.write.Close())
	})
	return err
}

// Write hands fn to the writer and waits for its commit. A caller that gives
// up while fn runs does not know whether it was kept; callers' statements are
// idempotent for that reason.
func (e *engine) Write(ctx context.Context, fn func(context.Context, store.Querier) error) error {
	// A cancelled context would interrupt SQLite in the middle of a statement,
	// which rolls back the whole group: fn runs to its end.
	j := &job{ctx: context.WithoutCancel(ctx), fn: fn, done: make(chan struct{})}
	select {
	case <-e.quit:
		return ErrClosed
	default:
	}
	select {
	case e.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.quit:
		return ErrClosed
	}
	select {
	case <-j.done:
	case <-e.done:
		select {
		case <-j.done:
		default:
			return ErrClosed
		}
	}
	if j.pan != nil {
		panic(j.pan)
	}
	return j.err
}

// loop commits jobs in groups: whatever waits when the writer is free.
func (e *engine) loop() {
	defer close(e.done)
	for {
		select {
		case <-e.quit:
			return
		case j := <-e.jobs:
			group := []*job{j}
			for more := true; more && len(group) < groupMax; {
				select {
				case j := <-e.jobs:
					group = append(group, j)
				default:
					more = false
				}
			}
			e.commit(group)
		}
	}
}

// commit runs a group in one transaction, each job inside a savepoint. Nobody
// is told before the commit is on disk.
func (e *engine) commit(group []*job) {
	ctx := context.Background()
	err := e.runGroup(ctx, group)
	if err != nil {
		_, rerr := e.conn.ExecContext(ctx, "ROLLBACK") // fails if SQLite has rolled back itself
		_ = rerr
	}
	for _, j := range group {
		if err != nil {
			j.err = fmt.Errorf("write store: %w", err)
		}
		close(j.done)
	}
}

func (e *engine) runGroup(ctx context.Context, group []*job) error {
	q := querier{e}
	if _, err := q.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, j := range group {
		if _, err := q.ExecContext(ctx, "SAVEPOINT job"); err != nil {
			return err
		}
		j.run(q)
		if j.err != nil || j.pan != nil {
			if _, err := q.ExecContext(ctx, "ROLLBACK TO job"); err != nil {
				// Disk full and the like end the whole transaction.
				return errors.Join(j.err, err)
			}
		}
		if _, err := q.ExecContext(ctx, "RELEASE job"); err != nil {
			return err
		}
	}
	_, err := q.ExecContext(ctx, "COMMIT")
	return err
}

func (j *job) run(q querier) {
	defer func() { j.pan = recover() }()
	j.err = j.fn(j.ctx, q)
}

// querier runs statements on the writer's connection, each prepared once.
type querier struct{ e *engine }

func (q querier) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := q.e.stmts[query]; s != nil {
		return s, nil
	}
	s, err := q.e.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	q.e.stmts[query] = s
	return s, nil
}

func (q querier) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := q.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

func (q querier) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := q.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (q querier) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := q.prepare(ctx, query)
	if err != nil {
		// A *sql.Row cannot be made to carry an error: let the driver fail alike.
		return q.e.conn.QueryRowContext(ctx, query, args...)
	}
	return s.QueryRowContext(ctx, args...)
}

// Read runs fn on a snapshot of its own.
func (e *engine) Read(ctx context.Context, fn func(context.Context, store.Querier) error) error {
	select {
	case <-e.quit:
		return ErrClosed
	default:
	}
	tx, err := e.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("read store: %w", err)
	}
	err = fn(ctx, tx)
	if rerr := tx.Rollback(); err == nil && rerr != nil && !errors.Is(rerr, sql.ErrTxDone) {
		return fmt.Errorf("read store: %w", rerr)
	}
	return err
}

// Conflict reports whether err broke a uniqueness rule.
func (e *engine) Conflict(err error) bool {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return false
	}
	return se.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || se.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}
