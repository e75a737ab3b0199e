package ridges

import (
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
)

var t0 = time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)

func entry(id string, score, usd, hour float64) incentive.Entry {
	return incentive.Entry{Submission: id, Miner: id, Score: score, Cost: incentiveMicros(usd), At: t0.Add(time.Duration(hour * float64(time.Hour)))}
}

// enter lets entries challenge in turn and returns who sits, and their shares at the end.
func enter(t *testing.T, rule incentive.Rule, at float64, list ...incentive.Entry) (seats []incentive.Entry, shares []float64, last incentive.Verdict) {
	t.Helper()
	var entered []incentive.Entry
	for _, e := range list {
		last = rule.Decide(incentive.Challenge{Numbers: rule.Of(nil), Challenger: e, Seats: rule.Sit(nil, entered), At: e.At})
		if last.Takes {
			entered = append(entered, e)
		}
	}
	seats = rule.Sit(nil, entered)
	shares, _, err := rule.Split(nil, seats, t0.Add(time.Duration(at*float64(time.Hour))))
	if err != nil {
		t.Fatal(err)
	}
	return seats, shares, last
}

func TestImprovementRule(t *testing.T) {
	r := improvementRule()
	seats, shares, v := enter(t, r, 72, entry("a", .5, .1, 0), entry("b", .52, .1, 72))
	if len(seats) != 2 || !near(v.Numbers["units"], 1.32687) || !near(v.Numbers["time_multiplier"], 3.44949) || !near(v.Numbers["performance_delta"], .04) {
		t.Fatalf("%+v %+v", seats, v)
	}
	// 50 units of 72 hours ago against 1.32687 · 3.44949 of now.
	if a, b := Decayed(50, 72), 1.32687*3.44949; seats[0].Submission != "a" || !near(shares[0], a/(a+b)) || !near(shares[0]+shares[1], 1) {
		t.Errorf("%v", shares)
	}
	if _, _, v := enter(t, r, 72, entry("a", .5, .1, 0), entry("b", .515, .1, 72)); !v.Takes || !near(v.Numbers["reward"], 3.44949) {
		t.Errorf("%+v", v)
	}
	if _, _, v := enter(t, r, 72, entry("a", .5, .1, 0), entry("b", .51, .1, 72)); v.Takes {
		t.Errorf("%+v", v)
	}
	if _, _, v := enter(t, r, 72, entry("b", .49, .1, 72)); !v.Takes || !near(v.Numbers["units"], 49) || v.Numbers["time_multiplier"] != 1 {
		t.Errorf("%+v", v)
	}
	if _, _, v := enter(t, r, 72, entry("b", 0, .1, 72)); v.Takes {
		t.Errorf("nothing solved: %+v", v)
	}
	// Two halves of a reward: what is older by 336 hours earns half.
	_, shares, _ = enter(t, r, 336, entry("a", .5, .1, 0))
	if len(shares) != 1 || shares[0] != 1 {
		t.Errorf("%v", shares)
	}
}

func TestThresholdRule(t *testing.T) {
	r := thresholdRule()
	for _, c := range []struct {
		score, hour float64
		takes       bool
	}{{1, 0, true}, {.98, 0, false}, {.9, 0, false}, {.9, 1000, true}, {.8, 1e6, false}} {
		seats, _, v := enter(t, r, c.hour, entry("l", .85, 0, 0), entry("c", c.score, 0, c.hour))
		if v.Takes != c.takes || seats[0].Submission == "c" != c.takes {
			t.Errorf("%+v: %+v", c, v)
		}
	}
	if seats, shares, _ := enter(t, r, 0, entry("a", .84, 0, 0)); len(seats) != 0 || len(shares) != 0 {
		t.Errorf("the first needs 0.85: %v", seats)
	}
	if _, shares, _ := enter(t, r, 2000, entry("a", .85, 0, 0), entry("b", .99, 0, 1000)); len(shares) != 2 || shares[1] != dust || shares[0] != 1-dust {
		t.Errorf("%v", shares)
	}
}

func TestReceiverRule(t *testing.T) {
	r := receiverRule()
	for _, c := range []struct {
		score, usd float64
		takes      bool
	}{{.6, .5, true}, {.5, .09, true}, {.5, .1, false}, {.5, .2, false}, {.49, 0, false}} {
		seats, _, v := enter(t, r, 2, entry("a", .5, .1, 0), entry("b", c.score, c.usd, 1))
		if v.Takes != c.takes || len(seats) != 1 || seats[0].Submission == "b" != c.takes {
			t.Errorf("%+v: %+v", c, v)
		}
	}
	if _, shares, _ := enter(t, r, 12, entry("a", .5, .1, 0)); shares[0] != 1 {
		t.Error(shares)
	}
	if _, shares, _ := enter(t, r, 12.1, entry("a", .5, .1, 0)); shares[0] != 0 {
		t.Error(shares)
	}
}

func incentiveMicros(usd float64) agon.Micros { return agon.Micros(usd * 1e6) }
