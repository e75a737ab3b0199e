package local

import (
	"errors"
	"math"
	"testing"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/pool"
)

// Children are in force at the first epoch after the cooldown: a part of their
// parent's stake counts as theirs, and the parent has its part of the dividends.
func TestChildren(t *testing.T) {
	ctx := t.Context()
	l := dynamic(t, 1_000_000*tao)
	enter(t, l, "parent", 400*tao)
	enter(t, l, "child", 100*tao)
	enter(t, l, "miner", 0)
	parent, child := key(t, "parent"), key(t, "child")
	hyper(t, l, 1, func(h *ledger.Hyperparameters) { h.OwnerCut = 0 }) // the owner has no stake
	half, all := []ledger.Child{{Proportion: 1 << 63, Hotkey: child}}, []ledger.Child{{Proportion: math.MaxUint64, Hotkey: child}}
	for _, x := range []struct {
		want     error
		hotkey   string
		coldkey  string
		netuid   uint16
		children []ledger.Child
	}{
		{ledger.ErrRootRegistration, parent, "parent-cold", 0, half},
		{ledger.ErrSubnetNotExists, parent, "parent-cold", 9, half},
		{ledger.ErrNonAssociatedColdkey, parent, "child-cold", 1, half},
		{ledger.ErrInvalidChild, parent, "parent-cold", 1, []ledger.Child{{Proportion: 1, Hotkey: parent}}},
		{ledger.ErrDuplicateChild, parent, "parent-cold", 1, append(half, half...)},
		{ledger.ErrProportionOverflow, parent, "parent-cold", 1, []ledger.Child{{Proportion: 1 << 63, Hotkey: child}, {Proportion: 1 << 63, Hotkey: key(t, "x")}}},
		{ledger.ErrTooManyChildren, parent, "parent-cold", 1, []ledger.Child{{Hotkey: "a"}, {Hotkey: "b"}, {Hotkey: "c"}, {Hotkey: "d"}, {Hotkey: "e"}, {Hotkey: "f"}}},
		{nil, parent, "parent-cold", 1, all},
		{ledger.ErrTooFast, parent, "parent-cold", 1, half},
	} {
		if err := l.SetChildren(ctx, x.netuid, x.hotkey, key(t, x.coldkey), x.children); !errors.Is(err, x.want) {
			t.Errorf("children of %s: %v, want %v", x.coldkey, err, x.want)
		}
	}
	must(t, l.SetChildTake(ctx, 1, child, key(t, "child-cold"), 6553))
	if err := l.SetChildTake(ctx, 1, child, key(t, "child-cold"), maxTake+1); !errors.Is(err, ledger.ErrChildTake) {
		t.Errorf("a take over the most: %v", err)
	}
	if err := l.SetChildTake(ctx, 1, child, key(t, "child-cold"), 6554); !errors.Is(err, ledger.ErrChildTakeTooFast) {
		t.Errorf("a take that rises at once: %v", err)
	}
	w, err := l.World(ctx)
	must(t, err)
	if len(w.Pending) != 1 || w.Pending[0].From != childCooldown || len(w.Families) != 0 {
		t.Errorf("pending %+v, in force %+v", w.Pending, w.Families)
	}
	step(t, l, childCooldown)
	if w, err = l.World(ctx); err != nil || len(w.Families) != 0 {
		t.Errorf("in force during the cooldown: %+v, %v", w.Families, err)
	}
	step(t, l, 100)
	if w, err = l.World(ctx); err != nil || len(w.Families) != 1 || len(w.Pending) != 0 {
		t.Fatalf("not in force after it: %+v, %v", w, err)
	}
	m := graph(t, l, 1)
	p, c := float64(stakeOf(t, l, 1, "parent", "parent-cold")), float64(stakeOf(t, l, 1, "child", "child-cold"))
	near(t, "parent's weight", m.Neurons[1].Stake, 0)
	near(t, "child's weight", m.Neurons[2].Stake, c+p)
	if err := l.SetChildren(ctx, 1, child, key(t, "child-cold"), []ledger.Child{{Proportion: 1, Hotkey: parent}}); !errors.Is(err, ledger.ErrChildParent) {
		t.Errorf("a parent as a child: %v", err)
	}
	// The child alone weighs: what it earns is its own and its parent's by what they brought in.
	step(t, l, 1)
	must(t, l.SetWeights(ctx, 1, child, ledger.Weights{UIDs: []uint16{3}, Values: []uint16{1}}))
	for at := graph(t, l, 1).Epoch.Index; graph(t, l, 1).Epoch.Index == at; {
		p, c = float64(stakeOf(t, l, 1, "parent", "parent-cold")), float64(stakeOf(t, l, 1, "child", "child-cold"))
		step(t, l, 1)
	}
	gotP, gotC := float64(stakeOf(t, l, 1, "parent", "parent-cold"))-p, float64(stakeOf(t, l, 1, "child", "child-cold"))-c
	part := p / (c + p)
	take := 6553.0 / 65535
	if want, got := part*(1-take), gotP/(gotP+gotC); math.Abs(got-want) > 1e-6 {
		t.Errorf("the parent has %v of the dividends, want %v", got, want)
	}
}

