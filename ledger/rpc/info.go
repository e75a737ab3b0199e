package rpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/big"
	"net/netip"
	"slices"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// Localnet is a Ledger that stands for a whole network: it has what the tools of
// the ecosystem use besides registrations and weights. A Ledger without it
// refuses these calls and knows nothing of what they change.
type Localnet interface {
	ServeAxon(ctx context.Context, netuid uint16, hotkey string, a ledger.Axon) error
	// Transfer moves rao; keep refuses what would end the sender's account.
	Transfer(ctx context.Context, from, to string, rao uint64, keep bool) error
	// BurnStake destroys rao of a hotkey's stake.
	BurnStake(ctx context.Context, netuid uint16, hotkey, coldkey string, rao uint64) error
	Holdings(ctx context.Context, coldkey string) (ledger.Holdings, error)
	// Owner is the coldkey of a hotkey; "" = none.
	Owner(ctx context.Context, hotkey string) (string, error)
	Bonds(ctx context.Context, netuid uint16) ([]ledger.WeightRow, error)
}

// Nonces is a Ledger that counts the extrinsics of accounts, so that a nonce is
// used once also over a restart.
type Nonces interface {
	Nonce(ctx context.Context, account string) (uint64, error)
	// UseNonce is false where another nonce is the account's next one. It is durable on return.
	UseNonce(ctx context.Context, account string, nonce uint64) (bool, error)
}

// A subnet's stake is counted 1:1 in TAO, as in the chain's mechanism 0 ("stable").
const price = 1_000_000_000

// fill makes a value of a struct: zero but for the values that it has a field for.
func fill(t *scale.Type, values map[string]any) scale.Map {
	m, _ := scale.Zero(t).(scale.Map)
	for name, v := range values {
		if _, ok := m[name]; ok {
			m[name] = v
		}
	}
	return m
}

// some is what an Option holds.
func some(t *scale.Type) *scale.Type { return t.Cases[1].Fields[0].Type }

// axonOf is AxonInfo; without an axon it is zero.
func axonOf(n *ledger.Neuron) scale.Map {
	a := n.Axon
	if a == nil {
		a = &ledger.Axon{IP: netip.IPv4Unspecified()}
	}
	kind := 0
	switch {
	case n.Axon == nil:
	case a.IP.Is4():
		kind = 4
	default:
		kind = 6
	}
	return scale.Map{
		"block": a.Block, "version": a.Version, "ip": new(big.Int).SetBytes(a.IP.AsSlice()), "port": a.Port, "ip_type": kind, "protocol": a.Protocol,
		"placeholder1": a.Placeholder1, "placeholder2": a.Placeholder2,
	}
}

// addressOf reads an address that is written as a number, as the chain does.
func addressOf(ip any, kind uint64) (a netip.Addr, err error) {
	n, ok := ip.(*big.Int)
	if !ok || n.Sign() < 0 {
		return a, ledger.ErrInvalidIP
	}
	switch {
	case kind == 4 && n.BitLen() <= 32:
		var b [4]byte
		return netip.AddrFrom4([4]byte(n.FillBytes(b[:]))), nil
	case kind == 6 && n.BitLen() <= 128:
		var b [16]byte
		return netip.AddrFrom16([16]byte(n.FillBytes(b[:]))), nil
	case kind == 4 || kind == 6:
		return a, ledger.ErrInvalidIP.With(fmt.Sprintf("address %s does not fit its type", n))
	}
	return a, ledger.ErrInvalidIPType.With(fmt.Sprintf("address of type %d: want 4 or 6", kind))
}

// pairsOf is a row as the chain has it.
func pairsOf(rows []ledger.WeightRow, uid uint16) []any {
	out := []any{}
	for _, row := range rows {
		if row.UID == uid {
			out = slices.Grow(out, len(row.UIDs))
			for i := range row.UIDs {
				out = append(out, []any{row.UIDs[i], row.Values[i]})
			}
		}
	}
	return out
}

