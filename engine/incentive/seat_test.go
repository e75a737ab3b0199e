package incentive

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// contested is a challenge of which each validator has played the pairs given.
func contested(own map[string]float64, streams ...[]Pair) Contested {
	c := Contested{Numbers: Paired().Of(own), Attempt: 1, Solved: 1}
	for i, s := range streams {
		c.Streams = append(c.Streams, Stream{Validator: string(rune('a' + i)), Index: i, Rounds: [][]Pair{s}})
	}
	return c
}

func many(n int, p Pair) (out []Pair) {
	for range n {
		out = append(out, p)
	}
	return out
}

func TestDecidePaired(t *testing.T) {
	win, loss, tie := Pair{1, 0}, Pair{0, 1}, Pair{1, 1}
	single := map[string]float64{NumValidators: 1, NumAgree: 1, NumMaxPairs: 40}
	for name, x := range map[string]struct {
		c       Contested
		outcome string
		more    int
	}{
		"nothing yet":                  {contested(nil), OutcomeMore, 16},
		"one of three is enough never": {contested(nil, many(40, win), many(4, tie), many(4, tie)), OutcomeMore, 16},
		"two of three":                 {contested(nil, many(40, win), many(40, win), many(40, loss)), OutcomeSeated, 0},
		"one liar keeps nobody out":    {contested(nil, many(60, loss), many(8, win), many(8, win)), OutcomeMore, 16},
		"two keep":                     {contested(nil, many(60, loss), many(60, loss), many(8, win)), OutcomeKept, 0},
		"a single one seats":           {contested(single, many(20, win)), OutcomeSeated, 0},
		"a single one keeps":           {contested(single, many(20, loss)), OutcomeKept, 0},
		"no more than max_pairs":       {contested(single, append(many(17, tie), many(17, Pair{1, 0.9})...)), OutcomeMore, 6},
		"undecided":                    {contested(single, append(many(20, tie), many(20, Pair{1, 0.8})...)), OutcomeUndecided, 0},
	} {
		v := decidePaired(x.c)
		if v.Outcome != x.outcome || v.More != x.more {
			t.Errorf("%s: %s, %d more (%v)", name, v.Outcome, v.More, v.Numbers)
		}
	}
	// A fourth validator that came late adds no vote.
	if v := decidePaired(contested(nil, many(40, tie), many(40, tie), many(20, win), many(19, win))); v.Outcome == OutcomeSeated {
		t.Error("two of four seat")
	}
	none := contested(single, many(20, win))
	none.Solved = 0
	if v := decidePaired(none); v.Outcome == OutcomeSeated {
		t.Error("who has solved nothing sits")
	}
	paid := contested(map[string]float64{NumValidators: 1, NumAgree: 1, NumMaxUSD: 2}, many(8, tie))
	for spent, want := range map[agon.Micros]string{1_999_999: OutcomeMore, 2_000_000: OutcomeUndecided} {
		paid.Spent = spent
		if v := decidePaired(paid); v.Outcome != want {
			t.Errorf("$%d: %s", spent, v.Outcome)
		}
	}
	later := contested(single, many(17, win))
	if v := decidePaired(later); v.Outcome != OutcomeSeated {
		t.Errorf("the first attempt: %s", v.Outcome)
	}
	for attempt, want := range map[int]string{1: OutcomeSeated, 5: OutcomeMore} { // 16 in a row are 2,069 of 2,000 and of 4,112
		later.Attempt, later.Streams[0].Rounds[0] = attempt, many(16, win)
		if v := decidePaired(later); v.Outcome != want {
			t.Errorf("attempt %d: %s with %v of %v", attempt, v.Outcome, v.Numbers["evidence"], v.Numbers["need"])
		}
	}
}

// While one has seated the challenger, another goes on with what settled ones have left of max_pairs, and no further.
func TestSparePairs(t *testing.T) {
	own := map[string]float64{NumMaxPairs: 40}
	win, loss, tie := Pair{1, 0}, Pair{0, 1}, Pair{1, 1}
	for name, x := range map[string]struct {
		streams [][]Pair
		outcome string
		more    int
	}{
		"24 and 24 are left":       {[][]Pair{many(16, win), many(16, loss), many(40, tie)}, OutcomeMore, 16},
		"33 of them are used":      {[][]Pair{many(16, win), many(16, loss), many(73, tie)}, OutcomeMore, 15},
		"all are used":             {[][]Pair{many(16, win), many(16, loss), many(88, tie)}, OutcomeUndecided, 0},
		"two share 24":             {[][]Pair{many(16, win), many(40, tie), many(40, tie)}, OutcomeMore, 12},
		"who has seated nobody":    {[][]Pair{many(16, loss), many(40, tie), many(40, tie)}, OutcomeUndecided, 0},
		"two have seated it":       {[][]Pair{many(16, win), many(16, win), many(40, tie)}, OutcomeSeated, 0},
		"late evidence is as good": {[][]Pair{many(16, win), many(16, loss), append(many(40, tie), many(16, win)...)}, OutcomeSeated, 0},
	} {
		v := decidePaired(contested(own, x.streams...))
		if v.Outcome != x.outcome || v.More != x.more {
			t.Errorf("%s: %s, %d more (%v), want %s, %d", name, v.Outcome, v.More, v.Numbers, x.outcome, x.more)
		}
		if v.Outcome == OutcomeMore && slices.Contains(v.Settled, 2) {
			t.Errorf("%s: who goes on is settled", name)
		}
	}
}

