package incentive

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
)

// Entry is a submission whose every task has a result, as a rule sees it: who
// challenges, or who sits.
type Entry struct {
	Submission string
	Miner      string // hotkey
	Coldkey    string
	Scripted   bool // a sample whose model is a script; it never takes a seat
	Score      float64
	Solved     int
	Total      int
	Cost       agon.Micros // of its counted attempts
	At         time.Time   // a seat: when it was taken; a challenger: now
	Plays      []Play      // by run, then task; nil unless Rule.Plays
}

// Play is one score of an entry: a task, played once.
type Play struct {
	Task    string
	Replica int
	Seed    int64
	Value   float64
	Solved  bool
	Metrics map[string]float64
}

// Challenge is what a rule decides on.
type Challenge struct {
	Arena      agon.Arena
	Numbers    map[string]float64 // the arena's, with the rule's defaults where it says nothing
	Challenger Entry
	Seats      []Entry // who sits, by place; empty: nobody does
	At         time.Time
}

// First returns the score of the first seat; nil while nobody sits.
func (c Challenge) First() *float64 {
	if len(c.Seats) == 0 {
		return nil
	}
	return &c.Seats[0].Score
}

// Verdict says whether a challenger takes a seat. With the challenge's rule,
// Numbers and Bar are enough to recompute it with agon calc.
type Verdict struct {
	Rule    string   // name for agon calc, or a word for the reason; empty: the arena's incentive
	Bar     *float64 // what the challenger had to reach; nil: nobody sat there
	Takes   bool
	Numbers map[string]float64
	// Incumbent is the submission that the challenger was measured against;
	// empty means the first seat's.
	Incumbent string
}

// Rule is what an arena's incentive means: who sits, and what that earns. All
// of it is pure: the same inputs give the same answer on every machine. Only
// Decide is needed. The log of decisions is the only state: who sits follows
// from who took a seat, in that order.
type Rule struct {
	// Numbers are the numbers that an arena may set (agon.Arena.IncentiveNumbers)
	// and their defaults.
	Numbers map[string]float64
	// Check says what is wrong with an arena's numbers; nil: nothing can be.
	Check func(numbers map[string]float64) error
	// Plays asks for every score of the challenger and the seats, where their sums are not enough.
	Plays bool
	// Decide judges one challenge.
	Decide func(c Challenge) Verdict
	// Pairing, where it is set, decides instead, by pairs that are played for it.
	Pairing *Pairing
	// CopyRate is the measured rate at which an identical copy of a sampling
	// champion takes the seat, in one try and in five (docs/incentive.md); nil:
	// bounded by the rule, or not measured.
	CopyRate *CopyRate
	// Seats says who sits after those entered, oldest first, which have their plays
	// where Plays is set; by place, without gaps. It must not change its input. nil:
	// the last one to enter has the only seat.
	Seats func(numbers map[string]float64, entered []Entry) []Entry
	// Shares gives each seat's share of the reward, from 0 to 1; what they leave
	// of 1 is burned. nil: the first has all.
	Shares func(numbers map[string]float64, seats []Entry, at time.Time) []float64
	// ManyPaid says that every place earns by its own merit, so that a copy has won
	// once it has any.
	ManyPaid bool
	// Unpaid says why a part of the reward is burned though somebody sits, as an end
	// of a sentence ("the third place is empty"); nil, or "": nothing is said.
	Unpaid func(numbers map[string]float64, seats []Entry) string
	// Reasons are the words under which decisions of this rule stand, besides its
	// own name (Verdict.Rule).
	Reasons []string
	// Sentence says one decision of this rule in a sentence with its numbers, for
	// people; nil, or "": the general one (Say).
	Sentence func(d agon.Decision) string
	// Remark says what else the numbers of an entry tell that was played and never
	// could sit; nil, or "": nothing.
	Remark func(d agon.Decision) string
	// Weights gives the whole vector of a subnet itself, for rules that are exact
	// to the unit: a weight per uid, hotkeys by uid, what nobody earned at uid 0.
	// nil for an empty metagraph; nil func: weights follow from Shares.
	Weights func(numbers map[string]float64, seats []Entry, hotkeys []string) ([]uint16, error)
}

