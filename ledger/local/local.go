// Package local is the embedded ledger: subnets, registrations, commitments
// and weights under the chain's rules, with blocks on a clock, in one SQLite
// file. What it acknowledged is on disk.
package local

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the database driver

	"github.com/agon-arena/agon/ledger"
)

// Presets.
const (
	PresetDemo  = "demo"  // a block a second, hardly any limits
	PresetLocal = "local" // the chain's block time and defaults of a new subnet
)

type preset struct {
	blockTime time.Duration
	hyper     ledger.Hyperparameters
}

func presetOf(name string) (preset, error) {
	p := preset{blockTime: 12 * time.Second, hyper: ledger.Hyperparameters{
		Tempo: 360, MaxUIDs: 256, MinAllowedWeights: 1, WeightsRateLimit: 100, RegistrationOpen: true,
		CommitmentSpace: 3100, ImmunityPeriod: 5000, MaxValidators: 64, Kappa: 32767, BondsMovingAverage: 900_000,
	}}
	switch name {
	case PresetLocal:
	case "", PresetDemo:
		p.blockTime = time.Second
		p.hyper.Tempo, p.hyper.WeightsRateLimit = 60, 1
	default:
		return p, fmt.Errorf("ledger preset %q: want %s or %s", name, PresetDemo, PresetLocal)
	}
	return p, nil
}

// Config configures a ledger. The zero value is a demo ledger on the real clock.
type Config struct {
	// Preset gives the defaults of block time and hyperparameters; empty = PresetDemo.
	Preset string
	// BlockTime is how long a block takes, at least 1 ms. 0 = what the file says, or the preset's.
	// A file made with another block time is refused: its blocks would move.
	BlockTime time.Duration
	// Genesis is when block 0 began. Zero = what the file says, or now.
	Genesis time.Time
	// Now is the clock; nil = time.Now.
	Now func() time.Time
}

// Ledger is the embedded ledger. All methods may run at once; writes are
// serial, each one transaction, durable on return (WAL, synchronous=FULL).
type Ledger struct {
	db        *sql.DB
	now       func() time.Time
	hyper     ledger.Hyperparameters // of new subnets
	genesis   time.Time
	blockTime time.Duration
	// newest is the highest block that was told or written. It keeps Block from
	// falling when the clock is set back.
	newest atomic.Uint64
}

var _ ledger.Ledger = (*Ledger)(nil)

const schemaVersion = 1

const schema = `
CREATE TABLE chain (
	id INTEGER PRIMARY KEY CHECK (id = 1),
	genesis_ms BIGINT NOT NULL,
	block_ms BIGINT NOT NULL,
	newest BIGINT NOT NULL
);
CREATE TABLE subnets (
	netuid INTEGER PRIMARY KEY,
	owner_hotkey TEXT NOT NULL,
	owner_coldkey TEXT NOT NULL,
	hyper TEXT NOT NULL,
	created BIGINT NOT NULL
);
CREATE TABLE owners (hotkey TEXT PRIMARY KEY, coldkey TEXT NOT NULL);
CREATE TABLE neurons (
	netuid INTEGER NOT NULL,
	uid INTEGER NOT NULL,
	hotkey TEXT NOT NULL,
	permit BOOLEAN NOT NULL,
	stake BIGINT NOT NULL,
	registered BIGINT NOT NULL,
	last_update BIGINT NOT NULL,
	PRIMARY KEY (netuid, uid),
	UNIQUE (netuid, hotkey)
);
CREATE TABLE weights (
	netuid INTEGER NOT NULL,
	uid INTEGER NOT NULL,
	block BIGINT NOT NULL,
	uids TEXT NOT NULL,
	vals TEXT NOT NULL,
	PRIMARY KEY (netuid, uid)
);
CREATE TABLE commitments (
	id INTEGER PRIMARY KEY,
	netuid INTEGER NOT NULL,
	hotkey TEXT NOT NULL,
	block BIGINT NOT NULL,
	space BIGINT NOT NULL,
	fields TEXT NOT NULL
);
CREATE INDEX commitments_by_hotkey ON commitments (netuid, hotkey, id);
`

