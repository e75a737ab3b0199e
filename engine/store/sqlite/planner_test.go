package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/agon-arena/agon/engine/store"
)

// planner notes the query plan of every statement that is run through it.
type planner struct {
	*engine
	plans map[string][]string
}

func (p *planner) now() time.Time { return time.Unix(1, 0) }

func (p *planner) Read(ctx context.Context, fn func(context.Context, store.Querier) error) error {
	return p.engine.Read(ctx, func(ctx context.Context, q store.Querier) error {
		return fn(ctx, explain{Querier: q, plans: p.plans})
	})
}

type explain struct {
	store.Querier
	plans map[string][]string
}

func (e explain) note(ctx context.Context, query string, args []any) {
	rows, err := e.Querier.QueryContext(ctx, "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		e.plans[query] = []string{"SCAN error: " + err.Error()}
		return
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			detail = "SCAN error: " + err.Error()
		}
		e.plans[query] = append(e.plans[query], detail)
	}
}

func (e explain) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	e.note(ctx, query, args)
	return e.Querier.QueryContext(ctx, query, args...)
}

func (e explain) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	e.note(ctx, query, args)
	return e.Querier.QueryRowContext(ctx, query, args...)
}
