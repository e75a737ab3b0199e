package race

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/agon-arena/agon/engine/incentive"
)

// Results only come in, so a stage only moves forward and an end stays one.
func TestRaceStagesMoveForward(t *testing.T) {
	order := map[Stage]int{StageQualifying: 0, StageRacing: 1, StageFailed: 2, StageEliminated: 2, StageFinished: 2}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		race := Limits{Qualify: r.Float64()}
		if r.IntN(2) == 0 {
			l := r.Float64()
			race.Least = &l
		}
		public, hidden := Progress{Total: r.IntN(5)}, Progress{Total: 1 + r.IntN(10)}
		last := race.Stage(public, hidden)
		bound := hidden.Bound()
		for public.Played < public.Total || hidden.Played < hidden.Total {
			p := &public
			if public.Played == public.Total {
				p = &hidden
			}
			p.Played++
			p.Sum += float64(r.IntN(2))
			s := race.Stage(public, hidden)
			if last.Final() && s != last {
				// Eliminated stays out even where the rest is played all the same.
				if !(last == StageEliminated && s == StageFinished && hidden.Score() < *race.Least) {
					t.Fatalf("%s became %s", last, s)
				}
			}
			if order[s] < order[last] {
				t.Fatalf("%s after %s", s, last)
			}
			if hidden.Bound() > bound+1e-12 {
				t.Fatalf("the bound grew from %v to %v", bound, hidden.Bound())
			}
			last, bound = s, hidden.Bound()
		}
		if !last.Final() {
			t.Fatalf("all is played, and it is %s", last)
		}
	}
}

func TestRaceStates(t *testing.T) {
	all := []State{Qualifying, Running, Complete}
	for i, from := range all {
		for j, to := range all {
			if err := Next(from, to); (err == nil) != (j > i) {
				t.Errorf("%s to %s: %v", from, to, err)
			}
		}
		if from.ShowsHidden() != (from == Complete) {
			t.Errorf("%s shows hidden problems: %t", from, from.ShowsHidden())
		}
	}
	if Next("x", Running) == nil {
		t.Error("an unknown state has a next")
	}
}

func TestMemorised(t *testing.T) {
	for _, c := range []struct {
		ps, pt, hs, ht int
		gap            float64
		alarm          bool
	}{
		{12, 12, 0, 12, 1, true},
		{12, 12, 0, 4, 1, true},
		{12, 12, 1, 2, .5, false}, // two problems prove little
		{12, 12, 10, 12, 1.0 / 6, false},
		{6, 12, 6, 12, 0, false},
		{3, 12, 9, 12, -.5, false},
		{0, 0, 5, 5, 0, false},
		{300, 300, 210, 300, .3, true},
		{300, 300, 255, 300, .15, false}, // certain, and too small to look at
	} {
		g, err := Memorised(c.ps, c.pt, c.hs, c.ht)
		if err != nil || math.Abs(g.Gap-c.gap) > 1e-12 || g.Alarm != c.alarm {
			t.Errorf("%+v: %+v %v", c, g, err)
		}
	}
	if _, err := Memorised(2, 1, 0, 0); err == nil {
		t.Error("two of one were taken")
	}
}

func TestNoise(t *testing.T) {
	if _, ok := Noise([]incentive.Play{{Task: "a", Value: 1}, {Task: "b", Value: 0}}); ok {
		t.Error("noise of nothing played twice")
	}
	se, ok := Noise([]incentive.Play{{Task: "a", Value: 1}, {Task: "a", Value: 0}, {Task: "b", Value: 1}, {Task: "b", Value: 1}})
	if want := math.Sqrt(.25) / 2; !ok || math.Abs(se-want) > 1e-12 { // variance .5, mean of two: .25; two tasks
		t.Errorf("%v %t, want %v", se, ok, want)
	}
}
