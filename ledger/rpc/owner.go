package rpc

import (
	"context"
	"math/big"
	"slices"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// Owned is a Ledger on which subnets have owners who change their rules, and
// hotkeys have takes.
type Owned interface {
	// SetRule changes a rule by its name in ledger.Hyperparameters; on is 1, off 0.
	SetRule(ctx context.Context, netuid uint16, coldkey, name string, value int64) error
	OwnerTrigger(ctx context.Context, netuid uint16, coldkey string) error
	SetTake(ctx context.Context, hotkey, coldkey string, take uint16, up bool) error
	Take(ctx context.Context, hotkey string) (uint16, error)
}

// applyOwner makes a change that an owner signs. known is false for other calls.
func (s *Server) applyOwner(ctx context.Context, signer, pallet, call string, a scale.Map) (events []any, known bool, err error) {
	l, ok := s.of(ctx).(Owned)
	if !ok {
		return nil, false, nil
	}
	n, _ := a["netuid"].(uint64)
	netuid := uint16(n)
	hotkey, _ := a["hotkey"].(string)
	switch call {
	case "increase_take", "decrease_take":
		take, _ := a["take"].(uint64)
		up, event := call == "increase_take", "TakeDecreased"
		if up {
			event = "TakeIncreased"
		}
		return []any{ours(event, signer, hotkey, take)}, true, l.SetTake(ctx, hotkey, signer, uint16(take), up)
	case "trigger_epoch":
		return nil, true, l.OwnerTrigger(ctx, netuid, signer)
	case "sudo_set_mechanism_emission_split":
		return nil, true, s.applySplit(ctx, signer, a)
	case "sudo_set_alpha_values":
		low, _ := a["alpha_low"].(uint64)
		high, _ := a["alpha_high"].(uint64)
		if low > high {
			return nil, true, ledger.ErrInvalidValue
		}
		return nil, true, s.together(ctx, func(ctx context.Context) error {
			l, _ := s.of(ctx).(Owned)
			if err := l.SetRule(ctx, netuid, signer, "alpha_low", int64(low)); err != nil {
				return err
			}
			return l.SetRule(ctx, netuid, signer, "alpha_high", int64(high))
		})
	}
	name, rule, ok := ledger.RuleOf(pallet, call)
	if !ok {
		return nil, false, nil
	}
	var value int64
	switch v := a[rule.Arg].(type) {
	case uint64:
		value = int64(min(v, 1<<62))
	case int64:
		value = v
	case bool:
		if v {
			value = 1
		}
	case scale.Map: // of 64 fraction bits
		bits, _ := v["bits"].(*big.Int)
		if n, ok := v["bits"].(uint64); ok {
			bits = new(big.Int).SetUint64(n)
		}
		if bits != nil {
			value = int64(min(new(big.Int).Rsh(bits, 32).Uint64(), 1<<62))
		}
	case scale.Value:
		value = int64(slices.Index(rule.Cases, v.Name))
	}
	return nil, true, l.SetRule(ctx, netuid, signer, name, value)
}