// Open opens or makes the ledger in the file at path. A restart goes on where
// the clock is: blocks pass while nobody has the file open.
func Open(ctx context.Context, path string, cfg Config) (*Ledger, error) {
	p, err := presetOf(cfg.Preset)
	if err != nil {
		return nil, err
	}
	if cfg.BlockTime != 0 && cfg.BlockTime < time.Millisecond {
		return nil, fmt.Errorf("block time %v: at least 1ms", cfg.BlockTime)
	}
	l := &Ledger{now: cfg.Now, hyper: p.hyper}
	if l.now == nil {
		l.now = time.Now
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	dsn := url.URL{Scheme: "file", Path: abs, RawQuery: "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"}
	if l.db, err = sql.Open("sqlite", dsn.String()); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	// One connection: every statement sees one order, and a transaction never meets a second writer.
	l.db.SetMaxOpenConns(1)
	if err := l.load(ctx, p, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", path, err), l.db.Close())
	}
	return l, nil
}

func (l *Ledger) load(ctx context.Context, p preset, cfg Config) error {
	return l.tx(ctx, func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		switch {
		case version > schemaVersion:
			return fmt.Errorf("made by a newer version (schema %d, this one knows %d)", version, schemaVersion)
		case version == 0:
			if _, err := tx.ExecContext(ctx, schema); err != nil {
				return err
			}
			genesis, blockTime := cfg.Genesis, cfg.BlockTime
			if genesis.IsZero() {
				genesis = l.now()
			}
			if blockTime == 0 {
				blockTime = p.blockTime
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO chain (id, genesis_ms, block_ms, newest) VALUES (1, ?, ?, 0)",
				genesis.UnixMilli(), blockTime.Milliseconds()); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
				return err
			}
		}
		var genesis, block, newest int64
		if err := tx.QueryRowContext(ctx, "SELECT genesis_ms, block_ms, newest FROM chain").Scan(&genesis, &block, &newest); err != nil {
			return err
		}
		l.genesis, l.blockTime = time.UnixMilli(genesis).UTC(), time.Duration(block)*time.Millisecond
		l.newest.Store(uint64(newest))
		if cfg.BlockTime != 0 && cfg.BlockTime.Truncate(time.Millisecond) != l.blockTime {
			return fmt.Errorf("block time is %v, not %v", l.blockTime, cfg.BlockTime)
		}
		if !cfg.Genesis.IsZero() && cfg.Genesis.UnixMilli() != genesis {
			return fmt.Errorf("genesis is %v, not %v", l.genesis, cfg.Genesis.UTC())
		}
		return nil
	})
}

// Close ends the ledger. Calls that are under way fail.
func (l *Ledger) Close() error { return l.db.Close() }

// BlockTime is how long a block takes.
func (l *Ledger) BlockTime() time.Duration { return l.blockTime }

// Block implements ledger.Reader.
func (l *Ledger) Block(context.Context) (uint64, error) { return l.block(), nil }

// block is the clock's block, or the newest one told if the clock went back.
func (l *Ledger) block() uint64 {
	var at uint64
	if d := l.now().Sub(l.genesis); d > 0 {
		at = uint64(d / l.blockTime)
	}
	for {
		newest := l.newest.Load()
		if at <= newest {
			return newest
		}
		if l.newest.CompareAndSwap(newest, at) {
			return at
		}
	}
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

// write runs f at one block and remembers that block with what f wrote, so
// that no later stamp is smaller, whatever the clock does between two runs.
func (l *Ledger) write(ctx context.Context, f func(tx *sql.Tx, block uint64) error) error {
	return l.tx(ctx, func(tx *sql.Tx) error {
		block := l.block()
		if err := f(tx, block); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE chain SET newest = ? WHERE newest < ?", int64(block), int64(block))
		return err
	})
}
