// Package yuma is Yuma consensus in the chain's fixed point: one epoch of one
// subnet from its state to consensus, bonds and emission, equal to the bit
// (spec/chain.md section 4). It is pure, and uses no floating point.
package yuma

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// MaxNeurons bounds the neurons of an epoch. Subnets of the chain have at most 256.
const MaxNeurons = 4096

// Pair is a value toward a uid; in JSON [uid, value].
type Pair struct {
	UID   uint16
	Value uint16
}

// MarshalJSON implements json.Marshaler.
func (p Pair) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "[%d,%d]", p.UID, p.Value), nil }

// UnmarshalJSON implements json.Unmarshaler. Exactly two integers are wanted.
func (p *Pair) UnmarshalJSON(b []byte) error {
	if len(b) > 2 && b[0] == '[' { // as MarshalJSON writes it, which states of 30,000 pairs are read from
		uid, value, _ := strings.Cut(string(b[1:len(b)-1]), ",")
		u, uerr := strconv.ParseUint(uid, 10, 16)
		v, verr := strconv.ParseUint(value, 10, 16)
		if uerr == nil && verr == nil {
			p.UID, p.Value = uint16(u), uint16(v)
			return nil
		}
	}
	var v []uint16
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("read a pair of uid and value: %w", err)
	}
	if len(v) != 2 {
		return fmt.Errorf("read a pair of uid and value: %d numbers", len(v))
	}
	p.UID, p.Value = v[0], v[1]
	return nil
}

// Model names how bonds grow.
type Model string

// Models.
const (
	Classic Model = "classic" // bonds are shares of a column, weighed by stake
	Yuma3   Model = "yuma3"   // bonds are fractions, each validator's own
)

// Liquid is liquid alpha: bonds move faster where a validator differs from
// consensus. It works with Yuma3 only, as on the chain.
type Liquid struct {
	Low, High uint16 // bounds of alpha, of 65535
	Steepness int16  // of 100
}

// Input is the state of a subnet before an epoch. Slices are by uid and of one
// length; Commits may be nil.
type Input struct {
	Stake []uint64 // rao, all of it, of this subnet's point of view
	// Fractions are parts of a rao that stakes have besides, of 2^32; nil = none.
	Fractions []uint32
	Permits   []bool   // before the epoch
	Weights   [][]Pair // as set: raw integers
	Bonds     [][]Pair // as the last epoch stored them
	// LastUpdate is the block of the last weights, RegisteredAt that of the registration.
	LastUpdate, RegisteredAt []uint64
	// Commits is the earliest block of a weight commit that is not yet revealed, 0 = none.
	Commits []uint64

	Block          uint64
	LastTempo      uint64 // bonds toward a uid registered at it or later are dropped
	ActivityCutoff uint64 // blocks
	Owner          int    // uid of the owner's hotkey, -1 = none
	StakeThreshold uint64 // rao; less counts as none, but for the owner

	Kappa              uint16 // of 65535
	BondsMovingAverage uint64 // of 1,000,000
	BondsPenalty       uint16 // of 65535
	MaxValidators      uint16
	Emission           uint64 // rao
	Model              Model
	Liquid             *Liquid // nil = off
}

// Output is what an epoch decides. Slices are by uid. Numbers of 16 bits are
// of 65535, rounded down; Emission is Server plus Validator up to rounding, rao.
type Output struct {
	Active         []bool
	StakeWeight    []uint16
	Consensus      []uint16
	Incentive      []uint16 // also the rank
	Dividends      []uint16
	Trust          []uint16 // of a miner: the share of its weight that stands after clipping
	ValidatorTrust []uint16
	Permits        []bool
	Bonds          [][]Pair
	Emission       []uint64
	Server         []uint64
	Validator      []uint64
}

// entry is one element of a sparse matrix. Rows are sorted by column.
type entry struct {
	col   int
	value fx
}

type matrix [][]entry

