package rpc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/timelock"
)

// timelocked answers what a ledger that takes timelocks has of them.
func (r *reading) timelocked(item string, keys []any) (any, error) {
	if last, ok := r.ledger.(interface {
		LastRound(ctx context.Context) (uint64, error)
	}); ok && item == "Drand.LastStoredRound" {
		return last.LastRound(r.ctx)
	}
	if d, ok := r.ledger.(interface{ Drand() timelock.Key }); ok && item == "Drand.BeaconConfig" {
		return r.beacon(d.Drand())
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
	m, id, err := r.indexed(key)
	if err != nil || m == nil {
		return nil, err
	}
	all, err := t.Timelocked(r.ctx, m.Netuid)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, x := range all {
		if x.Epoch == keys[1] && x.Mechanism == id {
			out = append(out, []any{x.Hotkey, x.Block, scale.Bytes(x.Data), x.RevealRound})
		}
	}
	if out == nil {
		return nil, nil
	}
	return out, nil
}

// beacon tells the key of the network that signs rounds; nil = the metadata's, quicknet's.
func (r *reading) beacon(key timelock.Key) (any, error) {
	if key == (timelock.Key{}) {
		return nil, nil
	}
	_, item, err := r.meta.Storage("Drand", "BeaconConfig")
	if err != nil {
		return nil, err
	}
	v, err := r.meta.DecodeStorage("Drand", "BeaconConfig", item.Default)
	if err != nil {
		return nil, err
	}
	pub, err := hex.DecodeString(key.String())
	if err != nil {
		return nil, err
	}
	name := sha256.Sum256(pub)
	config, _ := v.(scale.Map)
	for field, b := range map[string][]byte{"public_key": pub, "hash": name[:], "group_hash": name[:]} {
		config[field] = scale.Bytes(b)
	}
	return config, nil
}

// revealed answers what a hotkey's timelocked commitments held.
func (r *reading) revealed(keys []any) (any, error) {
	l, ok := r.ledger.(Revealer)
	if !ok {
		return nil, nil
	}
	hotkey, _ := keys[1].(string)
	netuid, _ := keys[0].(uint64)
	m, err := r.subnet(netuid)
	if err != nil || m == nil {
		return nil, err
	}
	all, err := l.Revealed(r.ctx, m.Netuid, hotkey)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	out := make([]any, len(all))
	for i, x := range all {
		out[i] = []any{scale.Bytes(x.Data), x.Block}
	}
	return out, nil
}

// unopened are the fields of a hotkey's last commitment that are not opened; nil =
// none is left. The history of commitments has all as they were made.
func (r *reading) unopened(netuid uint16, last *ledger.Commitment) ([]ledger.Field, error) {
	if !slices.ContainsFunc(last.Fields, func(f ledger.Field) bool { return f.Type == ledger.FieldTimelock }) {
		return append([]ledger.Field{}, last.Fields...), nil
	}
	live, err := r.ledger.Commitments(r.ctx, netuid)
	if err != nil {
		return nil, err
	}
	for _, c := range live {
		if c.Hotkey == last.Hotkey && c.Block >= last.Block {
			if c.Block > last.Block { // a later one, on a ledger that keeps no states
				return last.Fields, nil
			}
			return c.Fields, nil
		}
	}
	return nil, nil
}
