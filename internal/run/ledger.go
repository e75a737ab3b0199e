package run

import (
	"context"
	"errors"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
)

// graphs is what a chain is read from.
type graphs interface {
	Metagraph(ctx context.Context, netuid uint16) (*ledger.Metagraph, error)
}

// chain is a ledger in the words of the platform and of /v1.
type chain struct{ l graphs }

// Metagraph answers client.Metagraph.
func (c chain) Metagraph(ctx context.Context, netuid uint16) (*client.Metagraph, error) {
	m, err := c.l.Metagraph(ctx, netuid)
	if err != nil {
		return nil, ledgerError(err)
	}
	out := &client.Metagraph{Netuid: m.Netuid, Block: m.Block, Neurons: make([]client.Neuron, 0, len(m.Neurons)), Weights: m.TopWeights()}
	for _, n := range m.Neurons {
		out.Neurons = append(out.Neurons, client.Neuron{
			UID: n.UID, Hotkey: n.Hotkey, Coldkey: n.Coldkey, Validator: n.Permit, Stake: n.Stake,
			Registered: n.RegisteredAt, LastUpdate: n.LastUpdate, Incentive: n.Incentive,
		})
	}
	return out, nil
}

// Registered implements platform.Ledger.
func (c chain) Registered(ctx context.Context, netuid uint16, hotkey string) (string, bool, error) {
	m, err := c.l.Metagraph(ctx, netuid)
	if err != nil {
		return "", false, ledgerError(err)
	}
	n, ok := m.Neuron(hotkey)
	return n.Coldkey, ok, nil
}

// IsValidator implements platform.Ledger.
func (c chain) IsValidator(ctx context.Context, netuid uint16, hotkey string) (bool, error) {
	m, err := c.l.Metagraph(ctx, netuid)
	if err != nil {
		return false, ledgerError(err)
	}
	n, ok := m.Neuron(hotkey)
	return ok && n.Permit, nil
}

// OwnerUID names who gets the weight of an empty seat: it is burned.
func (c chain) OwnerUID(ctx context.Context, netuid uint16) (uint16, bool, error) {
	m, err := c.l.Metagraph(ctx, netuid)
	if err != nil {
		return 0, false, ledgerError(err)
	}
	uid, ok := m.BurnUID()
	return uid, ok, nil
}

// ledgerError maps the ledger's named errors to coded ones.
func ledgerError(err error) error {
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

// apiLedger is the embedded ledger in the words of /v1.
type apiLedger struct {
	chain
	own *local.Ledger
}

// Register implements api.Ledger. A validator's permit and stake are for the
// operator to give; the API has checked that.
func (a apiLedger) Register(ctx context.Context, netuid uint16, r client.RegisterRequest) (uint16, error) {
	for field, s := range map[string]string{"hotkey": r.Hotkey, "coldkey": r.Coldkey} {
		if _, err := auth.ParseSS58(s); err != nil {
			return 0, &agon.Error{Code: "bad_address", Status: 422, Field: field, Message: field + ": " + err.Error()}
		}
	}
	uid, err := a.own.Register(ctx, netuid, r.Hotkey, r.Coldkey)
	if err != nil {
		return 0, ledgerError(err)
	}
	if r.Validator {
		if err := a.own.SetValidator(ctx, netuid, r.Hotkey, true, demoStake); err != nil {
			return 0, ledgerError(err)
		}
	}
	return uid, nil
}

// SetWeights implements api.Ledger.
func (a apiLedger) SetWeights(ctx context.Context, netuid uint16, hotkey string, r client.SetWeightsRequest) error {
	err := a.own.SetWeights(ctx, netuid, hotkey, ledger.Weights{UIDs: r.UIDs, Values: r.Values, VersionKey: r.VersionKey})
	if err != nil {
		return ledgerError(err)
	}
	return nil
}
