package subtensor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// Register implements ledger.Writer; the coldkey signs and pays.
func (c *Client) Register(ctx context.Context, netuid uint16, hotkey, coldkey string) (uint16, error) {
	for field, address := range map[string]string{"hotkey": hotkey, "coldkey": coldkey} {
		if _, err := auth.ParseSS58(address); err != nil {
			return 0, badAddress(field, err)
		}
	}
	if netuid == 0 {
		return 0, ledger.ErrRootRegistration
	}
	in, err := c.Submit(ctx, coldkey, module, "burned_register", scale.Map{"netuid": netuid, "hotkey": hotkey})
	if err != nil {
		return 0, err
	}
	rt, err := c.runtime(ctx, in.BlockHash)
	if err != nil {
		return 0, err
	}
	v, err := c.get(ctx, rt.meta, point{in.Block, in.BlockHash}, module, "Uids", netuid, hotkey)
	if err != nil {
		return 0, err
	}
	uid, ok := v.(uint64)
	if !ok {
		return 0, fmt.Errorf("%w: registered in block %d and without uid", ErrBadState, in.Block)
	}
	return uint16(uid), nil
}

// Commit implements ledger.Writer.
func (c *Client) Commit(ctx context.Context, netuid uint16, hotkey string, fields ...ledger.Field) (uint64, error) {
	rt, err := c.runtime(ctx, "")
	if err != nil {
		return 0, err
	}
	m := rt.meta
	if most, err := m.Constant(commitments, "MaxFields"); err == nil && uint64(len(fields)) > (values{"": most}).num("") {
		return 0, ledger.ErrTooManyFields.With(fmt.Sprintf("%d fields: at most %d", len(fields), most))
	}
	list := make([]any, len(fields))
	for i, f := range fields {
		least, most, name := 0, 128, "Raw"
		switch f.Type {
		case ledger.FieldRaw:
		case ledger.FieldBigRaw:
			most, name = 512, "BigRaw"
		case ledger.FieldSha256:
			least, most, name = 32, 32, "Sha256"
		case ledger.FieldTimelock:
			most, name = 1024, "TimelockEncrypted"
		default:
			return 0, ledger.ErrCommitmentFieldInvalid.With(fmt.Sprintf("field %d: unknown form %q", i, f.Type))
		}
		if len(f.Data) < least || len(f.Data) > most {
			return 0, ledger.ErrCommitmentFieldInvalid.With(fmt.Sprintf("field %d of %d bytes: a %s field has %d to %d", i, len(f.Data), f.Type, least, most))
		}
		list[i] = scale.Value{Name: name, Of: scale.Bytes(f.Data)}
		if f.Type == ledger.FieldTimelock {
			list[i] = scale.Value{Name: name, Of: scale.Map{"encrypted": scale.Bytes(f.Data), "reveal_round": f.Round}}
		}
	}
	in, err := c.Submit(ctx, hotkey, commitments, "set_commitment", scale.Map{"netuid": netuid, "info": scale.Map{"fields": list}})
	if err != nil {
		return 0, err
	}
	return in.Block, nil
}

// SetWeights implements ledger.Writer.
func (c *Client) SetWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights) error {
	_, err := c.Submit(ctx, hotkey, module, "set_weights", scale.Map{"netuid": netuid, "dests": w.UIDs, "weights": w.Values, "version_key": w.VersionKey})
	return err
}

// CommitWeights implements ledger.WeightCommitter. Runtimes that bound reveals by
// blocks instead of epochs are refused: their weights could not be revealed here.
func (c *Client) CommitWeights(ctx context.Context, netuid uint16, hotkey string, hash ledger.Hash) error {
	rt, err := c.runtime(ctx, "")
	if err != nil {
		return err
	}
	if !byEpochs(rt.meta) {
		return &ledger.Error{Name: "CommitRevealByBlocks", Message: fmt.Sprintf("runtime %d bounds reveals by blocks, and agon reveals by epochs: set weights where the subnet does not commit them", rt.spec)}
	}
	_, err = c.Submit(ctx, hotkey, module, "commit_weights", scale.Map{"netuid": netuid, "commit_hash": hash[:]})
	return err
}

