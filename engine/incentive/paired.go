package incentive

import (
	"fmt"
	"math"

	"github.com/agon-arena/agon/calc"
)

// PairedRule is the name of the rule that seats by paired evidence.
const PairedRule = "paired"

// Defaults of the paired rule. An arena may set its own numbers.
const (
	// PairedAlpha is the chance that all attempts of one coldkey together seat a
	// challenger that is not better.
	PairedAlpha = 0.01
	// PairedArenaAlpha is that chance for all entries of one set period together,
	// spread over PairedEntries of them.
	PairedArenaAlpha = 0.05
	PairedEntries    = 100
	// PairedMinGain is the gain, in the score's unit, that a challenger is expected
	// to have: the incumbent is kept when the pairs speak against it by PairedKept.
	PairedMinGain = 0.1
	PairedKept    = 20.0
	// PairedMax is the most pairs that are played for one challenger.
	PairedMax = 1200
)

// bets are the stakes λ of the betting martingales whose mean is the evidence.
var bets = [...]float64{.05, .1, .2, .3, .45, .6, .8}

// Evidence is an e-value: under the hypothesis that the mean of x is at most 0 its
// expectation is at most 1 at every stopping time, so that it exceeds 1/alpha with
// a chance of at most alpha however often it is looked at (Ville's inequality).
// The zero value is the start, 1.
type Evidence struct {
	n    int
	part [len(bets)]float64 // of Π(1 + λx), what is not in logs; 0 while n is 0
	logs [len(bets)]float64
}

// Add takes the difference x of one pair, in -1 to 1. A number outside is cut, and
// one that is not a number counts as -1: nobody gains by it.
func (e *Evidence) Add(x float64) {
	if math.IsNaN(x) {
		x = -1
	}
	x = max(-1, min(1, x))
	if e.n == 0 {
		for i := range e.part {
			e.part[i] = 1
		}
	}
	e.n++
	for i, b := range bets {
		// Products are quick; a logarithm keeps them from running out of digits.
		if e.part[i] *= 1 + b*x; e.part[i] > 1e100 || e.part[i] < 1e-100 {
			e.logs[i] += math.Log(e.part[i])
			e.part[i] = 1
		}
	}
}

// N is the number of pairs so far.
func (e *Evidence) N() int { return e.n }

// Value is the evidence: the mean of Π(1 + λx) over the bets; +Inf where it is
// too large to be written.
func (e *Evidence) Value() float64 {
	if e.n == 0 {
		return 1
	}
	sum := 0.0
	for i, l := range e.logs {
		if l != 0 {
			sum += e.part[i] * math.Exp(l)
		} else {
			sum += e.part[i]
		}
	}
	return sum / float64(len(bets))
}

// Pair is both sides on one task and one random seed, as scores of 0 to 1. A
// side that failed, crashed or timed out has 0.
type Pair struct{ Challenger, Incumbent float64 }

// Outcomes of a paired contest.
const (
	OutcomeSeated    = "seated"    // the challenger takes the seat
	OutcomeKept      = "kept"      // the incumbent keeps it: the gain asked for is not there
	OutcomeUndecided = "undecided" // the pairs ran out: the two cannot be told apart
	OutcomeMore      = "more"      // more pairs are needed
)

// PairedConfig are the numbers of a paired contest.
type PairedConfig struct {
	Alpha   float64 // of this attempt (AttemptAlpha); 0 < Alpha <= 0.5
	MinGain float64 // 0 < MinGain < 1
	Kept    float64 // mirrored evidence at which the incumbent is kept; > 1
	Max     int     // pairs
}

// Contest is the state of one challenge. Its zero value has no pairs.
type Contest struct {
	For     Evidence // that the challenger is better
	Against Evidence // that its gain is below MinGain
	// Seated and KeptAt are after how many pairs the need was first reached; 0: not yet.
	Seated, KeptAt int
}