// bonds are those of a mechanism of a subnet.
func (r *reading) bonds(netuid uint16, mechanism uint8) (rows []ledger.WeightRow, err error) {
	index := netuid + ledger.MechanismStep*uint16(mechanism)
	if rows, ok := r.bondRows[index]; ok {
		return rows, nil
	}
	if l, ok := r.ledger.(Mechanisms); ok {
		rows, err = l.MechanismBonds(r.ctx, netuid, mechanism)
	} else if l, ok := r.ledger.(Localnet); ok && mechanism == 0 {
		rows, err = l.Bonds(r.ctx, netuid)
	}
	if r.bondRows == nil {
		r.bondRows = map[uint16][]ledger.WeightRow{}
	}
	r.bondRows[index] = rows
	return rows, err
}

func (r *reading) holdings(coldkey any) (h ledger.Holdings, err error) {
	l, ok := r.ledger.(Localnet)
	address, isText := coldkey.(string)
	if !ok || !isText {
		return h, nil
	}
	if h, ok := r.held[address]; ok {
		return h, nil
	}
	h, err = l.Holdings(r.ctx, address)
	if err == nil {
		if r.held == nil {
			r.held = map[string]ledger.Holdings{}
		}
		r.held[address] = h
	}
	return h, err
}

// owner is the coldkey of a hotkey, "" = none.
func (r *reading) owner(hotkey string) (string, error) {
	if l, ok := r.ledger.(Localnet); ok {
		return l.Owner(r.ctx, hotkey)
	}
	all, err := r.all()
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if n, ok := m.Neuron(hotkey); ok {
			return n.Coldkey, nil
		}
	}
	return "", nil
}

// full fills NeuronInfo.
func (r *reading) full(m *ledger.Metagraph, n *ledger.Neuron, t *scale.Type) (any, error) {
	bonds, err := r.bonds(m.Netuid, 0)
	if err != nil {
		return nil, err
	}
	v, _ := lite(m, n, t).(scale.Map)
	v["weights"], v["bonds"] = pairsOf(m.Weights, n.UID), pairsOf(bonds, n.UID)
	return v, nil
}

// staked is what all hotkeys of a subnet have.
func staked(m *ledger.Metagraph) (sum uint64) {
	for i := range m.Neurons {
		sum += m.Neurons[i].Stake
	}
	return sum
}

// reserve is what is on each side of a subnet's pool: what is staked, which is what price
// means, and at least a TAO, since no pool of the chain is empty.
func reserve(m *ledger.Metagraph) uint64 { return max(staked(m), 1_000_000_000) }

// hyperparameters are those that the chain's runtime APIs name, with what holds here.
func hyperparameters(m *ledger.Metagraph) map[string]any {
	h := &m.Hyper
	yuma := 2
	if h.Yuma3 {
		yuma = 3
	}
	return map[string]any{
		"rho": 10, "kappa": h.Kappa, "immunity_period": min(h.ImmunityPeriod, 65535), "min_allowed_weights": h.MinAllowedWeights, "max_weights_limit": 65535, "max_weight_limit": 65535,
		"tempo": h.Tempo, "min_difficulty": 10_000_000, "max_difficulty": uint64(1)<<62 - 1, "difficulty": 10_000_000, "weights_version": h.WeightsVersionKey,
		"weights_rate_limit": h.WeightsRateLimit, "adjustment_interval": 100, "activity_cutoff": h.ActivityCutoff(), "activity_cutoff_factor": h.ActivityCutoffFactor,
		"registration_allowed": h.RegistrationOpen, "target_regs_per_interval": 2, "min_burn": h.MinBurn, "max_burn": h.MaxBurn, "bonds_moving_avg": h.BondsMovingAverage,
		"max_regs_per_block": 65535, "serving_rate_limit": 0, "max_validators": h.MaxValidators, "adjustment_alpha": 0, "commit_reveal_period": h.RevealEpochs(),
		"commit_reveal_weights_enabled": h.CommitReveal, "alpha_high": h.AlphaHigh, "alpha_low": h.AlphaLow, "liquid_alpha_enabled": h.LiquidAlpha,
		"alpha_sigmoid_steepness": scale.Map{"bits": int64(h.AlphaSteepness) << 32}, "yuma_version": yuma, "subnet_is_active": true, "transfers_enabled": true,
		"bonds_reset_enabled": false, "user_liquidity_enabled": false, "scaling_law_power": 50, "subnetwork_n": len(m.Neurons), "max_allowed_uids": h.MaxUIDs,
		"max_allowed_validators": h.MaxValidators, "blocks_since_last_step": m.Block - min(m.Block, m.Epoch.Since), "burn": m.Burn, "owner": m.OwnerColdkey, "netuid": m.Netuid,
		"emission_values": h.EmissionPerBlock, "emission_value": h.EmissionPerBlock,
	}
}

