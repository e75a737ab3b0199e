package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agon-arena/agon"
)

// Archive reads events and receipts that were moved out of the database. Safe for
// concurrent use.
type Archive interface {
	// Run returns what the part of a file holds of a run, both lists in order. It may come
	// from memory: callers change nothing of it.
	Run(ctx context.Context, file agon.Digest, part int, run string) (*Trail, error)
}

// UseArchive says where archived runs are read from. Without it a read of an archived run
// is an error. It may be called again: a server that follows comes to lead.
func (s *Store) UseArchive(a Archive) { s.archive.Store(&a) }

// Trail is what a run left row by row: the part of it that is archived.
type Trail struct {
	Run      string
	Events   []agon.Event     // by attempt and number
	Receipts []ArchiveReceipt // by attempt and id
}

// ArchiveReceipt is a receipt as it is stored.
type ArchiveReceipt struct {
	Attempt  int
	ID, Task string
	Body     string // JSON of an agon.Receipt
}

// Archived is a file of the archive.
type Archived struct {
	File  agon.Digest
	Marks agon.Digest // a blob: the digests that the file names, 32 bytes each
	Runs  int64       // in it; PutArchive counts them itself
	Bytes int64       // of the file
	At    time.Time
}

// ArchivedRun says where a run stands in the archive, and how much of it.
type ArchivedRun struct {
	Run              string
	File             agon.Digest
	Part             int
	Events, Receipts int64
}

// idleRuns selects runs that ended before $1 and wait for nothing, have events or receipts
// in the database, and are not in the archive. Those of who sits stay: they are read all day.
const idleRuns = `SELECT r.n, r.id FROM runs r JOIN submissions s ON s.id = r.submission
	WHERE r.n > $2 AND r.ended_at > 0 AND r.ended_at < $1 AND s.state NOT IN ('queued', 'playing')
	AND NOT EXISTS (SELECT 1 FROM archived_runs x WHERE x.run = r.id)
	AND NOT EXISTS (SELECT 1 FROM seats t WHERE t.submission = s.id)
	AND NOT EXISTS (SELECT 1 FROM judgings j WHERE j.submission = s.id AND (j.state = 'queued' OR j.state = 'leased'))
	AND (EXISTS (SELECT 1 FROM events e WHERE e.run = r.id) OR EXISTS (SELECT 1 FROM receipts c WHERE c.run = r.id))`

// IdleRun is a run that may be archived.
type IdleRun struct {
	N   int64 // the order of all runs
	Run string
}

// IdleRuns returns at most limit runs after the number n that may be archived: they
// ended before a time, and nothing waits for them.
func (t *Tx) IdleRuns(before time.Time, n int64, limit int) ([]IdleRun, error) {
	return many(t, func(r scanner) (x IdleRun, err error) { err = r.Scan(&x.N, &x.Run); return x, err },
		idleRuns+` ORDER BY r.n LIMIT $3`, micros(before), n, int64(limit))
}

// CountIdleRuns counts the runs that IdleRuns would return, and their events and receipts.
func (t *Tx) CountIdleRuns(before time.Time) (runs, events, receipts int64, err error) {
	_, err = one(t, func(r scanner) (x struct{}, err error) { return x, r.Scan(&runs, &events, &receipts) },
		`WITH idle AS (`+idleRuns+`) SELECT (SELECT COUNT(*) FROM idle),
			(SELECT COUNT(*) FROM events WHERE run IN (SELECT id FROM idle)), (SELECT COUNT(*) FROM receipts WHERE run IN (SELECT id FROM idle))`,
		micros(before), int64(0))
	return runs, events, receipts, err
}

// TrailOf returns the events and receipts of a run that stand in the database.
func (t *Tx) TrailOf(run string) (*Trail, error) {
	x := &Trail{Run: run}
	var err error
	if x.Events, err = many(t, scanEvent, `SELECT `+eventColumns+` FROM events WHERE run = $1 ORDER BY attempt, seq`, run); err != nil {
		return nil, err
	}
	x.Receipts, err = many(t, func(r scanner) (c ArchiveReceipt, err error) {
		err = r.Scan(&c.Attempt, &c.ID, &c.Task, &c.Body)
		return c, err
	}, `SELECT attempt, id, task, body FROM receipts WHERE run = $1`, run)
	sortReceipts(x.Receipts) // by bytes: databases order texts in different ways
	return x, err
}

