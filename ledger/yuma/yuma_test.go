package yuma

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/calc"
)

// state is a subnet of n neurons that all registered at block 0.
func state(n int) *Input {
	in := &Input{
		Stake: make([]uint64, n), Permits: make([]bool, n), Weights: make([][]Pair, n), Bonds: make([][]Pair, n),
		LastUpdate: make([]uint64, n), RegisteredAt: make([]uint64, n), Block: 10, LastTempo: 1, ActivityCutoff: 5000, Owner: -1,
		Kappa: 32767, BondsMovingAverage: 900_000, BondsPenalty: math.MaxUint16, MaxValidators: 64, Emission: 1_000_000_000, Model: Classic,
	}
	for i := range n {
		in.LastUpdate[i] = 1
	}
	return in
}

func run(t testing.TB, in *Input) *Output {
	t.Helper()
	out, err := Run(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func toward(bonds [][]Pair, uid uint16, validators int) (out []uint16) {
	for i := range validators {
		var v uint16
		for _, p := range bonds[i] {
			if p.UID == uid {
				v = p.Value
			}
		}
		out = append(out, v)
	}
	return out
}

// The vector test_bonds of the chain's pallet (spec/chain.md 4.5).
func TestBonds(t *testing.T) {
	in := state(8)
	all := []Pair{{4, 16383}, {5, 32767}, {6, 49149}, {7, 65535}}
	for i := range 4 {
		in.Stake[i], in.Permits[i], in.Weights[i] = uint64(i+1), true, all
	}
	in.MaxValidators = 4
	self := func(i uint16) []Pair { return []Pair{{i, 65535}} }
	for step, c := range []struct {
		change   func()
		uid      uint16
		bonds    []uint16
		emission []uint64
	}{
		{func() {}, 4, []uint16{16383, 32767, 49151, 65535}, []uint64{49999998, 99999999, 150000000, 200000001, 49998779, 100000610, 149996337, 200004272}},
		{func() { in.Weights[0] = self(0) }, 4, []uint16{14582, 32767, 49151, 65535}, []uint64{44998351, 101110561, 151667215, 202223870, 49998779, 100000610, 149996337, 200004272}},
		{func() { in.Weights[1] = self(1) }, 4, []uint16{12603, 28321, 49151, 65535}, []uint64{40496805, 90999783, 157929636, 210573773, 49998779, 100000610, 149996337, 200004272}},
		{func() { in.Weights[2] = self(2) }, 7, []uint16{12602, 28320, 49150, 65535}, []uint64{99999999, 199999999, 299999999, 399999999, 0, 0, 0, 0}},
		{func() { in.Weights[2] = []Pair{{7, 65535}} }, 7, []uint16{10951, 24609, 49150, 65535}, []uint64{36443733, 81898628, 163565493, 218092144, 0, 0, 0, 500000000}},
		{func() {}, 7, []uint16{9559, 21482, 49150, 65535}, []uint64{32799427, 73706612, 168638129, 224855830, 0, 0, 0, 500000000}},
		{func() {}, 7, []uint16{8376, 18824, 49150, 65535}, nil},
		{func() {}, 7, nil, []uint64{26565175, 59701871, 177311856, 236421095, 0, 0, 0, 500000000}},
	} {
		c.change()
		out := run(t, in)
		if got := toward(out.Bonds, c.uid, 4); c.bonds != nil && !slices.Equal(got, c.bonds) {
			t.Errorf("epoch %d: bonds to %d are %v, want %v", step+1, c.uid, got, c.bonds)
		}
		if c.emission != nil && !slices.Equal(out.Emission, c.emission) {
			t.Errorf("epoch %d: emission %v, want %v", step+1, out.Emission, c.emission)
		}
		in.Bonds, in.Permits = out.Bonds, out.Permits
	}
}

// The vectors test_1_graph and test_10_graph.
func TestSelfWeights(t *testing.T) {
	for _, n := range []int{1, 10} {
		in := state(n)
		for i := range n {
			in.Stake[i], in.Permits[i], in.Weights[i] = 1, true, []Pair{{uint16(i), 65535}}
		}
		out := run(t, in)
		want := uint64(1_000_000_000)
		if n == 10 {
			want = 99_999_999
		}
		for i := range n {
			if out.Consensus[i] != 0 || out.Incentive[i] != 0 || out.Dividends[i] != 0 || out.Emission[i] != want || out.Server[i] != 0 {
				t.Errorf("n %d: neuron %d has %d %d %d, emission %d", n, i, out.Consensus[i], out.Incentive[i], out.Dividends[i], out.Emission[i])
			}
		}
	}
}

// The owner may weigh itself, and votes without a permit or a threshold's stake.
func TestOwner(t *testing.T) {
	in := state(3)
	in.Stake, in.StakeThreshold = []uint64{5, 100, 4}, 50
	in.Permits[1], in.Owner = true, 0
	in.Weights[0] = []Pair{{0, 1}, {1, 1}}
	in.Weights[1] = []Pair{{0, 1}, {1, 1}}
	in.Weights[2] = []Pair{{1, 65535}}
	out := run(t, in)
	if !reflect.DeepEqual(out.Permits, []bool{true, true, false}) || out.Incentive[0] != 65535 || out.StakeWeight[2] != 0 {
		t.Errorf("%+v", out)
	}
	in.Owner = -1
	out = run(t, in)
	if !reflect.DeepEqual(out.Permits, []bool{false, true, false}) || out.StakeWeight[0] != 0 {
		t.Errorf("without an owner: %+v", out)
	}
}

func TestPermitTies(t *testing.T) {
	for name, c := range map[string]struct {
		stake []uint64
		most  uint16
		want  []bool
	}{
		"ties favour the higher uid": {[]uint64{5, 5, 5, 9}, 2, []bool{false, false, true, true}},
		"no stake, no permit":        {[]uint64{0, 5, 0}, 3, []bool{false, true, false}},
		"fewer than places":          {[]uint64{1, 2}, 9, []bool{true, true}},
		"no place":                   {[]uint64{1, 2}, 0, []bool{false, false}},
	} {
		in := state(len(c.stake))
		in.Stake, in.MaxValidators = c.stake, c.most
		if got := run(t, in).Permits; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Rows and columns that do not count.
func TestMasks(t *testing.T) {
	base := func() *Input {
		in := state(4)
		in.Stake = []uint64{10, 10, 0, 0}
		in.Permits[0], in.Permits[1] = true, true
		in.Weights[0], in.Weights[1] = []Pair{{2, 1}, {3, 1}}, []Pair{{2, 1}, {3, 1}}
		in.LastUpdate = []uint64{100, 100, 100, 100}
		in.Block, in.LastTempo = 110, 50
		return in
	}
	full := run(t, base())
	if full.Incentive[2] != 32767 || full.Incentive[3] != 32767 {
		t.Fatalf("base: %v", full.Incentive)
	}
	for name, c := range map[string]struct {
		change func(*Input)
		want   []uint16
	}{
		"weights older than the uid":  {func(in *Input) { in.RegisteredAt[3] = 100 }, []uint16{0, 0, 65535, 0}},
		"weights just younger":        {func(in *Input) { in.RegisteredAt[3] = 99 }, []uint16{0, 0, 32767, 32767}},
		"committed before the uid":    {func(in *Input) { in.RegisteredAt[3] = 99; in.Commits = []uint64{98, 98, 0, 0} }, []uint16{0, 0, 65535, 0}},
		"committed with the uid":      {func(in *Input) { in.RegisteredAt[3] = 99; in.Commits = []uint64{99, 99, 0, 0} }, []uint16{0, 0, 32767, 32767}},
		"no permit":                   {func(in *Input) { in.Permits[0] = false; in.Weights[0] = []Pair{{0, 9}} }, []uint16{0, 0, 32767, 32767}},
		"an inactive row has no vote": {func(in *Input) { in.ActivityCutoff = 9; in.LastUpdate[0] = 101; in.Weights[0] = []Pair{{3, 1}} }, []uint16{0, 0, 0, 65535}},
	} {
		in := base()
		c.change(in)
		if got := run(t, in).Incentive; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestBondMask(t *testing.T) {
	for _, model := range []Model{Classic, Yuma3} {
		in := state(3)
		in.Model = model
		in.Stake[0], in.Permits[0], in.Bonds[0] = 1, true, []Pair{{1, 65535}, {2, 65535}}
		in.RegisteredAt[1], in.LastTempo = 7, 7
		if got := toward(run(t, in).Bonds, 1, 1)[0]; got != 0 {
			t.Errorf("%s: a bond of an earlier holder of the uid stays: %d", model, got)
		}
		in.LastTempo = 8
		if got := toward(run(t, in).Bonds, 1, 1)[0]; got == 0 {
			t.Errorf("%s: the bond is lost", model)
		}
		in.Stake[0] = 0
		if got := run(t, in).Bonds[0]; len(got) != 0 {
			t.Errorf("%s: a row without a permit is kept: %v", model, got)
		}
	}
}

// With liquid alpha the chain walks a row as the validator gave it: a uid that
// stands behind a larger one counts as without a weight in alpha, not in the bond.
func TestLiquidAlphaOfRowsOutOfOrder(t *testing.T) {
	for _, x := range []struct {
		penalty uint16
		row     []Pair // of uid 0
		late    bool   // uid 2 is passed over
	}{
		{65535, []Pair{{2, 30000}, {3, 65535}}, false},
		{65535, []Pair{{3, 65535}, {2, 30000}}, true},
		{0, []Pair{{3, 65535}, {2, 30000}}, true},
		{32768, []Pair{{3, 65535}, {2, 30000}}, false}, // the chain sorts it
		{65535, []Pair{{1, 0}, {2, 30000}, {3, 65535}}, false},
		{65535, []Pair{{3, 0}, {2, 65535}}, true}, // a weight of 0 moves the cursor
	} {
		in := state(4)
		in.Model, in.BondsPenalty = Yuma3, x.penalty
		in.Liquid = &Liquid{Low: 1000, High: 60000, Steepness: 1000}
		in.Stake[0], in.Stake[1] = 3, 1
		in.Permits[0], in.Permits[1] = true, true
		in.Weights[0], in.Weights[1] = x.row, []Pair{{2, 65535}, {3, 65535}}
		in.Bonds[0] = []Pair{{2, 5000}, {3, 60000}}
		out := run(t, in)
		got := toward(out.Bonds, 2, 1)[0]
		weights := in.weights([]bool{true, true, false, false})
		active := []fx{one / 4 * 3, one / 4, 0, 0}
		consensus := medians(weights, active, 4, proportion(in.Kappa))
		now := toCol(interpolate(weights, clip(weights, consensus), proportion(x.penalty))[0], 2)
		before := proportion(5000)
		weight := now
		if x.late {
			weight = 0
		}
		a := liquidAlpha(weight, before, consensus[2], proportion(1000), proportion(60000), fromUint(10))
		if want := min(one, add(mul(a, now), mul(one-a, before))).u16(); got != want || want == 0 {
			t.Errorf("penalty %d, row %v: bond %d, want %d", x.penalty, x.row, got, want)
		}
		if plain := liquidAlpha(now, before, consensus[2], proportion(1000), proportion(60000), fromUint(10)); x.late && plain == a {
			t.Errorf("penalty %d, row %v: the order makes no difference", x.penalty, x.row)
		}
	}
}

func toCol(row []entry, col int) fx {
	for _, e := range row {
		if e.col == col {
			return e.value
		}
	}
	return 0
}

// Yuma3 keeps each validator's bond as a fraction that moves toward its own
// clipped weight by a tenth.
func TestYuma3(t *testing.T) {
	in := state(3)
	in.Model = Yuma3
	in.Stake[0], in.Stake[1] = 3, 1
	in.Permits[0], in.Permits[1] = true, true
	in.Weights[0], in.Weights[1] = []Pair{{2, 65535}}, []Pair{{2, 65535}}
	want := one
	var bond fx
	for epoch := range 5 {
		out := run(t, in)
		bond = add(mul(in.alpha(), want), mul(one-in.alpha(), proportion(bond.u16())))
		if got := toward(out.Bonds, 2, 2); got[0] != bond.u16() || got[1] != got[0] {
			t.Errorf("epoch %d: bonds %v, want %d twice", epoch, got, bond.u16())
		}
		if out.Dividends[0] != 49151 || out.Dividends[1] != 16383 {
			t.Errorf("epoch %d: dividends %v", epoch, out.Dividends)
		}
		in.Bonds = out.Bonds
	}
	in.Liquid = &Liquid{Low: 45875, High: 58982, Steepness: 1000}
	fast := run(t, in)
	if got := toward(fast.Bonds, 2, 1)[0]; got <= bond.u16() {
		t.Errorf("liquid alpha does not move bonds faster: %d after %d", got, bond.u16())
	}
	in.Weights[1] = nil
	if got := toward(run(t, in).Bonds, 2, 2); got[0] <= bond.u16() || got[1] != 0 {
		t.Errorf("with liquid alpha a bond without a weight is zero at once: %v", got)
	}
	in.Liquid = nil
	if got := toward(run(t, in).Bonds, 2, 2)[1]; got == 0 || got >= bond.u16() {
		t.Error("without liquid alpha a bond decays")
	}
}

func TestExp(t *testing.T) {
	for x := -8.0; x <= 8; x += 0.37 {
		got, want := float64(exp(fx(x*float64(one))))/float64(one), math.Exp(x)
		if math.Abs(got-want) > 1e-6*want+1e-8 {
			t.Errorf("e^%g = %g, want %g", x, got, want)
		}
	}
	if exp(0) != one || exp(100*one) != exp(20*one) {
		t.Error("ends")
	}
}

func TestFixed(t *testing.T) {
	if mul(maxFx, maxFx) != maxFx || div(maxFx, 1) != maxFx || div(1, 0) != 0 || add(maxFx, 1) != maxFx || fromUint(1<<40) != maxFx {
		t.Error("saturation")
	}
	if mul(1, 1) != 0 || mulUp(1, 1) != 1 || div(one, 3*one) != 1431655765 || one.u16() != 65535 || half.u16() != 32767 || (2*one).u16() != 65535 {
		t.Error("rounding")
	}
	if got := (one - fx(900_000<<fracBits/1_000_000)); got != 429_496_730 {
		t.Errorf("alpha %d", got)
	}
	if maxFx.times(math.MaxUint64) != math.MaxUint64 || half.times(9) != 4 {
		t.Error("times")
	}
	if interpolate(matrix{{{0, 3}}}, matrix{{}}, half)[0][0].value != 1 {
		t.Error("a negative step rounds down")
	}
}

// random is a state as a hostile subnet might leave it.
func random(r *rand.Rand, n int) *Input {
	in := state(n)
	in.Block, in.LastTempo = 1000, uint64(r.IntN(1000))
	in.ActivityCutoff = uint64(r.IntN(2000))
	in.MaxValidators = uint16(r.IntN(n + 2))
	in.Owner = r.IntN(n+1) - 1
	in.Kappa, in.BondsPenalty = uint16(r.Uint32()), uint16(r.Uint32())
	if r.IntN(2) == 0 {
		in.Kappa, in.BondsPenalty = 32767, 65535
	}
	in.BondsMovingAverage = uint64(r.IntN(1_000_001))
	in.Emission = r.Uint64() >> r.IntN(64)
	in.StakeThreshold = uint64(r.IntN(100))
	if r.IntN(2) == 0 {
		in.Model = Yuma3
		if r.IntN(2) == 0 {
			in.Liquid = &Liquid{Low: uint16(r.Uint32()), High: uint16(r.Uint32()), Steepness: int16(r.Uint32())}
		}
	}
	for i := range n {
		in.Stake[i] = r.Uint64() >> (1 + r.IntN(63))
		in.Permits[i] = r.IntN(3) > 0
		in.RegisteredAt[i] = uint64(r.IntN(1000))
		in.LastUpdate[i] = uint64(r.IntN(1000))
		for j := range n {
			if r.IntN(2) == 0 {
				in.Weights[i] = append(in.Weights[i], Pair{uint16(j), uint16(r.Uint32() >> r.IntN(17))})
			}
			if in.Permits[i] && r.IntN(2) == 0 {
				in.Bonds[i] = append(in.Bonds[i], Pair{uint16(j), uint16(r.Uint32())})
			}
		}
	}
	return in
}

// What holds of every state, whatever its history.
func TestInvariants(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 6))
		n := 1 + r.IntN(24)
		in := random(r, n)
		for epoch := range 3 {
			out := run(t, in)
			if err := invariants(in, out); err != nil {
				t.Fatalf("seed %d, epoch %d: %v", seed, epoch, err)
			}
			again := run(t, in)
			if !reflect.DeepEqual(out, again) {
				t.Fatalf("seed %d: two runs differ", seed)
			}
			in.Bonds, in.Permits = out.Bonds, out.Permits
		}
	}
}

func invariants(in *Input, out *Output) error {
	n := len(in.Stake)
	var emission, server, validator, incentive, dividends uint64
	var over bool
	for i := range n {
		emission += out.Emission[i]
		over = over || emission > in.Emission
		server += out.Server[i]
		validator += out.Validator[i]
		incentive += uint64(out.Incentive[i])
		dividends += uint64(out.Dividends[i])
	}
	slack := in.Emission>>30 + uint64(2*n) // each share is cut to 32 bits
	switch permitted := count(out.Permits); {
	case over || server > in.Emission || validator > in.Emission-server:
		return fmt.Errorf("emission %d of %d (%d, %d)", emission, in.Emission, server, validator)
	case permitted > int(in.MaxValidators)+1 || in.Owner < 0 && permitted > int(in.MaxValidators):
		return fmt.Errorf("%d permits of %d", permitted, in.MaxValidators)
	case in.Owner >= 0 && !out.Permits[in.Owner]:
		return fmt.Errorf("the owner has no permit")
	case incentive > 65535 || incentive > 0 && incentive+uint64(n) < 65535:
		return fmt.Errorf("incentive sums to %d", incentive)
	case dividends > 65535 || dividends > 0 && dividends+uint64(n) < 65535:
		return fmt.Errorf("dividends sum to %d", dividends)
	case incentive > 0 && emission+slack*uint64(n) < in.Emission:
		return fmt.Errorf("emission %d of %d is lost", in.Emission-emission, in.Emission)
	}
	for i := range n {
		if !out.Permits[i] && len(out.Bonds[i]) > 0 {
			return fmt.Errorf("bonds of %d without a permit", i)
		}
		if out.Consensus[i] == 0 && out.Incentive[i] > 1 {
			return fmt.Errorf("incentive %d of %d without consensus", out.Incentive[i], i)
		}
		if !in.Permits[i] && i != in.Owner && out.ValidatorTrust[i] != 0 {
			return fmt.Errorf("trust of %d, which may not vote", i)
		}
		if !out.Permits[i] && out.Permits[min(i, n-1)] {
			return fmt.Errorf("permit of %d", i)
		}
		for j := range n { // a permit is never held against more stake
			if i != in.Owner && j != in.Owner && out.Permits[i] && !out.Permits[j] && out.StakeWeight[j] > out.StakeWeight[i] {
				return fmt.Errorf("permit of %d with less stake than %d", i, j)
			}
		}
	}
	return nil
}

func count(bs []bool) (n int) {
	for _, b := range bs {
		if b {
			n++
		}
	}
	return n
}

func TestRefuses(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"short permits": func(in *Input) { in.Permits = in.Permits[1:] }, "short weights": func(in *Input) { in.Weights = nil },
		"short bonds": func(in *Input) { in.Bonds = nil }, "short updates": func(in *Input) { in.LastUpdate = nil },
		"short registrations": func(in *Input) { in.RegisteredAt = nil }, "short commits": func(in *Input) { in.Commits = []uint64{1} },
		"owner": func(in *Input) { in.Owner = 3 }, "model": func(in *Input) { in.Model = "" }, "average": func(in *Input) { in.BondsMovingAverage = 1_000_001 },
		"weight to nobody": func(in *Input) { in.Weights[0] = []Pair{{3, 1}} }, "bond twice": func(in *Input) { in.Bonds[1] = []Pair{{0, 1}, {0, 1}} },
	} {
		in := state(3)
		change(in)
		if _, err := Run(in); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Run(state(MaxNeurons + 1)); err == nil {
		t.Error("too many neurons: accepted")
	}
	if out, err := Run(state(0)); err != nil || len(out.Emission) != 0 {
		t.Errorf("nobody: %+v %v", out, err)
	}
}

func TestCalc(t *testing.T) {
	const good = `{"n":3,"stake":[3,1,0],"permits":[true,true,false],"weights":[[[2,65535]],[[2,7]],[]],"bonds":[[],[],[]],` +
		`"last_update":[5,5,5],"registered_at":[0,0,0],"last_tempo":1,"block":10,"activity_cutoff":5000,"owner_uid":null,"kappa":32767,` +
		`"bonds_moving_average":900000,"bonds_penalty":65535,"max_validators":2,"emission_rao":1000,"model":"classic"}`
	for in, want := range map[string]string{
		good: `{"consensus":[0,0,65535],"incentive":[0,0,65535],"dividends":[49151,16383,0],"validator_trust":[65535,65535,0],"trust":[0,0,65535],` +
			`"rank":[0,0,65535],"permits":[true,true,false],"bonds":[[[2,65535]],[[2,21844]],[]],"emission":[375,124,500]}`,
		strings.Replace(good, `"n":3`, `"n":4`, 1):                    `"error"`,
		strings.Replace(good, `"owner_uid":null`, `"owner":1`, 1):     `"error"`,
		strings.Replace(good, `[2,7]`, `[2,7,1]`, 1):                  `"error"`,
		strings.Replace(good, `[2,7]`, `[2]`, 1):                      `"error"`,
		strings.Replace(good, `"classic"`, `"yuma2"`, 1):              `"error"`,
		strings.Replace(good, `"owner_uid":null`, `"owner_uid":2`, 1): `"permits":[true,true,true]`,
	} {
		var out bytes.Buffer
		if _, err := calc.New(Rules()...).Run("chain.yuma", strings.NewReader(in), &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", in, err, out.String())
		}
	}
}

func FuzzPair(f *testing.F) {
	f.Add(`[1,2]`)
	f.Add(`[1]`)
	f.Add(`{"UID":1}`)
	f.Fuzz(func(t *testing.T, s string) {
		var p, q Pair
		if json.Unmarshal([]byte(s), &p) != nil {
			return
		}
		b, err := json.Marshal(p)
		if err != nil || json.Unmarshal(b, &q) != nil || p != q {
			t.Errorf("%s becomes %s: %v", s, b, err)
		}
	})
}

// dense is the speed case: 256 neurons, 64 validators, each weighing all.
func dense(model Model) *Input {
	r := rand.New(rand.NewPCG(1, 2))
	in := state(256)
	in.Model = model
	for i := range 64 {
		in.Stake[i], in.Permits[i] = 1+r.Uint64()>>12, true
		for j := range 256 {
			in.Weights[i] = append(in.Weights[i], Pair{uint16(j), uint16(r.Uint32())})
			in.Bonds[i] = append(in.Bonds[i], Pair{uint16(j), uint16(r.Uint32())})
		}
	}
	return in
}

func BenchmarkEpoch(b *testing.B) {
	for _, model := range []Model{Classic, Yuma3} {
		in := dense(model)
		b.Run(string(model), func(b *testing.B) {
			for b.Loop() {
				run(b, in)
			}
		})
	}
	in := dense(Yuma3)
	in.Liquid = &Liquid{Low: 45875, High: 58982, Steepness: 1000}
	b.Run("liquid", func(b *testing.B) {
		for b.Loop() {
			run(b, in)
		}
	})
}
