package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
)

// Facts is what a driver's Querier offers while it writes: a note that the
// transaction makes something true that the transparency log will say. Notes
// are kept with the commit, in order, and cost it one row together. The row's
// number is known at once, so that what states the fact can name it.
type Facts interface {
	Fact(typ, id string) (row int64)
	// SkipTo gives the next fact at least this index.
	SkipTo(index int64)
}

// Fact is one thing that the log is to say.
type Fact struct {
	Index    int64 // its place in the log, from 0
	Type, ID string
}

// fact notes a fact of this transaction.
func (t *Tx) fact(typ, id string) int64 {
	f, ok := t.q.(Facts)
	if !ok {
		return 0 // a driver without a log
	}
	return f.Fact(typ, id)
}

// Loss notes that the facts up to an index were lost, and that the operator goes on.
func (t *Tx) Loss(from, to int64) error {
	f, ok := t.q.(Facts)
	if !ok {
		return errors.New("this driver keeps no facts")
	}
	f.SkipTo(to)
	f.Fact(FactLoss, fmt.Sprintf("%d-%d", from, to))
	// A note is kept with a change: this is one that changes nothing.
	_, err := t.exec(`UPDATE schema_version SET version = version WHERE one = 1`)
	return err
}

// Note is a public fact that stands in no table of its own.
type Note struct {
	Type, ID string
	At       time.Time
	Body     json.RawMessage
}

// InsertNote keeps a note for the log; ErrConflict if there is one of this id.
func (t *Tx) InsertNote(n Note) error {
	_, err := t.exec(`INSERT INTO log_notes (id, type, at, body, fact) VALUES ($1, $2, $3, $4, $5)`,
		n.ID, n.Type, micros(n.At), string(n.Body), t.fact(n.Type, n.ID))
	return err
}

// Note returns a note, or ErrNotFound.
func (t *Tx) Note(id string) (Note, error) {
	return one(t, func(r scanner) (n Note, err error) {
		var at int64
		var body string
		err = r.Scan(&n.ID, &n.Type, &at, &body)
		n.At, n.Body = fromMicros(at), json.RawMessage(body)
		return n, err
	}, `SELECT id, type, at, body FROM log_notes WHERE id = $1`, id)
}

// Types of facts.
const (
	FactSubmission = "submission"
	FactResult     = "result"
	FactDecision   = "decision"
	FactOperator   = "operator"
	FactLoss       = "loss"
	FactKey        = "key"     // the key of the log has changed
	FactWeights    = "weights" // what validators have set on the embedded ledger
	FactSeeds      = "seeds"   // a period of seeds: its commitment
	FactReveal     = "reveal"  // and its secret
	FactJudging    = "judging" // another validator has judged a result again
	FactTask       = "task"    // a hidden task: its commitment
	FactRetired    = "retired" // and what opens it
	FactSet        = "set"     // the commitments of a period's tasks
)

// factRow is a row of log_facts.
type factRow struct {
	n, first int64
	list     []string
}

func scanFacts(r scanner) (f factRow, err error) {
	var text string
	err = r.Scan(&f.n, &f.first, &text)
	f.list = strings.Split(text, "\n")
	return f, err
}

func (f factRow) fact(i int) Fact {
	typ, id, _ := strings.Cut(f.list[i], " ")
	return Fact{Index: f.first + int64(i), Type: typ, ID: id}
}

const factColumns = `n, first, facts`

// Facts returns up to limit facts from an index on, in order.
func (t *Tx) Facts(from int64, limit int) ([]Fact, error) {
	// first grows with n: the row that holds from is the last that begins at or before it.
	n, err := t.factRowAt(from)
	if err != nil {
		return nil, err
	}
	var out []Fact
	for len(out) < limit {
		rows, err := many(t, scanFacts, `SELECT `+factColumns+` FROM log_facts WHERE n >= $1 ORDER BY n LIMIT 64`, n)
		if err != nil || len(rows) == 0 {
			return out, err
		}
		for _, r := range rows {
			for i := range r.list {
				if f := r.fact(i); f.Index >= from && len(out) < limit {
					out = append(out, f)
				}
			}
			n = r.n + 1
		}
	}
	return out, nil
}

// factRowAt finds the last row that begins at or before an index.
func (t *Tx) factRowAt(index int64) (int64, error) {
	low := int64(1)
	high, err := one(t, scanInt, `SELECT COALESCE(MAX(n), 0) FROM log_facts`)
	if err != nil {
		return 0, err
	}
	for low < high {
		mid := (low + high + 1) / 2
		row, err := one(t, scanFacts, `SELECT `+factColumns+` FROM log_facts WHERE n >= $1 ORDER BY n LIMIT 1`, mid)
		if err != nil {
			return 0, err
		}
		if row.first <= index {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low, nil
}

// FactRow is the number of the newest row of facts.
func (t *Tx) FactRow() (int64, error) {
	return one(t, scanInt, `SELECT COALESCE(MAX(n), 0) FROM log_facts`)
}

// FactCount is the index after the newest fact.
func (t *Tx) FactCount() (int64, error) {
	row, err := one(t, scanFacts, `SELECT `+factColumns+` FROM log_facts ORDER BY n DESC LIMIT 1`)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return row.first + int64(len(row.list)), err
}

// FactOf returns the fact that something states, or ErrNotFound.
func (t *Tx) FactOf(typ, id string) (Fact, error) {
	var n int64
	var err error
	switch typ {
	case FactSubmission:
		n, err = one(t, scanInt, `SELECT fact FROM submissions WHERE id = $1`, id)
	case FactResult:
		run, attempt, _ := strings.Cut(id, "/")
		n, err = one(t, scanInt, `SELECT fact FROM attempts WHERE run = $1 AND CAST(n AS text) = $2`, run, attempt)
	case FactDecision:
		n, err = one(t, scanInt, `SELECT fact FROM decisions WHERE challenger = $1`, id)
	case FactOperator:
		n, err = one(t, scanInt, `SELECT fact FROM operator_log WHERE CAST(n AS text) = $1`, id)
	default:
		n, err = one(t, scanInt, `SELECT fact FROM log_notes WHERE id = $1`, id)
	}
	if err != nil {
		return Fact{}, err
	}
	row, err := one(t, scanFacts, `SELECT `+factColumns+` FROM log_facts WHERE n = $1`, n)
	if err != nil {
		return Fact{}, err
	}
	i := slices.Index(row.list, typ+" "+id)
	if i < 0 {
		return Fact{}, ErrNotFound
	}
	return row.fact(i), nil
}

// Commits is how often the database was written, and the running hash of it;
// 0 from a driver that does not count.
func (s *Store) Commits() (n int64, hash string) {
	if c, ok := s.e.(interface{ Commits() (int64, string) }); ok {
		return c.Commits()
	}
	return 0, ""
}

// FactCount is Tx.FactCount in a transaction of its own.
func (s *Store) FactCount(ctx context.Context) (n int64, err error) {
	err = s.Read(ctx, func(t *Tx) error {
		n, err = t.FactCount()
		return err
	})
	return n, err
}

// Action returns one act of the operator by its number, or ErrNotFound.
func (t *Tx) Action(n string) (agon.OperatorAction, error) {
	return one(t, scanAction, `SELECT at, actor, what, target, reason, change FROM operator_log WHERE CAST(n AS text) = $1`, n)
}
