package sqlite

import (
	"context"
	"fmt"

	"github.com/agon-arena/agon/engine/store"
)

var _ store.Raw = (*engine)(nil)

// Tables implements store.Raw.
func (e *engine) Tables(ctx context.Context, q store.Querier) ([]store.Table, error) {
	r, err := q.QueryContext(ctx, `SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT IN ('commits', 'schema_version') ORDER BY m.name, c.name`)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return store.GroupColumns(r)
}

// Unbounded implements store.Raw: reads have no limit here.
func (e *engine) Unbounded(context.Context, store.Querier) error { return nil }

// Sequences implements store.Raw.
func (e *engine) Sequences(ctx context.Context, q store.Querier) (map[string]int64, error) {
	r, err := q.QueryContext(ctx, `SELECT name, seq FROM sqlite_sequence`)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out := map[string]int64{}
	for r.Next() {
		var name string
		var n int64
		if err := r.Scan(&name, &n); err != nil {
			return nil, err
		}
		out[name] = n
	}
	return out, r.Err()
}

// Adopt implements store.Raw. Where facts go on is read when the file is opened:
// this one must be closed now.
func (e *engine) Adopt(ctx context.Context, q store.Querier, last map[string]int64, _, _ int64) error {
	for name, n := range last {
		r, err := q.ExecContext(ctx, `UPDATE sqlite_sequence SET seq = max(seq, $1) WHERE name = $2`, n, name)
		if err != nil {
			return fmt.Errorf("go on after number %d of %s: %w", n, name, err)
		}
		if changed, err := r.RowsAffected(); err != nil || changed > 0 {
			continue
		}
		if _, err := q.ExecContext(ctx, `INSERT INTO sqlite_sequence (name, seq) VALUES ($1, $2)`, name, n); err != nil {
			return fmt.Errorf("go on after number %d of %s: %w", n, name, err)
		}
	}
	return nil
}
