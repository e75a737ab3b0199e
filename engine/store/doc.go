package store

import (
	"fmt"
	"strings"
	"time"

	"github.com/agon-arena/agon/internal/plain"
)

// DocTable names a table of documents that a kind keeps beside the engine's
// rows; a migration makes it, the kind has its name.
type DocTable string

// Doc is one row: who and what it is about in columns, the rest in Body.
type Doc struct {
	N      int64 // order of insertion
	ID     string
	Task   string
	Owner  string
	Ref    string
	Status string
	At     time.Time
	Body   []byte // JSON
}

const docColumns = `n, id, task, owner, ref, status, at, body`

func scanDoc(r scanner) (d Doc, err error) {
	var at int64
	var body string
	err = r.Scan(&d.N, &d.ID, &d.Task, &d.Owner, &d.Ref, &d.Status, &at, &body)
	d.At, d.Body = fromMicros(at), []byte(body)
	return d, err
}

// InsertDoc stores a new row; ErrConflict if its id is taken.
func (t *Tx) InsertDoc(table DocTable, d Doc) error {
	n, err := t.exec(`INSERT INTO `+string(table)+` (id, task, owner, ref, status, at, body) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO NOTHING`, d.ID, d.Task, d.Owner, d.Ref, d.Status, micros(d.At), plain.Storable(string(d.Body)))
	if err == nil && n != 1 {
		return ErrConflict
	}
	return err
}

// SetDoc writes owner, ref, status and body of a row that is still in the
// status from: ErrNotFound if it has moved.
func (t *Tx) SetDoc(table DocTable, d Doc, from string) error {
	return t.exec1(`UPDATE `+string(table)+` SET owner = $1, ref = $2, status = $3, body = $4 WHERE id = $5 AND status = $6`,
		d.Owner, d.Ref, d.Status, plain.Storable(string(d.Body)), d.ID, from)
}

// Doc returns one row, or ErrNotFound.
func (t *Tx) Doc(table DocTable, id string) (Doc, error) {
	return one(t, scanDoc, `SELECT `+docColumns+` FROM `+string(table)+` WHERE id = $1`, id)
}

// DocFilter selects rows; empty fields select all.
type DocFilter struct {
	Task, Owner, Ref, Status string
	Before                   int64 // N below this; 0: from the newest
	Oldest                   bool  // oldest first
	Limit                    int   // 0: none
}

func (f DocFilter) where() (string, []any) {
	var b strings.Builder
	var args []any
	add := func(cond string, v any) {
		args = append(args, v)
		fmt.Fprintf(&b, " AND %s $%d", cond, len(args))
	}
	for _, c := range []struct{ col, v string }{{"task", f.Task}, {"owner", f.Owner}, {"ref", f.Ref}, {"status", f.Status}} {
		if c.v != "" {
			add(c.col+" =", c.v)
		}
	}
	if f.Before > 0 {
		add("n <", f.Before)
	}
	return b.String(), args
}

// Docs returns rows, newest first unless asked otherwise.
func (t *Tx) Docs(table DocTable, f DocFilter) ([]Doc, error) {
	where, args := f.where()
	q := `SELECT ` + docColumns + ` FROM ` + string(table) + ` WHERE 1 = 1` + where + ` ORDER BY n`
	if !f.Oldest {
		q += " DESC"
	}
	if f.Limit > 0 {
		args = append(args, f.Limit)
		q += fmt.Sprintf(" LIMIT $%d", len(args))
	}
	return many(t, scanDoc, q, args...)
}

// CountDocs counts rows.
func (t *Tx) CountDocs(table DocTable, f DocFilter) (int64, error) {
	where, args := f.where()
	return one(t, scanInt, `SELECT count(*) FROM `+string(table)+` WHERE 1 = 1`+where, args...)
}
