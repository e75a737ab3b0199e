// Package sqlite is the store on one SQLite file: write-ahead log,
// synchronous=FULL, one writer that commits in groups, a pool of readers.
package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/group"
	"github.com/agon-arena/agon/internal/guard"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// ErrClosed is returned after Close.
var ErrClosed = group.ErrClosed

// Options of Open.
type Options struct {
	// AcceptLoss opens a database that has lost commits which were acknowledged:
	// the operator has said so. Otherwise that is an error (lost_commits).
	AcceptLoss bool

	beside bool // see OpenBeside
}

// Open opens or makes the database file and brings its schema up to date.
// Close it with Store.Close.
func Open(ctx context.Context, path string) (*store.Store, error) {
	return OpenWith(ctx, path, Options{})
}

// OpenWith is Open with options.
func OpenWith(ctx context.Context, path string, o Options) (*store.Store, error) {
	e, err := openEngine(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	if err := store.Migrate(ctx, e, "integer PRIMARY KEY AUTOINCREMENT"); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, errors.Join(err, e.Close()))
	}
	if err := e.loadFacts(ctx); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, errors.Join(err, e.Close()))
	}
	return store.New(e), nil
}

// OpenBeside opens the database of a server that may be at work in another process:
// for reads, and for writes that no fact tells of. They are not counted as commits of the
// server. The file must be there, with the schema that this program knows.
func OpenBeside(ctx context.Context, path string) (*store.Store, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	e, err := openEngine(ctx, path, Options{beside: true})
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	if err := store.Current(ctx, e); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, errors.Join(err, e.Close()))
	}
	return store.New(e), nil
}

// loadFacts finds out where the facts for the log go on.
func (e *engine) loadFacts(ctx context.Context) error {
	st := store.New(e)
	return st.Read(ctx, func(tx *store.Tx) (err error) {
		if e.factRow, err = tx.FactRow(); err == nil {
			e.factNext, err = tx.FactCount()
		}
		return err
	})
}

