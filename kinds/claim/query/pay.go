package query

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Weights are shares by uid; "0" is the owner's, whose share is burned.
type Weights map[string]float64

func share(name string, v float64) error {
	if !(v >= 0 && v <= 1) { // NaN fails both
		return fmt.Errorf("%s: want a number from 0 to 1", name)
	}
	return nil
}

func uids(w Weights) error {
	for k, v := range w {
		if n, err := strconv.Atoi(k); err != nil || n < 0 || n > math.MaxUint16 {
			return fmt.Errorf("uid %.20q: want a number from 0 to 65535", k)
		}
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("weight of uid %s: want a number of at least 0", k)
		}
	}
	return nil
}

// Cap gives the miners score*limit, split by their weights; the owner the rest.
func Cap(w Weights, score, limit float64) (Weights, error) {
	if err := cmp.Or(share("score", score), share("max_fraction", limit), uids(w)); err != nil {
		return nil, err
	}
	total := 0.0
	for _, k := range slices.Sorted(maps.Keys(w)) {
		if k != "0" {
			total += w[k]
		}
	}
	if total <= 0 {
		return nil, errors.New("weights: no miner has any")
	}
	paid := score * limit
	out := Weights{"0": 1 - paid}
	for k, v := range w {
		if k != "0" {
			out[k] = paid * v / total
		}
	}
	return out, nil
}

// MaxFraction is what a champion may be paid at the most at its count-th
// successive decision (from 1).
func MaxFraction(count int, ceiling float64, version int) (float64, error) {
	if count < 1 {
		return 0, errors.New("count: want at least 1")
	}
	if err := share("ceiling", ceiling); err != nil {
		return 0, err
	}
	if version > 0 && version < 9 {
		return ceiling, nil
	}
	return min(ceiling, []float64{0.5, 0.25, 0.125}[min(count, 3)-1]), nil
}

// Flat pays the same share to each uid, in order, while a whole one is left.
func Flat(list []string, unit float64) (Weights, error) {
	if !(unit > 0 && unit <= 1) {
		return nil, errors.New("unit: want more than 0 and at most 1")
	}
	out := Weights{}
	n := int(math.Floor(1/unit + 1e-9))
	for _, k := range list {
		if _, paid := out[k]; !paid && len(out) < n {
			out[k] = unit
		}
	}
	return out, nil
}

// Classes of likeness to an earlier script.
const (
	Duplicate     = "duplicate"
	NearDuplicate = "near_duplicate"
	NotableChange = "notable_change"
	Novel         = "novel"
	legacyClass   = "not_duplicate"
)

var classRank = map[string]int{Duplicate: 0, NearDuplicate: 1, NotableChange: 2, Novel: 3}

// Scored is an artifact of a batch, for pay.
type Scored struct {
	ID     string  `json:"id,omitempty"`
	Hotkey string  `json:"hotkey,omitempty"`
	Score  float64 `json:"score"`
	Class  string  `json:"class,omitempty"` // "": not classified
	Main   bool    `json:"main,omitempty"`
	// Incumbent is who entered the batch as champion, unchanged.
	Incumbent bool `json:"incumbent,omitempty"`
}

// cuts are the scores of the ranks that end the best tenth and the better half.
func cuts(list []Scored) (tenth, half float64) {
	scores := make([]float64, 0, len(list))
	for _, s := range list {
		scores = append(scores, s.Score)
	}
	slices.SortFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) })
	rank := func(share float64) float64 {
		return scores[min(len(scores), max(1, int(math.Ceil(share*float64(len(scores))-1e-9))))-1]
	}
	return rank(0.1), rank(0.5)
}

func tier(s Scored, tenth, half, top, rest float64) float64 {
	switch {
	case s.Score <= 0:
		return 0
	case s.Score >= tenth:
		return top
	case s.Score >= half:
		return rest
	}
	return 0
}

// Share is what one is paid.
type Share struct {
	ID     string  `json:"id,omitempty"`
	Hotkey string  `json:"hotkey,omitempty"`
	Weight float64 `json:"weight"`
}

// Tiered pays two units to the best tenth and one to the rest of the better
// half, a quarter of it to classified scripts; whole shares while they last.
func Tiered(list []Scored, unit float64) ([]Share, error) {
	if !(unit > 0 && unit <= 1) {
		return nil, errors.New("unit: want more than 0 and at most 1")
	}
	best := map[string]Scored{}
	for _, s := range list {
		if s.Class == NotableChange {
			return nil, errors.New("class: notable_change has no share in this version")
		}
		old, ok := best[s.Hotkey]
		if !ok || cmp.Or(cmp.Compare(s.Score, old.Score), cmp.Compare(classRank[s.Class], classRank[old.Class]), cmp.Compare(old.ID, s.ID)) > 0 {
			best[s.Hotkey] = s
		}
	}
	one := slices.Collect(maps.Values(best))
	out := []Share{}
	if len(one) == 0 {
		return out, nil
	}
	slices.SortFunc(one, func(a, b Scored) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Hotkey, b.Hotkey)) })
	tenth, half := cuts(one)
	sum := 0.0
	for _, s := range one {
		w := unit * tier(s, tenth, half, 2, 1)
		if s.Class != "" {
			w /= 4
		}
		if w == 0 {
			continue
		}
		if sum+w > 1+1e-9 {
			break
		}
		sum += w
		out = append(out, Share{ID: s.ID, Hotkey: s.Hotkey, Weight: w})
	}
	return out, nil
}

