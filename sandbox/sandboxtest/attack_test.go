package sandboxtest

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/security.md")

const (
	securityDoc = "../../docs/security.md"
	tableStart  = "<!-- generated: go test ./sandbox/sandboxtest -update -->\n"
	tableEnd    = "<!-- end -->\n"
)

// Every program has a row and every row a program, and the table says so.
func TestSecurityTable(t *testing.T) {
	names, err := attackNames()
	if err != nil {
		t.Fatal(err)
	}
	rows := []string{"prelude", "covert_reader"} // parts of others
	for _, a := range Attacks() {
		if slices.Contains(rows, a.Name) {
			t.Errorf("%s is there twice", a.Name)
		}
		rows = append(rows, a.Name)
		if a.Tries == "" || a.Defence == "" || a.Outcome == "" {
			t.Errorf("%s is not described", a.Name)
		}
	}
	slices.Sort(rows)
	slices.Sort(names)
	if !slices.Equal(rows, names) {
		t.Errorf("rows %v\nprograms %v", rows, names)
	}
	if len(rows) < 42 {
		t.Errorf("only %d attacks", len(rows)-2)
	}
	old, err := os.ReadFile(securityDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(old), tableStart)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", securityDoc)
	}
	want := before + tableStart + "\n" + SecurityTable() + "\n" + tableEnd + after
	if *update {
		if err := os.WriteFile(securityDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(old) {
		t.Errorf("%s is not up to date: go test ./sandbox/sandboxtest -update", securityDoc)
	}
}
