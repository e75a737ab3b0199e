package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/group"
)

var (
	// errPartly says that a statement of a group failed: the server takes no more
	// of its transaction.
	errPartly = errors.New("a statement failed")
	// errBroken says that the connection is gone, and nothing of the group is kept.
	errBroken = errors.New("the connection to the store broke")
	// errUnknown says that the connection broke while a group was committed.
	errUnknown = errors.New("the connection to the store broke during a commit")
)

// commit runs a group in one transaction, again where the server was away.
func (e *engine) commit(jobs []*group.Job) error {
	ctx := context.Background()
	careful := false
	err := retry(ctx, e.over.Done(), func() error {
		if e.lost.Load() {
			return store.ErrDeposed
		}
		err := e.runGroup(ctx, jobs, careful)
		if errors.Is(err, errPartly) {
			if err := e.rollback(ctx); err != nil {
				return err
			}
			careful = true
			err = e.runGroup(ctx, jobs, careful)
		}
		if err != nil {
			e.drop()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write store: %w", err)
	}
	return nil
}

// rollback undoes the transaction under way.
func (e *engine) rollback(ctx context.Context) error {
	_, err := e.conn.ExecContext(ctx, `ROLLBACK`)
	return err
}

// drop ends the writer's connection, and so the transaction under way.
func (e *engine) drop() {
	if e.conn == nil {
		return
	}
	// The pool keeps no connection that says it is bad.
	_ = e.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = e.conn.Close()
	e.conn = nil
}

// runGroup runs the jobs of a group and commits those that did not fail. A
// failed statement ends a transaction of PostgreSQL, and few fail: only a group
// in which one did is run again with savepoints, which undo it alone.
func (e *engine) runGroup(ctx context.Context, jobs []*group.Job, careful bool) error {
	if e.conn == nil {
		c, err := e.db.Conn(ctx)
		if err != nil {
			return err
		}
		e.conn = c
		// The same statements all day, each of a few rows: planning them anew takes longer than they do. A
		// plan that was made while a table was small goes on scanning it when it has grown: the way by an
		// index, which all of them have, is never wrong by much.
		if _, err := c.ExecContext(ctx, `SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off`); err != nil {
			return err
		}
	}
	// The lock first, in a transaction whose statements each see what was committed
	// before them: a snapshot that is older than the lock would miss the group before.
	q := &writer{conn: e.conn, careful: careful}
	begin := fmt.Sprintf(`BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(%d)`, lockKey)
	if term := e.term.Load(); term > 0 {
		begin += "; " + fence(term)
	}
	if err := q.run(ctx, begin); state(err) == fenced {
		return errors.Join(store.ErrDeposed, e.rollback(ctx))
	} else if err != nil {
		return err
	}
	for _, j := range jobs {
		if err := e.runJob(ctx, q, j); err != nil {
			return err
		}
	}
	switch err := q.flush(ctx); {
	case err == nil:
	case passing(err):
		return err
	default:
		return errPartly
	}
	if !q.kept {
		return q.run(ctx, `COMMIT`)
	}
	xid, err := q.storeFacts(ctx)
	if err != nil {
		return err
	}
	err = q.run(ctx, `COMMIT`)
	if err == nil || !passing(err) {
		return err
	}
	e.drop()
	return e.fate(ctx, xid, err)
}

// fate finds out what became of a transaction whose commit was not answered.
func (e *engine) fate(ctx context.Context, xid string, cause error) error {
	var status sql.NullString
	err := retry(ctx, e.over.Done(), func() error {
		if err := e.db.QueryRowContext(ctx, `SELECT pg_xact_status($1::xid8)`, xid).Scan(&status); err != nil {
			return err
		}
		if status.String == "in progress" { // the server has not noticed yet that we left
			return errBroken
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w: %w", errUnknown, cause, err)
	case status.String == "committed":
		return nil
	case status.String == "aborted":
		return fmt.Errorf("%w: %w", errBroken, cause)
	}
	return fmt.Errorf("%w, which the server knows nothing of any more: %w", errUnknown, cause)
}

// runJob runs one job of a group.
func (e *engine) runJob(ctx context.Context, q *writer, j *group.Job) error {
	if q.careful {
		if err := q.run(ctx, `SAVEPOINT job`); err != nil {
			return err
		}
	}
	q.wrote, q.failed, q.broken = false, nil, nil
	facts := len(q.facts)
	q.before = len(q.pending)
	failed := j.Run(q)
	q.wrote = q.wrote || len(q.pending) > q.before
	switch {
	case q.broken != nil:
		return q.broken
	case q.failed != nil && !q.careful:
		return errPartly
	case failed && q.wrote && !q.careful:
		return errPartly
	case failed && q.careful:
		q.facts, q.sure = q.facts[:facts], facts
		if err := q.run(ctx, `ROLLBACK TO SAVEPOINT job`); err != nil {
			return err
		}
	default:
		q.kept = q.kept || q.wrote
	}
	if q.careful {
		return q.run(ctx, `RELEASE SAVEPOINT job`)
	}
	return nil
}

// writer is the Querier of a group; it takes notes of facts (store.Facts).
type writer struct {
	conn    *sql.Conn
	careful bool // savepoints around jobs and statements

	wrote, kept    bool // the job, or any job so far, may have written
	failed, broken error

	pending []pending // statements that were put off, in order
	before  int       // how many of them are of earlier jobs

	facts      []string // TYPE ID, in order
	sure       int      // how many of them belong to statements that did not fail
	known      bool     // row and first are those of this group
	row, first int64    // where the facts will stand
	factErr    error
}

// pending is a statement that was put off.
type pending struct {
	want  int64 // rows that it must change; negative: any number
	query string
	args  []any
}

// maxPutOff bounds the statements that wait.
const maxPutOff = 256

// errOtherwise says that a statement that was put off has not changed as many rows as was
// said: the group is run again, and its job hears where.
var errOtherwise = errors.New("a statement did not change what it was expected to")

// Defer implements store.Deferrer.
func (q *writer) Defer(_ context.Context, want int64, query string, args ...any) bool {
	if q.careful || len(q.pending) >= maxPutOff || !countsRows(query) {
		return false
	}
	q.pending = append(q.pending, pending{want: want, query: query, args: args})
	q.sure = len(q.facts)
	return true
}

// flush sends what was put off, in one trip.
func (q *writer) flush(ctx context.Context) error {
	if len(q.pending) == 0 {
		return nil
	}
	var b pgx.Batch
	for _, p := range q.pending {
		b.Queue(p.query, p.args...)
	}
	err := q.conn.Raw(func(c any) error {
		conn, ok := c.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("the connection to the store is a %T", c)
		}
		res := conn.Conn().SendBatch(ctx, &b)
		for _, p := range q.pending {
			tag, err := res.Exec()
			if err == nil && p.want >= 0 && tag.RowsAffected() != p.want {
				err = errOtherwise
			}
			if err != nil {
				return errors.Join(err, res.Close())
			}
		}
		return res.Close()
	})
	q.wrote = q.wrote || len(q.pending) > q.before
	q.pending, q.before = q.pending[:0], 0
	q.note(err)
	return err
}

// run runs a statement of ours.
func (q *writer) run(ctx context.Context, query string) error {
	_, err := q.conn.ExecContext(ctx, query)
	return err
}

// note remembers what a statement of a job met. The facts of a statement that
// failed are not facts.
func (q *writer) note(err error) {
	if err != nil {
		q.facts = q.facts[:q.sure]
	}
	switch {
	case err == nil:
		q.sure = len(q.facts)
	case passing(err):
		q.broken = err
	default:
		q.failed = err
	}
}

func (q *writer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := q.flush(ctx); err != nil {
		return nil, err
	}
	if !q.careful {
		r, err := q.conn.ExecContext(ctx, query, args...)
		q.note(err)
		if err == nil && !q.wrote {
			n, rerr := r.RowsAffected()
			q.wrote = n > 0 || rerr != nil || !countsRows(query)
		}
		return r, err
	}
	// The job may go on after a statement that a rule refused.
	if err := q.run(ctx, `SAVEPOINT statement`); err != nil {
		q.note(err)
		return nil, err
	}
	r, err := q.conn.ExecContext(ctx, query, args...)
	q.note(err)
	q.wrote = true
	end := `RELEASE SAVEPOINT statement`
	if err != nil {
		if q.broken != nil {
			return nil, err
		}
		end = `ROLLBACK TO SAVEPOINT statement; RELEASE SAVEPOINT statement`
	}
	if serr := q.run(ctx, end); serr != nil {
		q.note(serr)
		return nil, errors.Join(err, serr)
	}
	return r, err
}

func (q *writer) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := q.flush(ctx); err != nil {
		return nil, err
	}
	rows, err := q.conn.QueryContext(ctx, query, args...)
	q.note(err)
	return rows, err
}

func (q *writer) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := q.flush(ctx); err != nil {
		return q.failedRow(ctx)
	}
	row := q.conn.QueryRowContext(ctx, query, args...)
	q.note(row.Err())
	return row
}

// failedRow is a row that says that the transaction has failed: the server takes no
// statement any more, or the connection is gone.
func (q *writer) failedRow(ctx context.Context) *sql.Row {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return q.conn.QueryRowContext(ctx, `SELECT 1`)
}

// countsRows reports whether no affected row means no change: not so for
// statements that change the schema.
func countsRows(query string) bool {
	return strings.HasPrefix(query, "INSERT ") || strings.HasPrefix(query, "UPDATE ") || strings.HasPrefix(query, "DELETE ")
}

// place finds out where this group's facts will stand. Under the lock nobody
// else's do.
func (q *writer) place() {
	if q.known || q.factErr != nil {
		return
	}
	q.factErr = q.conn.QueryRowContext(context.Background(), `SELECT fact_row + 1, fact_next FROM store_writer WHERE one = 1`).Scan(&q.row, &q.first)
	q.note(q.factErr)
	q.known = q.factErr == nil
}

// Fact implements store.Facts.
func (q *writer) Fact(typ, id string) int64 {
	q.place()
	q.facts = append(q.facts, typ+" "+strings.ReplaceAll(id, "\n", " "))
	return q.row
}

// SkipTo implements store.Facts. Only the start of a server skips, alone.
func (q *writer) SkipTo(index int64) {
	q.place()
	q.first = max(q.first, index)
}

// storeFacts stores the group's facts, where it has some, and names its transaction.
func (q *writer) storeFacts(ctx context.Context) (xid string, err error) {
	switch {
	case q.factErr != nil:
		return "", q.factErr
	case len(q.facts) == 0:
		err = q.conn.QueryRowContext(ctx, `SELECT pg_current_xact_id()::text`).Scan(&xid)
	default:
		err = q.conn.QueryRowContext(ctx, `WITH w AS (UPDATE store_writer SET fact_row = $1, fact_next = $4 WHERE one = 1)
			INSERT INTO log_facts (n, first, facts) VALUES ($1, $2, $3) RETURNING pg_current_xact_id()::text`,
			q.row, q.first, strings.Join(q.facts, "\n"), q.first+int64(len(q.facts))).Scan(&xid)
	}
	return xid, err
}
