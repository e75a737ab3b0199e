package incentive

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func simulate(t testing.TB, s Simulation) Simulated {
	t.Helper()
	out, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// drawn ends a test of very many drawn pairs where the race detector is on: the
// draws share nothing, and TestSimulationRepeats watches what runs at once.
// scripts/test.sh runs this package without the detector too.
func drawn(t *testing.T) {
	if race {
		t.Skip("many drawn pairs: run without the race detector")
	}
}

func pairedSim() Simulation {
	return Simulation{Name: PairedRule, Rule: Paired(), Copies: 2000, Discordance: 0.3, Seed: 1}
}

// Two thousand copies are seated in five attempts as seldom as promised; ten
// points of gain are found in the first.
func TestSimulatedCopiesAndPower(t *testing.T) {
	drawn(t)
	out := simulate(t, pairedSim())
	if out.Copy5 > 0.01 || out.Upper5 > 0.015 || out.Upper5 < out.Copy5 || out.Validators != 3 {
		t.Errorf("copies: %+v", out)
	}
	if out.Power["0.1"] < 0.9 || out.Power["0.05"] > out.Power["0.1"] || out.Power["0.005"] > 0.05 {
		t.Errorf("power: %v", out.Power)
	}
	one := pairedSim()
	one.Validators = 1
	if got := simulate(t, one); got.Copy5 > 0.01 || got.Upper5 > 0.015 || got.Power["0.1"] < 0.9 || got.Copy5 == 0 && got.PairsMean < 50 {
		t.Errorf("one validator: %+v", got)
	}
}

// One liar of three, whatever it says, seats no copies and keeps nobody out.
func TestSimulatedLiar(t *testing.T) {
	drawn(t)
	honest, lied := pairedSim(), pairedSim()
	honest.Effect, lied.Effect, lied.Liars = 0.15, 0.15, 1
	a, b := simulate(t, honest), simulate(t, lied)
	if b.Copy5 > 0.01 || b.Copy5-a.Copy5 > 0.01 || b.Power["0.1"] < 0.9 {
		t.Errorf("a liar: %+v", b)
	}
	for _, gain := range []string{"0.1", "0.15"} {
		if d := a.Power[gain] - b.Power[gain]; d > 0.01 {
			t.Errorf("a liar takes %v of the power at a gain of %s", d, gain)
		}
	}
	// Two of three are the truth.
	lied.Liars = 2
	if b = simulate(t, lied); b.Copy1 < 0.99 || b.Power["0.1"] > 0.01 {
		t.Errorf("two liars: %+v", b)
	}
}

// What a liar can do: say that the challenger always wins, always loses, never
// differs, or is a copy. None changes false takeovers or power by more than a
// point, and no contest has more pairs than all validators' own together.
func TestLies(t *testing.T) {
	drawn(t)
	const contests = 700
	rate := func(liars int, gain float64, lie func(s *Simulation, r *rand.Rand) Pair) float64 {
		s := pairedSim()
		s.Liars = liars
		if err := s.fill(); err != nil {
			t.Fatal(err)
		}
		won := 0
		for i := range contests {
			r := rand.New(rand.NewPCG(7, uint64(i)))
			seated, pairs := s.contest(r, 1, gain, func() Pair { return lie(&s, r) })
			if pairs > PairedMax*s.Validators+int(s.Numbers[NumBatch]) {
				t.Fatalf("%d pairs", pairs)
			}
			if seated {
				won++
			}
		}
		return float64(won) / contests
	}
	constant := func(p Pair) func(*Simulation, *rand.Rand) Pair {
		return func(*Simulation, *rand.Rand) Pair { return p }
	}
	lies := map[string]func(*Simulation, *rand.Rand) Pair{
		"wins": constant(Pair{Challenger: 1}), "loses": constant(Pair{Incumbent: 1}), "ties": constant(Pair{}),
		"copy": func(s *Simulation, r *rand.Rand) Pair { return s.coin(r, 0) },
	}
	for _, gain := range []float64{0, 0.1} {
		honest := rate(0, gain, constant(Pair{}))
		for name, lie := range lies {
			got := rate(1, gain, lie)
			t.Logf("gain %v: honest %.4f, one says %q: %.4f", gain, honest, name, got)
			if gain == 0 && got > honest+0.01 || gain > 0 && got < honest-0.01 {
				t.Errorf("gain %v: seated %.4f of contests, with a liar that says %q %.4f", gain, honest, name, got)
			}
		}
	}
}

// Rules by single scores seat copies by luck: the simulation sees it.
func TestSimulatedScores(t *testing.T) {
	out := simulate(t, Simulation{Name: WinnerTakesAllRule, Rule: WinnerTakesAll(), Copies: 3000, Discordance: 0.15, Tasks: 27, Seed: 3})
	if out.Copy1 < 0.3 || out.Copy1 > 0.5 || out.Copy5 < 0.6 || out.Low5 > out.Copy5 || out.High5 < out.Copy5 || out.Emission < 0.6 {
		t.Errorf("%+v", out)
	}
	exact := simulate(t, Simulation{Name: WinnerTakesAllRule, Rule: WinnerTakesAll(), Copies: 100, Tasks: 27, Seed: 3})
	if exact.Copy5 != 0 {
		t.Errorf("without noise a copy took the seat: %+v", exact)
	}
}

func TestSimulationRepeats(t *testing.T) {
	s := pairedSim()
	s.Copies = 50
	a, b := simulate(t, s), simulate(t, s)
	s.Seed++
	if c := simulate(t, s); a.Pairs != b.Pairs || a.Pairs == c.Pairs {
		t.Errorf("%d, %d and with another seed %d pairs", a.Pairs, b.Pairs, c.Pairs)
	}
}

func TestLimits(t *testing.T) {
	for _, x := range []struct {
		k, n      int
		tail      float64
		low, high float64
	}{{0, 2000, 0.05, 0, 0.0014967}, {20, 2000, 0.05, 0.0066, 0.01446}, {10, 10, 0.025, 0.6915, 1}, {5, 10, 0.025, 0.1871, 0.8129}} {
		low, high := Limits(x.k, x.n, x.tail)
		if math.Abs(low-x.low) > 2e-4 || math.Abs(high-x.high) > 2e-4 {
			t.Errorf("%d of %d: %v to %v, want %v to %v", x.k, x.n, low, high, x.low, x.high)
		}
	}
}

func TestSimulationRefuses(t *testing.T) {
	for field, change := range map[string]func(*Simulation){
		"effect":      func(s *Simulation) { s.Effect = math.NaN() },
		"discordance": func(s *Simulation) { s.Discordance = -1 },
		"noise":       func(s *Simulation) { s.Noise = 2 },
		"copies":      func(s *Simulation) { s.Copies = 0 },
		"liars":       func(s *Simulation) { s.Liars = 4 },
		"agree":       func(s *Simulation) { s.Numbers = map[string]float64{NumAgree: 1} },
		"max_pairs":   func(s *Simulation) { s.Numbers = map[string]float64{NumMaxPairs: 5} },
	} {
		s := pairedSim()
		change(&s)
		if _, err := s.Run(context.Background()); err == nil || !strings.HasPrefix(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestReadHistory(t *testing.T) {
	good := `{"pair":1,"challenger":1,"incumbent":0}` + "\n\n" + `{"pair":2,"challenger":0.5,"incumbent":0.5,"usd":0.01}` + "\n"
	h, err := ReadHistory(strings.NewReader(good))
	if err != nil || len(h) != 2 || h[1].USD != 0.01 || h[0].Challenger != 1 {
		t.Fatalf("%v %v", h, err)
	}
	for in, want := range map[string]string{
		`{"pair":1,"challenger":1,"incumbent":0}` + "\n" + `{"pair":3,"challenger":1,"incumbent":0}`: "line 2: pair 3: a gap",
		`{"pair":1,"challenger":1,"incumbent":0}` + "\n" + `{"pair":1,"challenger":0,"incumbent":0}`: "line 2: pair 1 has two results",
		`{"pair":1,"challenger":NaN,"incumbent":0}`:                                                  "line 1: ",
		`{"pair":1,"challenger":1.01,"incumbent":0}`:                                                 "line 1: challenger: want a score",
		`{"pair":1,"challenger":1,"incumbent":-0.1}`:                                                 "line 1: incumbent: want a score",
		`{"pair":1,"challenger":1}`:                                                                  "line 1: want the fields",
		`{"pair":1,"challenger":1,"incumbent":0,"x":1}`:                                              "line 1: ",
		``: "line 1: the history has no pair",
		`{"pair":1,"task":"` + strings.Repeat("x", 70_000) + `"}`: "line 1: longer than",
	} {
		if _, err := ReadHistory(strings.NewReader(in)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", in, err, want)
		}
	}
	s := pairedSim()
	drawn(t)
	s.History, s.Copies = h, 500
	if out := simulate(t, s); out.Copy5 > 0.01 || out.Power["0.1"] < 0.8 || out.MoneyMean <= 0 {
		t.Errorf("by history: %+v", out)
	}
}

func FuzzReadHistory(f *testing.F) {
	f.Add(`{"pair":1,"challenger":1,"incumbent":0}`)
	f.Add("{}\n[]")
	f.Fuzz(func(t *testing.T, in string) {
		h, err := ReadHistory(strings.NewReader(in))
		if err == nil && len(h) == 0 {
			t.Error("nothing, and no error")
		}
		for _, p := range h {
			if !(p.Challenger >= 0 && p.Challenger <= 1 && p.Incumbent >= 0 && p.Incumbent <= 1) {
				t.Errorf("%+v", p)
			}
		}
	})
}

func TestBanded(t *testing.T) {
	for _, x := range []struct{ c, i, abs, rel, want float64 }{
		{1, 2, 0.5, 0.1, 1},
		{2, 1, 0.5, 0.1, -1},
		{1, 1.04, 0, 0.05, 0},
		{0.9, 1, 0, 0.05, 1},
		{0.001, 0.01, 0.1, 0.05, 0},
		{math.NaN(), 1, 0, 0, -1},
		{1, math.Inf(1), 0, 0, 1},
		{math.NaN(), math.NaN(), 0, 0, 0},
		{95, 100, 1, 0.1, 0},
	} {
		if p := Banded(x.c, x.i, x.abs, x.rel); p.Challenger-p.Incumbent != x.want {
			t.Errorf("%v: %v", x, p)
		}
	}
}

// BenchmarkSimulate is a million simulated pairs, as nearly as contests allow.
func BenchmarkSimulate(b *testing.B) {
	pairs := int64(0)
	for i := 0; b.Loop(); i++ {
		s := pairedSim()
		s.Copies, s.Seed = 200, uint64(i)
		pairs += simulate(b, s).Pairs
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(pairs), "s/Mpairs")
}

// What an arena can tell grows with its pairs, and a rule by scores says how
// often luck seats a copy.
func TestTell(t *testing.T) {
	drawn(t)
	tell := func(name string, r Rule, own map[string]float64) Told {
		t.Helper()
		x, err := Tell(context.Background(), name, r, own, 30, 0.01)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	full := tell(PairedRule, Paired(), nil)
	short := tell(PairedRule, Paired(), map[string]float64{NumMaxPairs: 60})
	if full.Gain < 0.05 || full.Gain > 0.1 || short.Gain < full.Gain+0.1 || full.For5 < 1600 || full.Copy > 0.01 || full.Least < 12 || full.MaxUSD != 72 {
		t.Errorf("%+v and %+v", full, short)
	}
	if luck := tell(WinnerTakesAllRule, WinnerTakesAll(), nil); luck.Copy < 0.2 || luck.For5 < 700 || luck.For5 > 800 {
		t.Errorf("%+v", luck)
	}
	if _, err := Tell(context.Background(), PairedRule, Paired(), map[string]float64{NumAlpha: 0}, 30, 0); err == nil {
		t.Error("an impossible alpha")
	}
}
