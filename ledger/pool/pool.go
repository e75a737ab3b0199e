// Package pool is the arithmetic of a subnet's alpha, as the chain has it since
// it has weights on its reserves: price, swaps, what a block puts in, the moving
// price, and the block's emission (spec/chain.md 4.6). It is pure, and all in integers.
package pool

import (
	"math/big"
	"math/bits"

	"github.com/agon-arena/agon/ledger"
)

// Limits and rates of the chain.
const (
	// MinReserve is what a side of a pool has at least for a swap to take from it.
	MinReserve = 1_000_000
	// MaxInput is how often a swap's input may be the reserve that it goes to.
	MaxInput = 1000
	// FeeRate is the fee of a swap, of 65535.
	FeeRate = 33
	// MinStake is the least that is staked or taken back at once, in rao.
	MinStake = 2_000_000
	// HalvingBlocks is how fast the moving price follows the price at first.
	HalvingBlocks = 201_600
	// Rao is a TAO, and an alpha.
	Rao = 1_000_000_000

	// movingAlpha is the largest part of the price in its average, 0.000003 with 32 fraction bits.
	movingAlpha = 12_885
	// minWeight is the least weight of a side, a hundredth.
	minWeight = Scale / 100
	// maxSupply is how many rao there will ever be, of TAO and of each alpha.
	maxSupply = 21_000_000 * uint64(Rao)
)

// Reserves are the two sides of a pool. Its price is what they and the weight say.
type Reserves struct {
	Tao   uint64 `json:"tao"`   // rao
	Alpha uint64 `json:"alpha"` // rao of alpha
	Quote uint64 `json:"quote"` // the weight of TAO, of Scale; alpha has the rest
}

// New is a pool in which both sides weigh alike.
func New(tao, alpha uint64) Reserves { return Reserves{Tao: tao, Alpha: alpha, Quote: Scale / 2} }

// Price is what an alpha costs, in TAO with 64 fraction bits: (w1·tao)/(w2·alpha).
func (r *Reserves) Price() Wide {
	if r.Alpha == 0 {
		return Wide{}
	}
	return Ratio(Scale-r.Quote, r.Quote).Mul(Ratio(r.Tao, r.Alpha), 64)
}

// InRao is a price in rao an alpha.
func InRao(price Wide) uint64 { return price.Mul(F64(Rao), 64).Whole64() }

// OfRao is a price of so many rao an alpha, with 64 fraction bits.
func OfRao(rao uint64) Wide { return Ratio(rao, Rao) }

// Fee is what a swap of an amount costs, in what is paid.
func Fee(amount uint64) uint64 { return F64(amount).Mul(Ratio(FeeRate, 65535), 64).Whole64() }

// Buy swaps rao for alpha: at most all of them, and no further than the limit's
// price (64 fraction bits). free charges no fee. The reserves change where err is nil.
func (r *Reserves) Buy(rao uint64, limit Wide, free bool) (ledger.Swap, error) {
	if r.Alpha < MinReserve {
		return ledger.Swap{}, ledger.ErrReservesTooLow
	}
	if !r.Price().Less(limit) && r.Price() != limit {
		return ledger.Swap{}, ledger.ErrPriceExceeded
	}
	fee := feeOf(rao, free)
	in := rao - fee
	if hi, most := bits.Mul64(r.Tao, MaxInput); hi == 0 && in > most {
		return ledger.Swap{}, ledger.ErrSwapInputTooLarge
	}
	after := Reserves{Tao: r.Tao + in, Alpha: r.Alpha - min(r.Alpha, r.alphaFor(in)), Quote: r.Quote}
	if limit.Less(after.Price()) {
		in = r.buyTo(limit)
		fee = feeOn(in, free)
	}
	out := r.alphaFor(in)
	if in > 0 && out == 0 {
		return ledger.Swap{}, ledger.ErrReservesTooLow
	}
	r.Tao, r.Alpha = r.Tao+in, r.Alpha-out
	return ledger.Swap{Tao: in + fee, Alpha: out, Fee: fee}, nil
}

// Sell swaps alpha for rao: at most all of it, and no further down than the
// limit's price. The reserves change where err is nil.
func (r *Reserves) Sell(alpha uint64, limit Wide, free bool) (ledger.Swap, error) {
	if r.Tao < MinReserve {
		return ledger.Swap{}, ledger.ErrReservesTooLow
	}
	if r.Price().Less(limit) {
		return ledger.Swap{}, ledger.ErrPriceExceeded
	}
	fee := feeOf(alpha, free)
	in := alpha - fee
	if hi, most := bits.Mul64(r.Alpha, MaxInput); hi == 0 && in > most {
		return ledger.Swap{}, ledger.ErrSwapInputTooLarge
	}
	after := Reserves{Tao: r.Tao - min(r.Tao, r.taoFor(in)), Alpha: r.Alpha + in, Quote: r.Quote}
	if after.Price().Less(limit) {
		in = r.sellTo(limit)
		fee = feeOn(in, free)
	}
	out := r.taoFor(in)
	if in > 0 && out == 0 {
		return ledger.Swap{}, ledger.ErrReservesTooLow
	}
	r.Tao, r.Alpha = r.Tao-out, r.Alpha+in
	return ledger.Swap{Tao: out, Alpha: in + fee, Fee: fee}, nil
}

