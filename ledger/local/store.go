package local

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/agon-arena/agon/ledger"
)

const schemaVersion = 3

const schema = `
CREATE TABLE chain (
	id INTEGER PRIMARY KEY CHECK (id = 1),
	genesis_ms BIGINT NOT NULL,
	block_ms BIGINT NOT NULL,
	newest BIGINT NOT NULL
);
` + schema2 + schema3

const schema2 = `
CREATE TABLE log (
	seq INTEGER PRIMARY KEY,
	block BIGINT NOT NULL,
	call TEXT NOT NULL,
	netuid INTEGER NOT NULL,
	hotkey TEXT NOT NULL,
	body BLOB NOT NULL
);
CREATE INDEX log_commitments ON log (netuid, hotkey, seq) WHERE call = 'set_commitment';
CREATE TABLE snapshots (
	seq INTEGER PRIMARY KEY,
	block BIGINT NOT NULL,
	state BLOB NOT NULL
);
CREATE TABLE nonces (
	id TEXT PRIMARY KEY,
	until_ms BIGINT NOT NULL
);
`

// told is what clients of the chain's protocol are told of old blocks.
const schema3 = `
CREATE TABLE told (
	seq INTEGER PRIMARY KEY,
	block BIGINT NOT NULL,
	at_ms BIGINT NOT NULL,
	extrinsic BLOB NOT NULL,
	events BLOB NOT NULL
);
CREATE INDEX told_block ON told (block, seq);
`

const (
	// snapshotEvery is how many extrinsics a start replays at most.
	snapshotEvery = 5000
	// keepSnapshots is how many are kept, besides the first.
	keepSnapshots = 8
)

func (l *Ledger) ensureSchema(ctx context.Context, tx *sql.Tx, p preset, cfg Config) error {
	var version int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	first, seq := newState(p.faucet), int64(0)
	switch version {
	case schemaVersion:
		return nil
	case 0:
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		genesis, blockTime := cfg.Genesis, cfg.BlockTime
		if genesis.IsZero() {
			genesis = l.now()
		}
		if blockTime == 0 && !cfg.Stepped {
			blockTime = p.blockTime
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO chain (id, genesis_ms, block_ms, newest) VALUES (1, ?, ?, 0)",
			genesis.UnixMilli(), blockTime.Milliseconds()); err != nil {
			return err
		}
	case 1:
		var err error
		if seq, err = migrate1(ctx, tx, first); err != nil {
			return fmt.Errorf("convert from schema 1: %w", err)
		}
		if _, err := tx.ExecContext(ctx, schema3); err != nil {
			return err
		}
	case 2:
		_, err := tx.ExecContext(ctx, schema3+fmt.Sprintf("PRAGMA user_version = %d", schemaVersion))
		return err
	default:
		return fmt.Errorf("made by a newer version (schema %d, this one knows %d)", version, schemaVersion)
	}
	if err := insertSnapshot(ctx, tx, seq, first); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion))
	return err
}

func insertSnapshot(ctx context.Context, tx *sql.Tx, seq int64, s *state) error {
	b, err := s.encode()
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO snapshots (seq, block, state) VALUES (?, ?, ?)", seq, int64(s.Block), b); err != nil {
		return fmt.Errorf("store snapshot: %w", err)
	}
	return nil
}

// recover makes the state from the last snapshot and the log. l.mu is held or nobody else runs.
func (l *Ledger) recover(ctx context.Context) error {
	var newest int64
	if err := l.db.QueryRowContext(ctx, "SELECT newest FROM chain").Scan(&newest); err != nil {
		return fmt.Errorf("read chain: %w", err)
	}
	s, seq, saved, err := l.replay(ctx, maxBlock)
	if err != nil {
		return err
	}
	l.state, l.seq, l.saved = s, seq, saved
	if l.blockTime == 0 || uint64(newest) > l.newest.Load() {
		l.newest.Store(uint64(newest))
	}
	return nil
}

// replay makes the state at the end of the log from the newest snapshot that is
// not younger than block from, and returns the seqs of both.
func (l *Ledger) replay(ctx context.Context, from int64) (s *state, seq, start int64, err error) {
	var b []byte
	err = l.db.QueryRowContext(ctx, "SELECT seq, state FROM snapshots WHERE block <= ? ORDER BY seq DESC LIMIT 1", from).Scan(&start, &b)
	if errors.Is(err, sql.ErrNoRows) { // the ledger begins later than from
		err = l.db.QueryRowContext(ctx, "SELECT seq, state FROM snapshots ORDER BY seq LIMIT 1").Scan(&start, &b)
	}
	if err != nil {
		return nil, 0, 0, fmt.Errorf("read snapshot: %w", err)
	}
	if s, err = decodeState(b); err != nil {
		return nil, 0, 0, err
	}
	rows, err := l.db.QueryContext(ctx, "SELECT seq, block, body FROM log WHERE seq > ? ORDER BY seq", start)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("read log: %w", err)
	}
	defer rows.Close()
	seq = start
	for rows.Next() {
		var block int64
		var body []byte
		if err := rows.Scan(&seq, &block, &body); err != nil {
			return nil, 0, 0, fmt.Errorf("read log: %w", err)
		}
		var x extrinsic
		if err := json.Unmarshal(body, &x); err != nil {
			return nil, 0, 0, fmt.Errorf("read extrinsic %d: %w", seq, err)
		}
		if err := s.advance(uint64(block)); err != nil {
			return nil, 0, 0, err
		}
		if _, err := s.apply(&x); err != nil {
			return nil, 0, 0, fmt.Errorf("replay extrinsic %d (%s in block %d): %w", seq, x.Call, block, err)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, 0, 0, fmt.Errorf("read log: %w", err)
	}
	return s, seq, start, nil
}

