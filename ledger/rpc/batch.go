package rpc

import (
	"context"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// batchWeights sets weights on several subnets. One that is refused is an event, and the others are set.
func (s *Server) batchWeights(ctx context.Context, signer string, a scale.Map) (events []any, err error) {
	netuids, versions := words(a["netuids"]), numbers(a["version_keys"])
	rows, _ := a["weights"].([]any)
	if len(netuids) != len(rows) || len(netuids) != len(versions) {
		return nil, ledger.ErrInputLengths
	}
	failed := false
	for i, netuid := range netuids {
		w := ledger.Weights{VersionKey: versions[i]}
		pairs, _ := rows[i].([]any)
		for _, p := range pairs {
			if pair := numbers(p); len(pair) == 2 {
				w.UIDs, w.Values = append(w.UIDs, uint16(pair[0])), append(w.Values, uint16(pair[1]))
			}
		}
		failure, err := s.dispatchError(s.of(ctx).SetWeights(ctx, netuid, signer, w))
		if err != nil {
			return events, err
		}
		if failure != nil {
			failed = true
			events = append(events, ours("BatchWeightItemFailed", netuid, failure))
			continue
		}
		m, err := s.of(ctx).Metagraph(ctx, netuid)
		if err != nil {
			return events, err
		}
		given, _ := m.Neuron(signer)
		events = append(events, ours("WeightsSet", netuid, given.UID))
	}
	if failed {
		events = append(events, ours("BatchCompletedWithErrors"))
	}
	return append(events, ours("BatchWeightsCompleted", a["netuids"], signer)), nil
}

// numbers is a list of numbers.
func numbers(v any) []uint64 {
	list, _ := v.([]any)
	out := make([]uint64, len(list))
	for i, e := range list {
		out[i], _ = e.(uint64)
	}
	return out
}
