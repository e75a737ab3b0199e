package claim

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Each row of the table of what the field does names tests that are there, by package
// and name, or says what is missing.
func TestRows(t *testing.T) {
	have := map[string]bool{}
	def := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	pkg := regexp.MustCompile(`(?m)^package (\w+)`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "../.." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		of := strings.TrimSuffix(string(pkg.FindSubmatch(b)[1]), "_test")
		for _, m := range def.FindAllSubmatch(b, -1) {
			have[of+"."+string(m[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("rows.md")
	if err != nil {
		t.Fatal(err)
	}
	test := regexp.MustCompile(`\b\w+\.Test\w+`)
	n := 0
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]+) \| (\w+) \| ([^|]+) \|$`).FindAllStringSubmatch(string(b), -1) {
		n++
		if want := n; m[1] != strconv.Itoa(want) {
			t.Errorf("row %s stands where row %d should", m[1], want)
		}
		tests := test.FindAllString(m[4], -1)
		for _, x := range tests {
			if !have[x] {
				t.Errorf("row %s: there is no %s", m[1], x)
			}
		}
		if m[3] != "partly" && (m[3] != "holds" || len(tests) == 0) {
			t.Errorf("row %s: %s by %d tests", m[1], m[3], len(tests))
		}
	}
	if n != 52 {
		t.Errorf("%d rows", n)
	}
}
