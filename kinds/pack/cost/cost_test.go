package cost

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/engine/incentive"
)

// same compares JSON values, numbers to 1e-9: the file rounds some.
func same(a, b any) bool {
	switch x := a.(type) {
	case float64:
		y, ok := b.(float64)
		return ok && math.Abs(x-y) <= 1e-9
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k := range x {
			if !same(x[k], y[k]) {
				return false
			}
		}
		return true
	}
	return a == b
}

func TestGoldenCost(t *testing.T) {
	b, err := os.ReadFile("testdata/trajectoryrl.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	reg := calc.New(Rules()...)
	out := map[string]bool{"weights": true, "winner": true, "new_winner_cost": true, "plain": true, "winsorized": true, "delta": true, "bar": true}
	for key, rows := range all {
		for i, row := range rows {
			in, want := map[string]json.RawMessage{}, map[string]any{}
			for f, v := range row {
				// takeover_bar_v61 has an input of the name of another rule's answer.
				if out[f] && !(f == "winner" && key == "takeover_bar_v61") {
					var x any
					if err := json.Unmarshal(v, &x); err != nil {
						t.Fatal(err)
					}
					want[f] = x
				} else if f != "name" {
					in[f] = v
				}
			}
			line, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if bad, err := reg.Run("trajectoryrl."+key, bytes.NewReader(line), &got); err != nil || bad > 0 {
				t.Errorf("%s row %d: %v %s", key, i, err, got.String())
				continue
			}
			var g map[string]any
			if err := json.Unmarshal(got.Bytes(), &g); err != nil || !same(g, want) {
				t.Errorf("%s row %d: got %v, want %v", key, i, g, want)
			}
		}
	}
}

func TestProtectTiesAndNonsense(t *testing.T) {
	list := []Contender{
		{Key: "b", Cost: 2, Qualified: true, Block: 9},
		{Key: "a", Cost: 2, Qualified: true, Block: 5},
		{Key: "free", Cost: 0, Qualified: true},
		{Key: "nan", Cost: math.NaN(), Qualified: true},
		{Key: "neg", Cost: -1, Qualified: true},
	}
	if w, frozen := Protect(list, nil); w == nil || w.Key != "a" || frozen != 2 {
		t.Errorf("got %+v at %v: equal costs go to the earlier commitment, and no cost is not a win", w, frozen)
	}
	if w, frozen := Protect([]Contender{{Key: "a", Cost: 2.6, Qualified: true}}, &Holder{"a", 3}); w == nil || frozen != 2.6 {
		t.Errorf("the holder's own better cost does not count: %v", frozen)
	}
}

func TestCostTakeover(t *testing.T) {
	r := Takeover()
	entry := func(costs ...float64) incentive.Entry {
		e := incentive.Entry{Total: len(costs), Solved: len(costs)}
		for _, c := range costs {
			e.Plays = append(e.Plays, incentive.Play{Solved: true, Value: 1, Metrics: map[string]float64{Metric: c}})
		}
		return e
	}
	failed := entry(1, 1)
	failed.Solved, failed.Plays[1].Solved = 1, false
	unmeasured := entry(5, 5)
	delete(unmeasured.Plays[0].Metrics, Metric)
	seat := []incentive.Entry{entry(3e6, 3e6)}
	for name, c := range map[string]struct {
		e     incentive.Entry
		seats []incentive.Entry
		takes bool
	}{
		"first": {entry(9e6), nil, true}, "not qualified": {failed, nil, false}, "no cost": {unmeasured, nil, false}, "free": {entry(0, 5), nil, false},
		"exactly nine tenths": {entry(2.7e6, 2.7e6), seat, false}, "below": {entry(2.6e6, 2.7e6), seat, true}, "nothing played": {incentive.Entry{}, nil, false},
	} {
		v := r.Decide(incentive.Challenge{Challenger: c.e, Seats: c.seats, Numbers: r.Of(nil)})
		if v.Takes != c.takes || (v.Bar != nil) != (len(c.seats) > 0) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if err := r.CheckNumbers(map[string]float64{"factor": 0}); err == nil {
		t.Error("factor 0 was taken")
	}
	if s, burned, err := r.Split(map[string]float64{"share": 0.5}, seat, time.Time{}); err != nil || s[0] != 0.5 || burned != 0.5 {
		t.Errorf("%v %v %v", s, burned, err)
	}
}

func TestScoreTakeover(t *testing.T) {
	r := ScoreTakeover()
	entry := func(values ...float64) incentive.Entry {
		e := incentive.Entry{}
		for _, v := range values {
			e.Plays = append(e.Plays, incentive.Play{Value: v})
		}
		return e
	}
	for _, c := range []struct {
		score float64
		takes bool
	}{{0.86, true}, {0.85, false}, {0.84, false}} {
		v := r.Decide(incentive.Challenge{Challenger: entry(c.score), Seats: []incentive.Entry{entry(0.80)}, Numbers: r.Of(nil)})
		if v.Takes != c.takes {
			t.Errorf("%v: %+v", c.score, v)
		}
	}
	spread := r.Decide(incentive.Challenge{Challenger: entry(1, 0.8), Numbers: r.Of(map[string]float64{"variance": 0.1})})
	if got := spread.Numbers["score"]; math.Abs(got-0.899) > 1e-9 {
		t.Errorf("variance: %v", got)
	}
}
