package rpc

import (
	"context"
	"slices"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// Mechanisms is a Ledger whose subnets may have several mechanisms.
type Mechanisms interface {
	SetMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights) error
	CommitMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, hash ledger.Hash) error
	RevealMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights, salt []uint16) error
	CommitTimelockedMechanism(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, data []byte, round uint64, version uint16) error
	MechanismBonds(ctx context.Context, netuid uint16, mechanism uint8) ([]ledger.WeightRow, error)
	SetMechanismSplit(ctx context.Context, netuid uint16, coldkey string, shares []uint16) error
}

// perMechanism are the items whose first key is a storage index.
var perMechanism = []string{"Weights", "Bonds", "LastUpdate", "Incentive", "WeightCommits", "TimelockedWeightCommits"}

// indexed is the subnet of a storage index as its mechanism has it; nil = there is none.
func (r *reading) indexed(key any) (*ledger.Metagraph, uint8, error) {
	n, _ := key.(uint64)
	if n < ledger.MechanismStep || n > 65535 {
		m, err := r.subnet(key)
		return m, 0, err
	}
	m, err := r.subnet(n % ledger.MechanismStep)
	if err != nil || m == nil {
		return nil, 0, err
	}
	id := uint8(n / ledger.MechanismStep)
	of, ok := m.Mechanism(id)
	if !ok {
		m, err = r.subnet(key) // a netuid that is as large
		return m, 0, err
	}
	return of, id, nil
}

// indexes are the storage indexes of a subnet's mechanisms, from its netuid.
func indexes(m *ledger.Metagraph) []uint64 {
	out := []uint64{uint64(m.Netuid)}
	for i := range m.Mechanisms {
		out = append(out, uint64(m.Netuid)+ledger.MechanismStep*uint64(i+1))
	}
	return out
}

// mechanismOf is the subnet as a mechanism has it; nil = it has no such one.
func mechanismOf(m *ledger.Metagraph, id any) *ledger.Metagraph {
	n, _ := id.(uint64)
	of, ok := m.Mechanism(uint8(min(n, 255)))
	if !ok {
		return nil
	}
	return of
}

// ofMechanism answers an item at a storage index.
func (r *reading) ofMechanism(name string, keys []any) (any, error) {
	m, id, err := r.indexed(keys[0])
	if err != nil || m == nil {
		return nil, err
	}
	if name != "Bonds" {
		return ofSubnet(m, name, keys)
	}
	rows, err := r.bonds(m.Netuid, id)
	if len(keys) < 2 || err != nil {
		return nil, err
	}
	uid, _ := keys[1].(uint64)
	if row := pairsOf(rows, uint16(min(uid, 65535))); len(row) > 0 {
		return row, nil
	}
	return nil, nil
}

// applyMechanism makes a change of weights on a mechanism after the first. known is false for other calls.
func (s *Server) applyMechanism(ctx context.Context, signer, call string, a scale.Map) (events []any, known bool, err error) {
	l, ok := s.of(ctx).(Mechanisms)
	n, _ := a["netuid"].(uint64)
	id, _ := a["mecid"].(uint64)
	if !ok || id > 15 {
		return nil, true, ledger.ErrMechanismNotExists
	}
	netuid, mechanism := uint16(n), uint8(id)
	index := netuid + ledger.MechanismStep*uint16(mechanism)
	version, _ := a["version_key"].(uint64)
	switch call {
	case "set_mechanism_weights":
		if err := l.SetMechanismWeights(ctx, netuid, mechanism, signer, ledger.Weights{UIDs: words(a["dests"]), Values: words(a["weights"]), VersionKey: version}); err != nil {
			return nil, true, err
		}
		m, err := s.of(ctx).Metagraph(ctx, netuid)
		if err != nil {
			return nil, true, err
		}
		given, _ := m.Neuron(signer)
		return []any{ours("WeightsSet", index, given.UID)}, true, nil
	case "commit_mechanism_weights":
		var h ledger.Hash
		b, _ := a["commit_hash"].(scale.Bytes)
		copy(h[:], b)
		return []any{ours("WeightsCommitted", signer, index, b)}, true, l.CommitMechanismWeights(ctx, netuid, mechanism, signer, h)
	case "reveal_mechanism_weights":
		w, salt := ledger.Weights{UIDs: words(a["uids"]), Values: words(a["values"]), VersionKey: version}, words(a["salt"])
		if err := l.RevealMechanismWeights(ctx, netuid, mechanism, signer, w, salt); err != nil {
			return nil, true, err
		}
		h, err := ledger.CommitHash(signer, index, w, salt)
		return []any{ours("WeightsRevealed", signer, index, [32]byte(h))}, true, err
	case "commit_timelocked_mechanism_weights":
		data, _ := a["commit"].(scale.Bytes)
		round, _ := a["reveal_round"].(uint64)
		v, _ := a["commit_reveal_version"].(uint64)
		return []any{ours("TimelockedWeightsCommitted", signer, index, scale.Hash(data), round)}, true, l.CommitTimelockedMechanism(ctx, netuid, mechanism, signer, data, round, uint16(min(v, 65535)))
	}
	return nil, false, nil
}

// applySplit divides a subnet's emission over its mechanisms, for its owner.
func (s *Server) applySplit(ctx context.Context, signer string, a scale.Map) error {
	l, ok := s.of(ctx).(Mechanisms)
	if !ok {
		return ledger.ErrBadOrigin.With("the embedded ledger has no such call")
	}
	n, _ := a["netuid"].(uint64)
	v := a["maybe_split"]
	if x, ok := v.(scale.Value); ok { // an Option
		v = x.Of
	}
	return l.SetMechanismSplit(ctx, uint16(n), signer, slices.Clip(words(v)))
}
