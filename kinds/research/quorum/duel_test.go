package quorum

import (
	"math/rand/v2"
	"testing"

	"github.com/agon-arena/agon"
)

// Takeovers by the second metric cost the first its band once, not once each.
func TestParetoDoesNotDrift(t *testing.T) {
	c := contest
	c.Direction, c.Band, c.Secondary = agon.Minimize, 0.5, agon.Minimize
	at, second, gains := 10.0, 100.0, []float64{3}
	for range 50 {
		c.Spent = Spent(gains)
		p := Pair{Challenger: at + 0.2, Incumbent: at, Challenger2: second - 1, Incumbent2: second}
		if Beats(c, p) {
			gains = append(gains, p.Incumbent-p.Challenger)
			at, second = p.Challenger, p.Challenger2
		}
	}
	if at > 10.5 || at < 10.3 || second != 98 {
		t.Errorf("the first metric went from 10 to %v, the second to %v", at, second)
	}
	c.Spent = Spent(append(gains, 1))
	if c.Spent != 0 || !Beats(c, Pair{Challenger: 9.7, Incumbent: 9.4, Challenger2: 1, Incumbent2: 2}) {
		t.Errorf("after a new best nothing is spent: %v", c.Spent)
	}
}

// duelOf plays pairs in rounds of four by each of some validators, who say by chance
// whether the challenger wins.
func duelOf(c agon.Contest, chance func(validator int, d *Duel) bool, validators int) (d Duel) {
	var list []Pair
	for !d.Done {
		for v := range validators {
			for range 4 {
				p := Pair{Challenger: 10, Incumbent: 10, By: string(rune('a' + v))}
				if chance(v, &d) {
					p.Challenger = 5
				}
				list = append(list, p)
			}
		}
		d = RunDuel(c, 1, list)
	}
	return d
}

// One validator of those that duel lies about its pairs. An equal challenger is seated with
// a chance of alpha at most, and one that two others have seen win is not kept out.
func TestLiarInADuel(t *testing.T) {
	c := contest
	c.Band, c.Alpha = 0.1, 0.05
	rng := rand.New(rand.NewPCG(3, 4))
	const tries = 2000
	for validators := 2; validators <= 4; validators++ {
		seated, pairs, lost := 0, 0, 0
		for range tries {
			if duelOf(c, func(v int, _ *Duel) bool { return v == 0 || rng.IntN(2) == 0 }, validators).Wins {
				seated++
			}
			d := duelOf(c, func(int, *Duel) bool { return rng.IntN(100) < 3 }, validators)
			lost += d.Pairs
			if d.Wins {
				t.Errorf("an equal wins: %+v", d)
			}
		}
		if most := AttemptAlpha(c.Alpha, 1); float64(seated)/tries > most {
			t.Errorf("%d validators, one of them a liar: %d of %d equals are seated, at most %v may be", validators, seated, tries, most)
		}
		honest, vetoed := 0, 0
		for range tries / 4 {
			d := duelOf(c, func(int, *Duel) bool { return rng.IntN(100) < 97 }, validators)
			pairs += d.Pairs
			if d.Wins {
				honest++
			}
			if !duelOf(c, func(v int, _ *Duel) bool { return v > 0 && rng.IntN(100) < 97 }, validators).Wins {
				vetoed++
			}
		}
		t.Logf("%d validators: a liar seats %d of %d equals; who is better is seated in %d of %d duels of %d pairs, and %d with a liar; who is not loses by %d pairs",
			validators, seated, tries, honest, tries/4, pairs/(tries/4), tries/4-vetoed, lost/tries)
		if honest < tries/4*97/100 || validators > 2 && vetoed > tries/4*5/100 {
			t.Errorf("%d validators: better and seated %d of %d, kept out by a liar %d", validators, honest, tries/4, vetoed)
		}
	}
}