// Run computes one epoch. The only errors are of input that no state can have.
func Run(in *Input) (*Output, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if in.Model == Null {
		return in.runNull(), nil
	}
	n := len(in.Stake)

	stake := in.normalStake()
	permits := newPermits(stake, int(in.MaxValidators), in.Owner)
	mayVote := slices.Clone(in.Permits)
	if in.Owner >= 0 {
		mayVote[in.Owner] = true
	}
	out := &Output{Permits: permits, Active: make([]bool, n)}
	active := make([]fx, n)
	for i := range active {
		out.Active[i] = addU64(in.LastUpdate[i], in.ActivityCutoff) >= in.Block
		if out.Active[i] && mayVote[i] {
			active[i] = stake[i]
		}
	}
	normalize(active)

	weights := in.weights(mayVote)
	prerank := columnSums(weights, active)
	consensus := medians(weights, active, n, proportion(in.Kappa))
	clipped := clip(weights, consensus)
	rank := columnSums(clipped, active)
	trust := make([]fx, n)
	validatorTrust := make([]fx, n)
	for j := range trust {
		trust[j] = div(rank[j], prerank[j])
		for _, e := range clipped[j] {
			validatorTrust[j] = add(validatorTrust[j], e.value)
		}
	}
	incentive := rank
	normalize(incentive)

	voted := interpolate(weights, clipped, proportion(in.BondsPenalty))
	var bonds matrix
	var dividends []fx
	if in.Model == Yuma3 {
		bonds, dividends = in.bondsYuma3(weights, voted, active, incentive, consensus)
	} else {
		bonds, dividends = in.bondsClassic(voted, active, incentive)
	}

	out.emit(in.Emission, incentive, dividends, active, stake)
	out.StakeWeight, out.Consensus, out.Incentive = toU16(stake), toU16(consensus), toU16(incentive)
	out.Dividends, out.Trust, out.ValidatorTrust = toU16(dividends), toU16(trust), toU16(validatorTrust)
	out.Bonds = make([][]Pair, n)
	for i := range out.Bonds {
		out.Bonds[i] = []Pair{}
		if !permits[i] {
			continue
		}
		for _, e := range bonds[i] {
			out.Bonds[i] = append(out.Bonds[i], Pair{uint16(e.col), e.value.u16()})
		}
	}
	return out, nil
}

func (in *Input) check() error {
	n := len(in.Stake)
	if n > MaxNeurons {
		return fmt.Errorf("%d neurons: at most %d", n, MaxNeurons)
	}
	for _, f := range []struct {
		name string
		len  int
	}{
		{"permits", len(in.Permits)},
		{"weights", len(in.Weights)},
		{"bonds", len(in.Bonds)},
		{"last_update", len(in.LastUpdate)},
		{"registered_at", len(in.RegisteredAt)},
	} {
		if f.len != n {
			return fmt.Errorf("%s of %d neurons, stake of %d", f.name, f.len, n)
		}
	}
	if in.Commits != nil && len(in.Commits) != n {
		return fmt.Errorf("commits of %d neurons, stake of %d", len(in.Commits), n)
	}
	if in.Owner >= n || in.Owner < -1 {
		return fmt.Errorf("owner has uid %d of %d", in.Owner, n)
	}
	if in.BondsMovingAverage > 1_000_000 {
		return fmt.Errorf("bonds moving average %d: at most 1000000", in.BondsMovingAverage)
	}
	if in.Model != Classic && in.Model != Yuma3 && in.Model != Null {
		return fmt.Errorf("model %q: want %s, %s or %s", in.Model, Classic, Yuma3, Null)
	}
	for _, m := range []struct {
		name string
		rows [][]Pair
	}{{"weights", in.Weights}, {"bonds", in.Bonds}} {
		seen := make([]int, n) // by uid: the last row that had it, from 1
		for i, row := range m.rows {
			for _, p := range row {
				if int(p.UID) >= n {
					return fmt.Errorf("%s of uid %d: uid %d of %d", m.name, i, p.UID, n)
				}
				if seen[p.UID] == i+1 {
					return fmt.Errorf("%s of uid %d: uid %d is given twice", m.name, i, p.UID)
				}
				seen[p.UID] = i + 1
			}
		}
	}
	return nil
}

// normalStake is each stake's share, in more bits than the rest: 64 fraction
// bits, cut to 32 (steps 2 of section 4).
func (in *Input) normalStake() []fx {
	if in.Fractions != nil {
		return in.fineStake()
	}
	kept := make([]uint64, len(in.Stake))
	var total uint64
	for i, s := range in.Stake {
		if in.tooSmall(i) {
			continue
		}
		kept[i] = min(s, math.MaxInt64)
		total = min(total+kept[i], math.MaxInt64) // below 2^64: no wrap
	}
	out := make([]fx, len(kept))
	for i, s := range kept {
		switch {
		case total == 0:
		case s >= total: // the only one, or the sum saturated
			out[i] = one
		default:
			q, _ := bits.Div64(s, 0, total) // s·2^64/total
			out[i] = fx(q >> fracBits)
		}
	}
	return out
}

// tooSmall reports whether the stake of a neuron counts for nothing, as below the threshold.
func (in *Input) tooSmall(i int) bool {
	return in.Stake[i] < in.StakeThreshold && i != in.Owner
}

