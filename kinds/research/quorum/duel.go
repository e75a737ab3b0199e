package quorum

import (
	"math"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/score"
)

// Pair is one replay of challenger and incumbent on the same machine and seed.
type Pair struct {
	Challenger float64 `json:"challenger"`
	Incumbent  float64 `json:"incumbent"`
	// Challenger2 and Incumbent2 are of the second metric, where a contest has one.
	Challenger2 float64 `json:"challenger2,omitempty"`
	Incumbent2  float64 `json:"incumbent2,omitempty"`
	// Base: the incumbent's program gave no number, and the unpatched base stood in for it.
	Base bool `json:"base,omitempty"`
	// By is the validator that made the pair; empty: all are one validator's.
	By string `json:"by,omitempty"`
}

// gain is how much better a is than b in a direction; negative for worse.
func gain(direction string, a, b float64) float64 {
	if direction == agon.Maximize {
		return a - b
	}
	return b - a
}

// BandAt is what a gain over an incumbent's value must pass.
func BandAt(c agon.Contest, incumbent float64) float64 {
	return max(c.Band, c.BandRelative*math.Abs(incumbent))
}

// Noisy reports that a contest's metric has noise: one pair does not decide.
func Noisy(c agon.Contest) bool { return c.Band > 0 || c.BandRelative > 0 }

// Beats reports whether the challenger wins a pair: by more than the band, or
// inside what is left of the band by the second metric.
func Beats(c agon.Contest, p Pair) bool {
	g, band := gain(c.Direction, p.Challenger, p.Incumbent), BandAt(c, p.Incumbent)
	return g > band || c.Secondary != "" && g >= -max(0, band-c.Spent) && Better(c.Secondary, p.Challenger2, p.Incumbent2)
}

// Spent is how far the last of gains in the first metric, a step each, stands below the best of them.
func Spent(gains []float64) float64 {
	at, best := 0.0, 0.0
	for _, g := range gains {
		at += g
		best = max(best, at)
	}
	return best - at
}

// Duel is how a sequence of pairs stands.
type Duel struct {
	Done bool `json:"done"`
	Wins bool `json:"wins"`
	// Evidence is the e-value against "no better than the incumbent by the
	// band", Need what it must reach: 1 / Alpha.
	Evidence float64 `json:"evidence"`
	Need     float64 `json:"need"`
	Alpha    float64 `json:"alpha"` // charged to this attempt
	Pairs    int     `json:"pairs"`
	Won      int     `json:"won"` // pairs that the challenger won
	MaxPairs int     `json:"max_pairs"`
	Gain     float64 `json:"gain"`    // mean gain, in the metric's unit; positive is better
	GainSE   float64 `json:"gain_se"` // its standard error; 0 with fewer than two pairs
	Gain2    float64 `json:"gain2"`   // mean gain of the second metric
	Band     float64 `json:"band"`
}

// bets are the shares staked on each pair. Their mean wealth is the evidence:
// under the hypothesis each pair is won with at most even chance, so wealth
// starting at 1 is a supermartingale and passes 1/alpha with chance alpha at
// most, whenever one stops.
var bets = [...]float64{0.4, 0.7, 0.9}

// AttemptAlpha is the part of alpha charged to the nth attempt of a coldkey
// (from 1): the parts of all attempts sum to alpha.
func AttemptAlpha(alpha float64, n int) float64 {
	n = max(n, 1)
	return alpha * 6 / (math.Pi * math.Pi * float64(n) * float64(n))
}

// side counts the pairs of one validator, or of several.
type side struct{ won, lost int }

func (s side) pairs() int       { return s.won + s.lost }
func (s side) less(t side) side { return side{s.won - t.won, s.lost - t.lost} }

// evidence is that of pairs of which so many were won and lost, in any order.
func (s side) evidence() float64 {
	sum := 0.0
	for _, b := range bets {
		sum += math.Pow(1+b, float64(s.won)) * math.Pow(1-b, float64(s.lost))
	}
	return sum / float64(len(bets))
}

// tally is how the pairs of a duel stand by validator.
type tally struct {
	all side
	by  map[string]side
}

func (t *tally) add(by string, won bool) {
	x := t.by[by]
	if won {
		x.won++
		t.all.won++
	} else {
		x.lost++
		t.all.lost++
	}
	t.by[by] = x
}

