package local

import (
	"maps"
	"math/big"
	"slices"
)

// shareBits are the fraction bits of shares: what a coldkey has of a hotkey's
// stake is cut to a rao, not to more.
const shareBits = 32

// stakeBook is who has staked what on which hotkey, on one subnet. Dividends
// grow a hotkey's stake, and so what each share of it is worth.
type stakeBook struct {
	Stakes map[string]uint64 `json:"stakes"` // rao by hotkey, registered or not
	// Shares are by hotkey and coldkey. A hotkey that is not here is its owner's alone.
	Shares map[string]map[string]*big.Int `json:"shares,omitempty"`
}

// of is a coldkey's stake on a hotkey that belongs to owner.
func (b *stakeBook) of(owner, hotkey, coldkey string) uint64 {
	held := b.Shares[hotkey]
	if held == nil {
		if coldkey == owner {
			return b.Stakes[hotkey]
		}
		return 0
	}
	mine := held[coldkey]
	if mine == nil {
		return 0
	}
	return worth(mine, b.Stakes[hotkey], sharesIn(held))
}

func worth(shares *big.Int, stake uint64, of *big.Int) uint64 {
	if of.Sign() == 0 {
		return 0
	}
	x := new(big.Int).Mul(shares, new(big.Int).SetUint64(stake))
	return x.Quo(x, of).Uint64()
}

func sharesIn(held map[string]*big.Int) *big.Int {
	sum := new(big.Int)
	for _, x := range held {
		sum.Add(sum, x)
	}
	return sum
}

func shareOf(rao uint64) *big.Int {
	x := new(big.Int).SetUint64(rao)
	return x.Lsh(x, shareBits)
}

// add stakes rao of a coldkey.
func (b *stakeBook) add(owner, hotkey, coldkey string, rao uint64) {
	if rao == 0 {
		return
	}
	have, held := b.Stakes[hotkey], b.Shares[hotkey]
	b.Stakes[hotkey] = addRao(have, rao)
	if held == nil {
		if coldkey == owner {
			return
		}
		held = map[string]*big.Int{}
		if have > 0 {
			held[owner] = shareOf(have)
		}
		if b.Shares == nil {
			b.Shares = map[string]map[string]*big.Int{}
		}
		b.Shares[hotkey] = held
	}
	of := sharesIn(held)
	more := shareOf(rao)
	if have > 0 && of.Sign() > 0 {
		more = new(big.Int).Mul(new(big.Int).SetUint64(rao), of)
		more.Quo(more, new(big.Int).SetUint64(have))
	} else {
		clear(held)
	}
	if mine := held[coldkey]; mine != nil {
		more.Add(more, mine)
	}
	held[coldkey] = more
}

// grow gives rao to all who have staked on a hotkey, by their shares.
func (b *stakeBook) grow(hotkey string, rao uint64) {
	if rao > 0 {
		b.Stakes[hotkey] = addRao(b.Stakes[hotkey], rao)
	}
}

// take takes rao of a coldkey's stake, which has them.
func (b *stakeBook) take(owner, hotkey, coldkey string, rao uint64) {
	have, held := b.Stakes[hotkey], b.Shares[hotkey]
	if held != nil {
		mine := held[coldkey]
		if all := b.of(owner, hotkey, coldkey); rao >= all {
			delete(held, coldkey)
		} else {
			less := new(big.Int).Mul(new(big.Int).SetUint64(rao), sharesIn(held))
			less.Quo(less, new(big.Int).SetUint64(have))
			held[coldkey] = new(big.Int).Sub(mine, less)
		}
		if len(held) == 0 {
			delete(b.Shares, hotkey)
		}
	}
	b.Stakes[hotkey] = have - min(have, rao)
}

// stakers lists the coldkeys with stake on a hotkey, sorted.
func (b *stakeBook) stakers(owner, hotkey string) []string {
	if held := b.Shares[hotkey]; held != nil {
		return slices.Sorted(maps.Keys(held))
	}
	if b.Stakes[hotkey] > 0 && owner != "" {
		return []string{owner}
	}
	return nil
}
