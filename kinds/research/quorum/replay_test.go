package quorum

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/agon-arena/agon"
)

var contest = agon.Contest{Direction: agon.Minimize, Agree: 2, Replays: 5, Absolute: 0.5, Alpha: 0.01, Pairs: 12}

func TestReplaysAgree(t *testing.T) {
	r := func(id string, verdict int, x, trust float64) Replay { return Replay{id, verdict, x, trust} }
	for _, c := range []struct {
		name    string
		list    []Replay
		decided bool
		verdict int
		value   float64
		runs    string
		more    int
	}{
		{"none", nil, false, VerdictError, 0, "[]", 2},
		{"one", []Replay{r("a", 0, 5, 1)}, false, 0, 5, "[a]", 1},
		{"two within", []Replay{r("a", 0, 5, 1), r("b", 0, 5.5, 1)}, true, 0, 5.25, "[a b]", 0},
		{"two apart", []Replay{r("a", 0, 5, 1), r("b", 0, 5.6, 1)}, false, 0, 5.6, "[b]", 1},
		{"the liar is outvoted", []Replay{r("a", 0, 5, 1), r("b", 0, 1, 1), r("c", 0, 5.1, 1)}, true, 0, 5.05, "[a c]", 0},
		{"a chain is not a group", []Replay{r("a", 0, 5, 1), r("b", 0, 5.3, 1), r("c", 0, 5.8, 1)}, true, 0, 5.15, "[a b]", 0},
		{"rejected twice", []Replay{r("a", 1, 0, 1), r("b", 1, 0, 1)}, true, 1, 0, "[a b]", 0},
		{"errors twice", []Replay{r("a", 2, 0, 1), r("b", 0, 5, 1), r("c", 2, 0, 1)}, true, 2, 0, "[a c]", 0},
		{"a liar's quarter", []Replay{r("a", 0, 5, 1), r("b", 0, 5, 0.25)}, false, 0, 5, "[a b]", 1},
		{"not a number", []Replay{r("a", 0, math.NaN(), 1), r("b", 0, math.Inf(1), 1)}, false, VerdictError, 0, "[]", 2},
		{"two against two: the tighter group", []Replay{r("a", 0, 1, 1), r("b", 0, 1.2, 1), r("c", 0, 9, 1), r("d", 0, 9, 1)}, true, 0, 9, "[c d]", 0},
		{"accepted or rejected: the worse verdict", []Replay{r("a", 0, 5, 1), r("b", 1, 0, 1)}, false, VerdictRejected, 0, "[b]", 1},
		{"the same in another order", []Replay{r("b", 1, 0, 1), r("a", 0, 5, 1)}, false, VerdictRejected, 0, "[b]", 1},
		{"rejected or an error: the worse verdict", []Replay{r("a", 1, 0, 1), r("b", 2, 0, 1)}, false, VerdictError, 0, "[b]", 1},
		{"accepted by as many as reject, closely", []Replay{r("a", 0, 5, 1), r("b", 0, 5, 1), r("c", 1, 0, 1), r("d", 1, 0, 1)}, true, VerdictRejected, 0, "[c d]", 0},
		{"a tie of numbers: the worse one", []Replay{r("a", 0, 5, 1), r("b", 0, 9, 1), r("c", 0, 7, 1)}, false, 0, 9, "[b]", 1},
		{"used up", []Replay{r("a", 0, 1, 1), r("b", 0, 2, 1), r("c", 0, 3, 1), r("d", 0, 4, 1), r("e", 0, 5, 1)}, false, 0, 5, "[e]", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := Agree(contest, c.list, len(c.list))
			if a.Decided != c.decided || a.Verdict != c.verdict || math.Abs(a.Value-c.value) > 1e-9 || fmt.Sprint(a.Runs) != c.runs || a.More != c.more {
				t.Errorf("%+v", a)
			}
		})
	}
}

// Where more is better, the lower of two numbers is the worse one.
func TestReplaysTieMaximize(t *testing.T) {
	c := contest
	c.Direction = agon.Maximize
	a := Agree(c, []Replay{{"a", 0, 5, 1}, {"b", 0, 9, 1}, {"c", 0, 7, 1}}, 3)
	if a.Decided || a.Value != 5 || fmt.Sprint(a.Runs) != "[a]" {
		t.Errorf("%+v", a)
	}
}

