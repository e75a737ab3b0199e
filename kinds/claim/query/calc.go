package query

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agon-arena/agon/calc"
)

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	type one struct {
		Value float64 `json:"value"`
	}
	type shares struct {
		Shares []Share `json:"shares"`
		Sum    float64 `json:"sum"`
	}
	sum := func(list []Share) shares {
		out := shares{Shares: list}
		for _, s := range list {
			out.Sum += s.Weight
		}
		return out
	}
	type weights struct {
		Weights Weights `json:"weights"`
	}
	book := func(version int, historical bool) Rulebook { return Rulebook{Version: version, Historical: historical} }
	return []calc.Rule{
		calc.Func("caster.query", "{query} -> {text, output_schema, mode text|structured}: a task of the query era, checked", func(in struct {
			Query json.RawMessage `json:"query"`
		},
		) (any, error) {
			q, err := ParseQuery(in.Query)
			if err != nil {
				return nil, err
			}
			return struct {
				Query
				Mode string `json:"mode"`
			}{q, q.Mode()}, nil
		}),
		calc.Func("caster.response", "{response} -> {text?, output?, note?, citations, segments}: an answer of the query era, checked", func(in struct {
			Response json.RawMessage `json:"response"`
		},
		) (Response, error) {
			return ParseResponse(in.Response)
		}),
		calc.Func("caster.pairwise", "{preferred [first|second with the miner first, then with the miner second]} -> {value 0|0.5|1}", func(in struct {
			Preferred []string `json:"preferred"`
		},
		) (one, error) {
			if len(in.Preferred) != 2 {
				return one{}, errors.New("preferred: want two positions")
			}
			v, err := Pairwise(in.Preferred[0], in.Preferred[1])
			return one{v}, err
		}),
		calc.Func("caster.cascade", "{tasks, incumbent|null {total, cost, elapsed_ms}, challenger, data_version? 9, historical? false} -> {winner, rule, rules}: who sits after one challenge", func(in struct {
			Tasks      int       `json:"tasks"`
			Incumbent  *Standing `json:"incumbent"`
			Challenger Standing  `json:"challenger"`
			Version    int       `json:"data_version,omitempty"`
			Historical bool      `json:"historical,omitempty"`
		},
		) (Step, error) {
			return book(in.Version, in.Historical).Decide(in.Tasks, in.Incumbent, in.Challenger)
		}),
		calc.Func("caster.champion", "{tasks, incumbent|null, challengers, data_version? 9, historical? false} -> {champion, score, lineage, steps}: a whole batch", func(in struct {
			Tasks       int        `json:"tasks"`
			Incumbent   *Standing  `json:"incumbent"`
			Challengers []Standing `json:"challengers"`
			Version     int        `json:"data_version,omitempty"`
			Historical  bool       `json:"historical,omitempty"`
		},
		) (Outcome, error) {
			return book(in.Version, in.Historical).Champion(in.Tasks, in.Incumbent, in.Challengers)
		}),
		calc.Func("caster.main_order", "{lineage, order} -> {order}: who played the main stage, ranked for pay", func(in struct {
			Lineage []string `json:"lineage"`
			Order   []string `json:"order"`
		},
		) (any, error) {
			return map[string][]string{"order": MainOrder(in.Lineage, in.Order)}, nil
		}),
		calc.Func("caster.emission_cap", "{weights {uid: w}, score, max_fraction} -> {weights}: the miners' part is score times max_fraction, uid 0 has the rest", func(in struct {
			Weights Weights `json:"weights"`
			Score   float64 `json:"score"`
			Max     float64 `json:"max_fraction"`
		},
		) (weights, error) {
			w, err := Cap(in.Weights, in.Score, in.Max)
			return weights{w}, err
		}),
		calc.Func("caster.champion_max", "{count, ceiling, data_version? 9} -> {value}: what the champion's count-th successive decision may pay", func(in struct {
			Count   int     `json:"count"`
			Ceiling float64 `json:"ceiling"`
			Version int     `json:"data_version,omitempty"`
		},
		) (one, error) {
			v, err := MaxFraction(in.Count, in.Ceiling, in.Version)
			return one{v}, err
		}),
		calc.Func("caster.participants_flat", "{uids, unit? 0.004} -> {weights, paid, fraction}", func(in struct {
			UIDs []string `json:"uids"`
			Unit float64  `json:"unit,omitempty"`
		},
		) (any, error) {
			if in.Unit == 0 {
				in.Unit = 0.004
			}
			w, err := Flat(in.UIDs, in.Unit)
			return map[string]any{"weights": w, "paid": len(w), "fraction": float64(len(w)) * in.Unit}, err
		}),
		calc.Func("caster.participants_tiered", "{entries [{id?, hotkey, score, class?}], unit? 0.008} -> {shares, sum}: best tenth two units, better half one; classified scripts a quarter", func(in struct {
			Entries []Scored `json:"entries"`
			Unit    float64  `json:"unit,omitempty"`
		},
		) (shares, error) {
			if in.Unit == 0 {
				in.Unit = 0.008
			}
			list, err := Tiered(in.Entries, in.Unit)
			return sum(list), err
		}),
		calc.Func("caster.stage_weights", "{entries [{id, hotkey?, score, class?, main?, incumbent?}], data_version? 9, amount?} -> {shares, sum}: stage times novelty; with amount, its split", func(in struct {
			Entries []Scored `json:"entries"`
			Version int      `json:"data_version,omitempty"`
			Amount  *float64 `json:"amount,omitempty"`
		},
		) (shares, error) {
			list := StageWeights(in.Entries, in.Version)
			if in.Amount == nil || len(list) == 0 {
				return sum(list), nil
			}
			var w []float64
			for _, s := range list {
				w = append(w, s.Weight)
			}
			parts, err := Split(*in.Amount, w)
			if err != nil {
				return shares{}, err
			}
			for i := range list {
				list[i].Weight = parts[i]
			}
			return sum(list), nil
		}),
		calc.Func("caster.split", "{amount, weights? [w], names? [hotkey]} -> {parts}|{shares}: by weight, or equally over distinct names", func(in struct {
			Amount  float64   `json:"amount"`
			Weights []float64 `json:"weights,omitempty"`
			Names   []string  `json:"names,omitempty"`
		},
		) (any, error) {
			if (in.Weights == nil) == (in.Names == nil) {
				return nil, errors.New("give weights or names")
			}
			if in.Names != nil {
				list, err := EqualSplit(in.Amount, in.Names)
				return sum(list), err
			}
			parts, err := Split(in.Amount, in.Weights)
			return map[string][]float64{"parts": parts}, err
		}),
		calc.Func("caster.compose", "{parts [{uid: share}]} -> {weights}: added up, uid 0 has the rest", func(in struct {
			Parts []Weights `json:"parts"`
		},
		) (weights, error) {
			w, err := Compose(in.Parts...)
			return weights{w}, err
		}),
		calc.Func("caster.fill", "{allocations [{id?, hotkey?, weight}]} -> {accepted, dropped}: whole ones in order while they fit", func(in struct {
			Allocations []Share `json:"allocations"`
		},
		) (any, error) {
			a, d := Fill(in.Allocations)
			return map[string][]Share{"accepted": a, "dropped": d}, nil
		}),
		calc.Func("caster.similarity", "{votes} -> {outcome pass|fail|undecided, class|null}", func(in struct {
			Votes []string `json:"votes"`
		},
		) (Tally, error) {
			return Vote(in.Votes)
		}),
		calc.Func("caster.similarity_class", "{primary_controller, evidence_state_and_flow, answer_production_path} -> {classification}", func(in struct {
			Controller string `json:"primary_controller"`
			Evidence   string `json:"evidence_state_and_flow"`
			Answer     string `json:"answer_production_path"`
		},
		) (any, error) {
			c, err := ClassOf(in.Controller, in.Evidence, in.Answer)
			return map[string]string{"classification": c}, err
		}),
		calc.Func("caster.rubric", "{criteria [{id, weight, verdict MET|UNMET}]} -> {value}: met weights over the positive ones, from 0 to 1", func(in struct {
			Criteria []Criterion `json:"criteria"`
		},
		) (one, error) {
			v, err := Rubric(in.Criteria)
			return one{v}, err
		}),
		calc.Func("caster.panel", "{dataset_version, scoring_version, items} -> {items}: the twenty of a benchmark that are asked", func(in struct {
			Dataset string `json:"dataset_version"`
			Scoring string `json:"scoring_version"`
			Items   int    `json:"items"`
		},
		) (any, error) {
			list, err := Panel(in.Dataset, in.Scoring, in.Items)
			return map[string][]int{"items": list}, err
		}),
		calc.Func("caster.benchmark_ids", "{suite, source_batch, dataset_version, scoring_version, items [n]} -> {run_id, backing_batch_id, task_ids}", func(in struct {
			Suite   string `json:"suite"`
			Source  string `json:"source_batch"`
			Dataset string `json:"dataset_version"`
			Scoring string `json:"scoring_version"`
			Items   []int  `json:"items"`
		},
		) (IDs, error) {
			if len(in.Items) > 100_000 {
				return IDs{}, fmt.Errorf("items: %d, the limit is 100000", len(in.Items))
			}
			return BenchmarkIDs(in.Suite, in.Source, in.Dataset, in.Scoring, in.Items), nil
		}),
		calc.Func("caster.budget", "{era seed|head, budget_usd, hard_limit_usd?, costs} -> {status, used_usd, remaining_usd, receipts, calls}: costs that are known after the calls", func(in struct {
			Era    string    `json:"era"`
			Budget float64   `json:"budget_usd"`
			Limit  float64   `json:"hard_limit_usd,omitempty"`
			Costs  []float64 `json:"costs"`
		},
		) (Account, error) {
			return Charge(in.Era, in.Budget, in.Limit, in.Costs)
		}),
		calc.Func("caster.failure", "{code, attempt, max_attempts, session? true} -> {owner, terminal_effect, score, retry_decision, disqualifies_delivery}", func(in struct {
			Code    string `json:"code"`
			Attempt int    `json:"attempt"`
			Most    int    `json:"max_attempts"`
			Session *bool  `json:"session,omitempty"`
		},
		) (Blame, error) {
			return Failure(in.Code, in.Attempt, in.Most, in.Session == nil || *in.Session)
		}),
		calc.Func("caster.proxy_error", "{transport? connect|read_timeout|reset, status?, error_code?} -> {error}: what a failed call of the tool proxy is", func(in struct {
			Transport string `json:"transport,omitempty"`
			Status    int    `json:"status,omitempty"`
			Code      string `json:"error_code,omitempty"`
		},
		) (any, error) {
			e, err := ProxyError(in.Transport, in.Status, in.Code)
			return map[string]string{"error": e}, err
		}),
	}
}