func sortReceipts(list []ArchiveReceipt) {
	slices.SortFunc(list, func(a, b ArchiveReceipt) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.ID, b.ID))
	})
}

// PutArchive notes a file that holds runs. Their rows stay until ClearArchived: both count
// meanwhile. ErrConflict if one of them is archived already.
func (t *Tx) PutArchive(a Archived, runs []ArchivedRun) error {
	var events, receipts int64
	for _, r := range runs {
		events += r.Events
		receipts += r.Receipts
		if _, err := t.exec(`INSERT INTO archived_runs (run, file, part, events, receipts) VALUES ($1, $2, $3, $4, $5)`,
			r.Run, string(a.File), int64(r.Part), r.Events, r.Receipts); err != nil {
			return err
		}
	}
	// The same file may come again: a run that was taken out of the archive (ClearArchived) may be the same as before.
	_, err := t.exec(`INSERT INTO archives (file, marks, runs, events, receipts, bytes, at) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (file) DO NOTHING`, string(a.File), string(a.Marks), int64(len(runs)), events, receipts, a.Bytes, micros(a.At))
	return err
}

// UnclearedRuns returns at most limit runs of the archive whose rows are still in the database.
func (t *Tx) UnclearedRuns(limit int) ([]ArchivedRun, error) {
	return many(t, scanArchivedRun, `SELECT `+archivedColumns+` FROM archived_runs WHERE cleared <> 1 ORDER BY run LIMIT $1`, int64(limit))
}

const archivedColumns = `run, file, part, events, receipts`

func scanArchivedRun(r scanner) (x ArchivedRun, err error) {
	err = r.Scan(&x.Run, &x.File, &x.Part, &x.Events, &x.Receipts)
	return x, err
}

// ClearArchived removes the rows of a run that stands in the archive. Where the
// database has other rows than the file, since a report came late, the run is taken out of
// the archive instead, to be archived again: cleared is false then.
func (t *Tx) ClearArchived(run string) (cleared bool, err error) {
	type left struct {
		ArchivedRun
		cleared int64
	}
	x, err := one(t, func(r scanner) (x left, err error) {
		err = r.Scan(&x.Run, &x.File, &x.Part, &x.Events, &x.Receipts, &x.cleared)
		return x, err
	}, `SELECT `+archivedColumns+`, cleared FROM archived_runs WHERE run = $1 AND cleared <> 1`, run)
	if errors.Is(err, ErrNotFound) {
		return true, nil // somebody else has
	}
	if err != nil {
		return false, err
	}
	tables := []struct {
		name string
		want int64
	}{{"receipts", x.Receipts}, {"events", x.Events}}
	if x.cleared == eventsGone { // with their month; what came later stays
		tables = tables[:1]
	}
	for _, p := range tables {
		have, err := one(t, scanInt, `SELECT COUNT(*) FROM `+p.name+` WHERE run = $1`, run)
		if err != nil {
			return false, err
		}
		switch {
		case have == p.want:
		case x.cleared == eventsGone: // the file alone has its events: its late receipts stay beside it
			return true, t.exec1(`UPDATE archived_runs SET cleared = 1 WHERE run = $1`, run)
		default:
			return false, t.exec1(`DELETE FROM archived_runs WHERE run = $1`, run)
		}
	}
	for _, p := range tables {
		if _, err := t.exec(`DELETE FROM `+p.name+` WHERE run = $1`, run); err != nil {
			return false, err
		}
	}
	return true, t.exec1(`UPDATE archived_runs SET cleared = 1 WHERE run = $1`, run)
}

// eventsGone in archived_runs.cleared says that the events of a run are gone, and its
// receipts are not.
const eventsGone = 2

// Month is a part of the table events: a table of its own with the runs of a month.
type Month struct {
	Table    string
	From, To string // ids of runs, the second is not in it; From "": all before To
}

