package incentive

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/calc"
)

func ptr(f float64) *float64 { return &f }

func TestTakeover(t *testing.T) {
	for name, c := range map[string]struct {
		score     float64
		incumbent *float64
		bar       *float64
		takes     bool
	}{
		"empty seat":                 {0.1, nil, nil, true},
		"empty seat, zero":           {0, nil, nil, false},
		"empty seat, negative":       {-1, nil, nil, false},
		"empty seat, nan":            {math.NaN(), nil, nil, false},
		"tie":                        {0.5, ptr(0.5), ptr(0.5075), false},
		"just above":                 {0.507, ptr(0.5), ptr(0.5075), false},
		"at the bar":                 {0.5075, ptr(0.5), ptr(0.5075), true},
		"within the tolerance":       {0.5075 - 0.9e-9, ptr(0.5), ptr(0.5075), true},
		"below the tolerance":        {0.5075 - 1.2e-9, ptr(0.5), ptr(0.5075), false},
		"one is enough":              {1, ptr(0.99), ptr(1), true},
		"nothing beats one":          {1, ptr(1), ptr(1), false},
		"zero incumbent, zero":       {0, ptr(0), ptr(0), false},
		"zero incumbent":             {0.01, ptr(0), ptr(0), true},
		"incumbent within tolerance": {1e-10, ptr(1e-9), ptr(1.015e-9), false},
		"nan":                        {math.NaN(), ptr(0.5), ptr(0.5075), false},
		"nan incumbent":              {0.5, ptr(math.NaN()), ptr(math.NaN()), false},
	} {
		t.Run(name, func(t *testing.T) {
			bar, takes := Takeover(c.score, c.incumbent)
			same := (bar == nil) == (c.bar == nil)
			if same && bar != nil {
				same = math.Abs(*bar-*c.bar) < 1e-12 || math.IsNaN(*bar) && math.IsNaN(*c.bar)
			}
			if takes != c.takes || !same {
				t.Errorf("got %v %t", bar, takes)
			}
		})
	}
}

func TestTakeoverProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	value := func() float64 {
		if r.IntN(2) == 0 {
			return float64(r.IntN(19)) / 18 // solved of 18, as arenas have it
		}
		return r.Float64()
	}
	for range 20000 {
		incumbent, a, b := value(), value(), value()
		_, ta := Takeover(a, &incumbent)
		_, tb := Takeover(b, &incumbent)
		if a <= b && ta && !tb {
			t.Fatalf("not monotone: %v takes from %v, %v does not", a, incumbent, b)
		}
		if _, takes := Takeover(incumbent, &incumbent); takes {
			t.Fatalf("a tie at %v takes the seat", incumbent)
		}
		if _, takes := Takeover(a, ptr(1)); takes {
			t.Fatalf("%v beats 1", a)
		}
		if _, back := Takeover(incumbent, &a); ta && back {
			t.Fatalf("%v and %v take the seat from each other", a, incumbent)
		}
		if ta && a <= incumbent {
			t.Fatalf("%v takes from %v", a, incumbent)
		}
	}
}

func TestWinnerTakesAll(t *testing.T) {
	r := WinnerTakesAll()
	for name, c := range map[string]struct {
		score   float64
		seats   []Entry
		takes   bool
		numbers int
	}{
		"first":       {0.2, nil, true, 3},
		"first, zero": {0, nil, false, 3},
		"better":      {0.8, []Entry{{Submission: "old", Score: 0.5}}, true, 5},
		"equal":       {0.5, []Entry{{Submission: "old", Score: 0.5}}, false, 5},
	} {
		t.Run(name, func(t *testing.T) {
			v := r.Decide(Challenge{Numbers: r.Of(nil), Challenger: Entry{Submission: "new", Score: c.score}, Seats: c.seats})
			if v.Takes != c.takes || v.Rule != "winner_takes_all" || len(v.Numbers) != c.numbers || v.Numbers["score"] != c.score {
				t.Errorf("got %+v", v)
			}
			if (v.Bar == nil) != (len(c.seats) == 0) || len(c.seats) > 0 && v.Numbers["bar"] != *v.Bar {
				t.Errorf("bar %v", v.Bar)
			}
		})
	}
	seats := r.Sit(nil, []Entry{{Miner: "a"}, {Miner: "b"}})
	shares, burned, err := r.Split(nil, seats, time.Time{})
	if len(seats) != 1 || seats[0].Miner != "b" || !slices.Equal(shares, []float64{1}) || burned != 0 || err != nil {
		t.Errorf("seats %v, shares %v, burned %v, %v", seats, shares, burned, err)
	}
	if seats = r.Sit(nil, nil); len(seats) != 0 {
		t.Errorf("nobody entered: %v", seats)
	}
	if shares, burned, err = r.Split(nil, nil, time.Time{}); len(shares) != 0 || burned != 1 || err != nil {
		t.Errorf("nobody sits: %v %v %v", shares, burned, err)
	}
}

