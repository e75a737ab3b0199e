package ledger

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/ledger/yuma"
)

// MaxUID is the largest uid there can be.
const MaxUID = math.MaxUint16

// NormalizeWeights turns float weights, indexed by uid, into the integers that
// set_weights takes, exactly as the Python SDK does: each weight goes through
// float32, the largest becomes 65535, rounding is half to even, zeros and their
// uids are dropped. All zeros give an empty result. A negative weight, one that
// is not a number, or more weights than uids are errors.
func NormalizeWeights(weights []float64) (uids, values []uint16, err error) {
	if len(weights) > MaxUID+1 {
		return nil, nil, fmt.Errorf("%d weights: at most %d", len(weights), MaxUID+1)
	}
	single := make([]float64, len(weights))
	var largest float64
	for uid, w := range weights {
		s := float64(float32(w))
		if math.IsNaN(s) || math.IsInf(s, 0) || w < 0 {
			return nil, nil, fmt.Errorf("weight %v of uid %d: want a number from 0 to %g", w, uid, math.MaxFloat32)
		}
		single[uid] = s
		largest = max(largest, s)
	}
	uids, values = []uint16{}, []uint16{}
	if largest == 0 {
		return uids, values, nil
	}
	for uid, s := range single {
		// Divide before multiplying: the order decides some roundings.
		if q := math.RoundToEven(s / largest * math.MaxUint16); q > 0 {
			uids, values = append(uids, uint16(uid)), append(values, uint16(q))
		}
	}
	return uids, values, nil
}

// ShareWeights turns shares by hotkey into the integer weights of a subnet, by
// uid. What belongs to a hotkey that is not registered (any more), and
// everything when nobody has a share, goes to the owner's uid, where the chain
// burns it. Shares need not sum to one.
func (m *Metagraph) ShareWeights(shares map[string]float64) (uids, values []uint16, err error) {
	weights := make([]float64, len(m.Neurons))
	uidOf := make(map[string]uint16, len(m.Neurons))
	for _, n := range m.Neurons {
		if int(n.UID) >= len(weights) {
			return nil, nil, fmt.Errorf("metagraph of subnet %d: uid %d of %d neurons", m.Netuid, n.UID, len(weights))
		}
		uidOf[n.Hotkey] = n.UID
	}
	var burn, total float64
	for _, hotkey := range slices.Sorted(maps.Keys(shares)) { // sums of floats depend on the order
		share := shares[hotkey]
		if math.IsNaN(share) || math.IsInf(share, 0) || share < 0 {
			return nil, nil, fmt.Errorf("share of %s: %v is not a weight", hotkey, share)
		}
		total += share
		if uid, ok := uidOf[hotkey]; ok {
			weights[uid] += share
		} else {
			burn += share
		}
	}
	if total == 0 {
		burn = 1
	}
	if burn > 0 {
		owner, ok := m.BurnUID()
		if !ok {
			return nil, nil, fmt.Errorf("burn weights of subnet %d: the owner's hotkey is not registered", m.Netuid)
		}
		weights[owner] += burn
	}
	return NormalizeWeights(weights)
}

// MaxUpscale scales values so that the largest is 65535, in the chain's fixed
// point (32 fraction bits, saturation avoided above 32768, rounding half away
// from zero). All zeros stay.
func MaxUpscale(values []uint16) []uint16 {
	var largest uint64
	for _, v := range values {
		largest = max(largest, uint64(v))
	}
	out := make([]uint16, len(values))
	if largest == 0 {
		return out
	}
	const one, half = uint64(1) << 32, uint64(1) << 31
	for i, v := range values {
		var x uint64 // value × 2^32
		if largest > 32768 {
			x = uint64(v) * (math.MaxUint16 * one / largest)
		} else {
			x = uint64(v) * math.MaxUint16 * one / largest // ≤ 2^31 × 2^32
		}
		out[i] = uint16(min((x+half)>>32, math.MaxUint16))
	}
	return out
}

type normalizeIn struct {
	Weights []float64 `json:"weights"`
}

type normalizeOut struct {
	UIDs   []uint16 `json:"uids"`
	Values []uint16 `json:"values"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return append([]calc.Rule{
		calc.Func("chain.normalize_weights", "{weights} -> {uids, values}: what set_weights is sent", calcNormalize),
		calc.Func("chain.era", "{period, current} -> {hex}: mortality of an extrinsic", calcEra),
		calc.Func("chain.epoch_next", "{netuid, tempo, block, last_epoch_block?, pending_epoch_at?, model} -> {block}: the next epoch", calcEpochNext),
	}, yuma.Rules()...)
}

func calcNormalize(in normalizeIn) (normalizeOut, error) {
	uids, values, err := NormalizeWeights(in.Weights)
	return normalizeOut{UIDs: uids, Values: values}, err
}
