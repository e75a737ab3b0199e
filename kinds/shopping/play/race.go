package play

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/kinds/shopping/race"
	"github.com/agon-arena/agon/kinds/shopping/score"
)

// RaceRule is the name of the arena's rule.
const RaceRule = "race"

// Numbers of the rule that the race's clock reads.
const (
	RaceHours    = "race_hours"
	RaceProblems = "race_problems"
)

// Why a decision of a race went as it did, besides score.ThresholdRule.
const (
	ruleNotQualified = "race.qualify"
	ruleEliminated   = "race.bound"
	ruleRacing       = "race.open" // only told by agon try, which has no hidden problems
	ruleZero         = "zero_score"
)

// raceDefaults are the numbers of a race. Money is in shares of the reward,
// the rest in shares of problems solved.
func raceDefaults() map[string]float64 {
	return map[string]float64{
		"qualify":     0.25, // score on the public suite that admits to the race
		"initial":     0.10, // margin over a new leader
		"floor":       0.02, // margin that is left in the end; the measured noise, if that is more
		"half_life_s": 86_400,
		"t_top":       0.25, // of the reward to the leader
		"t_burn":      0.75,
		RaceHours:     0,  // how long a race on problems of a bank is open; 0: no clock, the arena's hidden sets race
		RaceProblems:  12, // problems of such a race
	}
}

// numbers of one race.
type numbers struct {
	Qualify   float64
	Law       score.Law
	Top, Burn float64
	Hours     float64
	Problems  float64
}

func numbersOf(n map[string]float64) numbers {
	return numbers{
		Qualify: n["qualify"], Law: score.Law{Initial: n["initial"], Floor: n["floor"], HalfLifeS: n["half_life_s"]}, Top: n["t_top"], Burn: n["t_burn"],
		Hours: n[RaceHours], Problems: n[RaceProblems],
	}
}

func (n numbers) check() error {
	if !(n.Qualify >= 0 && n.Qualify <= 1) {
		return fmt.Errorf("qualify: %v is not from 0 to 1", n.Qualify)
	}
	if err := n.Law.Check(); err != nil {
		return err
	}
	if !(n.Hours == 0 || n.Hours >= 1.0/60 && n.Hours <= 24*366) {
		return fmt.Errorf("%s: %v is neither 0 nor from a minute to a year", RaceHours, n.Hours)
	}
	if !(n.Problems >= 1 && n.Problems <= 1000 && n.Problems == math.Trunc(n.Problems)) {
		return fmt.Errorf("%s: %v is not a whole number from 1 to 1000", RaceProblems, n.Problems)
	}
	_, err := score.Weights(nil, nil, n.Top, n.Burn)
	return err
}

// raceOf reads an arena's numbers.
func raceOf(a agon.Arena) (numbers, error) {
	n := numbersOf(Race().Of(a.IncentiveNumbers))
	return n, n.check()
}

// least is the lowest score that could ever take the lead from leader, however
// long it sits: the law's floor above it, and never more than full marks.
func (n numbers) least(leader float64) float64 { return math.Min(1, leader+n.Law.Floor) }

// Race is the rule of the arena. Who finishes the race with more than nothing
// holds a place. The first place goes to who reaches the leader's bar, which
// falls while the leader sits; the others stand by score, then by id. Weights
// are those of the original for the same order.
func Race() incentive.Rule {
	return incentive.Rule{
		CopyRate: &incentive.CopyRate{One: 0.12, Five: 0.33, Discordance: 0.3, Tasks: 50},
		Numbers:  raceDefaults(),
		Check:    func(n map[string]float64) error { return numbersOf(n).check() },
		Plays:    true,
		Decide:   decide,
		Seats: func(n map[string]float64, entered []incentive.Entry) []incentive.Entry {
			return standings(numbersOf(n), entered)
		},
		Shares:  shares,
		Weights: weights,
		Unpaid: func(n map[string]float64, placed []incentive.Entry) string {
			always := "the race always burns " + incentive.Percent(numbersOf(n).Burn)
			if len(placed) == 1 {
				return "only the upper half of the places is paid, so one entry alone earns nothing until a second is placed; " + always
			}
			return "only the upper half of the places is paid, and " + always
		},
		Reasons:  []string{score.ThresholdRule, ruleNotQualified, ruleEliminated, ruleRacing},
		Sentence: sentence,
		Remark:   byHeart,
	}
}

