package yuma

import (
	"math"
	"math/bits"
)

// fx is the chain's I32F32: a signed 64-bit integer that counts 1/2^32. The
// epoch keeps all values at or above zero; operations saturate at the largest.
type fx int64

const (
	fracBits    = 32
	one      fx = 1 << fracBits
	maxFx    fx = math.MaxInt64
	half     fx = one / 2
)

// fromUint is n as a fixed-point number.
func fromUint(n uint64) fx {
	if n > math.MaxInt32 {
		return maxFx
	}
	return fx(n) << fracBits
}

// proportion is v/65535, rounded down.
func proportion(v uint16) fx { return div(fromUint(uint64(v)), fromUint(math.MaxUint16)) }

// add is a+b for values of any sign.
func add(a, b fx) fx {
	if b > 0 && a > maxFx-b {
		return maxFx
	}
	return a + b
}

// mul is a·b rounded down, for a, b ≥ 0.
func mul(a, b fx) fx {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= 1<<(fracBits-1) {
		return maxFx
	}
	return fx(hi<<fracBits | lo>>fracBits)
}

// mulUp is a·b rounded up, for a, b ≥ 0: what rounding down does to a negative product.
func mulUp(a, b fx) fx {
	p := mul(a, b)
	if _, lo := bits.Mul64(uint64(a), uint64(b)); lo&(uint64(one)-1) != 0 {
		p = add(p, 1)
	}
	return p
}

// div is a/b rounded down, for a, b ≥ 0; x/0 = 0.
func div(a, b fx) fx {
	if b == 0 {
		return 0
	}
	hi, lo := uint64(a)>>fracBits, uint64(a)<<fracBits
	if hi >= uint64(b) {
		return maxFx
	}
	q, _ := bits.Div64(hi, lo, uint64(b))
	return fx(min(q, uint64(maxFx)))
}

// u16 is floor(x·65535), at most 65535.
func (x fx) u16() uint16 {
	hi, lo := bits.Mul64(uint64(x), math.MaxUint16)
	return uint16(min(hi<<fracBits|lo>>fracBits, math.MaxUint16))
}

// times is floor(x·n), saturated.
func (x fx) times(n uint64) uint64 {
	hi, lo := bits.Mul64(uint64(x), n)
	if hi >= uint64(one) {
		return math.MaxUint64
	}
	return hi<<fracBits | lo>>fracBits
}

func sum(xs []fx) (total fx) {
	for _, x := range xs {
		total = add(total, x)
	}
	return total
}

// normalize divides xs by their sum, in place. All zeros stay.
func normalize(xs []fx) {
	total := sum(xs)
	if total == 0 {
		return
	}
	for i, x := range xs {
		xs[i] = div(x, total)
	}
}

// clamp bounds x.
func clamp(x, low, high fx) fx { return max(low, min(x, high)) }

// exp is e^x for x from -20 to 20, by the power series that the chain's
// fixed-point library sums: terms 2 to 31, each multiplied and then divided.
func exp(x fx) fx {
	const e fx = 11674931554 // floor(e·2^32)
	x = clamp(x, -20*one, 20*one)
	switch x {
	case 0:
		return one
	case one:
		return e
	}
	negative := x < 0
	if negative {
		x = -x
	}
	result, term := add(x, one), x
	for i := uint64(2); i < fracBits; i++ {
		term = div(mul(term, x), fromUint(i))
		result = add(result, term)
	}
	if negative {
		result = div(one, result)
	}
	return result
}
