package pool

import "math/big"

// precision is how many fraction bits powers are computed with. Results are cut
// to Scale, which takes 60.
const precision = 128

// Scale is what weights and powers are parts of, as the chain's Perquintill.
const Scale uint64 = 1_000_000_000_000_000_000

var (
	unit = new(big.Int).Lsh(big.NewInt(1), precision)
	ln2  = lnOf(big.NewInt(2), big.NewInt(1))
)

// power is (a/b)^(n/d) in parts of Scale, rounded down, for 0 ≤ a ≤ b, 0 < b and
// weights n and d. All in integers: the same on every machine.
func power(a, b *big.Int, n, d uint64) uint64 {
	switch {
	case a.Sign() <= 0:
		return 0
	case a.Cmp(b) >= 0:
		return Scale
	}
	out := new(big.Int)
	if n == d {
		out.Mul(a, new(big.Int).SetUint64(Scale))
		return out.Quo(out, b).Uint64()
	}
	// (a/b)^(n/d) = e^-x with x = n/d·ln(b/a).
	x := ln(b, a)
	x.Mul(x, new(big.Int).SetUint64(n)).Quo(x, new(big.Int).SetUint64(d))
	out.Mul(expMinus(x), new(big.Int).SetUint64(Scale))
	return out.Rsh(out, precision).Uint64()
}

// ln is the natural logarithm of b/a ≥ 1, with precision fraction bits.
func ln(b, a *big.Int) *big.Int {
	halvings := b.BitLen() - a.BitLen()
	low := new(big.Int).Lsh(a, uint(max(halvings, 0)))
	if low.Cmp(b) > 0 { // one too many
		halvings--
		low.Lsh(a, uint(max(halvings, 0)))
	}
	if halvings <= 0 {
		return lnOf(b, a)
	}
	whole := new(big.Int).Mul(ln2, big.NewInt(int64(halvings)))
	return whole.Add(whole, lnOf(b, low))
}

// lnOf is ln(b/a) for 1 ≤ b/a ≤ 2: 2·(z + z³/3 + z⁵/5 + …) with z = (b−a)/(b+a).
func lnOf(b, a *big.Int) *big.Int {
	z := new(big.Int).Sub(b, a)
	z.Lsh(z, precision).Quo(z, new(big.Int).Add(b, a))
	square := new(big.Int).Mul(z, z)
	square.Rsh(square, precision)
	sum, term, part := new(big.Int), new(big.Int).Set(z), new(big.Int)
	for odd := int64(1); term.Sign() > 0; odd += 2 {
		sum.Add(sum, part.Quo(term, big.NewInt(odd)))
		term.Mul(term, square).Rsh(term, precision)
	}
	return sum.Lsh(sum, 1)
}

// expMinus is e^-x for x ≥ 0, both with precision fraction bits: 2^-k·e^-r.
func expMinus(x *big.Int) *big.Int {
	k, r := new(big.Int).QuoRem(x, ln2, new(big.Int))
	if k.BitLen() > 16 {
		return new(big.Int)
	}
	sum, term := new(big.Int).Set(unit), new(big.Int).Set(unit)
	for i := int64(1); term.Sign() != 0; i++ {
		term.Mul(term, r).Rsh(term, precision)
		term.Quo(term, big.NewInt(i))
		if i%2 == 1 {
			sum.Sub(sum, term)
		} else {
			sum.Add(sum, term)
		}
	}
	return sum.Rsh(sum, uint(k.Uint64()))
}
