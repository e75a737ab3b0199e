// Command prose reads the comments of the code, its sentences for people
// (string literals) and the docs. It fails on a phrase of words.txt and on a
// sentence that is too long to be read once. It prints how easy the rest reads.
//
// Sentences and scores are those of github.com/jdkato/prose, the library behind
// the linter vale. Vale itself is not used: it compiles 25 grammars with a C
// compiler, which takes longer than all other lint.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jdkato/prose/v3/segment"
	"github.com/jdkato/prose/v3/summarize"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// maxWords is the length of the longest sentence that passes, in words; a
// semicolon ends one too.
const maxWords = 60

// leastEase is the least Flesch reading ease of each kind of text: 0 is a
// contract, 60 is plain English for adults, 100 a text for children.
var leastEase = map[string]float64{"comments": 70, "docs": 70}

// passage is some text of a file without its marks.
type passage struct {
	kind string // comments, docs, strings
	file string
	line int // of its first line
	text string
}

// rule is one line of words.txt.
type rule struct {
	phrase *regexp.Regexp
	fine   *regexp.Regexp // matches of phrase that pass; nil: none
	say    string
}

// finding is one phrase or sentence that does not pass.
type finding struct {
	file string
	line int
	what string
}

func main() {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

func start() error {
	b, err := os.ReadFile("bench/prose/words.txt")
	if err != nil {
		return err
	}
	rules, err := parseRules(string(b))
	if err != nil {
		return fmt.Errorf("bench/prose/words.txt: %w", err)
	}
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.go", "*.md").Output()
	if err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	var all []passage
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		list, err := read(name)
		if err != nil {
			return err
		}
		all = append(all, list...)
	}
	seg, err := segment.New()
	if err != nil {
		return err
	}
	list := check(all, rules, seg)
	for _, f := range list {
		fmt.Printf("%s:%d: %s\n", f.file, f.line, f.what)
	}
	hard := figures(all, seg)
	fmt.Printf("prose: %d rules, %d findings\n", len(rules), len(list))
	if len(list) > 0 || hard != "" {
		return fmt.Errorf("%d findings%s", len(list), hard)
	}
	return nil
}

// parseRules reads lines "PHRASE => ADVICE" and "PHRASE unless FINE => ADVICE",
// both regular expressions that ignore case. Empty lines and lines that begin
// with # say nothing.
func parseRules(text string) ([]rule, error) {
	var list []rule
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		p, say, ok := strings.Cut(line, " => ")
		if !ok || say == "" {
			return nil, fmt.Errorf("line %d: want PHRASE => ADVICE", i+1)
		}
		p, fine, excepted := strings.Cut(strings.TrimSpace(p), " unless ")
		// A phrase may go on in the next line.
		re, err := regexp.Compile(`(?i)` + strings.ReplaceAll(p, " ", `\s+`))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		r := rule{phrase: re, say: say}
		if excepted {
			if r.fine, err = regexp.Compile(`(?i)` + strings.ReplaceAll(fine, " ", `\s+`)); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		}
		list = append(list, r)
	}
	return list, nil
}

// read returns the passages of a file; none of files that are data, generated or foreign.
func read(name string) ([]passage, error) {
	for _, part := range []string{"/data/", "/testdata/", "/tasks/", "/template/", "/prompts/", "/sprout/", "docs/cli.md"} {
		if strings.Contains("/"+name, part) || name == part {
			return nil, nil
		}
	}
	b, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil, nil // removed, and not committed yet
	}
	if err != nil {
		return nil, err
	}
	if filepath.Ext(name) == ".md" {
		return markdown(name, string(b)), nil
	}
	return source(name, b)
}

// source returns the comments of a Go file, and outside of tests its string
// literals that are sentences: errors, help and pages.
func source(name string, b []byte) ([]passage, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, b, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(f) {
		return nil, nil
	}
	var out []passage
	for _, g := range f.Comments {
		var lines []string
		for _, c := range g.List {
			t := strings.TrimPrefix(c.Text, "//")
			t = strings.TrimSuffix(strings.TrimPrefix(t, "/*"), "*/")
			if directive().MatchString(t) || strings.HasPrefix(t, "\t") || strings.HasPrefix(t, "  ") {
				t = "" // a directive, or an example in its own form
			}
			lines = append(lines, strings.TrimPrefix(t, " "))
		}
		out = append(out, passage{"comments", name, set.Position(g.Pos()).Line, strings.Join(lines, "\n")})
	}
	if strings.HasSuffix(name, "_test.go") {
		return out, nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		l, ok := n.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING {
			return true
		}
		if s, err := strconv.Unquote(l.Value); err == nil && len(strings.Fields(s)) >= 4 && !code().MatchString(s) {
			out = append(out, passage{"strings", name, set.Position(l.Pos()).Line, s})
		}
		return true
	})
	return out, nil
}