// Of returns the numbers of an arena: its own, or the rule's defaults.
func (r Rule) Of(own map[string]float64) map[string]float64 {
	out := maps.Clone(r.Numbers)
	if out == nil {
		out = map[string]float64{}
	}
	maps.Copy(out, own)
	return out
}

// CheckNumbers says what is wrong with the numbers that an arena sets.
func (r Rule) CheckNumbers(own map[string]float64) error {
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if _, ok := r.Numbers[name]; !ok {
			known := slices.Sorted(maps.Keys(r.Numbers))
			if len(known) == 0 {
				return fmt.Errorf("%s: the rule takes no numbers", name)
			}
			return fmt.Errorf("%s: the rule takes %s only", name, strings.Join(known, ", "))
		}
		if v := own[name]; math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: %v is not a number", name, v)
		}
	}
	if r.Check == nil {
		return nil
	}
	return r.Check(r.Of(own))
}

// OneSeat reports whether the last to take the seat is all that Sit looks at.
func (r Rule) OneSeat() bool { return r.Seats == nil }

// Sit says who sits after those entered, oldest first, in an arena with these numbers.
func (r Rule) Sit(own map[string]float64, entered []Entry) []Entry {
	if len(entered) == 0 {
		return nil
	}
	if r.OneSeat() {
		return entered[len(entered)-1:]
	}
	return r.Seats(r.Of(own), entered)
}

// Split gives the share of each seat, as many as there are seats, and what is
// burned. Shares that are not a share, or that sum to more than 1, are a fault of
// the rule; an error keeps it from the ledger.
func (r Rule) Split(own map[string]float64, seats []Entry, at time.Time) (shares []float64, burned float64, err error) {
	shares = make([]float64, len(seats))
	if len(seats) > 0 {
		if r.Shares == nil {
			shares[0] = 1
		} else {
			copy(shares, r.Shares(r.Of(own), seats, at))
		}
	}
	burned = 1
	for i, s := range shares {
		if !(s >= 0 && s <= 1) {
			return nil, 0, fmt.Errorf("share of place %d: %v is not from 0 to 1", i+1, s)
		}
		burned -= s
	}
	if burned < -1e-9 {
		return nil, 0, fmt.Errorf("shares sum to %v, more than 1", 1-burned)
	}
	return shares, max(0, math.Round(burned*1e12)/1e12), nil // without what adding binary fractions left
}

// CopyRate says how often an identical copy of a champion that samples takes the
// seat, in one try and in five, as simulated with these numbers and the rule's defaults.
type CopyRate struct {
	One, Five          float64
	Discordance, Noise float64
	Tasks              int
}

// Payer is who pays for pairs.
type Payer int

// Who pays for pairs.
const (
	PaidByValidators Payer = iota // who run their own gateways
	PaidByOperator                // who runs the gateway
	PaidByChallenger              // by its purse
)

// Fairness says in a sentence how luck and copies fare under a rule, and who pays
// for pairs: whoever runs the gateway, or the challenger.
func (r Rule) Fairness(own map[string]float64, payer Payer) string {
	n := r.Of(own)
	switch c := r.CopyRate; {
	case r.Pairing != nil:
		s := fmt.Sprintf("A seat moves by paired evidence: all attempts of a copy together take it with a chance of at most %s %%. ", Figure(100*n[NumAlpha]))
		if v := n[NumValidators]; v > 1 {
			s += fmt.Sprintf("%s of %s validators must each have seen it. ", Figure(n[NumAgree]), Figure(v))
		} else {
			s += "In this arena one validator's evidence is enough. "
		}
		switch payer {
		case PaidByOperator:
			s += "The operator pays for the pairs, by the platform's gateway"
		case PaidByChallenger:
			s += "The challenger pays for the pairs of both sides, from the purse of its coldkey"
		default:
			s += "The arena's validators pay for the pairs"
		}
		if n[NumMaxUSD] > 0 {
			s += fmt.Sprintf(", at most $%s an entry", Figure(n[NumMaxUSD]))
		}
		if payer == PaidByChallenger {
			s += ": so much is held when it enters, and what the pairs did not cost goes back"
		}
		return s + "."
	case c != nil:
		return fmt.Sprintf("By luck, an identical copy of a champion that samples takes the seat in %s %% of single tries and %s %% of five (simulated, docs/incentive.md).",
			Figure(100*c.One), Figure(100*c.Five))
	}
	return ""
}