// fineStake is normalStake where stakes have fractions, which the threshold does not see.
func (in *Input) fineStake() []fx {
	kept, total := make([]*big.Int, len(in.Stake)), new(big.Int)
	for i, s := range in.Stake {
		kept[i] = new(big.Int)
		if in.tooSmall(i) {
			continue
		}
		kept[i].SetUint64(min(s, math.MaxInt64))
		kept[i].Or(kept[i].Lsh(kept[i], fracBits), big.NewInt(int64(in.Fractions[i])))
		total.Add(total, kept[i])
	}
	out := make([]fx, len(kept))
	for i, s := range kept {
		if total.Sign() > 0 {
			out[i] = fx(s.Quo(s.Lsh(s, fracBits), total).Int64())
		}
	}
	return out
}

// newPermits gives permits to the most stake among those who have any; of equals
// the higher uid goes first. The owner always has one.
func newPermits(stake []fx, most, owner int) []bool {
	order := make([]int, len(stake))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case stake[a] < stake[b]:
			return -1
		case stake[a] > stake[b]:
			return 1
		}
		return 0
	})
	permits := make([]bool, len(stake))
	for _, i := range order[max(0, len(order)-most):] {
		permits[i] = stake[i] > 0
	}
	if owner >= 0 {
		permits[owner] = true
	}
	return permits
}

// weights are the rows that count, each summing to one (step 5).
func (in *Input) weights(mayVote []bool) matrix {
	m := make(matrix, len(in.Weights))
	for i, row := range in.Weights {
		if !mayVote[i] {
			continue
		}
		m[i] = make([]entry, 0, len(row))
		for _, p := range row {
			if j := int(p.UID); in.counts(i, j) {
				m[i] = append(m[i], entry{j, fromUint(uint64(p.Value))})
			}
		}
		sortRow(m[i])
		var total fx
		for _, e := range m[i] {
			total = add(total, e.value)
		}
		for k := range m[i] {
			m[i][k].value = div(m[i][k].value, total)
		}
	}
	return m
}

// counts says whether what i weighs j counts.
func (in *Input) counts(i, j int) bool {
	switch {
	case i == j && i != in.Owner: // only the owner weighs itself
	case in.LastUpdate[i] <= in.RegisteredAt[j]: // weights of another's time
	case in.Commits != nil && in.Commits[i] != 0 && in.Commits[i] < in.RegisteredAt[j]:
	default:
		return true
	}
	return false
}

func sortRow(row []entry) { slices.SortFunc(row, func(a, b entry) int { return a.col - b.col }) }

// columnSums is the sum of each column, rows weighed by w.
func columnSums(m matrix, w []fx) []fx {
	out := make([]fx, len(m))
	for i, row := range m {
		for _, e := range row {
			out[e.col] = add(out[e.col], mul(w[i], e.value))
		}
	}
	return out
}

// clip cuts weights at consensus.
func clip(m matrix, consensus []fx) matrix {
	out := make(matrix, len(m))
	for i, row := range m {
		out[i] = make([]entry, 0, len(row))
		for _, e := range row {
			if v := min(e.value, consensus[e.col]); v > 0 {
				out[i] = append(out[i], entry{e.col, v})
			}
		}
	}
	return out
}

// interpolate goes from a to b by ratio: a + ratio·(b-a), where b ≤ a.
func interpolate(a, b matrix, ratio fx) matrix {
	if ratio == one {
		return b
	}
	out := make(matrix, len(a))
	for i, row := range a {
		k := 0
		for _, e := range row {
			var low fx
			for k < len(b[i]) && b[i][k].col < e.col {
				k++
			}
			if k < len(b[i]) && b[i][k].col == e.col {
				low = b[i][k].value
			}
			if v := e.value - mulUp(ratio, e.value-low); v > 0 {
				out[i] = append(out[i], entry{e.col, v})
			}
		}
	}
	return out
}

// emit splits the emission by incentive and dividends (step 10).
func (o *Output) emit(rao uint64, incentive, dividends, active, stake []fx) {
	n := len(stake)
	combined := make([]fx, n)
	for i := range combined {
		combined[i] = add(incentive[i], dividends[i])
	}
	total := sum(combined)
	server, validator := make([]fx, n), make([]fx, n)
	if total == 0 {
		validator = active
		if sum(active) == 0 {
			validator = stake
		}
		combined = validator
	} else {
		for i := range combined {
			server[i], validator[i] = div(incentive[i], total), div(dividends[i], total)
		}
		normalize(combined)
	}
	o.Emission, o.Server, o.Validator = make([]uint64, n), make([]uint64, n), make([]uint64, n)
	for i := range combined {
		o.Emission[i], o.Server[i], o.Validator[i] = combined[i].times(rao), server[i].times(rao), validator[i].times(rao)
	}
}

func toU16(xs []fx) []uint16 {
	out := make([]uint16, len(xs))
	for i, x := range xs {
		out[i] = x.u16()
	}
	return out
}

func addU64(a, b uint64) uint64 {
	s, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return s
}
