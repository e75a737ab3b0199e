package incentive

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

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/calc"
)

func names(places []Place) string {
	var out []string
	for _, p := range places {
		out = append(out, p.Submission)
	}
	return strings.Join(out, " ")
}

func challenge(name string, score float64) RosterChallenge {
	return RosterChallenge{Arena: "a", Place: Place{Submission: name, Miner: "m-" + name, Score: score}, At: time.Unix(1, 0)}
}

func TestRosterSteps(t *testing.T) {
	var places []Place
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
		before := slices.Clone(places)
		next, d := RosterStep(places, challenge(c.name, c.score))
		if names(next) != c.want {
			t.Fatalf("step %d: %q, want %q", i, names(next), c.want)
		}
		if !reflect.DeepEqual(before, places) {
			t.Fatalf("step %d changed its input", i)
		}
		entered := names(next) != names(before)
		if (d.Outcome == agon.TookSeat) != entered || d.Rule != RosterRule || (d.Bar == nil) != (len(before) == 0) {
			t.Fatalf("step %d: %+v", i, d)
		}
		if len(before) > 0 && (d.Incumbent != before[0].Submission || d.Numbers["bar"] != *d.Bar || d.Numbers["first"] != before[0].Score) {
			t.Fatalf("step %d is not explained: %+v", i, d)
		}
		places = next
	}
}

func TestRosterMarginAndScripted(t *testing.T) {
	places := []Place{{"a", "m", 0.5}}
	for _, c := range []struct {
		score, margin float64
		enters        bool
	}{{0.5, 0, false}, {0.51, 0, true}, {0.6, 0.1, false}, {0.61, 0.1, true}, {0.55, 0.1, false}} {
		x := challenge("b", c.score)
		x.Margin = c.margin
		if _, d := RosterStep(places, x); (d.Outcome == agon.TookSeat) != c.enters {
			t.Errorf("%+v: %s", c, d.Outcome)
		}
	}
	x := challenge("b", 1)
	x.Scripted = true
	if next, d := RosterStep(places, x); d.Outcome != agon.KeptSeat || d.Rule != ScriptedRule || len(next) != 1 {
		t.Errorf("scripted: %+v", d)
	}
}

// A copy of the first scores what the first scores. Whatever the order of
// challengers, it never enters, and replaying the entries gives the same roster.
func TestCopyNeverEnters(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var places, entered []Place
		for i := range 30 {
			score := float64(r.IntN(13)) / 12
			if len(places) > 0 && r.IntN(2) == 0 {
				dup := challenge(fmt.Sprintf("copy%d", i), places[0].Score)
				next, d := RosterStep(places, dup)
				if d.Outcome != agon.KeptSeat || !reflect.DeepEqual(next, places) {
					t.Fatalf("a copy of the first entered: %+v", d)
				}
				continue
			}
			next, d := RosterStep(places, challenge(fmt.Sprint("s", i), score))
			if d.Outcome == agon.TookSeat {
				entered = append(entered, next[0])
				for _, p := range places {
					if next[0].Score <= p.Score {
						t.Fatalf("%+v entered above %+v", next[0], p)
					}
				}
			}
			if len(next) > RosterPlaces {
				t.Fatalf("%d places", len(next))
			}
			places = next
		}
		if got := RosterReplay(entered); !reflect.DeepEqual(got, places) {
			t.Fatalf("replay gives %v, want %v", got, places)
		}
	}
}

func TestRosterShares(t *testing.T) {
	full := []Place{{"a", "m1", 1}, {"b", "m2", 1}, {"c", "m3", 1}}
	for n, want := range []struct {
		burned float64
		shares Shares
	}{
		{1, Shares{}},
		{0.4, Shares{"m1": 0.6}},
		{0.1, Shares{"m1": 0.6, "m2": 0.3}},
		{0, Shares{"m1": 0.6, "m2": 0.3, "m3": 0.1}},
	} {
		shares, burned := RosterShares(full[:n], DefaultRosterSplit)
		if math.Abs(burned-want.burned) > 1e-12 || !reflect.DeepEqual(shares, want.shares) {
			t.Errorf("%d places: %v %v", n, shares, burned)
		}
	}
}

func TestCheckSplit(t *testing.T) {
	for _, c := range []struct {
		split []float64
		ok    bool
	}{
		{DefaultRosterSplit[:], true},
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
		if _, err := calc.New(Rules()...).Run(RosterRule, strings.NewReader(in), &out); err != nil || strings.TrimSpace(out.String()) != want {
			t.Errorf("%s:\n%s want\n%s %v", in, out.String(), want, err)
		}
	}
}
