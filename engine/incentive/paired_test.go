package incentive

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/agon-arena/agon/calc"
)

func config(t testing.TB, attempt int) PairedConfig {
	t.Helper()
	a, err := AttemptAlpha(PairedAlpha, attempt, PairedArenaAlpha, PairedEntries)
	if err != nil {
		t.Fatal(err)
	}
	return PairedConfig{Alpha: a, MinGain: PairedMinGain, Kept: PairedKept, Max: PairedMax}
}

// The evidence is what its formula says, written out once more.
func TestEvidenceFormula(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var e Evidence
		var xs []float64
		for range r.IntN(60) {
			x := r.Float64()*2 - 1
			xs = append(xs, x)
			e.Add(x)
		}
		want := 0.0
		for _, l := range []float64{.05, .1, .2, .3, .45, .6, .8} {
			p := 1.0
			for _, x := range xs {
				p *= 1 + l*x
			}
			want += p / 7
		}
		if got := e.Value(); math.Abs(got-want) > 1e-9*max(1, want) || e.N() != len(xs) {
			t.Fatalf("%v of %v, want %v", got, xs, want)
		}
	}
}

// What is not a number, or outside, gains nothing.
func TestEvidenceBadInput(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(-1), -7} {
		var bad, least Evidence
		bad.Add(x)
		least.Add(-1)
		if bad.Value() != least.Value() {
			t.Errorf("%v counts as %v", x, bad.Value())
		}
	}
	var huge, most Evidence
	huge.Add(math.Inf(1))
	most.Add(1)
	if huge.Value() != most.Value() {
		t.Errorf("a difference above 1 counts as %v", huge.Value())
	}
	var c Contest
	c.Add(Pair{math.NaN(), 0.5}, config(t, 1))
	if c.For.Value() >= 1 || c.Against.Value() <= 1 {
		t.Errorf("NaN speaks for the challenger: %v %v", c.For.Value(), c.Against.Value())
	}
}

