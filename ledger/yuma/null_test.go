package yuma

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
)

// nullOf is a subnet of four under Null, whose first two have stake and weights.
func nullOf(stakes [2]uint64, first, second []Pair) *Input {
	return &Input{
		Stake: []uint64{stakes[0], stakes[1], 0, 0}, Permits: make([]bool, 4), Weights: [][]Pair{first, second, {}, {}}, Bonds: [][]Pair{{{2, 12345}}, {{3, 54321}}, {}, {}},
		LastUpdate: []uint64{1, 1, 0, 0}, RegisteredAt: make([]uint64, 4), Block: 1_000_000, ActivityCutoff: 5, Owner: -1, MaxValidators: 1, Emission: 1_000_000, Model: Null,
	}
}

// TestNull: the row of the most stake pays miners, stake pays all, to the rao, active or not.
func TestNull(t *testing.T) {
	late := nullOf([2]uint64{300, 100}, []Pair{{2, math.MaxUint16}}, []Pair{{3, math.MaxUint16}})
	late.RegisteredAt[2] = 2 // after the weights toward it
	self := nullOf([2]uint64{300, 100}, []Pair{{0, 9}, {2, 1}}, nil)
	owner := nullOf([2]uint64{300, 100}, []Pair{{0, 3}, {2, 1}}, nil)
	owner.Owner = 0
	small := nullOf([2]uint64{300, 100}, []Pair{{2, 1}}, []Pair{{3, 1}})
	small.StakeThreshold = 301
	odd := nullOf([2]uint64{2, 1}, []Pair{{2, 1}, {3, 2}}, nil)
	odd.Emission = 5
	part := nullOf([2]uint64{100, 100}, []Pair{{2, 1}}, []Pair{{3, 1}})
	part.Fractions = []uint32{1, 2, 0, 0}
	for name, c := range map[string]struct {
		in                *Input
		server, validator []uint64
		permit            int
	}{
		"weights as they are":         {nullOf([2]uint64{300, 100}, []Pair{{2, 3}, {3, 1}}, []Pair{{3, 65535}}), []uint64{0, 0, 375_000, 125_000}, []uint64{375_000, 125_000, 0, 0}, 0},
		"the lowest uid of equals":    {nullOf([2]uint64{100, 100}, []Pair{{2, 1}}, []Pair{{3, 1}}), []uint64{0, 0, 500_000, 0}, []uint64{250_000, 250_000, 0, 0}, 0},
		"a part of a rao decides":     {part, []uint64{0, 0, 0, 500_000}, []uint64{250_000, 250_000, 0, 0}, 1},
		"no weights":                  {nullOf([2]uint64{300, 100}, nil, []Pair{{3, 1}}), []uint64{125_000, 125_000, 125_000, 125_000}, []uint64{375_000, 125_000, 0, 0}, 0},
		"weights for another":         {late, []uint64{125_000, 125_000, 125_000, 125_000}, []uint64{375_000, 125_000, 0, 0}, 0},
		"weights for itself":          {self, []uint64{0, 0, 500_000, 0}, []uint64{375_000, 125_000, 0, 0}, 0},
		"the owner's for itself":      {owner, []uint64{375_000, 0, 125_000, 0}, []uint64{375_000, 125_000, 0, 0}, 0},
		"no stake":                    {nullOf([2]uint64{}, nil, nil), []uint64{250_000, 250_000, 250_000, 250_000}, make([]uint64, 4), -1},
		"no stake over the threshold": {small, []uint64{250_000, 250_000, 250_000, 250_000}, make([]uint64, 4), -1},
		"what rounding leaves":        {odd, []uint64{0, 0, 1, 2}, []uint64{1, 1, 0, 0}, 0},
	} {
		out, err := Run(c.in)
		if err != nil {
			t.Fatal(name, err)
		}
		if !slices.Equal(out.Server, c.server) || !slices.Equal(out.Validator, c.validator) {
			t.Errorf("%s: miners %v, stake %v; want %v, %v", name, out.Server, out.Validator, c.server, c.validator)
		}
		for i, p := range out.Permits {
			if p != (i == c.permit) {
				t.Errorf("%s: permits %v", name, out.Permits)
			}
			if out.Emission[i] != c.server[i]+c.validator[i] {
				t.Errorf("%s: emission %v", name, out.Emission)
			}
		}
		if fmt.Sprint(out.Bonds) != fmt.Sprint(c.in.Bonds) {
			t.Errorf("%s: bonds %v", name, out.Bonds)
		}
	}
	out, err := Run(nullOf([2]uint64{300, 100}, []Pair{{2, 3}, {3, 1}}, nil))
	if err != nil || !slices.Equal(out.Incentive, []uint16{0, 0, 49151, 16383}) || !slices.Equal(out.Dividends, []uint16{49151, 16383, 0, 0}) || out.Active[0] {
		t.Errorf("incentive %v, dividends %v, active %v: %v", out.Incentive, out.Dividends, out.Active, err)
	}
}

// TestApportion: parts add up to the rao, each is its share rounded down or a rao more, and none without a share.
func TestApportion(t *testing.T) {
	shares := make([]*big.Int, 2500)
	for i := range shares {
		shares[i] = big.NewInt(65535)
	}
	shares[0], shares[100] = big.NewInt(1), new(big.Int)
	sum := big.NewInt(2498*65535 + 1)
	for _, rao := range []uint64{0, 1, 7, 4097, 1_000_003, math.MaxUint64} {
		all := new(big.Int)
		for i, got := range Apportion(shares, rao) {
			all.Add(all, new(big.Int).SetUint64(got))
			low := new(big.Int).Mul(shares[i], new(big.Int).SetUint64(rao))
			low.Quo(low, sum)
			if over := new(big.Int).Sub(new(big.Int).SetUint64(got), low); over.Sign() < 0 || over.Cmp(big.NewInt(1)) > 0 || i == 100 && got != 0 {
				t.Fatalf("%d of %d rao: uid %d has %d, its share is %v", i, rao, i, got, low)
			}
		}
		if all.Cmp(new(big.Int).SetUint64(rao)) != 0 {
			t.Errorf("%d rao: %v are paid", rao, all)
		}
	}
}
