package rpc

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/scale"
)

const tao = 1_000_000_000

// newEconomy serves two subnets with pools: a validator with TAO on the root network, a child and a fan.
func newEconomy(t testing.TB) (*local.Ledger, *Server) {
	t.Helper()
	ctx := context.Background()
	l, err := local.Open(ctx, filepath.Join(t.TempDir(), "l.db"), local.Config{Preset: local.PresetLocal, Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	for n := uint16(1); n <= 2; n++ {
		if err := l.EnsureSubnet(ctx, n, local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold"), Pool: 1000 * tao, Moving: tao}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"val", "child"} {
		if _, err := l.Register(ctx, 1, ledgertest.Key(t, name), ledgertest.Key(t, name+"-cold")); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(Config{Ledger: l, Genesis: "test", Replay: l, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return l, s
}

// applied makes a call as it comes over the wire. Its events have the types of the metadata.
func applied(t testing.TB, s *Server, who, pallet, call string, args any) ([]any, error) {
	t.Helper()
	b, err := s.meta.EncodeCall(pallet, call, args)
	if err != nil {
		t.Fatalf("%s.%s: %v", pallet, call, err)
	}
	v, err := scale.DecodeAll(s.meta.CallType, b)
	if err != nil {
		t.Fatal(err)
	}
	events, refused := s.apply(t.Context(), caller{signer: who}, v)
	for _, e := range events {
		if _, err := scale.Encode(nil, s.meta.EventType, e); err != nil {
			t.Errorf("%s.%s: event %v: %v", pallet, call, e, err)
		}
	}
	return events, refused
}

// do makes a call, and gives the names of its events or of its refusal as the chain has it.
func do(t testing.TB, s *Server, who, pallet, call string, args scale.Map) string {
	t.Helper()
	events, err := applied(t, s, who, pallet, call, args)
	if err != nil {
		failure, ferr := s.dispatchError(err)
		if ferr != nil {
			t.Fatalf("%s.%s: %v", pallet, call, ferr)
		}
		of, _ := failure.(scale.Value)
		m, ok := of.Of.(scale.Map)
		if !ok {
			if inner, ok := of.Of.(scale.Value); ok {
				return of.Name + "." + inner.Name
			}
			return of.Name
		}
		code, _ := m["error"].(scale.Bytes)
		for _, p := range s.meta.Pallets {
			if p.Index == m["index"] {
				for _, c := range p.Errors.Cases {
					if c.Index == code[0] {
						return c.Name
					}
				}
			}
		}
		return "module error without a name"
	}
	var got []string
	for _, e := range events {
		got = append(got, e.(scale.Value).Of.(scale.Value).Name)
	}
	return strings.Join(got, " ")
}

// The calls of an economy leave the chain's events, and are refused by its names.
func TestEconomyCalls(t *testing.T) {
	l, s := newEconomy(t)
	val, cold, child, fan := ledgertest.Key(t, "val"), ledgertest.Key(t, "val-cold"), ledgertest.Key(t, "child"), ledgertest.Key(t, "fan")
	stake := func(hotkey string, netuid, amount int) scale.Map {
		return scale.Map{"hotkey": hotkey, "netuid": netuid, "amount_staked": amount}
	}
	children := func(of ...any) scale.Map { return scale.Map{"hotkey": val, "netuid": 1, "children": of} }
	for _, x := range []struct {
		who, call string
		args      scale.Map
		want      string
	}{
		{cold, "add_stake", stake(val, 1, 10*tao), "StakeAdded"},
		{fan, "add_stake", stake(val, 1, 20*tao), "StakeAdded"},
		{fan, "add_stake", stake(val, 0, 30*tao), "StakeAdded"},
		{fan, "add_stake", stake(val, 1, 1), "AmountTooLow"},
		{fan, "add_stake", stake(val, 7, tao), "SubnetNotExists"},
		{fan, "add_stake", stake(fan, 1, tao), "HotKeyAccountNotExists"},
		{fan, "add_stake", stake(val, 1, 5000*tao), "NotEnoughBalanceToStake"},
		{fan, "add_stake_limit", scale.Map{"hotkey": val, "netuid": 1, "amount_staked": 10 * tao, "limit_price": tao, "allow_partial": false}, "PriceLimitExceeded"},
		{fan, "add_stake_limit", scale.Map{"hotkey": val, "netuid": 1, "amount_staked": 500 * tao, "limit_price": 3 * tao / 2, "allow_partial": false}, "SlippageTooHigh"},
		{fan, "add_stake_limit", scale.Map{"hotkey": val, "netuid": 1, "amount_staked": 500 * tao, "limit_price": 3 * tao / 2, "allow_partial": true}, "StakeAdded"},
		{fan, "remove_stake", scale.Map{"hotkey": val, "netuid": 1, "amount_unstaked": tao}, "StakeRemoved"},
		{fan, "remove_stake_limit", scale.Map{"hotkey": val, "netuid": 1, "amount_unstaked": tao, "limit_price": 5 * tao, "allow_partial": false}, "PriceLimitExceeded"},
		{fan, "remove_stake", scale.Map{"hotkey": val, "netuid": 1, "amount_unstaked": 900 * tao}, "NotEnoughStakeToWithdraw"},
		{fan, "move_stake", scale.Map{"origin_hotkey": val, "destination_hotkey": child, "origin_netuid": 1, "destination_netuid": 1, "alpha_amount": tao}, "StakeRemoved StakeAdded StakeMoved"},
		{fan, "move_stake", scale.Map{"origin_hotkey": val, "destination_hotkey": val, "origin_netuid": 1, "destination_netuid": 1, "alpha_amount": tao}, "SameNetuid"},
		{fan, "swap_stake", scale.Map{"hotkey": val, "origin_netuid": 1, "destination_netuid": 2, "alpha_amount": tao}, "StakeRemoved StakeAdded StakeSwapped"},
		{fan, "swap_stake_limit", scale.Map{"hotkey": val, "origin_netuid": 1, "destination_netuid": 2, "alpha_amount": tao, "limit_price": 9 * tao, "allow_partial": false}, "SlippageTooHigh"},
		{fan, "transfer_stake", scale.Map{"destination_coldkey": cold, "hotkey": val, "origin_netuid": 1, "destination_netuid": 1, "alpha_amount": tao}, "StakeRemoved StakeAdded StakeTransferred"},
		{fan, "burn_alpha", scale.Map{"hotkey": val, "amount": 1000, "netuid": 1}, "AlphaBurned"},
		{fan, "recycle_alpha", scale.Map{"hotkey": val, "amount": 1000, "netuid": 1}, "AlphaRecycled"},
		{fan, "burn_alpha", scale.Map{"hotkey": val, "amount": 1000, "netuid": 0}, "CannotBurnOrRecycleOnRootSubnet"},
		{fan, "add_stake_burn", scale.Map{"hotkey": val, "netuid": 1, "amount": tao, "limit": nil}, "StakeAdded AlphaBurned AddStakeBurn"},
		{cold, "set_children", children([]any{uint64(1) << 63, child}), "SetChildrenScheduled"},
		{cold, "set_children", children([]any{uint64(1) << 63, child}), "TxRateLimitExceeded"},
		{fan, "set_children", scale.Map{"hotkey": child, "netuid": 1, "children": []any{}}, "NonAssociatedColdKey"},
		{ledgertest.Key(t, "child-cold"), "set_children", scale.Map{"hotkey": child, "netuid": 1, "children": []any{[]any{uint64(1), child}}}, "InvalidChild"},
		{cold, "set_childkey_take", scale.Map{"hotkey": val, "netuid": 1, "take": 1000}, "ChildKeyTakeSet"},
		{cold, "set_childkey_take", scale.Map{"hotkey": val, "netuid": 1, "take": 65535}, "InvalidChildkeyTake"},
		{fan, "set_root_claim_type", scale.Map{"new_root_claim_type": scale.Value{Name: "KeepSubnets", Of: scale.Map{"subnets": []any{1}}}}, "RootClaimTypeSet"},
		{fan, "set_root_claim_type", scale.Map{"new_root_claim_type": scale.Value{Name: "KeepSubnets", Of: scale.Map{"subnets": []any{}}}}, "InvalidSubnetNumber"},
		{fan, "claim_root", scale.Map{"subnets": []any{1, 2}}, "RootClaimed"},
		{fan, "claim_root", scale.Map{"subnets": []any{}}, "InvalidSubnetNumber"},
		{fan, "unstake_all_alpha", scale.Map{"hotkey": val}, "StakeRemoved StakeRemoved StakeAdded"},
		{fan, "unstake_all", scale.Map{"hotkey": val}, "StakeRemoved"},
		{fan, "unstake_all", scale.Map{"hotkey": val}, "AmountTooLow"},
	} {
		if got := do(t, s, x.who, "SubtensorModule", x.call, x.args); got != x.want {
			t.Errorf("%s %v: %s, want %s", x.call, x.args, got, x.want)
		}
	}
	owner := scale.Map{"netuid": 1, "recycle_or_burn": scale.Value{Name: "Recycle"}}
	if got := do(t, s, ledgertest.Key(t, "owner-cold"), "AdminUtils", "sudo_set_recycle_or_burn", owner); got != "" {
		t.Errorf("recycle: %s", got)
	}
	if m, err := l.Metagraph(t.Context(), 1); err != nil || !m.Pool.Recycles {
		t.Errorf("not set: %v", err)
	}
}

// What tools read of an economy is what the ledger has.
func TestEconomyReads(t *testing.T) {
	l, s := newEconomy(t)
	ctx := t.Context()
	val, cold, child, fan := ledgertest.Key(t, "val"), ledgertest.Key(t, "val-cold"), ledgertest.Key(t, "child"), ledgertest.Key(t, "fan")
	for _, o := range []ledger.StakeOrder{{Netuid: 1, Coldkey: cold, Amount: 10 * tao}, {Netuid: 1, Coldkey: fan, Amount: 30 * tao}, {Netuid: 0, Coldkey: fan, Amount: 40 * tao}} {
		o.Kind, o.Hotkey = ledger.StakeAdd, val
		if _, err := l.Stake(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.SetChildren(ctx, 1, val, cold, []ledger.Child{{Proportion: 1 << 62, Hotkey: child}}); err != nil {
		t.Fatal(err)
	}
	if err := l.SetChildTake(ctx, 1, child, ledgertest.Key(t, "child-cold"), 99); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Step(ctx, 7600); err != nil { // the cooldown, and an epoch
		t.Fatal(err)
	}
	r, err := s.reading(ctx, 7600)
	if err != nil {
		t.Fatal(err)
	}
	w, err := l.World(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := l.Metagraph(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	p := m.Pool
	item := func(pallet, name string, keys ...any) any {
		t.Helper()
		key, err := s.meta.StorageKey(pallet, name, keys...)
		if err != nil {
			t.Fatal(name, err)
		}
		b, err := r.stored(key)
		if err != nil || b == nil {
			t.Errorf("%s%v: %x, %v", name, keys, b, err)
			return nil
		}
		_, of, err := s.meta.Storage(pallet, name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := scale.DecodeAll(of.Value, b)
		if err != nil {
			t.Fatal(name, err)
		}
		return v
	}
	bits := func(v any) uint64 {
		m, _ := v.(scale.Map)
		switch x := m["bits"].(type) {
		case *big.Int:
			return x.Uint64()
		case uint64:
			return x
		case int64:
			return uint64(x)
		}
		return math.MaxUint64
	}
	one := uint64(1)
	for name, want := range map[string]uint64{
		"SubnetMechanism": 1, "SubnetTAO": p.Tao, "SubnetAlphaIn": p.Alpha, "SubnetAlphaOut": p.Out, "SubnetTaoInEmission": p.TaoIn, "SubnetAlphaInEmission": p.AlphaIn,
		"SubnetAlphaOutEmission": p.AlphaOut, "SubnetExcessTao": p.Excess, "PendingServerEmission": p.PendingMiners, "PendingValidatorEmission": p.PendingValidators,
		"PendingRootAlphaDivs": p.PendingRoot, "PendingOwnerCut": p.PendingOwner, "SubnetProtocolAlpha": p.Bought,
	} {
		if got := item("SubtensorModule", name, one); got != want {
			t.Errorf("%s: %v, want %d", name, got, want)
		}
	}
	for name, want := range map[string]uint64{"SubnetMovingPrice": p.Moving, "RootProp": p.RootPart, "MinerBurned": p.Withheld} {
		if got := bits(item("SubtensorModule", name, one)); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if got := item("SubtensorModule", "TaoWeight"); got != w.TaoWeight {
		t.Errorf("TaoWeight: %v", got)
	}
	if got := item("SubtensorModule", "SubnetTAO", uint64(0)); got != w.RootTao || w.RootTao == 0 {
		t.Errorf("TAO on the root network: %v, want %d", got, w.RootTao)
	}
	pair := func(v any) []any {
		list, _ := v.([]any)
		if len(list) == 0 {
			return []any{nil, nil}
		}
		of, _ := list[0].([]any)
		return of
	}
	if got := pair(item("SubtensorModule", "ChildKeys", val, one)); got[0] != uint64(1<<62) || got[1] != child {
		t.Errorf("children: %v", got)
	}
	if got := pair(item("SubtensorModule", "ParentKeys", child, one)); got[1] != val {
		t.Errorf("parents: %v", got)
	}
	if got := item("SubtensorModule", "ChildkeyTake", child, one); got != uint64(99) {
		t.Errorf("take: %v", got)
	}
	if got := pair(item("SubtensorModule", "RootClaimable", val)); got[0] != uint64(1) {
		t.Errorf("claimable: %v", got)
	}
	var mine, all uint64
	for _, x := range w.Positions {
		if x.Netuid == 1 && x.Hotkey == val {
			all += x.Stake
			if x.Coldkey == fan {
				mine = x.Stake
			}
		}
	}
	if got := item("SubtensorModule", "TotalHotkeyAlpha", val, one); got != all {
		t.Errorf("alpha of the hotkey: %v, want %d", got, all)
	}
	// As SDKs count a coldkey's stake: its shares of the hotkey's alpha.
	parts := func(v any) *big.Int { m, _ := v.(scale.Map); x, _ := m["bits"].(*big.Int); return x }
	share := new(big.Int).Mul(parts(item("SubtensorModule", "Alpha", val, fan, one)), new(big.Int).SetUint64(all))
	if share.Quo(share, parts(item("SubtensorModule", "TotalHotkeyShares", val, one))); share.Uint64() != mine {
		t.Errorf("shares are worth %v, want %d", share, mine)
	}
	ask := func(name string, args ...any) any {
		t.Helper()
		api, call, _ := strings.Cut(name, ".")
		x, err := s.meta.Method(api, call)
		if err != nil {
			t.Fatal(err)
		}
		var in []byte
		for i, a := range args {
			if in, err = scale.Encode(in, x.Inputs[i].Type, a); err != nil {
				t.Fatal(err)
			}
		}
		out, err := s.call(ctx, raw(t, api+"_"+call, "0x"+hex.EncodeToString(in)))
		if err != nil {
			t.Fatal(name, err)
		}
		b, err := hex.DecodeString(out.(string)[2:])
		if err != nil {
			t.Fatal(err)
		}
		v, err := scale.DecodeAll(x.Output, b)
		if err != nil {
			t.Fatal(name, err)
		}
		return v
	}
	if got := ask("SwapRuntimeApi.current_alpha_price", one); got != p.Price {
		t.Errorf("price: %v, want %d", got, p.Price)
	}
	sim, _ := ask("SwapRuntimeApi.sim_swap_tao_for_alpha", one, uint64(5*tao)).(scale.Map)
	swaps, err := l.Stake(ctx, ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: 1, Hotkey: val, Coldkey: cold, Amount: 5 * tao})
	if err != nil || sim["alpha_amount"] != swaps[0].Alpha || sim["tao_fee"] != swaps[0].Fee {
		t.Errorf("a swap that was estimated at %v: %+v, %v", sim, swaps, err)
	}
	graph, _ := ask("SubnetInfoRuntimeApi.get_metagraph", one).(scale.Map)
	roots, _ := graph["tao_stake"].([]any)
	alphas, _ := graph["alpha_stake"].([]any)
	totals, _ := graph["total_stake"].([]any)
	if len(roots) != 3 || roots[1] == uint64(0) || totals[1] == alphas[1] || graph["tao_in"] == uint64(0) {
		t.Errorf("metagraph: %v %v %v %v", roots, alphas, totals, graph["tao_in"])
	}
	infos, _ := ask("StakeInfoRuntimeApi.get_stake_info_for_coldkey", fan).([]any)
	if len(infos) != 2 {
		t.Errorf("stakes of the fan: %v", infos)
	}
	if of, _ := ask("DelegateInfoRuntimeApi.get_delegated", fan).([]any); len(of) != 2 {
		t.Errorf("the fan has staked on: %v", of)
	}
	// Lists have every stake, also on the root network.
	prefix, err := s.meta.StorageKey("SubtensorModule", "TotalHotkeyAlpha")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := r.list(prefix)
	if err != nil || len(keys) < 3 {
		t.Errorf("%d hotkeys have alpha: %v", len(keys), err)
	}
}

func raw(t testing.TB, params ...any) (out []json.RawMessage) {
	t.Helper()
	for _, p := range params {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// Every call of the metadata that a stranger makes with nothing, or with the most
// that its types take, is refused by a name of the chain, or does something: no
// call ends as an error without a name.
func TestEveryCallIsNamed(t *testing.T) {
	_, s := newEconomy(t)
	// These change nothing of others, and are anybody's to make.
	anybody := []string{"System.remark", "SubtensorModule.set_root_claim_type", "Utility.batch", "Utility.batch_all", "Utility.force_batch", "Proxy.add_proxy", "Proxy.remove_proxies", "Balances.transfer_all", "Balances.transfer_allow_death", "Balances.transfer_keep_alive"}
	asked := 0
	for _, p := range s.meta.Pallets {
		if p.Calls == nil {
			continue
		}
		for _, c := range p.Calls.Cases {
			for name, fill := range map[string]func(*scale.Type, int) any{"nothing": func(t *scale.Type, _ int) any { return scale.Zero(t) }, "the most": largest} {
				args := scale.Map{}
				for _, f := range c.Fields {
					args[f.Name] = fill(f.Type, 0)
				}
				got := do(t, s, ledgertest.Key(t, "stranger"), p.Name, c.Name, args)
				known := false
				for _, x := range anybody {
					known = known || x == p.Name+"."+c.Name
				}
				if got == "Other" || !known && (got == "" || strings.Contains(got, "without")) {
					t.Errorf("%s.%s with %s: %q", p.Name, c.Name, name, got)
				}
				asked++
			}
		}
	}
	if asked < 100 {
		t.Errorf("%d calls were made", asked)
	}
}

// largest is the most that a type takes, with lists of 300.
func largest(t *scale.Type, depth int) any {
	switch {
	case t.Name() == "AccountId32":
		return "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
	case t.Form == scale.Sequence && depth < 2:
		if zero, ok := scale.Zero(t).(scale.Bytes); ok && zero != nil {
			return scale.Bytes(make([]byte, 300))
		}
		list := make([]any, 300)
		for i := range list {
			list[i] = largest(t.Elem, depth+1)
		}
		return list
	case t.Form == scale.Primitive || t.Form == scale.Compacted:
		return most(t)
	}
	return scale.Zero(t)
}

func most(t *scale.Type) any {
	switch x := t; {
	case x.Form == scale.Compacted:
		return most(x.Elem)
	case x.Prim == scale.Bool:
		return true
	default:
		for _, v := range []any{new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(1)), uint64(math.MaxUint64), uint64(math.MaxUint32), uint64(math.MaxUint16), uint64(255), int64(math.MaxInt16)} {
			if _, err := scale.Encode(nil, t, v); err == nil {
				return v
			}
		}
	}
	return scale.Zero(t)
}
