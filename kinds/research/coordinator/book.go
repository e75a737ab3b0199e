package coordinator

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/agon-arena/agon/engine/store"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// Book is the ledger of bests of an arena's task with what each was about, as
// anybody may see it.
type Book struct {
	Metric, Direction string
	Baseline          float64
	BestKnown         *float64 // nil: its author does not say
	Entries           []BookEntry
	Members           []MemberRecord // of a suite, by name
	More              int            // older records that are left out
}

// BookEntry is a record with the summary that its miner gave it.
type BookEntry struct {
	Record
	Summary string
}

// MemberRecord is the best that anybody was accepted with in one member of a suite.
type MemberRecord struct {
	Name       string  `json:"name"`
	Value      float64 `json:"value"`
	Submission string  `json:"submission_id"`
	Miner      string  `json:"miner_hotkey"`
	At         Time    `json:"at"`
}

// maxMemberEntries bounds the accepted submissions of a task that are looked at for the records of
// its members: the newest. Its bests are looked at besides.
const maxMemberEntries = 300

// Members returns the record of each member of a suite, by name; empty where the task is none.
// A later submission takes a record only if it is better by more than the noise band.
func (c *Coordinator) Members(ctx context.Context, taskID string) ([]MemberRecord, error) {
	t, err := c.taskOf(taskID)
	if err != nil {
		return nil, err
	}
	out := []MemberRecord{}
	if t.pub.Members == "" {
		return out, nil
	}
	err = c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		out, err = members(tx, t)
		return err
	})
	return out, err
}

func members(tx *store.Tx, t *task) ([]MemberRecord, error) {
	list, err := memberEntries(tx, t)
	if err != nil {
		return nil, err
	}
	best := map[string]MemberRecord{}
	for _, s := range list {
		for metric, x := range s.Observed {
			name, ok := strings.CutPrefix(metric, t.pub.Members)
			if !ok || name == "" {
				continue
			}
			old, held := best[name]
			if held && !quorum.Beats(t.pub.Rules, quorum.Pair{Challenger: x, Incumbent: old.Value}) {
				continue
			}
			switch _, err := tx.Doc(tableCanaries, s.ID); {
			case err == nil:
				continue // the operator's: it wins nothing
			case !errors.Is(err, store.ErrNotFound):
				return nil, err
			}
			best[name] = MemberRecord{name, x, s.ID, s.Miner, s.CreatedAt}
		}
	}
	out := make([]MemberRecord, 0, len(best))
	for _, name := range slices.Sorted(maps.Keys(best)) {
		out = append(out, best[name])
	}
	return out, nil
}

// memberEntries are the accepted submissions of a task that may hold records, the oldest first.
func memberEntries(tx *store.Tx, t *task) ([]storedSubmission, error) {
	rows, err := tx.Docs(tableSubmissions, store.DocFilter{Task: t.id, Status: kr.StatusAccepted, Limit: maxMemberEntries})
	if err != nil {
		return nil, err
	}
	records, err := tx.Docs(tableRecords, store.DocFilter{Task: t.id, Limit: maxBook})
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if slices.ContainsFunc(rows, func(d store.Doc) bool { return d.ID == r.ID }) {
			continue
		}
		d, err := tx.Doc(tableSubmissions, r.ID)
		if err != nil {
			return nil, err
		}
		rows = append(rows, d)
	}
	out := make([]storedSubmission, 0, len(rows))
	for _, d := range rows {
		s, err := decode[storedSubmission](d)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b storedSubmission) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt.Time), strings.Compare(a.ID, b.ID))
	})
	return out, nil
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
		if t.pub.Members != "" {
			b.Members, err = members(tx, t)
		}
		return err
	})
	return b, err
}