func TestRuleNumbers(t *testing.T) {
	r := Rule{
		Numbers: map[string]float64{"margin": 0, "share_1": 0.6, "share_2": 0.3},
		Check: func(n map[string]float64) error {
			if n["share_1"]+n["share_2"] > 1 {
				return errors.New("the shares sum to more than 1")
			}
			return nil
		},
	}
	for _, c := range []struct {
		own  map[string]float64
		want string
	}{
		{nil, ""},
		{map[string]float64{"margin": 0.01}, ""},
		{map[string]float64{"share_1": 1, "share_2": 0}, ""},
		{map[string]float64{"margin": math.NaN()}, "margin: NaN is not a number"},
		{map[string]float64{"marge": 1}, "marge: the rule takes margin, share_1, share_2 only"},
		{map[string]float64{"share_1": 0.9}, "the shares sum to more than 1"},
	} {
		err := r.CheckNumbers(c.own)
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%v: %v, want %q", c.own, err, c.want)
		}
	}
	if err := WinnerTakesAll().CheckNumbers(map[string]float64{"margin": 1}); err == nil {
		t.Error("a number that no rule reads was taken")
	}
	own := map[string]float64{"margin": 0.1}
	if n := r.Of(own); n["margin"] != 0.1 || n["share_2"] != 0.3 || len(own) != 1 || r.Numbers["margin"] != 0 {
		t.Errorf("numbers %v of %v", n, own)
	}
}

func TestSplitRefusesBadShares(t *testing.T) {
	for name, shares := range map[string][]float64{"negative": {-0.1}, "nan": {math.NaN()}, "over": {0.7, 0.7}, "more than one": {1.1}} {
		r := Rule{Shares: func(map[string]float64, []Entry, time.Time) []float64 { return shares }}
		if got, burned, err := r.Split(nil, make([]Entry, len(shares)), time.Time{}); err == nil {
			t.Errorf("%s: %v, burned %v", name, got, burned)
		}
	}
	// Shares of places that nobody holds are burned.
	r := Rule{Shares: func(map[string]float64, []Entry, time.Time) []float64 { return []float64{0.5, 0.25, 0.25} }}
	if got, burned, err := r.Split(nil, make([]Entry, 2), time.Time{}); err != nil || burned != 0.25 || !slices.Equal(got, []float64{0.5, 0.25}) {
		t.Errorf("got %v %v %v", got, burned, err)
	}
}

func TestCalcTakeover(t *testing.T) {
	in := strings.Join([]string{
		`{"score":0.5,"incumbent":null}`, `{"score":0.5}`, `{"score":0,"incumbent":null}`,
		`{"score":0.75,"incumbent":0.5}`, `{"score":0.5,"incumbent":0.5}`, `{"score":1,"incumbent":1}`,
		`{"score":null,"incumbent":1}`, `{"incumbent":1}`, `{"score":"1","incumbent":1}`,
	}, "\n")
	var out bytes.Buffer
	bad, err := calc.New(Rules()...).Run("winner_takes_all", strings.NewReader(in), &out)
	lines := strings.Split(out.String(), "\n")
	want := []string{
		`{"bar":null,"takes":true}`, `{"bar":null,"takes":true}`, `{"bar":null,"takes":false}`,
		`{"bar":0.5075,"takes":true}`, `{"bar":0.5075,"takes":false}`, `{"bar":1,"takes":false}`,
	}
	if err != nil || bad != 3 || len(lines) != 10 || !slices.Equal(lines[:6], want) {
		t.Errorf("bad %d, %v:\n%s", bad, err, out.String())
	}
}