// What the root network's stake earns is claimed, for TAO or as alpha; who stakes
// later has no part of what was earned before.
func TestRootClaims(t *testing.T) {
	ctx := t.Context()
	l := dynamic(t, 1_000_000*tao, 1_000_000*tao)
	enter(t, l, "val", 100*tao)
	enter(t, l, "miner", 0)
	must(t, l.Fund(ctx, key(t, "val-cold"), 20_000*tao))
	val, cold := key(t, "val"), key(t, "val-cold")
	order := func(who string, amount uint64) {
		t.Helper()
		_, err := l.Stake(ctx, ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: ledger.Root, Hotkey: val, Coldkey: who, Amount: amount})
		must(t, err)
	}
	order(cold, 10_000*tao)
	step(t, l, 99)
	must(t, l.SetValidator(ctx, 1, val, true, stakeOf(t, l, 1, "val", "val-cold")))
	must(t, l.SetWeights(ctx, 1, val, ledger.Weights{UIDs: []uint16{2}, Values: []uint16{1}}))
	// Blocks claim for five coldkeys drawn by number: here there is one, so look at once.
	var pending uint64
	for at := graph(t, l, 1).Epoch.Index; graph(t, l, 1).Epoch.Index == at; {
		pending = graph(t, l, 1).Pool.PendingRoot
		step(t, l, 1)
	}
	w, err := l.World(ctx)
	must(t, err)
	if len(w.Claims) != 1 || len(w.Claimed) != 1 {
		t.Fatalf("claims %+v, claimed %+v", w.Claims, w.Claimed)
	}
	part := float64(w.Claims[0].Rate) / (1 << 32) * 10_000 * tao
	owed := float64(pending) * (1 - float64(maxTake)/65535)
	if math.Abs(part-owed) > 0.011*owed { // the pot had a block more
		t.Errorf("earned %.0f, want %.0f", part, owed)
	}
	// It was sold: on the root network there is more TAO.
	if got := stakeOf(t, l, ledger.Root, "val", "val-cold"); got <= 10_000*tao || got > 10_000*tao+uint64(part*1.01) {
		t.Errorf("stake on the root network: %d", got)
	}
	balanced(t, l, 1, 0)
	must(t, l.Fund(ctx, key(t, "late"), 5000*tao))
	order(key(t, "late"), 1000*tao)
	must(t, l.view(ctx, func(s *state) error {
		if owed := s.owed(1, val, key(t, "late")).Whole32(); owed > 1 {
			t.Errorf("a late staker is owed %d", owed)
		}
		return nil
	}))
	// Who keeps has alpha.
	must(t, l.SetRootClaim(ctx, key(t, "late"), ledger.RootClaim{Subnets: []uint16{1}}))
	step(t, l, 200)
	must(t, l.ClaimRoot(ctx, key(t, "late"), []uint16{1}))
	if got := stakeOf(t, l, 1, "val", "late"); got == 0 {
		t.Error("nothing was kept")
	}
	if got := stakeOf(t, l, ledger.Root, "val", "late"); got > 1000*tao || got < 1000*tao-1 {
		t.Errorf("what is kept was sold: %d", got)
	}
	for want, err := range map[error]error{
		ledger.ErrInvalidSubnets: l.ClaimRoot(ctx, cold, nil),
		nil:                      l.ClaimRoot(ctx, cold, []uint16{1, 2}),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	// All of it comes back, and the coldkey is claimed for no more.
	_, err = l.Stake(ctx, ledger.StakeOrder{Kind: ledger.StakeRemove, Netuid: ledger.Root, Hotkey: val, Coldkey: key(t, "late"), All: true})
	must(t, err)
	if w, err = l.World(ctx); err != nil || len(w.Coldkeys) != 1 {
		t.Errorf("claimed for: %v, %v", w.Coldkeys, err)
	}
	same(t, l, 0)
}

