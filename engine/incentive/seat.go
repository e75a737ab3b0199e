package incentive

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/calc"
)

// Numbers that an arena under the paired rule may set.
const (
	NumAlpha      = "alpha"              // error of all attempts of one coldkey, or of one cluster of copies
	NumArenaAlpha = "alpha_arena"        // error of all entries of one period
	NumEntries    = "entries_per_period" // entries that share alpha_arena; later ones wait; 0: no bound
	NumPeriod     = "period_days"        // length of a period
	NumMaxPairs   = "max_pairs"          // of each validator
	NumMinGain    = "min_gain"           // the incumbent is kept when the pairs speak against this gain
	NumKept       = "kept"               // evidence against min_gain at which the incumbent is kept
	NumValidators = "validators"         // that make pairs of their own
	NumAgree      = "agree"              // of them whose own evidence must reach the need
	NumBatch      = "batch"              // pairs of each validator between two looks at the evidence
	NumBaseline   = "baseline"           // score on every task of what holds an empty seat
	NumMaxUSD     = "max_usd"            // money that the pairs of one entry may cost; 0: no cap
	NumBandAbs    = "band_abs"           // differences up to this much, or
	NumBandRel    = "band_rel"           // up to this share of the incumbent's value, are not a difference
)

// Pairing makes a rule one that seats by pairs: the platform has both sides
// played on the same tasks and seeds, and asks again (Contested.Decide) until
// the outcome is not OutcomeMore.
type Pairing struct {
	// Decide judges what has been played. Pure.
	Decide func(c Contested) PairedVerdict
}

// LeastUSD is what the fewest pairs that seat anybody cost, in dollars, where both
// sides spend their budget, of usd dollars a play, in every one: no challenge can
// then be ended for its money by a champion that spends.
func LeastUSD(n map[string]float64, usd float64) float64 {
	cfg, err := AttemptConfig(n, 1)
	if err != nil {
		return 0 // the numbers are refused elsewhere
	}
	rounds := math.Ceil(float64(LeastPairs(cfg.Alpha)) / max(1, n[NumBatch]))
	return 2 * usd * rounds * max(1, n[NumBatch]) * max(1, n[NumValidators])
}

// Contested is one challenge by pairs, as far as it has been played.
type Contested struct {
	Numbers map[string]float64 // of the arena, with the rule's defaults
	Attempt int                // of the coldkey or of the cluster of copies, whichever is larger; from 1
	Solved  int                // tasks that the challenger has solved
	Streams []Stream           // by validator
	Spent   agon.Micros        // by both sides of all pairs
}

// Stream is what one validator has played, by round.
type Stream struct {
	Validator string
	Index     int // under which the platform asks it for more
	Rounds    [][]Pair
	// Costs are what the sides of its pairs cost, where the arena is about that. They are
	// told, and decide nothing.
	Costs []Spent
}

// Spent is what both sides of a pair cost, in dollars; 0: not measured.
type Spent struct{ Challenger, Incumbent float64 }

// PairedVerdict says where a challenge stands.
type PairedVerdict struct {
	Outcome string // OutcomeMore, or how it ended
	Numbers map[string]float64
	More    int // pairs that each validator plays next; with OutcomeMore
	// Settled are the indexes of streams that need no more.
	Settled []int
}

// Paired is the rule that seats by paired evidence.
func Paired() Rule {
	return Rule{
		Numbers: map[string]float64{
			NumAlpha: PairedAlpha, NumArenaAlpha: PairedArenaAlpha, NumEntries: PairedEntries, NumPeriod: 7,
			NumMaxPairs: PairedMax, NumMinGain: PairedMinGain, NumKept: PairedKept, NumValidators: 3, NumAgree: 2,
			NumBatch: 16, NumBaseline: 0, NumMaxUSD: 0, NumBandAbs: 0, NumBandRel: 0,
		},
		Check:   checkPaired,
		Pairing: &Pairing{Decide: decidePaired},
		// Scores of different days say nothing about who is better.
		Decide:   func(Challenge) Verdict { return Verdict{Rule: PairedRule} },
		Sentence: sayPaired,
	}
}

// AttemptConfig are the numbers of one attempt.
func AttemptConfig(n map[string]float64, attempt int) (PairedConfig, error) {
	a, err := AttemptAlpha(n[NumAlpha], attempt, n[NumArenaAlpha], int(n[NumEntries]))
	return PairedConfig{Alpha: a, MinGain: n[NumMinGain], Kept: KeptNeed(n), Max: int(n[NumMaxPairs])}, err
}