func TestAttemptAlpha(t *testing.T) {
	sum := 0.0
	for n := 1; n < 100_000; n++ {
		a, err := AttemptAlpha(0.01, n, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		sum += a
	}
	if sum > 0.01 || sum < 0.0099 {
		t.Errorf("all attempts together spend %v of 0.01", sum)
	}
	if a, _ := AttemptAlpha(0.01, 1, 0.05, 100); a != 0.0005 {
		t.Errorf("the arena's part is %v", a)
	}
	if a, _ := AttemptAlpha(0.01, 4, 0.05, 100); math.Abs(a-0.01*6/(math.Pi*math.Pi*16)) > 1e-15 {
		t.Errorf("attempt 4 has %v", a)
	}
	for name, f := range map[string]func() (float64, error){
		"alpha":       func() (float64, error) { return AttemptAlpha(0, 1, 0, 0) },
		"attempt":     func() (float64, error) { return AttemptAlpha(0.01, 0, 0, 0) },
		"entries":     func() (float64, error) { return AttemptAlpha(0.01, 1, 0.05, -1) },
		"alpha_arena": func() (float64, error) { return AttemptAlpha(0.01, 1, math.NaN(), 5) },
	} {
		if _, err := f(); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// play is one contest of a challenger whose score exceeds the incumbent's by gain
// in the mean; the two differ in a share of the pairs.
func play(r *rand.Rand, cfg PairedConfig, discordance, gain float64) string {
	var c Contest
	win := (discordance + gain) / 2
	for {
		p := Pair{0, 0}
		switch u := r.Float64(); {
		case u < win:
			p = Pair{1, 0}
		case u < discordance:
			p = Pair{0, 1}
		}
		c.Add(p, cfg)
		if o := c.Outcome(cfg); o != OutcomeMore {
			return o
		}
	}
}

// An identical copy of an agent that samples is seated as seldom as the bound
// says, in five attempts together; a gain of ten points is found.
func TestCopiesAndPower(t *testing.T) {
	drawn(t)
	r := rand.New(rand.NewPCG(11, 12))
	const coldkeys = 2000
	seated := 0
	for range coldkeys {
		for n := 1; n <= 5; n++ {
			if play(r, config(t, n), 0.5, 0) == OutcomeSeated {
				seated++
				break
			}
		}
	}
	if seated > coldkeys/100 {
		t.Errorf("%d of %d copies were seated within five attempts", seated, coldkeys)
	}
	won := 0
	const honest = 400
	for range honest {
		if play(r, config(t, 1), 0.3, 0.1) == OutcomeSeated {
			won++
		}
	}
	if won < honest*9/10 {
		t.Errorf("a gain of ten points was found %d of %d times", won, honest)
	}
}

// Who is worse is kept out after few pairs, and the first decision stands.
func TestKept(t *testing.T) {
	cfg := config(t, 1)
	var c Contest
	for range 40 {
		c.Add(Pair{0, 1}, cfg)
	}
	at := c.KeptAt
	if c.Outcome(cfg) != OutcomeKept || at == 0 || at > 12 {
		t.Fatalf("kept after %d pairs", at)
	}
	for range 500 {
		c.Add(Pair{1, 0}, cfg)
	}
	if c.Outcome(cfg) != OutcomeKept || c.KeptAt != at || c.Seated != 0 {
		t.Errorf("a late run of luck moved a decision: %+v", c)
	}
	if n := LeastPairs(cfg.Alpha); n < 12 || n > 20 {
		t.Errorf("%d pairs in a row seat", n)
	}
}

func TestCalcPaired(t *testing.T) {
	run := func(rule, in string) (string, int) {
		var out bytes.Buffer
		bad, err := calc.New(Rules()...).Run(rule, strings.NewReader(in), &out)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String()), bad
	}
	won := strings.TrimSuffix(strings.Repeat("[1,0],", 40), ",")
	got, bad := run("incentive.paired", `{"alpha":0.01,"attempt":1,"pairs":[`+won+`]}`)
	if bad != 0 || !strings.Contains(got, `"takes":true`) || !strings.Contains(got, `"at":`+strconv.Itoa(LeastPairs(0.01*6/math.Pi/math.Pi))) {
		t.Error(got)
	}
	if got, _ = run("incentive.paired", `{"alpha":0.01,"attempt":1,"pairs":[]}`); !strings.Contains(got, `"at":null`) || !strings.Contains(got, `"more":true`) || !strings.Contains(got, `"evidence":1`) {
		t.Error(got)
	}
	for _, in := range []string{
		`{"alpha":0.01,"attempt":1,"pairs":[[1.5,0]]}`, `{"alpha":0.01,"attempt":0,"pairs":[]}`, `{"alpha":2,"attempt":1,"pairs":[]}`,
		`{"alpha":0.01,"attempt":1,"pairs":[[1]]}`, `{"alpha":0.01,"attempt":1,"pairs":[[1,null]]}`, `{"alpha":0.01,"attempt":1,"pairs":[[1,0,0]]}`, `{"alpha":0.01,"attempt":1,"pairs":[null]}`,
		`{"alpha":0.01,"attempt":1,"pairs":[],"max_pairs":3}`, `{"alpha":0.01,"attempt":1,"pairs":[],"min_gain":1}`,
	} {
		if got, bad = run("incentive.paired", in); bad != 1 {
			t.Errorf("%s -> %s", in, got)
		}
	}
	if got, _ = run("incentive.alpha", `{"alpha":0.01,"attempt":1,"alpha_arena":0.05,"entries":100}`); got != `{"alpha":0.0005,"need":2000}` {
		t.Error(got)
	}
}

// BenchmarkPaired is the cost of one simulated pair.
func BenchmarkPaired(b *testing.B) {
	cfg := config(b, 1)
	r := rand.New(rand.NewPCG(1, 1))
	var c Contest
	for b.Loop() {
		c.Add(Pair{float64(r.IntN(2)), float64(r.IntN(2))}, cfg)
	}
}
