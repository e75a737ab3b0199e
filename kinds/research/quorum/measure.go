package quorum

import (
	"errors"
	"fmt"
	"math"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/score"
)

// Gate is a metric that must reach a bound before anything else counts: the loss
// of a speed run. It is shown over several seeds, not by one that was lucky.
type Gate struct {
	Direction string  `json:"direction"` // minimize: at most Bound
	Bound     float64 `json:"bound"`
	// Alpha is the chance that a program at the bound passes; 0: 0.01.
	Alpha float64 `json:"alpha"`
	// Values are what the metric came to, one for each seed.
	Values []float64 `json:"values"`
}

// Gated is what a gate says.
type Gated struct {
	Passes bool    `json:"passes"`
	Mean   float64 `json:"mean"`
	SE     float64 `json:"se"`
	// P is the chance of a mean this good, or better, of a program at the bound: one
	// side of Student's t. Values without any spread have the P of their side: 0 or 1.
	P     float64 `json:"p"`
	Seeds int     `json:"seeds"`
}

// maxGateSeeds bounds the values of a gate.
const maxGateSeeds = 10_000

// Pass tests whether the mean of a metric is better than its bound.
func (g Gate) Pass() (Gated, error) {
	alpha := g.Alpha
	if alpha == 0 {
		alpha = 0.01
	}
	switch {
	case g.Direction != agon.Minimize && g.Direction != agon.Maximize:
		return Gated{}, fmt.Errorf("direction: %.20q is neither %s nor %s", g.Direction, agon.Minimize, agon.Maximize)
	case !(alpha > 0 && alpha <= 0.5):
		return Gated{}, errors.New("alpha: want more than 0 and at most 0.5")
	case len(g.Values) < 2:
		return Gated{}, fmt.Errorf("values: %d: a gate needs the values of at least 2 seeds, one says nothing of chance", len(g.Values))
	case len(g.Values) > maxGateSeeds:
		return Gated{}, fmt.Errorf("values: %d: at most %d", len(g.Values), maxGateSeeds)
	case !finite(append([]float64{g.Bound}, g.Values...)...):
		return Gated{}, errors.New("bound, values: want finite numbers")
	}
	out := Gated{Seeds: len(g.Values)}
	out.Mean, out.SE = score.MeanSE(g.Values)
	by := gain(g.Direction, out.Mean, g.Bound)
	switch {
	case out.SE > 0:
		out.P = studentTail(by/out.SE, len(g.Values)-1)
	case by >= 0: // an exact metric at its bound has reached it
		out.P = 0
	default:
		out.P = 1
	}
	out.Passes = out.P < alpha
	return out, nil
}

// SuiteTask is one program of a suite: what the reference took and what the entry took.
type SuiteTask struct {
	Name      string  `json:"name"`
	Reference float64 `json:"reference"`
	Value     float64 `json:"value"`
	Correct   bool    `json:"correct"`
}

// Suite sums up tasks whose metric is a cost: time, mostly.
type Suite struct {
	// Score is the harmonic mean of the speed-ups: what all tasks together gain when
	// each takes the same share of the reference's time. 0 where a task failed.
	Score    float64            `json:"score"`
	SpeedUps map[string]float64 `json:"speedups"`
	Failed   []string           `json:"failed"` // wrong answers, in order: correctness is a gate
	Passes   bool               `json:"passes"`
}

// maxSuite bounds the tasks of a suite.
const maxSuite = 1000

// SumSuite aggregates a suite.
func SumSuite(list []SuiteTask) (Suite, error) {
	out := Suite{SpeedUps: map[string]float64{}, Failed: []string{}}
	if len(list) == 0 || len(list) > maxSuite {
		return out, fmt.Errorf("tasks: %d: want 1 to %d", len(list), maxSuite)
	}
	inverse := 0.0
	for i, t := range list {
		if _, twice := out.SpeedUps[t.Name]; twice || t.Name == "" {
			return out, fmt.Errorf("tasks[%d].name: %.60q is empty or there twice", i, t.Name)
		}
		if !finite(t.Reference) || t.Reference <= 0 {
			return out, fmt.Errorf("tasks[%d].reference: want a finite number above 0", i)
		}
		if !t.Correct || !finite(t.Value) || t.Value <= 0 {
			out.SpeedUps[t.Name] = 0
			out.Failed = append(out.Failed, t.Name)
			continue
		}
		out.SpeedUps[t.Name] = t.Reference / t.Value
		inverse += t.Value / t.Reference
	}
	if out.Passes = len(out.Failed) == 0; out.Passes {
		out.Score = float64(len(list)) / inverse
	}
	return out, nil
}

// CreditIn is a gain that is to be paid.
type CreditIn struct {
	Direction string  `json:"direction"`
	Baseline  float64 `json:"baseline"` // of the task, which scales all of its credits
	Band      float64 `json:"band"`     // its noise at the baseline; 0: none
	From      float64 `json:"from"`     // the value before
	To        float64 `json:"to"`       // and after
}

// Credit is what a gain is worth: the difference of a scale that is linear near
// zero and logarithmic far from it. So gains of the same share are worth the
// same, a value that goes to zero is worth a few units more and not without
// bound, and a gain in two steps is worth what it is in one.
func Credit(in CreditIn) (float64, error) {
	if in.Direction != agon.Minimize && in.Direction != agon.Maximize {
		return 0, fmt.Errorf("direction: %.20q is neither %s nor %s", in.Direction, agon.Minimize, agon.Maximize)
	}
	if !finite(in.Baseline, in.Band, in.From, in.To) || in.Band < 0 {
		return 0, errors.New("baseline, band, from, to: want finite numbers, and a band of at least 0")
	}
	unit := max(in.Band, math.Abs(in.Baseline)/100)
	if unit == 0 {
		unit = 1
	}
	at := func(v float64) float64 { return math.Asinh(v/unit) * 100 }
	return max(0, gain(in.Direction, at(in.To), at(in.From))), nil
}

func finite(list ...float64) bool {
	for _, v := range list {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// studentTail is the chance that Student's t with df degrees of freedom is at least t.
func studentTail(t float64, df int) float64 {
	n := float64(df)
	p := incompleteBeta(n/2, 0.5, n/(n+t*t)) / 2
	if t < 0 {
		return 1 - p
	}
	return p
}

// incompleteBeta is the regularised incomplete beta function, by its continued
// fraction (Lentz's way of working it out).
func incompleteBeta(a, b, x float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab - la - lb + a*math.Log(x) + b*math.Log1p(-x))
	if x > (a+1)/(a+b+2) {
		return 1 - incompleteBeta(b, a, 1-x)
	}
	const tiny = 1e-300
	c, d := 1.0, 1-(a+b)*x/(a+1)
	if math.Abs(d) < tiny {
		d = tiny
	}
	d = 1 / d
	f := d
	for m := 1.0; m < 500; m++ {
		for _, k := range []float64{m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m)), -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))} {
			if d = 1 + k*d; math.Abs(d) < tiny {
				d = tiny
			}
			if c = 1 + k/c; math.Abs(c) < tiny {
				c = tiny
			}
			d = 1 / d
			f *= d * c
		}
		if math.Abs(d*c-1) < 1e-15 {
			break
		}
	}
	return front * f / a
}
