package local

import (
	"context"
	"maps"
	"math/big"
	"slices"

	"github.com/agon-arena/agon/ledger"
)

// World copies out what the ledger has besides its subnets: stake by coldkey,
// children, the root network and its claims. It is empty where no subnet has a pool.
func (l *Ledger) World(ctx context.Context) (w *ledger.World, err error) {
	err = l.view(ctx, func(s *state) error {
		w = s.world()
		return nil
	})
	return w, err
}

func (s *state) world() *ledger.World {
	if s.Root == nil {
		return &ledger.World{}
	}
	w := &ledger.World{TaoWeight: taoWeight}
	w.RootTao, w.Coldkeys, w.RootClaims = s.Root.Total, slices.Clone(s.Root.Coldkeys), maps.Clone(s.Root.Kinds)
	w.Positions = s.positions(w.Positions, ledger.Root, &s.Root.stakeBook)
	w.TotalIssued = s.Root.Total
	for _, b := range s.Balances {
		w.TotalIssued = addRao(w.TotalIssued, b)
	}
	for _, p := range s.Proxies {
		w.TotalIssued = addRao(w.TotalIssued, p.Deposit)
	}
	for _, a := range s.Announced {
		w.TotalIssued = addRao(w.TotalIssued, a.Deposit)
	}
	for _, netuid := range s.order {
		sub := s.Subnets[netuid]
		w.Positions = s.positions(w.Positions, netuid, &sub.stakeBook)
		if sub.Alpha == nil {
			continue
		}
		w.TotalIssued = addRao(w.TotalIssued, sub.Alpha.Tao)
		sub.Alpha.into(w, netuid)
	}
	for _, hotkey := range slices.Sorted(maps.Keys(s.Root.Rates)) {
		for _, netuid := range slices.Sorted(maps.Keys(s.Root.Rates[hotkey])) {
			w.Claims = append(w.Claims, ledger.Claim{Netuid: netuid, Hotkey: hotkey, Rate: s.Root.Rates[hotkey][netuid]})
		}
	}
	for _, netuid := range slices.Sorted(maps.Keys(s.Root.Claimed)) {
		for _, hotkey := range slices.Sorted(maps.Keys(s.Root.Claimed[netuid])) {
			of := s.Root.Claimed[netuid][hotkey]
			for _, coldkey := range slices.Sorted(maps.Keys(of)) {
				w.Claimed = append(w.Claimed, ledger.Claimed{Netuid: netuid, Hotkey: hotkey, Coldkey: coldkey, Alpha: of[coldkey]})
			}
		}
	}
	return w
}

// positions lists the stakes of a subnet.
func (s *state) positions(to []ledger.Position, netuid uint16, b *stakeBook) []ledger.Position {
	for _, hotkey := range slices.Sorted(maps.Keys(b.Stakes)) {
		owner, held := s.Owners[hotkey], b.Shares[hotkey]
		whole := shareOf(b.Stakes[hotkey])
		if held != nil {
			whole = sharesIn(held)
		}
		for _, coldkey := range b.stakers(owner, hotkey) {
			mine := whole
			if held != nil {
				mine = new(big.Int).Set(held[coldkey])
			}
			to = append(to, ledger.Position{Netuid: netuid, Hotkey: hotkey, Coldkey: coldkey, Stake: b.of(owner, hotkey, coldkey), Shares: mine, Of: whole})
		}
	}
	return to
}

// into adds a subnet's families and dividends to w.
func (a *alpha) into(w *ledger.World, netuid uint16) {
	for _, parent := range slices.Sorted(maps.Keys(a.Children)) {
		w.Families = append(w.Families, ledger.Family{Netuid: netuid, Parent: parent, Children: slices.Clone(a.Children[parent])})
	}
	for _, parent := range slices.Sorted(maps.Keys(a.Coming)) {
		c := a.Coming[parent]
		w.Pending = append(w.Pending, ledger.Family{Netuid: netuid, Parent: parent, Children: slices.Clone(c.Children), From: c.From})
	}
	for _, hotkey := range slices.Sorted(maps.Keys(a.Takes)) {
		w.ChildTakes = append(w.ChildTakes, ledger.Take{Netuid: netuid, Hotkey: hotkey, Take: a.Takes[hotkey]})
	}
	for _, hotkey := range slices.Sorted(maps.Keys(a.Bonds)) {
		b := a.Bonds[hotkey]
		w.Collateral = append(w.Collateral, ledger.Collateral{Netuid: netuid, Hotkey: hotkey, Coldkey: b.Coldkey, Locked: b.Locked, Drain: b.Drain, Floor: b.Floor, Earned: b.Earned})
	}
	paid := maps.Clone(a.Dividends)
	if paid == nil {
		paid = map[string]uint64{}
	}
	for hotkey := range a.RootDividends {
		paid[hotkey] += 0 // named at least
	}
	for _, hotkey := range slices.Sorted(maps.Keys(paid)) {
		w.Dividends = append(w.Dividends, ledger.Dividend{Netuid: netuid, Hotkey: hotkey, Alpha: paid[hotkey], RootPart: a.RootDividends[hotkey]})
	}
}
