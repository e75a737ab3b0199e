package yuma

import (
	"math/big"
	"slices"
)

// Null replaces consensus: the weights of the neuron with the most stake pay the
// miners, and dividends are paid in proportion to stake.
const Null Model = "null"

// runNull computes an epoch of Null. Half of the emission is the miners', rounded
// up, and half is paid for stake; both are paid to the last rao. Bonds stay as they
// are, and inactive neurons count like others.
func (in *Input) runNull() *Output {
	n := len(in.Stake)
	stake, whole := in.normalStake(), in.wholeStake()
	out := &Output{
		Permits: make([]bool, n), Active: make([]bool, n), StakeWeight: toU16(stake), Consensus: make([]uint16, n), Trust: make([]uint16, n), ValidatorTrust: make([]uint16, n),
		Bonds: slices.Clone(in.Bonds), Emission: make([]uint64, n),
	}
	for i := range out.Active {
		out.Active[i] = addU64(in.LastUpdate[i], in.ActivityCutoff) >= in.Block
	}
	weights := make([]*big.Int, n)
	for i := range weights {
		weights[i] = new(big.Int)
	}
	elected := in.elect(whole)
	given := false
	if elected >= 0 {
		out.Permits[elected] = true
		for _, p := range in.Weights[elected] {
			if in.counts(elected, int(p.UID)) && p.Value > 0 {
				weights[p.UID].SetUint64(uint64(p.Value))
				given = true
			}
		}
	}
	if !given { // no weight counts: all have the same
		for i := range weights {
			weights[i].SetUint64(1)
		}
	}
	toStake := in.Emission / 2
	if elected < 0 {
		toStake = 0
	}
	out.Server, out.Validator = Apportion(weights, in.Emission-toStake), Apportion(whole, toStake)
	for i := range out.Emission {
		out.Emission[i] = out.Server[i] + out.Validator[i]
	}
	out.Incentive, out.Dividends = toU16(shares(weights)), toU16(stake)
	return out
}

// wholeStake is what each stake counts, in 2^-32 rao.
func (in *Input) wholeStake() []*big.Int {
	out := make([]*big.Int, len(in.Stake))
	for i, s := range in.Stake {
		if out[i] = new(big.Int); in.tooSmall(i) {
			continue
		}
		out[i].Lsh(out[i].SetUint64(s), fracBits)
		if in.Fractions != nil {
			out[i].Or(out[i], new(big.Int).SetUint64(uint64(in.Fractions[i])))
		}
	}
	return out
}

// elect is the uid with the most stake, the lowest of equals; -1 = no stake counts.
func (in *Input) elect(whole []*big.Int) int {
	best := -1
	for i, s := range whole {
		if s.Sign() > 0 && (best < 0 || s.Cmp(whole[best]) > 0) {
			best = i
		}
	}
	return best
}

// shares are xs by their sum, rounded down.
func shares(xs []*big.Int) []fx {
	sum, out := new(big.Int), make([]fx, len(xs))
	for _, x := range xs {
		sum.Add(sum, x)
	}
	if sum.Sign() == 0 {
		return out
	}
	for i, x := range xs {
		q := new(big.Int).Lsh(x, fracBits)
		out[i] = fx(q.Quo(q, sum).Int64())
	}
	return out
}

// Apportion divides rao by shares, which are not negative. The parts add up to
// rao, but where all shares are 0: what rounding leaves goes, a rao each, to
// those that lost the most by it, the lowest uid of equals first.
func Apportion(shares []*big.Int, rao uint64) []uint64 {
	sum, out := new(big.Int), make([]uint64, len(shares))
	for _, x := range shares {
		sum.Add(sum, x)
	}
	if sum.Sign() == 0 {
		return out
	}
	left, amount := rao, new(big.Int).SetUint64(rao)
	lost := make([]*big.Int, len(shares))
	order := make([]int, len(shares))
	for i, x := range shares {
		q := new(big.Int).Mul(x, amount)
		q, lost[i] = q.QuoRem(q, sum, new(big.Int))
		out[i], order[i] = q.Uint64(), i
		left -= out[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return lost[b].Cmp(lost[a]) })
	for _, i := range order[:left] { // fewer than there are shares with a rest
		out[i]++
	}
	return out
}
