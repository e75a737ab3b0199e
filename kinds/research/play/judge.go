package play

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// Judge turns what a replay observed into a score. Nothing of the miner runs
// any more: the number was read on the host, from bytes that left a dead box.
func (k *Kind) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	if len(r.Tasks) != 1 {
		return nil, fmt.Errorf("research: a run has one task, this one has %d", len(r.Tasks))
	}
	dir, err := env.Tree(ctx, r.Tasks[0].Digest)
	if err != nil {
		return nil, err
	}
	t, _, err := OpenTask(dir)
	if err != nil {
		return nil, err
	}
	var obs Observed
	if err := json.Unmarshal(rec.Files[ObservedFile], &obs); err != nil {
		return nil, fmt.Errorf("read %s: %w", ObservedFile, err)
	}
	return []agon.Score{ScoreOf(&t, r.Tasks[0].Key, obs)}, nil
}

// ScoreOf is the score of an observation. Pure.
func ScoreOf(t *Task, key string, obs Observed) agon.Score {
	s := agon.Score{Task: key, Scorer: scorer, Detail: plain.Short(obs.Notes, 400), Metrics: map[string]float64{
		"setup_ms": float64(obs.SetupMS), "benchmark_ms": float64(obs.BenchmarkMS), "max_rss_bytes": float64(obs.MaxRSS),
	}}
	switch obs.Status {
	case StatusAccepted:
		s.Metrics[MetricVerdict] = quorum.VerdictAccepted
	case StatusRejected:
		s.Metrics[MetricVerdict] = quorum.VerdictRejected
		s.Detail = plain.Short(obs.Reason+": "+obs.Notes, 400)
		return s
	default:
		s.Metrics[MetricVerdict] = quorum.VerdictError
		return s
	}
	for name, x := range obs.Metrics {
		s.Metrics[MetricPrefix+name] = x
	}
	if obs.Stops > 0 {
		s.Metrics["stops"] = float64(obs.Stops)
	}
	x := obs.Metrics[t.MetricName]
	s.Metrics[MetricObserved] = x
	if obs.Claimed != nil {
		s.Metrics[MetricClaimed] = *obs.Claimed
	}
	s.Value, s.Solved = t.ScoreValue(x), true
	var pairs []quorum.Pair
	for _, p := range obs.Duel {
		pairs = append(pairs, p.Pair)
	}
	maps.Copy(s.Metrics, PairMetrics(pairs))
	if len(obs.Duel) > 0 && obs.Duel[0].Seed == obs.Seed && !obs.Duel[0].Lost {
		s.Metrics[MetricDuelAgain] = x
	}
	s.Detail = fmt.Sprintf("%s %v", t.MetricName, x)
	return s
}

// Rejudging implements kind.Rejudged.
func (k *Kind) Rejudging() kind.Rejudging {
	return kind.Rejudging{Exempt: "its submissions are replayed by several validators, and what a replay measured cannot be judged again"}
}
