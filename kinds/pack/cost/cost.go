// Package cost decides who sits in an arena of policy packs and what that
// earns: the cheapest pack that solves its tasks, or the best score. It is pure.
package cost

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/engine/incentive"
)

// Rules of policy-pack arenas.
const (
	// ArenaRule is an arena's rule: the cheapest qualified pack, its cost
	// frozen when it took the seat; a challenger must be cheaper by a tenth.
	ArenaRule = "cost_takeover"
	// ScoreArenaRule is an arena's rule: the best score, by an additive margin.
	ScoreArenaRule = "score_takeover"
	// TakeoverRule and ScoreRule are the names under which agon calc recomputes them.
	TakeoverRule = "trajectoryrl.winner_protection_v42"
	ScoreRule    = "trajectoryrl.select_winner_score_delta005"
)

// Numbers of these rules.
const (
	Factor        = 0.90 // a challenger's cost must be below the incumbent's, times this
	ScoreDelta    = 0.05
	ScoreEpsilon  = 0.02
	BootstrapSize = 10 // below so many active miners three are paid
	// InactiveBlocks is after how many blocks without a new commitment a miner
	// counts as inactive, where an arena says so.
	InactiveBlocks = 14_400
)

// BootstrapShares are what the first three earn in a small arena.
var BootstrapShares = [3]float64{0.7, 0.2, 0.1}

// Takes decides whether a qualified pack of this cost takes the seat. bar
// is nil on an empty seat. Costs that are not numbers, or not above 0, take
// nothing: a cost that nobody measured is not a win.
func Takes(cost float64, incumbent *float64) (bar *float64, takes bool) {
	ok := cost > 0 && !math.IsInf(cost, 0)
	if incumbent == nil {
		return nil, ok
	}
	b := *incumbent * Factor
	return &b, ok && cost < b
}

// ScoreTakes is the additive rule: strictly more than the incumbent and the
// margin, as binary fractions add up. bar is nil on an empty seat.
func ScoreTakes(score float64, incumbent *float64) (bar *float64, takes bool) {
	if incumbent == nil {
		return nil, score > 0
	}
	b := *incumbent + ScoreDelta
	return &b, score > *incumbent+ScoreEpsilon && score > b
}

// Contender is one miner of a window.
type Contender struct {
	Key       string
	Cost      float64
	Qualified bool
	Block     uint64 // of its commitment; breaks ties, lower first
}

// Holder is who held the seat, at the cost that stands frozen.
type Holder struct {
	Key  string
	Cost float64
}

// Protect chooses the winner of a window. nil, with holder unchanged, means
// that nobody is qualified.
func Protect(list []Contender, holder *Holder) (winner *Contender, frozen float64) {
	if holder != nil {
		frozen = holder.Cost
	}
	var best, seated *Contender
	for i := range list {
		c := &list[i]
		if !c.Qualified || !(c.Cost > 0) || math.IsInf(c.Cost, 0) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(c.Cost, best.Cost), cmp.Compare(c.Block, best.Block), cmp.Compare(c.Key, best.Key)) < 0 {
			best = c
		}
		if holder != nil && c.Key == holder.Key {
			seated = c
		}
	}
	switch {
	case best == nil:
		return nil, frozen
	case seated == nil:
		return best, best.Cost
	}
	if _, takes := Takes(best.Cost, &holder.Cost); takes {
		return best, best.Cost
	}
	return seated, frozen
}

// split pays the first three of a ranking by the bootstrap shares, renormalised.
func split(ranking []string) map[string]float64 {
	out := map[string]float64{}
	n := min(len(ranking), len(BootstrapShares))
	sum := 0.0
	for _, s := range BootstrapShares[:n] {
		sum += s
	}
	for i, k := range ranking[:n] {
		out[k] = BootstrapShares[i] / sum
	}
	return out
}

