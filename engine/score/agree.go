package score

import (
	"cmp"
	"slices"

	"github.com/agon-arena/agon/calc"
)

// AgreementRule is the name under which agon calc recomputes who agrees.
const AgreementRule = "score.agreement"

// Opinion is what one validator says of one item (a task of a submission).
type Opinion struct {
	Validator string  `json:"validator"`
	Item      string  `json:"item"`
	Value     float64 `json:"value"`
}

// Standing is how a validator's opinions stand among those of the others.
type Standing struct {
	Validator string `json:"validator"`
	// Items counts those of which at least two others are of one mind, Deviates
	// those of them on which this validator is of another.
	Items    int `json:"items"`
	Deviates int `json:"deviates"`
	// Rate is Deviates / Items. Others is how often the others are not of one
	// mind among themselves: the noise of honest validators.
	Rate   float64 `json:"rate"`
	Others float64 `json:"others"`
	// Flagged validators are excluded: their opinions count nothing.
	Flagged bool `json:"flagged"`
}

// Numbers of the rule.
const (
	// AgreeTolerance is how far two opinions may be apart and still be one.
	AgreeTolerance = 0.1
	// A validator is flagged by at least so many items and deviations …
	agreeItems, agreeDeviates = 4, 3
	// … if its rate is more than agreeFactor times that of the others, and agreeMargin.
	agreeFactor, agreeMargin = 2, 0.1
)

// Concord finds validators that disagree with the others. The worst one that the
// rule flags is set aside, and the rest is looked at again without it, so that
// one broken validator does not make the others look bad; with fewer than three
// nobody can be told from anybody. The result is sorted by name and does not
// depend on the order of opinions.
func Concord(list []Opinion) []Standing {
	by := map[string]map[string]float64{} // by validator, then item; the last word counts
	for _, o := range list {
		if by[o.Validator] == nil {
			by[o.Validator] = map[string]float64{}
		}
		by[o.Validator][o.Item] = o.Value
	}
	var active []string
	for v := range by {
		active = append(active, v)
	}
	slices.Sort(active)
	out := map[string]Standing{}
	for {
		worst := -1
		for i, v := range active {
			s := standing(by, active, v)
			out[v] = s
			if s.Items < agreeItems || s.Deviates < agreeDeviates || s.Rate <= agreeFactor*s.Others+agreeMargin {
				continue
			}
			if worst < 0 || s.Rate > out[active[worst]].Rate {
				worst = i
			}
		}
		if worst < 0 || len(active) < 3 {
			break
		}
		s := out[active[worst]]
		s.Flagged = true
		out[active[worst]] = s
		active = slices.Delete(slices.Clone(active), worst, worst+1)
	}
	all := make([]Standing, 0, len(out))
	for _, s := range out {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Standing) int { return cmp.Compare(a.Validator, b.Validator) })
	return all
}

// standing compares v with the other active validators.
func standing(by map[string]map[string]float64, active []string, v string) Standing {
	s := Standing{Validator: v}
	split, both := 0, 0
	items := map[string]bool{}
	for _, w := range active {
		for item := range by[w] {
			items[item] = true
		}
	}
	for item := range items {
		var others []float64
		for _, w := range active {
			if x, ok := by[w][item]; ok && w != v {
				others = append(others, x)
			}
		}
		if len(others) < 2 {
			continue
		}
		both++
		lo, hi := slices.Min(others), slices.Max(others)
		if hi-lo > AgreeTolerance {
			split++
			continue
		}
		if x, ok := by[v][item]; ok {
			s.Items++
			if x < hi-AgreeTolerance || x > lo+AgreeTolerance {
				s.Deviates++
			}
		}
	}
	if s.Items > 0 {
		s.Rate = float64(s.Deviates) / float64(s.Items)
	}
	if both > 0 {
		s.Others = float64(split) / float64(both)
	}
	return s
}

// AgreementRules are this file's rules for agon calc.
func AgreementRules() []calc.Rule {
	type in struct {
		Opinions []Opinion `json:"opinions"`
	}
	type out struct {
		Validators []Standing `json:"validators"`
	}
	return []calc.Rule{calc.Func(AgreementRule, "{opinions [{validator, item, value}]} -> {validators [{validator, items, deviates, rate, others, flagged}]}: whose results are excluded", func(x in) (out, error) {
		return out{Concord(x.Opinions)}, nil
	})}
}
