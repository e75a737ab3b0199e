package incentive

import (
	"context"
	"math"
)

// Told is what an arena's rule, set and budget can tell apart.
type Told struct {
	// Gain is the smallest true gain that takes the seat in the first attempt four
	// times in five, at this discordance; 0: none does.
	Gain        float64 `json:"gain"`
	Discordance float64 `json:"discordance"`
	// For5 is how many pairs of each validator (paired), or tasks of the set
	// (rules by scores, one-sided paired test at 5 %), would tell 5 points.
	For5 int `json:"for_5_points"`
	// Copy is how often an identical copy takes the seat in one try, in a simulation.
	Copy   float64 `json:"copy_1"`
	Least  int     `json:"least_pairs,omitempty"` // won in a row that seat anybody
	MaxUSD float64 `json:"max_usd,omitempty"`     // what one entry's pairs may cost
}

// tellCopies is how many entries each simulation of Tell has: the answer is for
// people who choose numbers, not for a decision.
const tellCopies = 300

// Tell says what gain an arena can tell, assuming that two plays of equally good
// agents differ in three of ten tasks.
func Tell(ctx context.Context, name string, r Rule, own map[string]float64, tasks int, playUSD float64) (Told, error) {
	t := Told{Discordance: 0.3}
	s := Simulation{Name: name, Rule: r, Numbers: own, Tasks: tasks, Copies: tellCopies, Discordance: t.Discordance, PlayUSD: playUSD, Seed: 1}
	if err := s.fill(); err != nil {
		return t, err
	}
	power := func(own map[string]float64, gain float64) (float64, error) {
		s := s
		s.Numbers, s.Effect, s.Validators = own, gain, 0
		return s.Power(ctx, gain)
	}
	c := s
	c.Numbers, c.Validators = own, 0
	var err error
	if t.Copy, err = c.Power(ctx, 0); err != nil {
		return t, err
	}
	low, high := 0.0, 1.0
	for range 7 {
		g := (low + high) / 2
		p, err := power(own, g)
		if err != nil {
			return t, err
		}
		if p >= 0.8 {
			high = g
		} else {
			low = g
		}
	}
	if p, err := power(own, 1); err != nil || p >= 0.8 {
		t.Gain = math.Ceil(high*100) / 100
	}
	if r.Pairing == nil {
		const g, z = 0.05, 1.645
		d := t.Discordance
		t.For5 = int(math.Ceil(math.Pow((z*math.Sqrt(d)+0.842*math.Sqrt(d-g*g))/g, 2)))
		return t, nil
	}
	cfg, err := AttemptConfig(s.Numbers, 1)
	if err != nil {
		return t, err
	}
	t.Least = LeastPairs(cfg.Alpha)
	t.MaxUSD = 2 * playUSD * s.Numbers[NumMaxPairs] * s.Numbers[NumValidators]
	if m := s.Numbers[NumMaxUSD]; m > 0 {
		t.MaxUSD = min(t.MaxUSD, m)
	}
	for pairs := 100; pairs <= 25600; pairs *= 2 {
		n := r.Of(own)
		// What speaks against 10 points would end the search for 5.
		n[NumMaxPairs], n[NumMaxUSD], n[NumMinGain] = float64(pairs), 0, min(n[NumMinGain], 0.05)
		p, err := power(n, 0.05)
		if err != nil {
			return t, err
		}
		if p >= 0.8 {
			t.For5 = pairs
			break
		}
	}
	return t, nil
}

// Power is the share of first attempts with a true gain that take the seat.
func (s Simulation) Power(ctx context.Context, gain float64) (float64, error) {
	s.Effect = gain
	if err := s.fill(); err != nil {
		return 0, err
	}
	won := 0
	a := s.arena()
	for i := range s.Copies {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if s.first(i, a, gain) {
			won++
		}
	}
	return float64(won) / float64(s.Copies), nil
}
