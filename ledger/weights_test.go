package ledger

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/calc"
)

// The vectors of spec/chain.md section 2.7.
func TestNormalizeWeights(t *testing.T) {
	third := 1.0 / 3
	for name, c := range map[string]struct {
		in           []float64
		uids, values []uint16
	}{
		"tenths":           {[]float64{.1, .2, .3, .4}, []uint16{0, 1, 2, 3}, []uint16{16384, 32768, 49151, 65535}},
		"thirds":           {[]float64{third, third, third}, []uint16{0, 1, 2}, []uint16{65535, 65535, 65535}},
		"half":             {[]float64{.5, 1}, []uint16{0, 1}, []uint16{32768, 65535}},
		"one large":        {[]float64{.9, .05, .05}, []uint16{0, 1, 2}, []uint16{65535, 3641, 3641}},
		"integers":         {[]float64{1, 2, 3, 4, 5}, []uint16{0, 1, 2, 3, 4}, []uint16{13107, 26214, 39321, 52428, 65535}},
		"just one":         {[]float64{7.63e-6, 1}, []uint16{0, 1}, []uint16{1, 65535}},
		"just dropped":     {[]float64{7.62e-6, 1}, []uint16{1}, []uint16{65535}},
		"half to even":     {[]float64{2.5 / 65535, 1}, []uint16{0, 1}, []uint16{2, 65535}},
		"float32 cast":     {[]float64{3.5 / 65535, 1}, []uint16{0, 1}, []uint16{3, 65535}},
		"zeros in front":   {[]float64{0, 0, 5}, []uint16{2}, []uint16{65535}},
		"all zero":         {[]float64{0, 0}, []uint16{}, []uint16{}},
		"empty":            {nil, []uint16{}, []uint16{}},
		"below float32":    {[]float64{1e-60}, []uint16{}, []uint16{}},
		"negative zero":    {[]float64{math.Copysign(0, -1), 1}, []uint16{1}, []uint16{65535}},
		"smallest float32": {[]float64{math.SmallestNonzeroFloat32}, []uint16{0}, []uint16{65535}},
	} {
		t.Run(name, func(t *testing.T) {
			uids, values, err := NormalizeWeights(c.in)
			if err != nil || !slices.Equal(uids, c.uids) || !slices.Equal(values, c.values) {
				t.Errorf("got %v %v %v", uids, values, err)
			}
		})
	}
	for name, in := range map[string][]float64{
		"negative": {1, -1e-60}, "nan": {math.NaN()}, "infinite": {math.Inf(1)}, "over float32": {1e39}, "too many": make([]float64, 65537),
	} {
		if _, _, err := NormalizeWeights(in); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestMaxUpscale(t *testing.T) {
	for _, c := range []struct{ in, want []uint16 }{
		{[]uint16{100, 65535, 7}, []uint16{100, 65535, 7}},
		{[]uint16{1}, []uint16{65535}},
		{[]uint16{1, 2}, []uint16{32768, 65535}}, // 32767.5 is rounded away from zero
		{[]uint16{1, 3}, []uint16{21845, 65535}},
		{[]uint16{0, 0}, []uint16{0, 0}},
		{nil, []uint16{}},
		{[]uint16{16384, 32768}, []uint16{32768, 65535}},
		{[]uint16{32769, 1}, []uint16{65535, 2}},
		{[]uint16{65534, 65534}, []uint16{65535, 65535}},
	} {
		if got := MaxUpscale(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.in, got, c.want)
		}
	}
	for largest := range 65536 {
		if got := MaxUpscale([]uint16{uint16(largest), 0}); largest > 0 && got[0] != 65535 || got[1] != 0 {
			t.Fatalf("largest %d becomes %v", largest, got)
		}
	}
}

func FuzzNormalizeWeights(f *testing.F) {
	f.Add(0.1, 0.2, 0.3)
	f.Add(-1.0, math.Inf(1), math.NaN())
	f.Fuzz(func(t *testing.T, a, b, c float64) {
		uids, values, err := NormalizeWeights([]float64{a, b, c})
		if err != nil {
			return
		}
		if len(uids) != len(values) || len(uids) > 0 && slices.Max(values) != 65535 || slices.Contains(values, 0) || !slices.IsSorted(uids) {
			t.Errorf("%v %v %v gives %v %v", a, b, c, uids, values)
		}
	})
}

func TestCalcNormalize(t *testing.T) {
	for in, want := range map[string]string{
		`{"weights":[0.1,0.2,0.3,0.4]}`: `{"uids":[0,1,2,3],"values":[16384,32768,49151,65535]}`,
		`{"weights":[]}`:                `{"uids":[],"values":[]}`,
		`{"weights":[1,-1]}`:            `"error"`,
		`{"weights":null}`:              `"error"`,
		`{"weights":["1"]}`:             `"error"`,
	} {
		var out bytes.Buffer
		if _, err := calc.New(Rules()...).Run("chain.normalize_weights", strings.NewReader(in), &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v %s", in, err, out.String())
		}
	}
}

func TestTopWeights(t *testing.T) {
	m := &Metagraph{
		OwnerHotkey: "o",
		Neurons: []Neuron{
			{UID: 0, Hotkey: "a", Stake: 5}, {UID: 1, Hotkey: "b", Stake: 7}, {UID: 2, Hotkey: "o", Stake: 9}, {UID: 3, Hotkey: "c", Stake: 7},
		},
		Weights: []WeightRow{
			{UID: 0, UIDs: []uint16{0}, Values: []uint16{65535}},
			{UID: 1, UIDs: []uint16{2, 0, 1}, Values: []uint16{0, 5, 65535}},
			{UID: 3, UIDs: []uint16{3}, Values: []uint16{65535}},
		},
	}
	want := []agon.Weight{{UID: 0, Hotkey: "a", Weight: 5}, {UID: 1, Hotkey: "b", Weight: 65535}}
	if got := m.TopWeights(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if uid, ok := m.BurnUID(); !ok || uid != 2 {
		t.Errorf("burn uid %d %t", uid, ok)
	}
	if got := (&Metagraph{}).TopWeights(); got == nil || len(got) != 0 {
		t.Errorf("empty: %v", got)
	}
}

func testMetagraph() *Metagraph {
	return &Metagraph{Netuid: 1, OwnerHotkey: "owner", Neurons: []Neuron{
		{UID: 0, Hotkey: "v"}, {UID: 1, Hotkey: "a"}, {UID: 2, Hotkey: "owner"}, {UID: 3, Hotkey: "b"},
	}}
}

func TestShareWeights(t *testing.T) {
	for name, c := range map[string]struct {
		shares       map[string]float64
		uids, values []uint16
	}{
		"winner":            {map[string]float64{"b": 1}, []uint16{3}, []uint16{65535}},
		"empty seat":        {nil, []uint16{2}, []uint16{65535}},
		"gone winner":       {map[string]float64{"nobody": 1}, []uint16{2}, []uint16{65535}},
		"split":             {map[string]float64{"a": 0.5, "b": 1}, []uint16{1, 3}, []uint16{32768, 65535}},
		"split, one gone":   {map[string]float64{"a": 1, "x": 1, "y": 1}, []uint16{1, 2}, []uint16{32768, 65535}},
		"owner wins itself": {map[string]float64{"owner": 2}, []uint16{2}, []uint16{65535}},
		"zero shares":       {map[string]float64{"a": 0}, []uint16{2}, []uint16{65535}},
	} {
		t.Run(name, func(t *testing.T) {
			uids, values, err := testMetagraph().ShareWeights(c.shares)
			if err != nil || !slices.Equal(uids, c.uids) || !slices.Equal(values, c.values) {
				t.Errorf("got %v %v %v", uids, values, err)
			}
		})
	}
	for name, s := range map[string]map[string]float64{"negative": {"a": -1}, "nan": {"a": math.NaN()}, "infinite": {"a": math.Inf(1)}} {
		if _, _, err := testMetagraph().ShareWeights(s); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	m := testMetagraph()
	m.OwnerHotkey = "elsewhere"
	if _, _, err := m.ShareWeights(nil); err == nil {
		t.Error("burn without the owner: accepted")
	}
	if uids, _, err := m.ShareWeights(map[string]float64{"a": 1}); err != nil || !slices.Equal(uids, []uint16{1}) {
		t.Errorf("a winner needs no owner: %v %v", uids, err)
	}
}
