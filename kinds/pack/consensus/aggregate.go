package consensus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/agon-arena/agon"
)

// MinStake is how much stake a validator must have to be heard, in alpha.
const MinStake = 10_000

// Submission is a payload, who pointed to it, and whether its bytes are those
// that were promised.
type Submission struct {
	Hotkey  string  // who wrote the pointer
	Stake   float64 // of Hotkey, on the ledger
	Payload Payload
	// Intact says that the bytes had the hash that the address names, or that
	// the address names none.
	Intact bool
	// Sum names the bytes as they came.
	Sum agon.Digest
	// Source is where the bytes came from, for people.
	Source string
}

// Expect is what a payload must fit.
type Expect struct {
	Window   int64
	Software string  // only its major version counts
	MinStake float64 // 0 means MinStake; below 0 none is needed
}

// Counts says how many payloads each filter took, in the order in which they work.
type Counts struct {
	In        int `json:"in"`
	Passed    int `json:"passed"`
	Protocol  int `json:"protocol"`
	Window    int `json:"window"`
	Stake     int `json:"stake"`
	Integrity int `json:"integrity"`
	Version   int `json:"version"`
	Scoring   int `json:"scoring"`
	Zero      int `json:"zero"`
	// Writer counts payloads that name another validator than the pointer's.
	Writer int `json:"writer"`
	// Sealed counts payloads that were not promised before others were shown.
	Sealed int `json:"sealed"`
	// Spec counts payloads about another set of scenarios than the target's.
	Spec int `json:"spec"`
}

// String is the line that validators of such arenas log.
func (c Counts) String() string {
	s := fmt.Sprintf("Filter: %d in → %d passed | protocol=%d window=%d stake=%d integrity=%d version=%d scoring=%d zero=%d",
		c.In, c.Passed, c.Protocol, c.Window, c.Stake, c.Integrity, c.Version, c.Scoring, c.Zero)
	if c.Writer > 0 {
		s += fmt.Sprintf(" writer=%d", c.Writer)
	}
	if c.Sealed > 0 {
		s += fmt.Sprintf(" sealed=%d", c.Sealed)
	}
	if c.Spec > 0 {
		s += fmt.Sprintf(" spec=%d", c.Spec)
	}
	return s
}

// filter says of each dropped submission why as well.
func filter(list []Submission, want Expect) ([]Submission, Counts, []Rejected) {
	minStake := want.MinStake
	if minStake == 0 {
		minStake = MinStake
	}
	c := Counts{In: len(list)}
	var kept []Submission
	rejected := []Rejected{}
	signal := false
	for _, s := range list {
		p := s.Payload
		drop := func(count *int, format string, args ...any) {
			*count++
			rejected = append(rejected, Rejected{s.Hotkey, fmt.Sprintf(format, args...)})
		}
		switch {
		case p.Protocol != Protocol:
			drop(&c.Protocol, "its payload is of protocol %d, not %d", p.Protocol, Protocol)
		case p.Window != want.Window:
			drop(&c.Window, "its payload is of window %d, its pointer of %d", p.Window, want.Window)
		case !(s.Stake >= minStake):
			drop(&c.Stake, "its stake is %.0f, want %.0f", s.Stake, minStake)
		case !s.Intact:
			drop(&c.Integrity, "forged: the payload is not the bytes that its pointer names")
		case p.Validator != s.Hotkey:
			drop(&c.Writer, "copied: its payload names the validator %.64s", p.Validator)
		case major(p.Software) != major(want.Software):
			drop(&c.Version, "its software is %.40s", p.Software)
		case p.Scoring != Scoring:
			drop(&c.Scoring, "its payload is of scoring version %d, not %d", p.Scoring, Scoring)
		default:
			kept = append(kept, s)
			signal = signal || !zero(p)
		}
	}
	if signal {
		kept = slices.DeleteFunc(kept, func(s Submission) bool {
			if zero(s.Payload) {
				c.Zero++
				rejected = append(rejected, Rejected{s.Hotkey, "it measured no cost, others did"})
				return true
			}
			return false
		})
	}
	c.Passed = len(kept)
	return kept, c, rejected
}

// target is the number of the set of scenarios that more than half of the stake has
// played, of that which says what it played; false where no set has so much.
func target(list []Submission) (spec int64, ok bool) {
	by, sum := map[int64]float64{}, 0.0
	for _, s := range list {
		if s.Payload.Spec != 0 {
			by[s.Payload.Spec] += s.Stake
			sum += s.Stake
		}
	}
	for spec, stake := range by {
		if stake > sum/2 || len(by) == 1 {
			return spec, true
		}
	}
	return 0, len(by) == 0
}

// ofSpec keeps the payloads about the target, and those that say nothing of theirs,
// as other implementations' do. It says why the others do not count.
func ofSpec(list []Submission, spec int64, c *Counts) (kept []Submission, dropped []Rejected) {
	for _, s := range list {
		if s.Payload.Spec != spec && s.Payload.Spec != 0 {
			c.Spec++
			c.Passed--
			dropped = append(dropped, Rejected{s.Hotkey, fmt.Sprintf("it played the set of scenarios %d, more than half of the stake %d", s.Payload.Spec, spec)})
			continue
		}
		kept = append(kept, s)
	}
	return kept, dropped
}

