package play

import (
	"encoding/json"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// piece is a part of a program's text that a reader of brackets needs.
type piece struct {
	kind       byte // 'w' word, 'n' number, 's' string, 'p' punctuation, 'o' other text (templates, patterns)
	start, end int
}

// pieces splits the text of a JavaScript or Rust file; comments are left out.
// It never fails: what it takes for one piece too many only loses a twin, since
// only those count that the reference fails by an assertion.
func pieces(b []byte, rust bool) []piece {
	var out []piece
	i := 0
	word := func(c byte) bool {
		return c == '_' || c == '$' || c >= 0x80 || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	quoted := func(q byte) {
		for i++; i < len(b) && b[i] != q && (b[i] != '\n' || rust || q == '`'); i++ {
			if b[i] == '\\' {
				i++
			}
		}
		i = min(i+1, len(b))
	}
	for i < len(b) {
		start, c := i, b[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
			continue
		case c == '/' && i+1 < len(b) && b[i+1] == '/', c == '#' && i == 0 && len(b) > 1 && b[1] == '!' && !rust:
			for i < len(b) && b[i] != '\n' {
				i++
			}
			continue
		case c == '/' && i+1 < len(b) && b[i+1] == '*':
			if n := strings.Index(string(b[i+2:]), "*/"); n >= 0 {
				i += n + 4
			} else {
				i = len(b)
			}
			continue
		case rust && c == 'r' && i+1 < len(b) && (b[i+1] == '"' || b[i+1] == '#' && i+2 < len(b) && (b[i+2] == '"' || b[i+2] == '#')):
			hashes := 0
			for i++; i < len(b) && b[i] == '#'; i++ {
				hashes++
			}
			end := strings.Index(string(b[min(i+1, len(b)):]), `"`+strings.Repeat("#", hashes))
			if end < 0 {
				i = len(b)
			} else {
				i += 1 + end + 1 + hashes
			}
			out = append(out, piece{'o', start, i})
		case rust && c == '\'':
			// A letter in quotes, or a lifetime.
			switch {
			case i+2 < len(b) && b[i+1] == '\\':
				quoted('\'')
			case i+2 < len(b) && b[i+2] == '\'':
				i += 3
			default:
				i++
			}
			out = append(out, piece{'o', start, i})
		case c == '"' || c == '\'' && !rust:
			quoted(c)
			out = append(out, piece{'s', start, i})
		case c == '`' && !rust:
			quoted('`')
			out = append(out, piece{'o', start, i})
		case isDigit(c):
			for i < len(b) && (word(b[i]) || b[i] == '.' && i+1 < len(b) && isDigit(b[i+1])) {
				i++
			}
			out = append(out, piece{'n', start, i})
		case word(c):
			for i < len(b) && word(b[i]) {
				i++
			}
			out = append(out, piece{'w', start, i})
		case c == '/' && !rust && pattern(b, out):
			class := false
			for i++; i < len(b) && b[i] != '\n' && (class || b[i] != '/'); i++ {
				switch b[i] {
				case '\\':
					i++
				case '[':
					class = true
				case ']':
					class = false
				}
			}
			for i = min(i+1, len(b)); i < len(b) && word(b[i]); i++ {
			}
			out = append(out, piece{'o', start, i})
		default:
			i++
			out = append(out, piece{'p', start, i})
		}
	}
	return out
}

// pattern reports whether a slash after these pieces begins a regular expression.
func pattern(b []byte, before []piece) bool {
	if len(before) == 0 {
		return true
	}
	last := before[len(before)-1]
	switch last.kind {
	case 'p':
		c := b[last.start]
		return c != ')' && c != ']' && c != '}'
	case 'w':
		switch string(b[last.start:last.end]) {
		case "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do":
			return true
		}
	}
	return false
}

// source is a text in pieces, with the partner of each bracket.
type source struct {
	b     []byte
	p     []piece
	match []int // of brackets; -1
	words vocabulary
}

func newSource(b []byte, rust bool) *source {
	s := &source{b: b, p: pieces(b, rust)}
	s.words.far = s.wordsOf(0, len(s.p)-1)
	s.match = make([]int, len(s.p))
	var open []int
	for i, p := range s.p {
		s.match[i] = -1
		if p.kind != 'p' {
			continue
		}
		switch c := b[p.start]; c {
		case '(', '[', '{':
			open = append(open, i)
		case ')', ']', '}':
			if n := len(open); n > 0 && strings.IndexByte("([{", b[s.p[open[n-1]].start]) == strings.IndexByte(")]}", c) {
				s.match[i], s.match[open[n-1]] = open[n-1], i
				open = open[:n-1]
			}
		}
	}
	return s
}

func (s *source) text(i int) string {
	if i < 0 || i >= len(s.p) {
		return ""
	}
	return string(s.b[s.p[i].start:s.p[i].end])
}

// args splits what stands between a bracket and its partner at commas: the
// first and the last piece of each.
func (s *source) args(open int) [][2]int {
	var out [][2]int
	end := s.match[open]
	first := open + 1
	for i := open + 1; i <= end; i++ {
		if i == end || s.text(i) == "," && s.p[i].kind == 'p' {
			if i > first {
				out = append(out, [2]int{first, i - 1})
			}
			first = i + 1
			continue
		}
		if s.match[i] > i {
			i = s.match[i]
		}
	}
	return out
}

// contraries of assertions, by the name's last part.
var scriptContrary = map[string]string{
	"equal": "notEqual", "strictEqual": "notStrictEqual", "deepEqual": "notDeepEqual", "deepStrictEqual": "notDeepStrictEqual", "match": "doesNotMatch",
	"notEqual": "equal", "notStrictEqual": "strictEqual", "notDeepEqual": "deepEqual", "notDeepStrictEqual": "deepStrictEqual", "doesNotMatch": "match",
}

var scriptEqual = lazyregexp.New(`^(equal|strictEqual|deepEqual|deepStrictEqual|same|strictSame|is|eq)$`)

var scriptTests = map[string]bool{"test": true, "it": true, "describe": true, "suite": true, "subtest": true}

// scriptUnits reads JavaScript's test files: calls of test and it with a
// written name, and in them assertions of node:assert, of the test's context and of expect.
func scriptUnits(texts map[string][]byte, tests []string, seed string) []*body {
	var out []*body
	by := map[string]*body{}
	for _, id := range tests {
		by[id] = &body{name: id, tests: []string{id}}
		out = append(out, by[id])
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		s := newSource(texts[name], false)
		d := &scriptDrawer{source: s, file: name, by: by, seed: seed, numbers: map[*body]int{}}
		for i, b := range out {
			d.numbers[b] = i
		}
		d.walk(0, len(s.p), name+"::")
	}
	return out
}

type scriptDrawer struct {
	*source
	file    string
	by      map[string]*body
	seed    string
	numbers map[*body]int
}

// walk finds tests between two pieces.
func (d *scriptDrawer) walk(from, to int, prefix string) {
	for i := from; i < to; i++ {
		if d.p[i].kind != 'w' || !scriptTests[d.text(i)] {
			continue
		}
		open := i + 1
		if d.text(open) == "." && d.p[open+1].kind == 'w' { // test.only, t.test is found by its second word
			open += 2
		}
		if d.text(open) != "(" || d.match[open] < 0 {
			continue
		}
		args := d.args(open)
		if len(args) < 2 || args[0][0] != args[0][1] || d.p[args[0][0]].kind != 's' {
			continue
		}
		name, ok := unquote(d.text(args[0][0]))
		if !ok {
			continue
		}
		last := args[len(args)-1]
		id := prefix + name
		if b := d.by[id]; b != nil && b.file == "" {
			d.body(b, last[0], last[1])
		}
		d.walk(last[0], last[1], id+" > ")
		i = d.match[open]
	}
}

func unquote(lit string) (string, bool) {
	if len(lit) < 2 {
		return "", false
	}
	if lit[0] == '\'' {
		lit = `"` + strings.ReplaceAll(strings.ReplaceAll(lit[1:len(lit)-1], `\'`, `'`), `"`, `\"`) + `"`
	}
	s, err := strconv.Unquote(lit)
	return s, err == nil
}

// body draws twins of the test whose function stands between two pieces.
func (d *scriptDrawer) body(b *body, from, to int) {
	b.file = d.file
	r := seeded(d.seed + " " + b.name)
	d.words.near = d.wordsOf(from, to)
	for i := from; i <= to; i++ { // the function's body: the bracket after => or after the parameters
		if d.text(i) == "{" && i > from && (d.text(i-1) == ">" || d.text(i-1) == ")") {
			b.mark = []edit{{d.p[i].end, d.p[i].end, fmt.Sprintf("process._rawDebug('%s%d');", beginMark, d.numbers[b])}}
			break
		}
	}
	var changed, negated []twin
	for i := from; i <= to; i++ {
		if d.p[i].kind != 'w' || d.text(i+1) != "(" || d.match[i+1] < 0 {
			continue
		}
		first := [2]int{len(changed), len(negated)}
		last := d.match[i+1]
		word := d.text(i)
		if d.text(i-1) == "." && scriptContrary[word] != "" {
			negated = append(negated, twin{What: contrary, Edits: []edit{{d.p[i].start, d.p[i].end, scriptContrary[word]}}})
		}
		args := d.args(i + 1)
		switch {
		case scriptEqual().MatchString(word) && len(args) >= 2:
			for _, a := range args[:2] {
				for _, e := range d.literals(a[0], a[1], r) {
					changed = append(changed, twin{What: "another value is expected", Edits: d.withMessages(e, args[2:])})
				}
			}
		case word == "ok" || word == "assert" || word == "true" && d.text(i-1) == "." || word == "notOk" || word == "false" && d.text(i-1) == ".":
			if len(args) > 0 {
				start, end := d.p[args[0][0]].start, d.p[args[0][1]].end
				negated = append(negated, twin{What: contrary, Edits: []edit{{start, start, "!("}, {end, end, ")"}}})
			}
		case word == "expect":
			end := d.match[i+1]
			at := d.p[end].end
			if d.text(end+1) == "." && d.text(end+2) != "not" && d.text(end+2) != "resolves" && d.text(end+2) != "rejects" {
				negated = append(negated, twin{What: contrary, Edits: []edit{{at, at, ".not"}}})
			}
			for n := end + 1; n <= to && (d.text(n) == "." || d.p[n].kind == 'w'); n++ {
				if d.p[n].kind == 'w' && d.text(n+1) == "(" && d.match[n+1] > 0 {
					last = d.match[n+1]
					for _, a := range d.args(n + 1) {
						for _, e := range d.literals(a[0], a[1], r) {
							changed = append(changed, twin{What: "another value is expected", Edits: []edit{e}})
						}
					}
				}
			}
		case word == "throws" && len(args) >= 2 || word == "rejects" && len(args) >= 2:
			for _, e := range d.literals(args[1][0], args[1][1], r) {
				changed = append(changed, twin{What: reworded, Edits: []edit{e}})
			}
		}
		d.placed(i, last, changed[first[0]:], negated[first[1]:])
	}
	b.twins = inTurns(r, changed, negated)
}

// placed tells twins the lines of what expects it, from one piece to another.
func (s *source) placed(from, to int, lists ...[]twin) {
	line := func(at int) int { return 1 + strings.Count(string(s.b[:at]), "\n") }
	for _, l := range lists {
		for i := range l {
			l[i].Lines = [2]int{line(s.p[from].start), line(s.p[to].end)}
		}
	}
}

// inTurns draws twins of two sorts, the first sort first.
func inTurns(r *mathrand.Rand, sorts ...[]twin) []twin {
	var out []twin
	for _, l := range sorts {
		r.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
	}
	for more := true; more && len(out) < candidates; {
		more = false
		for i, l := range sorts {
			if len(l) > 0 && len(out) < candidates {
				out, sorts[i], more = append(out, l[0]), l[1:], true
			}
		}
	}
	return out
}

// files groups tests by their file, in order.
func byFile(tests []string) (files []string, of map[string][]string) {
	of = map[string][]string{}
	for _, id := range tests {
		f, _, _ := strings.Cut(id, "::")
		if of[f] == nil {
			files = append(files, f)
		}
		of[f] = append(of[f], id)
	}
	return files, of
}

func nodeJobs(_ *language, t *task.Task, _ []*body, tests []string) []job {
	var out []job
	files, of := byFile(tests)
	for _, f := range files {
		out = append(out, job{
			Args: []string{
				"node", "--test-reporter=" + toolsDir + "/report.mjs", "--test-reporter-destination=/tmp/report", f,
			}, Timeout: testTimeout(t) * float64(min(len(of[f]), 6)), Needs: -1, Collect: "/tmp/report", tests: of[f],
		})
	}
	return out
}

func readNode(_ *task.Task, jobs []job, done []jobDone, r *openReport) {
	for i, j := range jobs {
		file, _, _ := strings.Cut(j.tests[0], "::")
		for line := range strings.Lines(string(done[i].File)) {
			var row struct {
				Path     []string `json:"path"`
				Pass     bool     `json:"pass"`
				Suite    bool     `json:"suite"`
				Skipped  bool     `json:"skipped"`
				Asserted bool     `json:"asserted"`
				Line     int      `json:"line"`
				Why      string   `json:"why"`
			}
			if json.Unmarshal([]byte(line), &row) != nil || row.Suite {
				continue
			}
			id := file + "::" + strings.Join(row.Path, " > ")
			r.played[id]++
			if r.all || slices.Contains(j.tests, id) {
				r.add(id, row.Pass && !row.Skipped, row.Asserted, row.Why)
				r.at(id, row.Line)
			}
		}
		for _, id := range j.tests {
			if _, ok := r.got[id]; !ok && len(done[i].Err) > 0 {
				r.add(id, false, false, lastLines(done[i].Err))
			}
		}
	}
}

var firstNumber = lazyregexp.New(`^(\d+)`)

func jestJobs(_ *language, t *task.Task, _ []*body, tests []string) []job {
	var out []job
	files, of := byFile(tests)
	for _, f := range files {
		out = append(out, job{
			Args: []string{
				"/bin/sh", "-c", `for d in node_modules /usr/lib/node_modules /usr/local/lib/node_modules /opt/node_modules; do
  if [ -f $d/jest/bin/jest.js ]; then exec node $d/jest/bin/jest.js "$@"; fi
done
echo "neither the tree nor the image has jest" >&2; exit 127`, "jest", "--ci", "--json", "--runInBand", "--coverage=false", "--watchman=false", "--cacheDirectory=/tmp/jest",
				"--outputFile=/tmp/report", "--runTestsByPath", f,
			}, Timeout: 30 + testTimeout(t)*float64(min(len(of[f]), 6)), Needs: -1, Collect: "/tmp/report", tests: of[f],
		})
	}
	return out
}

func readJest(_ *task.Task, jobs []job, done []jobDone, r *openReport) {
	for i, j := range jobs {
		file, _, _ := strings.Cut(j.tests[0], "::")
		var rep struct {
			TestResults []struct {
				AssertionResults []struct {
					AncestorTitles  []string `json:"ancestorTitles"`
					Title           string   `json:"title"`
					Status          string   `json:"status"`
					FailureMessages []string `json:"failureMessages"`
				} `json:"assertionResults"`
				Message string `json:"message"`
			} `json:"testResults"`
		}
		err := json.Unmarshal(done[i].File, &rep)
		for _, f := range rep.TestResults {
			for _, a := range f.AssertionResults {
				id := file + "::" + strings.Join(append(a.AncestorTitles, a.Title), " > ")
				why := strings.Join(a.FailureMessages, "; ")
				r.played[id]++
				if r.all || slices.Contains(j.tests, id) {
					r.add(id, a.Status == "passed", strings.Contains(why, "expect(") || strings.Contains(why, "AssertionError"), why)
					_, after, _ := strings.Cut(why, "/"+file+":")
					r.at(id, lineOf(firstNumber(), after))
				}
			}
		}
		for _, id := range j.tests {
			if _, ok := r.got[id]; !ok && (err != nil || len(rep.TestResults) > 0) {
				r.add(id, false, false, lastLines(done[i].Err))
			}
		}
	}
}
