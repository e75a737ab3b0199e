package local

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/agon-arena/agon/ledger"
)

// keepTolds is how many extrinsics are kept for clients of the chain's protocol.
const keepTolds = 100_000

// Tell keeps an extrinsic as clients of the chain's protocol see it, so that its
// block reads alike after a restart. The oldest beyond 100,000 are dropped.
func (l *Ledger) Tell(ctx context.Context, t ledger.Told) error {
	return l.submit(ctx, &job{told: &t}).err
}

func keepTold(ctx context.Context, tx *sql.Tx, t *ledger.Told) error {
	r, err := tx.ExecContext(ctx, "INSERT INTO told (block, at_ms, extrinsic, events) VALUES (?, ?, ?, ?)", int64(t.Block), t.At.UnixMilli(), t.Extrinsic, t.Events)
	if err != nil {
		return fmt.Errorf("keep an extrinsic: %w", err)
	}
	seq, err := r.LastInsertId()
	if err != nil {
		return fmt.Errorf("keep an extrinsic: %w", err)
	}
	if seq%1000 == 0 {
		if _, err := tx.ExecContext(ctx, "DELETE FROM told WHERE seq <= ?", seq-keepTolds); err != nil {
			return fmt.Errorf("drop old extrinsics: %w", err)
		}
	}
	return nil
}

// Told lists the extrinsics of a block that are kept, in their order in it.
func (l *Ledger) Told(ctx context.Context, block uint64) ([]ledger.Told, error) {
	rows, err := l.db.QueryContext(ctx, "SELECT at_ms, extrinsic, events FROM told WHERE block = ? ORDER BY seq", int64(min(block, maxBlock)))
	if err != nil {
		return nil, fmt.Errorf("read block %d: %w", block, err)
	}
	defer rows.Close()
	var out []ledger.Told
	for rows.Next() {
		t := ledger.Told{Block: block}
		var at int64
		if err := rows.Scan(&at, &t.Extrinsic, &t.Events); err != nil {
			return nil, fmt.Errorf("read block %d: %w", block, err)
		}
		t.At = time.UnixMilli(at)
		out = append(out, t)
	}
	return out, rows.Err()
}
