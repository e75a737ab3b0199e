package cli

import (
	"context"
	"fmt"

	"github.com/agon-arena/agon/ledger/subtensor"
)

type stakeOptions struct {
	Netuid                 int
	Hotkey, Coldkey, Limit string
	Amount                 uint64 // rao, or alpha where it is taken back
	Remove, Plan           bool
}

// stakeCall stakes with a limit, or says what would be signed.
func (a *App) stakeCall(ctx context.Context, o stakeOptions) error {
	var limit uint64
	if o.Limit != "" {
		var err error
		if limit, err = parseTAO(o.Limit); err != nil {
			return err
		}
	}
	return a.withChainSubnet(ctx, o.Netuid, func(c *subtensor.Client, n uint16) error {
		effect := fmt.Sprintf("%s TAO of %s become alpha of %s on subnet %d", tao(o.Amount), o.Coldkey, o.Hotkey, n)
		if o.Remove {
			effect = fmt.Sprintf("%s alpha of %s on subnet %d become TAO of %s", tao(o.Amount), o.Hotkey, n, o.Coldkey)
		}
		if limit > 0 {
			effect += fmt.Sprintf(", at %s TAO an alpha at worst", tao(limit))
		}
		return a.signed(ctx, c, o.Plan, o.Coldkey, subtensor.StakeCall(n, o.Hotkey, o.Amount, limit, o.Remove), effect)
	})
}

// registerPlan says what a registration would sign.
func (a *App) registerPlan(ctx context.Context, o registerOptions) error {
	key, err := a.Key()
	if err != nil {
		return err
	}
	coldkey, err := a.coldkeyAddress(o.Coldkey)
	if err != nil {
		return err
	}
	return a.withChainSubnet(ctx, o.Netuid, func(c *subtensor.Client, n uint16) error {
		m, err := c.Metagraph(ctx, n)
		if err != nil {
			return err
		}
		effect := []string{fmt.Sprintf("%s gets a uid on subnet %d for %s TAO, the price of block %d", key.SS58(), n, tao(m.Burn), m.Block)}
		if x, ok := m.Neuron(key.SS58()); ok {
			effect = []string{fmt.Sprintf("none: %s has uid %d already", key.SS58(), x.UID)}
		} else if len(m.Neurons) >= int(m.Hyper.MaxUIDs) {
			effect = append(effect, fmt.Sprintf("all %d uids are taken: one is evicted", len(m.Neurons)))
		}
		return a.signed(ctx, c, true, coldkey, subtensor.RegisterCall(n, key.SS58(), 0), effect...)
	})
}
