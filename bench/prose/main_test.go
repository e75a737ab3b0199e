package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jdkato/prose/v3/segment"
)

// Each sort of text is read where it stands, and code is not read at all.
func TestFindings(t *testing.T) {
	rules, err := parseRules("# words\n\\bbad word\\b => another\n\\bis no \\w+ unless no longer$ => is not\n")
	if err != nil || len(rules) != 2 {
		t.Fatalf("%d rules, %v", len(rules), err)
	}
	seg, err := segment.New()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("word ", maxWords+1) + "."
	goFile := "// Package p has a bad\n// word.\npackage p\n\n//go:generate bad word\n\n// It is no longer here. It is no bird.\nvar s = \"one bad word in an error\"\n\nvar q = \"SELECT bad word FROM x WHERE y\"\n\n// " + long + "\nvar r = `bad word`\n"
	page := "A bad word, `bad word` and\nis no x.\n\n```\nbad word\n```\n\n| a | bad word |\n\n- " + strings.Repeat("one two; ", maxWords) + "\n"
	list, err := source("p.go", []byte(goFile))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range check(append(list, markdown("p.md", page)...), rules, seg) {
		got = append(got, fmt.Sprintf("%s:%d %s", f.file, f.line, strings.Fields(f.what)[0]))
	}
	want := `p.go:1 "bad, p.go:7 "is, p.go:8 "bad, p.go:12 a, p.md:1 "bad, p.md:2 "is, p.md:8 "bad`
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	for _, bad := range []string{"phrase", "( => x", "a unless ( => x", "a => "} {
		if _, err := parseRules(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