// byEpochs reports whether a runtime reveals weights by epochs.
func byEpochs(m *scale.Metadata) bool {
	_, _, err := m.Storage(module, "RevealPeriodEpochs")
	return !errors.Is(err, scale.ErrUnknown)
}

// RevealWeights implements ledger.WeightCommitter.
func (c *Client) RevealWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights, salt []uint16) error {
	_, err := c.Submit(ctx, hotkey, module, "reveal_weights", scale.Map{"netuid": netuid, "uids": w.UIDs, "values": w.Values, "salt": salt, "version_key": w.VersionKey})
	return err
}

// AddStake implements ledger.Staker; the coldkey signs.
func (c *Client) AddStake(ctx context.Context, netuid uint16, hotkey, coldkey string, rao uint64) error {
	return c.moveStake(ctx, coldkey, "add_stake", scale.Map{"hotkey": hotkey, "netuid": netuid, "amount_staked": rao})
}

// RemoveStake implements ledger.Staker; the coldkey signs.
func (c *Client) RemoveStake(ctx context.Context, netuid uint16, hotkey, coldkey string, rao uint64) error {
	return c.moveStake(ctx, coldkey, "remove_stake", scale.Map{"hotkey": hotkey, "netuid": netuid, "amount_unstaked": rao})
}

// moveStake leaves the subnet out where the runtime's call has none: before
// alpha a hotkey had one stake for all subnets.
func (c *Client) moveStake(ctx context.Context, coldkey, call string, args scale.Map) error {
	rt, err := c.runtime(ctx, "")
	if err != nil {
		return err
	}
	if _, of, err := rt.meta.Call(module, call); err == nil && !slices.ContainsFunc(of.Fields, func(f scale.Field) bool { return f.Name == "netuid" }) {
		delete(args, "netuid")
	}
	_, err = c.Submit(ctx, coldkey, module, call, args)
	return err
}

// ServeAxon tells where a hotkey serves. ip is the address as a number, ipType 4 or 6.
func (c *Client) ServeAxon(ctx context.Context, netuid uint16, hotkey string, version uint32, ip any, port uint16, ipType uint8) error {
	_, err := c.Submit(ctx, hotkey, module, "serve_axon", scale.Map{
		"netuid": netuid, "version": version, "ip": ip, "port": port, "ip_type": ipType, "protocol": 4, "placeholder1": 0, "placeholder2": 0,
	})
	return err
}

// Transfer sends rao to another account and keeps the sender's alive.
func (c *Client) Transfer(ctx context.Context, from, to string, rao uint64) (*Included, error) {
	return c.Submit(ctx, from, "Balances", "transfer_keep_alive", scale.Map{"dest": to, "value": rao})
}

// A storage index has 16 bits: netuid, and the mechanism above it.
const (
	mechanismStep = 4096
	maxMechanism  = 15
)

// SetMechanismWeights replaces the weights that a hotkey gives for a mechanism.
func (c *Client) SetMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights) error {
	_, err := c.Submit(ctx, hotkey, module, "set_mechanism_weights", scale.Map{"netuid": netuid, "mecid": mechanism, "dests": w.UIDs, "weights": w.Values, "version_key": w.VersionKey})
	return err
}

// CommitMechanismWeights promises weights for a mechanism: hash is the
// ledger.CommitHash with the StorageIndex as netuid.
func (c *Client) CommitMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, hash ledger.Hash) error {
	_, err := c.Submit(ctx, hotkey, module, "commit_mechanism_weights", scale.Map{"netuid": netuid, "mecid": mechanism, "commit_hash": hash[:]})
	return err
}

