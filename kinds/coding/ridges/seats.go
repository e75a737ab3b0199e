package ridges

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
)

// Names of rules that arenas may choose. The 1.5 % of version A is
// incentive.WinnerTakesAllRule.
const (
	// ImprovementRule is version C: who improves on the leader by 3 % of the score,
	// or by 6 % of the cost at no lower score, is approved; approved agents earn by
	// what their improvement was worth, half of it each two weeks.
	ImprovementRule = "ridges_improvement"
	// ThresholdRule is version A2: a bar above the leader that falls with time.
	ThresholdRule = "ridges_threshold"
	// ReceiverRule is version B: the best of all earns, for 12 hours after its approval.
	ReceiverRule = "ridges_receiver"
)

// dust is what ThresholdRule gives the leader before the present one.
const dust = 1.0 / 65535

// epoch is the unit of ThresholdRule's time.
const epoch = 30 * time.Minute

// Incentives are the rules by name.
func Incentives() map[string]incentive.Rule {
	return map[string]incentive.Rule{ImprovementRule: improvementRule(), ThresholdRule: thresholdRule(), ReceiverRule: receiverRule()}
}

func standing(e incentive.Entry) Standing {
	c := float64(e.Cost) / 1e6
	return Standing{Score: e.Score, Cost: &c, Created: e.At.UnixMicro()}
}

// leaderOf is the best of those approved, nil of none.
func leaderOf(list []incentive.Entry) *incentive.Entry {
	if len(list) == 0 {
		return nil
	}
	e := slices.MinFunc(list, func(a, b incentive.Entry) int { return standing(a).Before(standing(b)) })
	return &e
}

// improved is what an entry was worth against those approved before it.
func improved(before []incentive.Entry, e incentive.Entry) (i Improvement, multiplier float64, leader *incentive.Entry) {
	l := leaderOf(before)
	own := float64(e.Cost) / 1e6
	if l == nil {
		return Improve(e.Score, &own, nil, nil), 1, nil
	}
	cost := float64(l.Cost) / 1e6
	return Improve(e.Score, &own, &l.Score, &cost), TimeMultiplier(hours(l.At, e.At)), l
}

// byTime are entries, the oldest approval first.
func byTime(list []incentive.Entry) []incentive.Entry {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b incentive.Entry) int { return a.At.Compare(b.At) })
	return list
}

// rewards are what entries earn at a time, in their order.
func rewards(list []incentive.Entry, at time.Time) []float64 {
	old := byTime(list)
	by := map[string]float64{}
	for i, e := range old {
		x, m, _ := improved(old[:i], e)
		by[e.Submission] = Decayed(x.Units*m, hours(e.At, at))
	}
	out := make([]float64, len(list))
	for i, e := range list {
		out[i] = by[e.Submission]
	}
	return out
}

func improvementRule() incentive.Rule {
	return incentive.Rule{
		ManyPaid: true,
		CopyRate: &incentive.CopyRate{One: 0.45, Five: 0.80, Discordance: 0.3, Tasks: 50},
		Decide: func(c incentive.Challenge) incentive.Verdict {
			e := c.Challenger
			e.At = c.At
			i, m, leader := improved(byTime(c.Seats), e)
			v := incentive.Verdict{
				Rule: ImprovementRule, Takes: i.Qualified && e.Score > 0,
				Numbers: map[string]float64{"score": e.Score, "cost": float64(e.Cost) / 1e6, "units": i.Units, "time_multiplier": m, "reward": i.Units * m},
			}
			for name, d := range map[string]*float64{"performance_delta": i.Score, "cost_delta": i.Cost} {
				if d != nil {
					v.Numbers[name] = *d
				}
			}
			if leader != nil {
				bar := leader.Score * (1 + ScoreThreshold)
				v.Bar, v.Incumbent = &bar, leader.Submission
				v.Numbers["incumbent"], v.Numbers["incumbent_cost"] = leader.Score, float64(leader.Cost)/1e6
			}
			return v
		},
		Seats: func(_ map[string]float64, entered []incentive.Entry) []incentive.Entry {
			out := slices.Clone(entered)
			at := time.Time{}
			for _, e := range entered {
				if e.At.After(at) {
					at = e.At
				}
			}
			worth := map[string]float64{}
			for i, r := range rewards(entered, at) {
				worth[entered[i].Submission] = r
			}
			slices.SortStableFunc(out, func(a, b incentive.Entry) int {
				if x, y := worth[a.Submission], worth[b.Submission]; x != y {
					return map[bool]int{true: -1, false: 1}[x > y]
				}
				return a.At.Compare(b.At)
			})
			return out
		},
		Shares: func(_ map[string]float64, seats []incentive.Entry, at time.Time) []float64 {
			out := rewards(seats, at)
			sum := 0.0
			for _, r := range out {
				sum += r
			}
			for i := range out {
				if sum > 0 {
					out[i] /= sum
				}
			}
			return out
		},
		Sentence: func(d agon.Decision) string {
			n := d.Numbers
			if _, ok := n["incumbent"]; !ok {
				return ""
			}
			what := fmt.Sprintf("%s %% in score", incentive.Figure(100*n["performance_delta"]))
			if saved, ok := n["cost_delta"]; ok {
				what += fmt.Sprintf(" and %s %% in cost", incentive.Figure(100*saved))
			}
			if d.Outcome == agon.TookSeat {
				return "Approved: better than the leader by " + what + ", worth " + incentive.Figure(n["reward"]) + " units that halve in two weeks."
			}
			return "Kept out: better than the leader by " + what + "; needs 3 % in score, or 6 % in cost at no lower score."
		},
	}
}

