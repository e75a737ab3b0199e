package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agon-arena/agon/ledger"
)

const (
	// maxPast bounds the encoded states of blocks that are over, in bytes.
	maxPast = 256 << 20
	// maxFrozen is how many of them are kept decoded.
	maxFrozen = 8
)

// past is the state after the last change of a block that is over.
type past struct {
	block uint64
	body  []byte
}

// remember keeps the state of a block that ends, if something changed in it. It
// is called before the state steps on; l.mu is held.
func (l *Ledger) remember(next uint64) error {
	if l.keep == 0 || next <= l.state.Block {
		return nil
	}
	if !l.dirty && !(l.state.Root != nil && l.since() >= pastEvery) {
		return nil
	}
	body, err := l.state.encode()
	if err != nil {
		return err
	}
	l.past, l.dirty = append(l.past, past{l.state.Block, body}), false
	l.pastSize += len(body)
	for len(l.past) > 1 && (l.past[1].block+l.keep <= next || l.pastSize > maxPast) {
		l.pastSize -= len(l.past[0].body)
		l.past = l.past[1:]
	}
	return nil
}

// pastEvery is after how many blocks a state is kept although nobody changed it,
// where subnets have pools: each block changes those, and making them again takes time.
const pastEvery = 64

// since is how many blocks the newest of past is behind the state.
func (l *Ledger) since() uint64 {
	if len(l.past) == 0 {
		return l.state.Block
	}
	return l.state.Block - l.past[len(l.past)-1].block
}

// nextKept is the block to step to at once, on the way to another.
func (l *Ledger) nextKept(to uint64) uint64 {
	switch from := l.state.Block; {
	case l.keep == 0 || l.state.Root == nil:
		return to
	case to-from > l.keep+pastEvery:
		return to - l.keep - pastEvery
	default:
		return min(to, from+pastEvery)
	}
}

// At is the ledger as it was at the end of a block, to be read only: its calls
// that change something fail. The newest block is the ledger itself.
// ledger.ErrDiscarded: the block is older than Config.Keep; errors.ErrUnsupported:
// nothing is kept.
func (l *Ledger) At(ctx context.Context, block uint64) (ledger.Full, error) {
	if l.keep == 0 {
		return nil, errors.ErrUnsupported
	}
	var from past
	var frozen *Ledger
	err := l.view(ctx, func(s *state) error {
		if block >= s.Block {
			frozen = l
			return nil
		}
		if i := slices.IndexFunc(l.frozen, func(f *Ledger) bool { return f.state.Block == block }); i >= 0 {
			frozen = l.frozen[i]
			return nil
		}
		for _, p := range slices.Backward(l.past) {
			if p.block <= block {
				from = p
				return nil
			}
		}
		return fmt.Errorf("block %d: %w", block, ledger.ErrDiscarded)
	})
	if frozen != nil || err != nil {
		return frozen, err
	}
	s, err := decodeState(from.body)
	if err != nil {
		return nil, err
	}
	if err := s.advance(block); err != nil {
		return nil, err
	}
	f := &Ledger{now: l.now, hyper: l.hyper, genesis: l.genesis, entropy: l.entropy, drand: l.drand, state: s, quit: make(chan struct{}), stopped: make(chan struct{})}
	f.newest.Store(block)
	close(f.quit)
	close(f.stopped)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen = append(l.frozen, f); len(l.frozen) > maxFrozen {
		l.frozen = l.frozen[1:]
	}
	return f, nil
}
