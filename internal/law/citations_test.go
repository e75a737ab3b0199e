package law

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// citation is spec/NAME.md, with or without a section; a line may end within.
	citation = regexp.MustCompile(`\bspec/([a-z]+)\.md(?:[\s/*#]+(?:section )?(\d+(?:\.\d+)?))?`)
	also     = regexp.MustCompile(`^(?:,| and| to)\s+(\d+(?:\.\d+)?)\b`)
	// blind are citations that lead nowhere: a number without a page, a rule of a list that is not here.
	blind   = regexp.MustCompile(`\(spec \d+\.\d|\bspec \d\.\d|\bdesign rule \d`)
	heading = regexp.MustCompile(`(?m)^## (\d+(?:\.\d+)?) \S`)
	source  = regexp.MustCompile(`(?m)^Upstream: .*https://github\.com/`)
	commit  = regexp.MustCompile("`[0-9a-f]{7,40}`")
)

// sections returns the numbers of a page's sections, and what it lacks.
func sections(page string) (list map[string]bool, lack string) {
	list = map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		list[m[1]] = true
	}
	switch {
	case len(list) == 0:
		lack = "it has no numbered section"
	case !source.MatchString(page):
		lack = "it names no repository (Upstream: …)"
	case !commit.MatchString(page):
		lack = "it names no commit"
	}
	return list, lack
}

// unresolved returns the citations of a text that no page answers.
func unresolved(text string, pages map[string]map[string]bool) (out []string) {
	out = append(out, blind.FindAllString(text, -1)...)
	for _, at := range citation.FindAllStringSubmatchIndex(text, -1) {
		page := pages[text[at[2]:at[3]]]
		if page == nil {
			out = append(out, text[at[0]:at[1]])
			continue
		}
		if at[4] < 0 {
			continue
		}
		numbers, rest := []string{text[at[4]:at[5]]}, text[at[1]:]
		for m := also.FindStringSubmatch(rest); m != nil; m = also.FindStringSubmatch(rest) {
			numbers, rest = append(numbers, m[1]), rest[len(m[0]):]
		}
		for _, n := range numbers {
			if !page[n] {
				out = append(out, text[at[0]:at[1]]+" (section "+n+")")
			}
		}
	}
	return out
}

// Every contract of others that a comment cites stands in docs/spec, with its source.
func TestCitations(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(repo, "docs", "spec", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]map[string]bool{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if base := strings.TrimSuffix(filepath.Base(name), ".md"); base != "README" {
			var lack string
			if pages[base], lack = sections(string(b)); lack != "" {
				t.Errorf("docs/spec/%s.md: %s", base, lack)
			}
		}
	}
	n := 0
	for name, b := range tracked(t, "*.go", "*.py", "*.md") {
		if strings.HasPrefix(name, "internal/law/") || strings.Contains(name, "/data/") {
			continue
		}
		n += len(citation.FindAll(b, -1))
		for _, c := range unresolved(string(b), pages) {
			t.Errorf("%s cites %q, which docs/spec does not answer", name, c)
		}
	}
	if n < 40 {
		t.Errorf("only %d citations were found", n)
	}
}

func TestUnresolved(t *testing.T) {
	pages := map[string]map[string]bool{}
	pages["a"], _ = sections("# A\n\nUpstream: https://github.com/x/y at `0123abc`.\n\n## 1 One\n\n## 2.3 Two\n\n### 4 None\n")
	for text, want := range map[string]int{
		"as spec/a.md 1 says": 0, "(spec/a.md 2.3)": 0, "spec/a.md": 0, "spec/a.md\n// 1": 0, "spec/a.md section 1": 0, "spec/a.md 1 and 2.3": 0,
		"spec/a.md 4": 1, "spec/b.md": 1, "spec/a.md 1 and 5": 1, "spec/a.md\n// 9": 1, "spec 2.1": 1, "design rule 3": 1, "spec/a.md 1, 7": 1, "runtime spec 424": 0,
	} {
		if got := unresolved(text, pages); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
	for page, want := range map[string]string{"# A\n": "section", "## 1 One\n": "repository", "Upstream: https://github.com/x/y\n\n## 1 One\n": "commit"} {
		if _, lack := sections(page); !strings.Contains(lack, want) {
			t.Errorf("%q: %q, want %q", page, lack, want)
		}
	}
}