// Monthly is an Engine whose events stand apart by the month in which their run was made.
type Monthly interface {
	// DropMonths drops the months that ended before a time and of which may says true, each
	// in a transaction of its own during which nobody writes into the month. What may changes
	// by q is kept if it says true. It leaves out months that others use right now.
	DropMonths(ctx context.Context, before time.Time, may func(ctx context.Context, q Querier, m Month) (bool, error)) (dropped int, err error)
}

// DropMonths drops the months before a time whose events all stand in the archive, where the
// driver keeps months apart, and returns how many. What is left ClearArchived removes.
func (s *Store) DropMonths(ctx context.Context, before time.Time) (int, error) {
	e, ok := s.e.(Monthly)
	if !ok {
		return 0, nil
	}
	return e.DropMonths(ctx, before, func(ctx context.Context, q Querier, m Month) (bool, error) {
		t := &Tx{q: q, ctx: ctx, e: s.e, s: s}
		// An archived run has at least the rows that it had when it was archived, until it is
		// cleared: where the sums are the same, so are the rows.
		have, err := one(t, scanInt, `SELECT COUNT(*) FROM `+m.Table)
		if err != nil {
			return false, err
		}
		want, err := one(t, scanInt, `SELECT CAST(COALESCE(SUM(events), 0) AS bigint) FROM archived_runs WHERE cleared = 0 AND run >= $1 AND run < $2`, m.From, m.To)
		if err != nil || have != want {
			return false, err
		}
		_, err = t.exec(`UPDATE archived_runs SET cleared = 2 WHERE cleared = 0 AND run >= $1 AND run < $2`, m.From, m.To)
		return err == nil, err
	})
}

// Archives returns the files of the archive, oldest first.
func (t *Tx) Archives() ([]Archived, error) {
	return many(t, scanArchive, `SELECT file, marks, runs, bytes, at FROM archives ORDER BY at, file`)
}

func scanArchive(r scanner) (a Archived, err error) {
	var at int64
	err = r.Scan(&a.File, &a.Marks, &a.Runs, &a.Bytes, &at)
	a.At = fromMicros(at)
	return a, err
}

// settled is where nothing waits for what run r of submission s left, as of the time $1: the
// submission is decided and neither sits nor sat, is not appealed and not judged again.
const settled = `s.state NOT IN ('queued', 'playing')
	AND NOT EXISTS (SELECT 1 FROM seats t WHERE t.submission = s.id)
	AND NOT EXISTS (SELECT 1 FROM decisions d WHERE d.challenger = s.id AND d.outcome = 'took_seat')
	AND NOT EXISTS (SELECT 1 FROM appeals a WHERE a.submission = s.id AND a.deadline >= $1)
	AND NOT EXISTS (SELECT 1 FROM judgings j WHERE j.submission = s.id AND (j.state = 'queued' OR j.state = 'leased'))`

// OldArchives returns at most limit files of the archive all of whose runs ended before a
// time and have no rows beside it, and for which nothing waits. Oldest first.
func (t *Tx) OldArchives(before time.Time, limit int) ([]Archived, error) {
	return many(t, scanArchive, `SELECT file, marks, runs, bytes, at FROM archives WHERE file NOT IN (
		SELECT x.file FROM archived_runs x JOIN runs r ON r.id = x.run JOIN submissions s ON s.id = r.submission
		WHERE x.cleared <> 1 OR r.ended_at >= $1 OR NOT (`+settled+`)) ORDER BY at, file LIMIT $2`, micros(before), int64(limit))
}

// DropArchive forgets a file of the archive: the steps of its runs are gone then (Gone). Its
// bytes are garbage. It returns how many runs that are.
func (t *Tx) DropArchive(file agon.Digest) (int64, error) {
	n, err := one(t, scanInt, `SELECT COUNT(*) FROM archived_runs WHERE file = $1 AND cleared <> 1`, string(file))
	if err != nil {
		return 0, err
	}
	if n > 0 {
		return 0, fmt.Errorf("archive %s: rows of %d runs are not removed yet: %w", file, n, ErrConflict)
	}
	if n, err = t.exec(`UPDATE archived_runs SET file = '' WHERE file = $1`, string(file)); err != nil {
		return 0, err
	}
	return n, t.exec1(`DELETE FROM archives WHERE file = $1`, string(file))
}