// KeptNeed is the evidence against min_gain that each validator must have. With
// several validators one of them may lie: then each honest one alone can end a
// contest, so that all honest ones together err in one of a hundred at most.
func KeptNeed(n map[string]float64) float64 {
	if v := n[NumValidators]; v > 1 {
		return max(n[NumKept], 100*(v-1))
	}
	return n[NumKept]
}

func checkPaired(n map[string]float64) error {
	whole := func(name string, least, most float64) error {
		if v := n[name]; v != math.Trunc(v) || v < least || v > most {
			return fmt.Errorf("%s: want a whole number of %v to %v, got %v", name, least, most, v)
		}
		return nil
	}
	for _, x := range []struct {
		name        string
		least, most float64
	}{{NumEntries, 0, 1e6}, {NumMaxPairs, 1, maxCalcPairs}, {NumValidators, 1, 99}, {NumAgree, 1, 99}, {NumBatch, 1, 1000}} {
		if err := whole(x.name, x.least, x.most); err != nil {
			return err
		}
	}
	switch v := n[NumValidators]; {
	case n[NumAgree] > v || 2*n[NumAgree] <= v:
		return fmt.Errorf("%s: want more than half of %v validators, got %v", NumAgree, v, n[NumAgree])
	case !(n[NumPeriod] > 0 && n[NumPeriod] <= 3660):
		return fmt.Errorf("%s: want more than 0 and at most 3660, got %v", NumPeriod, n[NumPeriod])
	case !(n[NumBaseline] >= 0 && n[NumBaseline] < 1):
		return fmt.Errorf("%s: want 0 or more and less than 1, got %v", NumBaseline, n[NumBaseline])
	case !(n[NumMaxUSD] >= 0 && n[NumMaxUSD] <= 1e9):
		return fmt.Errorf("%s: want 0 to 1e9, got %v", NumMaxUSD, n[NumMaxUSD])
	case !(n[NumBandAbs] >= 0):
		return fmt.Errorf("%s: want 0 or more, got %v", NumBandAbs, n[NumBandAbs])
	case !(n[NumBandRel] >= 0 && n[NumBandRel] < 1):
		return fmt.Errorf("%s: want 0 or more and less than 1, got %v", NumBandRel, n[NumBandRel])
	}
	c, err := AttemptConfig(n, 1)
	if err != nil {
		return err
	}
	return c.Validate()
}

// Banded is the pair of scores of 0 to 1 that two values which are not scores
// count as, such as seconds or a loss, of which less is better: a difference of
// at most the larger of abs and rel times the incumbent's value is none. What
// is not a number has lost.
func Banded(challenger, incumbent, abs, rel float64) Pair {
	bad := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
	switch {
	case bad(challenger) && bad(incumbent):
		return Pair{}
	case bad(challenger):
		return Pair{Incumbent: 1}
	case bad(incumbent):
		return Pair{Challenger: 1}
	}
	band := max(abs, rel*math.Abs(incumbent))
	switch d := incumbent - challenger; {
	case d > band:
		return Pair{Challenger: 1}
	case d < -band:
		return Pair{Incumbent: 1}
	}
	return Pair{}
}

