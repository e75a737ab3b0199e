package pool

import "math/bits"

// quickPower is power for a small step, have/(have+more) close to 1, without big
// numbers: a block buys with a TAO each 12 seconds, and a year is stepped at once.
// ok is false where the step is not small. Fractions have 128 bits.
func quickPower(have, more, n, d uint64) (p uint64, ok bool) {
	if more == 0 {
		return Scale, true
	}
	if have >= 1<<61 || more > have>>6 || n > 8*d {
		return 0, false
	}
	// ln((have+more)/have) = 2·(z + z³/3 + z⁵/5 + …), z = more/(2·have+more).
	z := fraction(more, 2*have+more)
	square := z.mulHigh(z)
	var sum Wide
	for odd, term := uint64(1), z; !term.IsZero(); odd += 2 {
		sum = sum.Add(term.over(odd))
		term = term.mulHigh(square)
	}
	x := scaled(sum.Add(sum), n, d)
	// e^-x = 1 − x + x²/2 − …; what is left of 1.
	var gone Wide
	for i, term := uint64(1), x; !term.IsZero(); i++ {
		if i%2 == 1 {
			gone = gone.Add(term)
		} else {
			gone = gone.Sub(term)
		}
		term = term.mulHigh(x).over(i + 1)
	}
	left := Wide{}.minus(gone)
	hi, lo := bits.Mul64(left.Hi, Scale)
	low, _ := bits.Mul64(left.Lo, Scale)
	_, carry := bits.Add64(lo, low, 0)
	return hi + carry, true
}

// fraction is a/b < 1 with 128 bits.
func fraction(a, b uint64) Wide {
	hi, rest := bits.Div64(a, 0, b)
	lo, _ := bits.Div64(rest, 0, b)
	return Wide{hi, lo}
}

// mulHigh is a·b of two fractions, cut to 128 bits.
func (a Wide) mulHigh(b Wide) Wide {
	h1, _ := bits.Mul64(a.Lo, b.Lo)
	h2, l2 := bits.Mul64(a.Lo, b.Hi)
	h3, l3 := bits.Mul64(a.Hi, b.Lo)
	h4, l4 := bits.Mul64(a.Hi, b.Hi)
	w1, c1 := bits.Add64(h1, l2, 0)
	_, c2 := bits.Add64(w1, l3, 0)
	lo, c3 := bits.Add64(h2, h3, c1)
	lo, c4 := bits.Add64(lo, l4, c2)
	return Wide{h4 + c3 + c4, lo}
}

// over is a/n.
func (a Wide) over(n uint64) Wide {
	lo, _ := bits.Div64(a.Hi%n, a.Lo, n)
	return Wide{a.Hi / n, lo}
}

// minus is a−b around 2^128: of fractions, 1−b where a is 0.
func (a Wide) minus(b Wide) Wide {
	lo, borrow := bits.Sub64(a.Lo, b.Lo, 0)
	hi, _ := bits.Sub64(a.Hi, b.Hi, borrow)
	return Wide{hi, lo}
}

// product is a·n in three words, the highest first.
func (a Wide) product(n uint64) [3]uint64 {
	h1, l1 := bits.Mul64(a.Lo, n)
	h2, l2 := bits.Mul64(a.Hi, n)
	mid, carry := bits.Add64(h1, l2, 0)
	return [3]uint64{h2 + carry, mid, l1}
}

// scaled is a·n/d, which fits.
func scaled(a Wide, n, d uint64) Wide {
	p := a.product(n)
	hi, rest := bits.Div64(p[0]%d, p[1], d)
	lo, _ := bits.Div64(rest, p[2], d)
	return Wide{hi, lo}
}

// share is Scale·a/b, rounded down, for a ≤ b.
func share(a, b Wide) uint64 {
	if b.Hi == 0 {
		return MulDiv(a.Lo, Scale, b.Lo)
	}
	// A quotient of one word: guessed from the leading words, then made smaller until it fits.
	p := a.product(Scale)
	n := uint(bits.LeadingZeros64(b.Hi))
	v1, v0 := b.Hi<<n|b.Lo>>(64-n), b.Lo<<n
	u2, u1, u0 := p[0]<<n|p[1]>>(64-n), p[1]<<n|p[2]>>(64-n), p[2]<<n
	guess := ^uint64(0)
	if u2 < v1 {
		guess, _ = bits.Div64(u2, u1, v1)
	}
	for {
		q := Wide{v1, v0}.product(guess)
		_, borrow := bits.Sub64(u0, q[2], 0)
		_, borrow = bits.Sub64(u1, q[1], borrow)
		if _, borrow = bits.Sub64(u2, q[0], borrow); borrow == 0 {
			return guess
		}
		guess--
	}
}