// Add takes one pair. The first of Seated and KeptAt decides; pairs after it
// change the numbers, but not the outcome.
func (c *Contest) Add(p Pair, cfg PairedConfig) {
	c.take(p, cfg)
	c.look(cfg)
}

// AddRound takes the pairs of one round, and looks at the evidence only after
// the last: inside a round pairs stand in an order that is not random, and
// stopping there would break the bound.
func (c *Contest) AddRound(pairs []Pair, cfg PairedConfig) {
	for _, p := range pairs {
		c.take(p, cfg)
	}
	c.look(cfg)
}

func (c *Contest) take(p Pair, cfg PairedConfig) {
	x := p.Challenger - p.Incumbent
	c.For.Add(x)
	c.Against.Add(mirror(x, cfg.MinGain))
}

func (c *Contest) look(cfg PairedConfig) {
	if c.Seated == 0 && c.KeptAt == 0 {
		switch {
		case c.For.Value() >= 1/cfg.Alpha:
			c.Seated = c.For.N()
		case c.Against.Value() >= cfg.Kept:
			c.KeptAt = c.Against.N()
		}
	}
}

// mirror is the difference seen from the other side: its mean is at most 0 where
// the gain is at least g.
func mirror(x, g float64) float64 {
	if math.IsNaN(x) {
		x = -1
	}
	return g - max(-1, min(1, x))
}

// Outcome says where the contest stands.
func (c *Contest) Outcome(cfg PairedConfig) string {
	switch {
	case c.Seated > 0:
		return OutcomeSeated
	case c.KeptAt > 0:
		return OutcomeKept
	case c.For.N() >= cfg.Max:
		return OutcomeUndecided
	}
	return OutcomeMore
}

// AttemptAlpha is the error that attempt n (from 1) of a coldkey, or of a cluster
// of copies, may spend: alpha·6/(π²n²), whose sum over all n is alpha; at most the
// entry's part of the arena's own, arenaAlpha/entries (entries 0: no such bound).
func AttemptAlpha(alpha float64, attempt int, arenaAlpha float64, entries int) (float64, error) {
	switch {
	case !(alpha > 0 && alpha <= 0.5):
		return 0, fmt.Errorf("alpha: want more than 0 and at most 0.5, got %v", alpha)
	case attempt < 1:
		return 0, fmt.Errorf("attempt: want at least 1, got %d", attempt)
	case entries < 0:
		return 0, fmt.Errorf("entries: want 0 or more, got %d", entries)
	case entries > 0 && !(arenaAlpha > 0 && arenaAlpha <= 0.5):
		return 0, fmt.Errorf("alpha_arena: want more than 0 and at most 0.5, got %v", arenaAlpha)
	}
	n := float64(attempt)
	a := alpha * 6 / (math.Pi * math.Pi * n * n)
	if entries > 0 {
		a = min(a, arenaAlpha/float64(entries))
	}
	return a, nil
}

// maxCalcPairs bounds the pairs of one line of agon calc.
const maxCalcPairs = 100_000

type pairedIn struct {
	Alpha   float64      `json:"alpha"`
	Attempt int          `json:"attempt"`
	Pairs   [][2]float64 `json:"pairs"` // challenger, incumbent
	Arena   *float64     `json:"alpha_arena"`
	Entries *int         `json:"entries"`
	MinGain *float64     `json:"min_gain"`
	Kept    *float64     `json:"kept"`
	Max     *int         `json:"max_pairs"`
}

type pairedOut struct {
	Takes    bool    `json:"takes"`
	At       *int    `json:"at"`       // length of the first prefix that reached the need
	Evidence float64 `json:"evidence"` // of all pairs
	Need     float64 `json:"need"`     // 1/alpha of this attempt
	More     bool    `json:"more"`     // more pairs would be asked for
	Outcome  string  `json:"outcome"`
}

func or[T any](p *T, d T) T {
	if p == nil {
		return d
	}
	return *p
}

