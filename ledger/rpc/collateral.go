package rpc

import (
	"context"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// Bonded is an Economy in which miners lock stake as collateral.
type Bonded interface {
	// AddCollateral returns the swap that it made, if it made one.
	AddCollateral(ctx context.Context, netuid uint16, hotkey, coldkey string, alpha, limit uint64) ([]ledger.Swap, error)
	SetMinCollateral(ctx context.Context, netuid uint16, hotkey, coldkey string, floor uint64) error
	World(ctx context.Context) (*ledger.World, error)
}

// applyCollateral changes what is locked. known is false for other calls.
func (s *Server) applyCollateral(ctx context.Context, signer, call string, a scale.Map) (events []any, known bool, err error) {
	l, ok := s.of(ctx).(Bonded)
	if !ok {
		return nil, false, nil
	}
	netuid, hotkey := uint16(number(a, "netuid")), address(a, "hotkey")
	switch call {
	case "set_min_collateral":
		floor := number(a, "min_locked")
		return []any{named("MinCollateralSet", scale.Map{"netuid": netuid, "hotkey": hotkey, "min_locked": floor})}, true, l.SetMinCollateral(ctx, netuid, hotkey, signer, floor)
	case "add_collateral":
		before, err := lockedOn(ctx, l, netuid, hotkey)
		if err != nil {
			return nil, true, err
		}
		bought, err := l.AddCollateral(ctx, netuid, hotkey, signer, number(a, "alpha"), number(a, "limit_price"))
		if err != nil {
			return nil, true, err
		}
		for _, x := range bought {
			events = append(events, s.ofStake("StakeAdded", signer, hotkey, x.Tao, x.Alpha, netuid, x.Fee))
		}
		after, err := lockedOn(ctx, l, netuid, hotkey)
		return append(events, lockedEvent(netuid, hotkey, before, after)), true, err
	}
	return nil, false, nil
}

func lockedEvent(netuid uint16, hotkey string, before, after uint64) any {
	return named("CollateralLocked", scale.Map{"netuid": netuid, "hotkey": hotkey, "locked": after - before, "total_locked": after})
}

// lockedOn is what is locked of a hotkey's stake on a subnet.
func lockedOn(ctx context.Context, l Bonded, netuid uint16, hotkey string) (uint64, error) {
	w, err := l.World(ctx)
	if err != nil {
		return 0, err
	}
	for _, c := range w.Collateral {
		if c.Netuid == netuid && c.Hotkey == hotkey {
			return c.Locked, nil
		}
	}
	return 0, nil
}

// registered makes a registration, with the event of what it locks.
func (s *Server) registered(ctx context.Context, netuid uint16, hotkey, signer string) ([]any, error) {
	l := s.of(ctx)
	bonded, ok := l.(Bonded)
	if !ok {
		uid, err := l.Register(ctx, netuid, hotkey, signer)
		return []any{ours("NeuronRegistered", netuid, uid, hotkey)}, err
	}
	before, err := lockedOn(ctx, bonded, netuid, hotkey)
	if err != nil {
		return nil, err
	}
	uid, err := l.Register(ctx, netuid, hotkey, signer)
	if err != nil {
		return nil, err
	}
	events := []any{ours("NeuronRegistered", netuid, uid, hotkey)}
	after, err := lockedOn(ctx, bonded, netuid, hotkey)
	if after > before {
		events = append(events, lockedEvent(netuid, hotkey, before, after))
	}
	return events, err
}

// collateral answers the items of what is locked; nil = nothing is.
func (r *reading) collateral(item string, keys []any) (any, error) {
	w, err := r.economy()
	if err != nil {
		return nil, err
	}
	var sum uint64
	for _, c := range w.Collateral {
		switch {
		case uint64(c.Netuid) != keys[0]:
		case item == "ColdkeyMinerCollateral" && c.Coldkey == keys[1]:
			sum += c.Locked
		case item == "MinerCollateral" && c.Hotkey == keys[1] && c.Coldkey == keys[2]:
			return scale.Map{"locked": c.Locked, "drain_ratio": drain(c.Drain), "min_locked": c.Floor, "earned": c.Earned}, nil
		}
	}
	if sum == 0 {
		return nil, nil
	}
	return sum, nil
}

// collateralKeys adds the keys of an item of what is locked.
func (r *reading) collateralKeys(kinds string, add func(keys ...any) error) error {
	w, err := r.economy()
	if err != nil {
		return err
	}
	type owner struct {
		netuid  uint16
		coldkey string
	}
	seen := map[owner]bool{} // a coldkey may have locked for several hotkeys
	for _, c := range w.Collateral {
		keys := []any{uint64(c.Netuid), c.Hotkey, c.Coldkey}
		if kinds == "na" {
			at := owner{c.Netuid, c.Coldkey}
			if seen[at] {
				continue
			}
			seen[at] = true
			keys = []any{uint64(c.Netuid), c.Coldkey}
		}
		if err := add(keys...); err != nil {
			return err
		}
	}
	return nil
}