// decidePaired asks for pairs until enough validators, each by its own pairs,
// say that the challenger is better, or that cannot come about any more.
func decidePaired(c Contested) PairedVerdict {
	n := c.Numbers
	attempt := max(c.Attempt, 1)
	cfg, err := AttemptConfig(n, attempt)
	validators, agree := int(n[NumValidators]), int(n[NumAgree])
	v := PairedVerdict{Outcome: OutcomeUndecided, Numbers: map[string]float64{
		"attempt": float64(attempt), "alpha": cfg.Alpha, "need": 1 / cfg.Alpha, "max_pairs": float64(cfg.Max), "min_gain": cfg.MinGain,
		"kept_need": cfg.Kept, "validators": float64(validators), "agree": float64(agree), "cost_usd": float64(c.Spent) / 1e6, "max_usd": n[NumMaxUSD],
	}}
	if err != nil || c.Solved < 1 {
		return v // who has solved nothing never sits; the caller says so by ZeroRule
	}
	var results []Contest
	var index []int
	pairs, won, lost, gain := 0, 0, 0, 0.0
	var paid costs
	for _, s := range c.Streams {
		var r Contest
		for _, round := range s.Rounds {
			r.AddRound(round, cfg)
			for _, p := range round {
				switch d := p.Challenger - p.Incumbent; {
				case d > 0:
					won++
				case d < 0:
					lost++
				}
				gain += p.Challenger - p.Incumbent
				pairs++
			}
		}
		for _, p := range s.Costs {
			paid.add(p)
		}
		results, index = append(results, r), append(index, s.Index)
	}
	// A validator that stands in for one that has gone adds a stream: those with
	// most pairs count, so that nobody can add opinions by being many.
	order := make([]int, len(results))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(results[b].For.N(), results[a].For.N()) })
	counted := make([]Contest, 0, validators)
	for _, i := range order[:min(len(order), validators)] {
		counted = append(counted, results[i])
	}
	outcomes, more := standing(counted, cfg, agree)
	if len(counted) < validators {
		more = cfg.Max // who has not begun has all of them
	}
	for i, at := range order {
		if i >= len(outcomes) {
			if results[at].Outcome(cfg) != OutcomeMore {
				v.Settled = append(v.Settled, index[at])
			}
		} else if outcomes[i] != OutcomeMore {
			v.Settled = append(v.Settled, index[at])
		}
	}
	slices.Sort(v.Settled)
	count := map[string]int{}
	var values []float64
	for i, r := range counted {
		count[outcomes[i]]++
		values = append(values, r.For.Value())
	}
	count[OutcomeMore] += validators - len(counted) // who has not begun
	slices.Sort(values)
	slices.Reverse(values)
	// What it has: the evidence that as many as must agree have at least.
	has := 1.0
	if len(values) >= agree {
		has = values[agree-1]
	}
	maps.Copy(v.Numbers, map[string]float64{
		"evidence": min(has, math.MaxFloat64), "pairs": float64(pairs), "won": float64(won), "lost": float64(lost),
		"seated_by": float64(count[OutcomeSeated]), "kept_by": float64(count[OutcomeKept]),
	})
	for i, x := range values {
		v.Numbers[fmt.Sprintf("evidence_%d", i+1)] = min(x, math.MaxFloat64)
	}
	if pairs > 0 {
		v.Numbers["gain"] = gain / float64(pairs)
	}
	paid.into(v.Numbers)
	v.Outcome = joint(count, validators, agree)
	switch {
	case v.Outcome != OutcomeMore:
	case n[NumMaxUSD] > 0 && float64(c.Spent)/1e6 >= n[NumMaxUSD]:
		v.Outcome = OutcomeUndecided
		v.Numbers["money_ended"] = 1
	default:
		v.More = max(1, min(int(n[NumBatch]), more))
	}
	v.Numbers["outcome"] = map[string]float64{OutcomeSeated: 1, OutcomeKept: -1}[v.Outcome]
	return v
}

// costs sums what both sides of pairs cost, where both were measured.
type costs struct{ n, cost, held, diff, square float64 }

func (c *costs) add(p Spent) {
	if p.Challenger > 0 && p.Incumbent > 0 {
		d := p.Incumbent - p.Challenger
		c.n, c.cost, c.held, c.diff, c.square = c.n+1, c.cost+p.Challenger, c.held+p.Incumbent, c.diff+d, c.square+d*d
	}
}

// into writes both means, what the challenger saves a play, and the half width of
// the 95 % interval of that (normal), all in dollars.
func (c *costs) into(n map[string]float64) {
	if c.n == 0 {
		return
	}
	n["cost"], n["incumbent_cost"], n["saves"] = c.cost/c.n, c.held/c.n, c.diff/c.n
	if c.n > 1 {
		n["saves_within"] = 1.96 * math.Sqrt(max(0, c.square-c.diff*c.diff/c.n)/(c.n-1)/c.n)
	}
}

// standing is where each validator's own contest stands, and how many pairs the
// one with fewest may still play.
//
// A validator has max_pairs. But while one of them has seated the challenger and
// a seat hangs on the others, who has played all of its own goes on with what
// those that are settled have left, so that one that lies, or stalls, takes next
// to nothing from a better challenger. All together never have more than
// max_pairs each, and evidence may be read at any time, so that the chance of a
// false takeover has the same bound.
func standing(contests []Contest, cfg PairedConfig, agree int) (outcomes []string, more int) {
	seated, ended, spare := 0, 0, 0
	for i := range contests {
		c := &contests[i]
		o := c.Outcome(cfg)
		outcomes = append(outcomes, o)
		switch o {
		case OutcomeSeated:
			seated++
			spare += max(0, cfg.Max-c.For.N())
		case OutcomeKept:
			spare += max(0, cfg.Max-c.For.N())
		case OutcomeUndecided:
			ended++
			spare -= c.For.N() - cfg.Max
		case OutcomeMore:
			more = max(more, cfg.Max-c.For.N())
		}
	}
	if seated == 0 || seated >= agree || ended == 0 || spare < ended {
		return outcomes, more
	}
	for i, o := range outcomes {
		if o == OutcomeUndecided {
			outcomes[i] = OutcomeMore
		}
	}
	return outcomes, max(more, spare/ended)
}

