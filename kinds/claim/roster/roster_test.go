package roster

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/engine/incentive"
)

func names(seats []incentive.Entry) string {
	var out []string
	for _, p := range seats {
		out = append(out, p.Submission)
	}
	return strings.Join(out, " ")
}

// roster is an arena that remembers only who entered.
type roster struct {
	entered []incentive.Entry
	numbers map[string]float64
}

// challenge plays one challenge; it returns the verdict and who sits then.
func (r *roster) challenge(name, miner string, score float64) (incentive.Verdict, []incentive.Entry) {
	rule := TopThree()
	e := incentive.Entry{Submission: name, Miner: miner, Score: score}
	v := rule.Decide(incentive.Challenge{Numbers: rule.Of(r.numbers), Challenger: e, Seats: rule.Sit(nil, r.entered)})
	if v.Takes {
		r.entered = append(r.entered, e)
	}
	return v, rule.Sit(nil, r.entered)
}

func TestRosterSteps(t *testing.T) {
	var r roster
	for i, c := range []struct {
		name  string
		score float64
		want  string
	}{
		{"a", 0.3, "a"},      // empty: enters
		{"b", 0.3, "a"},      // a tie never enters
		{"c", 0.2, "a"},      // below
		{"d", 0.5, "d a"},    // beats the first: everybody moves down
		{"e", 0.4, "d a"},    // beats only the second: nothing
		{"f", 0.6, "f d a"},  // full
		{"g", 0.55, "f d a"}, // beats the second and third: nothing
		{"h", 0.7, "h f d"},  // the last one leaves
		{"a", 0.8, "a h f"},  // an old one comes back
		{"h", 0.9, "h a f"},  // the second beats the first: nobody holds two places
		{"i", math.NaN(), "h a f"},
	} {
		before := slices.Clone(TopThree().Sit(nil, r.entered))
		v, next := r.challenge(c.name, "m-"+c.name, c.score)
		if names(next) != c.want {
			t.Fatalf("step %d: %q, want %q", i, names(next), c.want)
		}
		if entered := names(next) != names(before); v.Takes != entered || v.Rule != StepRule || (v.Bar == nil) != (len(before) == 0) {
			t.Fatalf("step %d: %+v", i, v)
		}
		if len(before) > 0 && (v.Numbers["bar"] != *v.Bar || v.Numbers["first"] != before[0].Score || v.Numbers["places"] != float64(len(before))) {
			t.Fatalf("step %d is not explained: %+v", i, v)
		}
	}
}

// A coldkey holds one place, however many hotkeys it enters by, unless the arena says otherwise.
func TestOnePlacePerColdkey(t *testing.T) {
	entered := []incentive.Entry{
		{Submission: "a", Miner: "m1", Coldkey: "c1", Score: 0.3},
		{Submission: "b", Miner: "m2", Coldkey: "c2", Score: 0.4},
		{Submission: "c", Miner: "m3", Coldkey: "c1", Score: 0.5},
		{Submission: "d", Miner: "m4", Coldkey: "c1", Score: 0.6},
	}
	rule := TopThree()
	for same, want := range map[float64]string{0: "d b", 1: "d c b"} {
		if got := names(rule.Seats(rule.Of(map[string]float64{"same_coldkey": same}), entered)); got != want {
			t.Errorf("same_coldkey %g: %q, want %q", same, got, want)
		}
	}
}

func TestRosterMargin(t *testing.T) {
	for _, c := range []struct {
		score, margin float64
		enters        bool
	}{{0.5, 0, false}, {0.51, 0, true}, {0.6, 0.1, false}, {0.61, 0.1, true}, {0.55, 0.1, false}} {
		r := roster{entered: []incentive.Entry{{Submission: "a", Miner: "m", Score: 0.5}}, numbers: map[string]float64{"margin": c.margin}}
		if v, _ := r.challenge("b", "n", c.score); v.Takes != c.enters {
			t.Errorf("%+v: %+v", c, v)
		}
	}
}

// A copy of the first scores what the first scores. Whatever the order of
// challengers, it never enters.
func TestCopyNeverEnters(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var r roster
		for i := range 30 {
			seats := TopThree().Sit(nil, r.entered)
			if len(seats) > 0 && rnd.IntN(2) == 0 {
				v, next := r.challenge(fmt.Sprintf("copy%d", i), fmt.Sprint("m", i), seats[0].Score)
				if v.Takes || !reflect.DeepEqual(next, seats) {
					t.Fatalf("a copy of the first entered: %+v", v)
				}
				continue
			}
			v, next := r.challenge(fmt.Sprint("s", i), fmt.Sprint("m", rnd.IntN(8)), float64(rnd.IntN(13))/12)
			if v.Takes {
				for _, p := range seats {
					if next[0].Score <= p.Score {
						t.Fatalf("%+v entered above %+v", next[0], p)
					}
				}
			}
			held := map[string]bool{}
			for _, p := range next {
				held[p.Miner] = true
			}
			if len(next) > Places || len(held) != len(next) {
				t.Fatalf("seats %+v", next)
			}
		}
	}
}

