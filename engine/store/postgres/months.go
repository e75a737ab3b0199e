package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// The table events has a partition for each month in which runs were made: an archived
// month is dropped at once, where its rows would be deleted one by one. Ids of runs begin
// with the time at which they were made (UUIDv7, RFC 9562), so the id of a run alone says
// where its events are, and (run, attempt, seq) stays the key. Ids of another form, which
// no server makes, stand in events_rest.

const (
	// ahead is how many months have their partition before they begin.
	ahead = 2
	// lookAhead is how often a server looks for months to make.
	lookAhead = 6 * time.Hour
	// ddlWait bounds the wait for others, who wait behind: it is tried again later.
	ddlWait = "1s"
)

var _ store.Monthly = (*engine)(nil)

// month is a partition: it holds the runs from one id, to before another.
type month struct{ name, from, to string }

// firstID is the smallest id of a run that is made at t.
func firstID(t time.Time) string {
	ms := uint64(t.UnixMilli())
	return fmt.Sprintf("%08x-%04x-0000-0000-000000000000", ms>>16, ms&0xffff)
}

// bounds reads what pg_get_expr writes of a range.
var bounds = lazyregexp.New(`^FOR VALUES FROM \((?:MINVALUE|'([0-9a-f-]{36})')\) TO \('([0-9a-f-]{36})'\)$`)

// months lists the partitions, oldest first. parted is false where events has none yet.
func months(ctx context.Context, tx *sql.Tx) (list []month, parted bool, err error) {
	if err := tx.QueryRowContext(ctx, `SELECT relkind = 'p' FROM pg_class WHERE oid = 'events'::regclass`).Scan(&parted); err != nil || !parted {
		return nil, false, err
	}
	rows, err := tx.QueryContext(ctx, `SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'events'::regclass ORDER BY c.relname COLLATE "C"`)
	if err != nil {
		return nil, true, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, bound string
		if err := rows.Scan(&name, &bound); err != nil {
			return nil, true, err
		}
		if b := bounds().FindStringSubmatch(bound); b != nil {
			list = append(list, month{name: name, from: b[1], to: b[2]})
		}
	}
	return list, true, rows.Err()
}

// keepMonths makes the partitions that are needed soon, until the engine is closed.
func (e *engine) keepMonths() {
	defer close(e.kept)
	tick := time.NewTicker(lookAhead)
	defer tick.Stop()
	for {
		select {
		case <-e.over.Done():
			return
		case <-tick.C:
			_ = e.makeMonths(e.over) // the next time, or the next start, is early enough
		}
	}
}

// alone runs fn in a transaction while no process writes. It gives up soon where a table is in use: busy.
func (e *engine) alone(ctx context.Context, fn func(tx *sql.Tx) error) (busy bool, err error) {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = '%s'; SELECT pg_advisory_xact_lock(%d)`, ddlWait, lockKey))
	if err == nil {
		err = fn(tx)
	}
	if state(err) == lockNotAvailable {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, tx.Commit()
}

// makeMonths makes the partitions of this month and of those to come. Where events is a
// plain table it becomes the first partition. A table that is in use stays as it is, and so
// does one whose runs have ids of another form.
func (e *engine) makeMonths(ctx context.Context) error {
	upTo, ready, err := e.checkOld(ctx)
	if err != nil || !ready {
		return err
	}
	_, err = e.alone(ctx, func(tx *sql.Tx) error {
		list, parted, err := months(ctx, tx)
		if err != nil {
			return err
		}
		if !parted {
			if err := part(ctx, tx, upTo); err != nil {
				return err
			}
			if list, _, err = months(ctx, tx); err != nil {
				return err
			}
		}
		var now time.Time
		if err := tx.QueryRowContext(ctx, `SELECT now()`).Scan(&now); err != nil {
			return err
		}
		covered := ""
		for _, m := range list {
			covered = max(covered, m.to)
		}
		for i := range ahead + 1 {
			at := monthOf(now, i)
			to := firstID(monthOf(now, i+1))
			if covered >= to {
				continue
			}
			from := `MINVALUE`
			if covered != "" {
				from = `'` + covered + `'`
			}
			if _, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE events_%s PARTITION OF events FOR VALUES FROM (%s) TO ('%s')`, at.Format("2006_01"), from, to)); err != nil {
				return fmt.Errorf("make a partition of events: %w", err)
			}
			covered = to
		}
		return nil
	})
	return err
}

// monthOf is the beginning of the month of now, or of one later.
func monthOf(now time.Time, later int) time.Time {
	now = now.UTC()
	return time.Date(now.Year(), now.Month()+time.Month(later), 1, 0, 0, 0, 0, time.UTC)
}

