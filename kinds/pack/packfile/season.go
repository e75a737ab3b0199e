package packfile

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/calc"
)

// SplitHalf is the score of a season that rewards learning: four episodes, the
// later two against the earlier two.
type SplitHalf struct {
	Early float64 `json:"early"`
	Late  float64 `json:"late"`
	Delta float64 `json:"delta"` // 0 where the early half was spoiled on purpose
	Mean  float64 `json:"mean"`
	Bonus float64 `json:"bonus"` // share added to the mean
	Final float64 `json:"final"`
}

// NewSplitHalf scores the qualities of a session's episodes in order.
func NewSplitHalf(q []float64) SplitHalf {
	var s SplitHalf
	if len(q) == 0 {
		return s
	}
	sum := 0.0
	for _, x := range q {
		sum += x
	}
	s.Mean = sum / float64(len(q))
	if s.Final = s.Mean; len(q) < 4 {
		return s
	}
	s.Early, s.Late = (q[0]+q[1])/2, (q[2]+q[3])/2
	if s.Delta = s.Late - s.Early; s.Early < 0.3 && s.Delta > 0.4 {
		s.Delta = 0
	}
	s.Bonus = 0.5 * max(0, s.Delta)
	s.Final = s.Mean * (1 + s.Bonus)
	return s
}

// fixWeights are what the criteria of a code fix count; the learning criteria
// share theirs.
var (
	fixWeights = []struct {
		name   string
		weight float64
	}{{"tests_pass", 0.5}, {"code_quality", 0.15}, {"change_minimality", 0.10}}
	learning       = []string{"no_repeat_mistake", "fix_transfer", "postmortem_accuracy"}
	learningWeight = 0.25
)

// FixQuality is the quality of a code fix from a judge's criteria and the
// tests that were run, whose share counts more than the judge's word. tests
// with total 0 are none.
func FixQuality(criteria map[string]float64, passed, total float64) float64 {
	got := map[string]float64{}
	for k, v := range criteria {
		if !math.IsNaN(v) {
			got[k] = min(1, max(0, v))
		}
	}
	if total > 0 {
		got["tests_pass"] = min(1, max(0, passed/total))
	}
	sum, weight := 0.0, 0.0
	for _, w := range fixWeights {
		if v, ok := got[w.name]; ok {
			sum, weight = sum+w.weight*v, weight+w.weight
		}
	}
	n, learned := 0, 0.0
	for _, name := range learning {
		if v, ok := got[name]; ok {
			n, learned = n+1, learned+v
		}
	}
	if n > 0 {
		sum, weight = sum+learningWeight*learned/float64(n), weight+learningWeight
	}
	if weight == 0 {
		return 0
	}
	return sum / weight
}

// parseCriteria reads the three forms in which judges write criteria.
func parseCriteria(raw json.RawMessage) map[string]float64 {
	out := map[string]float64{}
	type one struct {
		Name  string   `json:"name"`
		Score *float64 `json:"score"`
		Max   *float64 `json:"max"`
	}
	put := func(name string, o one) {
		most := 1.0
		if o.Max != nil {
			most = *o.Max
		}
		if o.Score != nil && most > 0 {
			out[name] = *o.Score / most
		}
	}
	var byName map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case json.Unmarshal(raw, &byName) == nil:
		for name, v := range byName {
			var n float64
			var o one
			switch {
			case string(v) == "null":
			case json.Unmarshal(v, &n) == nil:
				out[name] = n
			case json.Unmarshal(v, &o) == nil:
				put(name, o)
			}
		}
	case json.Unmarshal(raw, &list) == nil:
		for _, v := range list {
			var o one
			if json.Unmarshal(v, &o) == nil {
				put(o.Name, o)
			}
		}
	}
	return out
}

// Tests is what a verifier's script left of its tests.
type Tests struct {
	Passed  int     `json:"passed"`
	Total   int     `json:"total"`
	Quality float64 `json:"quality"` // 0 to 1
	From    string  `json:"from"`    // ctrf, reward or none
}

// ReadTests grades a verifier's ctrf.json (passed of tests) or, where that says
// nothing, the whole number in its reward.txt, cut to 0 or 1. Without either the
// quality is 0.
func ReadTests(ctrf, reward []byte) Tests {
	var in struct {
		Results struct {
			Summary struct {
				Tests  *float64 `json:"tests"`
				Passed *float64 `json:"passed"`
			} `json:"summary"`
		} `json:"results"`
	}
	if s := &in.Results.Summary; json.Unmarshal(ctrf, &in) == nil && s.Tests != nil && s.Passed != nil && *s.Tests >= 1 && *s.Tests <= 1e6 {
		passed := min(*s.Tests, max(0, *s.Passed))
		return Tests{Passed: int(passed), Total: int(*s.Tests), Quality: passed / *s.Tests, From: "ctrf"}
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(reward)))
	if err != nil {
		return Tests{From: "none"}
	}
	n = min(1, max(0, n))
	return Tests{Passed: n, Total: 1, Quality: float64(n), From: "reward"}
}

func seasonRules() []calc.Rule {
	return []calc.Rule{
		calc.Func("trajectoryrl.verifier_quality", "{ctrf|null, reward|null} -> {passed, total, quality, from}", func(in struct {
			CTRF   json.RawMessage `json:"ctrf"`
			Reward *string         `json:"reward"`
		},
		) (Tests, error) {
			var reward []byte
			if in.Reward != nil {
				reward = []byte(*in.Reward)
			}
			return ReadTests(in.CTRF, reward), nil
		}),
		calc.Func("trajectoryrl.split_half", "{qualities} -> {early, late, delta, mean, bonus, final}", func(in struct {
			Qualities []float64 `json:"qualities"`
		},
		) (SplitHalf, error) {
			if len(in.Qualities) > 1000 {
				return SplitHalf{}, fmt.Errorf("qualities: more than 1000")
			}
			return NewSplitHalf(slices.Clone(in.Qualities)), nil
		}),
		calc.Func("trajectoryrl.codebase_fix_quality", "{evaluation, test_results|null} -> {quality}", func(in struct {
			Evaluation struct {
				Criteria json.RawMessage  `json:"criteria,omitempty"`
				Quality  *json.RawMessage `json:"quality"` // the judge's own: not believed
				Summary  *json.RawMessage `json:"summary"`
			} `json:"evaluation"`
			Tests *struct {
				Passed float64 `json:"passed"`
				Total  float64 `json:"total"`
			} `json:"test_results"`
		},
		) (out struct {
			Quality float64 `json:"quality"`
		}, err error,
		) {
			var passed, total float64
			if in.Tests != nil {
				passed, total = in.Tests.Passed, in.Tests.Total
			}
			out.Quality = FixQuality(parseCriteria(in.Evaluation.Criteria), passed, total)
			return out, nil
		}),
	}
}
