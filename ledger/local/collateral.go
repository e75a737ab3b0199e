package local

import (
	"context"
	"fmt"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/pool"
)

// Bounds of the rules about collateral, as the chain has them: 95 % of a price, ten alpha for one earned.
const (
	maxCollateralShare = 62_258
	maxCollateralDrain = 10 << 32
)

// bond is the collateral of a coldkey's stake on its hotkey: so much of it may not
// be taken back until it is earned.
type bond struct {
	Coldkey string `json:"coldkey"`
	Locked  uint64 `json:"locked"` // rao of alpha
	Drain   uint64 `json:"drain"`  // set free by an alpha earned, of 2^32, as the subnet had it at the registration
	Floor   uint64 `json:"floor"`  // what stays locked; below it what is earned is locked too
	Earned  uint64 `json:"earned"` // ever
}

// bonds are by hotkey: only its owner has one.
type bonds map[string]*bond

func (h bonds) locked(hotkey string) uint64 {
	if b := h[hotkey]; b != nil {
		return b.Locked
	}
	return 0
}

// AddCollateral locks alpha of a coldkey's stake on its hotkey, and buys what is
// missing at no worse price than limit, in rao an alpha. The coldkey signs. It returns the swap, if there was one.
func (l *Ledger) AddCollateral(ctx context.Context, netuid uint16, hotkey, coldkey string, alpha, limit uint64) ([]ledger.Swap, error) {
	return l.swaps(ctx, &extrinsic{Call: callCollateral, Netuid: netuid, Hotkey: hotkey, Coldkey: coldkey, Rao: alpha, Nonce: limit})
}

// SetMinCollateral sets what stays locked of a hotkey's collateral; below it what
// the hotkey earns is locked too. The coldkey signs.
func (l *Ledger) SetMinCollateral(ctx context.Context, netuid uint16, hotkey, coldkey string, floor uint64) error {
	_, _, err := l.call(ctx, &extrinsic{Call: callFloor, Netuid: netuid, Hotkey: hotkey, Coldkey: coldkey, Rao: floor})
	return err
}

// bondable is a subnet with alpha, of a call about a hotkey's collateral by its owner.
func (s *state) bondable(x *extrinsic) (*subnet, error) {
	if x.Netuid == ledger.Root {
		return nil, ledger.ErrRootRegistration
	}
	sub, err := s.withAlpha(x.Netuid)
	if err != nil {
		return nil, err
	}
	switch owner, ok := s.Owners[x.Hotkey]; {
	case !ok:
		return nil, ledger.ErrNoHotkey
	case owner != x.Coldkey:
		return nil, ledger.ErrNonAssociatedColdkey
	}
	return sub, nil
}

func (s *state) addCollateral(x *extrinsic) error {
	sub, err := s.bondable(x)
	if err != nil {
		return err
	}
	a := sub.Alpha
	free := sub.of(x.Coldkey, x.Hotkey, x.Coldkey)
	free -= min(free, a.Bonds.locked(x.Hotkey))
	short := x.Rao - min(x.Rao, free)
	switch {
	case x.Rao == 0:
		return ledger.ErrAmountTooLow
	case short == 0:
		sub.lock(x.Hotkey, x.Coldkey, x.Rao, false)
		return nil
	case a.Moving == 0:
		return ledger.ErrLiquidity.With("the moving price is 0")
	}
	limit := x.Nonce
	rao := pool.F64(short).Mul(pool.Wide{Lo: a.Moving}.To64(), 64).Whole64()
	before := sub.Stakes[x.Hotkey]
	if err := s.orderAdd(&ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: x.Netuid, Hotkey: x.Hotkey, Coldkey: x.Coldkey, Amount: rao, Limit: &limit}); err != nil {
		return err
	}
	sub.lock(x.Hotkey, x.Coldkey, x.Rao-short+sub.Stakes[x.Hotkey]-before, false)
	return nil
}

func (s *state) setFloor(x *extrinsic) error {
	sub, err := s.bondable(x)
	if err != nil {
		return err
	}
	b := sub.Alpha.Bonds[x.Hotkey]
	if b == nil {
		if x.Rao == 0 {
			return nil
		}
		b = sub.lock(x.Hotkey, x.Coldkey, 0, false)
	}
	b.Floor = x.Rao
	sub.Alpha.Bonds.tidy(x.Hotkey)
	return nil
}

