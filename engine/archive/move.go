package archive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/store"
)

const (
	// fileBytes is about how much a file holds before it is compressed; a longer run has one alone.
	fileBytes = 16 << 20
	// fileRuns bounds the runs of a file, each of which is a row group.
	fileRuns = 500
	// clearAtOnce and clearRows bound a transaction that removes rows: others wait for it.
	clearAtOnce, clearRows = 100, 5000
)

// Config says what is to be archived. All fields but DryRun are needed.
type Config struct {
	Store  *store.Store
	Blobs  blob.Store
	Now    time.Time
	Before time.Time // runs that ended earlier are archived
	DryRun bool      // change nothing
}

// Report is what was archived, or would be.
type Report struct {
	Runs     int64 `json:"runs"`
	Events   int64 `json:"events"`
	Receipts int64 `json:"receipts"`
	Files    int64 `json:"files"` // 0 in a dry run
	Bytes    int64 `json:"bytes"` // of the files; 0 in a dry run
	// Months are the tables of events by month that were dropped as a whole (PostgreSQL).
	Months int64 `json:"months"`
	// Kept are runs that stay in the database: too large for a blob, or reported on meanwhile.
	Kept int64 `json:"kept"`
}

// Move archives what is old. Order of writes: the file (durable when Put returns), a read
// of it that is compared with the rows, the note of it, then the rows go. What a crash
// leaves between is a file that nothing names, or rows that stand in both places and go
// with the next Move. Servers may be at work.
func Move(ctx context.Context, c Config) (*Report, error) {
	r := &Report{}
	if c.DryRun {
		err := c.Store.Read(ctx, func(tx *store.Tx) (err error) {
			r.Runs, r.Events, r.Receipts, err = tx.CountIdleRuns(c.Before)
			return err
		})
		return r, err
	}
	err := (&mover{Config: c, r: r}).all(ctx)
	// Whole months first: where all rows of one are archived its table is dropped.
	months, derr := c.Store.DropMonths(ctx, c.Before)
	r.Months = int64(months)
	return r, errors.Join(err, derr, c.clear(ctx, r))
}

// Dropped is what was forgotten, or would be.
type Dropped struct {
	Files int64 `json:"files"`
	Runs  int64 `json:"runs"`  // whose steps are gone
	Bytes int64 `json:"bytes"` // of the files; they go with the next collection of blobs
}

// dropAtOnce bounds the files that are read from the database at once.
const dropAtOnce = 200

// Drop forgets the files all of whose runs ended before c.Before and wait for nothing. Scores,
// decisions and money are rows and stay.
func Drop(ctx context.Context, c Config) (*Dropped, error) {
	d := &Dropped{}
	for {
		limit := dropAtOnce
		if c.DryRun {
			limit = math.MaxInt32 // nothing goes: a second look would see the same
		}
		var list []store.Archived
		err := c.Store.Read(ctx, func(tx *store.Tx) (err error) {
			list, err = tx.OldArchives(c.Before, limit)
			return err
		})
		if err != nil {
			return d, err
		}
		for _, a := range list {
			runs := a.Runs
			if !c.DryRun {
				if err := c.Store.Write(ctx, func(tx *store.Tx) (err error) { runs, err = tx.DropArchive(a.File); return err }); err != nil {
					return d, fmt.Errorf("drop archive %s: %w", a.File, err)
				}
			}
			d.Files++
			d.Runs += runs
			d.Bytes += a.Bytes
		}
		if len(list) < limit {
			return d, nil
		}
	}
}

// mover gathers the runs of a file.
type mover struct {
	Config
	r    *Report
	runs []*store.Trail
	size int
}

// all makes files of all runs that are old.
func (m *mover) all(ctx context.Context) error {
	for after := int64(0); ; {
		var list []store.IdleRun
		err := m.Store.Read(ctx, func(tx *store.Tx) (err error) {
			list, err = tx.IdleRuns(m.Before, after, fileRuns)
			return err
		})
		if err != nil {
			return err
		}
		for _, x := range list {
			after = x.N
			if err := m.add(ctx, x.Run); err != nil {
				return err
			}
		}
		if err := m.flush(ctx); err != nil {
			return err
		}
		if len(list) < fileRuns {
			return nil
		}
	}
}

