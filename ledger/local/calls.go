package local

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
)

// Subnet says what a subnet is made of.
type Subnet struct {
	OwnerHotkey  string
	OwnerColdkey string
	// Hyper is nil for the preset's hyperparameters.
	Hyper *ledger.Hyperparameters
	// Pool gives the subnet an alpha of its own, with so many rao of TAO and of alpha in its pool; 0: a TAO of
	// stake is a TAO. A subnet keeps its choice for ever.
	Pool uint64
	// Moving is the moving price that the pool begins with, in rao an alpha, at most 1e9. On the chain it begins
	// with 0 and takes months to follow the price, and the root network is paid only where all moving prices are
	// together more than a TAO.
	Moving uint64
}

// EnsureSubnet makes subnet netuid with its owner's hotkey as uid 0. Where the
// subnet exists with the same owner nothing changes (its hyperparameters stay);
// another owner is an error.
func (l *Ledger) EnsureSubnet(ctx context.Context, netuid uint16, s Subnet) error {
	if netuid == 0 {
		return ledger.ErrRootRegistration
	}
	if err := checkAddresses(s.OwnerHotkey, s.OwnerColdkey); err != nil {
		return err
	}
	h := l.hyper
	if s.Hyper != nil {
		h = *s.Hyper
	}
	if err := checkHyper(&h); err != nil {
		return err
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callSubnet, Netuid: netuid, Hotkey: s.OwnerHotkey, Coldkey: s.OwnerColdkey, Hyper: &h, Permit: s.Pool > 0, Rao: s.Pool, Value: int64(min(s.Moving, tao))})
	return err
}

// SetHyperparameters replaces the rules of a subnet. Another tempo counts from this block.
func (l *Ledger) SetHyperparameters(ctx context.Context, netuid uint16, h ledger.Hyperparameters) error {
	if err := checkHyper(&h); err != nil {
		return err
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callHyper, Netuid: netuid, Hyper: &h})
	return err
}

// SetValidator gives or takes the validator permit of a registered hotkey at
// once and sets its stake, in rao. Without it an epoch gives permits by stake;
// the next one does so anyway.
func (l *Ledger) SetValidator(ctx context.Context, netuid uint16, hotkey string, permit bool, stake uint64) error {
	if err := checkRao("stake", stake); err != nil {
		return err
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callValidator, Netuid: netuid, Hotkey: hotkey, Permit: permit, Rao: stake})
	return err
}

// Fund makes rao and gives them to a coldkey.
func (l *Ledger) Fund(ctx context.Context, coldkey string, rao uint64) error {
	if err := checkAddress("coldkey", coldkey); err != nil {
		return err
	}
	if err := checkRao("amount", rao); err != nil {
		return err
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callFund, Coldkey: coldkey, Rao: rao})
	return err
}

// EndFaucet takes what coldkeys have that never moved money: from now on a
// coldkey has what it was given and what it earned. Presets for tests give each
// new coldkey a balance, which would make every price meaningless.
func (l *Ledger) EndFaucet(ctx context.Context) error {
	_, _, err := l.call(ctx, &extrinsic{Call: callEndFaucet})
	return err
}

// TriggerEpoch puts the next epoch of a subnet into the next block, where
// commit-reveal is off.
func (l *Ledger) TriggerEpoch(ctx context.Context, netuid uint16) error {
	_, _, err := l.call(ctx, &extrinsic{Call: callTriggerEpoch, Netuid: netuid})
	return err
}

// Register implements ledger.Writer. It costs the price of the block, from the
// coldkey's balance; where all uids are taken the weakest one is evicted.
func (l *Ledger) Register(ctx context.Context, netuid uint16, hotkey, coldkey string) (uint16, error) {
	return l.RegisterSigned(ctx, netuid, hotkey, coldkey, coldkey)
}

// RegisterSigned is Register by a signer: a registration that costs something
// must be the coldkey's (ErrBadOrigin).
func (l *Ledger) RegisterSigned(ctx context.Context, netuid uint16, hotkey, coldkey, signer string) (uint16, error) {
	if err := checkRegistration(netuid, hotkey, coldkey); err != nil {
		return 0, err
	}
	uid, _, err := l.call(ctx, &extrinsic{Call: callRegister, Netuid: netuid, Hotkey: hotkey, Coldkey: coldkey, Signer: signer})
	return uid, err
}

func checkRegistration(netuid uint16, hotkey, coldkey string) error {
	if netuid == 0 {
		return ledger.ErrRootRegistration
	}
	return checkAddresses(hotkey, coldkey)
}

// Commit implements ledger.Writer. It is free; the space per hotkey and epoch is bounded.
func (l *Ledger) Commit(ctx context.Context, netuid uint16, hotkey string, fields ...ledger.Field) (uint64, error) {
	if _, err := fieldSpace(fields); err != nil { // before it is encoded
		return 0, err
	}
	_, block, err := l.call(ctx, &extrinsic{Call: callCommit, Netuid: netuid, Hotkey: hotkey, Fields: fields})
	if err != nil {
		return 0, err
	}
	return block, nil
}

