package subtensor

import (
	"context"
	"errors"
	"fmt"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// MechanismMetagraph reads a subnet as one of its mechanisms has it (ledger.Metagraph.Mechanism):
// weights, last updates, incentive and promises are the mechanism's, all at one block.
func (c *Client) MechanismMetagraph(ctx context.Context, netuid uint16, mechanism uint8) (*ledger.Metagraph, error) {
	at, m, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	g, err := c.metagraphAt(ctx, m, at, netuid)
	if err != nil || mechanism == 0 {
		return g, err
	}
	v, err := c.get(ctx, m, at, module, "MechanismCountCurrent", netuid)
	if err != nil && !errors.Is(err, scale.ErrUnknown) {
		return nil, err
	}
	if count, _ := v.(uint64); uint64(mechanism) >= count || mechanism > maxMechanism || netuid >= mechanismStep {
		return nil, ledger.ErrMechanismNotExists.With(fmt.Sprintf("mechanism %d: the subnet has %d, from 0", mechanism, max(count, 1)))
	}
	// What a mechanism has of its own is kept under its storage index.
	g.Netuid, g.Weights = netuid+mechanismStep*uint16(mechanism), []ledger.WeightRow{}
	vectors := values{}
	for _, item := range []string{"LastUpdate", "Incentive"} {
		if vectors[item], err = c.get(ctx, m, at, module, item, g.Netuid); err != nil {
			return nil, err
		}
	}
	for i := range g.Neurons {
		n := &g.Neurons[i]
		n.LastUpdate, n.Incentive, n.Commits = vectors.at("LastUpdate", i), uint16(vectors.at("Incentive", i)), nil
	}
	if err := c.weights(ctx, m, at, g); err != nil {
		return nil, err
	}
	g.Netuid = netuid
	return g, nil
}
