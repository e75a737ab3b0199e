package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// Table is one table as the database has it.
type Table struct {
	Name    string
	Columns []string // in the order of their names
}

// Raw is what an Engine has whose tables can be read and written as they are,
// without knowing what they mean.
type Raw interface {
	// Tables lists the tables of the schema, by name, without those that a driver
	// keeps for itself.
	Tables(ctx context.Context, q Querier) ([]Table, error)
	// Unbounded lifts the limits of time from the transaction of q, where there are some.
	Unbounded(ctx context.Context, q Querier) error
	// Sequences returns, by table, the highest number that a growing key has given.
	Sequences(ctx context.Context, q Querier) (map[string]int64, error)
	// Adopt follows up on rows that were written raw: growing keys go on after last,
	// and facts after those that are stored.
	Adopt(ctx context.Context, q Querier, last map[string]int64, factRow, factNext int64) error
}

func (s *Store) raw() (Raw, error) {
	r, ok := s.e.(Raw)
	if !ok {
		return nil, errors.New("this store's driver does not show its tables")
	}
	return r, nil
}

// rows calls fn with every row of a table, in no order. The values are valid
// until it returns: string, int64, float64 or nil.
func rows(ctx context.Context, q Querier, t Table, fn func([]any) error) error {
	r, err := q.QueryContext(ctx, `SELECT `+strings.Join(t.Columns, ", ")+` FROM `+t.Name)
	if err != nil {
		return err
	}
	defer r.Close()
	values, at := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	for i := range values {
		at[i] = &values[i]
	}
	for r.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.Scan(at...); err != nil {
			return err
		}
		for i, v := range values {
			switch v := v.(type) {
			case nil, string, int64, float64:
			case []byte:
				values[i] = string(v)
			default:
				return fmt.Errorf("table %s, column %s: a value of type %T", t.Name, t.Columns[i], v)
			}
		}
		if err := fn(values); err != nil {
			return err
		}
	}
	return r.Err()
}

// Texts calls fn with every text of the database, as of one moment. The columns
// in skip ("table.column") are left out.
func (s *Store) Texts(ctx context.Context, skip map[string]bool, fn func(text string)) error {
	raw, err := s.raw()
	if err != nil {
		return err
	}
	return s.e.Read(ctx, func(rctx context.Context, q Querier) error {
		if err := raw.Unbounded(rctx, q); err != nil {
			return err
		}
		tables, err := raw.Tables(rctx, q)
		if err != nil {
			return err
		}
		for _, t := range tables {
			wanted := Table{Name: t.Name}
			for _, c := range t.Columns {
				if !skip[t.Name+"."+c] {
					wanted.Columns = append(wanted.Columns, c)
				}
			}
			err := rows(rctx, q, wanted, func(values []any) error {
				for _, v := range values {
					if text, ok := v.(string); ok {
						fn(text)
					}
				}
				return ctx.Err()
			})
			if err != nil {
				return fmt.Errorf("read table %s: %w", t.Name, err)
			}
		}
		return nil
	})
}

// Sum is what a table holds, whatever the order of its rows: how many there are,
// and the sum of their SHA-256 modulo 2^256.
type Sum struct {
	Rows int64
	sum  [4]uint64
}

// String is the sum of the hashes in hex.
func (s Sum) String() string {
	var b [32]byte
	for i, x := range s.sum {
		binary.LittleEndian.PutUint64(b[8*i:], x)
	}
	return hex.EncodeToString(b[:])
}

func (s *Sum) add(values []any, buf []byte) []byte {
	buf = buf[:0]
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			buf = append(buf, 'n')
		case int64:
			buf = binary.LittleEndian.AppendUint64(append(buf, 'i'), uint64(v))
		case float64:
			buf = binary.LittleEndian.AppendUint64(append(buf, 'f'), math.Float64bits(v))
		case string:
			buf = append(binary.LittleEndian.AppendUint64(append(buf, 't'), uint64(len(v))), v...)
		}
	}
	h := sha256.Sum256(buf)
	var carry uint64
	for i := range s.sum {
		s.sum[i], carry = bits.Add64(s.sum[i], binary.LittleEndian.Uint64(h[8*i:]), carry)
	}
	s.Rows++
	return buf
}

func sumOf(ctx context.Context, q Querier, t Table) (s Sum, err error) {
	var buf []byte
	err = rows(ctx, q, t, func(values []any) error {
		buf = s.add(values, buf)
		return nil
	})
	return s, err
}

// CopiedTable is what Copy did with one table.
type CopiedTable struct {
	Table  string `json:"table"`
	Rows   int64  `json:"rows"`
	Copied int64  `json:"copied"`
	Sum    string `json:"sum"` // of the rows, on both sides
}

const (
	copyRows   = 500     // rows of a transaction of Copy
	copyValues = 16000   // values of a statement; SQLite's limit is 32,766, PostgreSQL's 65,535
	copyBytes  = 8 << 20 // texts of a transaction
)