// The chance to take the seat without being better is at most alpha, however
// the pairs are looked at: 4,000 tries of a challenger as good as the incumbent.
func TestDuelKeepsAlpha(t *testing.T) {
	c := contest
	c.Band, c.Alpha, c.Pairs = 0.1, 0.2, 40
	rng := rand.New(rand.NewPCG(1, 2))
	wins, pairs := 0, 0
	const tries = 4000
	for range tries {
		var list []Pair
		var d Duel
		for !d.Done { // looked at after every pair
			list = append(list, Pair{Challenger: 10 - c.Band + rng.NormFloat64(), Incumbent: 10 + rng.NormFloat64()})
			d = RunDuel(c, 1, list)
		}
		pairs += d.Pairs
		if d.Wins {
			wins++
		}
	}
	if share := float64(wins) / tries; share > AttemptAlpha(c.Alpha, 1) {
		t.Errorf("%.3f of equals win, alpha is %.3f", share, AttemptAlpha(c.Alpha, 1))
	}
	// One that is truly better wins nearly always, and early.
	wins, pairs = 0, 0
	for range 500 {
		var list []Pair
		var d Duel
		for !d.Done {
			list = append(list, Pair{Challenger: 7 + rng.NormFloat64(), Incumbent: 10 + rng.NormFloat64()})
			d = RunDuel(c, 1, list)
		}
		pairs += d.Pairs
		if d.Wins {
			wins++
		}
	}
	if wins < 495 || pairs/500 > 15 {
		t.Errorf("%d of 500 win, by %d pairs", wins, pairs/500)
	}
}

func TestDuelOfExactTasks(t *testing.T) {
	for _, c := range []struct {
		dir  string
		p    Pair
		wins bool
	}{
		{agon.Minimize, Pair{Challenger: 1, Incumbent: 2}, true}, {agon.Minimize, Pair{Challenger: 2, Incumbent: 2}, false}, {agon.Minimize, Pair{Challenger: 3, Incumbent: 2}, false}, {agon.Maximize, Pair{Challenger: 3, Incumbent: 2}, true}, {agon.Maximize, Pair{Challenger: 1, Incumbent: 2}, false},
	} {
		k := contest
		k.Direction = c.dir
		if d := RunDuel(k, 1, []Pair{c.p}); !d.Done || d.Wins != c.wins || d.Pairs != 1 {
			t.Errorf("%s %+v: %+v", c.dir, c.p, d)
		}
	}
	if d := RunDuel(contest, 1, nil); d.Done {
		t.Errorf("decided without a pair: %+v", d)
	}
}

// Inside the band the second metric decides, where there is one, and only there.
func TestSecondMetric(t *testing.T) {
	two := contest
	two.Direction, two.Band, two.Secondary = agon.Minimize, 0.5, agon.Maximize
	pair := func(challenger, second float64) Pair {
		return Pair{Challenger: challenger, Incumbent: 10, Challenger2: second, Incumbent2: 7}
	}
	for _, c := range []struct {
		name string
		p    Pair
		wins bool
	}{
		{"passes the band, second worse", pair(9.4, 1), true},
		{"inside, second better", pair(10.4, 8), true},
		{"inside, second equal", pair(9.6, 7), false},
		{"inside, second worse", pair(9.6, 6), false},
		{"worse than the band, second better", pair(10.6, 99), false},
	} {
		if got := Beats(two, c.p); got != c.wins {
			t.Errorf("%s: %t", c.name, got)
		}
		one := two
		if one.Secondary = ""; Beats(one, c.p) != (c.p.Challenger < 9.5) {
			t.Errorf("%s: the second metric counts in a contest without one", c.name)
		}
	}
	var pairs []Pair
	for range 30 {
		pairs = append(pairs, pair(10.2, 9))
	}
	if d := RunDuel(two, 1, pairs); !d.Wins || d.Gain > -0.19 || d.Gain2 != 2 {
		t.Errorf("%+v", d)
	}
	exact := two
	exact.Band = 0
	if d := RunDuel(exact, 1, []Pair{pair(10, 8)}); !d.Done || !d.Wins {
		t.Errorf("equal, second better: %+v", d)
	}
	if d := RunDuel(exact, 1, []Pair{pair(10.1, 8)}); !d.Done || d.Wins {
		t.Errorf("worse, second better: %+v", d)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	wins := 0
	for range 2000 { // equals: both metrics noise
		var list []Pair
		for range 40 {
			list = append(list, Pair{Challenger: 10 + rng.NormFloat64(), Incumbent: 10 + rng.NormFloat64(), Challenger2: rng.NormFloat64(), Incumbent2: rng.NormFloat64()})
		}
		if RunDuel(two, 1, list).Wins {
			wins++
		}
	}
	if float64(wins)/2000 > AttemptAlpha(two.Alpha, 1)*1.5 {
		t.Errorf("an equal wins %d of 2000 duels at alpha %v", wins, AttemptAlpha(two.Alpha, 1))
	}
}

// Alpha is charged per attempt, and all attempts together never pass it.
func TestAttemptAlpha(t *testing.T) {
	sum := 0.0
	for n := 1; n < 100_000; n++ {
		a := AttemptAlpha(0.05, n)
		if n > 1 && a >= AttemptAlpha(0.05, n-1) {
			t.Fatalf("attempt %d is charged %v", n, a)
		}
		sum += a
	}
	if sum > 0.05 {
		t.Errorf("all attempts together are charged %v", sum)
	}
	if AttemptAlpha(0.05, 0) != AttemptAlpha(0.05, 1) {
		t.Error("there is no attempt 0")
	}
}

func TestTrust(t *testing.T) {
	hit, miss, flip := Canary{5, 5.4, 0, 0}, Canary{5, 6, 0, 0}, Canary{0, 5, 0, 1}
	for _, c := range []struct {
		list []Canary
		want float64
	}{
		{nil, 1}, {[]Canary{hit, hit}, 1}, {[]Canary{miss}, 0.25}, {[]Canary{flip}, 0.25}, {[]Canary{hit, hit, hit, miss}, 25. / 49}, {[]Canary{miss, miss, miss}, 1. / 9},
	} {
		if got := Trust(contest, c.list); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.list, got, c.want)
		}
	}
}

