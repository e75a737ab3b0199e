package local

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/yuma"
)

// maxMechanisms is how many mechanisms a subnet has at most (MaxMechanismCount).
const maxMechanisms = 2

// book is what a registration has on each mechanism of its subnet.
type book struct {
	LastUpdate uint64                `json:"last_update"`
	Weights    []yuma.Pair           `json:"weights"` // as set, scaled up, in the order given
	WeightsAt  uint64                `json:"weights_at"`
	HasWeights bool                  `json:"has_weights"`
	Bonds      []yuma.Pair           `json:"bonds"`
	Commits    []ledger.WeightCommit `json:"weight_commits"`
	Incentive  uint16                `json:"incentive"`
}

func (b *book) set(row []yuma.Pair, block uint64) {
	b.Weights, b.WeightsAt, b.HasWeights = row, block, true
}

// on is the book of a mechanism that the subnet has.
func (n *neuron) on(mechanism uint8) *book {
	if mechanism == 0 {
		return &n.book
	}
	return &n.More[mechanism-1]
}

// mechanisms is how many the subnet has.
func (sub *subnet) mechanisms() int { return sub.More + 1 }

// mechanism checks that the subnet has it.
func (sub *subnet) mechanism(id uint8) error {
	if int(id) >= sub.mechanisms() {
		return ledger.ErrMechanismNotExists.With(fmt.Sprintf("mechanism %d: the subnet has %d, from 0", id, sub.mechanisms()))
	}
	return nil
}

// indexOf is under which number a mechanism's promises are hashed.
func indexOf(netuid uint16, mechanism uint8) uint16 {
	return netuid + ledger.MechanismStep*uint16(mechanism)
}

// SetMechanismWeights is SetWeights for a mechanism of the subnet.
func (l *Ledger) SetMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights) error {
	if err := checkWeightsSize(w, nil); err != nil {
		return err
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callSetWeights, Netuid: netuid, Mechanism: mechanism, Hotkey: hotkey, Weights: &w})
	return err
}

// CommitMechanismWeights is CommitWeights for a mechanism of the subnet; the
// hash is the ledger.CommitHash of its storage index.
func (l *Ledger) CommitMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, hash ledger.Hash) error {
	_, _, err := l.call(ctx, &extrinsic{Call: callCommitted, Netuid: netuid, Mechanism: mechanism, Hotkey: hotkey, Hash: &hash})
	return err
}

// RevealMechanismWeights is RevealWeights for a mechanism of the subnet.
func (l *Ledger) RevealMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights, salt []uint16) error {
	if err := checkWeightsSize(w, salt); err != nil {
		return err
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callReveal, Netuid: netuid, Mechanism: mechanism, Hotkey: hotkey, Weights: &w, Salt: salt})
	return err
}

// SetMechanismSplit divides a subnet's emission over its mechanisms, in shares
// of 65535 that add up to that; none = equally. The owner signs.
func (l *Ledger) SetMechanismSplit(ctx context.Context, netuid uint16, coldkey string, shares []uint16) error {
	if len(shares) > maxMechanisms {
		return ledger.ErrInvalidValue.With(fmt.Sprintf("%d shares: a subnet has at most %d mechanisms", len(shares), maxMechanisms))
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callSplit, Netuid: netuid, Coldkey: coldkey, Shares: shares})
	return err
}

// MechanismBonds are the bonds of a mechanism, by uid of the validator.
func (l *Ledger) MechanismBonds(ctx context.Context, netuid uint16, mechanism uint8) (rows []ledger.WeightRow, err error) {
	err = l.view(ctx, func(s *state) error {
		sub, err := s.subnet(netuid)
		if err != nil {
			return err
		}
		if err := sub.mechanism(mechanism); err != nil {
			return err
		}
		for uid, n := range sub.Neurons {
			if bonds := n.on(mechanism).Bonds; len(bonds) > 0 {
				rows = append(rows, row(uint16(uid), bonds))
			}
		}
		return nil
	})
	return rows, err
}

// ofMechanisms copies out what the mechanisms after the first have of their own.
func (sub *subnet) ofMechanisms() []ledger.Mechanism {
	out := make([]ledger.Mechanism, sub.More)
	for i := range out {
		x, id := &out[i], uint8(i+1)
		x.Neurons, x.Weights = make([]ledger.MechanismNeuron, len(sub.Neurons)), []ledger.WeightRow{}
		for uid, n := range sub.Neurons {
			b := n.on(id)
			x.Neurons[uid] = ledger.MechanismNeuron{LastUpdate: b.LastUpdate, Incentive: b.Incentive, Commits: append(slices.Clone(b.Commits), sub.sealedOf(n.Hotkey, id)...)}
			if b.HasWeights {
				given := row(uint16(uid), b.Weights)
				given.Block = b.WeightsAt
				x.Weights = append(x.Weights, given)
			}
		}
	}
	return out
}

