package score

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Record is what one validator made of one episode: its score fields by name,
// and "success" as 0 or 1.
type Record map[string]float64

// Report is one validator's records, by episode. Validators that are compared
// score the same episodes: those that the gateway has attested.
type Report struct {
	Validator string            `json:"validator"`
	Records   map[string]Record `json:"records"`
}

// PanelRule says when validators disagree.
type PanelRule struct {
	// Tolerance is how far a field may be from another to count as equal; 0 = 1e-9.
	Tolerance float64
	// MaxShare is the share of compared episodes on which a validator may differ; 0 = none.
	MaxShare float64
}

// Flag tells of a validator that is left out.
type Flag struct {
	Validator string   `json:"validator"`
	Differs   int      `json:"differs"`  // episodes on which it stands alone or with a minority
	Compared  int      `json:"compared"` // episodes that were compared
	Fields    []string `json:"fields"`   // that differ, by name
	Episodes  []string `json:"episodes"` // the first ten
}

// Panel is what several validators make together.
type Panel struct {
	Accepted []string `json:"accepted"` // validators
	Flagged  []Flag   `json:"flagged"`
	// Undecided are episodes of which no record has more than half of the validators behind it.
	Undecided []string `json:"undecided"`
	// SuccessRate is the mean success of the records that stand; null where none does.
	SuccessRate *float64 `json:"success_rate"`
	// Standing holds the record of each decided episode.
	Standing map[string]Record `json:"standing"`
}

// Limits of a panel.
const (
	maxPanel   = 101
	maxRecords = 10_000
)

// Agree compares validators on the same episodes. The record of an episode that
// more than half of the validators that scored it, and at least two, agree on
// stands. A validator that differs from standing records on more than MaxShare
// of its episodes is flagged and left out, and with it everything that it
// alone has said. Validators that are wrong together outvote one that is right:
// the rule finds a broken one, not a conspiracy.
func Agree(rule PanelRule, reports []Report) (*Panel, error) {
	if rule.Tolerance == 0 {
		rule.Tolerance = 1e-9
	}
	if len(reports) == 0 || len(reports) > maxPanel || !(rule.Tolerance >= 0) || !(rule.MaxShare >= 0 && rule.MaxShare < 1) {
		return nil, fmt.Errorf("panel: want 1 to %d reports, a tolerance of at least 0 and a share in [0, 1)", maxPanel)
	}
	reports = slices.SortedFunc(slices.Values(reports), func(a, b Report) int { return cmp.Compare(a.Validator, b.Validator) })
	votes := map[string][]int{} // episode -> reports that have it
	for i, r := range reports {
		if r.Validator == "" || (i > 0 && r.Validator == reports[i-1].Validator) {
			return nil, errors.New("panel: validators want different names")
		}
		if len(r.Records) > maxRecords {
			return nil, fmt.Errorf("panel: %.60q has more than %d records", r.Validator, maxRecords)
		}
		for e := range r.Records {
			votes[e] = append(votes[e], i)
		}
	}
	p := &Panel{Accepted: []string{}, Flagged: []Flag{}, Undecided: []string{}, Standing: map[string]Record{}}
	flags := make([]Flag, len(reports))
	fields := make([]map[string]bool, len(reports))
	for _, e := range slices.Sorted(maps.Keys(votes)) {
		best, backing := -1, 0
		for _, i := range votes[e] {
			n := 0
			for _, j := range votes[e] {
				if len(differ(rule.Tolerance, reports[i].Records[e], reports[j].Records[e])) == 0 {
					n++
				}
			}
			if n > backing {
				best, backing = i, n
			}
		}
		if backing < 2 || 2*backing <= len(votes[e]) {
			p.Undecided = append(p.Undecided, e)
			continue
		}
		p.Standing[e] = reports[best].Records[e]
		for _, i := range votes[e] {
			flags[i].Compared++
			d := differ(rule.Tolerance, p.Standing[e], reports[i].Records[e])
			if len(d) == 0 {
				continue
			}
			if flags[i].Differs++; len(flags[i].Episodes) < 10 {
				flags[i].Episodes = append(flags[i].Episodes, e)
			}
			if fields[i] == nil {
				fields[i] = map[string]bool{}
			}
			for _, f := range d {
				fields[i][f] = true
			}
		}
	}
	for i, r := range reports {
		f := flags[i]
		if float64(f.Differs) > rule.MaxShare*float64(f.Compared) {
			f.Validator, f.Fields = r.Validator, slices.Sorted(maps.Keys(fields[i]))
			p.Flagged = append(p.Flagged, f)
		} else {
			p.Accepted = append(p.Accepted, r.Validator)
		}
	}
	if len(p.Standing) > 0 {
		sum := 0.0
		for _, r := range p.Standing {
			sum += r["success"]
		}
		rate := sum / float64(len(p.Standing))
		p.SuccessRate = &rate
	}
	return p, nil
}

// differ lists the fields in which two records differ, sorted.
func differ(tolerance float64, a, b Record) []string {
	var out []string
	for k, v := range a {
		if w, ok := b[k]; !ok || !(math.Abs(v-w) <= tolerance) {
			out = append(out, k)
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}
