// Package epochs is the agreement of validators that a server leads: one pack
// per epoch challenges who sits, each validator says a score once, and the
// epoch's end follows from what was said and from nothing else, so that anybody
// can work it out again. It does no I/O.
package epochs

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/agon-arena/agon/kinds/pack/cost"
)

// Outcomes of an epoch.
const (
	Replaced = "winner_replaced"
	Held     = "winner_held"
	Aborted  = "aborted_quorum"
)

// Rule is what an epoch's end follows. Stakes are rao, lengths blocks.
type Rule struct {
	Length   int64   `json:"length_blocks"`
	Least    int64   `json:"least_blocks"` // before this an epoch does not end early
	Quorum   float64 `json:"quorum_fraction"`
	MinStake uint64  `json:"min_stake"`
	Inactive int     `json:"inactive_epochs"` // missed in a row, after which a validator does not count
	Most     float64 `json:"most"`            // the score of a pack that does everything
	Margin   float64 `json:"margin"`          // alarm where recomputed scores are further off than this
}

// Default is the field's rule over a number of scenarios.
func Default(scenarios int) Rule {
	return Rule{Length: 150, Least: 30, Quorum: 0.4, MinStake: 10_000 * 1e9, Inactive: 3, Most: float64(max(scenarios, 1)), Margin: 0.01}
}

