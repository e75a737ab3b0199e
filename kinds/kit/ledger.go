package kit

import (
	"context"
	"errors"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ledger"
)

// Graphs is what a chain is read from.
type Graphs interface {
	Metagraph(ctx context.Context, netuid uint16) (*ledger.Metagraph, error)
}

// Chain is a ledger in the words of the platform and of /v1.
type Chain struct{ Ledger Graphs }

// Metagraph answers client.Metagraph.
func (c Chain) Metagraph(ctx context.Context, netuid uint16) (*client.Metagraph, error) {
	m, err := c.Ledger.Metagraph(ctx, netuid)
	if err != nil {
		return nil, LedgerError(err)
	}
	out := &client.Metagraph{Netuid: m.Netuid, Block: m.Block, Price: m.Burn, Neurons: make([]client.Neuron, 0, len(m.Neurons)), Weights: m.TopWeights()}
	for _, n := range m.Neurons {
		out.Neurons = append(out.Neurons, client.Neuron{
			UID: n.UID, Hotkey: n.Hotkey, Coldkey: n.Coldkey, Validator: n.Permit, Stake: n.Stake,
			Registered: n.RegisteredAt, LastUpdate: n.LastUpdate, Incentive: n.Incentive,
		})
	}
	return out, nil
}

// Registered implements platform.Ledger.
func (c Chain) Registered(ctx context.Context, netuid uint16, hotkey string) (string, bool, error) {
	m, err := c.Ledger.Metagraph(ctx, netuid)
	if err != nil {
		return "", false, LedgerError(err)
	}
	n, ok := m.Neuron(hotkey)
	return n.Coldkey, ok, nil
}

// IsValidator implements platform.Ledger.
func (c Chain) IsValidator(ctx context.Context, netuid uint16, hotkey string) (bool, error) {
	m, err := c.Ledger.Metagraph(ctx, netuid)
	if err != nil {
		return false, LedgerError(err)
	}
	n, ok := m.Neuron(hotkey)
	return ok && n.Permit, nil
}

// OwnerUID names who gets the weight of an empty seat: it is burned.
func (c Chain) OwnerUID(ctx context.Context, netuid uint16) (uint16, bool, error) {
	m, err := c.Ledger.Metagraph(ctx, netuid)
	if err != nil {
		return 0, false, LedgerError(err)
	}
	uid, ok := m.BurnUID()
	return uid, ok, nil
}

// LedgerError maps the ledger's named errors to coded ones.
func LedgerError(err error) error {
	var le *ledger.Error
	if !errors.As(err, &le) {
		return err
	}
	status := 409
	if errors.Is(err, ledger.ErrSubnetNotExists) {
		status = 404
	}
	return &agon.Error{Code: le.Name, Status: status, Message: le.Message, Fault: agon.FaultNone, Err: err}
}