// Orders have the chain's checks and names, move what they say, and a refusal changes nothing.
func TestStakeOrders(t *testing.T) {
	ctx := t.Context()
	l := dynamic(t, 1000*tao, 1000*tao)
	enter(t, l, "val", 100*tao)
	val, cold := key(t, "val"), key(t, "val-cold")
	order := func(o ledger.StakeOrder) ([]ledger.Swap, error) {
		if o.Hotkey == "" {
			o.Hotkey = val
		}
		if o.Coldkey == "" {
			o.Coldkey = cold
		}
		return l.Stake(ctx, o)
	}
	limit := func(rao uint64) *uint64 { return &rao }
	before, err := l.Snapshot(ctx)
	must(t, err)
	for name, x := range map[string]struct {
		want error
		o    ledger.StakeOrder
	}{
		"subnet":       {ledger.ErrSubnetNotExists, ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: 9, Amount: tao}},
		"hotkey":       {ledger.ErrNoHotkey, ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: 1, Amount: tao, Hotkey: key(t, "nobody")}},
		"little":       {ledger.ErrAmountTooLow, ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: 1, Amount: 2_000_000}},
		"balance":      {ledger.ErrNotEnoughBalance, ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: 1, Amount: 5000 * tao}},
		"too much":     {ledger.ErrLiquidity, ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: 1, Amount: 2_000_000 * tao}},
		"slippage":     {ledger.ErrSlippage, ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: 1, Amount: 500 * tao, Limit: limit(1_300_000_000)}},
		"price":        {ledger.ErrPriceExceeded, ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: 1, Amount: tao, Limit: limit(1_000_000_000)}},
		"withdraw":     {ledger.ErrNotEnoughStakeLeft, ledger.StakeOrder{Kind: ledger.StakeRemove, Netuid: 1, Amount: 1000 * tao}},
		"nothing":      {ledger.ErrAmountTooLow, ledger.StakeOrder{Kind: ledger.StakeRemove, Netuid: 1}},
		"dust":         {ledger.ErrAmountTooLow, ledger.StakeOrder{Kind: ledger.StakeRemove, Netuid: 1, Amount: 1000}},
		"same":         {ledger.ErrSameSubnet, ledger.StakeOrder{Kind: ledger.StakeMove, Netuid: 1, ToNetuid: 1, Amount: tao}},
		"move hotkey":  {ledger.ErrNoHotkey, ledger.StakeOrder{Kind: ledger.StakeMove, Netuid: 1, ToNetuid: 2, ToHotkey: key(t, "nobody"), Amount: tao}},
		"move limit":   {ledger.ErrSlippage, ledger.StakeOrder{Kind: ledger.StakeMove, Netuid: 1, ToNetuid: 2, Amount: tao, Limit: limit(2_000_000_000)}},
		"root is none": {ledger.ErrBurnOnRoot, ledger.StakeOrder{Kind: ledger.StakeBurn, Netuid: 0, Amount: tao}},
		"other's":      {ledger.ErrAmountTooLow, ledger.StakeOrder{Kind: ledger.StakeLeave, Coldkey: key(t, "fan")}},
	} {
		if _, err := order(x.o); !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", name, err, x.want)
		}
	}
	after, err := l.Snapshot(ctx)
	must(t, err)
	if string(before) != string(after) {
		t.Fatal("a refusal changed the state")
	}
	// Partly: as much as the limit allows, the rest stays with the coldkey.
	had, err := l.Balance(ctx, cold)
	must(t, err)
	swaps, err := order(ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: 1, Amount: 500 * tao, Limit: limit(1_300_000_000), Partial: true})
	must(t, err)
	left, err := l.Balance(ctx, cold)
	must(t, err)
	if had-left != swaps[0].Tao || swaps[0].Tao < 30*tao || swaps[0].Tao > 50*tao {
		t.Errorf("paid %d for %+v", had-left, swaps)
	}
	near(t, "price", graph(t, l, 1).Pool.Price, 1.3*tao)
	// A move between subnets is a sale and a purchase, with one fee.
	stake := stakeOf(t, l, 1, "val", "val-cold")
	swaps, err = order(ledger.StakeOrder{Kind: ledger.StakeMove, Netuid: 1, ToNetuid: 2, Amount: stake / 2})
	must(t, err)
	if len(swaps) != 2 || swaps[0].Fee != pool.Fee(stake/2) || swaps[1].Fee != 0 || swaps[0].Tao != swaps[1].Tao {
		t.Errorf("moved %+v", swaps)
	}
	if got := stakeOf(t, l, 2, "val", "val-cold"); got != swaps[1].Alpha {
		t.Errorf("stake on 2 is %d, want %d", got, swaps[1].Alpha)
	}
	// To another coldkey nothing is swapped.
	_, err = order(ledger.StakeOrder{Kind: ledger.StakeMove, Netuid: 1, ToNetuid: 1, ToColdkey: key(t, "fan"), Amount: tao})
	must(t, err)
	if got := stakeOf(t, l, 1, "val", "fan"); got < tao-1 || got > tao {
		t.Errorf("the fan has %d", got)
	}
	_, err = order(ledger.StakeOrder{Kind: ledger.StakeLeaveAlpha})
	must(t, err)
	if got := stakeOf(t, l, 1, "val", "val-cold") + stakeOf(t, l, 2, "val", "val-cold"); got != 0 {
		t.Errorf("%d are left", got)
	}
	if got := stakeOf(t, l, ledger.Root, "val", "val-cold"); got < 100*tao {
		t.Errorf("on the root network are %d", got)
	}
	same(t, l, 0)
}

// A registration's price buys alpha, which is burned.
func TestRegistrationBuysAlpha(t *testing.T) {
	ctx := t.Context()
	l := dynamic(t, 1000*tao)
	h := graph(t, l, 1).Hyper
	h.MinBurn, h.MaxBurn = 10*tao, 100*tao
	must(t, l.SetHyperparameters(ctx, 1, h))
	before := graph(t, l, 1).Pool
	enter(t, l, "late", 0)
	p := graph(t, l, 1).Pool
	in := uint64(10*tao) - pool.Fee(10*tao)
	if p.Tao != before.Tao+in || p.Out != before.Out {
		t.Errorf("pool %+v, before %+v", p, before)
	}
	near(t, "alpha", p.Alpha, 1000*tao*1000*tao/float64(1000*tao+in))
}
