package local

import (
	"context"
	"fmt"
	"math"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/pool"
)

// Stake moves stake as an order says, and tells what each swap on its way moved.
// The coldkey signs. On the root network a TAO of stake is a TAO.
func (l *Ledger) Stake(ctx context.Context, o ledger.StakeOrder) ([]ledger.Swap, error) {
	if err := checkAddresses(o.Hotkey, o.Coldkey); err != nil {
		return nil, err
	}
	for field, address := range map[string]string{"destination hotkey": o.ToHotkey, "destination coldkey": o.ToColdkey} {
		if address == "" {
			continue
		}
		if err := checkAddress(field, address); err != nil {
			return nil, err
		}
	}
	return l.swaps(ctx, &extrinsic{Call: callStake, Netuid: o.Netuid, Hotkey: o.Hotkey, Coldkey: o.Coldkey, Order: &o})
}

// stakeOrder applies an order. A part of it that is refused undoes the others: what
// changes is put down in a copy of what they touch.
func (s *state) stakeOrder(x *extrinsic) error {
	o := x.Order
	if _, ok := s.Owners[o.Hotkey]; !ok {
		return ledger.ErrNoHotkey
	}
	switch o.Kind {
	case ledger.StakeAdd:
		return s.orderAdd(o)
	case ledger.StakeRemove:
		return s.orderRemove(o)
	case ledger.StakeMove:
		return s.orderMove(o)
	case ledger.StakeLeave, ledger.StakeLeaveAlpha:
		return s.orderLeave(o)
	case ledger.StakeBurn, ledger.StakeRecycle:
		return s.orderBurn(o)
	}
	return fmt.Errorf("unknown order %q", o.Kind)
}

// place is where stake is: on a subnet with a pool, or on the root network.
type place struct {
	netuid uint16
	book   *stakeBook
	alpha  *alpha // nil: the root network, where a TAO of stake is a TAO
}

func (s *state) place(netuid uint16) (place, error) {
	if netuid == ledger.Root {
		if s.Root == nil {
			return place{}, errNoRoot
		}
		return place{netuid, &s.Root.stakeBook, nil}, nil
	}
	sub, err := s.withAlpha(netuid)
	if err != nil {
		return place{}, err
	}
	return place{netuid, &sub.stakeBook, sub.Alpha}, nil
}

// limitOf is an order's worst price with 64 fraction bits; none = otherwise.
func limitOf(o *ledger.StakeOrder, otherwise pool.Wide) pool.Wide {
	if o.Limit == nil {
		return otherwise
	}
	return pool.OfRao(*o.Limit)
}

// try gives what a swap would move, and changes nothing.
func (p place) try(rao uint64, limit pool.Wide, buy, free bool) (ledger.Swap, error) {
	if p.alpha == nil {
		one := pool.F64(1)
		if buy && limit.Less(one) || !buy && one.Less(limit) {
			return ledger.Swap{}, nil // the price never moves there
		}
		return ledger.Swap{Tao: rao, Alpha: rao}, nil
	}
	r := p.alpha.Reserves
	if buy {
		return r.Buy(rao, limit, free)
	}
	return r.Sell(rao, limit, free)
}

// within cuts an amount to what the limit allows, or refuses.
func within(o *ledger.StakeOrder, p place, amount uint64, limit pool.Wide, buy bool) (uint64, error) {
	if p.alpha != nil {
		have := p.alpha.Tao
		if !buy {
			have = p.alpha.Alpha
		}
		if have < math.MaxUint64/pool.MaxInput && amount > have*pool.MaxInput {
			return 0, ledger.ErrLiquidity.With(fmt.Sprintf("%d rao: the pool has %d", amount, have))
		}
	}
	if o.Limit == nil {
		return amount, nil
	}
	could, err := p.try(amount, limit, buy, false)
	if err != nil {
		return 0, err
	}
	most := could.Tao
	if !buy {
		most = could.Alpha
	}
	if amount > most && !o.Partial {
		return 0, ledger.ErrSlippage.With(fmt.Sprintf("%d rao: only %d within the limit", amount, most))
	}
	return min(amount, most), nil
}

func (s *state) orderAdd(o *ledger.StakeOrder) error {
	p, err := s.place(o.Netuid)
	if err != nil {
		return err
	}
	limit := limitOf(o, highest)
	rao, err := within(o, p, o.Amount, limit, true)
	if err != nil {
		return err
	}
	least := uint64(pool.MinStake)
	if p.alpha != nil {
		least += pool.Fee(pool.MinStake)
	}
	have := s.balance(o.Coldkey)
	switch {
	case o.Amount < least || rao < least:
		return ledger.ErrAmountTooLow.With(fmt.Sprintf("stake %d rao: at least %d", min(o.Amount, rao), least))
	case rao > have:
		return ledger.ErrNotEnoughBalance.With(fmt.Sprintf("stake %d rao: the coldkey has %d", rao, have))
	}
	if _, err := p.try(rao, limit, true, false); err != nil {
		return err
	}
	s.Balances[o.Coldkey] = have - rao
	return s.stakeInto(p, o.Hotkey, o.Coldkey, rao, limit, false)
}

