package quorum

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
)

// Vote is one peer's evaluation.
type Vote struct {
	Voter    string  `json:"voter"`
	Accepted bool    `json:"accepted"`
	Value    float64 `json:"value"` // meaningless unless Accepted
	Weight   float64 `json:"weight"`
}

// PeerRule ends a ballot. Without Self it is final when Need votes say the
// same. With Self (a committee) it is final when Size votes are in: accepted if
// the share of weight that approves passes Threshold, at least MinEffective
// voters weigh in, and none holds more than MaxConcentration of the approval.
type PeerRule struct {
	Need             int
	Size             int
	Threshold        float64
	MinEffective     int
	MaxConcentration float64
	SlashTolerance   float64 // relative distance from the median at which a vote is slashed
	Self             bool
}

// Ballot is how a vote stands.
type Ballot struct {
	Final         bool     `json:"final"`
	Accepted      bool     `json:"accepted"`
	Value         float64  `json:"value"` // median of the accepting votes
	AcceptedCount int      `json:"accepted_count"`
	RejectedCount int      `json:"rejected_count"`
	Approval      float64  `json:"approval"`  // share of weight
	Effective     float64  `json:"effective"` // (sum of weights)² / sum of squares
	Stood         []string `json:"stood"`
	Slashed       []string `json:"slashed"` // voted against the outcome with a number far from it
}

// CountBallot counts votes; each voter votes once.
func CountBallot(r PeerRule, votes []Vote) Ballot {
	var b Ballot
	var yes []Replay
	var all, squares, approve, most float64
	for _, v := range votes {
		all += v.Weight
		squares += v.Weight * v.Weight
		if !v.Accepted {
			b.RejectedCount++
			continue
		}
		b.AcceptedCount++
		approve += v.Weight
		most = max(most, v.Weight)
		yes = append(yes, Replay{Run: v.Voter, Value: v.Value, Trust: v.Weight})
	}
	slices.SortFunc(yes, func(a, b Replay) int { return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Run, b.Run)) })
	if len(yes) > 0 {
		b.Value = weightedMedian(yes)
	}
	if all > 0 {
		b.Approval, b.Effective = approve/all, all*all/squares
	}
	if !r.Self {
		b.Accepted = b.AcceptedCount >= r.Need
		b.Final = b.Accepted || b.RejectedCount >= r.Need
	} else if len(votes) >= r.Size {
		b.Final = true
		concentrated := r.MaxConcentration > 0 && r.MaxConcentration < 1 && approve > 0 && most/approve > r.MaxConcentration+slack
		b.Accepted = b.Approval > r.Threshold && b.Effective+slack >= float64(r.MinEffective) && !concentrated
	}
	if !b.Final {
		return b
	}
	for _, v := range votes {
		// A true outlier is not punished for being far from the mean, only for
		// vouching for a number that the accepted median contradicts.
		if r.Self && v.Accepted && b.Accepted && math.Abs(v.Value-b.Value) > r.SlashTolerance*math.Abs(b.Value) {
			b.Slashed = append(b.Slashed, v.Voter)
		} else if v.Accepted == b.Accepted {
			b.Stood = append(b.Stood, v.Voter)
		}
	}
	return b
}

// Reputation is a voter's weight after votes that stood and votes that were
// slashed; each slash halves it.
func Reputation(start, gain, limit float64, stood, slashed int) float64 {
	w := min(start+gain*float64(stood), max(limit, start))
	return w * math.Pow(0.5, float64(slashed))
}

// Sortition draws n of list by seed, without one of them, in the order drawn.
func Sortition(seed string, list []string, without string, n int) []string {
	type ticket struct {
		name string
		n    uint64
	}
	var all []ticket
	for _, s := range list {
		if s != without && !slices.ContainsFunc(all, func(t ticket) bool { return t.name == s }) {
			h := sha256.Sum256([]byte(seed + "\n" + s))
			all = append(all, ticket{s, binary.BigEndian.Uint64(h[:])})
		}
	}
	slices.SortFunc(all, func(a, b ticket) int { return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.name, b.name)) })
	var out []string
	for _, t := range all[:min(n, len(all))] {
		out = append(out, t.name)
	}
	return out
}