// RevealMechanismWeights sets weights of a mechanism that were promised.
func (c *Client) RevealMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights, salt []uint16) error {
	_, err := c.Submit(ctx, hotkey, module, "reveal_mechanism_weights", scale.Map{
		"netuid": netuid, "mecid": mechanism, "uids": w.UIDs, "values": w.Values, "salt": salt, "version_key": w.VersionKey,
	})
	return err
}

// NetWeights is weights with their subnet.
type NetWeights struct {
	Netuid uint16
	ledger.Weights
}

// BatchSetWeights sets the weights of several subnets in one extrinsic. One
// that is refused is an error, which names no subnet; the others stand.
func (c *Client) BatchSetWeights(ctx context.Context, hotkey string, all []NetWeights) error {
	netuids, keys, weights := make([]any, len(all)), make([]any, len(all)), make([]any, len(all))
	for i, n := range all {
		if len(n.UIDs) != len(n.Values) {
			return ledger.ErrUnequalLengths
		}
		pairs := make([]any, len(n.UIDs))
		for j := range n.UIDs {
			pairs[j] = []any{n.UIDs[j], n.Values[j]}
		}
		netuids[i], keys[i], weights[i] = n.Netuid, n.VersionKey, pairs
	}
	_, err := c.Submit(ctx, hotkey, module, "batch_set_weights", scale.Map{"netuids": netuids, "weights": weights, "version_keys": keys})
	return err
}

// Reveal is promised weights with their salt.
type Reveal struct {
	ledger.Weights
	Salt []uint16
}

// BatchRevealWeights reveals several promises of mechanism 0 in one extrinsic.
func (c *Client) BatchRevealWeights(ctx context.Context, netuid uint16, hotkey string, all []Reveal) error {
	var uids, values, salts, keys []any
	for _, r := range all {
		uids, values, salts, keys = append(uids, r.UIDs), append(values, r.Values), append(salts, r.Salt), append(keys, r.VersionKey)
	}
	_, err := c.Submit(ctx, hotkey, module, "batch_reveal_weights", scale.Map{"netuid": netuid, "uids_list": uids, "values_list": values, "salts_list": salts, "version_keys": keys})
	return err
}

// RegisterLimit is Register at a price of at most limit rao, where the runtime has that.
func (c *Client) RegisterLimit(ctx context.Context, netuid uint16, hotkey, coldkey string, limit uint64) error {
	_, err := c.Submit(ctx, coldkey, module, "register_limit", scale.Map{"netuid": netuid, "hotkey": hotkey, "limit_price": limit})
	return err
}

// AddStakeLimit stakes at a price of at most limit rao for an alpha; partial
// stakes what is had for it. The coldkey signs.
func (c *Client) AddStakeLimit(ctx context.Context, netuid uint16, hotkey, coldkey string, rao, limit uint64, partial bool) error {
	_, err := c.Submit(ctx, coldkey, module, "add_stake_limit", scale.Map{"hotkey": hotkey, "netuid": netuid, "amount_staked": rao, "limit_price": limit, "allow_partial": partial})
	return err
}

// RemoveStakeLimit takes stake back at a price of at least limit rao for an alpha.
func (c *Client) RemoveStakeLimit(ctx context.Context, netuid uint16, hotkey, coldkey string, rao, limit uint64, partial bool) error {
	_, err := c.Submit(ctx, coldkey, module, "remove_stake_limit", scale.Map{"hotkey": hotkey, "netuid": netuid, "amount_unstaked": rao, "limit_price": limit, "allow_partial": partial})
	return err
}

// ServeAxonTLS is ServeAxon with a certificate.
func (c *Client) ServeAxonTLS(ctx context.Context, netuid uint16, hotkey string, version uint32, ip any, port uint16, ipType uint8, certificate []byte) error {
	_, err := c.Submit(ctx, hotkey, module, "serve_axon_tls", scale.Map{
		"netuid": netuid, "version": version, "ip": ip, "port": port, "ip_type": ipType, "protocol": 4, "placeholder1": 0, "placeholder2": 0, "certificate": scale.Bytes(certificate),
	})
	return err
}