// entries are the hyperparameters as get_subnet_hyperparams_v3 lists them: names with tagged values.
func entries(m *ledger.Metagraph) []any {
	h := hyperparameters(m)
	h["burn_half_life"], h["bonds_penalty"], h["min_non_immune_uids"] = m.Hyper.BurnHalfLife, m.Hyper.BondsPenalty, m.Hyper.MinNonImmuneUIDs
	h["burn_increase_mult"] = scale.Map{"bits": new(big.Int).Div(new(big.Int).Lsh(new(big.Int).SetUint64(m.Hyper.BurnIncrease), 64), big.NewInt(1_000_000))}
	out := []any{}
	for _, group := range []struct {
		tag   string
		names []string
	}{
		{"U16", []string{
			"rho", "kappa", "immunity_period", "min_allowed_weights", "max_weights_limit", "tempo", "adjustment_interval", "target_regs_per_interval", "max_regs_per_block", "max_validators",
			"alpha_high", "alpha_low", "yuma_version", "max_allowed_uids", "burn_half_life", "bonds_penalty", "min_non_immune_uids",
		}},
		{"U64", []string{
			"min_difficulty", "max_difficulty", "weights_version", "weights_rate_limit", "activity_cutoff", "bonds_moving_avg", "serving_rate_limit", "adjustment_alpha", "difficulty", "commit_reveal_period",
		}},
		{"U32", []string{"activity_cutoff_factor"}},
		{"TaoBalance", []string{"min_burn", "max_burn"}},
		{"Bool", []string{
			"registration_allowed", "commit_reveal_weights_enabled", "liquid_alpha_enabled", "subnet_is_active", "transfers_enabled", "bonds_reset_enabled", "user_liquidity_enabled",
		}},
		{"I32F32", []string{"alpha_sigmoid_steepness"}},
		{"U64F64", []string{"burn_increase_mult"}},
	} {
		for _, name := range group.names {
			v := h[name]
			if name == "burn_half_life" {
				v = min(m.Hyper.BurnHalfLife, 65535)
			}
			out = append(out, scale.Map{"name": scale.Bytes(name), "value": scale.Value{Name: group.tag, Of: v}})
		}
	}
	return out
}

// letters is text as the chain has some of it: a list of compact bytes.
func letters(s string) []any {
	out := []any{}
	for _, b := range []byte(s) {
		out = append(out, b)
	}
	return out
}

// dynamic fills DynamicInfo.
func dynamic(m *ledger.Metagraph, t *scale.Type) any {
	all := reserve(m)
	v := fill(t, map[string]any{
		"netuid": m.Netuid, "owner_hotkey": m.OwnerHotkey, "owner_coldkey": m.OwnerColdkey, "subnet_name": letters(fmt.Sprintf("subnet %d", m.Netuid)), "token_symbol": letters("α"),
		"tempo": m.Hyper.Tempo, "last_step": m.Epoch.LastStep, "blocks_since_last_step": m.Block - min(m.Block, m.Epoch.Since), "emission": m.Hyper.EmissionPerBlock,
		"alpha_in": all, "alpha_out": staked(m), "tao_in": all, "alpha_out_emission": m.Hyper.EmissionPerBlock,
		"moving_price": scale.Map{"bits": int64(1) << 32},
	})
	if m.Pool != nil {
		v["emission"] = m.Pool.TaoIn + m.Pool.Excess
		for name, x := range traded(m) {
			v[name] = x
		}
	}
	return v
}