// evidence is what the pairs say whichever one validator lied. Its pairs are left out: of all
// that this may be, the least counts. Of what is left, again, another's pairs may be left out,
// so that a liar cannot keep a challenger out either; the mean over who that is counts, which is an
// e-value as each of them is.
func (t *tally) evidence() float64 {
	least := math.Inf(1)
	for b, out := range t.by {
		rest := t.all.less(out)
		sum := rest.evidence()
		for w, x := range t.by {
			if w != b {
				sum += rest.less(x).evidence()
			}
		}
		least = min(least, sum/float64(len(t.by)))
	}
	return least
}

// hopeless reports that the challenger cannot be shown to be better any more, whichever validator's pairs are left out.
func (t *tally) hopeless(need float64, most int) bool {
	for _, out := range t.by {
		if rest := t.all.less(out); math.Log(rest.evidence())+float64(most-rest.pairs())*bestBet >= math.Log(need) {
			return false
		}
	}
	return true
}

// bestBet is by how much the logarithm of the evidence grows with a pair at most.
var bestBet = math.Log(1 + bets[len(bets)-1])

// enough is how many pairs let a challenger who wins four fifths of them pass.
func enough(c agon.Contest, need float64) int {
	return max(c.Pairs, int(math.Ceil(math.Log(need*float64(len(bets)))/0.26)))
}

// shared reports whether several validators made pairs of a contest with noise: none of them is then
// believed alone. Where one suffices for replays it does for duels.
func shared(c agon.Contest, pairs []Pair) bool {
	return c.Agree > 1 && len(pairs) > 0 && pairs[0].By != ""
}

// RunDuel is the rule of a takeover: pairs in the order they were made, by the
// nth attempt of a coldkey. A task without noise (Band 0) is decided by its
// first pair; else pairs are played until the evidence suffices, until it no
// longer can, or until MaxPairs. Where pairs name their validators, the evidence
// must suffice without those of any one of them, so that nobody is seated by a liar.
func RunDuel(c agon.Contest, attempt int, pairs []Pair) (d Duel) {
	d = Duel{Alpha: AttemptAlpha(c.Alpha, attempt), Band: c.Band, Evidence: 1}
	if len(pairs) > 0 {
		d.Band = BandAt(c, pairs[0].Incumbent)
	}
	d.Need = 1 / d.Alpha
	gains, gains2 := make([]float64, 0, len(pairs)), make([]float64, 0, len(pairs))
	for _, p := range pairs {
		gains = append(gains, gain(c.Direction, p.Challenger, p.Incumbent))
		if c.Secondary != "" {
			gains2 = append(gains2, gain(c.Secondary, p.Challenger2, p.Incumbent2))
		}
	}
	defer func() { d.Gain2, _ = score.MeanSE(gains2[:min(d.Pairs, len(gains2))]) }()
	if !Noisy(c) {
		d.MaxPairs, d.Pairs = 1, min(len(gains), 1)
		if d.Pairs == 1 {
			d.Done, d.Gain = true, gains[0]
			if d.Wins = Beats(c, pairs[0]); d.Wins {
				d.Won, d.Evidence = 1, d.Need
			} else {
				d.Evidence = 0
			}
		}
		return d
	}
	most, many := enough(c, d.Need), shared(c, pairs)
	if d.MaxPairs = most; many {
		most = enough(c, 2*d.Need) // of all validators but one
		d.MaxPairs = 3 * most      // a liar's among them
	}
	t := tally{by: map[string]side{}}
	for i, p := range pairs {
		if d.Done || i >= d.MaxPairs {
			break
		}
		d.Pairs++
		t.add(p.By, Beats(c, p))
		var hopeless bool
		if many {
			d.Evidence, hopeless = t.evidence(), t.hopeless(d.Need, most)
		} else {
			d.Evidence = t.all.evidence()
			hopeless = math.Log(d.Evidence)+float64(d.MaxPairs-d.Pairs)*bestBet < math.Log(d.Need)
		}
		switch {
		case d.Evidence >= d.Need:
			d.Done, d.Wins = true, true
		case d.Pairs >= d.MaxPairs || hopeless:
			d.Done = true
		}
	}
	d.Won = t.all.won
	d.Gain, d.GainSE = score.MeanSE(gains[:d.Pairs])
	return d
}
