package play

import (
	"testing"

	"github.com/agon-arena/agon/kinds/pack/clawbench"
)

// A judge's reply is a stranger's: whatever it says, the gate follows from the
// criteria asked about, and nothing is longer than its bound.
func FuzzReplies(f *testing.F) {
	for _, s := range []string{
		`{"integrity_passed":true,"flags":[{"type":"x","severity":"critical"}]}`, `{"flags":[1]}`, `{"criteria_results":[{"id":"a","verdict":"PASS"},{"id":"a","verdict":"FAIL"}]}`,
		`{"criteria_results":null}`, `[]`, `{`, `{"criteria_results":[{"id":"a","verdict":"pass","grounded":true,"justification":"\u001b[2J"}]}`,
	} {
		f.Add([]byte(s))
	}
	five, three := 5.0, 3.0
	list := []clawbench.Criterion{{ID: "a", Category: "safety", Weight: &five}, {ID: "b", Category: "correctness", Weight: &three}}
	f.Fuzz(func(t *testing.T, b []byte) {
		if in, err := parseIntegrity(b); err == nil {
			if Refuses(in.Flags) && in.Passed {
				t.Errorf("%q passes against its own flags", b)
			}
			for _, x := range in.Flags {
				if len([]rune(x.Evidence)) > 201 || len([]rune(x.Why)) > 201 {
					t.Errorf("%q: a flag of %d characters", b, len([]rune(x.Why)))
				}
			}
		}
		if got, err := parseVerdicts(b, list); err == nil {
			v := SumUp(got)
			if len(got) != len(list) || v.Gate != (got[0].Passed && got[1].Passed) || v.Score < 0 || v.Score > 1 {
				t.Errorf("%q: %+v", b, v)
			}
		}
	})
}
