package remote

import (
	"context"

	"github.com/agon-arena/agon/ledger"
)

// SetMechanismWeights is SetWeights for a mechanism of the subnet.
func (c *Client) SetMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights) error {
	_, err := c.submit(ctx, &Extrinsic{Call: CallSetWeights, Netuid: netuid, Mechanism: mechanism, Hotkey: hotkey, Weights: &w}, hotkey)
	return err
}

// CommitMechanismWeights is CommitWeights for a mechanism of the subnet; the
// hash is the ledger.CommitHash of its storage index.
func (c *Client) CommitMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, hash ledger.Hash) error {
	_, err := c.submit(ctx, &Extrinsic{Call: CallCommitWeights, Netuid: netuid, Mechanism: mechanism, Hotkey: hotkey, Hash: &hash}, hotkey)
	return err
}

// RevealMechanismWeights is RevealWeights for a mechanism of the subnet.
func (c *Client) RevealMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights, salt []uint16) error {
	_, err := c.submit(ctx, &Extrinsic{Call: CallRevealWeights, Netuid: netuid, Mechanism: mechanism, Hotkey: hotkey, Weights: &w, Salt: salt}, hotkey)
	return err
}