// stakeInto swaps rao, which somebody has paid, into stake.
func (s *state) stakeInto(p place, hotkey, coldkey string, rao uint64, limit pool.Wide, free bool) error {
	if p.alpha == nil {
		s.stakeRoot(hotkey, coldkey, rao)
		s.swapped = append(s.swapped, ledger.Swap{Tao: rao, Alpha: rao})
		return nil
	}
	bought, err := p.alpha.Buy(rao, limit, free)
	if err != nil {
		return err
	}
	p.alpha.Out, p.alpha.Volume = addRao(p.alpha.Out, bought.Alpha), addRao(p.alpha.Volume, bought.Tao)
	if rao > bought.Tao { // the limit was reached first
		s.credit(coldkey, rao-bought.Tao)
	}
	p.book.add(s.Owners[hotkey], hotkey, coldkey, bought.Alpha)
	s.swapped = append(s.swapped, bought)
	return nil
}

func (s *state) orderRemove(o *ledger.StakeOrder) error {
	p, err := s.place(o.Netuid)
	if err != nil {
		return err
	}
	have := p.book.of(s.Owners[o.Hotkey], o.Hotkey, o.Coldkey)
	amount := o.Amount
	if o.All {
		amount = have
	}
	if amount == 0 {
		return ledger.ErrAmountTooLow
	}
	if amount > have {
		return ledger.ErrNotEnoughStakeLeft.With(fmt.Sprintf("take %d rao back: the coldkey's stake on the hotkey is %d", amount, have))
	}
	if err := p.unbound(s.Owners[o.Hotkey], o.Hotkey, o.Coldkey, have, amount); err != nil {
		return err
	}
	limit := limitOf(o, lowest)
	if amount, err = within(o, p, amount, limit, false); err != nil {
		return err
	}
	would, err := p.try(amount, limit, false, false)
	if err != nil {
		return ledger.ErrLiquidity.With(err.Error())
	}
	if amount < have && would.Tao < pool.MinStake {
		return ledger.ErrAmountTooLow.With(fmt.Sprintf("%d rao of stake are worth %d rao: at least %d", amount, would.Tao, pool.MinStake))
	}
	rao, err := s.unstakeFrom(p, o.Hotkey, o.Coldkey, amount, limit, false)
	if err != nil {
		return err
	}
	s.credit(o.Coldkey, rao)
	return nil
}

// unstakeFrom swaps stake, which is there, into rao for somebody.
func (s *state) unstakeFrom(p place, hotkey, coldkey string, amount uint64, limit pool.Wide, free bool) (uint64, error) {
	if p.alpha == nil {
		s.unstakeRoot(hotkey, coldkey, amount)
		s.swapped = append(s.swapped, ledger.Swap{Tao: amount, Alpha: amount})
		return amount, nil
	}
	sold, err := p.alpha.Sell(amount, limit, free)
	if err != nil {
		return 0, err
	}
	// No block has an author here, who would get the fee: it is burned, and stays counted.
	p.book.take(s.Owners[hotkey], hotkey, coldkey, sold.Alpha)
	p.alpha.Out -= min(p.alpha.Out, sold.Alpha-sold.Fee)
	p.alpha.Volume = addRao(p.alpha.Volume, sold.Tao)
	s.swapped = append(s.swapped, sold)
	return sold.Tao, nil
}

