// Package local is the embedded ledger: whole subnets under the chain's rules,
// with blocks on a clock or stepped by hand, in one SQLite file. What it
// acknowledged is on disk.
//
// The truth is a log of extrinsics. The state (state.go) is what a pure state
// machine makes of them; snapshots only save the time to make it again.
package local

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the database driver

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/guard"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/timelock"
)

// Config configures a ledger. The zero value is a demo ledger on the real clock.
type Config struct {
	// Preset gives the defaults of block time and hyperparameters; empty = PresetDemo.
	Preset string
	// BlockTime is how long a block takes, at least 1 ms. 0 = what the file says, or the preset's.
	// A file made with another block time is refused: its blocks would move.
	BlockTime time.Duration
	// Stepped makes a new ledger whose blocks pass by Step only, at no speed. A file
	// says itself which it is; asking an old one for a BlockTime or Stepped that it has not is refused.
	Stepped bool
	// Genesis is when block 0 began. Zero = what the file says, or now.
	Genesis time.Time
	// Now is the clock; nil = time.Now.
	Now func() time.Time
	// AcceptLoss opens a ledger that has lost extrinsics which were acknowledged:
	// the operator has said so. Otherwise that is an error (lost_commits).
	AcceptLoss bool
	// Drand signs the rounds that open timelocks; zero = drand's quicknet.
	Drand timelock.Key
	// Keep is of how many blocks the state can be read when they are over (At); 0 = of none.
	Keep uint64
}

// Ledger is the embedded ledger. All methods may run at once; writes are
// serial, many of them in one transaction, durable on return (WAL,
// synchronous=FULL). One process at a time has the file.
type Ledger struct {
	db        *sql.DB
	now       func() time.Time
	hyper     ledger.Hyperparameters // of new subnets
	genesis   time.Time
	blockTime time.Duration // 0 = stepped
	// newest is the highest block that was told or written. It keeps Block from
	// falling when the clock is set back. On a stepped ledger it is the clock.
	newest  atomic.Uint64
	clock   sync.Mutex // guards the steps of newest by the clock, and held
	held    int        // while it is above 0 no block passes
	entropy []byte     // of hashes of blocks
	drand   timelock.Key

	jobs    chan *job     // to the writer, which Open starts and Close stops
	quit    chan struct{} // closed by Close
	stopped chan struct{} // closed by the writer
	once    sync.Once
	guard   *guard.File // owned by the writer

	mu       sync.Mutex // guards what follows
	state    *state
	seq      int64 // of the last extrinsic in the log
	saved    int64 // seq of the last snapshot
	dead     error // why nothing works any more
	purgedAt int64 // ms: when old nonces were dropped last
	past     []past
	pastSize int
	dirty    bool      // the state changed since the last of past
	frozen   []*Ledger // decoded from past
	keep     uint64    // set by Open
	changed  []uint64  // blocks in which the state changed, ascending
	draft    *draft    // set by Together: this is a copy, and nothing here is on disk
}

var _ ledger.Full = (*Ledger)(nil)

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
	if cfg.Stepped && cfg.BlockTime != 0 {
		return nil, errors.New("a stepped ledger has no block time")
	}
	l := &Ledger{
		now: cfg.Now, hyper: p.hyper, keep: cfg.Keep, drand: cfg.Drand, dirty: true,
		jobs: make(chan *job, maxBatch), quit: make(chan struct{}), stopped: make(chan struct{}),
	}
	if l.now == nil {
		l.now = time.Now
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	if err := guard.Private(abs); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	// The state is in memory: a second process on the file would see another one. The lock is the file's.
	dsn := url.URL{Scheme: "file", Path: abs, RawQuery: "_pragma=busy_timeout(1000)&_pragma=locking_mode(EXCLUSIVE)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"}
	if l.db, err = sql.Open("sqlite", dsn.String()); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l.db.SetMaxOpenConns(1)
	if err := l.load(ctx, p, cfg, abs); err != nil {
		if strings.Contains(err.Error(), "database is locked") {
			err = &agon.Error{Code: "ledger_in_use", Status: http.StatusConflict, Message: "ledger " + path + " is open in another process", Mend: "stop it, or talk to it with --ledger URL", Err: err}
		}
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", path, err), l.db.Close())
	}
	go l.write()
	return l, nil
}