// PayByCost shares out a window by cost. In an arena of fewer than
// BootstrapSize active miners the three cheapest are paid, else the champion,
// who without a name is the earliest.
func PayByCost(list []Contender, champion string, active int) map[string]float64 {
	var in []Contender
	for _, c := range list {
		if c.Qualified {
			in = append(in, c)
		}
	}
	if len(in) == 0 {
		return nil
	}
	slices.SortStableFunc(in, func(a, b Contender) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.Block, b.Block), cmp.Compare(a.Key, b.Key))
	})
	if active < BootstrapSize {
		keys := make([]string, len(in))
		for i, c := range in {
			keys[i] = c.Key
		}
		return split(keys)
	}
	at := slices.IndexFunc(in, func(c Contender) bool { return c.Key == champion })
	if at < 0 {
		at = 0
		for i, c := range in {
			if c.Block < in[at].Block {
				at = i
			}
		}
	}
	if in[0].Cost < in[at].Cost*Factor {
		at = 0
	}
	return map[string]float64{in[at].Key: 1}
}

// PayByScore shares out a window by score, with the additive margin.
func PayByScore(scores map[string]float64, champion string, active int) map[string]float64 {
	keys := make([]string, 0, len(scores))
	for k := range scores {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	if len(keys) == 0 {
		return nil
	}
	if active < BootstrapSize {
		return split(keys)
	}
	winner := keys[0]
	if s, ok := scores[champion]; ok {
		if _, takes := ScoreTakes(scores[winner], &s); !takes {
			winner = champion
		}
	}
	return map[string]float64{winner: 1}
}

// Winsorised is the mean after the lowest and the highest of at least four
// became their neighbours; plain is without.
func Winsorised(scores []float64) (plain, winsorised float64) {
	if len(scores) == 0 {
		return 0, 0
	}
	mean := func(list []float64) float64 {
		sum := 0.0
		for _, s := range list {
			sum += s
		}
		return sum / float64(len(list))
	}
	s := slices.Sorted(slices.Values(scores))
	plain = mean(scores)
	if n := len(s); n >= 4 {
		s[0], s[n-1] = s[1], s[n-2]
	}
	return plain, mean(s)
}

// DecayingBar is what a challenger must pass where margins shrink as the
// incumbent nears the most that can be had.
func DecayingBar(winner, most float64) (delta, bar float64) {
	s := 1.0
	if most > 0 {
		s = winner / most
	}
	switch {
	case s <= 0.7:
		delta = 0.03
	case s < 1:
		delta = 0.03 * (1 - s) / 0.30
	}
	return delta, winner * (1 + delta)
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	type protectIn struct {
		Costs     map[string]float64 `json:"costs"`
		Qualified map[string]bool    `json:"qualified"`
		State     *holderIn          `json:"state"`
	}
	type protectOut struct {
		Winner *string  `json:"winner"`
		Cost   *float64 `json:"new_winner_cost"`
	}
	type costIn struct {
		Costs     map[string]float64 `json:"costs"`
		Qualified map[string]bool    `json:"qualified"`
		Blocks    map[string]uint64  `json:"blocks"`
		Champion  *string            `json:"champion"`
		Active    int                `json:"active"`
	}
	type scoreIn struct {
		Scores   map[string]float64 `json:"scores"`
		Champion *string            `json:"champion"`
		Active   int                `json:"active"`
	}
	type weightsOut struct {
		Weights map[string]float64 `json:"weights"`
	}
	// A UID n has the hotkey hn; every UID that was given gets its weight.
	uids := func(all map[string]float64, pay map[string]float64) weightsOut {
		out := weightsOut{map[string]float64{}}
		for uid := range all {
			out.Weights[uid] = pay["h"+uid]
		}
		return out
	}
	name := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	return []calc.Rule{
		calc.Func(TakeoverRule, "{costs, qualified, state: null or [winner, winner_cost]} -> {winner or null, new_winner_cost}: the frozen cost and the tenth", func(in protectIn) (protectOut, error) {
			var list []Contender
			for k, c := range in.Costs {
				list = append(list, Contender{Key: k, Cost: c, Qualified: in.Qualified[k]})
			}
			var h *Holder
			if in.State != nil {
				h = &Holder{in.State.Key, in.State.Cost}
			}
			w, frozen := Protect(list, h)
			out := protectOut{}
			if w != nil {
				out.Winner = &w.Key
			}
			if w != nil || h != nil {
				out.Cost = &frozen
			}
			return out, nil
		}),
		calc.Func("trajectoryrl.select_winner_by_cost", "{costs, qualified, blocks, champion, active} -> {weights}", func(in costIn) (weightsOut, error) {
			var list []Contender
			for uid, c := range in.Costs {
				b, ok := in.Blocks["h"+uid]
				if !ok {
					b = math.MaxUint64
				}
				list = append(list, Contender{Key: "h" + uid, Cost: c, Qualified: in.Qualified[uid], Block: b})
			}
			return uids(in.Costs, PayByCost(list, name(in.Champion), in.Active)), nil
		}),
		calc.Func(ScoreRule, "{scores, champion, active} -> {weights}: the additive margin", func(in scoreIn) (weightsOut, error) {
			scores := map[string]float64{}
			for uid, s := range in.Scores {
				scores["h"+uid] = s
			}
			return uids(in.Scores, PayByScore(scores, name(in.Champion), in.Active)), nil
		}),
		calc.Func("trajectoryrl.aggregate_v6", "{stake_score: [[stake, score]…]} -> {plain, winsorized}", func(in struct {
			Rows [][2]float64 `json:"stake_score"`
		},
		) (out struct {
			Plain      float64 `json:"plain"`
			Winsorised float64 `json:"winsorized"`
		}, err error,
		) {
			var scores []float64
			for _, r := range in.Rows {
				if r[0] > 0 { // stake lets a row in; it has no weight
					scores = append(scores, r[1])
				}
			}
			out.Plain, out.Winsorised = Winsorised(scores)
			return out, nil
		}),
		calc.Func("trajectoryrl.takeover_bar_v61", "{winner, max} -> {delta, bar}", func(in struct {
			Winner float64 `json:"winner"`
			Max    float64 `json:"max"`
		},
		) (out struct {
			Delta float64 `json:"delta"`
			Bar   float64 `json:"bar"`
		}, err error,
		) {
			out.Delta, out.Bar = DecayingBar(in.Winner, in.Max)
			return out, nil
		}),
	}
}

// holderIn is [winner, winner_cost].
type holderIn struct{ Holder }

// UnmarshalJSON implements json.Unmarshaler.
func (h *holderIn) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 {
		return errors.New("state: want [winner, winner_cost]")
	}
	return errors.Join(json.Unmarshal(pair[0], &h.Key), json.Unmarshal(pair[1], &h.Cost))
}

