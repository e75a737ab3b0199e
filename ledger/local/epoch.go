package local

import (
	"math/bits"
	"slices"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/yuma"
)

// runEpoch decides and pays one epoch of sub in the state's block.
func (s *state) runEpoch(sub *subnet) error {
	sub.fillPot(s.Block)
	pot := sub.Pot
	sub.Pot = 0
	cut := proportionOf(pot, sub.Hyper.OwnerCut)
	out, err := s.epochsOf(sub, pot-cut)
	if err != nil {
		return err
	}
	s.pay(sub, sub.OwnerHotkey, sub.OwnerColdkey, cut)
	for uid, n := range sub.Neurons {
		x := out[uid]
		n.decided(&x)
		coldkey := s.Owners[n.Hotkey]
		server := x.server
		if coldkey == sub.OwnerColdkey { // what the owner's uids mine is burned
			sub.Burned = addRao(sub.Burned, server)
			server = 0
		}
		s.pay(sub, n.Hotkey, coldkey, addRao(server, x.validator))
	}
	return nil
}

// pay gives what a hotkey earned to it or to its owner.
func (s *state) pay(sub *subnet, hotkey, coldkey string, rao uint64) {
	switch {
	case rao == 0:
	case sub.Hyper.EmissionStaked:
		sub.Stakes[hotkey] = addRao(sub.Stakes[hotkey], rao)
	default:
		s.credit(coldkey, rao)
	}
}

// fillPot counts the emission of the blocks up to block. It must come before
// the emission per block changes.
func (sub *subnet) fillPot(block uint64) {
	hi, rao := bits.Mul64(block-sub.PotAt, sub.Hyper.EmissionPerBlock)
	if hi != 0 {
		rao = ^uint64(0)
	}
	sub.Pot, sub.PotAt = addRao(sub.Pot, rao), block
}

// proportionOf is rao·share/65535, rounded down.
func proportionOf(rao uint64, share uint16) uint64 {
	hi, lo := bits.Mul64(rao, uint64(share))
	q, _ := bits.Div64(hi, lo, 65535) // hi < 65535
	return q
}

// epochsOf runs an epoch of sub's mechanisms on what stakes count now.
func (s *state) epochsOf(sub *subnet, pot uint64) ([]merged, error) {
	stakes, fractions := make([]uint64, len(sub.Neurons)), []uint32(nil)
	if sub.Alpha != nil {
		fractions = make([]uint32, len(stakes))
	}
	for uid, n := range sub.Neurons {
		stakes[uid] = sub.Stakes[n.Hotkey]
		if sub.Alpha != nil {
			weight, _, _ := s.weigh(sub, n.Hotkey)
			stakes[uid], fractions[uid] = weight.Whole32(), uint32(weight.Lo)
		}
	}
	return sub.epochs(s.Block, pot, stakes, fractions)
}

func (sub *subnet) yumaInput(mechanism uint8, block, emission uint64) *yuma.Input {
	h := &sub.Hyper
	n := len(sub.Neurons)
	in := &yuma.Input{
		Permits: make([]bool, n), Weights: make([][]yuma.Pair, n), Bonds: make([][]yuma.Pair, n),
		LastUpdate: make([]uint64, n), RegisteredAt: make([]uint64, n), Block: block, LastTempo: sub.lastTempo(block),
		ActivityCutoff: h.ActivityCutoff(), Owner: -1, StakeThreshold: h.StakeThreshold,
		Kappa: h.Kappa, BondsMovingAverage: h.BondsMovingAverage, BondsPenalty: h.BondsPenalty, MaxValidators: h.MaxValidators,
		Emission: emission, Model: yuma.Classic,
	}
	if h.Yuma3 {
		in.Model = yuma.Yuma3
		if h.LiquidAlpha {
			in.Liquid = &yuma.Liquid{Low: h.AlphaLow, High: h.AlphaHigh, Steepness: h.AlphaSteepness}
		}
	}
	if h.NullConsensus {
		in.Model = yuma.Null
	}
	if owner, ok := sub.uids[sub.OwnerHotkey]; ok {
		in.Owner = owner
	}
	if h.CommitReveal {
		in.Commits = make([]uint64, n)
	}
	for uid, x := range sub.Neurons {
		b := x.on(mechanism)
		in.Permits[uid], in.Weights[uid], in.Bonds[uid] = x.Permit, b.Weights, b.Bonds
		in.LastUpdate[uid], in.RegisteredAt[uid] = b.LastUpdate, x.RegisteredAt
		if h.CommitReveal {
			// The epoch that runs already counts as the next index.
			in.Commits[uid] = earliestLive(append(slices.Clone(b.Commits), sub.sealedOf(x.Hotkey, mechanism)...), sub.Epoch.Index+1, h.RevealEpochs())
		}
	}
	return in
}

// lastTempo is what bonds are held against: the block after the last epoch that changed them.
func (sub *subnet) lastTempo(block uint64) uint64 {
	last := sub.Epoch.LastStep
	if sub.Null != nil {
		last = sub.Null.YumaStep
	}
	if last > 0 {
		return last + 1
	}
	return block - min(block, uint64(sub.Hyper.Tempo))
}

// earliestLive is the block of the oldest commit that may still be revealed, 0 = none.
func earliestLive(commits []ledger.WeightCommit, index, period uint64) uint64 {
	for _, c := range commits {
		if c.Epoch+period >= index {
			return c.Block
		}
	}
	return 0
}
