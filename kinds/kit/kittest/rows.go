package kittest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Rows checks a table of what a field does and what of it holds here (rows.md of a kind):
// its want rows are numbered from 1, a row that holds names tests by package and name,
// and every test that a row names is there. root is the module's folder.
func Rows(t *testing.T, file, root string, want int) {
	t.Helper()
	have := testsBelow(t, root)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	test := regexp.MustCompile(`\b\w+\.Test\w+`)
	n := 0
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]+) \| (\w+) \| ([^|]+) \|$`).FindAllStringSubmatch(string(b), -1) {
		n++
		if m[1] != strconv.Itoa(n) {
			t.Errorf("row %s stands where row %d should", m[1], n)
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
	if n != want {
		t.Errorf("%d rows, want %d", n, want)
	}
}

// testsBelow are the tests of all files below root, by package and name.
func testsBelow(t *testing.T, root string) map[string]bool {
	t.Helper()
	have := map[string]bool{}
	def := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	pkg := regexp.MustCompile(`(?m)^package (\w+)`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
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
	return have
}
