package rpc

import (
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/pool"
	"github.com/agon-arena/agon/ledger/scale"
)

// economy is what the ledger has besides its subnets; empty where it has none of that.
func (r *reading) economy() (*ledger.World, error) {
	if r.whole != nil {
		return r.whole, nil
	}
	r.whole = &ledger.World{}
	if l, ok := r.ledger.(Economy); ok {
		w, err := l.World(r.ctx)
		if err != nil {
			return nil, err
		}
		r.whole = w
	}
	return r.whole, nil
}

// fixed is a number with so many fraction bits as one of FixedI128 or FixedU128 with shift more.
func fixed(parts uint64, shift uint) scale.Map {
	x := new(big.Int).SetUint64(parts)
	return scale.Map{"bits": x.Lsh(x, shift)}
}

// ofPool answers the items of a subnet's pool; ok is false for others.
func ofPool(m *ledger.Metagraph, item string) (v any, ok bool) {
	p := m.Pool
	switch item {
	case "SubnetMechanism":
		return 1, true
	case "SubnetTAO":
		return p.Tao, true
	case "SubnetAlphaIn":
		return p.Alpha, true
	case "SubnetAlphaOut":
		return p.Out, true
	case "SubnetVolume":
		return p.Volume, true
	case "SubnetMovingPrice":
		return fixed(p.Moving, 0), true
	case "SubnetProtocolAlpha":
		return p.Bought, true
	case "SubnetTaoInEmission":
		return p.TaoIn, true
	case "SubnetAlphaInEmission":
		return p.AlphaIn, true
	case "SubnetAlphaOutEmission":
		return p.AlphaOut, true
	case "SubnetExcessTao":
		return p.Excess, true
	case "PendingServerEmission":
		return p.PendingMiners, true
	case "PendingValidatorEmission":
		return p.PendingValidators, true
	case "PendingRootAlphaDivs":
		return p.PendingRoot, true
	case "PendingOwnerCut":
		return p.PendingOwner, true
	case "MinerBurned":
		return fixed(p.Withheld, 0), true
	case "RootProp":
		return fixed(p.RootPart, 0), true
	case "NetworkRegisteredAt":
		return p.RegisteredAt, true
	case "FirstEmissionBlockNumber":
		return p.RegisteredAt + 1, true
	case "RecycleOrBurn":
		if p.Recycles {
			return scale.Value{Name: "Recycle"}, true
		}
		return scale.Value{Name: "Burn"}, true
	}
	return nil, false
}

// priceOf is what a subnet's alpha costs, in rao.
func priceOf(m *ledger.Metagraph) uint64 {
	if m.Pool == nil {
		return price
	}
	return m.Pool.Price
}

// simulated is what a swap on a subnet would move, as the chain tells it.
func simulated(m *ledger.Metagraph, amount uint64, buy bool) map[string]any {
	if m == nil || m.Pool == nil {
		return map[string]any{"tao_amount": amount, "alpha_amount": amount}
	}
	r := pool.Reserves{Tao: m.Pool.Tao, Alpha: m.Pool.Alpha, Quote: m.Pool.Quote}
	now := r.Price()
	if buy {
		x, err := r.Buy(amount, pool.F64(math.MaxUint64), false)
		if err != nil {
			return nil
		}
		in := x.Tao - x.Fee
		even, _ := pool.F64(in).Div(now, 64)
		return map[string]any{"tao_amount": in, "alpha_amount": x.Alpha, "tao_fee": x.Fee, "alpha_slippage": even.Whole64() - min(even.Whole64(), x.Alpha)}
	}
	x, err := r.Sell(amount, pool.Wide{}, false)
	if err != nil {
		return nil
	}
	in := x.Alpha - x.Fee
	even := pool.F64(in).Mul(now, 64).Whole64()
	return map[string]any{"alpha_amount": in, "tao_amount": x.Tao, "alpha_fee": x.Fee, "tao_slippage": even - min(even, x.Tao)}
}

