package ledger

import (
	"context"
	"errors"
)

// Sealed is weights that the ledger opens by itself after a drand round.
type Sealed struct {
	Round uint64 `json:"round"`
	Data  []byte `json:"data"` // the ciphertext
}

// SealedCommit is one commit of timelocked weights that is not opened.
type SealedCommit struct {
	Hotkey      string `json:"hotkey"`
	Epoch       uint64 `json:"epoch"` // in which it was made
	Block       uint64 `json:"block"`
	Data        []byte `json:"data"`
	RevealRound uint64 `json:"reveal_round"`
	Mechanism   uint8  `json:"mechanism,omitempty"`
}

// Revealed is what a timelocked commitment held.
type Revealed struct {
	Data  []byte `json:"data"`
	Block uint64 `json:"block"` // in which it was opened
}

// TimelockCommitter commits weights that the ledger reveals by itself, where it
// can. The same promises as Writer's.
type TimelockCommitter interface {
	// SealWeights encrypts weights to the round at which their reveal begins, for a
	// commit made in the block after the metagraph's. ErrNoTimelocks says that the ledger takes none.
	SealWeights(ctx context.Context, m *Metagraph, hotkey string, w Weights) (Sealed, error)
	// CommitSealed commits what was sealed.
	CommitSealed(ctx context.Context, netuid uint16, hotkey string, s Sealed) error
	// OpenWeights opens what was sealed with the round's signature, as the ledger
	// does. ErrRoundNotOut says that nobody has the signature yet.
	OpenWeights(ctx context.Context, hotkey string, s Sealed) (Weights, error)
}

// Errors of timelocks.
var (
	ErrNoTimelocks = errors.New("the ledger takes no timelocked weights")
	ErrRoundNotOut = errors.New("the drand round has no signature yet")
)

// maxSimulated bounds how many epochs RevealBlock looks ahead; reveal periods have at most 100.
const maxSimulated = 1000

// RevealBlock is the first block of the epoch in which weights are revealed that
// are committed in the block after the metagraph's, and the epoch of that commit,
// if nothing puts an epoch off (spec/chain.md 3.3).
func (m *Metagraph) RevealBlock() (block, commitEpoch uint64, err error) {
	h := &m.Hyper
	if h.Tempo == 0 {
		return 0, 0, errors.New("a tempo of 0 has no epochs: nothing is ever revealed")
	}
	if h.RevealEpochs() > maxSimulated {
		return 0, 0, errors.New("the reveal period is too long to be foreseen")
	}
	at := m.Block + 1
	if h.Model == Modulo {
		commitEpoch = EpochIndex(h, m.Epoch, m.Netuid, at)
		return (commitEpoch+h.RevealEpochs())*(uint64(h.Tempo)+1) - uint64(m.Netuid) - 1, commitEpoch, nil
	}
	e := m.Epoch
	run := func(b uint64) {
		e.LastBlock, e.PendingAt, e.Since, e.Index = b, 0, b, e.Index+1
	}
	if e.Due(h.Model, m.Netuid, h.Tempo, at) { // its epoch runs before the extrinsics
		run(at)
	}
	commitEpoch = e.Index
	for e.Index < commitEpoch+h.RevealEpochs() {
		if at, err = e.Next(h.Model, m.Netuid, h.Tempo, at); err != nil {
			return 0, 0, err
		}
		run(at)
	}
	return at, commitEpoch, nil
}
