package incentive

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
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
	at := time.Unix(1, 0)
	seat := &agon.Seat{Arena: "a", Submission: "old", Miner: "m", Score: 0.5}
	for name, c := range map[string]struct {
		in            Challenge
		outcome, rule string
		numbers       int
	}{
		"first":          {Challenge{Score: 0.2}, agon.TookSeat, TakeoverRule, 3},
		"first, zero":    {Challenge{Score: 0}, agon.KeptSeat, TakeoverRule, 3},
		"better":         {Challenge{Score: 0.8, Incumbent: seat}, agon.TookSeat, TakeoverRule, 5},
		"equal":          {Challenge{Score: 0.5, Incumbent: seat}, agon.KeptSeat, TakeoverRule, 5},
		"scripted":       {Challenge{Score: 1, Incumbent: seat, Scripted: true}, agon.KeptSeat, ScriptedRule, 5},
		"scripted first": {Challenge{Score: 1, Scripted: true}, agon.KeptSeat, ScriptedRule, 3},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Arena, c.in.Submission, c.in.At = "a", "new", at
			d := WinnerTakesAll(c.in)
			if d.Outcome != c.outcome || d.Rule != c.rule || len(d.Numbers) != c.numbers ||
				d.Arena != "a" || d.Challenger != "new" || !d.At.Equal(at) || d.Score != c.in.Score || d.Numbers["score"] != c.in.Score {
				t.Errorf("got %+v", d)
			}
			if (d.Bar == nil) != (c.in.Incumbent == nil) || c.in.Incumbent != nil && (d.Incumbent != "old" || d.Numbers["bar"] != *d.Bar) {
				t.Errorf("bar %v, incumbent %q", d.Bar, d.Incumbent)
			}
		})
	}
}

func TestSeatShares(t *testing.T) {
	if got := SeatShares(&agon.Seat{Miner: "b", Score: 0.3}); len(got) != 1 || got["b"] != 1 {
		t.Errorf("got %v", got)
	}
	if got := SeatShares(nil); len(got) != 0 {
		t.Errorf("empty seat: %v", got)
	}
}

func TestCalcTakeover(t *testing.T) {
	in := strings.Join([]string{
		`{"score":0.5,"incumbent":null}`, `{"score":0.5}`, `{"score":0,"incumbent":null}`,
		`{"score":0.75,"incumbent":0.5}`, `{"score":0.5,"incumbent":0.5}`, `{"score":1,"incumbent":1}`,
		`{"score":null,"incumbent":1}`, `{"incumbent":1}`, `{"score":"1","incumbent":1}`,
	}, "\n")
	var out bytes.Buffer
	bad, err := calc.New(Rules()...).Run(TakeoverRule, strings.NewReader(in), &out)
	lines := strings.Split(out.String(), "\n")
	want := []string{
		`{"bar":null,"takes":true}`, `{"bar":null,"takes":true}`, `{"bar":null,"takes":false}`,
		`{"bar":0.5075,"takes":true}`, `{"bar":0.5075,"takes":false}`, `{"bar":1,"takes":false}`,
	}
	if err != nil || bad != 3 || len(lines) != 10 || !slices.Equal(lines[:6], want) {
		t.Errorf("bad %d, %v:\n%s", bad, err, out.String())
	}
}