// ofWorld answers items that hang on hotkeys and coldkeys. ok is false for others.
func (r *reading) ofWorld(item string, keys []any) (v any, ok bool, err error) {
	if !slices.Contains(worldItems, item) {
		return nil, false, nil
	}
	w, err := r.economy()
	if err != nil || w.TaoWeight == 0 {
		return nil, false, err
	}
	at := func(i int) uint64 { n, _ := keys[i].(uint64); return n }
	is := func(i int, a string) bool { return keys[i] == a }
	switch item {
	case "TaoWeight":
		return w.TaoWeight, true, nil
	case "ChildKeys", "ParentKeys":
		list := []any{}
		for _, f := range w.Families {
			for _, c := range f.Children {
				if uint64(f.Netuid) == at(1) && item == "ChildKeys" && is(0, f.Parent) {
					list = append(list, []any{c.Proportion, c.Hotkey})
				} else if uint64(f.Netuid) == at(1) && item == "ParentKeys" && is(0, c.Hotkey) {
					list = append(list, []any{c.Proportion, f.Parent})
				}
			}
		}
		return orNone(list), true, nil
	case "PendingChildKeys":
		for _, f := range w.Pending {
			if uint64(f.Netuid) == at(0) && is(1, f.Parent) {
				list := []any{}
				for _, c := range f.Children {
					list = append(list, []any{c.Proportion, c.Hotkey})
				}
				return []any{list, f.From}, true, nil
			}
		}
	case "ChildkeyTake":
		for _, t := range w.ChildTakes {
			if uint64(t.Netuid) == at(1) && is(0, t.Hotkey) {
				return t.Take, true, nil
			}
		}
	case "AlphaDividendsPerSubnet", "RootAlphaDividendsPerSubnet":
		for _, d := range w.Dividends {
			if uint64(d.Netuid) == at(0) && is(1, d.Hotkey) {
				if item == "AlphaDividendsPerSubnet" {
					return d.Alpha, true, nil
				}
				return d.RootPart, true, nil
			}
		}
	case "RootClaimable":
		list := []any{}
		for _, c := range w.Claims {
			if is(0, c.Hotkey) {
				list = append(list, []any{c.Netuid, fixed(c.Rate, 0)})
			}
		}
		return orNone(list), true, nil
	case "RootClaimed":
		for _, c := range w.Claimed {
			if uint64(c.Netuid) == at(0) && is(1, c.Hotkey) && is(2, c.Coldkey) {
				return c.Alpha, true, nil
			}
		}
	case "RootClaimType":
		coldkey, _ := keys[0].(string)
		kind, ok := w.RootClaims[coldkey]
		switch {
		case !ok:
		case kind.Keep:
			return scale.Value{Name: "Keep"}, true, nil
		case len(kind.Subnets) > 0:
			list := []any{}
			for _, n := range kind.Subnets {
				list = append(list, n)
			}
			return scale.Value{Name: "KeepSubnets", Of: scale.Map{"subnets": list}}, true, nil
		default:
			return scale.Value{Name: "Swap"}, true, nil
		}
	}
	return nil, true, nil
}

var worldItems = []string{
	"TaoWeight", "ChildKeys", "ParentKeys", "PendingChildKeys", "ChildkeyTake", "AlphaDividendsPerSubnet", "RootAlphaDividendsPerSubnet", "RootClaimable", "RootClaimed", "RootClaimType",
}

func orNone(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list
}

