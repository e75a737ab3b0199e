package local

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/agon-arena/agon/internal/guard"
	"github.com/agon-arena/agon/ledger"
)

// maxBatch is how many changes share one transaction, and how many may wait.
const maxBatch = 1024

// job is one change on its way to the writer: an extrinsic, a nonce or a step.
type job struct {
	ctx   context.Context
	body  []byte // the extrinsic, encoded
	nonce string
	until int64 // ms: when the nonce may be forgotten
	step  uint64
	told  *ledger.Told
	// together changes a copy of the ledger, which becomes the ledger if it returns nil.
	together func(*Ledger) error
	done     chan outcome // takes one outcome
}

type outcome struct {
	uid   uint16
	block uint64
	fresh bool
	swaps []ledger.Swap
	err   error
}

// submit hands j to the writer and waits for what became of it. A context that
// ends while the writer has the job does not end the wait: the answer comes, and is true.
func (l *Ledger) submit(ctx context.Context, j *job) outcome {
	if l.draft != nil {
		return l.drafted(ctx, j)
	}
	j.ctx, j.done = ctx, make(chan outcome, 1)
	select {
	case <-ctx.Done():
		return outcome{err: ctx.Err()}
	case <-l.quit:
		return outcome{err: errClosed}
	case l.jobs <- j:
	}
	select {
	case o := <-j.done:
		return o
	case <-l.stopped:
	}
	select { // it may have been the writer's last
	case o := <-j.done:
		return o
	default:
		return outcome{err: errClosed}
	}
}

// call submits an extrinsic.
func (l *Ledger) call(ctx context.Context, x *extrinsic) (uint16, uint64, error) {
	body, err := json.Marshal(x)
	if err != nil {
		return 0, 0, fmt.Errorf("encode extrinsic: %w", err)
	}
	o := l.submit(ctx, &job{body: body})
	return o.uid, o.block, o.err
}

// swaps submits an extrinsic that swaps TAO and alpha.
func (l *Ledger) swaps(ctx context.Context, x *extrinsic) ([]ledger.Swap, error) {
	body, err := json.Marshal(x)
	if err != nil {
		return nil, fmt.Errorf("encode extrinsic: %w", err)
	}
	o := l.submit(ctx, &job{body: body})
	return o.swaps, o.err
}

// Step lets blocks pass on a stepped ledger.
func (l *Ledger) Step(ctx context.Context, blocks uint64) (block uint64, err error) {
	if l.blockTime != 0 {
		return 0, fmt.Errorf("step ledger: its blocks pass every %v", l.blockTime)
	}
	if blocks > 1<<40 {
		return 0, fmt.Errorf("step ledger by %d blocks: at most 2^40", blocks)
	}
	if blocks == 0 {
		return l.block(), nil
	}
	o := l.submit(ctx, &job{step: blocks})
	return o.block, o.err
}

// write is the writer. While one transaction is on its way to disk the next
// jobs gather, so that many share one sync.
func (l *Ledger) write() {
	defer close(l.stopped)
	batch := make([]*job, 0, maxBatch)
	for {
		select {
		case <-l.quit:
			return
		case j := <-l.jobs:
			batch = append(batch[:0], j)
		}
	gather:
		for len(batch) < maxBatch {
			select {
			case j := <-l.jobs:
				batch = append(batch, j)
			default:
				break gather
			}
		}
		for i, o := range l.commitBatch(batch) {
			batch[i].done <- o
		}
	}
}

// commitBatch applies jobs in order and makes them durable together. When the
// disk refuses, none happened: the state is made again from what the disk has.
func (l *Ledger) commitBatch(batch []*job) []outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]outcome, len(batch))
	fail := func(err error) []outcome {
		for i := range out {
			out[i] = outcome{err: err}
		}
		return out
	}
	if l.dead != nil {
		return fail(l.dead)
	}
	if err := l.advance(); err != nil {
		return fail(err)
	}
	ctx := context.Background()
	err := l.tx(ctx, func(tx *sql.Tx) error {
		changed, err := l.applyBatch(ctx, tx, batch, out)
		if err != nil {
			return err
		}
		if !changed {
			return errNothing
		}
		newest := int64(l.state.Block)
		if _, err := tx.ExecContext(ctx, "UPDATE chain SET newest = ? WHERE newest < ?", newest, newest); err != nil {
			return fmt.Errorf("store block: %w", err)
		}
		if l.seq-l.saved >= snapshotEvery {
			return l.snapshot(ctx, tx)
		}
		return nil
	})
	if err == nil {
		_ = l.guard.Write(guard.Mark{Count: l.seq}) // the database has it: a mark that is behind means nothing
		return out
	}
	if errors.Is(err, errNothing) {
		return out
	}
	l.past, l.pastSize, l.frozen, l.dirty = nil, 0, nil, true // they may hold what did not happen
	if rerr := l.recover(ctx); rerr != nil {
		l.dead = fmt.Errorf("recover ledger: %w", rerr)
		err = errors.Join(err, l.dead)
	}
	return fail(err)
}

