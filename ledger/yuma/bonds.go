package yuma

import "math"

// oldBonds are the stored bonds without columns of uids that are newer than
// them, each value read by f.
func (in *Input) oldBonds(f func(uint16) fx) matrix {
	m := make(matrix, len(in.Bonds))
	for i, row := range in.Bonds {
		m[i] = make([]entry, 0, len(row))
		for _, p := range row {
			if v := f(p.Value); v > 0 && in.LastTempo > in.RegisteredAt[p.UID] {
				m[i] = append(m[i], entry{int(p.UID), v})
			}
		}
		sortRow(m[i])
	}
	return m
}

// alpha is how far bonds move in one epoch.
func (in *Input) alpha() fx { return one - fx(in.BondsMovingAverage<<fracBits/1_000_000) }

// bondsClassic returns the bonds to store and the dividends (step 9).
func (in *Input) bondsClassic(voted matrix, active, incentive []fx) (matrix, []fx) {
	old := in.oldBonds(func(v uint16) fx { return fromUint(uint64(v)) })
	normalizeColumns(old)
	delta := make(matrix, len(voted))
	for i, row := range voted {
		delta[i] = make([]entry, 0, len(row))
		for _, e := range row {
			if v := mul(e.value, active[i]); v > 0 {
				delta[i] = append(delta[i], entry{e.col, v})
			}
		}
	}
	normalizeColumns(delta)
	alpha := in.alpha()
	bonds := merge(delta, old, func(_, _ int, now, before fx) fx { return add(mul(alpha, now), mul(one-alpha, before)) })
	normalizeColumns(bonds)
	dividends := rowProducts(bonds, incentive)
	normalize(dividends)
	upscaleColumns(bonds)
	return bonds, dividends
}

// bondsYuma3 is the same for Yuma3.
func (in *Input) bondsYuma3(weights, voted matrix, active, incentive, consensus []fx) (matrix, []fx) {
	old := in.oldBonds(proportion)
	alpha := in.alpha()
	move := func(_, _ int, now, before fx) fx { return add(mul(alpha, now), mul(one-alpha, before)) }
	if in.Liquid != nil && sum(consensus) > 0 {
		low, high := proportion(in.Liquid.Low), proportion(in.Liquid.High)
		steepness := fx(int64(in.Liquid.Steepness) << fracBits / 100)
		passed := in.passed(weights, consensus)
		move = func(row, col int, now, before fx) fx {
			if now == 0 {
				return 0 // no weight now, no bond
			}
			weight := now
			if passed[row][col] {
				weight = 0
			}
			a := liquidAlpha(weight, before, consensus[col], low, high, steepness)
			return min(one, add(mul(a, now), mul(one-a, before)))
		}
	}
	bonds := merge(voted, old, move)
	shares := make(matrix, len(bonds))
	for i, row := range bonds {
		shares[i] = append([]entry(nil), row...)
	}
	normalizeColumns(shares)
	dividends := rowProducts(shares, incentive)
	for i := range dividends {
		dividends[i] = mul(dividends[i], active[i])
	}
	normalize(dividends)
	return bonds, dividends
}

// passed are the entries of weights, by row and column, that the chain takes for
// 0 when it computes liquid alpha. It walks a row in the order in which the
// validator gave it, with a cursor that only goes forward over ascending
// columns: an entry whose column is below one that stands before it is passed
// over. Weights of 0 stand there too; what clipping makes 0 does not. With a
// bonds penalty of neither 0 nor 65535 the chain sorts the row itself.
func (in *Input) passed(weights matrix, consensus []fx) []map[int]bool {
	out := make([]map[int]bool, len(weights))
	if in.BondsPenalty != 0 && in.BondsPenalty != math.MaxUint16 {
		return out
	}
	for i, row := range weights {
		if len(row) == 0 {
			continue
		}
		stands := make(map[int]bool, len(row))
		for _, e := range row {
			stands[e.col] = in.BondsPenalty == 0 || e.value == 0 || consensus[e.col] > 0
		}
		largest := -1
		for _, p := range in.Weights[i] {
			switch j := int(p.UID); {
			case !stands[j]:
			case j > largest:
				largest = j
			default:
				if out[i] == nil {
					out[i] = map[int]bool{}
				}
				out[i][j] = true
			}
		}
	}
	return out
}

// liquidAlpha is alpha of one bond: a sigmoid of how far weight or bond stands
// from consensus.
func liquidAlpha(weight, bond, consensus, low, high, steepness fx) fx {
	diff := weight - consensus
	if weight < bond {
		diff = bond - weight
	}
	diff = clamp(diff, 0, one) - half
	exponent := mulSigned(steepness, diff)
	sigmoid := div(one, add(one, exp(-exponent)))
	if high < low {
		high = low
	}
	return clamp(add(low, mul(sigmoid, high-low)), low, high)
}

// mulSigned is a·b rounded down, for values of any sign.
func mulSigned(a, b fx) fx {
	x, y := a, b
	if x < 0 {
		x = -x
	}
	if y < 0 {
		y = -y
	}
	if (a < 0) != (b < 0) {
		return -mulUp(x, y)
	}
	return mul(x, y)
}

// merge joins two sparse matrices by f; zeros are dropped.
func merge(now, before matrix, f func(row, col int, now, before fx) fx) matrix {
	out := make(matrix, len(now))
	for i := range out {
		a, b := now[i], before[i]
		out[i] = make([]entry, 0, max(len(a), len(b)))
		for len(a) > 0 || len(b) > 0 {
			ca, cb := math.MaxInt, math.MaxInt
			if len(a) > 0 {
				ca = a[0].col
			}
			if len(b) > 0 {
				cb = b[0].col
			}
			col := min(ca, cb)
			var va, vb fx
			if ca == col {
				va, a = a[0].value, a[1:]
			}
			if cb == col {
				vb, b = b[0].value, b[1:]
			}
			if v := f(i, col, va, vb); v > 0 {
				out[i] = append(out[i], entry{col, v})
			}
		}
	}
	return out
}

// normalizeColumns makes each column sum to one, in place.
func normalizeColumns(m matrix) {
	total := make([]fx, len(m))
	for _, row := range m {
		for _, e := range row {
			total[e.col] = add(total[e.col], e.value)
		}
	}
	divideColumns(m, total)
}

// upscaleColumns makes the largest of each column one, in place.
func upscaleColumns(m matrix) {
	largest := make([]fx, len(m))
	for _, row := range m {
		for _, e := range row {
			largest[e.col] = max(largest[e.col], e.value)
		}
	}
	divideColumns(m, largest)
}

func divideColumns(m matrix, by []fx) {
	for _, row := range m {
		for k, e := range row {
			row[k].value = div(e.value, by[e.col])
		}
	}
}

// rowProducts is the product of each row with v.
func rowProducts(m matrix, v []fx) []fx {
	out := make([]fx, len(m))
	for i, row := range m {
		for _, e := range row {
			out[i] = add(out[i], mul(v[e.col], e.value))
		}
	}
	return out
}
