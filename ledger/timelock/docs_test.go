package timelock

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/ledger/scale"
)

// TestDocs runs the examples of docs/calc.md.
func TestDocs(t *testing.T) {
	t.Chdir("../..")
	b, err := os.ReadFile("docs/calc.md")
	if err != nil {
		t.Fatal(err)
	}
	reg := calc.New(slices.Concat(Rules(), scale.Rules())...)
	rule, in, ran := "", "", 0
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "## "):
			rule = line[3:]
		case strings.HasPrefix(line, `{"`):
			in = line
		case strings.HasPrefix(line, "=> "):
			var out bytes.Buffer
			if _, err := reg.Run(rule, strings.NewReader(in), &out); err != nil || "=> "+strings.TrimSpace(out.String()) != line {
				t.Errorf("%s %s:\n %s %v\nthe page says %s", rule, in, out.String(), err, line)
			}
			ran++
		}
	}
	if ran < 40 {
		t.Errorf("only %d examples", ran)
	}
}