// Evidence inside a round does not decide: its pairs stand in an order.
func TestRoundsAreWhole(t *testing.T) {
	cfg := config(t, 1)
	var whole, parts Contest
	round := append(many(20, Pair{1, 0}), many(20, Pair{0, 1})...)
	whole.AddRound(round, cfg)
	for _, p := range round {
		parts.Add(p, cfg)
	}
	if whole.Outcome(cfg) == OutcomeSeated || parts.Outcome(cfg) != OutcomeSeated {
		t.Errorf("%s by rounds, %s by pairs", whole.Outcome(cfg), parts.Outcome(cfg))
	}
}

// What pairs cost is told with its interval, and decides nothing.
func TestPairsTellCosts(t *testing.T) {
	streams := contested(nil, many(5, Pair{1, 0})).Streams
	plain := decidePaired(Contested{Numbers: Paired().Of(nil), Attempt: 1, Solved: 1, Streams: streams})
	streams[0].Costs = []Spent{{0.002, 0.004}, {0.003, 0.004}, {0.001, 0.004}, {0, 0.004}}
	told := decidePaired(Contested{Numbers: Paired().Of(nil), Attempt: 1, Solved: 1, Streams: streams})
	if told.Outcome != plain.Outcome || told.Numbers["evidence"] != plain.Numbers["evidence"] {
		t.Errorf("costs changed %+v to %+v", plain, told)
	}
	// Differences 0.002, 0.001 and 0.003: mean 0.002, deviation 0.001.
	for name, want := range map[string]float64{"cost": 0.002, "incumbent_cost": 0.004, "saves": 0.002, "saves_within": 1.96 * 0.001 / math.Sqrt(3)} {
		if got := told.Numbers[name]; math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	s := Say(map[string]Rule{PairedRule: Paired()}, agon.Decision{Rule: PairedRule, Outcome: agon.KeptSeat, Incumbent: "i", Score: 1, Numbers: told.Numbers})
	if !strings.Contains(s, "by the cost of a task: $0.002000 against $0.004000, which saves $0.002000 ± $0.001132") {
		t.Error(s)
	}
}

func TestPairedNumbers(t *testing.T) {
	for field, own := range map[string]map[string]float64{
		"alpha":              {NumAlpha: 0.7},
		"alpha_arena":        {NumArenaAlpha: 0},
		"agree":              {NumAgree: 4},
		"validators":         {NumValidators: 2.5},
		"entries_per_period": {NumEntries: -1},
		"period_days":        {NumPeriod: 0},
		"max_pairs":          {NumMaxPairs: 9},
		"min_gain":           {NumMinGain: 1},
		"kept":               {NumKept: 1, NumValidators: 1, NumAgree: 1},
		"batch":              {NumBatch: 0},
		"baseline":           {NumBaseline: 1},
		"max_usd":            {NumMaxUSD: -1},
		"band_abs":           {NumBandAbs: -1},
		"band_rel":           {NumBandRel: 1},
		"marge":              {"marge": 1},
	} {
		if err := Paired().CheckNumbers(own); err == nil || !strings.HasPrefix(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := Paired().CheckNumbers(map[string]float64{NumValidators: 4, NumAgree: 2}); err == nil {
		t.Error("half of the validators are enough")
	}
	if err := Paired().CheckNumbers(nil); err != nil {
		t.Error(err)
	}
}

// BenchmarkDecision is one decision over 1,200 pairs of each of three validators.
func BenchmarkDecision(b *testing.B) {
	var rounds [][]Pair
	for range 75 {
		rounds = append(rounds, append(many(8, Pair{1, 1}), many(8, Pair{0.5, 0.5})...))
	}
	c := contested(nil)
	for i := range 3 {
		c.Streams = append(c.Streams, Stream{Index: i, Rounds: rounds})
	}
	for b.Loop() {
		decidePaired(c)
	}
}

func TestKeptNeed(t *testing.T) {
	for want, own := range map[float64]map[string]float64{
		200: nil, 400: {NumValidators: 5, NumAgree: 3}, 20: {NumValidators: 1, NumAgree: 1}, 500: {NumKept: 500},
	} {
		if got := KeptNeed(Paired().Of(own)); got != want {
			t.Errorf("%v: %v, want %v", own, got, want)
		}
	}
}
