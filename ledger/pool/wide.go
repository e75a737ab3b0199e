package pool

import (
	"math"
	"math/big"
	"math/bits"
)

// Wide is an unsigned integer of 128 bits. The chain's fixed-point numbers are
// integers that count parts: U64F64 counts 2^-64, U96F32 counts 2^-32. As there,
// sums and products saturate and what does not fit below is dropped.
type Wide struct{ Hi, Lo uint64 }

var most = Wide{math.MaxUint64, math.MaxUint64}

// F32 is n as a number with 32 fraction bits.
func F32(n uint64) Wide { return Wide{n >> 32, n << 32} }

// F64 is n as a number with 64 fraction bits.
func F64(n uint64) Wide { return Wide{n, 0} }

// Add is a+b.
func (a Wide) Add(b Wide) Wide {
	lo, carry := bits.Add64(a.Lo, b.Lo, 0)
	hi, carry := bits.Add64(a.Hi, b.Hi, carry)
	if carry != 0 {
		return most
	}
	return Wide{hi, lo}
}

// Sub is a−b, at least 0.
func (a Wide) Sub(b Wide) Wide {
	lo, borrow := bits.Sub64(a.Lo, b.Lo, 0)
	hi, borrow := bits.Sub64(a.Hi, b.Hi, borrow)
	if borrow != 0 {
		return Wide{}
	}
	return Wide{hi, lo}
}

// Less says whether a < b.
func (a Wide) Less(b Wide) bool { return a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo }

// IsZero says whether a is 0.
func (a Wide) IsZero() bool { return a == Wide{} }

// Mul is a·b where both have so many fraction bits, 32 or 64.
func (a Wide) Mul(b Wide, fraction uint) Wide {
	h1, l1 := bits.Mul64(a.Lo, b.Lo)
	h2, l2 := bits.Mul64(a.Lo, b.Hi)
	h3, l3 := bits.Mul64(a.Hi, b.Lo)
	h4, l4 := bits.Mul64(a.Hi, b.Hi)
	w1, c1 := bits.Add64(h1, l2, 0)
	w2, c2 := bits.Add64(h2, h3, c1)
	w3 := h4 + c2
	w1, c1 = bits.Add64(w1, l3, 0)
	w2, c2 = bits.Add64(w2, l4, c1)
	w3 += c2
	if fraction == 64 {
		if w3 != 0 {
			return most
		}
		return Wide{w2, w1}
	}
	if w3 != 0 || w2>>32 != 0 {
		return most
	}
	return Wide{w2<<32 | w1>>32, w1<<32 | l1>>32}
}

// Div is a/b where both have so many fraction bits, 32 or 64; ok is false where b is 0.
func (a Wide) Div(b Wide, fraction uint) (q Wide, ok bool) {
	if b.IsZero() {
		return Wide{}, false
	}
	if fraction == 32 && a.Hi>>32 == 0 { // the usual case: no more than 128 bits
		q, _ := Wide{a.Hi<<32 | a.Lo>>32, a.Lo << 32}.quo(b)
		return q, true
	}
	if b.Hi == 0 && a.Hi == 0 && fraction == 64 {
		return Ratio(a.Lo, b.Lo), true
	}
	x := new(big.Int).Lsh(a.big(), fraction)
	if x.Quo(x, b.big()); x.BitLen() > 128 {
		return most, true
	}
	return ofBig(x), true
}

// Ratio is a/b with 64 fraction bits; 0 where b is 0.
func Ratio(a, b uint64) Wide {
	if b == 0 {
		return Wide{}
	}
	lo, _ := bits.Div64(a%b, 0, b)
	return Wide{a / b, lo}
}

// quo divides integers; b is not 0.
func (a Wide) quo(b Wide) (q, r Wide) {
	if b.Hi == 0 {
		hi := a.Hi / b.Lo
		lo, rest := bits.Div64(a.Hi%b.Lo, a.Lo, b.Lo)
		return Wide{hi, lo}, Wide{0, rest}
	}
	// The divisor has two words: the quotient has one. A guess from the leading
	// words is too large by one at most, and is made smaller by one first.
	n := uint(bits.LeadingZeros64(b.Hi))
	lead := b.Hi<<n | b.Lo>>(64-n)
	guess, _ := bits.Div64(a.Hi>>1, a.Hi<<63|a.Lo>>1, lead)
	guess >>= 63 - n
	if guess > 0 {
		guess--
	}
	r = a.Sub(b.times(guess))
	if !r.Less(b) {
		guess, r = guess+1, r.Sub(b)
	}
	return Wide{0, guess}, r
}

// times is b·n, which fits.
func (a Wide) times(n uint64) Wide {
	hi, lo := bits.Mul64(a.Lo, n)
	return Wide{hi + a.Hi*n, lo}
}

// Whole32 is the whole part of a number with 32 fraction bits.
func (a Wide) Whole32() uint64 {
	if a.Hi>>32 != 0 {
		return math.MaxUint64
	}
	return a.Hi<<32 | a.Lo>>32
}

// Whole64 is the whole part of a number with 64 fraction bits.
func (a Wide) Whole64() uint64 { return a.Hi }

// To32 drops 32 of 64 fraction bits.
func (a Wide) To32() Wide { return Wide{a.Hi >> 32, a.Hi<<32 | a.Lo>>32} }

// To64 gives a number with 32 fraction bits 64 of them.
func (a Wide) To64() Wide {
	if a.Hi>>32 != 0 {
		return most
	}
	return Wide{a.Hi<<32 | a.Lo>>32, a.Lo << 32}
}

func (a Wide) big() *big.Int {
	x := new(big.Int).SetUint64(a.Hi)
	return x.Or(x.Lsh(x, 64), new(big.Int).SetUint64(a.Lo))
}

func ofBig(x *big.Int) Wide {
	lo := new(big.Int).And(x, new(big.Int).SetUint64(math.MaxUint64))
	return Wide{new(big.Int).Rsh(x, 64).Uint64(), lo.Uint64()}
}

// MulDiv is a·b/c, rounded down; it saturates, and is 0 where c is 0.
func MulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	switch {
	case c == 0:
		return 0
	case hi >= c:
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}