func (m *mover) add(ctx context.Context, run string) error {
	var x *store.Trail
	err := m.Store.Read(ctx, func(tx *store.Tx) (err error) {
		x, err = tx.TrailOf(run)
		return err
	})
	if err != nil {
		return err
	}
	n := size(x)
	if n == 0 { // another Move has cleared it meanwhile
		return nil
	}
	if m.size > 0 && m.size+n > fileBytes {
		if err := m.flush(ctx); err != nil {
			return err
		}
	}
	m.runs, m.size = append(m.runs, x), m.size+n
	return nil
}

// flush makes a file of what was gathered.
func (m *mover) flush(ctx context.Context) error {
	runs := m.runs
	m.runs, m.size = nil, 0
	if len(runs) == 0 {
		return ctx.Err()
	}
	a, err := m.write(ctx, runs)
	if errors.Is(err, blob.ErrTooLarge) { // a run alone: others fit
		m.r.Kept += int64(len(runs))
		return nil
	}
	if err != nil {
		return err
	}
	notes := make([]store.ArchivedRun, len(runs))
	for i, x := range runs {
		notes[i] = store.ArchivedRun{Run: x.Run, File: a.File, Part: i, Events: int64(len(x.Events)), Receipts: int64(len(x.Receipts))}
	}
	err = m.Store.Write(ctx, func(tx *store.Tx) error { return tx.PutArchive(a, notes) })
	if errors.Is(err, store.ErrConflict) { // another Move was first: the file is garbage
		m.r.Kept += int64(len(runs))
		return nil
	}
	if err != nil {
		return fmt.Errorf("note archive %s: %w", a.File, err)
	}
	m.r.Runs += int64(len(runs))
	m.r.Files++
	m.r.Bytes += a.Bytes
	for _, x := range notes {
		m.r.Events += x.Events
		m.r.Receipts += x.Receipts
	}
	return nil
}

// write stores a file and its marks, reads the file back, and compares it with the runs.
func (m *mover) write(ctx context.Context, runs []*store.Trail) (a store.Archived, err error) {
	b, err := encode(runs)
	if err != nil {
		return a, err
	}
	a.Bytes, a.At = int64(len(b)), m.Now
	if a.File, err = m.Blobs.Put(ctx, b); err != nil {
		return a, fmt.Errorf("store archive: %w", err)
	}
	if a.Marks, err = m.Blobs.Put(ctx, marksOf(runs)); err != nil {
		return a, fmt.Errorf("store the marks of an archive: %w", err)
	}
	if b, err = m.Blobs.Get(ctx, a.File); err != nil {
		return a, fmt.Errorf("read archive back: %w", err)
	}
	for i, x := range runs {
		y, err := decode(b, i, x.Run)
		if err != nil {
			return a, err
		}
		if !same(x, y) {
			return a, fmt.Errorf("archive %s does not hold what run %s has: nothing is removed", a.File, x.Run)
		}
	}
	return a, nil
}

// clear removes the rows of runs that stand in files, a few in a transaction.
func (c Config) clear(ctx context.Context, r *Report) error {
	for {
		var list []store.ArchivedRun
		err := c.Store.Read(ctx, func(tx *store.Tx) (err error) {
			list, err = tx.UnclearedRuns(clearAtOnce)
			return err
		})
		if err != nil || len(list) == 0 {
			return err
		}
		for len(list) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			n, rows := 0, int64(0)
			for n < len(list) && (n == 0 || rows+list[n].Events+list[n].Receipts <= clearRows) {
				rows += list[n].Events + list[n].Receipts
				n++
			}
			var kept int64
			err := c.Store.Write(ctx, func(tx *store.Tx) error {
				kept = 0
				for _, x := range list[:n] {
					cleared, err := tx.ClearArchived(x.Run)
					if err != nil {
						return fmt.Errorf("clear run %s: %w", x.Run, err)
					}
					if !cleared {
						kept++
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			r.Kept += kept
			list = list[n:]
		}
	}
}
