package coordinator

import (
	"context"
	"errors"
	"slices"

	"github.com/agon-arena/agon/engine/store"
)

// Book is the ledger of bests of an arena's task with what each was about, as
// anybody may see it.
type Book struct {
	Metric, Direction string
	Baseline          float64
	BestKnown         *float64 // nil: its author does not say
	Entries           []BookEntry
	More              int // older records that are left out
}

// BookEntry is a record with the summary that its miner gave it.
type BookEntry struct {
	Record
	Summary string
}

// Hardware are the classes of machines on which the record was measured, sorted.
func (e BookEntry) Hardware() []string {
	var out []string
	for _, r := range e.Replays {
		if r.Hardware != "" {
			out = append(out, r.Hardware)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxBook bounds the records of a Book.
const maxBook = 100

// Book returns the records of an arena, the oldest first; nil: it has no task here.
func (c *Coordinator) Book(ctx context.Context, arena string) (*Book, error) {
	t := c.taskOfArena(arena)
	if t == nil {
		return nil, nil
	}
	b := &Book{Metric: t.pub.MetricName, Direction: t.pub.MetricDirection, Baseline: t.pub.Baseline, BestKnown: t.pub.BestKnown}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableRecords, store.DocFilter{Task: t.id, Limit: maxBook}) // newest first
		if err != nil {
			return err
		}
		for i := len(rows) - 1; i >= 0; i-- {
			r, err := decode[Record](rows[i])
			if err != nil {
				return err
			}
			e := BookEntry{Record: r}
			switch d, err := tx.Doc(tableSubmissions, r.Submission); {
			case err == nil:
				s, err := decode[storedSubmission](d)
				if err != nil {
					return err
				}
				e.Summary = s.Summary
			case !errors.Is(err, store.ErrNotFound):
				return err
			}
			b.Entries = append(b.Entries, e)
		}
		if len(b.Entries) > 0 {
			b.More = b.Entries[0].Number - 1
		}
		return nil
	})
	return b, err
}
