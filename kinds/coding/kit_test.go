package coding

import (
	"bytes"
	"strings"
	"testing"

	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/kinds/coding/ridges"
)

// Decisions that were stored under the rule's earlier name are recomputed under
// it, with the same answers as under the arena's own.
func TestEarlierNameOfTheRule(t *testing.T) {
	const in = `{"score":0.5,"incumbent":null}
{"score":0.5,"incumbent":0.5}
{"score":0.5075,"incumbent":0.5}
{"score":0.5}
`
	const want = `{"bar":null,"takes":true}
{"bar":0.5075,"takes":false}
{"bar":0.5075,"takes":true}
{"bar":null,"takes":true}
`
	reg := calc.New(append(Kit().Calc, incentive.Rules()...)...)
	for _, rule := range []string{"coding.takeover", "winner_takes_all"} {
		var out bytes.Buffer
		if bad, err := reg.Run(rule, strings.NewReader(in), &out); err != nil || bad != 0 || out.String() != want {
			t.Errorf("%s: %d bad, %v\n%s", rule, bad, err, &out)
		}
	}
}

// A run of an arena that names no number of retries is played as often as Ridges tries one.
func TestRetriesAreThoseOfRidges(t *testing.T) {
	if n := Kit().Demo().Attempts; n == nil || *n+1 != ridges.MaxAttempts {
		t.Errorf("retries: %v, want %d", n, ridges.MaxAttempts-1)
	}
}
