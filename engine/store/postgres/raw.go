package postgres

import (
	"context"
	"fmt"

	"github.com/agon-arena/agon/engine/store"
)

var _ store.Raw = (*engine)(nil)

// Tables implements store.Raw.
func (e *engine) Tables(ctx context.Context, q store.Querier) ([]store.Table, error) {
	r, err := q.QueryContext(ctx, `SELECT c.table_name::text, c.column_name::text FROM information_schema.columns c
		JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name AND t.table_type = 'BASE TABLE'
		WHERE NOT EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhrelid = to_regclass(quote_ident(c.table_name))) AND c.table_schema = current_schema() AND c.table_name NOT IN ('store_writer', 'store_leader', 'store_once', 'schema_version')
		ORDER BY c.table_name::text COLLATE "C", c.column_name::text COLLATE "C"`)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return store.GroupColumns(r)
}

// Unbounded implements store.Raw.
func (e *engine) Unbounded(ctx context.Context, q store.Querier) error {
	for _, name := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
		if _, err := q.ExecContext(ctx, `SET LOCAL `+name+` = 0`); err != nil {
			return err
		}
	}
	return nil
}

// identities are the growing keys, by table, with their sequences.
const identities = `SELECT table_name::text AS name, pg_get_serial_sequence(quote_ident(table_schema) || '.' || quote_ident(table_name), column_name::text) AS seq
	FROM information_schema.columns WHERE table_schema = current_schema() AND is_identity = 'YES'`

// Sequences implements store.Raw.
func (e *engine) Sequences(ctx context.Context, q store.Querier) (map[string]int64, error) {
	r, err := q.QueryContext(ctx, `SELECT name, pg_sequence_last_value(seq::regclass) FROM (`+identities+`) AS i WHERE pg_sequence_last_value(seq::regclass) IS NOT NULL`)
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

// Adopt implements store.Raw.
func (e *engine) Adopt(ctx context.Context, q store.Querier, last map[string]int64, factRow, factNext int64) error {
	for name, n := range last {
		if n < 1 {
			continue
		}
		if _, err := q.ExecContext(ctx, `SELECT setval(seq::regclass, greatest($1::bigint, coalesce(pg_sequence_last_value(seq::regclass), 1))) FROM (`+identities+`) AS i WHERE name = $2`, n, name); err != nil {
			return fmt.Errorf("go on after number %d of %s: %w", n, name, err)
		}
	}
	_, err := q.ExecContext(ctx, `UPDATE store_writer SET fact_row = greatest(fact_row, $1::bigint), fact_next = greatest(fact_next, $2::bigint) WHERE one = 1`, factRow, factNext)
	return err
}