func TestRosterShares(t *testing.T) {
	full := []incentive.Entry{{Miner: "m1"}, {Miner: "m2"}, {Miner: "m3"}}
	r := TopThree()
	for n, want := range []struct {
		burned float64
		shares []float64
	}{
		{1, []float64{}},
		{0.4, []float64{0.6}},
		{0.1, []float64{0.6, 0.3}},
		{0, []float64{0.6, 0.3, 0.1}},
	} {
		shares, burned, err := r.Split(nil, full[:n], time.Time{})
		if err != nil || math.Abs(burned-want.burned) > 1e-12 || !slices.Equal(shares, want.shares) {
			t.Errorf("%d places: %v %v %v", n, shares, burned, err)
		}
	}
	own := map[string]float64{"share_1": 0.5, "share_2": 0.25, "share_3": 0.125}
	if shares, burned, err := r.Split(own, full, time.Time{}); err != nil || burned != 0.125 || !slices.Equal(shares, []float64{0.5, 0.25, 0.125}) {
		t.Errorf("own split: %v %v %v", shares, burned, err)
	}
}

func TestNumbers(t *testing.T) {
	r := TopThree()
	for _, c := range []struct {
		own  map[string]float64
		want string
	}{
		{nil, ""},
		{map[string]float64{"margin": 0.01}, ""},
		{map[string]float64{"share_1": 1, "share_2": 0, "share_3": 0}, ""},
		{map[string]float64{"margin": -0.01}, "margin: -0.01 is not from 0 to less than 1"},
		{map[string]float64{"marge": 1}, "marge: the rule takes margin, same_coldkey, share_1, share_2, share_3 only"},
		{map[string]float64{"share_1": 0.9}, "split: the shares sum to 1.3, more than 1"},
	} {
		err := r.CheckNumbers(c.own)
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%v: %v, want %q", c.own, err, c.want)
		}
	}
}

func TestCheckSplit(t *testing.T) {
	for _, c := range []struct {
		split []float64
		ok    bool
	}{
		{DefaultSplit[:], true},
		{[]float64{1, 0, 0}, true},
		{[]float64{0.2, 0.2, 0.2}, true},
		{[]float64{0.6, 0.4}, false},
		{[]float64{0.6, 0.3, 0.2}, false},
		{[]float64{0.3, 0.6, 0.1}, false},
		{[]float64{math.NaN(), 0, 0}, false},
		{[]float64{0.6, -0.1, -0.2}, false},
	} {
		if err := CheckSplit(c.split); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.split, err)
		}
	}
}

func TestCalcRoster(t *testing.T) {
	for in, want := range map[string]string{
		`{"roster":[null,null,null],"challenger":"a","score":0,"scores":{}}`:                     `{"roster":["a",null,null],"outcome":"entered"}`,
		`{"roster":["a",null,null],"challenger":"b","score":0.5,"scores":{"a":0.5}}`:             `{"roster":["a",null,null],"outcome":"unchanged"}`,
		`{"roster":["a","b",null],"challenger":"c","score":0.6,"scores":{"a":0.5,"b":0.4}}`:      `{"roster":["c","a","b"],"outcome":"entered"}`,
		`{"roster":["a","b","c"],"challenger":"d","score":0.6,"scores":{"a":0.5},"margin":0.1}`:  `{"roster":["a","b","c"],"outcome":"unchanged"}`,
		`{"roster":["a","b","c"],"challenger":"d","score":0.61,"scores":{"a":0.5},"margin":0.1}`: `{"roster":["d","a","b"],"outcome":"entered"}`,
		`{"roster":["a","b","c"],"challenger":"c","score":0.61,"scores":{"a":0.5}}`:              `{"roster":["c","a","b"],"outcome":"entered"}`,
		`{"roster":[5,1,null],"challenger":7,"score":0.61,"scores":{"5":0.5,"1":0.1}}`:           `{"roster":[7,5,1],"outcome":"entered"}`,
		`{"roster":["a","b"],"challenger":"d","score":1,"scores":{"a":0}}`:                       `{"error":"roster has 2 places, want 3 (null is an empty one)"}`,
		`{"roster":["a",null,null],"challenger":"d","score":1,"scores":{}}`:                      `{"error":"scores has no score of a, the first place"}`,
		`{"roster":["a","a",null],"challenger":"d","score":1,"scores":{"a":0}}`:                  `{"error":"roster[1]: a holds two places"}`,
		`{"roster":[null,null,null],"challenger":true,"score":1,"scores":{}}`:                    `{"error":"challenger: want a text or a number"}`,
	} {
		var out bytes.Buffer
		if _, err := calc.New(Rules()...).Run(StepRule, strings.NewReader(in), &out); err != nil || strings.TrimSpace(out.String()) != want {
			t.Errorf("%s:\n%s want\n%s %v", in, out.String(), want, err)
		}
	}
}