// setMechanisms changes how many mechanisms there are. Those that go take all
// with them, and the split is equal again.
func (sub *subnet) setMechanisms(count int64) error {
	if count < 1 || count > maxMechanisms {
		return ledger.ErrInvalidValue.With(fmt.Sprintf("%d mechanisms: 1 to %d", count, maxMechanisms))
	}
	if int(count) == sub.mechanisms() {
		return nil
	}
	sub.More, sub.Split = int(count)-1, nil
	for _, n := range sub.Neurons {
		more := make([]book, sub.More)
		copy(more, n.More)
		n.More = more
	}
	var left []ledger.SealedCommit
	for _, c := range sub.Sealed {
		if int(c.Mechanism) < sub.mechanisms() {
			left = append(left, c)
		}
	}
	sub.Sealed = left
	return nil
}

func (s *state) setSplit(x *extrinsic) error {
	sub, err := s.subnet(x.Netuid)
	if err != nil {
		return err
	}
	if x.Coldkey != sub.OwnerColdkey {
		return ledger.ErrBadOrigin.With(fmt.Sprintf("subnet %d belongs to %s", x.Netuid, sub.OwnerColdkey))
	}
	sum := 0
	for _, share := range x.Shares {
		sum += int(share)
	}
	if len(x.Shares) > 0 && (len(x.Shares) > sub.mechanisms() || sum != math.MaxUint16) {
		return ledger.ErrInvalidValue.With(fmt.Sprintf("%d shares that add up to %d: at most %d that add up to 65535", len(x.Shares), sum, sub.mechanisms()))
	}
	sub.Split = x.Shares
	return nil
}

// merged is what an epoch of all mechanisms decided of a neuron: amounts are
// added, what is of 65535 by the mechanism's part of the emission.
type merged struct {
	server, validator, emission                 uint64
	consensus, trust, validatorTrust, dividends uint16
	permit, active                              bool
}

// epochs runs the mechanisms of sub, each on its part of the pot, and keeps
// what each has of its own.
func (sub *subnet) epochs(block, pot uint64, stakes []uint64, fractions []uint32) ([]merged, error) {
	out := make([]merged, len(sub.Neurons))
	all := make([]*yuma.Output, sub.mechanisms())
	parts := ledger.SplitEmission(pot, sub.mechanisms(), sub.Split)
	for id := range all {
		var err error
		in := sub.yumaInput(uint8(id), block, parts[id])
		in.Stake, in.Fractions = stakes, fractions
		if all[id], err = yuma.Run(in); err != nil {
			return nil, fmt.Errorf("mechanism %d: %w", id, err)
		}
	}
	for id, x := range all {
		add := weighted(parts[id], pot, id == 0)
		for uid, n := range sub.Neurons {
			b, m := n.on(uint8(id)), &out[uid]
			b.Bonds, b.Incentive = x.Bonds[uid], x.Incentive[uid]
			m.server, m.validator = addRao(m.server, x.Server[uid]), addRao(m.validator, x.Validator[uid])
			m.emission = addRao(m.emission, add(x.Emission[uid]))
			m.consensus += uint16(add(uint64(x.Consensus[uid])))
			m.trust += uint16(add(uint64(x.Trust[uid])))
			m.validatorTrust += uint16(add(uint64(x.ValidatorTrust[uid])))
			m.dividends += uint16(add(uint64(x.Dividends[uid])))
			m.permit, m.active = m.permit || x.Permits[uid], m.active || x.Active[uid]
		}
	}
	return out, nil
}

// weighted multiplies by part/whole in 64 bits of fraction and drops the rest;
// where the whole is 0 the first mechanism has all.
func weighted(part, whole uint64, first bool) func(uint64) uint64 {
	switch {
	case whole == 0 && !first:
		return func(uint64) uint64 { return 0 }
	case whole == part:
		return func(x uint64) uint64 { return x }
	}
	w, _ := bits.Div64(part, 0, whole) // part < whole
	return func(x uint64) uint64 {
		hi, _ := bits.Mul64(w, x)
		return hi
	}
}
