package local

import (
	"errors"
	"math"
	"testing"

	"github.com/agon-arena/agon/ledger"
)

// bonded is a subnet with a pool on which a registration costs a TAO, half of it collateral.
func bonded(t testing.TB) (*Ledger, string) {
	t.Helper()
	l := dynamic(t, 100_000*tao)
	owner := key(t, "owner-cold")
	for name, v := range map[string]int64{"max_burn": tao, "collateral_lock_share": 32_768, "collateral_drain_ratio": 1 << 26} {
		must(t, l.SetRule(t.Context(), 1, owner, name, v))
	}
	must(t, l.SetRule(t.Context(), 1, owner, "min_burn", tao))
	return l, owner
}

func collateral(t testing.TB, l *Ledger, name string) ledger.Collateral {
	t.Helper()
	w, err := l.World(t.Context())
	must(t, err)
	for _, c := range w.Collateral {
		if c.Hotkey == key(t, name) {
			return c
		}
	}
	return ledger.Collateral{}
}

// TestCollateral: a part of a registration's price is stake that cannot leave until as much is earned, and
// counts when the hotkey registers again.
func TestCollateral(t *testing.T) {
	l, owner := bonded(t)
	ctx := t.Context()
	balance := func(name string) uint64 {
		b, err := l.Balance(ctx, key(t, name+"-cold"))
		must(t, err)
		return b
	}
	must(t, l.Fund(ctx, key(t, "m-cold"), 0))
	had := balance("m")
	uid := enter(t, l, "m", 0)
	if paid := had - balance("m"); paid != tao {
		t.Errorf("a registration at a TAO cost %d rao", paid)
	}
	c := collateral(t, l, "m")
	near(t, "locked", c.Locked, 32_768.0/65_535*tao*(1-33.0/65_535)*(1-1.0/100_000))
	if c.Drain != 1<<26 || c.Floor != 0 || c.Earned != 0 || c.Coldkey != key(t, "m-cold") || stakeOf(t, l, 1, "m", "m-cold") != c.Locked {
		t.Errorf("collateral %+v of a stake of %d", c, stakeOf(t, l, 1, "m", "m-cold"))
	}
	order := func(kind string, rao uint64) error {
		_, err := l.Stake(ctx, ledger.StakeOrder{Kind: kind, Netuid: 1, Hotkey: key(t, "m"), Coldkey: key(t, "m-cold"), Amount: rao, ToNetuid: 1, ToColdkey: key(t, "other-cold")})
		return err
	}
	for _, kind := range []string{ledger.StakeRemove, ledger.StakeMove, ledger.StakeBurn, ledger.StakeRecycle} {
		if err := order(kind, c.Locked/2); !errors.Is(err, ledger.ErrStakeUnavailable) {
			t.Errorf("%s of collateral: %v", kind, err)
		}
	}
	if err := order(ledger.StakeLeave, 0); !errors.Is(err, ledger.ErrAmountTooLow) {
		t.Errorf("leaving with collateral alone: %v", err)
	}
	must(t, l.AddStake(ctx, 1, key(t, "m"), key(t, "m-cold"), 10*tao), order(ledger.StakeRemove, 5*tao))
	// Others who stake on the hotkey are free.
	if _, err := l.Stake(ctx, ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: 1, Hotkey: key(t, "m"), Coldkey: key(t, "fan"), Amount: tao}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Stake(ctx, ledger.StakeOrder{Kind: ledger.StakeRemove, Netuid: 1, Hotkey: key(t, "m"), Coldkey: key(t, "fan"), All: true}); err != nil {
		t.Errorf("stake of another on the hotkey: %v", err)
	}
	// A floor above what is locked: what is earned is locked. Without it, a 64th of an alpha is freed by one earned.
	must(t, l.SetMinCollateral(ctx, 1, key(t, "m"), key(t, "m-cold"), c.Locked+1000), l.SetRule(ctx, 1, owner, "null_consensus", 1), l.TriggerEpoch(ctx, 1))
	_, err := l.Step(ctx, 2)
	must(t, err)
	if after := collateral(t, l, "m"); after.Locked != c.Locked+1000 || after.Earned == 0 {
		t.Errorf("below the floor: %+v", after)
	}
	must(t, l.SetMinCollateral(ctx, 1, key(t, "m"), key(t, "m-cold"), c.Locked), l.TriggerEpoch(ctx, 1))
	before := collateral(t, l, "m")
	_, err = l.Step(ctx, 2)
	must(t, err)
	if after := collateral(t, l, "m"); after.Locked != c.Locked {
		t.Errorf("down to the floor: %+v, before %+v", after, before)
	}
	must(t, l.SetMinCollateral(ctx, 1, key(t, "m"), key(t, "m-cold"), 0), l.TriggerEpoch(ctx, 1))
	before = collateral(t, l, "m")
	_, err = l.Step(ctx, 2)
	must(t, err)
	after := collateral(t, l, "m")
	if earned := after.Earned - before.Earned; earned == 0 || math.Abs(float64(before.Locked-after.Locked)-float64(earned)/64) > 2 {
		t.Errorf("%d earned set %d free", earned, before.Locked-after.Locked)
	}
	// It is there when the hotkey comes again, at the rules of then: only what is missing is paid.
	must(t, l.view(ctx, func(s *state) error {
		sub := s.Subnets[1]
		burned, locked := sub.priced(tao, key(t, "m"))
		if want := uint64(tao) * 32_768 / 65_535; burned != tao-want || locked >= want || locked+after.Locked < want-want/1000 {
			t.Errorf("coming again costs %d and %d with %d locked", burned, locked, after.Locked)
		}
		return nil
	}))
	if uid == 0 {
		t.Error("the miner is the owner")
	}
}

