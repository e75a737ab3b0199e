package rpc

import (
	"context"

	"github.com/agon-arena/agon/ledger/scale"
)

// timelocked answers what a ledger that takes timelocks has of them.
func (r *reading) timelocked(item string, keys []any) (any, error) {
	if last, ok := r.ledger.(interface {
		LastRound(ctx context.Context) (uint64, error)
	}); ok && item == "Drand.LastStoredRound" {
		return last.LastRound(r.ctx)
	}
	t, ok := r.ledger.(Timelocks)
	if !ok || len(keys) == 0 {
		return nil, nil
	}
	key, _ := keys[0].(uint64)
	if item == "Drand.Pulses" {
		sig, err := t.Pulse(r.ctx, key)
		if err != nil || sig == nil {
			return nil, err
		}
		return scale.Map{"round": key, "randomness": scale.Bytes(make([]byte, 32)), "signature": scale.Bytes(sig)}, nil
	}
	if key > 65535 || len(keys) != 2 {
		return nil, nil
	}
	all, err := t.Timelocked(r.ctx, uint16(key))
	if err != nil {
		return nil, err
	}
	var out []any
	for _, x := range all {
		if x.Epoch == keys[1] {
			out = append(out, []any{x.Hotkey, x.Block, scale.Bytes(x.Data), x.RevealRound})
		}
	}
	if out == nil {
		return nil, nil
	}
	return out, nil
}
