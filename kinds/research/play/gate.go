package play

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// GateRule is a second metric that must reach a bound before the first counts:
// the loss of a speed run. The benchmark writes one value for each of its seeds,
// and the mean must be better than the bound by the test of quorum.Gate.
type GateRule struct {
	Metric    string  `toml:"metric" json:"metric"`       // name in "series" of the result file
	Direction string  `toml:"direction" json:"direction"` // minimize: at most Bound
	Bound     float64 `toml:"bound" json:"bound"`
	Alpha     float64 `toml:"alpha" json:"alpha"` // 0 is 0.01
	Seeds     int     `toml:"seeds" json:"seeds"` // how many values there must be, at least 2
}

// RejectedGate is the code of a rejection by a task's gate.
const RejectedGate = "gate_missed"

// Metrics of a gate, beside those of the benchmark.
const (
	MetricGateMean = "gate_mean"
	MetricGateP    = "gate_p"
)

// mistakes says what is wrong with a task's gate; nil: it has none.
func (g *GateRule) mistakes(t *Task, no func(field, limit, format string, args ...any)) {
	if g == nil {
		return
	}
	if !metricForm().MatchString(g.Metric) || len(g.Metric) > maxName || g.Metric == t.MetricName {
		no("gate.metric", "", "%.40q: want the name of another metric than metric_name", g.Metric)
	}
	if g.Direction != agon.Minimize && g.Direction != agon.Maximize {
		no("gate.direction", agon.Minimize+", "+agon.Maximize, "%.40q is none of them", g.Direction)
	}
	if math.IsNaN(g.Bound) || math.IsInf(g.Bound, 0) {
		no("gate.bound", "", "want a finite number")
	}
	if !(g.Alpha >= 0 && g.Alpha <= 0.5) {
		no("gate.alpha", "0 to 0.5", "%v", g.Alpha)
	}
	if g.Seeds < 2 || g.Seeds > 100 {
		no("gate.seeds", "2 to 100", "%d: one seed says nothing of chance", g.Seeds)
	}
	if t.ResultPath == "" {
		no("gate", "", "its values stand in a result file: result_path is missing")
	}
}

// pass reads the gate's values of a result file and adds to m what they come to.
// An error that is an *ended says that the entry misses it.
func (g *GateRule) pass(raw []byte, m map[string]float64) error {
	var doc struct {
		Series map[string]json.RawMessage `json:"series"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return &ended{OutcomeNoMetric, "", `"series" of the result file is not an object`}
	}
	values, err := series(doc.Series[g.Metric], g.Seeds)
	if err != nil {
		return &ended{OutcomeNoMetric, "", fmt.Sprintf("the series %s of the result file: %v", g.Metric, err)}
	}
	got, err := quorum.Gate{Direction: g.Direction, Bound: g.Bound, Alpha: g.Alpha, Values: values}.Pass()
	if err != nil {
		return &ended{OutcomeNoMetric, "", plain.Short(err.Error(), 300)}
	}
	if !got.Passes {
		return &ended{agon.OutcomeOK, RejectedGate, fmt.Sprintf("%s has a mean of %.6g over %d seeds (standard error %.3g): that it is better than %v has p = %.3g", g.Metric, got.Mean, got.Seeds, got.SE, g.Bound, got.P)}
	}
	m[MetricGateMean], m[MetricGateP] = got.Mean, got.P
	return nil
}

// series reads the numbers of one metric, one for each seed.
func series(raw json.RawMessage, want int) ([]float64, error) {
	if raw == nil {
		return nil, errors.New("it is missing")
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("it is not a list")
	}
	if len(list) != want {
		return nil, fmt.Errorf("it has %d values, the task wants one for each of %d seeds", len(list), want)
	}
	out := make([]float64, len(list))
	for i, x := range list {
		v, err := finite(x)
		if err != nil {
			return nil, fmt.Errorf("value %d is %w", i, err)
		}
		out[i] = v
	}
	return out, nil
}
