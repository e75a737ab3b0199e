package keeper

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/agon-arena/agon/ledger"
)

// keptLedger is a ledger on which weights may be set directly where the subnet
// wants them committed and revealed: a keeper does that, and tick keeps its
// promises. It is safe for concurrent use.
type Kept struct {
	ledger.Ledger
	netuid uint16

	mu   sync.Mutex // guards what follows
	k    *Keeper
	want *ledger.Weights // what was to be set last; nil = nothing yet
}

// committing is a ledger that takes promises too.
type committing interface {
	ledger.Ledger
	ledger.WeightCommitter
}

func NewKept(l committing, netuid uint16, hotkey, path string) (*Kept, error) {
	k, err := Open(Config{Ledger: l, Netuid: netuid, Hotkey: hotkey, Path: path})
	if err != nil {
		return nil, err
	}
	return &Kept{Ledger: l, netuid: netuid, k: k}, nil
}

// SetWeights implements ledger.Writer. On a subnet that commits and reveals,
// nothing wrong means that the promise of this tempo is made.
func (l *Kept) SetWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights) error {
	err := l.Ledger.SetWeights(ctx, netuid, hotkey, w)
	if !errors.Is(err, ledger.ErrCommitRevealEnabled) || netuid != l.netuid {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want = &w
	r, err := l.tick(ctx)
	switch {
	case err != nil:
		return err
	case r.Done:
		return nil
	case r.Plan != nil && len(r.Plan.Reasons) > 0:
		return &ledger.Error{Name: r.Plan.Reasons[0].Name, Message: r.Plan.Reasons[0].Message}
	}
	return fmt.Errorf("commit weights: not in block %d", r.Block)
}

// Keep reveals what was promised, and promises again what was wanted last. It
// does nothing before the first promise.
func (l *Kept) Keep(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.want == nil && !l.k.Waiting() {
		return nil
	}
	_, err := l.tick(ctx)
	return err
}

// tick is the keeper's. l.mu is held.
func (l *Kept) tick(ctx context.Context) (Report, error) {
	return l.k.Tick(ctx, func(*ledger.Metagraph) (uids, values []uint16, err error) {
		if l.want != nil {
			uids, values = l.want.UIDs, l.want.Values
		}
		return uids, values, nil
	})
}