// byHeart says that an entry does far better on the public problems than on the hidden ones.
func byHeart(d agon.Decision) string {
	if d.Numbers["gap_alarm"] != 1 {
		return ""
	}
	return fmt.Sprintf("It scores %s on the public problems and %s on the hidden ones, as an agent does that knows the public answers by heart.", incentive.Figure(d.Numbers["public"]), incentive.Figure(d.Numbers["hidden"]))
}

// sentence says a decision of a race.
func sentence(d agon.Decision) string {
	n, fig := d.Numbers, incentive.Figure
	known := byHeart(d)
	if known != "" {
		known = " " + known
	}
	switch {
	case d.Rule == ruleNotQualified:
		return fmt.Sprintf("Kept out: %s on the public problems; %s qualifies for the race.", fig(n["public"]), fig(n["qualify"]))
	case d.Rule == ruleEliminated:
		return fmt.Sprintf("Kept out: it could reach %s at most on the hidden problems, which leads to no place above the leader's margin.", fig(n["bound"])) + known
	case d.Outcome == agon.TookSeat && d.Bar == nil:
		return "Leads the race: " + fig(d.Score) + "; nobody was placed before." + known
	case d.Outcome == agon.TookSeat && n["leads"] == 1:
		return fmt.Sprintf("Leads the race: %s reached the bar of %s (leader %s plus a margin that falls with time).", fig(d.Score), fig(*d.Bar), fig(n["leader"])) + known
	case d.Outcome == agon.TookSeat:
		return fmt.Sprintf("Placed in the race, without reward: %s. To lead it needs %s (leader %s plus a margin that falls with time).", fig(d.Score), fig(*d.Bar), fig(n["leader"])) + known
	}
	return ""
}

// counts sums an entry's plays by whether its problem is hidden.
func counts(a agon.Arena, plays []incentive.Play) (public, hidden race.Progress, pubSolved, hidSolved int) {
	type one struct {
		sum    float64
		n      int
		failed bool
	}
	byTask := map[string]*one{}
	for _, p := range plays {
		o := byTask[p.Task]
		if o == nil {
			o = &one{}
			byTask[p.Task] = o
		}
		o.sum += p.Value
		o.n++
		o.failed = o.failed || !p.Solved
	}
	for _, t := range a.Tasks {
		p, solved := &public, &pubSolved
		if t.Hidden {
			p, solved = &hidden, &hidSolved
		}
		p.Total++
		if o := byTask[t.Key]; o != nil {
			p.Played++
			p.Sum += o.sum / float64(o.n)
			if !o.failed {
				*solved++
			}
		}
	}
	return public, hidden, pubSolved, hidSolved
}