func TestBallot(t *testing.T) {
	yes := func(who string, x, w float64) Vote { return Vote{who, true, x, w} }
	no := func(who string, w float64) Vote { return Vote{who, false, 0, w} }
	self := PeerRule{Self: true, Size: 3, Threshold: 0.5, MinEffective: 2, MaxConcentration: 0.8, SlashTolerance: 0.05}
	for _, c := range []struct {
		name     string
		rule     PeerRule
		votes    []Vote
		final    bool
		accepted bool
		value    float64
		slashed  int
	}{
		{"too few", PeerRule{Need: 2}, []Vote{yes("a", 1, 1)}, false, false, 1, 0},
		{"median", PeerRule{Need: 2}, []Vote{yes("a", 1, 1), yes("b", 3, 1)}, true, true, 2, 0},
		{"rejected", PeerRule{Need: 2}, []Vote{no("a", 1), yes("c", 1, 1), no("b", 1)}, true, false, 1, 0},
		{"committee", self, []Vote{yes("a", 100, 1), yes("b", 101, 1), no("c", 1)}, true, true, 100.5, 0},
		{"a far number is slashed", self, []Vote{yes("a", 100, 1), yes("b", 101, 1), yes("c", 300, 1)}, true, true, 101, 1},
		{"one holds the approval", self, []Vote{yes("a", 100, 9), yes("b", 100, 1), no("c", 1)}, true, false, 100, 0},
		{"threshold", self, []Vote{yes("a", 100, 1), no("b", 1), no("c", 1)}, true, false, 100, 0},
		{"half is not above a threshold of a half", self, []Vote{yes("a", 100, 1), yes("b", 100, 1), no("c", 2)}, true, false, 100, 0},
		{"far numbers for what was rejected are not slashed", self, []Vote{yes("a", 100, 1), yes("b", 300, 1), no("c", 3)}, true, false, 200, 0},
		{"exactly at the tolerance", self, []Vote{yes("a", 95, 1), yes("b", 100, 1), yes("c", 105, 1)}, true, true, 100, 0},
		{"beyond the tolerance, both ways", self, []Vote{yes("a", 94.9, 1), yes("b", 100, 1), yes("c", 105.1, 1)}, true, true, 100, 2},
		{"who rejects what is accepted is not slashed", self, []Vote{yes("a", 100, 1), yes("b", 100, 1), no("c", 1)}, true, true, 100, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := CountBallot(c.rule, c.votes)
			if b.Final != c.final || b.Accepted != c.accepted || b.Value != c.value || len(b.Slashed) != c.slashed {
				t.Errorf("%+v", b)
			}
		})
	}
	if a, b := Sortition("s", []string{"x", "y", "z", "x"}, "y", 2), Sortition("s", []string{"z", "y", "x"}, "y", 2); len(a) != 2 || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%v %v", a, b)
	}
	if Reputation(1, 0.5, 2, 10, 0) != 2 || Reputation(1, 0.5, 2, 0, 2) != 0.25 {
		t.Error("reputation")
	}
}