func stakeInfo(x ledger.Holding, coldkey any, t *scale.Type) any {
	return fill(t, map[string]any{"hotkey": x.Hotkey, "coldkey": coldkey, "netuid": x.Netuid, "stake": x.Stake, "emission": x.Emission, "is_registered": x.Registered})
}

// localnet answers the methods that ask for more than one subnet. ok is false for others.
func (r *reading) localnet(name string, x *scale.Method, args []any) (v any, ok bool, err error) {
	arg := func(i int) (n uint64) {
		if i < len(args) {
			n, _ = args[i].(uint64)
		}
		return n
	}
	switch name {
	case "SubnetInfoRuntimeApi_get_dynamic_info":
		if len(args) > 0 && arg(0) == 0 {
			return root(some(x.Output)), true, nil
		}
	case "AuraApi_slot_duration":
		return uint64(r.cfg.BlockTime.Milliseconds()), true, nil
	case "SwapRuntimeApi_current_alpha_price":
		if arg(0) == 0 {
			return price, true, nil
		}
		m, err := r.subnet(arg(0))
		if err != nil || m == nil {
			return 0, true, err
		}
		return priceOf(m), true, nil
	case "SwapRuntimeApi_sim_swap_tao_for_alpha", "SwapRuntimeApi_sim_swap_alpha_for_tao":
		m, err := r.subnet(arg(0))
		if err != nil {
			return nil, true, err
		}
		return fill(x.Output, simulated(m, arg(1), name == "SwapRuntimeApi_sim_swap_tao_for_alpha")), true, nil
	case "StakeInfoRuntimeApi_get_stake_fee":
		return 0, true, nil
	case "SubnetRegistrationRuntimeApi_get_network_registration_cost":
		_, item, err := r.meta.Storage("SubtensorModule", "NetworkMinLockCost")
		if err != nil {
			return nil, true, err
		}
		return binary.LittleEndian.Uint64(item.Default), true, nil
	case "StakeInfoRuntimeApi_get_stake_info_for_coldkey":
		list, err := r.stakes(args[0], x.Output.Elem)
		return list, true, err
	case "StakeInfoRuntimeApi_get_stake_info_for_coldkeys":
		out := []any{}
		keys, _ := args[0].([]any)
		for _, key := range keys {
			list, err := r.stakes(key, x.Output.Elem.Fields[1].Type.Elem)
			if err != nil {
				return nil, true, err
			}
			out = append(out, []any{key, list})
		}
		return out, true, nil
	case "StakeInfoRuntimeApi_get_stake_info_for_hotkey_coldkey_netuid":
		h, err := r.holdings(args[1])
		if err != nil {
			return nil, true, err
		}
		found := ledger.Holding{Netuid: uint16(arg(2))}
		found.Hotkey, _ = args[0].(string)
		for _, s := range h.Stakes {
			if s.Hotkey == found.Hotkey && s.Netuid == found.Netuid {
				found = s
			}
		}
		return stakeInfo(found, args[1], some(x.Output)), true, nil
	case "SubnetInfoRuntimeApi_get_coldkey_auto_stake_hotkey", "SubnetInfoRuntimeApi_get_subnet_to_prune", "StakeInfoRuntimeApi_get_coldkey_lock",
		"StakeInfoRuntimeApi_get_most_convicted_hotkey_on_subnet", "SubnetInfoRuntimeApi_get_subnet_account_id":
		return nil, true, nil
	case "StakeInfoRuntimeApi_get_hotkey_conviction":
		return scale.Zero(x.Output), true, nil
	case "DelegateInfoRuntimeApi_get_delegates":
		list, err := r.delegates(x.Output.Elem, "")
		return list, true, err
	case "DelegateInfoRuntimeApi_get_delegate":
		hotkey, _ := args[0].(string)
		list, err := r.delegates(some(x.Output), hotkey)
		if err != nil || len(list) == 0 {
			return nil, true, err
		}
		return list[0], true, nil
	case "DelegateInfoRuntimeApi_get_delegated":
		list, err := r.delegated(x.Output.Elem, args)
		return list, true, err
	}
	each, ok := map[string]func(m *ledger.Metagraph) any{
		"SwapRuntimeApi_current_alpha_price_all":     func(m *ledger.Metagraph) any { return scale.Map{"netuid": m.Netuid, "price": priceOf(m)} },
		"SubnetInfoRuntimeApi_get_all_dynamic_info":  func(m *ledger.Metagraph) any { return dynamic(m, some(x.Output.Elem)) },
		"SubnetInfoRuntimeApi_get_subnets_info":      func(m *ledger.Metagraph) any { return fill(some(x.Output.Elem), hyperparameters(m)) },
		"SubnetInfoRuntimeApi_get_subnets_info_v2":   func(m *ledger.Metagraph) any { return fill(some(x.Output.Elem), hyperparameters(m)) },
		"SubnetInfoRuntimeApi_get_all_metagraphs":    func(m *ledger.Metagraph) any { return r.metagraph(m, x.Output.Elem) },
		"SubnetInfoRuntimeApi_get_all_mechagraphs":   func(m *ledger.Metagraph) any { return r.metagraph(m, x.Output.Elem) },
		"SubnetInfoRuntimeApi_get_all_subnet_states": nil,
	}[name]
	if !ok || each == nil {
		return nil, false, nil
	}
	all, err := r.all()
	if err != nil {
		return nil, true, err
	}
	out := []any{}
	if name == "SubnetInfoRuntimeApi_get_all_dynamic_info" {
		out = append(out, root(some(x.Output.Elem)))
	}
	for _, m := range all {
		out = append(out, each(m))
	}
	return out, true, nil
}