// Vote is what one validator said of a challenger.
type Vote struct {
	Validator string    `json:"validator"`
	Stake     uint64    `json:"stake"` // rao, when it was said
	Block     uint64    `json:"block"`
	Score     float64   `json:"score"`
	Qualified bool      `json:"qualified"`
	Rejected  bool      `json:"rejected,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	Version   string    `json:"version,omitempty"`
	Model     string    `json:"model,omitempty"`
	At        time.Time `json:"at"`
	// Played says that the platform saw the plays itself; else it is the validator's word.
	Played    bool                `json:"played,omitempty"`
	Scenarios map[string]Scenario `json:"scenarios,omitempty"`
}

// Scenario is a vote's part.
type Scenario struct {
	Score     float64 `json:"score"`
	Qualified bool    `json:"qualified"`
}

// Seat is who sits, and since which epoch.
type Seat struct {
	Submission string  `json:"submission"`
	Miner      string  `json:"miner"`
	Hash       string  `json:"pack_hash"`
	Score      float64 `json:"score"`
	Since      int64   `json:"since_epoch_id"`
}

// Left is a vote that does not count, and why.
type Left struct {
	Validator string `json:"validator"`
	Reason    string `json:"reason"`
}

// Epoch is one challenge. What stands behind Votes is empty until it has ended.
type Epoch struct {
	ID         int64     `json:"id"`
	Submission string    `json:"submission"`
	Miner      string    `json:"miner"`
	Hash       string    `json:"pack_hash"`
	Start      uint64    `json:"start_block"`
	End        uint64    `json:"end_block"`
	Opened     time.Time `json:"opened"`
	Rule       Rule      `json:"rule"`
	Before     *Seat     `json:"before"` // who sat when it began
	// Members are the validators with enough stake when it began; Inactive of them
	// had missed too many epochs.
	Members  map[string]uint64 `json:"members"`
	Inactive []string          `json:"inactive,omitempty"`
	Votes    []Vote            `json:"votes"`

	Outcome   string    `json:"outcome,omitempty"`
	Left      []Left    `json:"left,omitempty"`
	Reported  float64   `json:"reported"` // share of the active stake whose votes count
	Score     float64   `json:"score"`
	Qualified bool      `json:"qualified"`
	Bar       float64   `json:"bar"`
	After     *Seat     `json:"after"`
	Ended     uint64    `json:"ended_block,omitempty"`
	Finalized time.Time `json:"finalized,omitzero"`
}

// Voted says whether a validator has spoken.
func (e *Epoch) Voted(validator string) bool {
	return slices.ContainsFunc(e.Votes, func(v Vote) bool { return v.Validator == validator })
}

// Due says whether the epoch ends at a block: at its end, or once everybody
// who counts has spoken and it was open long enough. Who is called is a list
// that is never empty at an early end.
func (e *Epoch) Due(block uint64) bool {
	if block >= e.End {
		return true
	}
	if int64(block)-int64(e.Start) < e.Rule.Least || len(e.Members) == len(e.Inactive) {
		return false
	}
	for m := range e.Members {
		if !slices.Contains(e.Inactive, m) && !e.Voted(m) {
			return false
		}
	}
	return true
}

// Finalise works out how an epoch ends. It changes nothing that was said, and
// the order of the votes does not matter.
func Finalise(e Epoch) Epoch {
	e.Outcome, e.Left, e.Reported, e.Score, e.Qualified, e.Bar, e.After = Aborted, nil, 0, 0, false, 0, e.Before
	active, spoke := 0.0, 0.0
	for m, stake := range e.Members {
		if !slices.Contains(e.Inactive, m) {
			active += float64(stake)
		}
	}
	var scores []float64
	qualified, heads := 0, 0
	votes := slices.Clone(e.Votes)
	slices.SortFunc(votes, func(x, y Vote) int { return cmp.Compare(x.Validator, y.Validator) })
	for _, v := range votes {
		why := ""
		switch _, member := e.Members[v.Validator]; {
		case v.Rejected:
			why = "rejected the pack: " + cmp.Or(v.Detail, "no reason given")
		case v.Stake < e.Rule.MinStake || v.Stake == 0:
			why = "too little stake"
		case !member:
			why = "not a validator when the epoch began"
		case slices.Contains(e.Inactive, v.Validator):
			why = "inactive: it missed the epochs before"
		}
		if why != "" {
			e.Left = append(e.Left, Left{v.Validator, why})
			continue
		}
		spoke += float64(e.Members[v.Validator])
		if heads++; v.Qualified {
			qualified++
			scores = append(scores, min(v.Score, e.Rule.Most)) // more than everything is not a score
		}
	}
	if active > 0 {
		e.Reported = spoke / active
	}
	if heads == 0 || e.Reported < e.Rule.Quorum {
		return e
	}
	if len(scores) > 0 {
		_, e.Score = cost.Winsorised(scores)
		e.Score = math.Round(e.Score*1e6) / 1e6
	}
	e.Qualified = 2*qualified > heads
	e.Outcome = Held
	if e.Before != nil {
		_, e.Bar = cost.DecayingBar(e.Before.Score, e.Rule.Most)
		if !(e.Score > e.Bar) {
			return e
		}
	}
	if e.Qualified {
		e.Outcome = Replaced
		e.After = &Seat{e.Submission, e.Miner, e.Hash, e.Score, e.ID}
	}
	return e
}

// Inactive lists the members that missed the last epochs, of which the newest
// stands last: as many in a row as the rule says, all of which they were members of.
func Inactive(members map[string]uint64, past []Epoch, rule Rule) []string {
	var out []string
	if rule.Inactive < 1 || len(past) < rule.Inactive {
		return nil
	}
	for m := range members {
		missed := 0
		for _, e := range slices.Backward(past) {
			if _, was := e.Members[m]; !was || e.Voted(m) || missed == rule.Inactive {
				break
			}
			missed++
		}
		if missed >= rule.Inactive {
			out = append(out, m)
		}
	}
	slices.Sort(out)
	return out
}

// Row is a submission that waits.
type Row struct {
	ID    string
	Miner string
	Seq   int64
	// Open says that nothing refused it; Done that it had its epoch.
	Open, Done bool
}

// Next says which of the rows, oldest first, may open an epoch: the first of each
// miner. The second of a miner waits until the first has had its turn.
func Next(rows []Row) []bool {
	out, busy := make([]bool, len(rows)), map[string]bool{}
	for i, r := range rows {
		if r.Done || !r.Open {
			continue
		}
		out[i], busy[r.Miner] = !busy[r.Miner], true
	}
	return out
}