// bar is what takes the lead from the first seat at the time of a challenge.
func bar(n numbers, leader incentive.Entry, at time.Time) (bar, floor float64) {
	law := n.Law
	if noise, ok := race.Noise(leader.Plays); ok && noise > law.Floor {
		law.Floor = noise
		law.Initial = math.Max(law.Initial, law.Floor)
	}
	return law.Bar(leader.Score, unix(leader.At), unix(at)), law.Floor
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// leads reports whether a score takes the lead at a bar. Full marks reach any.
func leads(s, leader, bar float64) bool {
	return s > leader && s >= math.Min(1, bar)-incentive.Tolerance
}

func decide(c incentive.Challenge) incentive.Verdict {
	n := numbersOf(c.Numbers)
	public, hidden, pubSolved, hidSolved := counts(c.Arena, c.Challenger.Plays)
	v := incentive.Verdict{Rule: score.ThresholdRule, Numbers: map[string]float64{
		"score": c.Challenger.Score, "qualify": n.Qualify, "public": public.Score(), "public_problems": float64(public.Total),
		"hidden": hidden.Score(), "hidden_problems": float64(hidden.Total), "hidden_played": float64(hidden.Played),
	}}
	if g, err := race.Memorised(pubSolved, public.Played, hidSolved, hidden.Played); err == nil && hidden.Played > 0 {
		v.Numbers["gap"], v.Numbers["gap_se"] = g.Gap, g.SE
		if g.Alarm {
			v.Numbers["gap_alarm"] = 1
		}
	}
	limits := race.Limits{Qualify: n.Qualify}
	if len(c.Seats) > 0 {
		first := c.Seats[0]
		b, floor := bar(n, first, c.At)
		v.Bar = &b
		v.Numbers["bar"], v.Numbers["leader"], v.Numbers["set_at"], v.Numbers["now"] = b, first.Score, unix(first.At), unix(c.At)
		v.Numbers["initial"], v.Numbers["floor"], v.Numbers["half_life_s"] = n.Law.Initial, floor, n.Law.HalfLifeS
		l := n.least(first.Score)
		limits.Least = &l
	}
	switch limits.Stage(public, hidden) {
	case race.StageFailed:
		v.Rule = ruleNotQualified
		return v
	case race.StageFinished:
	case race.StageRacing: // the hidden problems are still to come
		v.Rule, v.Numbers["bound"] = ruleRacing, hidden.Bound()
		return v
	default: // stopped before the end
		v.Rule, v.Numbers["bound"] = ruleEliminated, hidden.Bound()
		return v
	}
	s := c.Challenger.Score
	if !(s > 0) {
		v.Rule = ruleZero
		return v
	}
	v.Takes = true
	if v.Bar == nil || leads(s, c.Seats[0].Score, *v.Bar) {
		v.Numbers["leads"] = 1
	}
	return v
}

// standings orders who finished: the leader by replay of the law, oldest
// first, the others by score and id.
func standings(n numbers, entered []incentive.Entry) []incentive.Entry {
	if len(entered) == 0 {
		return nil
	}
	lead := 0
	for i := 1; i < len(entered); i++ {
		b, _ := bar(n, entered[lead], entered[i].At)
		if leads(entered[i].Score, entered[lead].Score, b) {
			lead = i
		}
	}
	out := []incentive.Entry{entered[lead]}
	for i, e := range entered {
		if i != lead {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out[1:], func(a, b incentive.Entry) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Submission, b.Submission))
	})
	return out
}

// ranked gives the standings scores that sort in their order: the leader
// stands first even where the bar kept a better score from the lead.
func ranked(seats []incentive.Entry) []score.Finisher {
	out := make([]score.Finisher, len(seats))
	for i, e := range seats {
		out[i] = score.Finisher{Hotkey: e.Miner, Version: e.Submission, Score: float64(len(seats) - i)}
	}
	return out
}

// weights is the vector of spec/oro.md 2.2 over the standings, clamped to what
// a ledger takes.
func weights(n map[string]float64, seats []incentive.Entry, hotkeys []string) ([]uint16, error) {
	x := numbersOf(n)
	w, err := score.Weights(ranked(seats), hotkeys, x.Top, x.Burn)
	if err != nil {
		return nil, err
	}
	return score.Clamp(w), nil
}

// shares are the same vector as shares, for pages: every hotkey taken for registered.
func shares(n map[string]float64, seats []incentive.Entry, _ time.Time) []float64 {
	x := numbersOf(n)
	hotkeys, at := []string{""}, map[string]int{}
	for _, e := range seats {
		if _, ok := at[e.Miner]; !ok {
			at[e.Miner] = len(hotkeys)
			hotkeys = append(hotkeys, e.Miner)
		}
	}
	out := make([]float64, len(seats))
	w, err := score.Weights(ranked(seats), hotkeys, x.Top, x.Burn)
	if err != nil {
		return out // Check refuses such numbers before
	}
	var sum int64
	for _, v := range w {
		sum += v
	}
	for i, e := range seats {
		if j := at[e.Miner]; j > 0 && sum > 0 { // of two places of one hotkey the first is paid
			out[i] = float64(w[j]) / float64(sum)
			at[e.Miner] = 0
		}
	}
	return out
}
