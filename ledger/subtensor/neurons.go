package subtensor

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/netip"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

func (c *Client) neuronsByAPI(ctx context.Context, method *scale.Method, at point, g *ledger.Metagraph, v values) error {
	in, err := method.EncodeInputs(g.Netuid)
	if err != nil {
		return err
	}
	var text string
	if err := c.call(ctx, false, &text, "state_call", "SubnetInfoRuntimeApi_get_metagraph", hexed(in), at.hash); err != nil {
		return err
	}
	b, err := unhex(text)
	if err != nil {
		return err
	}
	x, err := scale.DecodeAll(method.Output, b)
	if err != nil {
		return fmt.Errorf("%w: metagraph: %w", ErrBadState, err)
	}
	all, ok := x.(scale.Map)
	if !ok {
		return noSubnet(g.Netuid)
	}
	w := values(all)
	hotkeys, _ := w["hotkeys"].([]any)
	coldkeys, _ := w["coldkeys"].([]any)
	if len(hotkeys) != len(coldkeys) || len(hotkeys) > ledger.MaxUID+1 {
		return fmt.Errorf("%w: %d hotkeys, %d coldkeys", ErrBadState, len(hotkeys), len(coldkeys))
	}
	axons, _ := w["axons"].([]any)
	g.Neurons = make([]ledger.Neuron, len(hotkeys))
	for i := range g.Neurons {
		hot, _ := hotkeys[i].(string)
		cold, _ := coldkeys[i].(string)
		g.Neurons[i] = ledger.Neuron{
			UID: uint16(i), Hotkey: hot, Coldkey: cold, Permit: w.is("validator_permit", i), Stake: w.at("total_stake", i), RegisteredAt: w.at("block_at_registration", i),
			LastUpdate: w.at("last_update", i), Incentive: uint16(w.at("incentives", i)), Active: w.is("active", i), Consensus: uint16(w.at("consensus", i)),
			Trust: uint16(w.at("trust", i)), ValidatorTrust: uint16(v.at("ValidatorTrust", i)), Dividends: uint16(w.at("dividends", i)), Emission: w.at("emission", i),
		}
		if i < len(axons) {
			g.Neurons[i].Axon = axonOf(axons[i])
		}
	}
	return nil
}

// axonOf reads AxonInfo; nil = the hotkey never said that it serves.
func axonOf(x any) *ledger.Axon {
	m, _ := x.(scale.Map)
	v := values(m)
	ip, ok := v["ip"].(*big.Int)
	if kind := v.num("ip_type"); !ok || ip.Sign() < 0 || kind != 4 && kind != 6 || kind == 4 && ip.BitLen() > 32 || ip.BitLen() > 128 {
		return nil
	}
	var b [16]byte
	a := &ledger.Axon{
		Block: v.num("block"), Version: uint32(v.num("version")), IP: netip.AddrFrom16([16]byte(ip.FillBytes(b[:]))), Port: uint16(v.num("port")), Protocol: uint8(v.num("protocol")),
		Placeholder1: uint8(v.num("placeholder1")), Placeholder2: uint8(v.num("placeholder2")),
	}
	if v.num("ip_type") == 4 {
		a.IP = netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// neuronsByStorage is for runtimes without the API. Stake is the hotkey's own on
// the subnet; before alpha, what the hotkey has on all.
func (c *Client) neuronsByStorage(ctx context.Context, m *scale.Metadata, at point, g *ledger.Metagraph, v values) error {
	keys, err := c.entries(ctx, m, at, module, "Keys", g.Netuid)
	if err != nil {
		return err
	}
	registered, err := c.entries(ctx, m, at, module, "BlockAtRegistration", g.Netuid)
	if err != nil {
		return err
	}
	g.Neurons = make([]ledger.Neuron, len(keys))
	var more [][]byte
	for _, e := range keys {
		uid, _ := e.keys[1].(uint64)
		if uid >= uint64(len(keys)) || g.Neurons[uid].Hotkey != "" {
			return fmt.Errorf("%w: uid %d of %d", ErrBadState, uid, len(keys))
		}
		i := int(uid)
		hot, _ := e.value.(string)
		g.Neurons[i] = ledger.Neuron{
			UID: uint16(uid), Hotkey: hot, Permit: v.is("ValidatorPermit", i), LastUpdate: v.at("LastUpdate", i), Incentive: uint16(v.at("Incentive", i)), Active: v.is("Active", i),
			Consensus: uint16(v.at("Consensus", i)), ValidatorTrust: uint16(v.at("ValidatorTrust", i)), Dividends: uint16(v.at("Dividends", i)), Emission: v.at("Emission", i),
		}
	}
	for _, e := range registered {
		if uid, _ := e.keys[1].(uint64); uid < uint64(len(keys)) {
			g.Neurons[uid].RegisteredAt, _ = e.value.(uint64)
		}
	}
	stakes := "TotalHotkeyAlpha"
	if _, _, err := m.Storage(module, stakes); errors.Is(err, scale.ErrUnknown) {
		stakes = "TotalHotkeyStake" // before alpha: one stake for all subnets
	}
	for _, n := range g.Neurons {
		owner, err := m.StorageKey(module, "Owner", n.Hotkey)
		if err != nil {
			return err
		}
		keys := []any{n.Hotkey}
		if stakes == "TotalHotkeyAlpha" {
			keys = append(keys, g.Netuid)
		}
		stake, err := m.StorageKey(module, stakes, keys...)
		if err != nil {
			return err
		}
		more = append(more, owner, stake)
	}
	raw, err := c.query(ctx, at, more)
	if err != nil {
		return err
	}
	for i := range g.Neurons {
		owner, err := m.DecodeStorage(module, "Owner", raw[2*i])
		if err != nil {
			return err
		}
		stake, err := m.DecodeStorage(module, stakes, raw[2*i+1])
		if err != nil {
			return err
		}
		g.Neurons[i].Coldkey, _ = owner.(string)
		g.Neurons[i].Stake, _ = stake.(uint64)
	}
	return nil
}
