package local

import (
	"fmt"
	"math/big"
	"math/bits"
	"slices"

	"github.com/agon-arena/agon/ledger"
)

// burn is what a registration costs in block: the price halves every
// BurnHalfLife blocks since it was last raised. It is computed from that block
// in one step, so that it does not matter which blocks were looked at.
func (sub *subnet) burn(block uint64) uint64 {
	h := &sub.Hyper
	price := sub.Price
	if h.BurnHalfLife > 0 {
		price = decay(price, block-sub.PriceAt, h.BurnHalfLife)
	}
	return min(max(price, h.MinBurn), h.MaxBurn)
}

// raiseBurn sets the price after a registration in block.
func (sub *subnet) raiseBurn(block uint64) {
	h := &sub.Hyper
	hi, lo := bits.Mul64(sub.burn(block), h.BurnIncrease)
	price := h.MaxBurn
	if hi < 1_000_000 {
		price, _ = bits.Div64(hi, lo, 1_000_000)
	}
	sub.Price, sub.PriceAt = min(max(price, h.MinBurn), h.MaxBurn), block
}

// decay is price·2^(-blocks/half), rounded down.
func decay(price, blocks, half uint64) uint64 {
	if blocks/half >= 64 {
		return 0
	}
	price >>= blocks / half
	// The fraction of a half-life, in 32 bits: 2^-x is the product of the square
	// roots of 1/2 whose bits are set. All in integers: the same on every machine.
	fraction, _ := bits.Div64(blocks%half>>32, blocks%half<<32, half)
	if fraction == 0 {
		return price
	}
	const precision = 64
	factor := new(big.Int).Lsh(big.NewInt(1), precision)
	root := new(big.Int).Lsh(big.NewInt(1), precision-1) // 1/2
	for bit := 31; bit >= 0; bit-- {
		root.Sqrt(root.Lsh(root, precision))
		if fraction>>bit&1 == 1 {
			factor.Rsh(factor.Mul(factor, root), precision)
		}
	}
	factor.Mul(factor, new(big.Int).SetUint64(price))
	return factor.Rsh(factor, precision).Uint64()
}

// victim is the uid that a registration evicts: the lowest emission, then the
// oldest, then the lowest uid, of those out of immunity; where hardly any are
// left, of the immune ones. The owner's hotkey never goes.
func (sub *subnet) victim(block uint64) (uid int, err error) {
	var mortal, immune []int
	for i, n := range sub.Neurons {
		switch {
		case n.Hotkey == sub.OwnerHotkey:
		case block-n.RegisteredAt < sub.Hyper.ImmunityPeriod:
			immune = append(immune, i)
		default:
			mortal = append(mortal, i)
		}
	}
	from := mortal
	if len(immune) > 0 && len(mortal) <= int(sub.Hyper.MinNonImmuneUIDs) || len(mortal) == 0 {
		from = immune
	}
	if len(from) == 0 {
		return 0, ledger.ErrSubnetFull.With(fmt.Sprintf("all %d uids are taken and none may be evicted", len(sub.Neurons)))
	}
	return slices.MinFunc(from, func(a, b int) int {
		x, y := sub.Neurons[a], sub.Neurons[b]
		switch {
		case x.Emission != y.Emission:
			return order(x.Emission, y.Emission)
		case x.RegisteredAt != y.RegisteredAt:
			return order(x.RegisteredAt, y.RegisteredAt)
		}
		return a - b
	}), nil
}

func order(a, b uint64) int {
	if a < b {
		return -1
	}
	return 1
}
