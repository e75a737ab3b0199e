package ledger

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
)

// Model says when epochs are (spec/chain.md 3.3).
type Model string

// Models.
const (
	Dynamic Model = "dynamic" // tempo blocks after the last one, and sometimes later
	Modulo  Model = "modulo"  // where (block + netuid + 1) mod (tempo + 1) is tempo
)

// MaxEpochsPerBlock is how many subnets of the dynamic model have their epoch
// in one block. The others have it a block later.
const MaxEpochsPerBlock = 2

// maxBlocksPerEpoch ends an epoch whatever the tempo.
const maxBlocksPerEpoch = 50_400

// Epoch is where a subnet stands between two epochs.
type Epoch struct {
	LastBlock uint64 `json:"last_epoch_block"` // what the tempo counts from
	PendingAt uint64 `json:"pending_epoch_at"` // block of an epoch that was put off; 0 = none
	Index     uint64 `json:"subnet_epoch_index"`
	LastStep  uint64 `json:"last_step_block"`      // block of the last epoch that ran; 0 = none
	Since     uint64 `json:"blocks_counted_since"` // where BlocksSinceLastStep is zero
}

// Due reports whether a subnet has its epoch in block.
func (e Epoch) Due(model Model, netuid, tempo uint16, block uint64) bool {
	switch {
	case tempo == 0 || block <= e.LastBlock:
		return false
	case model == Modulo:
		return (block+uint64(netuid)+1)%(uint64(tempo)+1) == uint64(tempo)
	}
	return e.PendingAt > 0 && block >= e.PendingAt || block-e.Since > maxBlocksPerEpoch && block > e.Since || block-e.LastBlock >= uint64(tempo)
}

// Next is the smallest block after block in which an epoch is due, if nothing
// puts it off. A tempo of 0 never has one, which is an error.
func (e Epoch) Next(model Model, netuid, tempo uint16, block uint64) (uint64, error) {
	if tempo == 0 {
		return 0, errors.New("a tempo of 0 has no epochs")
	}
	if model == Modulo {
		period := uint64(tempo) + 1
		into := (block + uint64(netuid) + 1) % period
		wait := (uint64(tempo) + period - into) % period
		if wait == 0 {
			wait = period
		}
		return block + wait, nil
	}
	next := min(e.LastBlock+uint64(tempo), e.Since+maxBlocksPerEpoch+1)
	if e.PendingAt > 0 {
		next = min(next, e.PendingAt)
	}
	return max(next, block+1), nil
}

// EpochIndex is the index of the epoch that an extrinsic of this block belongs
// to. Weight commits and the space of commitments count by it.
func (m *Metagraph) EpochIndex() uint64 { return EpochIndex(&m.Hyper, m.Epoch, m.Netuid, m.Block) }

// EpochIndex is the index of the epoch of an extrinsic in block, where e is the
// state after that block's step.
func EpochIndex(h *Hyperparameters, e Epoch, netuid uint16, block uint64) uint64 {
	if h.Model == Modulo {
		return (block + uint64(netuid) + 1) / (uint64(h.Tempo) + 1)
	}
	if e.Due(h.Model, netuid, h.Tempo, block) { // it was put off
		return e.Index + 1
	}
	return e.Index
}

// NextEpoch is the block of the subnet's next epoch, if nothing puts it off.
func (m *Metagraph) NextEpoch() (uint64, error) {
	return m.Epoch.Next(m.Hyper.Model, m.Netuid, m.Hyper.Tempo, m.Block)
}

// Era encodes the mortality of an extrinsic that is signed at block current and
// dies period blocks later. The period is raised to a power of two from 4 to 65536.
func Era(period, current uint64) [2]byte {
	period = max(4, min(period, 1<<16))
	period = 1 << bits.Len64(period-1)
	quantum := max(period>>12, 1)
	phase := current % period / quantum
	var out [2]byte
	binary.LittleEndian.PutUint16(out[:], uint16(min(max(bits.TrailingZeros64(period)-1, 1), 15))|uint16(phase<<4))
	return out
}

type eraIn struct {
	Period  uint64 `json:"period"`
	Current uint64 `json:"current"`
}

type eraOut struct {
	Hex string `json:"hex"`
}

func calcEra(in eraIn) (eraOut, error) {
	e := Era(in.Period, in.Current)
	return eraOut{hex.EncodeToString(e[:])}, nil
}

type epochNextIn struct {
	Netuid         uint16  `json:"netuid"`
	Tempo          uint16  `json:"tempo"`
	Block          uint64  `json:"block"`
	LastEpochBlock *uint64 `json:"last_epoch_block"`
	PendingEpochAt *uint64 `json:"pending_epoch_at"`
	Model          Model   `json:"model"`
}

type epochNextOut struct {
	Block uint64 `json:"block"`
}

// maxCalcBlock bounds the blocks of chain.epoch_next: a chain's block has 32 bits.
const maxCalcBlock = 1 << 53

func calcEpochNext(in epochNextIn) (epochNextOut, error) {
	if in.Model != Dynamic && in.Model != Modulo {
		return epochNextOut{}, fmt.Errorf("model %q: want %s or %s", in.Model, Dynamic, Modulo)
	}
	var e Epoch
	if in.LastEpochBlock != nil {
		e.LastBlock = *in.LastEpochBlock
	}
	if in.PendingEpochAt != nil {
		e.PendingAt = *in.PendingEpochAt
	}
	if max(in.Block, e.LastBlock, e.PendingAt) > maxCalcBlock {
		return epochNextOut{}, fmt.Errorf("block is over %d", int64(maxCalcBlock))
	}
	// BlocksSinceLastStep is not given: only the tempo counts here.
	e.Since = e.LastBlock + maxBlocksPerEpoch*2
	next, err := e.Next(in.Model, in.Netuid, in.Tempo, in.Block)
	return epochNextOut{next}, err
}