// Copy writes every row of from that to does not hold, from one snapshot, and
// compares both sides by count and digest. It goes on where an earlier one was
// stopped, and copies nothing where all is there. No server may write to either
// meanwhile: a row that is not that of the source is an error. done hears of each table.
func Copy(ctx context.Context, from, to *Store, done func(CopiedTable)) error {
	fr, err := from.raw()
	if err != nil {
		return err
	}
	tr, err := to.raw()
	if err != nil {
		return err
	}
	return from.e.Read(ctx, func(fctx context.Context, fq Querier) error {
		if err := fr.Unbounded(fctx, fq); err != nil {
			return err
		}
		tables, err := fr.Tables(fctx, fq)
		if err != nil {
			return err
		}
		if err := sameTables(ctx, to, tr, tables); err != nil {
			return err
		}
		for _, t := range tables {
			c, err := copyTable(ctx, fctx, fq, to, tr, t)
			if err != nil {
				return fmt.Errorf("copy table %s: %w", t.Name, err)
			}
			done(c)
		}
		last, err := fr.Sequences(fctx, fq)
		if err != nil {
			return err
		}
		tx := &Tx{q: fq, ctx: fctx, e: from.e, s: from}
		row, err := tx.FactRow()
		if err != nil {
			return err
		}
		next, err := tx.FactCount()
		if err != nil {
			return err
		}
		return to.e.Write(ctx, func(ctx context.Context, q Querier) error { return tr.Adopt(ctx, q, last, row, next) })
	})
}

func sameTables(ctx context.Context, to *Store, raw Raw, want []Table) error {
	return to.e.Read(ctx, func(ctx context.Context, q Querier) error {
		have, err := raw.Tables(ctx, q)
		if err != nil {
			return err
		}
		form := func(list []Table) (out []string) {
			for _, t := range list {
				out = append(out, t.Name+"("+strings.Join(t.Columns, ",")+")")
			}
			return out
		}
		a, b := form(want), form(have)
		if strings.Join(a, "\n") != strings.Join(b, "\n") {
			return errors.New("the two databases have different tables")
		}
		return nil
	})
}

func copyTable(ctx, fctx context.Context, fq Querier, to *Store, raw Raw, t Table) (c CopiedTable, err error) {
	want, err := sumOf(fctx, fq, t)
	if err != nil {
		return c, err
	}
	sum := func() (have Sum, err error) {
		err = to.e.Read(ctx, func(ctx context.Context, q Querier) error {
			if err := raw.Unbounded(ctx, q); err != nil {
				return err
			}
			have, err = sumOf(ctx, q, t)
			return err
		})
		return have, err
	}
	have, err := sum()
	if err != nil {
		return c, err
	}
	c = CopiedTable{Table: t.Name, Rows: want.Rows, Sum: want.String()}
	if have == want {
		return c, nil
	}
	before := have.Rows
	if err := copyAll(ctx, fctx, fq, to, t); err != nil {
		return c, err
	}
	if have, err = sum(); err != nil {
		return c, err
	}
	if have != want {
		return c, fmt.Errorf("the target has %d rows, the source %d, and not the same ones: copy into an empty database, with no server at work on either", have.Rows, want.Rows)
	}
	c.Copied = have.Rows - before
	return c, nil
}

// copyAll inserts every row that is not there, some hundred in a transaction.
func copyAll(ctx, fctx context.Context, fq Querier, to *Store, t Table) error {
	most := min(copyRows, copyValues/len(t.Columns))
	var batch []any
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		var b strings.Builder
		b.WriteString(`INSERT INTO ` + t.Name + ` (` + strings.Join(t.Columns, ", ") + `) VALUES `)
		for i := range batch {
			switch {
			case i == 0:
				b.WriteString("(")
			case i%len(t.Columns) == 0:
				b.WriteString("), (")
			default:
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "$%d", i+1)
		}
		b.WriteString(") ON CONFLICT DO NOTHING")
		err := to.e.Write(ctx, func(ctx context.Context, q Querier) error {
			_, err := q.ExecContext(ctx, b.String(), batch...)
			return err
		})
		batch, size = batch[:0], 0
		return err
	}
	err := rows(fctx, fq, t, func(values []any) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch = append(batch, values...)
		for _, v := range values {
			if text, ok := v.(string); ok {
				size += len(text)
			}
		}
		if len(batch) >= most*len(t.Columns) || size >= copyBytes {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// GroupColumns makes tables of rows (table, column) that are sorted by both.
func GroupColumns(r interface {
	Next() bool
	Scan(...any) error
	Err() error
},
) (out []Table, err error) {
	for r.Next() {
		var table, column string
		if err := r.Scan(&table, &column); err != nil {
			return nil, err
		}
		if len(out) == 0 || out[len(out)-1].Name != table {
			out = append(out, Table{Name: table})
		}
		last := &out[len(out)-1]
		last.Columns = append(last.Columns, column)
	}
	return out, r.Err()
}
