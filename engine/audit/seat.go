package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/translog"
)

// seeds computes the seeds of the runs again, when the secret of their set
// period has been shown.
func (k *checker) seeds(ctx context.Context) {
	s, p := k.b.Submission, k.b.Seeds
	switch {
	case s.Beacon == nil || s.Beacon.Period < 0:
		k.open("seeds", "the submission is older than seeds that can be computed again")
		return
	case p == nil:
		k.open("seeds", "the server shows nothing of set period %d", s.Beacon.Period)
		return
	case p.Period != s.Beacon.Period || p.Arena != k.b.Arena.ID:
		k.wrong("seeds", "what is shown is of set period %d of arena %q", p.Period, p.Arena)
		return
	}
	if !k.promised(translog.TypeSeeds, *p) {
		return
	}
	switch {
	case p.Secret == "" && p.Unverifiable:
		k.open("seeds", "the secret of set period %d was not shown in time: nobody can compute its seeds", p.Period)
		return
	case p.Secret == "":
		k.open("seeds", "the secret of set period %d is shown when it ends, %s", p.Period, p.Closes.UTC().Format("2006-01-02 15:04 MST"))
		return
	}
	if c, err := seeds.Commitment(p.Secret); err != nil || c != p.Commitment {
		k.wrong("seeds", "the secret of set period %d is not what was committed to", p.Period)
		return
	}
	if !k.promised(translog.TypeReveal, *p) {
		return
	}
	n, others, later := 0, 0, 0
	for i := range k.b.Runs {
		r := k.b.Runs[i].Run
		if r.Title != nil {
			known, ok := k.titleSeed(r)
			if !ok {
				return
			}
			if known {
				n++
			} else {
				later++
			}
			continue
		}
		if r.Rival != nil && r.Rival.Side == agon.SideIncumbent {
			others++ // a half of somebody else's challenge
			continue
		}
		want, err := seeds.Of(p.Secret, seeds.SourceOf(k.b.Arena.Arena, r.RunSpec, s.ID, *s.Beacon))
		if err != nil || want != r.Seed {
			k.wrong("seeds", "run %s has seed %d, its sources give %d", r.RunSpec.Run, r.Seed, want)
			return
		}
		n++
	}
	for _, r := range k.b.Rivals {
		want, err := seeds.Of(p.Secret, seeds.SourceOf(k.b.Arena.Arena, r.RunSpec, s.ID, *s.Beacon))
		if err != nil || want != r.Seed {
			k.wrong("seeds", "run %s of the incumbent has seed %d, its sources give %d", r.RunSpec.Run, r.Seed, want)
			return
		}
		n++
	}
	k.ok("seeds", "of %d runs, from the secret that was committed to before", n)
	if others > 0 {
		k.open("seeds of others", "%d runs are halves of other submissions' challenges", others)
	}
	if later > 0 {
		k.open("seeds of later sets", "%d runs are on sets of periods whose secrets are shown when they end", later)
	}
	if s.Beacon.Rule == agon.BeaconBlock {
		k.beacon(ctx, s.Beacon)
	}
}

// beacon compares the hash of the block that seeds come of with the chain's.
func (k *checker) beacon(ctx context.Context, b *agon.Beacon) {
	if k.o.BlockHash == nil {
		k.open("beacon", "the server says that block %d has the hash %s: compare it with the chain", b.Block, b.Hash)
		return
	}
	switch hash, err := k.o.BlockHash(ctx, b.Block); {
	case err != nil:
		k.open("beacon", "the chain was asked for block %d: %v", b.Block, err)
	case hash == "":
		k.wrong("beacon", "the server says that block %d has the hash %.80s, and the chain does not have that block", b.Block, b.Hash)
	case !strings.EqualFold(hash, b.Hash):
		k.wrong("beacon", "the server says that block %d has the hash %.80s, the chain says %.80s", b.Block, b.Hash, hash)
	default:
		k.ok("beacon", "block %d has the hash that the seeds come of, as the chain says", b.Block)
	}
}

