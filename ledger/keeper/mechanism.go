package keeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/agon-arena/agon/ledger"
)

// Mechanisms is a ledger whose subnets may have several mechanisms.
type Mechanisms interface {
	SetMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights) error
	CommitMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, hash ledger.Hash) error
	RevealMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights, salt []uint16) error
}

// mechanismReader is a ledger whose metagraphs do not hold what its mechanisms have of their own.
type mechanismReader interface {
	MechanismMetagraph(ctx context.Context, netuid uint16, mechanism uint8) (*ledger.Metagraph, error)
}

// mechanismSealer is a ledger that takes timelocked weights for a mechanism.
type mechanismSealer interface {
	CommitSealedMechanism(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, s ledger.Sealed) error
}

// onMechanism is a ledger as one mechanism after the first has it, so that a keeper
// keeps its weights as it does a subnet's.
type onMechanism struct {
	of    Ledger
	calls Mechanisms
	id    uint8
}

var (
	_ ledger.TimelockCommitter = onMechanism{}
	_ ledger.Sequencer         = onMechanism{}
)

// OnMechanism is l for a mechanism; that of the first is l itself.
func OnMechanism(l Ledger, id uint8) (Ledger, error) {
	if id == 0 {
		return l, nil
	}
	calls, ok := l.(Mechanisms)
	if !ok {
		return nil, fmt.Errorf("keep weights of mechanism %d: the ledger knows one mechanism", id)
	}
	return onMechanism{l, calls, id}, nil
}

func (x onMechanism) Metagraph(ctx context.Context, netuid uint16) (*ledger.Metagraph, error) {
	if r, ok := x.of.(mechanismReader); ok {
		return r.MechanismMetagraph(ctx, netuid, x.id)
	}
	m, err := x.of.Metagraph(ctx, netuid)
	if err != nil {
		return nil, err
	}
	of, ok := m.Mechanism(x.id)
	if !ok {
		return nil, ledger.ErrMechanismNotExists.With(fmt.Sprintf("mechanism %d: the subnet has %d, from 0", x.id, len(m.Mechanisms)+1))
	}
	return of, nil
}

func (x onMechanism) SetWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights) error {
	return x.calls.SetMechanismWeights(ctx, netuid, x.id, hotkey, w)
}

func (x onMechanism) CommitWeights(ctx context.Context, netuid uint16, hotkey string, hash ledger.Hash) error {
	return x.calls.CommitMechanismWeights(ctx, netuid, x.id, hotkey, hash)
}

func (x onMechanism) RevealWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights, salt []uint16) error {
	return x.calls.RevealMechanismWeights(ctx, netuid, x.id, hotkey, w, salt)
}

// Sequence implements ledger.Sequencer: the calls of a hotkey are counted over all mechanisms.
func (x onMechanism) Sequence(ctx context.Context, address string) (ledger.Sequence, error) {
	if s, ok := x.of.(ledger.Sequencer); ok {
		return s.Sequence(ctx, address)
	}
	return ledger.Sequence{}, errors.ErrUnsupported
}

// SealWeights implements ledger.TimelockCommitter.
func (x onMechanism) SealWeights(ctx context.Context, m *ledger.Metagraph, hotkey string, w ledger.Weights) (ledger.Sealed, error) {
	t, ok := x.of.(ledger.TimelockCommitter)
	if _, takes := x.of.(mechanismSealer); !ok || !takes {
		return ledger.Sealed{}, ledger.ErrNoTimelocks
	}
	return t.SealWeights(ctx, m, hotkey, w)
}

// CommitSealed implements ledger.TimelockCommitter.
func (x onMechanism) CommitSealed(ctx context.Context, netuid uint16, hotkey string, s ledger.Sealed) error {
	t, ok := x.of.(mechanismSealer)
	if !ok {
		return ledger.ErrNoTimelocks
	}
	return t.CommitSealedMechanism(ctx, netuid, x.id, hotkey, s)
}

// OpenWeights implements ledger.TimelockCommitter.
func (x onMechanism) OpenWeights(ctx context.Context, hotkey string, s ledger.Sealed) (ledger.Weights, error) {
	t, ok := x.of.(ledger.TimelockCommitter)
	if !ok {
		return ledger.Weights{}, ledger.ErrNoTimelocks
	}
	return t.OpenWeights(ctx, hotkey, s)
}
