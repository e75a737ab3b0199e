package quorum

import (
	"math"

	"github.com/agon-arena/agon"
)

// chancePoints is how finely the unknown rate of won pairs is cut.
const chancePoints = 200

// Chance is how likely a new duel by the nth attempt of a coldkey takes the seat, as
// pairs say that were played elsewhere. The rate of won pairs is not known: all rates
// are thought equally likely before, and the pairs weigh them. A task without noise
// is decided by one pair.
func Chance(c agon.Contest, attempt int, pairs []Pair) float64 {
	won := 0
	for _, p := range pairs {
		if Beats(c, p) {
			won++
		}
	}
	if !Noisy(c) {
		if len(pairs) > 0 && won == len(pairs) {
			return 1
		}
		return 0
	}
	need := 1 / AttemptAlpha(c.Alpha, attempt)
	halves := 1.0
	if c.Agree > 1 { // two validators, of whom each must see it
		need *= 2
		halves = 2
	}
	most := enough(c, need)
	total, sum := 0.0, 0.0
	for i := range chancePoints {
		p := (float64(i) + 0.5) / chancePoints
		weight := math.Exp(float64(won)*math.Log(p) + float64(len(pairs)-won)*math.Log(1-p))
		total += weight
		sum += weight * math.Pow(passing(p, need, most), halves)
	}
	return sum / total
}

// passing is how likely the evidence of at most most pairs reaches need where each is
// won with chance p.
func passing(p, need float64, most int) float64 {
	passed := 0.0
	at := make([]float64, most+1) // by how many were won, of those still under way
	at[0] = 1
	for n := 1; n <= most; n++ {
		for w := n; w >= 0; w-- {
			x := at[w] * (1 - p)
			if w > 0 {
				x += at[w-1] * p
			}
			if (side{w, n - w}).evidence() >= need {
				passed += x
				x = 0
			}
			at[w] = x
		}
	}
	return passed
}