func (l *Ledger) load(ctx context.Context, p preset, cfg Config, path string) (err error) {
	if err := l.tx(ctx, func(tx *sql.Tx) error { return l.ensureSchema(ctx, tx, p, cfg) }); err != nil {
		return err
	}
	var genesis, block int64
	if err := l.db.QueryRowContext(ctx, "SELECT genesis_ms, block_ms FROM chain").Scan(&genesis, &block); err != nil {
		return fmt.Errorf("read chain: %w", err)
	}
	if err := l.loadEntropy(ctx); err != nil {
		return err
	}
	l.genesis, l.blockTime = time.UnixMilli(genesis).UTC(), time.Duration(block)*time.Millisecond
	if cfg.Stepped && l.blockTime != 0 {
		return fmt.Errorf("block time is %v, not stepped", l.blockTime)
	}
	if cfg.BlockTime != 0 && cfg.BlockTime.Truncate(time.Millisecond) != l.blockTime {
		return fmt.Errorf("block time is %v, not %v", l.blockTime, cfg.BlockTime)
	}
	if !cfg.Genesis.IsZero() && cfg.Genesis.UnixMilli() != genesis {
		return fmt.Errorf("genesis is %v, not %v", l.genesis, cfg.Genesis.UTC())
	}
	if err := l.recover(ctx); err != nil {
		return err
	}
	if l.guard, err = guard.Open(path + "-commits"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.guard.Close())
		}
	}()
	if err := l.guard.Check("the ledger", guard.Mark{Count: l.seq}); err != nil && !cfg.AcceptLoss {
		return err
	}
	return l.guard.Write(guard.Mark{Count: l.seq})
}

// Close ends the ledger. Calls that are under way are finished or fail.
func (l *Ledger) Close() error {
	var err error
	l.once.Do(func() {
		close(l.quit)
		<-l.stopped
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.dead == nil {
			err = l.saveLast()
		}
		l.dead = errClosed
		err = errors.Join(err, l.db.Close(), l.guard.Close())
	})
	return err
}

var errClosed = errors.New("ledger is closed")

// BlockTime is how long a block takes; 0 for a stepped ledger.
func (l *Ledger) BlockTime() time.Duration { return l.blockTime }

// Genesis is when block 0 began; of a stepped ledger when it was made.
func (l *Ledger) Genesis() time.Time { return l.genesis }

// Block implements ledger.Reader.
func (l *Ledger) Block(context.Context) (uint64, error) { return l.block(), nil }

// loadEntropy reads what hashes of blocks come of, or draws it.
func (l *Ledger) loadEntropy(ctx context.Context) error {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	err := l.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS entropy (id INTEGER PRIMARY KEY CHECK (id = 1), secret BLOB NOT NULL)"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS headers (number INTEGER PRIMARY KEY, hash BLOB NOT NULL, state_root BLOB NOT NULL, extrinsics_root BLOB NOT NULL)"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO entropy (id, secret) VALUES (1, ?) ON CONFLICT (id) DO NOTHING", b); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT secret FROM entropy").Scan(&l.entropy)
	})
	if err != nil {
		return fmt.Errorf("read entropy: %w", err)
	}
	return nil
}

// BlockHash returns a hash for a block that nobody without the file knows before
// the block is there; empty: it is not there yet.
func (l *Ledger) BlockHash(_ context.Context, number uint64) (string, error) {
	if number > l.block() {
		return "", nil
	}
	return l.Ahead(number), nil
}

// Ahead returns the hash of a block, also of one to come: whoever runs the
// ledger makes its blocks, and knows them.
func (l *Ledger) Ahead(number uint64) string {
	m := hmac.New(sha256.New, l.entropy)
	fmt.Fprintf(m, "agon-block-v1 %d", number)
	return "0x" + hex.EncodeToString(m.Sum(nil))
}

// block is the clock's block, or the newest one told if the clock went back.
func (l *Ledger) block() uint64 {
	if l.blockTime == 0 {
		return l.newest.Load()
	}
	var at uint64
	if d := l.now().Sub(l.genesis); d > 0 {
		at = uint64(d / l.blockTime)
	}
	l.clock.Lock()
	defer l.clock.Unlock()
	newest := l.newest.Load()
	if l.held > 0 || at <= newest {
		return newest
	}
	l.newest.Store(at)
	return at
}

// Hold keeps a ledger with a clock in its block until release is called, once: what is
// done meanwhile is in one block. The blocks that the clock has passed follow then.
func (l *Ledger) Hold() (release func()) {
	l.block()
	l.clock.Lock()
	defer l.clock.Unlock()
	l.held++
	return func() {
		l.clock.Lock()
		defer l.clock.Unlock()
		l.held--
	}
}

// view lets f read the state at the newest block. What f keeps it copies.
func (l *Ledger) view(ctx context.Context, f func(*state) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead != nil {
		return l.dead
	}
	if err := l.advance(); err != nil {
		return err
	}
	return f(l.state)
}

// advance steps the state to the newest block. l.mu is held.
func (l *Ledger) advance() error {
	to := l.block()
	var err error
	for l.state.Block < to && err == nil {
		next := l.nextKept(to)
		if err = l.remember(next); err == nil {
			err = l.state.advance(next)
		}
	}
	l.note(l.state.ran...)
	l.state.ran = nil
	if err != nil {
		l.dead = fmt.Errorf("step ledger: %w", err) // no state can do that: a defect
		return l.dead
	}
	return nil
}
