package wire

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"

	"github.com/agon-arena/agon"
)

// mostVaried is of how many entries of a race, the best first, the runs are read.
const mostVaried = 100

// spreadSteps are the spreads between validators that are counted, in percentage points.
var spreadSteps = []float64{0.5, 1, 2, 5, 10}

// raceVariance says how far the validators of a race are apart: over entries that at
// least two of them scored. It is worked out once a minute, however many ask.
func (b *Backend) raceVariance(w http.ResponseWriter, r *http.Request) {
	a, x, list, ok := b.raceByID(w, r)
	if !ok {
		return
	}
	id := raceID(a, x.number())
	doc, err := b.apart.Get(id, func() ([]byte, error) {
		b.raceView(a, x, list) // puts the best first
		entries := map[string]map[string]float64{}
		for _, s := range x.raced[:min(len(x.raced), mostVaried)] {
			by, err := b.scoredBy(context.WithoutCancel(r.Context()), s.ID) // others wait for it
			if err != nil {
				return nil, err
			}
			entries[s.ID] = by
		}
		out := varianceOf(entries)
		out["race_id"], out["race_number"] = id, x.number()
		return json.Marshal(out)
	})
	if err != nil {
		b.broken(w, "runs", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	doc.Write(w, r, http.StatusOK)
}

// scoredBy is what each validator made of a submission's hidden problems: the mean of
// its runs that count.
func (b *Backend) scoredBy(ctx context.Context, submission string) (map[string]float64, error) {
	list, err := b.runsOf(ctx, submission, string(agon.RunScored))
	if err != nil {
		return nil, err
	}
	sum, n := map[string]float64{}, map[string]float64{}
	for _, x := range list {
		if phase(x) != "RACE" {
			continue
		}
		if x, err = b.attempts(ctx, x); err != nil {
			return nil, err
		}
		v := shownScore(x)
		if i := slices.IndexFunc(x.List, func(t agon.Attempt) bool { return t.Counted }); i >= 0 && v != nil {
			sum[x.List[i].Validator] += *v
			n[x.List[i].Validator]++
		}
	}
	for k := range sum {
		sum[k] /= n[k]
	}
	return sum, nil
}

// varianceOf takes the scores of entries by validator.
func varianceOf(entries map[string]map[string]float64) map[string]any {
	var spreads []float64
	deltas, scores := map[string][]float64{}, map[string][]float64{}
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		by := entries[id]
		if len(by) < 2 {
			continue
		}
		total := 0.0
		values := make([]float64, 0, len(by))
		for _, k := range slices.Sorted(maps.Keys(by)) { // sums of floats depend on the order
			total += by[k]
			values = append(values, by[k])
		}
		spreads = append(spreads, slices.Max(values)-slices.Min(values))
		for k, v := range by {
			deltas[k] = append(deltas[k], v-(total-v)/float64(len(by)-1))
			scores[k] = append(scores[k], v)
		}
	}
	out := map[string]any{"n_pairs": len(spreads), "mean_spread": nil, "median_spread": nil, "max_spread": nil}
	buckets, validators := []any{}, []any{}
	if n := len(spreads); n > 0 {
		slices.Sort(spreads)
		mean, _ := meanSpread(spreads)
		out["mean_spread"], out["median_spread"], out["max_spread"] = mean, (spreads[(n-1)/2]+spreads[n/2])/2, spreads[n-1]
		for _, step := range spreadSteps {
			over := 0
			for _, x := range spreads {
				if 100*x >= step-1e-9 {
					over++
				}
			}
			buckets = append(buckets, map[string]any{"threshold_pp": step, "count": over, "pct": float64(over) / float64(n)})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(deltas)) {
		delta, dev := meanSpread(deltas[k])
		score, _ := meanSpread(scores[k])
		validators = append(validators, map[string]any{
			"validator_hotkey": k, "validator_name": nil, "pairs_evaluated": len(deltas[k]), "mean_delta_vs_peers": delta, "std_dev": dev, "mean_score": score,
		})
	}
	out["spread_buckets"], out["validators"] = buckets, validators
	return out
}

// meanSpread is the mean of values and their standard deviation, 0 of one value.
func meanSpread(values []float64) (mean, dev float64) {
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	if len(values) < 2 {
		return mean, 0
	}
	for _, v := range values {
		dev += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(dev / float64(len(values)-1))
}