func thresholdRule() incentive.Rule {
	return incentive.Rule{
		CopyRate: &incentive.CopyRate{One: 0.06, Five: 0.21, Discordance: 0.3, Tasks: 50},
		Decide: func(c incentive.Challenge) incentive.Verdict {
			var leader, before *float64
			x := 0.0
			if len(c.Seats) > 0 {
				leader = &c.Seats[0].Score
				x = hours(c.Seats[0].At, c.At) / epoch.Hours()
			}
			if len(c.Seats) > 1 {
				before = &c.Seats[1].Score
			}
			t := ThresholdOf(leader, before, 0)
			bar := t.At(x)
			v := incentive.Verdict{
				Rule: ThresholdRule, Bar: &bar, Takes: c.Challenger.Score > 0 && c.Challenger.Score >= bar,
				Numbers: map[string]float64{"score": c.Challenger.Score, "t0": t.Start, "k": t.K, "floor": t.Floor, "epochs": max(x, 0)},
			}
			if leader != nil {
				v.Numbers["incumbent"] = *leader
				if w := t.When(c.Challenger.Score); !math.IsInf(w, 0) && !v.Takes {
					v.Numbers["epochs_due"] = w // after which the bar will have fallen to it
				}
			}
			return v
		},
		Seats: func(_ map[string]float64, entered []incentive.Entry) []incentive.Entry {
			out := slices.Clone(entered[max(0, len(entered)-2):])
			slices.Reverse(out)
			return out
		},
		Shares: func(_ map[string]float64, seats []incentive.Entry, _ time.Time) []float64 {
			if len(seats) < 2 {
				return []float64{1}
			}
			return []float64{1 - dust, dust}
		},
		Sentence: func(d agon.Decision) string {
			n := d.Numbers
			if d.Outcome == agon.TookSeat || d.Bar == nil || !(d.Score > 0) {
				return ""
			}
			s := "Kept out: " + incentive.Figure(d.Score) + "; the bar stood at " + incentive.Figure(*d.Bar)
			if w, ok := n["epochs_due"]; ok {
				return s + fmt.Sprintf(" and falls to that %s epochs of 30 minutes after the leader's approval; send it again then.", incentive.Figure(w))
			}
			return s + "."
		},
	}
}

func receiverRule() incentive.Rule {
	return incentive.Rule{
		CopyRate: &incentive.CopyRate{One: 0.45, Five: 0.80, Discordance: 0.3, Tasks: 50},
		Decide: func(c incentive.Challenge) incentive.Verdict {
			e := c.Challenger
			e.At = c.At
			v := incentive.Verdict{Rule: ReceiverRule, Takes: e.Score > 0, Numbers: map[string]float64{"score": e.Score, "cost": float64(e.Cost) / 1e6}}
			if l := leaderOf(c.Seats); l != nil {
				v.Takes = v.Takes && standing(e).Before(standing(*l)) < 0
				v.Bar, v.Incumbent = &l.Score, l.Submission
				v.Numbers["incumbent"], v.Numbers["incumbent_cost"] = l.Score, float64(l.Cost)/1e6
			}
			return v
		},
		Shares: func(_ map[string]float64, seats []incentive.Entry, at time.Time) []float64 {
			if hours(seats[0].At, at) > windowHours {
				return []float64{0}
			}
			return []float64{1}
		},
		Unpaid: func(_ map[string]float64, _ []incentive.Entry) string {
			return "the leader earns for 12 hours after it took the seat"
		},
		Sentence: func(d agon.Decision) string {
			n := d.Numbers
			if _, ok := n["incumbent"]; !ok || !(d.Score > 0) {
				return ""
			}
			what := fmt.Sprintf("%s at $%s, the leader %s at $%s", incentive.Figure(d.Score), incentive.Figure(n["cost"]), incentive.Figure(n["incumbent"]), incentive.Figure(n["incumbent_cost"]))
			if d.Outcome == agon.TookSeat {
				return "Took the seat: " + what + "."
			}
			return "Kept out: " + what + "; a seat needs a higher score, or the same at a lower cost."
		},
	}
}
