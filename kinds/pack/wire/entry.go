package wire

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds/pack/cost"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
)

// entry is a submission with what was played of it.
type entry struct {
	client.Submission
	pack    packFacts
	plays   []play    // in the arena's order of tasks
	reports []*report // one per validator, oldest first
}

// packFacts are what a pack says of itself.
type packFacts struct {
	Hash          string // canonical; empty: no pack that can be read
	Name, Version string
}

// play is one run, and who played it.
type play struct {
	client.Run
	scenario  string
	validator string // of the attempt that counts, else of the last
	evidence  agon.Digest
	at        time.Time
	n         int // the attempt
}

// scenario is the result of one scenario at one validator.
type scenario struct {
	Name      string   `json:"name"`
	Cost      *float64 `json:"cost"`
	Score     float64  `json:"score"`
	Qualified bool     `json:"qualified"`
	weight    float64
}

// report is what one validator says of one pack.
type report struct {
	validator, miner, hash string
	scenarios              []scenario
	qualified              bool
	cost                   *float64
	score, weight          float64
	rejected               bool
	stage, detail          *string
	at                     time.Time
	block                  int64
	model                  *string
	posted                 bool // reported over the wire, not played by lease
	seq                    int64
}

// cost is what the agent's models cost in one run, in dollars: as judged where
// that may be read, else as the attempt was billed; nil where nobody measured it.
func (p *play) cost() *float64 {
	for _, sc := range p.Scores {
		if v, ok := sc.Metrics[cost.Metric]; ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			usd := v / 1e6
			return &usd
		}
	}
	return nil
}

func (p *play) result() (scenario, bool) {
	if p.State != agon.RunScored || len(p.Scores) == 0 {
		return scenario{}, false
	}
	sc := p.Scores[0]
	weight := 1.0
	if w := sc.Metrics[kindpack.MetricWeight]; w > 0 && !math.IsInf(w, 0) {
		weight = w
	}
	return scenario{Name: p.scenario, Cost: p.cost(), Score: finite(sc.Value), Qualified: sc.Solved, weight: weight}, true
}

func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// report groups what was played by the validators that played it.
func (e *entry) report(s *snapshot) {
	by := map[string]*report{}
	for i := range e.plays {
		p := &e.plays[i]
		sc, ok := p.result()
		if !ok || p.validator == "" {
			continue
		}
		r := by[p.validator]
		if r == nil {
			r = &report{validator: p.validator, miner: e.Miner, hash: e.pack.Hash, seq: e.Seq}
			by[p.validator] = r
			e.reports = append(e.reports, r)
		}
		// Replicas of a scenario at one validator: the first stands.
		if !slices.ContainsFunc(r.scenarios, func(o scenario) bool { return o.Name == sc.Name }) {
			r.scenarios = append(r.scenarios, sc)
		}
		if p.at.After(r.at) {
			r.at = p.at
		}
	}
	for _, r := range e.reports {
		r.sum()
		// Scenarios are dealt out to validators: who played only what went well
		// does not vouch for the rest.
		r.qualified = r.qualified && (e.open() || e.status() == "passed")
		r.weight = s.share(e.ID)
		r.block = s.block(r.at)
		if stage, detail, ok := e.rejection(); ok {
			r.rejected, r.stage, r.detail = true, &stage, &detail
		}
	}
	slices.SortFunc(e.reports, func(x, y *report) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.validator, y.validator)) })
}

// sum works out the totals as validators report them: cost and score weighted
// by scenario, qualified when every scenario that was played is.
func (r *report) sum() {
	var weight, cost, costed, passed float64
	r.qualified = len(r.scenarios) > 0
	for _, sc := range r.scenarios {
		weight += sc.weight
		if sc.Qualified {
			passed += sc.weight
		} else {
			r.qualified = false
		}
		if sc.Cost != nil {
			cost, costed = cost+sc.weight**sc.Cost, costed+sc.weight
		}
	}
	if weight > 0 {
		r.score = passed / weight
	}
	if costed > 0 {
		mean := cost / costed
		r.cost = &mean
	}
}

// rejection says why a pack was not played to the end: only what a gate or the
// integrity judge refused is one.
func (e *entry) rejection() (stage, detail string, ok bool) {
	if e.State != agon.SubmissionRefused && e.State != agon.SubmissionExcluded {
		return "", "", false
	}
	stage = "integrity_check"
	if f := e.blocking(); f != nil {
		switch f.Code {
		case "incomplete":
			return "", "", false // through faults of ours
		case "schema", "no_pack", "bad_file":
			stage = "schema_validation"
		}
	}
	return stage, e.reason(), true
}

func (e *entry) blocking() *agon.Finding {
	for i := range e.Findings {
		if !e.Findings[i].Warning {
			return &e.Findings[i]
		}
	}
	return nil
}

// reason says why an entry failed; empty where it did not.
func (e *entry) reason() string {
	if why, ok := strings.CutPrefix(e.ExcludedReason, kindpack.Refused); ok {
		return plain(kindpack.CodeIntegrity+": "+why, 400) // clients look for the code
	}
	if e.ExcludedReason != "" {
		return plain(e.ExcludedReason, 400)
	}
	if e.status() != "failed" {
		return ""
	}
	for i := range e.plays {
		p := &e.plays[i]
		if sc, ok := p.result(); ok && !sc.Qualified {
			return plain(sc.Name+" is not qualified: "+cmp.Or(p.Scores[0].Detail, "see the log"), 400)
		}
	}
	return "no scenario was qualified"
}

// status is passed, failed or pending.
func (e *entry) status() string {
	switch e.State {
	case agon.SubmissionScored:
		if e.Qualified != nil && *e.Qualified {
			return "passed"
		}
		return "failed"
	case agon.SubmissionRefused, agon.SubmissionExcluded:
		return "failed"
	}
	return "pending"
}

func (e *entry) open() bool { return e.status() == "pending" }

// endedAt is when an entry was decided, or refused.
func (e *entry) endedAt() time.Time {
	switch {
	case e.Decision != nil:
		return e.Decision.At
	case e.open():
		return time.Time{}
	}
	at := e.CreatedAt
	for _, p := range e.plays {
		if p.EndedAt.After(at) {
			at = p.EndedAt
		}
	}
	return at
}

// meanCost is the plain mean of the scenarios' costs: what a pack is ranked by.
func (e *entry) meanCost() *float64 {
	sum, n := 0.0, 0
	for i := range e.plays {
		if sc, ok := e.plays[i].result(); ok && sc.Cost != nil {
			sum, n = sum+*sc.Cost, n+1
		}
	}
	if n == 0 {
		return nil
	}
	sum /= float64(n)
	return &sum
}

// divergent says whether two validators judged one scenario differently.
func (e *entry) divergent() bool {
	first := map[string]bool{}
	for _, r := range e.reports {
		for _, sc := range r.scenarios {
			if was, ok := first[sc.Name]; ok && was != sc.Qualified {
				return true
			}
			first[sc.Name] = sc.Qualified
		}
	}
	return false
}
