package score

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Names of this package's rules.
const (
	ScoreRule       = "oro.score"
	CoefficientRule = "oro.coefficient"
	WeightsRule     = "oro.weights"
	ThresholdRule   = "oro.threshold"
	PanelRuleName   = "oro.panel"
)

type scoreIn struct {
	Task    string               `json:"task"`
	Catalog []*shop.Product      `json:"catalog"`
	Reward  shop.Reward          `json:"reward"`
	Voucher *shop.Voucher        `json:"voucher"`
	Output  json.RawMessage      `json:"output"`
	Titles  map[string][]float32 `json:"title_vectors,omitempty"`
	Mode    string               `json:"mode,omitempty"`
}

type scoreOut struct {
	Expect  *Score `json:"expect"`
	Success bool   `json:"success"`
}

type coefficientIn struct {
	Q    float64 `json:"q"`
	Rate float64 `json:"rate"`
}

type coefficientOut struct {
	Coef  float64 `json:"coef"`
	Final float64 `json:"final"`
}

type weightsIn struct {
	Finishers []Finisher `json:"finishers"`
	Metagraph []string   `json:"metagraph"`
	Top       float64    `json:"t_top"`
	Burn      float64    `json:"t_burn"`
}

type weightsOut struct {
	Weights []int64 `json:"weights"`
}

type thresholdIn struct {
	Score float64 `json:"score"`
	SetAt float64 `json:"set_at"`
	Now   float64 `json:"now"`
	Law   Law     `json:"law"`
}

type thresholdOut struct {
	Bar float64 `json:"bar"`
}

type panelIn struct {
	Reports   []Report `json:"reports"`
	Tolerance float64  `json:"tolerance,omitempty"`
	MaxShare  float64  `json:"max_share,omitempty"`
}

// UnmarshalJSON reads [hotkey, agent_version_id, race_score].
func (f *Finisher) UnmarshalJSON(raw []byte) error {
	var row []json.RawMessage
	if err := json.Unmarshal(raw, &row); err != nil || len(row) != 3 {
		return errors.New("finishers: want [hotkey, agent_version_id, race_score]")
	}
	for i, to := range []any{&f.Hotkey, &f.Version, &f.Score} {
		if bytes.Equal(row[i], []byte("null")) || json.Unmarshal(row[i], to) != nil {
			return fmt.Errorf("finishers: element %d is of the wrong type", i)
		}
	}
	return nil
}

// MarshalJSON writes [hotkey, agent_version_id, race_score].
func (f Finisher) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{f.Hotkey, f.Version, f.Score})
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{
		calc.Func(ScoreRule, "{task, catalog, reward, voucher, output, title_vectors?, mode? compat|strict|names of fixes} -> {expect, success}: one episode's score record; without title_vectors a title constraint is an error", calcScore),
		calc.Func(CoefficientRule, "{q, rate} -> {coef, final}: reasoning quality's factor on a success rate", func(in coefficientIn) (coefficientOut, error) {
			return coefficientOut{Coefficient(in.Q), Final(in.Rate, in.Q)}, nil
		}),
		calc.Func(WeightsRule, "{finishers [[hotkey, agent_version_id, race_score]…], metagraph, t_top, t_burn} -> {weights}: by uid, before the clamp to 65535", func(in weightsIn) (weightsOut, error) {
			w, err := Weights(in.Finishers, in.Metagraph, in.Top, in.Burn)
			if w == nil {
				w = []int64{}
			}
			return weightsOut{w}, err
		}),
		calc.Func(ThresholdRule, "{score, set_at, now, law {initial, floor, half_life_s}} -> {bar}: score + floor + (initial - floor) * 2^(-max(0, now - set_at)/half_life_s)", func(in thresholdIn) (thresholdOut, error) {
			if err := in.Law.Check(); err != nil {
				return thresholdOut{}, err
			}
			bar := in.Law.Bar(in.Score, in.SetAt, in.Now)
			if math.IsInf(bar, 0) {
				return thresholdOut{}, errors.New("the bar is not finite")
			}
			return thresholdOut{bar}, nil
		}),
		calc.Func(PanelRuleName, "{reports [{validator, records {episode: {field: number}}}…], tolerance?, max_share?} -> {accepted, flagged, undecided, success_rate, standing}: validators compared on the same episodes", func(in panelIn) (*Panel, error) {
			return Agree(PanelRule{in.Tolerance, in.MaxShare}, in.Reports)
		}),
	}
}

func calcScore(in scoreIn) (scoreOut, error) {
	fix := Compat
	if in.Mode != "" {
		var ok bool
		if fix, ok = ParseFix(in.Mode); !ok {
			return scoreOut{}, fmt.Errorf("mode %.60q: want compat, strict, or fixes by name", in.Mode)
		}
	}
	cat := Products{}
	for i, p := range in.Catalog {
		if p == nil {
			return scoreOut{}, fmt.Errorf("catalog[%d] is null", i)
		}
		cat[p.ProductID] = p
	}
	cfg := Config{Fix: fix}
	if in.Titles != nil {
		cfg.Encoder = shop.Vectors{Model: "title_vectors", Table: in.Titles}
	}
	p := &shop.Problem{Category: in.Task, Reward: in.Reward, Voucher: in.Voucher}
	s, err := New(cfg).Score(context.Background(), p, cat, in.Output)
	if err != nil {
		return scoreOut{}, err
	}
	return scoreOut{s, s.Success(in.Task)}, nil
}
