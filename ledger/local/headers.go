package local

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/agon-arena/agon/ledger"
)

// maxChanged is of how many blocks it is remembered that they changed the state.
const maxChanged = 4096

// KeepHeaders keeps headers: those of blocks in which something happened, and
// some between them, so that any block's header can be made again.
func (l *Ledger) KeepHeaders(ctx context.Context, list []ledger.Header) error {
	if len(list) == 0 {
		return nil
	}
	return l.tx(ctx, func(tx *sql.Tx) error {
		for _, h := range list {
			if _, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO headers (number, hash, state_root, extrinsics_root) VALUES (?, ?, ?, ?)",
				int64(h.Number), h.Hash[:], h.StateRoot[:], h.ExtrinsicsRoot[:]); err != nil {
				return fmt.Errorf("keep header %d: %w", h.Number, err)
			}
		}
		return nil
	})
}

// HeaderBefore is the newest kept header up to a block; false: none is kept.
func (l *Ledger) HeaderBefore(ctx context.Context, number uint64) (h ledger.Header, ok bool, err error) {
	var n int64
	var parts [3][]byte
	err = l.db.QueryRowContext(ctx, "SELECT number, hash, state_root, extrinsics_root FROM headers WHERE number <= ? ORDER BY number DESC LIMIT 1", int64(min(number, maxBlock))).
		Scan(&n, &parts[0], &parts[1], &parts[2])
	if errors.Is(err, sql.ErrNoRows) {
		return h, false, nil
	}
	if err != nil {
		return h, false, fmt.Errorf("read header: %w", err)
	}
	h.Number = uint64(n)
	copy(h.Hash[:], parts[0])
	copy(h.StateRoot[:], parts[1])
	copy(h.ExtrinsicsRoot[:], parts[2])
	return h, true, nil
}

// Changed lists the blocks after from and not after to in which something changed the
// state, ascending: an extrinsic or an epoch. It knows of those since the file was opened.
func (l *Ledger) Changed(ctx context.Context, from, to uint64) (out []uint64, err error) {
	err = l.view(ctx, func(*state) error {
		for _, n := range l.changed {
			if n > from && n <= to {
				out = append(out, n)
			}
		}
		return nil
	})
	return slices.Compact(out), err
}

// ToldIn lists the blocks after from and not after to of which an extrinsic is kept (Tell), ascending.
func (l *Ledger) ToldIn(ctx context.Context, from, to uint64) ([]uint64, error) {
	rows, err := l.db.QueryContext(ctx, "SELECT DISTINCT block FROM told WHERE block > ? AND block <= ? ORDER BY block", int64(min(from, maxBlock)), int64(min(to, maxBlock)))
	if err != nil {
		return nil, fmt.Errorf("list blocks with extrinsics: %w", err)
	}
	defer rows.Close()
	var out []uint64
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, fmt.Errorf("list blocks with extrinsics: %w", err)
		}
		out = append(out, uint64(n))
	}
	return out, rows.Err()
}

// note remembers that blocks changed the state. l.mu is held.
func (l *Ledger) note(blocks ...uint64) {
	for _, n := range blocks {
		if len(l.changed) == 0 || l.changed[len(l.changed)-1] < n {
			l.changed = append(l.changed, n)
		}
	}
	if len(l.changed) > 2*maxChanged {
		l.changed = slices.Clone(l.changed[len(l.changed)-maxChanged:])
	}
}