// titleSeed computes the seed of a run on the set of a later period; known is
// false where that period's secret is not shown yet.
func (k *checker) titleSeed(r client.Run) (known, ok bool) {
	i := slices.IndexFunc(k.b.Later, func(p client.SeedPeriod) bool { return p.Period == r.Title.Period && p.Arena == k.b.Arena.ID })
	if i < 0 || k.b.Later[i].Secret == "" {
		return false, true
	}
	p := k.b.Later[i]
	if c, err := seeds.Commitment(p.Secret); err != nil || c != p.Commitment {
		k.wrong("seeds", "the secret of set period %d is not what was committed to", p.Period)
		return false, false
	}
	if !k.promised(translog.TypeSeeds, p) || !k.promised(translog.TypeReveal, p) {
		return false, false
	}
	if p.Beacon != r.Title.Beacon {
		k.wrong("seeds", "run %s has the beacon %.80q, set period %d has %.80q", r.RunSpec.Run, r.Title.Beacon, p.Period, p.Beacon)
		return false, false
	}
	want, err := seeds.Of(p.Secret, seeds.SourceOf(k.b.Arena.Arena, r.RunSpec, k.b.Submission.ID, agon.Beacon{}))
	if err != nil || want != r.Seed {
		k.wrong("seeds", "run %s has seed %d, its sources give %d", r.RunSpec.Run, r.Seed, want)
		return false, false
	}
	return true, true
}

// promised checks the leaf of a set period's commitment or secret.
func (k *checker) promised(typ string, p client.SeedPeriod) bool {
	id, what := translog.SeedsID(typ, p.Arena, p.Period), "seed commitment"
	if typ == translog.TypeReveal {
		what = "seed secret"
	}
	if k.Log == nil {
		return true // said already: there is no log
	}
	e, ok := k.entry(what, typ, id, nil)
	if !ok {
		return false
	}
	var said client.SeedPeriod
	if err := json.Unmarshal(e.Body, &said); err != nil {
		k.wrong(what, "the log's entry of %s cannot be read: %v", id, err)
		return false
	}
	times := said.Opens.Equal(p.Opens) && (said.Closes.Equal(p.Closes) || p.Secret == "" && !p.Closes.After(said.Closes)) // a period whose secret is lost ends early
	if said.ClosesBlock > 0 {                                                                                             // the times are estimates
		times = said.OpensBlock == p.OpensBlock && said.ClosesBlock == p.ClosesBlock
	}
	if said.Commitment != p.Commitment || said.Arena != p.Arena || said.Period != p.Period || !times ||
		typ == translog.TypeReveal && said.Secret != p.Secret {
		k.wrong(what, "the log says otherwise of set period %d: %.200s", p.Period, e.Body)
		return false
	}
	mine, sub := k.b.Proofs[typ+"/"+id], k.b.Proofs[translog.TypeSubmission+"/"+k.b.Submission.ID]
	own := k.b.Seeds != nil && p.Period == k.b.Seeds.Period
	if typ == translog.TypeSeeds && own && sub != nil && mine.Index > sub.Index {
		k.wrong(what, "the commitment stands after the submission in the log")
		return false
	}
	k.ok(what, "entry %d of the log", mine.Index)
	return true
}

