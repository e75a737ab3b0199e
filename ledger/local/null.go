package local

import (
	"fmt"
	"math/big"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/yuma"
)

// null is what a subnet keeps of Yuma while Null rules it.
type null struct {
	// Validators is MaxValidators of before; YumaStep the block of the last epoch that changed bonds.
	Validators uint16 `json:"validators"`
	YumaStep   uint64 `json:"yuma_step"`
}

// setNull changes a subnet to Null, or back to Yuma. Null has one permit, that of the
// most stake. Timelocked weights that are not opened yet refuse the change, as on the chain.
func (s *state) setNull(netuid uint16, sub *subnet, on bool) error {
	switch {
	case on == sub.Hyper.NullConsensus:
		return nil
	case len(sub.Sealed) > 0:
		return ledger.ErrInvalidValue.With(fmt.Sprintf("subnet %d: %d timelocked weights are not opened yet", netuid, len(sub.Sealed)))
	}
	sub.Hyper.NullConsensus = on
	if !on {
		sub.Hyper.MaxValidators = sub.Null.Validators
		return nil
	}
	sub.Null = &null{Validators: sub.Hyper.MaxValidators, YumaStep: sub.Epoch.LastStep}
	sub.Hyper.MaxValidators = 1
	var best *neuron
	var most *big.Int
	for _, n := range sub.Neurons {
		n.Permit = false
		stake := s.exactStake(sub, n.Hotkey)
		if stake.Sign() > 0 && (best == nil || stake.Cmp(most) > 0) {
			best, most = n, stake
		}
	}
	if best != nil {
		best.Permit = true
	}
	return nil
}

// exactStake is what a hotkey's stake counts on a subnet, in 2^-32 rao; 0 where it is below the threshold.
func (s *state) exactStake(sub *subnet, hotkey string) *big.Int {
	if s.stakeOn(sub, hotkey) < sub.Hyper.StakeThreshold && hotkey != sub.OwnerHotkey {
		return new(big.Int)
	}
	out := new(big.Int).SetUint64(sub.Stakes[hotkey])
	if sub.Alpha == nil {
		return out.Lsh(out, 32)
	}
	weight, _, _ := s.weigh(sub, hotkey)
	out.SetUint64(weight.Hi)
	return out.Or(out.Lsh(out, 64), new(big.Int).SetUint64(weight.Lo))
}

// yumaRan forgets what is kept once an epoch of Yuma has changed bonds again.
func (sub *subnet) yumaRan() {
	if !sub.Hyper.NullConsensus {
		sub.Null = nil
	}
}

// epochsAtOnce is how many epochs may run in the block: one, where one of Null is due.
func (s *state) epochsAtOnce() int {
	for _, netuid := range s.order {
		if sub := s.Subnets[netuid]; sub.Hyper.NullConsensus && sub.Epoch.Due(sub.Hyper.Model, netuid, sub.Hyper.Tempo, s.Block) {
			return 1
		}
	}
	return ledger.MaxEpochsPerBlock
}

// rowOf is weights as a subnet keeps them: scaled up, but for Null, which pays by the numbers themselves.
func (sub *subnet) rowOf(w *ledger.Weights) []yuma.Pair {
	values := w.Values
	if !sub.Hyper.NullConsensus {
		values = ledger.MaxUpscale(w.Values)
	}
	out := make([]yuma.Pair, len(values))
	for i := range values {
		out[i] = yuma.Pair{UID: w.UIDs[i], Value: values[i]}
	}
	return out
}