// saveLast stores a snapshot and the clock, so that the next start is quick.
func (l *Ledger) saveLast() error {
	ctx := context.Background()
	return l.tx(ctx, func(tx *sql.Tx) error {
		if l.seq != l.saved || l.state.Block > 0 {
			if err := l.snapshot(ctx, tx); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "UPDATE chain SET newest = ? WHERE newest < ?", int64(l.newest.Load()), int64(l.newest.Load()))
		return err
	})
}

// snapshot stores the state and drops old ones. The first stays: with it the
// whole history can be replayed.
func (l *Ledger) snapshot(ctx context.Context, tx *sql.Tx) error {
	var first int64
	if err := tx.QueryRowContext(ctx, "SELECT MIN(seq) FROM snapshots").Scan(&first); err != nil {
		return fmt.Errorf("read snapshots: %w", err)
	}
	if l.seq == first {
		return nil
	}
	if err := insertSnapshot(ctx, tx, l.seq, l.state); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM snapshots WHERE seq > ? AND seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)`, first, keepSnapshots); err != nil {
		return fmt.Errorf("drop snapshots: %w", err)
	}
	l.saved = l.seq
	return nil
}

// Snapshot returns the canonical bytes of the state at the newest block.
func (l *Ledger) Snapshot(ctx context.Context) (out []byte, err error) {
	err = l.view(ctx, func(s *state) error {
		out, err = s.encode()
		return err
	})
	return out, err
}

// Replay makes the state at the newest block again, from the last snapshot at
// or before block from and the log since, and returns its canonical bytes: the
// same as Snapshot's, whatever from is.
func (l *Ledger) Replay(ctx context.Context, from uint64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead != nil {
		return nil, l.dead
	}
	s, _, _, err := l.replay(ctx, int64(min(from, maxBlock)))
	if err != nil {
		return nil, err
	}
	if err := s.advance(l.block()); err != nil {
		return nil, err
	}
	return s.encode()
}

// tx runs f in one transaction. f must read rows to their end before it makes
// another statement: there is one connection.
func (l *Ledger) tx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := f(tx); err != nil {
		return errors.Join(err, rollback(tx))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// rollback is silent when the context has rolled back already.
func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// Seen implements auth.ReplayGuard: nonces are as durable as extrinsics, so a
// signed request cannot be sent again after a restart.
func (l *Ledger) Seen(ctx context.Context, scheme, hotkey, nonce string, until time.Time) (fresh bool, err error) {
	o := l.submit(ctx, &job{nonce: scheme + " " + hotkey + " " + nonce, until: until.UnixMilli()})
	return o.fresh, o.err
}

// maxBlock is more than any clock reaches and fits SQL's integers.
const maxBlock = 1 << 62

// History implements ledger.Reader: the log is the history.
func (l *Ledger) History(ctx context.Context, netuid uint16, hotkey string, from uint64) ([]ledger.Commitment, error) {
	if err := l.view(ctx, func(s *state) error {
		_, err := s.subnet(netuid)
		return err
	}); err != nil {
		return nil, err
	}
	rows, err := l.db.QueryContext(ctx, "SELECT block, body FROM log WHERE call = 'set_commitment' AND netuid = ? AND hotkey = ? AND block >= ? ORDER BY seq",
		netuid, hotkey, int64(min(from, maxBlock)))
	if err != nil {
		return nil, fmt.Errorf("list commitments of a hotkey: %w", err)
	}
	defer rows.Close()
	out := []ledger.Commitment{}
	for rows.Next() {
		c := ledger.Commitment{Netuid: netuid, Hotkey: hotkey}
		var block int64
		var body []byte
		if err := rows.Scan(&block, &body); err != nil {
			return nil, fmt.Errorf("list commitments of a hotkey: %w", err)
		}
		var x extrinsic
		if err := json.Unmarshal(body, &x); err != nil {
			return nil, fmt.Errorf("read commitment: %w", err)
		}
		c.Block, c.Fields = uint64(block), nonNil(x.Fields)
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list commitments of a hotkey: %w", err)
	}
	return out, nil
}
