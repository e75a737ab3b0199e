package roster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agon-arena/agon/calc"
)

type rosterIn struct {
	Roster     []any              `json:"roster"`
	Challenger any                `json:"challenger"`
	Score      float64            `json:"score"`
	Scores     map[string]float64 `json:"scores"`
	Margin     float64            `json:"margin,omitempty"`
}

type rosterOut struct {
	Roster  []any  `json:"roster"`
	Outcome string `json:"outcome"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{stepRule(), mediansRule()}
}

func stepRule() calc.Rule {
	return calc.Func(StepRule, "{roster [3 ids or null], challenger, score, scores {id: score}, margin? 0} -> {roster, outcome entered|unchanged}: sticky top three", calcRoster)
}

// idName is the text of an id: a string, or a uid as a number.
func idName(v any) (string, error) {
	switch x := v.(type) {
	case string:
		if x != "" {
			return x, nil
		}
	case json.Number:
		return x.String(), nil
	}
	return "", errors.New("want a text or a number")
}

func calcRoster(in rosterIn) (rosterOut, error) {
	if len(in.Roster) != Places {
		return rosterOut{}, fmt.Errorf("roster has %d places, want %d (null is an empty one)", len(in.Roster), Places)
	}
	challenger, err := idName(in.Challenger)
	if err != nil {
		return rosterOut{}, fmt.Errorf("challenger: %w", err)
	}
	if in.Margin < 0 {
		return rosterOut{}, errors.New("margin is negative")
	}
	var places []any
	var names []string
	for i, v := range in.Roster {
		if v == nil {
			continue
		}
		name, err := idName(v)
		if err != nil {
			return rosterOut{}, fmt.Errorf("roster[%d]: %w", i, err)
		}
		if slices.Contains(names, name) {
			return rosterOut{}, fmt.Errorf("roster[%d]: %s holds two places", i, name)
		}
		places, names = append(places, v), append(names, name)
	}
	var first *float64
	if in.Roster[0] != nil {
		s, ok := in.Scores[names[0]]
		if !ok {
			return rosterOut{}, fmt.Errorf("scores has no score of %s, the first place", names[0])
		}
		first = &s
	}
	if _, enters := Enters(in.Score, first, in.Margin); !enters {
		return rosterOut{in.Roster, Unchanged}, nil
	}
	out := shift(places, in.Challenger, func(a, _ any) bool {
		name, _ := idName(a)
		return name == challenger
	})
	for len(out) < Places {
		out = append(out, nil)
	}
	return rosterOut{out, Entered}, nil
}