// errNothing rolls an empty transaction back.
var errNothing = errors.New("nothing changed")

// applyBatch fills in outcomes and reports whether anything has to be kept. An
// error is the disk's and undoes the batch.
func (l *Ledger) applyBatch(ctx context.Context, tx *sql.Tx, batch []*job, out []outcome) (changed bool, err error) {
	insert, err := tx.PrepareContext(ctx, "INSERT INTO log (seq, block, call, netuid, hotkey, body) VALUES (?, ?, ?, ?, ?, ?)")
	if err != nil {
		return false, fmt.Errorf("prepare log: %w", err)
	}
	defer insert.Close()
	for i, j := range batch {
		o := &out[i]
		if o.err = j.ctx.Err(); o.err != nil {
			continue // nobody waits, nothing happened
		}
		switch {
		case j.step > 0:
			l.newest.Add(j.step)
			if o.err = l.advance(); o.err != nil {
				return false, o.err
			}
			o.block, changed = l.state.Block, true
		case j.told != nil:
			if err := keepTold(ctx, tx, j.told); err != nil {
				return false, err
			}
			changed = true
		case j.nonce != "":
			if o.fresh, err = l.insertNonce(ctx, tx, j); err != nil {
				return false, err
			}
			changed = changed || o.fresh
		default:
			var made []logged
			if j.together != nil {
				made, o.err = l.takeOver(j.together)
			} else {
				*o, made = l.state.applyBody(j.body)
			}
			for _, x := range made {
				l.seq++
				changed, l.dirty = true, true
				if _, err := insert.ExecContext(ctx, l.seq, int64(l.state.Block), x.call, x.netuid, x.hotkey, x.body); err != nil {
					return false, fmt.Errorf("store extrinsic: %w", err)
				}
			}
			if len(made) > 0 {
				l.note(l.state.Block)
			}
		}
	}
	return changed, nil
}

// logged is an extrinsic that was applied, as the log has it.
type logged struct {
	call   string
	netuid uint16
	hotkey string
	body   []byte
}

// applyBody applies an extrinsic as the log will say it, not as its caller holds it. One
// that changed nothing leaves nothing for the log.
func (s *state) applyBody(body []byte) (o outcome, made []logged) {
	var x extrinsic
	if o.err = json.Unmarshal(body, &x); o.err != nil {
		return o, nil
	}
	o.block = s.Block
	if o.uid, o.err = s.apply(&x); o.err != nil {
		if errors.Is(o.err, errUnchanged) {
			o.err = nil
		}
		return o, nil
	}
	o.swaps = s.swapped
	return o, []logged{{x.Call, x.Netuid, x.Hotkey, body}}
}

// insertNonce records a nonce once, and drops expired ones now and then.
func (l *Ledger) insertNonce(ctx context.Context, tx *sql.Tx, j *job) (fresh bool, err error) {
	if now := l.now().UnixMilli(); now-l.purgedAt > time.Minute.Milliseconds() {
		if _, err := tx.ExecContext(ctx, "DELETE FROM nonces WHERE until_ms < ?", now); err != nil {
			return false, fmt.Errorf("drop nonces: %w", err)
		}
		l.purgedAt = now
	}
	r, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO nonces (id, until_ms) VALUES (?, ?)", j.nonce, j.until)
	if err != nil {
		return false, fmt.Errorf("store nonce: %w", err)
	}
	n, err := r.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("store nonce: %w", err)
	}
	return n == 1, nil
}