func dsn(path string, pragmas ...string) string {
	q := url.Values{}
	for _, p := range append(pragmas, "busy_timeout(10000)") {
		q.Add("_pragma", p)
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// engine implements store.Engine. The writer of queue owns conn.
type engine struct {
	write *sql.DB
	conn  *sql.Conn
	stmts statements // of conn; owned by the writer
	read  *sql.DB
	idle  chan *reader // readers that no Read uses; nil: one that is yet to be made
	queue *group.Queue
	once  sync.Once

	factRow  int64 // owned by the writer, once it is loaded: the last row of log_facts
	factNext int64 // owned by the writer, as factRow is: the index of the next fact

	check *checkpointer // nil: beside a server, whose it is

	guard *guard.File // owned by the writer; the count of commits beside the database; nil: another process counts
	salt  [16]byte    // sets this process's commits apart from those of a copy
	mark  atomic.Pointer[guard.Mark]
}

// reader is a connection that reads, owned by one Read at a time.
type reader struct {
	conn  *sql.Conn
	stmts statements
}

func openEngine(ctx context.Context, path string, o Options) (*engine, error) {
	if err := guard.Private(path); err != nil {
		return nil, err
	}
	// temp_store: the undo pages of savepoints stay in memory; only the log is a file.
	// cache_size: 32 MiB, so that indexes of many finished runs stay at hand.
	w, err := sql.Open("sqlite", dsn(path, "journal_mode(WAL)", "synchronous(FULL)", auto(o), "temp_store(MEMORY)", "cache_size(-32768)"))
	if err != nil {
		return nil, err
	}
	w.SetMaxOpenConns(2) // the writer and the checkpointer
	conn, err := w.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		return nil, errors.Join(fmt.Errorf("journal mode is %q, want wal", mode), err, conn.Close(), w.Close())
	}
	var g *guard.File
	var mark guard.Mark
	if !o.beside {
		if g, mark, err = openGuard(ctx, conn, path, o); err != nil {
			return nil, errors.Join(err, conn.Close(), w.Close())
		}
	}
	r, err := sql.Open("sqlite", dsn(path, "query_only(1)"))
	if err != nil {
		return nil, errors.Join(err, closeGuard(g), conn.Close(), w.Close())
	}
	readers := 2 + runtime.GOMAXPROCS(0)
	r.SetMaxOpenConns(readers)
	e := &engine{
		write: w, conn: conn, stmts: statements{}, read: r, idle: make(chan *reader, readers), guard: g,
	}
	_, _ = rand.Read(e.salt[:]) // never fails (crypto/rand)
	e.mark.Store(&mark)
	for range readers {
		e.idle <- nil
	}
	if !o.beside {
		c, err := w.Conn(ctx)
		if err != nil {
			return nil, errors.Join(err, r.Close(), closeGuard(g), conn.Close(), w.Close())
		}
		e.check = newCheckpointer(c)
	}
	e.queue = group.New(e.commit)
	return e, nil
}

// Close ends the writer after the group under way, then both pools.
func (e *engine) Close() error {
	var err error
	e.once.Do(func() {
		e.queue.Close()
		if e.check != nil {
			err = e.check.close()
		}
		err = errors.Join(err, e.stmts.close())
		for range cap(e.idle) { // waits for those that read
			if r := <-e.idle; r != nil {
				err = errors.Join(err, r.close())
			}
		}
		err = errors.Join(err, e.read.Close(), e.conn.Close(), e.write.Close(), closeGuard(e.guard))
	})
	return err
}

// Write hands fn to the writer and waits for its commit; see group.Queue.
func (e *engine) Write(ctx context.Context, fn group.Func) error { return e.queue.Write(ctx, fn) }

// commit runs a group in one transaction.
func (e *engine) commit(jobs []*group.Job) error {
	err := e.runGroup(jobs, false)
	if errors.Is(err, errPartly) {
		err = e.runGroup(jobs, true)
	}
	if err != nil {
		return fmt.Errorf("write store: %w", err)
	}
	return nil
}

// errPartly says that a job of a group failed after it had written something.
var errPartly = errors.New("a job failed half-way")

// runGroup runs the jobs of a group and commits them. Few jobs fail, and most
// that do have written nothing by then: only a group in which one failed
// half-way is run again with a savepoint for each job, which undoes that job alone.
func (e *engine) runGroup(jobs []*group.Job, careful bool) (err error) {
	ctx := context.Background()
	if e.check != nil {
		e.check.finish(e.conn)
	}
	q := &writer{querier: querier{conn: e.conn, stmts: e.stmts}, row: e.factRow + 1, first: e.factNext}
	if _, err := q.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, rerr := e.conn.ExecContext(ctx, "ROLLBACK") // fails if SQLite has rolled back itself
			_ = rerr
		}
	}()
	wrote := false
	for _, j := range jobs {
		if careful {
			if _, err := q.ExecContext(ctx, "SAVEPOINT job"); err != nil {
				return err
			}
		}
		q.wrote = false
		facts := len(q.facts)
		if failed := j.Run(q); failed && q.wrote {
			if !careful {
				return errPartly
			}
			if _, err := q.ExecContext(ctx, "ROLLBACK TO job"); err != nil {
				// Disk full and the like end the whole transaction.
				return errors.Join(j.Err, err)
			}
			q.facts, q.sure = q.facts[:facts], facts
		} else {
			wrote = wrote || q.wrote
		}
		if careful {
			if _, err := q.ExecContext(ctx, "RELEASE job"); err != nil {
				return err
			}
		}
	}
	if !wrote {
		_, err = q.ExecContext(ctx, "COMMIT")
		return err
	}
	if e.guard == nil {
		if len(q.facts) > 0 {
			return errors.New("only the server of a database writes what its log tells of")
		}
		_, err = q.ExecContext(ctx, "COMMIT")
		return err
	}
	mark := e.mark.Load().Next(e.salt[:])
	if len(q.facts) > 0 {
		if _, err := q.ExecContext(ctx, "INSERT INTO log_facts (n, first, facts) VALUES ($1, $2, $3)", q.row, q.first, strings.Join(q.facts, "\n")); err != nil {
			return err
		}
	}
	if _, err := q.ExecContext(ctx, "UPDATE commits SET n = $1, hash = $2 WHERE one = 1", mark.Count, mark.Hash[:]); err != nil {
		return err
	}
	if _, err = q.ExecContext(ctx, "COMMIT"); err != nil {
		return err
	}
	e.check.committed(len(jobs))
	e.mark.Store(&mark)
	if len(q.facts) > 0 {
		e.factRow, e.factNext = q.row, q.first+int64(len(q.facts))
	}
	// The database has it: a mark that cannot be written is behind, no more.
	_ = e.guard.Write(mark)
	return nil
}