// checkViolation says that a row is not as a constraint wants it (PostgreSQL 15, appendix A).
const checkViolation = "23514"

// oldRange is the constraint by which a plain table's rows are known to fit below an id.
const oldRange = "events_range"

// checkOld makes sure that the rows of a plain table stand below an id, without holding
// up who writes, however long the table is: then it becomes a partition at once. It is not ready where
// rows have ids of another form, or the table is in use.
func (e *engine) checkOld(ctx context.Context) (upTo string, ready bool, err error) {
	var parted, empty bool
	var now time.Time
	// Alone: another process that starts may be putting a table in the place of this one.
	busy, err := e.alone(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT relkind = 'p', NOT EXISTS (SELECT 1 FROM events), now() FROM pg_class WHERE oid = 'events'::regclass`).
			Scan(&parted, &empty, &now)
	})
	if err != nil || busy {
		return "", false, err
	}
	upTo = firstID(monthOf(now, 2)) // runs that are made meanwhile fit too
	if parted || empty {
		return "", true, nil
	}
	busy, err = e.alone(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`ALTER TABLE events DROP CONSTRAINT IF EXISTS %s, ADD CONSTRAINT %s CHECK (run < '%s') NOT VALID`, oldRange, oldRange, upTo))
		return err
	})
	if err != nil || busy {
		return "", false, err
	}
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, `SET LOCAL statement_timeout = 0; ALTER TABLE events VALIDATE CONSTRAINT `+oldRange)
	if state(err) == checkViolation {
		_ = tx.Rollback()
		_, err = e.db.ExecContext(ctx, `ALTER TABLE events DROP CONSTRAINT IF EXISTS `+oldRange)
		return "", false, err
	}
	if err != nil {
		return "", false, fmt.Errorf("check the ids of events: %w", err)
	}
	return upTo, true, tx.Commit()
}

// part puts a table with partitions in the place of events. upTo is above all ids of the
// old one, which becomes the first partition; "": it had no rows, and goes.
func part(ctx context.Context, tx *sql.Tx, upTo string) error {
	steps := []string{
		`LOCK TABLE events IN ACCESS EXCLUSIVE MODE`,
		`ALTER TABLE events RENAME TO events_before`,
		`ALTER INDEX events_pkey RENAME TO events_before_pkey`,
		`CREATE TABLE events (LIKE events_before, PRIMARY KEY (run, attempt, seq)) PARTITION BY RANGE (run)`,
		`CREATE TABLE events_rest PARTITION OF events DEFAULT`,
	}
	if upTo != "" {
		steps = append(steps,
			fmt.Sprintf(`ALTER TABLE events ATTACH PARTITION events_before FOR VALUES FROM (MINVALUE) TO ('%s')`, upTo),
			`ALTER TABLE events_before DROP CONSTRAINT IF EXISTS `+oldRange)
	} else {
		// Somebody may have written since it was empty.
		steps = append(steps, `INSERT INTO events SELECT * FROM events_before`, `DROP TABLE events_before`)
	}
	for _, s := range steps {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("part events by month: %w", err)
		}
	}
	return nil
}

// DropMonths implements store.Monthly.
func (e *engine) DropMonths(ctx context.Context, before time.Time, may func(ctx context.Context, q store.Querier, m store.Month) (bool, error)) (dropped int, err error) {
	var list []month
	if _, err := e.alone(ctx, func(tx *sql.Tx) (err error) { list, _, err = months(ctx, tx); return err }); err != nil {
		return 0, err
	}
	for _, m := range list {
		if m.to > firstID(before) {
			continue
		}
		ok, err := e.dropMonth(ctx, m, may)
		if state(err) == lockNotAvailable || state(err) == deadlock { // in use: the next time
			continue
		}
		if err != nil {
			return dropped, fmt.Errorf("drop %s: %w", m.name, err)
		}
		if ok {
			dropped++
		}
	}
	return dropped, nil
}

// dropMonth drops one month if it may go. Others write meanwhile, but not into this
// month, into which nearly nobody writes any more; the table itself goes at the end.
func (e *engine) dropMonth(ctx context.Context, m month, may func(ctx context.Context, q store.Querier, m store.Month) (bool, error)) (bool, error) {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `SET LOCAL lock_timeout = '`+ddlWait+`'; SET LOCAL statement_timeout = 0; LOCK TABLE `+m.name+` IN SHARE MODE`); err != nil {
		return false, err
	}
	if ok, err := may(ctx, tx, store.Month{Table: m.name, From: m.from, To: m.to}); err != nil || !ok {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, `DROP TABLE `+m.name); err != nil {
		return false, err
	}
	return true, tx.Commit()
}
