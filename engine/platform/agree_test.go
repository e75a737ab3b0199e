package platform

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// Three validators play everything, each replica another one; the one whose
// results are of another kind is named, and counts nothing.
func TestDisagreementIsExcluded(t *testing.T) {
	const tasks = 8
	f := newFixture(t, tasks, func(_ *Config, a *agon.Arena) { a.Replicas = 3 })
	s := f.submit(miner1, "one")
	truth := func(l *client.Lease) float64 {
		if strings.HasSuffix(l.Run.Tasks[0].Key, "0") || strings.HasSuffix(l.Run.Tasks[0].Key, "5") {
			return 0
		}
		return 1
	}
	seen := map[string]map[string]bool{}
	for range 3 * tasks {
		for _, v := range []string{val1, val2, val3} {
			l := f.claim(v)
			if l == nil {
				continue
			}
			key := l.Run.Tasks[0].Key
			if seen[key] == nil {
				seen[key] = map[string]bool{}
			}
			if seen[key][v] {
				t.Fatalf("%s played %s twice", v, key)
			}
			seen[key][v] = true
			value := truth(l)
			if v == val3 { // its encoder is broken: every answer is right to it
				value = 1 - value
			}
			f.result(v, l, scored(l, value))
		}
	}
	got, err := f.Submission(bg, Caller{}, s.ID)
	must(t, err)
	if got.State != agon.SubmissionScored || got.Score == nil || *got.Score != 0.75 || *got.Solved != 6 || *got.Total != tasks {
		t.Fatalf("%s, score %v, %v of %v", got.State, got.Score, got.Solved, got.Total)
	}
	var named []string
	for _, x := range got.Findings {
		if x.Code == FindingDisagreement {
			named = append(named, x.Field)
			if !strings.Contains(x.Message, "8 of 8 tasks") {
				t.Errorf("the finding says %q", x.Message)
			}
		}
	}
	if len(named) != 1 || named[0] != val3 {
		t.Errorf("excluded %v", named)
	}
	// The page of validators says the same.
	list, err := f.Agreement(bg, "demo")
	must(t, err)
	if len(list) != 3 {
		t.Fatalf("%d standings", len(list))
	}
	for _, x := range list {
		if x.Flagged != (x.Validator == val3) || (x.Flagged && (x.Items != tasks || x.Deviates != tasks)) {
			t.Errorf("standing %+v", x)
		}
	}
}