// openGuard compares the database with the count of its commits.
func openGuard(ctx context.Context, conn *sql.Conn, path string, o Options) (g *guard.File, m guard.Mark, err error) {
	if _, err := conn.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS commits (one integer PRIMARY KEY, n bigint NOT NULL, hash blob NOT NULL)"); err != nil {
		return nil, m, err
	}
	if _, err := conn.ExecContext(ctx, "INSERT INTO commits (one, n, hash) VALUES (1, 0, $1) ON CONFLICT (one) DO NOTHING", m.Hash[:]); err != nil {
		return nil, m, err
	}
	var hash []byte
	if err := conn.QueryRowContext(ctx, "SELECT n, hash FROM commits WHERE one = 1").Scan(&m.Count, &hash); err != nil {
		return nil, m, err
	}
	if copy(m.Hash[:], hash) != len(m.Hash) {
		return nil, m, errors.New("the running hash of its commits is not 32 bytes")
	}
	if g, err = guard.Open(path + "-commits"); err != nil {
		return nil, m, err
	}
	if err := g.Check("the database", m); err != nil && !o.AcceptLoss {
		return nil, m, errors.Join(err, g.Close())
	}
	if err := g.Write(m); err != nil {
		return nil, m, errors.Join(err, g.Close())
	}
	return g, m, nil
}

func closeGuard(g *guard.File) error {
	if g == nil {
		return nil
	}
	return g.Close()
}

// Commits is how often the database was written, and the running hash of it.
func (e *engine) Commits() (n int64, hash string) {
	m := e.mark.Load()
	return m.Count, m.Hex()
}

// statements are the prepared statements of a connection by their text.
type statements map[string]statement

// statement is a prepared one whose parameters have no numbers: the driver looks a
// numbered one up among all, for each of them.
type statement struct {
	*sql.Stmt
	order []int // which argument stands where; nil: each once, in order
}

var parameter = lazyregexp.New(`\$[0-9]+`)

// placed returns query with ? for each of its parameters $1, $2, …, and which argument
// stands at each. Statements hold no such text otherwise.
func placed(query string) (text string, order []int, err error) {
	plain := true
	text = parameter().ReplaceAllStringFunc(query, func(p string) string {
		n, perr := strconv.Atoi(p[1:])
		if perr != nil || n < 1 {
			err = fmt.Errorf("parameter %s", p)
		}
		order = append(order, n-1)
		plain = plain && n == len(order)
		return "?"
	})
	if plain {
		order = nil
	}
	return text, order, err
}

// args are the arguments as they stand in the statement.
func (s statement) args(list []any) ([]any, error) {
	if s.order == nil {
		return list, nil
	}
	out := make([]any, len(s.order))
	for i, n := range s.order {
		if n >= len(list) {
			return nil, fmt.Errorf("parameter $%d has no argument", n+1)
		}
		out[i] = list[n]
	}
	return out, nil
}

func (m statements) close() (err error) {
	for _, s := range m {
		err = errors.Join(err, s.Close())
	}
	return err
}

var boundLimit = lazyregexp.New(`\b(LIMIT|OFFSET) (\$[0-9]+)`)

// summedLimits returns query with each bound LIMIT and OFFSET as a sum. SQLite plans by
// the value of a bound one, and so prepares a kept statement again whenever it runs,
// which takes longer than most reads. It does not look into a sum. (Source:
// sqlite3ExprIsInteger in SQLite's expr.c.)
func summedLimits(query string) string { return boundLimit().ReplaceAllString(query, "$1 $2+0") }

// maxStatements bounds how many statements a connection keeps prepared: the
// texts of lists with filters vary.
const maxStatements = 200

// querier runs statements on one connection, each prepared once.
type querier struct {
	conn  *sql.Conn
	stmts statements
	wrote bool // a statement that may have written has run
}

// writer is the querier of a group; it takes notes of facts (store.Facts).
type writer struct {
	querier
	facts      []string // TYPE ID, in order
	sure       int      // how many of them belong to statements that did not fail
	row, first int64    // where they will stand
}

