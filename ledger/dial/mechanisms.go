package dial

import (
	"context"
	"fmt"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/keeper"
)

var _ keeper.Mechanisms = (*Lazy)(nil)

// mechanisms is the ledger's side of several mechanisms, if it has one.
func (z *Lazy) mechanisms(ctx context.Context) (keeper.Mechanisms, error) {
	l, err := z.open(ctx)
	if err != nil {
		return nil, err
	}
	of, ok := l.(keeper.Mechanisms)
	if !ok {
		return nil, ledger.ErrMechanismNotExists.With("the ledger knows one mechanism")
	}
	return of, nil
}

// SetMechanismWeights implements keeper.Mechanisms.
func (z *Lazy) SetMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights) error {
	of, err := z.mechanisms(ctx)
	if err != nil {
		return err
	}
	return of.SetMechanismWeights(ctx, netuid, mechanism, hotkey, w)
}

// CommitMechanismWeights implements keeper.Mechanisms.
func (z *Lazy) CommitMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, hash ledger.Hash) error {
	of, err := z.mechanisms(ctx)
	if err != nil {
		return err
	}
	return of.CommitMechanismWeights(ctx, netuid, mechanism, hotkey, hash)
}

// RevealMechanismWeights implements keeper.Mechanisms.
func (z *Lazy) RevealMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights, salt []uint16) error {
	of, err := z.mechanisms(ctx)
	if err != nil {
		return err
	}
	return of.RevealMechanismWeights(ctx, netuid, mechanism, hotkey, w, salt)
}

// MechanismMetagraph is a subnet as one of its mechanisms has it.
func (z *Lazy) MechanismMetagraph(ctx context.Context, netuid uint16, mechanism uint8) (*ledger.Metagraph, error) {
	l, err := z.open(ctx)
	if err != nil {
		return nil, err
	}
	if r, ok := l.(interface {
		MechanismMetagraph(ctx context.Context, netuid uint16, mechanism uint8) (*ledger.Metagraph, error)
	}); ok {
		return r.MechanismMetagraph(ctx, netuid, mechanism)
	}
	m, err := l.Metagraph(ctx, netuid)
	if err != nil {
		return nil, err
	}
	of, ok := m.Mechanism(mechanism)
	if !ok {
		return nil, ledger.ErrMechanismNotExists.With(fmt.Sprintf("mechanism %d: the subnet has %d, from 0", mechanism, len(m.Mechanisms)+1))
	}
	return of, nil
}

// CommitSealedMechanism commits timelocked weights for a mechanism.
func (z *Lazy) CommitSealedMechanism(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, s ledger.Sealed) error {
	l, err := z.open(ctx)
	if err != nil {
		return err
	}
	of, ok := l.(interface {
		CommitSealedMechanism(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, s ledger.Sealed) error
	})
	if !ok {
		return ledger.ErrNoTimelocks
	}
	return of.CommitSealedMechanism(ctx, netuid, mechanism, hotkey, s)
}