// SetWeights implements ledger.Writer.
func (l *Ledger) SetWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights) error {
	if err := checkWeightsSize(w, nil); err != nil {
		return err
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callSetWeights, Netuid: netuid, Hotkey: hotkey, Weights: &w})
	return err
}

// CommitWeights implements ledger.WeightCommitter.
func (l *Ledger) CommitWeights(ctx context.Context, netuid uint16, hotkey string, hash ledger.Hash) error {
	_, _, err := l.call(ctx, &extrinsic{Call: callCommitted, Netuid: netuid, Hotkey: hotkey, Hash: &hash})
	return err
}

// RevealWeights implements ledger.WeightCommitter.
func (l *Ledger) RevealWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights, salt []uint16) error {
	if err := checkWeightsSize(w, salt); err != nil {
		return err
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callReveal, Netuid: netuid, Hotkey: hotkey, Weights: &w, Salt: salt})
	return err
}

// AddStake implements ledger.Staker.
func (l *Ledger) AddStake(ctx context.Context, netuid uint16, hotkey, coldkey string, rao uint64) error {
	return l.stake(ctx, callAddStake, netuid, hotkey, coldkey, rao)
}

// RemoveStake implements ledger.Staker.
func (l *Ledger) RemoveStake(ctx context.Context, netuid uint16, hotkey, coldkey string, rao uint64) error {
	return l.stake(ctx, callRemoveStake, netuid, hotkey, coldkey, rao)
}

// BurnStake destroys rao of a hotkey's stake: nobody has them afterwards.
func (l *Ledger) BurnStake(ctx context.Context, netuid uint16, hotkey, coldkey string, rao uint64) error {
	return l.stake(ctx, callBurnStake, netuid, hotkey, coldkey, rao)
}

func (l *Ledger) stake(ctx context.Context, call string, netuid uint16, hotkey, coldkey string, rao uint64) error {
	if err := checkAddresses(hotkey, coldkey); err != nil {
		return err
	}
	if err := checkRao("amount", rao); err != nil {
		return err
	}
	_, _, err := l.call(ctx, &extrinsic{Call: call, Netuid: netuid, Hotkey: hotkey, Coldkey: coldkey, Rao: rao})
	return err
}

// Balance implements ledger.Staker.
func (l *Ledger) Balance(ctx context.Context, coldkey string) (rao uint64, err error) {
	if err := checkAddress("coldkey", coldkey); err != nil {
		return 0, err
	}
	err = l.view(ctx, func(s *state) error {
		rao = s.balance(coldkey)
		return nil
	})
	return rao, err
}

// Subnets implements ledger.Full.
func (l *Ledger) Subnets(ctx context.Context) (out []uint16, err error) {
	err = l.view(ctx, func(s *state) error {
		out = slices.Clone(s.order)
		return nil
	})
	return out, err
}

// Metagraph implements ledger.Reader.
func (l *Ledger) Metagraph(ctx context.Context, netuid uint16) (m *ledger.Metagraph, err error) {
	err = l.view(ctx, func(s *state) error {
		m, err = s.metagraph(netuid)
		return err
	})
	return m, err
}

// Commitments implements ledger.Reader.
func (l *Ledger) Commitments(ctx context.Context, netuid uint16) (out []ledger.Commitment, err error) {
	out = []ledger.Commitment{}
	err = l.view(ctx, func(s *state) error {
		sub, err := s.subnet(netuid)
		if err != nil {
			return err
		}
		for _, n := range sub.Neurons {
			c := sub.Commitments[n.Hotkey]
			if c == nil || c.Opened {
				continue
			}
			fields := make([]ledger.Field, len(c.Fields))
			for i, f := range c.Fields {
				fields[i] = ledger.Field{Type: f.Type, Data: slices.Clone(f.Data), Round: f.Round}
			}
			out = append(out, ledger.Commitment{Netuid: netuid, Hotkey: n.Hotkey, Block: c.Block, Fields: fields})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// checkWeightsSize bounds what is written to the log, before it is encoded.
// Shorter than this the chain's own checks decide.
func checkWeightsSize(w ledger.Weights, salt []uint16) error {
	for field, n := range map[string]int{"uids": len(w.UIDs), "values": len(w.Values), "salt": len(salt)} {
		if n > ledger.MaxUID+1 {
			return &agon.Error{Code: "too_large", Status: http.StatusUnprocessableEntity, Field: field, Limit: fmt.Sprintf("%d numbers", ledger.MaxUID+1), Message: field + " is too long"}
		}
	}
	return nil
}

func checkRao(field string, rao uint64) error {
	if rao > math.MaxInt64 {
		return &agon.Error{Code: "too_large", Status: http.StatusUnprocessableEntity, Field: field, Limit: fmt.Sprintf("%d rao", int64(math.MaxInt64)), Message: field + " is too large"}
	}
	return nil
}

func checkAddresses(hotkey, coldkey string) error {
	if err := checkAddress("hotkey", hotkey); err != nil {
		return err
	}
	return checkAddress("coldkey", coldkey)
}

func checkAddress(field, address string) error {
	if _, err := auth.ParseSS58(address); err != nil {
		return &agon.Error{Code: "bad_address", Status: http.StatusUnprocessableEntity, Field: field, Message: field + " is not an SS58 address with prefix 42", Err: err}
	}
	return nil
}