// StageWeights weigh artifacts by stage and novelty: main 5, the best tenth 2,
// the rest of the better half 1; near 1, notable 3, novel 5, from version 9 on 10.
func StageWeights(list []Scored, version int) []Share {
	out := []Share{}
	if len(list) == 0 {
		return out
	}
	novelty := map[string]float64{NearDuplicate: 1, NotableChange: 3, Novel: 5}
	if version == 0 || version >= 9 {
		novelty[Novel] = 10
	}
	tenth, half := cuts(list)
	for _, s := range list {
		stage := tier(s, tenth, half, 2, 1)
		if s.Main {
			stage = 5
		}
		if w := stage * novelty[s.Class]; w > 0 && !s.Incumbent { // a duplicate, or one that nobody classified, has none
			out = append(out, Share{ID: s.ID, Hotkey: s.Hotkey, Weight: w})
		}
	}
	return out
}

// Split divides an amount by weights; the last takes what rounding leaves.
func Split(amount float64, weights []float64) ([]float64, error) {
	if err := share("amount", amount); err != nil {
		return nil, err
	}
	total := 0.0
	for _, w := range weights {
		if !(w >= 0) || math.IsInf(w, 0) {
			return nil, errors.New("weights: want numbers of at least 0")
		}
		total += w
	}
	if total <= 0 {
		return nil, errors.New("weights: their sum is 0")
	}
	out := make([]float64, len(weights))
	left := amount
	for i, w := range weights {
		out[i] = amount * w / total
		if i == len(weights)-1 {
			out[i] = left
		}
		left -= out[i]
	}
	return out, nil
}

// EqualSplit divides an amount over distinct names, in the order in which they come first.
func EqualSplit(amount float64, names []string) ([]Share, error) {
	var once []string
	for _, n := range names {
		if !slices.Contains(once, n) {
			once = append(once, n)
		}
	}
	ones := make([]float64, len(once))
	for i := range ones {
		ones[i] = 1
	}
	parts, err := Split(amount, ones)
	if err != nil {
		return nil, err
	}
	out := []Share{}
	for i, n := range once {
		out = append(out, Share{Hotkey: n, Weight: parts[i]})
	}
	return out, nil
}

// Compose adds shares by uid; the owner gets what is left.
func Compose(parts ...Weights) (Weights, error) {
	out := Weights{}
	sum := 0.0
	for _, p := range parts {
		if err := uids(p); err != nil {
			return nil, err
		}
		for _, k := range slices.Sorted(maps.Keys(p)) {
			out[k] += p[k]
			sum += p[k]
		}
	}
	if sum > 1+1e-9 {
		return nil, fmt.Errorf("the shares sum to %v, more than 1", sum)
	}
	out["0"] += max(0, 1-sum)
	return out, nil
}

// Fill accepts whole allocations in order of priority while the sum stays within 1.
func Fill(list []Share) (accepted, dropped []Share) {
	accepted, dropped = []Share{}, []Share{}
	sum := 0.0
	for _, s := range list {
		if s.Weight >= 0 && sum+s.Weight <= 1+1e-9 {
			sum += s.Weight
			accepted = append(accepted, s)
			continue
		}
		dropped = append(dropped, s)
	}
	return accepted, dropped
}

// Tally is what validators' votes on likeness say together.
type Tally struct {
	Outcome string  `json:"outcome"` // pass, fail or undecided
	Class   *string `json:"class"`   // of a pass
}

// Vote counts votes: a pass needs half of them to be no duplicate; the class is
// the lower median, a duplicate counted as near.
func Vote(votes []string) (Tally, error) {
	if len(votes) == 0 {
		return Tally{Outcome: "undecided"}, nil
	}
	eligible, legacy := 0, false
	ranks := make([]int, 0, len(votes))
	for _, v := range votes {
		r, ok := classRank[v]
		switch {
		case v == legacyClass:
			legacy = true
		case !ok:
			return Tally{}, fmt.Errorf("vote %.40q: want duplicate, near_duplicate, notable_change or novel", v)
		}
		if v != Duplicate {
			eligible++
		}
		ranks = append(ranks, max(r, classRank[NearDuplicate]))
	}
	if 2*eligible < len(votes) {
		return Tally{Outcome: "fail"}, nil
	}
	t := Tally{Outcome: "pass"}
	if !legacy {
		slices.Sort(ranks)
		for name, r := range classRank {
			if r == ranks[(len(ranks)-1)/2] {
				t.Class = &name
			}
		}
	}
	return t, nil
}

// States of the parts of a script in a judgement of likeness.
const (
	preserved = "preserved"
	localized = "localized_change"
	sameRoot  = "substantial_same_root_change"
	replaced  = "replaced"
)

// ClassOf derives the class from what a judge says of the three parts.
func ClassOf(controller, evidence, answer string) (string, error) {
	n := map[string]int{}
	for _, s := range []string{controller, evidence, answer} {
		if s != preserved && s != localized && s != sameRoot && s != replaced {
			return "", fmt.Errorf("status %.40q: want preserved, localized_change, substantial_same_root_change or replaced", s)
		}
		n[s]++
	}
	switch {
	case n[preserved] == 3:
		return Duplicate, nil
	case n[preserved]+n[localized] == 3:
		return NearDuplicate, nil
	case n[replaced] == 3:
		return Novel, nil
	}
	return NotableChange, nil
}