func feeOf(amount uint64, free bool) uint64 {
	if free {
		return 0
	}
	return Fee(amount)
}

// feeOn is the fee of a swap that takes so much besides it.
func feeOn(in uint64, free bool) uint64 {
	if free {
		return 0
	}
	return F64(in).Mul(Ratio(FeeRate, 65535-FeeRate), 64).Whole64()
}

// alphaFor is what rao buy: alpha·(1 − (tao/(tao+rao))^(w2/w1)).
func (r *Reserves) alphaFor(rao uint64) uint64 {
	return part(r.Alpha, r.Tao, rao, r.Quote, Scale-r.Quote)
}

// taoFor is what alpha fetches: tao·(1 − (alpha/(alpha+a))^(w1/w2)).
func (r *Reserves) taoFor(alpha uint64) uint64 {
	return part(r.Tao, r.Alpha, alpha, Scale-r.Quote, r.Quote)
}

func part(of, have, more, n, d uint64) uint64 {
	p, ok := quickPower(have, more, n, d)
	if !ok {
		a := new(big.Int).SetUint64(have)
		p = power(a, new(big.Int).Add(a, new(big.Int).SetUint64(more)), n, d)
	}
	return F64(of).Mul(F64(1).Sub(Ratio(p, Scale)), 64).Whole64()
}

// buyTo is how many rao bring the price up to a limit: tao·((limit/price)^w1 − 1).
func (r *Reserves) buyTo(limit Wide) uint64 {
	return grown(r.Tao, power(r.Price().big(), limit.big(), Scale-r.Quote, Scale))
}

// sellTo is how much alpha brings the price down to a limit: alpha·((price/limit)^w2 − 1).
func (r *Reserves) sellTo(limit Wide) uint64 {
	return grown(r.Alpha, power(limit.big(), r.Price().big(), r.Quote, Scale))
}

// grown is have·(Scale/p − 1).
func grown(have, p uint64) uint64 {
	if p == 0 {
		return 0
	}
	return MulDiv(have, Scale-min(p, Scale), p)
}

// Inject adds to both sides without moving the price: the weights move. It adds
// nothing where a weight would leave its bounds.
func (r *Reserves) Inject(tao, alpha uint64) (inTao, inAlpha uint64) {
	if tao == 0 && alpha == 0 {
		return 0, 0
	}
	base, quote := side(Scale-r.Quote, r.Tao, r.Alpha+alpha), side(r.Quote, r.Alpha, r.Tao+tao)
	weight := Scale / 2
	if sum := base.Add(quote); !sum.IsZero() {
		weight = share(quote, sum)
	}
	if weight < minWeight || Scale-weight < minWeight {
		return 0, 0
	}
	r.Quote, r.Tao, r.Alpha = weight, r.Tao+tao, r.Alpha+alpha
	return tao, alpha
}

// side is weight·a·b in parts of Scale, rounded to the nearest.
func side(weight, a, b uint64) Wide {
	hi, lo := bits.Mul64(a, b)
	p := Wide{hi, lo}.product(weight)
	var carry uint64
	p[2], carry = bits.Add64(p[2], Scale/2, 0)
	p[1], carry = bits.Add64(p[1], 0, carry)
	p[0] += carry
	high, rest := bits.Div64(p[0]%Scale, p[1], Scale)
	low, _ := bits.Div64(rest, p[2], Scale)
	return Wide{high, low}
}

// Moved is the moving price after a block, with 32 fraction bits: the price, at
// most 1, has a part in it that grows with the blocks since the pool began.
func Moved(moving uint64, price Wide, since uint64) uint64 {
	alpha := Wide{0, movingAlpha << 32}.Mul(Ratio(since, since+HalvingBlocks), 64)
	if one := F64(1); one.Less(price) {
		price = one
	}
	now := alpha.Mul(price, 64)
	before := F64(1).Sub(alpha).Mul(Wide{moving >> 32, moving << 32}, 64)
	return now.Add(before).To32().Lo
}

// BlockEmission is what a block makes where so much has been made: 1 until half
// of all there will ever be, then half of that until three quarters, and so on.
func BlockEmission(issued uint64) uint64 {
	out, bound := uint64(Rao), maxSupply/2
	for left := maxSupply / 2; issued >= bound; out /= 2 {
		if left /= 2; left == 0 || out == 0 {
			return 0
		}
		bound += left
	}
	return out
}