// lock counts alpha of a hotkey's owner as collateral. A registration takes the subnet's drain anew.
func (sub *subnet) lock(hotkey, coldkey string, rao uint64, anew bool) *bond {
	drain := sub.Hyper.CollateralDrain
	if drain == 0 {
		drain = 1 << 32
	}
	b := sub.Alpha.Bonds[hotkey]
	if b == nil {
		b = &bond{Coldkey: coldkey, Drain: drain}
		sub.Alpha.Bonds = put(sub.Alpha.Bonds, hotkey, b)
	}
	if b.Locked = addRao(b.Locked, rao); anew {
		b.Drain = drain
	}
	return b
}

// tidy forgets a bond that locks nothing, and is not going to.
func (h bonds) tidy(hotkey string) {
	if b := h[hotkey]; b != nil && b.Locked == 0 && b.Floor == 0 {
		delete(h, hotkey)
	}
}

// earn settles a hotkey's collateral with what it earned in an epoch. Of that ownersPart is
// already staked for its owner: below the floor it is locked.
func (sub *subnet) earn(hotkey string, rao, ownersPart uint64) {
	b := sub.Alpha.Bonds[hotkey]
	if b == nil || rao == 0 {
		return
	}
	b.Earned = addRao(b.Earned, rao)
	if b.Locked < b.Floor {
		b.Locked += min(ownersPart, b.Floor-b.Locked)
		return
	}
	b.Locked -= min(b.Locked-b.Floor, pool.F32(rao).Mul(pool.Wide{Lo: b.Drain}, 32).Whole32())
	sub.Alpha.Bonds.tidy(hotkey)
}

// unbound refuses to take stake that is collateral.
func (p place) unbound(owner, hotkey, coldkey string, have, rao uint64) error {
	if p.alpha == nil || coldkey != owner {
		return nil
	}
	if locked := p.alpha.Bonds.locked(hotkey); rao > have-min(have, locked) {
		return ledger.ErrStakeUnavailable.With(fmt.Sprintf("%d rao: %d of the stake of %d are collateral", rao, locked, have))
	}
	return nil
}

// priced is what a registration at a price costs a coldkey, in rao: what is burned of it, and
// what is added to the hotkey's collateral. What is locked already counts at the moving price.
func (sub *subnet) priced(price uint64, hotkey string) (burned, locked uint64) {
	if sub.Alpha == nil || sub.Hyper.CollateralShare == 0 {
		return price, 0
	}
	want := pool.F64(price).Mul(pool.Ratio(uint64(sub.Hyper.CollateralShare), 65535), 64).Whole64()
	have := pool.F64(sub.Alpha.Bonds.locked(hotkey)).Mul(pool.Wide{Lo: sub.Alpha.Moving}.To64(), 64).Whole64()
	return price - want, want - min(want, have)
}

// payRegistration swaps what a registration costs for alpha: the part that is burned is
// gone, the rest is the hotkey's collateral. Where it is refused nothing has changed.
func (s *state) payRegistration(sub *subnet, hotkey, coldkey string, burned, locked uint64) error {
	rao, balance := addRao(burned, locked), s.balance(coldkey)
	if a := sub.Alpha; a != nil && rao > 0 {
		limit := highest
		if locked > 0 { // 5 % over the price
			limit, _ = a.Price().Mul(pool.F64(105), 64).Div(pool.F64(100), 64)
		}
		bought, err := a.Buy(rao, limit, false)
		if err != nil {
			return err
		}
		a.Volume = addRao(a.Volume, bought.Tao)
		if locked > 0 {
			alpha := pool.F64(bought.Alpha).Mul(pool.Ratio(locked, rao), 64).Whole64()
			a.Out = addRao(a.Out, alpha)
			sub.add(coldkey, hotkey, coldkey, alpha)
			sub.lock(hotkey, coldkey, alpha, true)
		}
		balance += rao - min(rao, bought.Tao) // the limit was reached first
	}
	if rao > 0 {
		s.Balances[coldkey] = balance - rao
		sub.Burned = addRao(sub.Burned, burned)
	}
	if sub.Alpha != nil && sub.Alpha.Bonds[hotkey] != nil {
		sub.lock(hotkey, coldkey, 0, true)
	}
	return nil
}
