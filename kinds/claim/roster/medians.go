package roster

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/agon-arena/agon/calc"
)

// Several validators play the same artifacts on the same tasks; what counts is
// the median over validators, as in Caster's ranking.

// MediansRule is the name under which agon calc recomputes it.
const MediansRule = "caster.medians"

// GridCell is what one validator saw of one artifact on one task.
type GridCell struct {
	Validator string   `json:"validator"`
	Artifact  string   `json:"artifact"`
	Task      string   `json:"task"`
	Score     float64  `json:"score"`
	Cost      float64  `json:"cost"`       // reference cost, US dollars
	ElapsedMS *float64 `json:"elapsed_ms"` // null: not known
}

// GridRow is an artifact over all validators.
type GridRow struct {
	Artifact string    `json:"artifact"`
	Vector   []float64 `json:"vector"` // median score of each task, by task id
	Total    float64   `json:"total"`
	Cost     float64   `json:"cost"`
	// ElapsedMS is nil where any value is missing.
	ElapsedMS *float64 `json:"elapsed_ms"`
}

// Grid is the outcome.
type Grid struct {
	Tasks []string  `json:"tasks"`
	Rows  []GridRow `json:"rows"` // by artifact
}

// ErrQuorum says that too few validators have covered the grid.
var ErrQuorum = errors.New("too few validators")

// Medians aggregates cells over validators: the median score of each artifact
// and task, and the medians of each validator's summed cost and time. Every
// validator must cover the same artifacts and tasks exactly once; quorum is how
// many validators there must be at least (below 1: 1).
func Medians(cells []GridCell, quorum int) (*Grid, error) {
	type at struct{ validator, artifact, task string }
	seen := map[at]GridCell{}
	validators, artifacts, tasks := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range cells {
		if math.IsNaN(c.Score) || math.IsInf(c.Score, 0) || math.IsNaN(c.Cost) || math.IsInf(c.Cost, 0) || c.Cost < 0 {
			return nil, fmt.Errorf("validator %s, artifact %s, task %s: score or cost is not a number to count with", c.Validator, c.Artifact, c.Task)
		}
		k := at{c.Validator, c.Artifact, c.Task}
		if _, ok := seen[k]; ok {
			return nil, fmt.Errorf("validator %s covers artifact %s, task %s twice", c.Validator, c.Artifact, c.Task)
		}
		seen[k] = c
		validators[c.Validator], artifacts[c.Artifact], tasks[c.Task] = true, true, true
	}
	if len(validators) < max(quorum, 1) {
		return nil, fmt.Errorf("%w: %d of %d", ErrQuorum, len(validators), max(quorum, 1))
	}
	vs, as, ts := slices.Sorted(maps.Keys(validators)), slices.Sorted(maps.Keys(artifacts)), slices.Sorted(maps.Keys(tasks))
	g := &Grid{Tasks: ts}
	for _, a := range as {
		row := GridRow{Artifact: a}
		total := new(big.Rat)
		for _, t := range ts {
			var list []float64
			for _, v := range vs {
				c, ok := seen[at{v, a, t}]
				if !ok {
					return nil, fmt.Errorf("validator %s does not cover artifact %s, task %s", v, a, t)
				}
				list = append(list, c.Score)
			}
			m := round12(median(list))
			row.Vector = append(row.Vector, m)
			total.Add(total, new(big.Rat).SetFloat64(m))
		}
		exact, _ := total.Float64()
		row.Total = round12(exact)
		var costs, times []float64
		known := true
		for _, v := range vs {
			cost, ms := 0.0, 0.0
			for _, t := range ts {
				c := seen[at{v, a, t}]
				cost += c.Cost
				if c.ElapsedMS == nil {
					known = false
					continue
				}
				ms += *c.ElapsedMS
			}
			costs, times = append(costs, cost), append(times, ms)
		}
		row.Cost = median(costs)
		if known {
			m := median(times)
			row.ElapsedMS = &m
		}
		g.Rows = append(g.Rows, row)
	}
	return g, nil
}

// median of a list that is not empty; of an even number the mean of the two in the middle.
func median(list []float64) float64 {
	list = slices.Clone(list)
	slices.Sort(list)
	n := len(list)
	if n%2 == 1 {
		return list[n/2]
	}
	return (list[n/2-1] + list[n/2]) / 2
}

// round12 rounds to 12 digits after the point, halves to even, as the original does.
func round12(x float64) float64 { return math.RoundToEven(x*1e12) / 1e12 }

type mediansIn struct {
	Cells  []GridCell `json:"cells"`
	Quorum int        `json:"quorum,omitempty"`
}

func mediansRule() calc.Rule {
	return calc.Func(MediansRule, "{cells [{validator, artifact, task, score, cost, elapsed_ms|null}], quorum? 1} -> {tasks, rows}: medians over validators of a complete grid", func(in mediansIn) (*Grid, error) {
		return Medians(in.Cells, in.Quorum)
	})
}