// ExecContext runs a statement. The facts of one that fails are not facts.
func (w *writer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	r, err := w.querier.ExecContext(ctx, query, args...)
	if err != nil {
		w.facts = w.facts[:w.sure]
	}
	w.sure = len(w.facts)
	return r, err
}

// Fact implements store.Facts.
func (w *writer) Fact(typ, id string) int64 {
	w.facts = append(w.facts, typ+" "+strings.ReplaceAll(id, "\n", " "))
	return w.row
}

// SkipTo implements store.Facts. Only the start of a server skips, alone.
func (w *writer) SkipTo(index int64) { w.first = max(w.first, index) }

func (q *querier) prepare(ctx context.Context, query string) (statement, error) {
	if s, ok := q.stmts[query]; ok {
		return s, nil
	}
	if len(q.stmts) >= maxStatements {
		err := q.stmts.close()
		clear(q.stmts)
		if err != nil {
			return statement{}, err
		}
	}
	text, order, err := placed(summedLimits(query))
	if err != nil {
		return statement{}, err
	}
	s, err := q.conn.PrepareContext(ctx, text)
	if err != nil {
		return statement{}, err
	}
	q.stmts[query] = statement{s, order}
	return q.stmts[query], nil
}

func (q *querier) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := q.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	if args, err = s.args(args); err != nil {
		return nil, err
	}
	r, err := s.ExecContext(ctx, args...)
	if err == nil && !q.wrote { // one that fails undoes itself
		n, rerr := r.RowsAffected()
		q.wrote = n > 0 || rerr != nil || !countsRows(query)
	}
	return r, err
}

// countsRows reports whether no affected row means no change: not so for
// statements that change the schema.
func countsRows(query string) bool {
	return strings.HasPrefix(query, "INSERT ") || strings.HasPrefix(query, "UPDATE ") || strings.HasPrefix(query, "DELETE ")
}

func (q *querier) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := q.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	if args, err = s.args(args); err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (q *querier) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := q.prepare(ctx, query)
	if err == nil {
		var list []any
		if list, err = s.args(args); err == nil {
			return s.QueryRowContext(ctx, list...)
		}
	}
	// A *sql.Row cannot be made to carry an error: let the driver fail alike.
	return q.conn.QueryRowContext(ctx, query, args...)
}

// Read runs fn on a snapshot of its own.
func (e *engine) Read(ctx context.Context, fn func(context.Context, store.Querier) error) error {
	var r *reader
	select {
	case r = <-e.idle:
	case <-e.queue.Closing():
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	var back *reader // stays nil when r panicked or could not end its transaction
	defer func() {
		if back == nil && r != nil {
			_ = r.close() // what was wrong with it is told already
		}
		e.idle <- back
	}()
	select {
	case <-e.queue.Closing():
		back = r
		return ErrClosed
	default:
	}
	if r == nil {
		c, err := e.read.Conn(ctx)
		if err != nil {
			return fmt.Errorf("read store: %w", err)
		}
		r = &reader{conn: c, stmts: statements{}}
	}
	// Reads are short and bounded: they are not interrupted, which would cost
	// each statement a goroutine that watches the context.
	ctx = context.WithoutCancel(ctx)
	q := &querier{conn: r.conn, stmts: r.stmts}
	if _, err := q.ExecContext(ctx, "BEGIN"); err != nil {
		return fmt.Errorf("read store: %w", err)
	}
	err := fn(ctx, q)
	if _, rerr := q.ExecContext(ctx, "ROLLBACK"); rerr != nil {
		return errors.Join(err, fmt.Errorf("read store: %w", rerr))
	}
	back = r
	return err
}

func (r *reader) close() error { return errors.Join(r.stmts.close(), r.conn.Close()) }

// Away reports whether the file's disk is full or fails, or the engine is closed.
func (e *engine) Away(err error) bool {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return errors.Is(err, ErrClosed)
	}
	c := se.Code() & 0xff // the rest says which call of the system failed
	return c == sqlite3.SQLITE_FULL || c == sqlite3.SQLITE_IOERR || c == sqlite3.SQLITE_BUSY
}

// Conflict reports whether err broke a uniqueness rule.
func (e *engine) Conflict(err error) bool {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return false
	}
	return se.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || se.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}
