package main

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/kinds"
)

// Each rule has an example, in one line, that it answers; those that need a
// file of a chain's metadata have none.
func TestExamplesOfCalc(t *testing.T) {
	reg := roles.Rules(kinds.All())
	for _, rule := range reg.Rules() {
		in := reg.Example(rule)
		if in == "" {
			if !strings.Contains(reg.Doc(rule), "metadata (file)") {
				t.Errorf("%s has no example", rule)
			}
			continue
		}
		var out strings.Builder
		if bad, err := reg.Run(rule, strings.NewReader(in+"\n"), &out); err != nil || bad != 0 {
			t.Errorf("%s: its example is answered %s (%v)", rule, out.String(), err)
		}
		if strings.Contains(in, "\n") || len(in) > 1600 {
			t.Errorf("%s: an example of %d bytes", rule, len(in))
		}
	}
}