// paired computes the evidence of a decision by pairs from the pairs.
func (k *checker) paired(d *agon.Decision) {
	if k.Run != "" || d.Rule != incentive.PairedRule {
		return
	}
	if len(k.b.Missing) > 0 || d.Incumbent != "" && len(k.b.Rivals) == 0 {
		k.open("evidence", "the bundle does not have both halves of every pair")
		return
	}
	if k.o.Pair == nil && !k.b.plainScores() {
		k.open("evidence", "the kind compares scores in a way of its own, which needs its program")
		return
	}
	rule := incentive.Paired()
	c := incentive.Contested{Numbers: rule.Of(k.b.Arena.IncentiveNumbers), Attempt: int(d.Numbers["attempt"]), Solved: 1}
	c.Streams = k.b.streams(d.Incumbent, c.Numbers, k.o.Pair)
	got := rule.Pairing.Decide(c).Numbers
	for _, name := range slices.Sorted(maps.Keys(got)) {
		switch name {
		case "cost_usd", "max_usd", "money_ended", "outcome", "attempt":
			continue // of money, and what follows of it
		}
		if want := d.Numbers[name]; math.Abs(got[name]-want) > 1e-9*max(1, math.Abs(want)) {
			k.wrong("evidence", "%s: the pairs give %g, the decision says %g", name, got[name], want)
			return
		}
	}
	if d.Outcome == agon.TookSeat && !(got["seated_by"] >= got["agree"]) {
		k.wrong("evidence", "it took the seat, but %g validators' pairs say so where %g must", got["seated_by"], got["agree"])
		return
	}
	k.ok("evidence", "%g from %g pairs, as the pairs give it; it needs %g", got["evidence"], got["pairs"], got["need"])
	k.open("attempt", "that this is attempt %g of its owner is the server's word", d.Numbers["attempt"])
}

// plainScores reports whether no run of the bundle has metrics that a kind may compare by.
func (b *Bundle) plainScores() bool {
	for i := range b.Runs {
		for _, s := range b.Runs[i].Run.Scores {
			if len(s.Metrics) > 0 {
				return false
			}
		}
	}
	return true
}

// streams puts the halves of a challenge into pairs, by validator and round, as
// the platform does.
func (b *Bundle) streams(rival string, n map[string]float64, pair func(n map[string]float64, challenger, incumbent agon.Score, baseline bool) incentive.Pair) []incentive.Stream {
	if pair == nil {
		pair = func(_ map[string]float64, c, i agon.Score, _ bool) incentive.Pair {
			return incentive.Pair{Challenger: c.Value, Incumbent: i.Value}
		}
	}
	type slot struct {
		validator      string
		round, replica int
	}
	by := func(r client.Run) string {
		for _, t := range r.List {
			if t.Counted {
				return t.Validator
			}
		}
		return ""
	}
	theirs := map[slot]client.Run{}
	for _, r := range b.Rivals {
		if r.State == agon.RunScored && r.Rival != nil && r.Rival.Submission == b.Submission.ID {
			theirs[slot{by(r), r.Rival.Round, r.Replica}] = r
		}
	}
	var mine []client.Run
	for i := range b.Runs {
		r := b.Runs[i].Run
		if r.State == agon.RunScored && r.Rival != nil && r.Rival.Side == agon.SideChallenger && r.Rival.Submission == rival && by(r) != "" {
			mine = append(mine, r)
		}
	}
	slices.SortStableFunc(mine, func(x, y client.Run) int {
		return cmp.Or(cmp.Compare(by(x), by(y)), cmp.Compare(x.Rival.Round, y.Rival.Round), cmp.Compare(x.Replica, y.Replica))
	})
	var out []incentive.Stream
	last := -1
	for _, r := range mine {
		v := by(r)
		held, ok := theirs[slot{v, r.Rival.Round, r.Replica}]
		if rival != "" && !ok {
			continue
		}
		if len(out) == 0 || out[len(out)-1].Validator != v {
			out, last = append(out, incentive.Stream{Validator: v}), -1
		}
		s := &out[len(out)-1]
		if r.Rival.Round != last {
			last = r.Rival.Round
			s.Rounds = append(s.Rounds, nil)
		}
		for _, c := range r.Scores {
			i := agon.Score{Task: c.Task, Value: n[incentive.NumBaseline]}
			if rival != "" {
				at := slices.IndexFunc(held.Scores, func(o agon.Score) bool { return o.Task == c.Task })
				if at < 0 {
					continue
				}
				i = held.Scores[at]
			}
			now := &s.Rounds[len(s.Rounds)-1]
			*now = append(*now, pair(n, c, i, rival == ""))
		}
	}
	return out
}
