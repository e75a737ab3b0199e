package rpc

import (
	"fmt"
	"testing"

	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/scale"
)

// storedAs is what a client reads of an item; nil = nothing.
func storedAs(t *testing.T, s *Server, pallet, item string, keys ...any) any {
	t.Helper()
	at, err := s.cfg.Ledger.Block(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.reading(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	k, err := s.meta.StorageKey(pallet, item, keys...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.stored(k)
	if err != nil || b == nil {
		return err
	}
	list, err := r.list(k[:32])
	if err != nil || len(list) == 0 {
		t.Errorf("%s.%s is stored, but not listed: %v", pallet, item, err)
	}
	v, err := s.meta.DecodeStorage(pallet, item, b)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestCollateralCalls: what a registration locks, and what is locked by calls, are events and storage of the chain's form.
func TestCollateralCalls(t *testing.T) {
	l, s := newServer(t)
	ctx := t.Context()
	hot, cold := ledgertest.Key(t, "m"), ledgertest.Key(t, "m-cold")
	h, err := local.Hyperparameters(local.PresetDemo)
	if err != nil {
		t.Fatal(err)
	}
	h.MinBurn, h.MaxBurn, h.CollateralShare = 1e9, 1e9, 32768
	if err := l.EnsureSubnet(ctx, 2, local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold"), Hyper: &h, Pool: 1e14, Moving: 1e9}); err != nil {
		t.Fatal(err)
	}
	call := func(name string, args scale.Map) string { return results(t, s, cold, "SubtensorModule", name, args) }
	if got := call("burned_register", scale.Map{"netuid": 2, "hotkey": hot}); got != "NeuronRegistered CollateralLocked" {
		t.Error("a registration:", got)
	}
	if got := call("remove_stake", scale.Map{"hotkey": hot, "netuid": 2, "amount_unstaked": uint64(1e8)}); got != "StakeUnavailable" {
		t.Error("collateral taken back:", got)
	}
	for _, c := range []struct {
		name string
		args scale.Map
		want string
	}{
		{"add_collateral", scale.Map{"netuid": 2, "hotkey": hot, "alpha": uint64(2e9), "limit_price": uint64(2e9)}, "StakeAdded CollateralLocked"},
		{"add_collateral", scale.Map{"netuid": 2, "hotkey": hot, "alpha": uint64(0), "limit_price": uint64(2e9)}, "AmountTooLow"},
		{"add_collateral", scale.Map{"netuid": 2, "hotkey": cold, "alpha": uint64(1), "limit_price": uint64(2e9)}, "HotKeyAccountNotExists"},
		{"add_collateral", scale.Map{"netuid": 0, "hotkey": hot, "alpha": uint64(1), "limit_price": uint64(2e9)}, "RegistrationNotPermittedOnRootSubnet"},
		{"add_collateral", scale.Map{"netuid": 9, "hotkey": hot, "alpha": uint64(1), "limit_price": uint64(2e9)}, "SubnetNotExists"},
		{"set_min_collateral", scale.Map{"netuid": 2, "hotkey": hot, "min_locked": uint64(5)}, "MinCollateralSet"},
	} {
		if got := call(c.name, c.args); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.name, c.args, got, c.want)
		}
	}
	w, err := l.World(ctx)
	if err != nil || len(w.Collateral) != 1 {
		t.Fatalf("collateral %v: %v", w, err)
	}
	locked := w.Collateral[0].Locked
	if got := storedAs(t, s, "SubtensorModule", "MinerCollateral", 2, hot, cold); fmt.Sprint(got) != fmt.Sprint(scale.Map{"locked": locked, "drain_ratio": scale.Map{"bits": "18446744073709551616"}, "min_locked": 5, "earned": 0}) {
		t.Errorf("stored as %v of %d", got, locked)
	}
	if got := storedAs(t, s, "SubtensorModule", "ColdkeyMinerCollateral", 2, cold); got != locked {
		t.Errorf("of the coldkey %v, want %d", got, locked)
	}
	if got := storedAs(t, s, "SubtensorModule", "MinerCollateral", 2, hot, hot); got != nil {
		t.Errorf("of another coldkey %v", got)
	}
	if got := storedAs(t, s, "SubtensorModule", "CollateralLockShare", 2); got != uint64(32768) {
		t.Errorf("share %v", got)
	}
	if results(t, s, ledgertest.Key(t, "owner-cold"), "AdminUtils", "sudo_set_epoch_consensus", scale.Map{"netuid": 2, "mode": "Null"}) != "" {
		t.Error("Null is refused")
	}
	if got := storedAs(t, s, "SubtensorModule", "SubnetEpochConsensus", 2); fmt.Sprint(got) != "{Null <nil>}" {
		t.Errorf("consensus %v", got)
	}
}

// TestPureProxies: an account without a key is the chain's, is acted for, and ends with its deposit back.
func TestPureProxies(t *testing.T) {
	l, s := newServer(t)
	ctx := t.Context()
	maker, other := ledgertest.Key(t, "maker"), ledgertest.Key(t, "other")
	balance := func() uint64 {
		b, err := l.Balance(ctx, maker)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	had := balance()
	args := scale.Map{"proxy_type": scale.Value{Name: "Any"}, "delay": 0, "index": 7}
	if got := results(t, s, maker, "Proxy", "create_pure", args); got != "PureCreated" {
		t.Fatal(got)
	}
	if paid := had - balance(); paid != 93_000_000 {
		t.Errorf("a deposit of %d", paid)
	}
	at, err := l.Block(ctx)
	if err != nil {
		t.Fatal(err)
	}
	pure, err := s.pureOf(maker, at, 0, args["proxy_type"], 7)
	if err != nil {
		t.Fatal(err)
	}
	through := func(call scale.Value) string {
		return results(t, s, maker, "Proxy", "proxy", scale.Map{"real": idOf(pure), "force_proxy_type": nil, "call": call})
	}
	kill := func(index, height int) scale.Value {
		return scale.Value{Name: "Proxy", Of: scale.Value{Name: "kill_pure", Of: scale.Map{"spawner": idOf(maker), "proxy_type": args["proxy_type"], "index": index, "height": height, "ext_index": 0}}}
	}
	for i, c := range []struct{ got, want string }{
		{results(t, s, maker, "Proxy", "create_pure", args), "Duplicate"}, // of the same extrinsic of a block, by the same call
		{results(t, s, maker, "Balances", "transfer_keep_alive", scale.Map{"dest": idOf(pure), "value": uint64(3e9)}), "Transfer"},
		{through(send(other, 1e9)), "Transfer ProxyExecuted"},
		{results(t, s, other, "Proxy", "proxy", scale.Map{"real": idOf(pure), "force_proxy_type": nil, "call": send(other, 1e9)}), "NotProxy"},
		{through(kill(8, int(at))), "ProxyExecuted:NoPermission"},
		{through(kill(7, int(at)+1)), "ProxyExecuted:NoPermission"},
		{through(kill(7, int(at))), "PureKilled ProxyExecuted"},
		{through(send(other, 1e9)), "NotProxy"},
	} {
		if c.got != c.want {
			t.Errorf("%d: %s, want %s", i, c.got, c.want)
		}
	}
	if now := balance(); now != had-3e9 {
		t.Errorf("balance %d of %d: the deposit is not back", now, had)
	}
}

// TestPureAddress: the address is another for each part of what makes it.
func TestPureAddress(t *testing.T) {
	_, s := newServer(t)
	alice := "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
	seen := map[string]bool{}
	for _, c := range []struct {
		block, index uint64
		kind         string
		number       uint64
	}{{1, 0, "Any", 0}, {2, 0, "Any", 0}, {1, 1, "Any", 0}, {1, 0, "Staking", 0}, {1, 0, "Any", 1}} {
		address, err := s.pureOf(alice, c.block, c.index, scale.Value{Name: c.kind}, c.number)
		if err != nil || seen[address] {
			t.Errorf("%+v: %s %v", c, address, err)
		}
		seen[address] = true
	}
}

// TestBatchWeights: a batch sets what it can, and says of each of the others why not.
func TestBatchWeights(t *testing.T) {
	l, s := newServer(t)
	owner := ledgertest.Key(t, "owner")
	pair := func(uid, value int) []any { return []any{uid, value} }
	batch := func(netuids, versions []any, rows ...any) string {
		return results(t, s, owner, "SubtensorModule", "batch_set_weights", scale.Map{"netuids": netuids, "weights": rows, "version_keys": versions})
	}
	if got := batch([]any{1, 9}, []any{0, 0}, []any{pair(0, 5)}, []any{pair(0, 5)}); got != "WeightsSet BatchWeightItemFailed BatchCompletedWithErrors BatchWeightsCompleted" {
		t.Error(got)
	}
	if got := batch([]any{1}, []any{0, 0}, []any{pair(0, 5)}); got != "InputLengthsUnequal" {
		t.Error("lists of different lengths:", got)
	}
	m, err := l.Metagraph(t.Context(), 1)
	if err != nil || len(m.Weights) != 1 || m.Weights[0].Values[0] != 65535 {
		t.Errorf("weights %+v: %v", m, err)
	}
}