// zero says that a payload has no cost but 0.
func zero(p Payload) bool {
	for _, c := range p.Costs {
		if c != 0 {
			return false
		}
	}
	return true
}

// Result is what validators agree on about one miner.
type Result struct {
	Cost       float64 // stake-weighted median, or mean, of those that call it qualified; 0 where none does
	Qualified  bool    // by more than half of the stake that reports at all
	Stake      float64 // that calls it qualified and gives a cost
	Validators int     // how many of them
}

// Aggregate weighs payloads by stake. The world is closed: a validator that
// does not list a miner does not call it qualified. minValidators is how many
// must agree besides the stake; 0 and 1 leave it to the stake.
//
// middle takes the stake-weighted median of the costs: a mean lets a quarter of
// the stake move a cost as far as it likes. Arenas that want the plain mean have it without.
func Aggregate(list []Submission, minValidators int, middle bool) map[string]Result {
	// Sorted, so that floating-point sums are the same for everyone.
	list = slices.SortedStableFunc(slices.Values(list), func(a, b Submission) int {
		switch {
		case a.Hotkey < b.Hotkey:
			return -1
		case a.Hotkey > b.Hotkey:
			return 1
		}
		return 0
	})
	total := 0.0
	most := 0
	for _, s := range list {
		most = max(most, len(s.Payload.Costs))
	}
	names := make(map[string]struct{}, most)
	for _, s := range list {
		total += s.Stake
		for k := range s.Payload.Costs {
			names[k] = struct{}{}
		}
		for k := range s.Payload.Qualified {
			names[k] = struct{}{}
		}
	}
	out := make(map[string]Result, len(names))
	votes := make([]costVote, 0, len(list))
	for name := range names {
		var r Result
		votes = votes[:0]
		for i := range list {
			p := &list[i].Payload
			cost, given := p.Costs[name]
			if given && p.Qualified[name] {
				r.Stake += list[i].Stake
				r.Validators++
				votes = append(votes, costVote{cost, list[i].Stake})
			}
		}
		sum, weight := 0.0, 0.0
		for _, v := range votes {
			sum, weight = sum+v.stake*v.cost, weight+v.stake
		}
		switch {
		case middle:
			r.Cost = median(votes, r.Stake)
		case weight > 0:
			r.Cost = sum / weight
		}
		r.Qualified = total > 0 && r.Stake/total > 0.5 && r.Validators >= minValidators
		out[name] = r
	}
	return out
}

type costVote struct{ cost, stake float64 }

// median is the cost at which half of the stake is reached.
func median(votes []costVote, total float64) float64 {
	sorted := slices.SortedStableFunc(slices.Values(votes), func(a, b costVote) int { return cmp.Compare(a.cost, b.cost) })
	sum := 0.0
	for _, v := range sorted {
		if sum += v.stake; sum >= total/2 {
			return v.cost
		}
	}
	return 0
}

// Outvoted lists miners about whom a validator said something else than what
// was agreed: qualified or not, or a cost off by more than a tenth.
func Outvoted(s Submission, agreed map[string]Result) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(agreed)) {
		r := agreed[name]
		cost, given := s.Payload.Costs[name]
		says := given && s.Payload.Qualified[name]
		if says != r.Qualified || says && (cost < 0.9*r.Cost || cost > 1.1*r.Cost) {
			out = append(out, name)
		}
	}
	return out
}

// Owners says whose each pack is: the miner whose first commitment of it is
// the earliest. A block counts as seen once more than half of the stake reports
// it, or an earlier one; of equals the first by name. A miner whose pack is
// another's is mapped to that one.
func Owners(list []Submission) (owner map[string]string, copies map[string]string) {
	total := 0.0
	type report struct {
		block uint64
		stake float64
	}
	reports := map[[2]string][]report{} // hash, miner
	for _, s := range list {
		total += s.Stake
		for miner, at := range s.Payload.Sightings {
			k := [2]string{at.Hash, miner}
			reports[k] = append(reports[k], report{at.Block, s.Stake})
		}
	}
	type claim struct {
		miner string
		block uint64
	}
	first := map[string]claim{}
	agreed := map[[2]string]bool{}
	for _, k := range slices.SortedFunc(maps.Keys(reports), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		list := reports[k]
		slices.SortFunc(list, func(a, b report) int {
			switch {
			case a.block < b.block:
				return -1
			case a.block > b.block:
				return 1
			}
			return 0
		})
		sum := 0.0
		for _, r := range list {
			if sum += r.stake; sum > total/2 {
				agreed[k] = true
				if c, ok := first[k[0]]; !ok || r.block < c.block {
					first[k[0]] = claim{k[1], r.block}
				}
				break
			}
		}
	}
	owner, copies = map[string]string{}, map[string]string{}
	for hash, c := range first {
		owner[hash] = c.miner
	}
	for k := range agreed {
		if o := owner[k[0]]; o != k[1] {
			copies[k[1]] = o
		}
	}
	return owner, copies
}
