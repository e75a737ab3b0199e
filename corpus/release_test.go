package corpus

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A release has no row of the split held, in no file; its card tells how many
// different queries there are, what overlapped with public benchmarks, where the
// clusters stand, and the licences.
func TestRelease(t *testing.T) {
	s := newSource(40)
	for i := range 40 {
		s.play(i, "sub-a", i, words(i+1), fmt.Sprint("x", i), 1)
	}
	p := NewPoison()
	if err := p.Add("public-tests.txt", strings.NewReader(words(3)+"\n")); err != nil {
		t.Fatal(err)
	}
	whole, all := build(t, s, func(c *Config) { c.Poison = p })
	r, m := build(t, s, func(c *Config) { c.Poison, c.Release = p, true })
	held, err := os.ReadFile(filepath.Join(whole.Dir, "held", "rows.jsonl"))
	if err != nil || len(held) == 0 || all.Counts.Withheld != 0 {
		t.Fatalf("nothing is held: the test shows nothing; %v", err)
	}
	n := strings.Count(string(held), "\n")
	if m.Counts.Withheld != n || m.Counts.Rows != all.Counts.Rows-n {
		t.Errorf("%d rows, %d withheld, of %d and %d", m.Counts.Rows, m.Counts.Withheld, all.Counts.Rows, n)
	}
	var queries []string // of the rows that are held
	for i := range 40 {
		if strings.Contains(string(held), `"`+words(i+1)+`"`) {
			queries = append(queries, words(i+1))
		}
	}
	if len(queries) != n {
		t.Fatalf("%d queries of %d rows", len(queries), n)
	}
	err = filepath.WalkDir(r.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(path, "held") {
			t.Errorf("%s is in the release", path)
		}
		for _, q := range queries {
			if strings.Contains(string(b), q) {
				t.Errorf("%s has a query that is held", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	card, err := os.ReadFile(filepath.Join(r.Dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"license: mit\n", "configs:", fmt.Sprintf("| different queries | %d, 1.0 rows each |", m.Counts.Rows),
		"| public benchmark public-tests.txt | 1 rows overlapped and were cut |", "none stands in two splits",
		fmt.Sprintf("%d rows of the split held are not in this release", n), "MIT",
	} {
		if !strings.Contains(string(card), want) {
			t.Errorf("the card does not say %q:\n%s", want, card)
		}
	}
}