// costOf is what a pack's plays cost together, per episode, in dollars; whether
// it qualified, by all of at least tasks of them; and whether every one has a
// cost that was measured. The judge's calls are not in it.
func costOf(e incentive.Entry, tasks int) (dollars float64, qualified, measured bool) {
	if len(e.Plays) == 0 {
		return 0, false, false
	}
	qualified, measured = e.Total > 0 && e.Solved == e.Total && len(e.Plays) >= tasks, true
	for _, p := range e.Plays {
		micros := p.Metrics[Metric]
		measured = measured && micros > 0
		qualified = qualified && p.Solved
		dollars += micros / 1e6
	}
	return dollars / float64(len(e.Plays)), qualified, measured
}

// Metric is the metric of a score that holds what its episode cost the
// agent, in micro-dollars.
const Metric = "cost_micros"

// Takeover is the rule of the cheapest qualified pack. Its cost is frozen
// when it takes the seat: the mean over its episodes. Numbers: factor, below
// which part of that a challenger must cost; share, what the seat earns of the
// reward (the rest is burned).
func Takeover() incentive.Rule {
	return incentive.Rule{
		// What an episode costs varies by 15 % in this number.
		CopyRate: &incentive.CopyRate{One: 0.09, Five: 0.30, Noise: 0.15, Tasks: 7},
		Numbers:  map[string]float64{"factor": Factor, "share": 1},
		Reasons:  []string{TakeoverRule},
		Sentence: sentence,
		Check: func(n map[string]float64) error {
			switch {
			case !(n["factor"] > 0 && n["factor"] <= 1):
				return fmt.Errorf("factor: %v is not from above 0 to 1", n["factor"])
			case !(n["share"] > 0 && n["share"] <= 1):
				return fmt.Errorf("share: %v is not from above 0 to 1", n["share"])
			}
			return nil
		},
		Plays: true,
		Decide: func(c incentive.Challenge) incentive.Verdict {
			cost, qualified, measured := costOf(c.Challenger, len(c.Arena.Tasks))
			v := incentive.Verdict{Rule: TakeoverRule, Numbers: map[string]float64{"cost": cost, "qualified": 0, "factor": c.Numbers["factor"]}}
			if qualified {
				v.Numbers["qualified"] = 1
			}
			v.Takes = qualified && measured
			if len(c.Seats) > 0 {
				held, _, _ := costOf(c.Seats[0], 0)
				bar := held * c.Numbers["factor"]
				v.Bar, v.Takes = &bar, v.Takes && cost < bar
				v.Numbers["incumbent_cost"], v.Numbers["bar"] = held, bar
			}
			return v
		},
		Shares: firstShare,
	}
}

