package agon

import (
	"math"
	"strings"
	"testing"
)

// The level moves by one at most, by shares that are exact in tasks, and stays within the bounds.
func TestDifficultyNext(t *testing.T) {
	d := Difficulty{Least: 1, Most: 3, Target: 0.7}
	for _, c := range []struct{ level, solved, tasks, want int }{
		{2, 8, 10, 2},
		{2, 9, 10, 3},
		{2, 6, 10, 2},
		{2, 5, 10, 1}, // 0.8 and 0.6 are on the band
		{3, 10, 10, 3},
		{1, 0, 10, 1},
		{2, 0, 0, 2},
		{9, 10, 10, 3},
		{0, 0, 0, 1},
		{2, 1, 1, 3},
		{2, 0, 1, 1},
		{2, 400, 400, 3},
		{2, 320, 400, 2},
		{2, 321, 400, 3},
	} {
		if got := d.Next(c.level, c.solved, c.tasks); got != c.want {
			t.Errorf("level %d, %d of %d: %d, want %d", c.level, c.solved, c.tasks, got, c.want)
		}
	}
	if d.Start() != 1 || (Difficulty{Least: 1, Most: 3, First: 2}).Start() != 2 {
		t.Error("the first level")
	}
}

func TestDifficultyMistakes(t *testing.T) {
	nan := math.NaN()
	for want, d := range map[string]Difficulty{
		"":      {Least: 1, Most: 5, First: 3, Target: 0.7},
		"least": {Least: 6, Most: 6, Target: 0.5}, "most": {Least: 1, Most: 6, Target: 0.5}, "first": {Least: 2, Most: 3, First: 1, Target: 0.5},
		"target": {Least: 1, Most: 5, Target: nan}, "band": {Least: 1, Most: 5, Target: 0.5, Band: &nan},
	} {
		if field, message := d.Mistake(5); field != want || (message == "") != (want == "") {
			t.Errorf("%+v: %q %q, want %q", d, field, message, want)
		}
	}
}

func TestDifficultyInWords(t *testing.T) {
	rule := Difficulty{Least: 1, Most: 5, Target: 0.7}
	for want, x := range map[string]SetDifficulty{
		"level 1 of 1 to 5, the first":                                                        {Level: 1, Rule: rule},
		"level 2 of 1 to 5, as level 2 before: no champion":                                   {Level: 2, Before: 2, Rule: rule},
		"level 3 of 1 to 5: the champion solved 4 of 4 at level 2, where 70 % are the target": {Level: 3, Before: 2, Rule: rule, Reached: &Reached{Solved: 4, Tasks: 4}},
	} {
		if got := x.Sentence(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
