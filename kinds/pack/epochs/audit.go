package epochs

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// TTL is how long a published winner may be taken over without a new epoch.
const TTL = 24 * time.Hour

// Published is what a server says sits.
type Published struct {
	Winner *Seat     `json:"winner"`
	At     time.Time `json:"at"` // of the last epoch's end; zero: none ended
}

// Alarm is one thing that does not follow from what was said.
type Alarm struct {
	Epoch int64  `json:"epoch"` // 0: what is published now
	What  string `json:"what"`
}

// Audited is a history worked out again.
type Audited struct {
	Epochs    int     `json:"epochs"`
	Published *Seat   `json:"published"`
	Winner    *Seat   `json:"winner"` // recomputed
	Agreed    bool    `json:"agreed"`
	Stale     bool    `json:"stale"` // older than TTL: burn, do not pay who sat
	Alarms    []Alarm `json:"alarms"`
}

// Audit replays ended epochs, the earlier end first, from the votes alone and
// compares each outcome and the seat that is published now.
func Audit(list []Epoch, p Published, now time.Time) *Audited {
	out := &Audited{Epochs: len(list), Published: p.Winner, Alarms: []Alarm{}}
	alarm := func(e int64, format string, args ...any) {
		out.Alarms = append(out.Alarms, Alarm{e, fmt.Sprintf(format, args...)})
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(x, y Epoch) int { return order(&x, &y) })
	for i := range list {
		e := list[i]
		if i > 0 && !same(e.Before, list[i-1].After, e.Rule.Margin) {
			alarm(e.ID, "it began with another winner than the epoch before left")
		}
		if i > 0 {
			e.Before = out.Winner // what follows from before, not what is said
		}
		if got := Inactive(e.Members, list[:i], e.Rule); !slices.Equal(got, e.Inactive) && len(got)+len(e.Inactive) > 0 {
			alarm(e.ID, "the inactive validators are %q, published are %q", got, e.Inactive)
			e.Inactive = got
		}
		seen := map[string]bool{}
		for _, v := range e.Votes {
			if seen[v.Validator] {
				alarm(e.ID, "%s has two scores", v.Validator)
			}
			seen[v.Validator] = true
		}
		r := Finalise(e)
		if r.Outcome != list[i].Outcome {
			alarm(e.ID, "the scores give %s, published is %s", r.Outcome, list[i].Outcome)
		}
		if math.Abs(r.Score-list[i].Score) > e.Rule.Margin || math.IsNaN(list[i].Score) {
			alarm(e.ID, "the scores give %.4f, published is %.4f", r.Score, list[i].Score)
		}
		out.Winner = r.After
	}
	margin := 0.01
	if len(list) > 0 {
		margin = list[len(list)-1].Rule.Margin
	}
	if !same(out.Winner, p.Winner, margin) {
		alarm(0, "the epochs seat %s, published is %s", named(out.Winner), named(p.Winner))
	}
	out.Stale = p.At.IsZero() || now.Sub(p.At) > TTL
	out.Agreed = len(out.Alarms) == 0
	return out
}

// order is that in which epochs ended.
func order(x, y *Epoch) int {
	switch {
	case x.Ended != y.Ended:
		return compare(x.Ended < y.Ended)
	case x.Start != y.Start:
		return compare(x.Start < y.Start)
	}
	return x.Finalized.Compare(y.Finalized)
}

func compare(less bool) int {
	if less {
		return -1
	}
	return 1
}

func same(a, b *Seat, margin float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Hash == b.Hash && a.Miner == b.Miner && math.Abs(a.Score-b.Score) <= margin
}

func named(s *Seat) string {
	if s == nil {
		return "nobody"
	}
	return fmt.Sprintf("%s at %.4f", s.Miner, s.Score)
}