// Gone says what a run left that was removed since its time was over (agon.GoneSteps and so on).
func (t *Tx) Gone(run string) (list []string, err error) {
	for _, x := range []struct{ what, query string }{
		{agon.GoneSteps, `SELECT COUNT(*) FROM archived_runs WHERE run = $1 AND file = ''`},
		{agon.GoneEvidence, `SELECT COUNT(*) FROM attempts a WHERE a.run = $1 AND a.evidence <> ''
			AND NOT EXISTS (SELECT 1 FROM blob_refs b WHERE b.digest = a.evidence AND b.what = 'evidence' AND b.owner = a.run)`},
		{agon.GoneOutput, `SELECT COUNT(*) FROM gone_files WHERE run = $1 AND what = 'output'`},
	} {
		n, err := one(t, scanInt, x.query, run)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			list = append(list, x.what)
		}
	}
	return list, nil
}

// archived returns what the archive holds of a run; nil: nothing.
func (t *Tx) archived(run string) (*Trail, error) {
	x, err := one(t, scanArchivedRun, `SELECT `+archivedColumns+` FROM archived_runs WHERE run = $1 AND file <> ''`, run)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return t.trail(x)
}

func (t *Tx) trail(x ArchivedRun) (*Trail, error) {
	a := t.s.archive.Load()
	if a == nil || *a == nil {
		return nil, fmt.Errorf("read run %s: its events are archived in %s, and the blob store is not open", x.Run, x.File)
	}
	out, err := (*a).Run(t.ctx, x.File, x.Part, x.Run)
	if err != nil {
		return nil, fmt.Errorf("read run %s in the archive: %w", x.Run, err)
	}
	return out, nil
}

// archivedOf returns what the archive holds of runs, by run. args are bound to in.
func (t *Tx) archivedOf(in string, args []any) (map[string]*Trail, error) {
	list, err := many(t, scanArchivedRun, `SELECT `+archivedColumns+` FROM archived_runs WHERE file <> '' AND run IN (`+in+`)`, args...)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	out := make(map[string]*Trail, len(list))
	for _, x := range list {
		if out[x.Run], err = t.trail(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// eventsWith adds archived events after a cursor to those of the database.
func eventsWith(x *Trail, rows []agon.Event, afterAttempt int, afterSeq int64, limit int) []agon.Event {
	if x == nil {
		return rows
	}
	order := func(a, b agon.Event) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Seq, b.Seq))
	}
	from, found := slices.BinarySearchFunc(x.Events, agon.Event{Attempt: afterAttempt, Seq: afterSeq}, order)
	if found {
		from++
	}
	list := slices.Clone(x.Events[from:min(from+limit, len(x.Events))])
	list = append(list, rows...)
	slices.SortStableFunc(list, order)
	list = slices.CompactFunc(list, func(a, b agon.Event) bool { return order(a, b) == 0 })
	return list[:min(limit, len(list))]
}

// receiptsWith adds archived receipts of an attempt to those of the database, by id.
func receiptsWith(x *Trail, attempt int, rows []agon.Receipt) ([]agon.Receipt, error) {
	if x == nil {
		return rows, nil
	}
	var list []agon.Receipt
	for _, c := range x.Receipts {
		if c.Attempt != attempt {
			continue
		}
		r, err := decodeReceipt(c.Body)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	list = append(list, rows...)
	slices.SortStableFunc(list, func(a, b agon.Receipt) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(list, func(a, b agon.Receipt) bool { return a.ID == b.ID }), nil
}

const eventColumns = `run, attempt, seq, at, task, type, data`

func scanEvent(r scanner) (e agon.Event, err error) {
	var at int64
	var data string
	err = r.Scan(&e.Run, &e.Attempt, &e.Seq, &at, &e.Task, &e.Type, &data)
	e.At = fromMicros(at)
	if data != "" {
		e.Data = json.RawMessage(data)
	}
	return e, err
}