// ScoreTakeover is the additive rule over scores. Numbers: delta, how much more
// a challenger must have; variance, how much of the variance between its
// scenarios is taken off; share, what the seat earns.
func ScoreTakeover() incentive.Rule {
	return incentive.Rule{
		CopyRate: &incentive.CopyRate{One: 0.26, Five: 0.58, Discordance: 0.3, Tasks: 50},
		Numbers:  map[string]float64{"delta": ScoreDelta, "variance": 0, "share": 1},
		Check: func(n map[string]float64) error {
			for _, name := range []string{"delta", "variance"} {
				if !(n[name] >= 0 && n[name] < 1) {
					return fmt.Errorf("%s: %v is not from 0 to less than 1", name, n[name])
				}
			}
			if !(n["share"] > 0 && n["share"] <= 1) {
				return fmt.Errorf("share: %v is not from above 0 to 1", n["share"])
			}
			return nil
		},
		Plays: true,
		Decide: func(c incentive.Challenge) incentive.Verdict {
			score := meanLess(c.Challenger, c.Numbers["variance"])
			v := incentive.Verdict{Rule: ScoreRule, Takes: score > 0, Numbers: map[string]float64{"score": score, "delta": c.Numbers["delta"]}}
			if len(c.Seats) > 0 {
				held := meanLess(c.Seats[0], c.Numbers["variance"])
				bar := held + c.Numbers["delta"]
				v.Bar, v.Takes = &bar, score > bar && score > held+min(ScoreEpsilon, c.Numbers["delta"])
				v.Numbers["incumbent"], v.Numbers["bar"] = held, bar
			}
			return v
		},
		Shares: firstShare,
	}
}

func firstShare(n map[string]float64, seats []incentive.Entry, _ time.Time) []float64 {
	if len(seats) == 0 {
		return nil
	}
	return []float64{n["share"]}
}

// meanLess is the weighted mean of an entry's scores, less a part of their variance.
func meanLess(e incentive.Entry, part float64) float64 {
	var sum, weight float64
	for _, p := range e.Plays {
		w := weightOf(p)
		sum, weight = sum+w*p.Value, weight+w
	}
	if weight == 0 {
		return 0
	}
	mean, variance := sum/weight, 0.0
	for _, p := range e.Plays {
		variance += weightOf(p) * (p.Value - mean) * (p.Value - mean) / weight
	}
	return min(1, max(0, mean-part*variance))
}

func weightOf(p incentive.Play) float64 {
	if w, ok := p.Metrics["weight"]; ok && w > 0 {
		return w
	}
	return 1
}

// sentence says a decision: the cheaper of two qualified packs sits.
func sentence(d agon.Decision) string {
	usd := func(v float64) string { return fmt.Sprintf("$%.6f", v) }
	cost, held := d.Numbers["cost"], d.Numbers["incumbent_cost"]
	switch {
	case d.Numbers["qualified"] == 0:
		return "Kept out: not every scenario was passed, so its cost does not count."
	case d.Outcome == agon.TookSeat && d.Bar == nil:
		return "Took the seat: every scenario passed at " + usd(cost) + " an episode; nobody sat there."
	case d.Outcome == agon.TookSeat:
		return "Took the seat: " + usd(cost) + " an episode against the champion's " + usd(held) + "."
	case d.Bar == nil:
		return ""
	}
	return "Kept out: " + usd(cost) + " an episode; needs less than " + usd(*d.Bar) + " (champion " + usd(held) + ")."
}