// joint is the outcome of a contest by how many validators' own came out how.
func joint(count map[string]int, validators, agree int) string {
	switch {
	case count[OutcomeSeated] >= agree:
		return OutcomeSeated
	case count[OutcomeKept] > validators-agree:
		return OutcomeKept
	case count[OutcomeSeated]+count[OutcomeMore] < agree:
		return OutcomeUndecided // the pairs ran out
	}
	return OutcomeMore
}

func sayPaired(d agon.Decision) string {
	n := d.Numbers
	if d.Rule != PairedRule {
		return ""
	}
	if _, ok := n["need"]; !ok {
		return ""
	}
	rival := "the champion"
	if d.Incumbent == "" {
		rival = "the arena's baseline (the seat was empty)"
	}
	who := ""
	if n["validators"] > 1 {
		who = fmt.Sprintf(" from %s of %s validators", Figure(n["agree"]), Figure(n["validators"]))
	} else {
		who = " from one validator"
	}
	_, byCost := n["saves"]
	tail := fmt.Sprintf("%s won, %s lost of %s pairs on the same tasks and seeds", Figure(n["won"]), Figure(n["lost"]), Figure(n["pairs"]))
	if g, ok := n["gain"]; ok && !byCost { // as many may be lost as won, by less; costs stand below
		tail += fmt.Sprintf(", by %+.2f on average", g)
	}
	if saves, ok := n["saves"]; ok {
		what := fmt.Sprintf("saves $%.6f", saves)
		if saves < 0 {
			what = fmt.Sprintf("costs $%.6f more", -saves)
		}
		if within, ok := n["saves_within"]; ok {
			what += fmt.Sprintf(" ± $%.6f", within)
		}
		tail += fmt.Sprintf(", by the cost of a task: $%.6f against $%.6f, which %s", n["cost"], n["incumbent_cost"], what)
	}
	tail += fmt.Sprintf("; evidence %s, at least %s needed%s (attempt %s: luck alone gets there in %.3g %% of cases at most)", amount(n["evidence"]), amount(n["need"]), who,
		Figure(n["attempt"]), 100*n["alpha"])
	switch {
	case d.Outcome == agon.TookSeat:
		return fmt.Sprintf("Took the seat: better than %s: %s.", rival, tail)
	case n["outcome"] < 0:
		return fmt.Sprintf("Kept out: not better than %s by %s points: %s.", rival, Figure(100*n["min_gain"]), tail)
	case n["absent"] > 0 && n["outcome"] == 0:
		return fmt.Sprintf("Kept out: too few validators played, %s of %s were missing: %s.", Figure(n["absent"]), Figure(n["validators"]), tail)
	case n["money_ended"] > 0:
		return fmt.Sprintf("Kept out: cannot be told apart from %s for $%s: %s.", rival, Figure(n["max_usd"]), tail)
	}
	return fmt.Sprintf("Kept out: cannot be told apart from %s: %s%s.", rival, tail, wouldTell(n))
}

// wouldTell says how many pairs like those played would have told the two apart;
// "": they speak against the challenger, or hardly for it. Evidence is a product
// over pairs, so its logarithm grows with their number.
func wouldTell(n map[string]float64) string {
	have, need := n["evidence"], n["need"]
	if have < math.E || need <= have {
		return ""
	}
	pairs := math.Ceil(n["pairs"] * math.Log(need) / math.Log(have))
	return fmt.Sprintf("; about %s pairs like these would tell them apart", Figure(pairs))
}

// amount writes evidence: whole where it is large.
func amount(f float64) string {
	switch {
	case f >= 1e6:
		return "over a million"
	case f >= 10:
		return Figure(math.Round(f))
	}
	return Figure(math.Round(f*100) / 100)
}

type seatIn struct {
	Need     float64   `json:"need"`
	Agree    int       `json:"agree"`
	Evidence []float64 `json:"evidence"` // of each validator
}

type seatOut struct {
	Takes bool `json:"takes"`
	By    int  `json:"by"`
}

func calcSeat(in seatIn) (seatOut, error) {
	if !(in.Need > 1) || in.Agree < 1 || len(in.Evidence) > 100 {
		return seatOut{}, fmt.Errorf("need: want more than 1; agree: want at least 1; evidence: at most 100 numbers")
	}
	var out seatOut
	for _, e := range in.Evidence {
		if e >= in.Need {
			out.By++
		}
	}
	out.Takes = out.By >= in.Agree
	return out, nil
}

func seatRule() calc.Rule {
	return calc.Func(PairedRule, "{need, agree, evidence: [of each validator]} -> {takes, by}: does own evidence of enough validators reach the need", calcSeat)
}
