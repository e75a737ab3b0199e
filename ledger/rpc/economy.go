package rpc

import (
	"context"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// Economy is a Ledger whose subnets may have alpha of their own, a root network
// and children. Where a subnet has none, stake is a Staker's.
type Economy interface {
	// Stake moves stake as an order says, and tells each swap on its way.
	Stake(ctx context.Context, o ledger.StakeOrder) ([]ledger.Swap, error)
	SetChildren(ctx context.Context, netuid uint16, hotkey, coldkey string, children []ledger.Child) error
	SetChildTake(ctx context.Context, netuid uint16, hotkey, coldkey string, take uint16) error
	ClaimRoot(ctx context.Context, coldkey string, netuids []uint16) error
	SetRootClaim(ctx context.Context, coldkey string, kind ledger.RootClaim) error
	World(ctx context.Context) (*ledger.World, error)
}

// hasAlpha says whether stake on a subnet is moved by orders.
func (s *Server) hasAlpha(ctx context.Context, netuid uint16) (bool, error) {
	all, err := s.of(ctx).Subnets(ctx)
	if err != nil {
		return false, err
	}
	for _, n := range all {
		if netuid != ledger.Root && n != netuid {
			continue
		}
		m, err := s.of(ctx).Metagraph(ctx, n)
		if err != nil || m.Pool != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// numbers of a call: absent ones are 0.
func number(a scale.Map, name string) uint64 {
	n, _ := a[name].(uint64)
	return n
}

func address(a scale.Map, name string) string {
	s, _ := a[name].(string)
	return s
}

// limitIn is a call's worst price; an Option may have none.
func limitIn(v any) *uint64 {
	if x, ok := v.(scale.Value); ok {
		v = x.Of
	}
	if n, ok := v.(uint64); ok {
		return &n
	}
	return nil
}

// applyEconomy makes a change of stake with a pool, of children, or of claims. known is false for other calls.
func (s *Server) applyEconomy(ctx context.Context, signer, call string, a scale.Map) (events []any, known bool, err error) {
	l, ok := s.of(ctx).(Economy)
	if !ok {
		return nil, false, nil
	}
	netuid, hotkey := uint16(number(a, "netuid")), address(a, "hotkey")
	switch call {
	case "set_children":
		children := childrenOf(a["children"])
		if err := l.SetChildren(ctx, netuid, hotkey, signer, children); err != nil {
			return nil, true, err
		}
		w, err := l.World(ctx)
		if err != nil {
			return nil, true, err
		}
		from := uint64(0)
		for _, f := range w.Pending {
			if f.Netuid == netuid && f.Parent == hotkey {
				from = f.From
			}
		}
		return []any{ours("SetChildrenScheduled", hotkey, netuid, from, a["children"])}, true, nil
	case "set_childkey_take":
		take := uint16(number(a, "take"))
		return []any{ours("ChildKeyTakeSet", hotkey, take)}, true, l.SetChildTake(ctx, netuid, hotkey, signer, take)
	case "claim_root":
		return []any{named("RootClaimed", scale.Map{"coldkey": signer})}, true, l.ClaimRoot(ctx, signer, words(a["subnets"]))
	case "set_root_claim_type":
		kind, _ := a["new_root_claim_type"].(scale.Value)
		of := ledger.RootClaim{Keep: kind.Name == "Keep"}
		if m, ok := kind.Of.(scale.Map); ok {
			if of.Subnets = words(m["subnets"]); len(of.Subnets) == 0 {
				return nil, true, ledger.ErrInvalidSubnets
			}
		}
		return []any{named("RootClaimTypeSet", scale.Map{"coldkey": signer, "root_claim_type": kind})}, true, l.SetRootClaim(ctx, signer, of)
	}
	o, ok := orderOf(call, a)
	if !ok {
		return nil, false, nil
	}
	o.Coldkey = signer
	if o.Kind != ledger.StakeLeave && o.Kind != ledger.StakeLeaveAlpha && o.Kind != ledger.StakeMove {
		if has, err := s.hasAlpha(ctx, o.Netuid); err != nil || !has {
			return nil, err != nil, err
		}
	}
	if call != "add_stake_burn" {
		events, err = s.ordered(ctx, l, call, o)
		return events, true, err
	}
	err = s.together(ctx, func(ctx context.Context) error {
		l, _ := s.of(ctx).(Economy)
		events, err = s.ordered(ctx, l, call, o)
		return err
	})
	return events, true, err
}

func named(name string, of any) any {
	return scale.Value{Name: "SubtensorModule", Of: scale.Value{Name: name, Of: of}}
}

func childrenOf(v any) (out []ledger.Child) {
	list, _ := v.([]any)
	for _, e := range list {
		if pair, ok := e.([]any); ok && len(pair) == 2 {
			p, _ := pair[0].(uint64)
			hotkey, _ := pair[1].(string)
			out = append(out, ledger.Child{Proportion: p, Hotkey: hotkey})
		}
	}
	return out
}

// orderOf reads a call about stake. ok is false for other calls.
func orderOf(call string, a scale.Map) (o ledger.StakeOrder, ok bool) {
	o = ledger.StakeOrder{Netuid: uint16(number(a, "netuid")), Hotkey: address(a, "hotkey"), Limit: limitIn(a["limit_price"])}
	o.Partial, _ = a["allow_partial"].(bool)
	switch call {
	case "add_stake", "add_stake_limit":
		o.Kind, o.Amount = ledger.StakeAdd, number(a, "amount_staked")
	case "add_stake_burn":
		o.Kind, o.Amount, o.Limit = ledger.StakeAdd, number(a, "amount"), limitIn(a["limit"])
	case "remove_stake", "remove_stake_limit":
		o.Kind, o.Amount = ledger.StakeRemove, number(a, "amount_unstaked")
	case "remove_stake_full_limit":
		o.Kind, o.All = ledger.StakeRemove, true
	case "unstake_all":
		o.Kind = ledger.StakeLeave
	case "unstake_all_alpha":
		o.Kind = ledger.StakeLeaveAlpha
	case "burn_alpha":
		o.Kind, o.Amount = ledger.StakeBurn, number(a, "amount")
	case "recycle_alpha":
		o.Kind, o.Amount = ledger.StakeRecycle, number(a, "amount")
	case "move_stake", "transfer_stake", "swap_stake", "swap_stake_limit":
		o.Kind, o.Amount = ledger.StakeMove, number(a, "alpha_amount")
		o.Netuid, o.ToNetuid = uint16(number(a, "origin_netuid")), uint16(number(a, "destination_netuid"))
		o.ToHotkey, o.ToColdkey = address(a, "destination_hotkey"), address(a, "destination_coldkey")
		if from := address(a, "origin_hotkey"); from != "" {
			o.Hotkey = from
		}
	default:
		return o, false
	}
	return o, true
}

// ordered makes an order, and gives its events as the chain has them.
func (s *Server) ordered(ctx context.Context, l Economy, call string, o ledger.StakeOrder) (events []any, err error) {
	var places []uint16 // that an order without one goes through
	if o.Kind == ledger.StakeLeave || o.Kind == ledger.StakeLeaveAlpha {
		if places, err = s.placesOf(ctx, l, o); err != nil {
			return nil, err
		}
	}
	swaps, err := l.Stake(ctx, o)
	if err != nil || len(swaps) == 0 {
		return nil, err
	}
	added := func(x ledger.Swap, hotkey, coldkey string, netuid uint16) {
		events = append(events, s.ofStake("StakeAdded", coldkey, hotkey, x.Tao, x.Alpha, netuid, x.Fee))
	}
	removed := func(x ledger.Swap, netuid uint16) {
		events = append(events, s.ofStake("StakeRemoved", o.Coldkey, o.Hotkey, x.Tao, x.Alpha, netuid, x.Fee))
	}
	switch x := swaps[0]; o.Kind {
	case ledger.StakeAdd:
		if added(x, o.Hotkey, o.Coldkey, o.Netuid); call == "add_stake_burn" {
			burn := o
			burn.Kind, burn.Amount = ledger.StakeBurn, x.Alpha
			if _, err := l.Stake(ctx, burn); err != nil {
				return nil, err
			}
			events = append(events, ours("AlphaBurned", o.Coldkey, o.Hotkey, x.Alpha, o.Netuid),
				named("AddStakeBurn", scale.Map{"netuid": o.Netuid, "hotkey": o.Hotkey, "amount": x.Tao, "alpha": x.Alpha}))
		}
	case ledger.StakeRemove:
		removed(x, o.Netuid)
	case ledger.StakeBurn:
		events = append(events, ours("AlphaBurned", o.Coldkey, o.Hotkey, x.Alpha, o.Netuid))
	case ledger.StakeRecycle:
		events = append(events, ours("AlphaRecycled", o.Coldkey, o.Hotkey, x.Alpha, o.Netuid))
	case ledger.StakeMove:
		toHotkey, toColdkey := or(o.ToHotkey, o.Hotkey), or(o.ToColdkey, o.Coldkey)
		removed(x, o.Netuid)
		added(swaps[1], toHotkey, toColdkey, o.ToNetuid)
		switch call {
		case "move_stake":
			events = append(events, ours("StakeMoved", o.Coldkey, o.Hotkey, o.Netuid, toHotkey, o.ToNetuid, x.Tao))
		case "transfer_stake":
			events = append(events, ours("StakeTransferred", o.Coldkey, toColdkey, o.Hotkey, o.Netuid, o.ToNetuid, x.Tao))
		default:
			events = append(events, ours("StakeSwapped", o.Coldkey, o.Hotkey, o.Netuid, o.ToNetuid, x.Tao))
		}
	default:
		for i, x := range swaps {
			if i < len(places) {
				removed(x, places[i])
			} else {
				added(x, o.Hotkey, o.Coldkey, ledger.Root)
			}
		}
	}
	return events, nil
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// placesOf are the subnets on which a coldkey has stake that an order takes back.
func (s *Server) placesOf(ctx context.Context, l Economy, o ledger.StakeOrder) (out []uint16, err error) {
	w, err := l.World(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range w.Positions {
		if p.Hotkey == o.Hotkey && p.Coldkey == o.Coldkey && p.Stake > 0 && (p.Netuid != ledger.Root || o.Kind == ledger.StakeLeave) {
			out = append(out, p.Netuid)
		}
	}
	return out, nil
}