// orderMove moves stake to another hotkey, coldkey or subnet. Between subnets it is
// sold and bought; the fee is taken once.
func (s *state) orderMove(o *ledger.StakeOrder) error {
	from, err := s.place(o.Netuid)
	if err != nil {
		return err
	}
	to, err := s.place(o.ToNetuid)
	if err != nil {
		return err
	}
	toHotkey, toColdkey := o.ToHotkey, o.ToColdkey
	if toHotkey == "" {
		toHotkey = o.Hotkey
	}
	if toColdkey == "" {
		toColdkey = o.Coldkey
	}
	if _, ok := s.Owners[toHotkey]; !ok {
		return ledger.ErrNoHotkey
	}
	have := from.book.of(s.Owners[o.Hotkey], o.Hotkey, o.Coldkey)
	switch {
	case o.Netuid == o.ToNetuid && toHotkey == o.Hotkey && toColdkey == o.Coldkey:
		return ledger.ErrSameSubnet
	case o.Amount == 0:
		return ledger.ErrAmountTooLow
	case o.Amount > have:
		return ledger.ErrNotEnoughStakeLeft.With(fmt.Sprintf("move %d rao: the coldkey's stake on the hotkey is %d", o.Amount, have))
	}
	if err := from.unbound(s.Owners[o.Hotkey], o.Hotkey, o.Coldkey, have, o.Amount); err != nil {
		return err
	}
	would, err := from.try(o.Amount, lowest, false, o.Netuid == ledger.Root)
	if err != nil {
		return ledger.ErrLiquidity.With(err.Error())
	}
	if would.Tao < pool.MinStake {
		return ledger.ErrAmountTooLow.With(fmt.Sprintf("%d rao of stake are worth %d rao: at least %d", o.Amount, would.Tao, pool.MinStake))
	}
	if o.Netuid == o.ToNetuid {
		return s.handOver(from, o, toHotkey, toColdkey)
	}
	bought, err := to.try(would.Tao, highest, true, o.Netuid != ledger.Root)
	if err != nil {
		return ledger.ErrLiquidity.With(err.Error())
	}
	if o.Limit != nil && pool.Ratio(bought.Alpha, o.Amount).Less(pool.OfRao(*o.Limit)) {
		return ledger.ErrSlippage
	}
	rao, err := s.unstakeFrom(from, o.Hotkey, o.Coldkey, o.Amount, lowest, o.Netuid == ledger.Root)
	if err != nil {
		return err
	}
	return s.stakeInto(to, toHotkey, toColdkey, rao, highest, o.Netuid != ledger.Root)
}

// handOver moves stake on one subnet; nothing is swapped.
func (s *state) handOver(p place, o *ledger.StakeOrder, toHotkey, toColdkey string) error {
	if p.netuid == ledger.Root {
		s.unstakeRoot(o.Hotkey, o.Coldkey, o.Amount)
		s.stakeRoot(toHotkey, toColdkey, o.Amount)
	} else {
		p.book.take(s.Owners[o.Hotkey], o.Hotkey, o.Coldkey, o.Amount)
		p.book.add(s.Owners[toHotkey], toHotkey, toColdkey, o.Amount)
	}
	price := pool.F64(1)
	if p.alpha != nil {
		price = p.alpha.Price()
	}
	moved := ledger.Swap{Tao: price.Mul(pool.F64(o.Amount), 64).Whole64(), Alpha: o.Amount}
	s.swapped = append(s.swapped, moved, moved)
	return nil
}

// orderLeave takes all stake of a coldkey on a hotkey back, subnet after subnet;
// what cannot be sold stays. StakeLeaveAlpha puts what it fetches on the root network.
func (s *state) orderLeave(o *ledger.StakeOrder) error {
	var sum uint64
	for _, netuid := range append([]uint16{ledger.Root}, s.order...) {
		p, err := s.place(netuid)
		if err != nil || p.alpha == nil && o.Kind == ledger.StakeLeaveAlpha {
			continue // nothing is staked there by an order
		}
		have := p.book.of(s.Owners[o.Hotkey], o.Hotkey, o.Coldkey)
		if have == 0 || p.unbound(s.Owners[o.Hotkey], o.Hotkey, o.Coldkey, have, have) != nil {
			continue
		}
		rao, err := s.unstakeFrom(p, o.Hotkey, o.Coldkey, have, lowest, false)
		if err != nil {
			continue
		}
		sum = addRao(sum, rao)
	}
	switch {
	case sum == 0:
		return ledger.ErrAmountTooLow
	case o.Kind == ledger.StakeLeaveAlpha:
		s.stakeRoot(o.Hotkey, o.Coldkey, sum)
		s.swapped = append(s.swapped, ledger.Swap{Tao: sum, Alpha: sum})
	default:
		s.credit(o.Coldkey, sum)
	}
	return nil
}

// orderBurn destroys stake: burned alpha stays counted as made, recycled alpha does not.
func (s *state) orderBurn(o *ledger.StakeOrder) error {
	if o.Netuid == ledger.Root {
		return ledger.ErrBurnOnRoot
	}
	p, err := s.place(o.Netuid)
	if err != nil {
		return err
	}
	have := p.book.of(s.Owners[o.Hotkey], o.Hotkey, o.Coldkey)
	amount := min(o.Amount, have)
	if err := p.unbound(s.Owners[o.Hotkey], o.Hotkey, o.Coldkey, have, amount); err != nil {
		return err
	}
	p.book.take(s.Owners[o.Hotkey], o.Hotkey, o.Coldkey, amount)
	if p.alpha != nil && o.Kind == ledger.StakeRecycle {
		p.alpha.recycle(amount)
	}
	s.swapped = append(s.swapped, ledger.Swap{Alpha: amount})
	return nil
}