// TestAddCollateral: stake that is free is locked first, and the rest is bought.
func TestAddCollateral(t *testing.T) {
	l, owner := bonded(t)
	ctx := t.Context()
	must(t, l.SetRule(ctx, 1, owner, "collateral_lock_share", 0))
	enter(t, l, "m", 3*tao)
	if c := collateral(t, l, "m"); c.Locked != 0 {
		t.Fatalf("locked without a share: %+v", c)
	}
	stake := stakeOf(t, l, 1, "m", "m-cold")
	add := func(cold string, alpha, limit uint64) error {
		_, err := l.AddCollateral(ctx, 1, key(t, "m"), key(t, cold), alpha, limit)
		return err
	}
	for name, c := range map[string]struct{ err, want error }{
		"by another":          {add("other-cold", tao, 2*tao), ledger.ErrNonAssociatedColdkey},
		"nothing":             {add("m-cold", 0, 2*tao), ledger.ErrAmountTooLow},
		"at a price of old":   {add("m-cold", stake+5*tao, tao/2), ledger.ErrPriceExceeded},
		"a floor of another":  {l.SetMinCollateral(ctx, 1, key(t, "m"), key(t, "other-cold"), 5), ledger.ErrNonAssociatedColdkey},
		"on the root network": {l.SetMinCollateral(ctx, ledger.Root, key(t, "m"), key(t, "m-cold"), 5), ledger.ErrRootRegistration},
		"a share of 96 %":     {l.SetRule(ctx, 1, owner, "collateral_lock_share", 62_259), ledger.ErrCollateralShare},
		"a drain of nothing":  {l.SetRule(ctx, 1, owner, "collateral_drain_ratio", 0), ledger.ErrCollateralDrain},
		"a drain over ten":    {l.SetRule(ctx, 1, owner, "collateral_drain_ratio", 10<<32+1), ledger.ErrCollateralDrain},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if c := collateral(t, l, "m"); c.Locked != 0 {
		t.Errorf("locked by what was refused: %+v", c)
	}
	must(t, add("m-cold", tao, 2*tao))
	if c := collateral(t, l, "m"); c.Locked != tao || stakeOf(t, l, 1, "m", "m-cold") != stake {
		t.Errorf("locked of stake: %+v", c)
	}
	must(t, add("m-cold", 5*tao, 2*tao))
	c := collateral(t, l, "m")
	if short := 6*tao - c.Locked; short < tao/1000 || short > 5*tao/1000 { // the fee, and how far the price moved
		t.Errorf("locked with what was bought: %d", c.Locked)
	}
	if now := stakeOf(t, l, 1, "m", "m-cold"); now != c.Locked {
		t.Errorf("stake of %d, %d of it locked", now, c.Locked)
	}
}