func calcPaired(in pairedIn) (pairedOut, error) {
	a, err := AttemptAlpha(in.Alpha, in.Attempt, or(in.Arena, 0), or(in.Entries, 0))
	if err != nil {
		return pairedOut{}, err
	}
	cfg := PairedConfig{Alpha: a, MinGain: or(in.MinGain, PairedMinGain), Kept: or(in.Kept, PairedKept), Max: or(in.Max, PairedMax)}
	if err := cfg.Validate(); err != nil {
		return pairedOut{}, err
	}
	if len(in.Pairs) > maxCalcPairs {
		return pairedOut{}, fmt.Errorf("pairs: %d, at most %d", len(in.Pairs), maxCalcPairs)
	}
	var c Contest
	for i, p := range in.Pairs {
		for _, v := range p {
			if !(v >= 0 && v <= 1) {
				return pairedOut{}, fmt.Errorf("pairs[%d]: want two scores of 0 to 1, got %v", i, p)
			}
		}
		c.Add(Pair{p[0], p[1]}, cfg)
	}
	out := pairedOut{Takes: c.Seated > 0, Evidence: c.For.Value(), Need: 1 / a, Outcome: c.Outcome(cfg)}
	out.More = out.Outcome == OutcomeMore
	if c.Seated > 0 {
		out.At = &c.Seated
	}
	if math.IsInf(out.Evidence, 1) {
		out.Evidence = math.MaxFloat64 // JSON has no infinity
	}
	return out, nil
}

// Validate names the first number that is out of its bounds.
func (c PairedConfig) Validate() error {
	switch {
	case !(c.Alpha > 0 && c.Alpha <= 0.5):
		return fmt.Errorf("alpha: want more than 0 and at most 0.5, got %v", c.Alpha)
	case !(c.MinGain > 0 && c.MinGain < 1):
		return fmt.Errorf("min_gain: want more than 0 and less than 1, got %v", c.MinGain)
	case !(c.Kept > 1) || math.IsInf(c.Kept, 0):
		return fmt.Errorf("kept: want a finite number above 1, got %v", c.Kept)
	case c.Max < 1 || c.Max > maxCalcPairs:
		return fmt.Errorf("max_pairs: want 1 to %d, got %d", maxCalcPairs, c.Max)
	}
	if least := LeastPairs(c.Alpha); least > c.Max {
		return fmt.Errorf("max_pairs: %d pairs can never seat anybody at alpha %.3g: %d won in a row are needed", c.Max, c.Alpha, least)
	}
	return nil
}

// LeastPairs is how many pairs won in a row seat a challenger at alpha.
func LeastPairs(alpha float64) int {
	var e Evidence
	for e.Value() < 1/alpha {
		e.Add(1)
	}
	return e.N()
}

type alphaIn struct {
	Alpha   float64 `json:"alpha"`
	Attempt int     `json:"attempt"`
	Arena   float64 `json:"alpha_arena"`
	Entries int     `json:"entries"`
}

type alphaOut struct {
	Alpha float64 `json:"alpha"`
	Need  float64 `json:"need"`
}

func calcAlpha(in alphaIn) (alphaOut, error) {
	a, err := AttemptAlpha(in.Alpha, in.Attempt, in.Arena, in.Entries)
	if err != nil {
		return alphaOut{}, err
	}
	return alphaOut{a, 1 / a}, nil
}

func pairedRules() []calc.Rule {
	return []calc.Rule{
		calc.Func("incentive.paired", "{alpha, attempt, pairs: [[challenger, incumbent], ...], alpha_arena|, entries|, min_gain|, kept|, max_pairs|} -> {takes, at|null, evidence, need, more, outcome}: does paired evidence seat a challenger", calcPaired),
		calc.Func("incentive.alpha", "{alpha, attempt, alpha_arena, entries} -> {alpha, need}: the error that an attempt may spend, and the evidence that it needs", calcAlpha),
	}
}
