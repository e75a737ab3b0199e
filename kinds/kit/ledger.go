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

// Hashed is a ledger whose blocks have hashes that nobody knows before.
type Hashed interface {
	Block(ctx context.Context) (uint64, error)
	// BlockHash returns the hash of a block; empty: it is not there yet.
	BlockHash(ctx context.Context, number uint64) (string, error)
}

// Chain is a ledger in the words of the platform and of /v1.
type Chain struct{ Ledger Graphs }

// Newest implements platform.Beacons.
func (c Chain) Newest(ctx context.Context, _ uint16) (uint64, error) {
	h, ok := c.Ledger.(Hashed)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	n, err := h.Block(ctx)
	if err != nil {
		err = LedgerError(err)
	}
	return n, err
}

// Ahead implements platform.Maker.
func (c Chain) Ahead(number uint64) (string, bool) {
	m, ok := c.Ledger.(interface{ Ahead(number uint64) string })
	if !ok {
		return "", false
	}
	return m.Ahead(number), true
}

// BlockHash implements platform.Beacons.
func (c Chain) BlockHash(ctx context.Context, number uint64) (string, error) {
	h, ok := c.Ledger.(Hashed)
	if !ok {
		return "", errors.ErrUnsupported
	}
	hash, err := h.BlockHash(ctx, number)
	if err != nil {
		err = LedgerError(err)
	}
	return hash, err
}

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