var (
	directive = lazyregexp.New(`^(go:|nolint|lint:|line |export )`)
	// code tells statements of other languages from sentences.
	code   = lazyregexp.New(`SELECT |INSERT |UPDATE |DELETE |CREATE |<[a-z]+[ >]|\{\{|^\s*(import|def|from) |#!/|;\n`)
	inline = lazyregexp.New("`[^`\n]*`")
	link   = lazyregexp.New(`\]\([^)]*\)|https?://\S+`)
)

// markdown returns the paragraphs, items and cells of a page without its code.
func markdown(name, text string) []passage {
	var out []passage
	var cur []string
	first, fence := 0, false
	flush := func() {
		if len(cur) > 0 {
			out = append(out, passage{"docs", name, first, strings.Join(cur, "\n")})
		}
		cur = nil
	}
	for i, line := range strings.Split(text, "\n") {
		t := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(t, "```"):
			fence = !fence
			flush()
			continue
		case fence || t == "" || t[0] == '#' || strings.HasPrefix(t, "!["):
			flush()
			continue
		case t[0] == '|':
			flush()
			t = link().ReplaceAllString(inline().ReplaceAllString(t, "x"), "]")
			for _, cell := range strings.Split(strings.Trim(t, "|"), "|") {
				out = append(out, passage{"docs", name, i + 1, strings.TrimSpace(cell)})
			}
			continue
		case item().MatchString(t):
			flush()
		}
		t = link().ReplaceAllString(inline().ReplaceAllString(t, "x"), "]")
		if cur == nil {
			first = i + 1
		}
		cur = append(cur, item().ReplaceAllString(t, ""))
	}
	flush()
	return out
}

var item = lazyregexp.New(`^([-*+]|\d+\.) `)

// check returns what does not pass, by file and line.
func check(all []passage, rules []rule, seg *segment.Segmenter) []finding {
	found := make([][]finding, len(all))
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				found[i] = one(all[i], rules, seg)
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wg.Wait()
	list := slices.Concat(found...)
	slices.SortStableFunc(list, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	return list
}

func one(p passage, rules []rule, seg *segment.Segmenter) []finding {
	var list []finding
	for _, r := range rules {
		for _, at := range r.phrase.FindAllStringIndex(p.text, -1) {
			if r.fine != nil && r.fine.MatchString(p.text[at[0]:at[1]]) {
				continue
			}
			list = append(list, finding{
				p.file, p.line + strings.Count(p.text[:at[0]], "\n"),
				fmt.Sprintf("%q: %s", strings.Join(strings.Fields(p.text[at[0]:at[1]]), " "), r.say),
			})
		}
	}
	if p.kind == "strings" { // formats and lists: their length says little
		return list
	}
	for _, s := range sentences(p.text, seg) {
		n := 0
		for clause := range strings.SplitSeq(s.Text, ";") {
			n = max(n, len(strings.Fields(clause)))
		}
		if n > maxWords {
			list = append(list, finding{
				p.file, p.line + strings.Count(p.text[:s.Start], "\n"),
				fmt.Sprintf("a sentence of %d words, at most %d: %.300q", n, maxWords, s.Text),
			})
		}
	}
	return list
}

// sentences splits a passage; an empty line ends a sentence too.
func sentences(text string, seg *segment.Segmenter) []segment.Sentence {
	var out []segment.Sentence
	at := 0
	for _, part := range strings.SplitAfter(text, "\n\n") {
		for _, s := range seg.Segment(part) {
			s.Start += at
			out = append(out, s)
		}
		at += len(part)
	}
	return out
}

// figures prints how long and how easy the texts of each kind are; it returns
// which are too hard.
func figures(all []passage, seg *segment.Segmenter) (hard string) {
	for _, kind := range []string{"comments", "docs"} {
		var text strings.Builder
		var lengths []int
		for _, p := range all {
			if p.kind != kind {
				continue
			}
			for _, s := range sentences(p.text, seg) {
				if n := len(strings.Fields(s.Text)); n > 2 {
					lengths = append(lengths, n)
					text.WriteString(strings.Join(strings.Fields(s.Text), " ") + "\n\n")
				}
			}
		}
		if len(lengths) == 0 {
			continue
		}
		slices.Sort(lengths)
		ease := summarize.NewDocument(text.String()).FleschReadingEase()
		fmt.Printf("%s: %d sentences, %d words at the median, %d at 95 %%, %d at most; reading ease %.1f, at least %.0f\n", kind, len(lengths),
			lengths[len(lengths)/2], lengths[len(lengths)*95/100], lengths[len(lengths)-1], ease, leastEase[kind])
		if !(ease >= leastEase[kind]) {
			hard += fmt.Sprintf("; %s are too hard to read", kind)
		}
	}
	return hard
}