// root is the root network's DynamicInfo: tools take it for granted, and here
// nobody stakes there.
func root(t *scale.Type) any {
	return fill(t, map[string]any{"netuid": 0, "subnet_name": letters("root"), "token_symbol": letters("Τ"), "alpha_in": 1_000_000_000, "tao_in": 1_000_000_000, "moving_price": scale.Map{"bits": int64(1) << 32}})
}

func (r *reading) stakes(coldkey any, t *scale.Type) ([]any, error) {
	h, err := r.holdings(coldkey)
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, s := range h.Stakes {
		out = append(out, stakeInfo(s, coldkey, t))
	}
	return out, nil
}

// delegates lists hotkeys, or one.
func (r *reading) delegates(t *scale.Type, only string) ([]any, error) {
	all, err := r.all()
	if err != nil {
		return nil, err
	}
	var order []string
	by := map[string]map[string]any{}
	for _, m := range all {
		for i := range m.Neurons {
			n := &m.Neurons[i]
			if only != "" && n.Hotkey != only {
				continue
			}
			d := by[n.Hotkey]
			if d == nil {
				order = append(order, n.Hotkey)
				take := uint16(11796)
				if l, ok := r.ledger.(Owned); ok {
					if take, err = l.Take(r.ctx, n.Hotkey); err != nil {
						return nil, err
					}
				}
				d = map[string]any{"delegate_ss58": n.Hotkey, "owner_ss58": n.Coldkey, "take": take, "registrations": []any{}, "validator_permits": []any{}, "stakes": []any{}}
				by[n.Hotkey] = d
			}
			d["registrations"] = append(d["registrations"].([]any), m.Netuid)
			if n.Permit {
				d["validator_permits"] = append(d["validator_permits"].([]any), m.Netuid)
			}
			if n.Stake > 0 {
				d["stakes"] = append(d["stakes"].([]any), []any{m.Netuid, n.Stake})
			}
		}
	}
	out := []any{}
	for _, hotkey := range order {
		d := by[hotkey]
		nominators, err := r.nominators(hotkey)
		if err != nil {
			return nil, err
		}
		if len(nominators) > 0 {
			d["nominators"] = nominators
		} else if len(d["stakes"].([]any)) > 0 {
			d["nominators"] = []any{[]any{d["owner_ss58"], d["stakes"]}}
		}
		out = append(out, fill(t, d))
	}
	return out, nil
}