// positions are those that f wants.
func (r *reading) positions(f func(p ledger.Position) bool) (out []ledger.Position, err error) {
	w, err := r.economy()
	if err != nil {
		return nil, err
	}
	for _, p := range w.Positions {
		if f(p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// worldly adds keys of these kinds for stakes that no registration has.
func (r *reading) worldly(kinds string, add func(keys ...any) error) error {
	w, err := r.economy()
	if err != nil || w.TaoWeight == 0 {
		return err
	}
	if kinds == "n" {
		return add(uint64(ledger.Root))
	}
	for _, p := range w.Positions {
		n := uint64(p.Netuid)
		var keys [][]any
		switch kinds {
		case "a":
			keys = [][]any{{p.Hotkey}, {p.Coldkey}}
		case "an":
			keys = [][]any{{p.Hotkey, n}}
		case "na":
			keys = [][]any{{n, p.Hotkey}}
		case "aan":
			keys = [][]any{{p.Hotkey, p.Coldkey, n}}
		}
		for _, k := range keys {
			if err := add(k...); err != nil {
				return err
			}
		}
	}
	for _, c := range w.Claimed {
		if kinds == "naa" {
			if err := add(uint64(c.Netuid), c.Hotkey, c.Coldkey); err != nil {
				return err
			}
		}
	}
	for _, f := range w.Families {
		for _, c := range f.Children {
			if kinds == "an" {
				if err := add(c.Hotkey, uint64(f.Netuid)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// pooled are the parts of a metagraph that a pool changes.
func (r *reading) pooled(m *ledger.Metagraph) map[string]any {
	out := traded(m)
	out["subnet_emission"] = m.Pool.TaoIn + m.Pool.Excess
	out["alpha_stake"] = column(m, func(n *ledger.Neuron) uint64 { return n.AlphaStake })
	out["tao_stake"] = column(m, func(n *ledger.Neuron) uint64 { return n.RootStake })
	w, err := r.economy()
	if err != nil {
		return out
	}
	alpha, root := []any{}, []any{}
	for _, d := range w.Dividends {
		if d.Netuid == m.Netuid {
			alpha, root = append(alpha, []any{d.Hotkey, d.Alpha}), append(root, []any{d.Hotkey, d.RootPart})
		}
	}
	out["alpha_dividends_per_hotkey"], out["tao_dividends_per_hotkey"] = alpha, root
	return out
}

// traded is what a pool reports.
func traded(m *ledger.Metagraph) map[string]any {
	p := m.Pool
	return map[string]any{
		"alpha_in": p.Alpha, "alpha_out": p.Out, "tao_in": p.Tao, "alpha_out_emission": p.AlphaOut, "alpha_in_emission": p.AlphaIn, "tao_in_emission": p.TaoIn,
		"pending_alpha_emission": p.PendingMiners + p.PendingValidators, "pending_root_emission": p.PendingRoot, "subnet_volume": p.Volume,
		"network_registered_at": p.RegisteredAt, "moving_price": fixed(p.Moving, 0),
	}
}

// ofSwap answers the pallet of pools.
func (r *reading) ofSwap(item string, keys []any) (any, error) {
	if item != "Swap.SwapBalancer" && item != "Swap.PalSwapInitialized" || len(keys) == 0 {
		return nil, nil
	}
	m, err := r.subnet(keys[0])
	switch {
	case err != nil || m == nil || m.Pool == nil:
		return nil, err
	case item == "Swap.SwapBalancer":
		return scale.Map{"quote": m.Pool.Quote}, nil
	}
	return true, nil
}

// stakedOn is a hotkey's stake on a subnet, of all coldkeys; nil = none.
func (r *reading) stakedOn(keys []any) (any, error) {
	hotkey, _ := keys[0].(string)
	list, err := r.positions(func(p ledger.Position) bool { return p.Hotkey == hotkey && uint64(p.Netuid) == keys[1] })
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		x := new(big.Int)
		for _, p := range list {
			x.Add(x, new(big.Int).SetUint64(p.Stake))
		}
		return x.Uint64(), nil
	}
	m, err := r.subnet(keys[1])
	if err != nil || m == nil || m.Pool != nil {
		return nil, err
	}
	if n, ok := m.Neuron(hotkey); ok {
		return n.Stake, nil
	}
	return nil, nil
}

// sharesOf answers shares of stake where a hotkey has several stakers. ok is false elsewhere.
func (r *reading) sharesOf(item string, keys []any) (v any, ok bool, err error) {
	w, err := r.economy()
	if err != nil || w.TaoWeight == 0 {
		return nil, false, err
	}
	for _, p := range w.Positions {
		switch {
		case p.Hotkey != keys[0]:
		case item == "SubtensorModule.TotalHotkeyShares" && uint64(p.Netuid) == keys[1]:
			return scale.Map{"bits": new(big.Int).Lsh(p.Of, 32)}, true, nil
		case item == "SubtensorModule.Alpha" && p.Coldkey == keys[1] && uint64(p.Netuid) == keys[2]:
			return scale.Map{"bits": new(big.Int).Lsh(p.Shares, 32)}, true, nil
		}
	}
	return nil, false, nil
}

// delegated lists the hotkeys of others that a coldkey has staked on, with subnet and stake.
func (r *reading) delegated(t *scale.Type, args []any) ([]any, error) {
	coldkey, _ := args[0].(string)
	list, err := r.positions(func(p ledger.Position) bool { return p.Coldkey == coldkey })
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, p := range list {
		of, err := r.delegates(t.Fields[0].Type, p.Hotkey)
		if err != nil {
			return nil, err
		}
		if len(of) > 0 {
			out = append(out, []any{of[0], []any{p.Netuid, p.Stake}})
		}
	}
	return out, nil
}

// ofRoot answers the root network's items, of those that subnets have.
func (r *reading) ofRoot(item string, keys []any, err error) (any, error) {
	if err != nil || keys[0] != uint64(ledger.Root) || item != "SubnetTAO" && item != "SubnetAlphaOut" {
		return nil, err
	}
	w, err := r.economy()
	if err != nil || w.RootTao == 0 {
		return nil, err
	}
	return w.RootTao, nil
}

// nominators are a hotkey's stakers with their stakes by subnet.
func (r *reading) nominators(hotkey string) ([]any, error) {
	list, err := r.positions(func(p ledger.Position) bool { return p.Hotkey == hotkey && p.Stake > 0 })
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b ledger.Position) int { return strings.Compare(a.Coldkey, b.Coldkey) })
	var out []any
	for i, p := range list {
		of := []any{p.Netuid, p.Stake}
		if i == 0 || list[i-1].Coldkey != p.Coldkey {
			out = append(out, []any{p.Coldkey, []any{of}})
			continue
		}
		last := out[len(out)-1].([]any)
		last[1] = append(last[1].([]any), of)
	}
	return out, nil
}