// memberOf says whether a subnet has a hotkey.
func (r *reading) memberOf(netuid, hotkey any) (bool, error) {
	m, err := r.subnet(netuid)
	if m == nil || err != nil {
		return false, err
	}
	address, _ := hotkey.(string)
	_, ok := m.Neuron(address)
	return ok, nil
}

// world answers items that no subnet has.
func (r *reading) world(item string, keys []any) (v any, ok bool, err error) {
	switch item {
	case "SubtensorModule.TotalNetworks":
		all, err := r.all()
		return len(all), true, err
	case "SubtensorModule.TotalStake", "SubtensorModule.TotalIssuance", "Balances.TotalIssuance":
		all, err := r.all()
		if err != nil {
			return nil, true, err
		}
		w, err := r.economy()
		if w != nil && w.TaoWeight > 0 && item != "SubtensorModule.TotalStake" {
			return w.TotalIssued, true, err
		}
		sum := uint64(0)
		for _, m := range all {
			if m.Pool != nil {
				sum += m.Pool.Tao
			} else {
				sum += staked(m)
			}
		}
		if w != nil {
			sum += w.RootTao
		}
		return sum, true, err
	case "SubtensorModule.OwnedHotkeys", "SubtensorModule.StakingHotkeys":
		h, err := r.holdings(keys[0])
		if err != nil || len(h.Hotkeys) == 0 {
			return nil, true, err
		}
		out := []any{}
		for _, hotkey := range h.Hotkeys {
			if item == "SubtensorModule.OwnedHotkeys" || slices.ContainsFunc(h.Stakes, func(s ledger.Holding) bool { return s.Hotkey == hotkey && s.Stake > 0 }) {
				out = append(out, hotkey)
			}
		}
		return out, true, nil
	case "SubtensorModule.Delegates":
		l, ok := r.ledger.(Owned)
		if !ok {
			return nil, false, nil
		}
		hotkey, _ := keys[0].(string)
		take, err := l.Take(r.ctx, hotkey)
		return take, true, err
	case "SubtensorModule.IsNetworkMember":
		member, err := r.memberOf(keys[1], keys[0])
		if !member {
			return nil, true, err
		}
		return true, true, nil
	case "SubtensorModule.TotalHotkeyShares", "SubtensorModule.Alpha":
		if v, ok, err := r.sharesOf(item, keys); ok || err != nil {
			return v, true, err
		}
	}
	switch item {
	case "SubtensorModule.TotalHotkeyShares": // a share is a rao: all of a hotkey's stake is its coldkey's
		m, err := r.subnet(keys[1])
		if err != nil || m == nil {
			return nil, true, err
		}
		address, _ := keys[0].(string)
		if n, ok := m.Neuron(address); ok && n.Stake > 0 {
			return scale.Map{"bits": new(big.Int).Lsh(new(big.Int).SetUint64(n.Stake), 64)}, true, nil
		}
		return nil, true, nil
	case "SubtensorModule.Alpha":
		h, err := r.holdings(keys[1])
		for _, s := range h.Stakes {
			if s.Hotkey == keys[0] && uint64(s.Netuid) == keys[2] && s.Stake > 0 {
				return scale.Map{"bits": new(big.Int).Lsh(new(big.Int).SetUint64(s.Stake), 64)}, true, err
			}
		}
		return nil, true, err
	}
	return nil, false, nil
}
