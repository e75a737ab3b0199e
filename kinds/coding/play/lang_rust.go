package play

import (
	"maps"
	mathrand "math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

var rustContrary = map[string]string{"assert_eq": "assert_ne", "assert_ne": "assert_eq"}

// rustUnits reads Rust's test functions: their assertions are macros.
func rustUnits(texts map[string][]byte, tests []string, seed string) []*body {
	var out []*body
	for _, id := range tests {
		b := &body{name: id, tests: []string{id}}
		out = append(out, b)
		target, name, _ := strings.Cut(id, "::")
		parts := strings.Split(name, "::")
		fn := parts[len(parts)-1]
		for _, file := range slices.Sorted(maps.Keys(texts)) {
			if t, ok := strings.CutPrefix(target, "test "); ok && file != "tests/"+t+".rs" && path.Dir(file) != "tests/"+t {
				continue
			} else if !ok && strings.HasPrefix(file, "tests/") {
				continue
			}
			// A module's tests stand in a file that is called as one of its parts.
			stem := strings.TrimSuffix(path.Base(file), ".rs")
			if stem != "lib" && stem != "main" && stem != "mod" && stem != strings.TrimPrefix(target, "test ") && !slices.Contains(parts, stem) {
				continue
			}
			s := newSource(texts[file], true)
			if from, to, ok := s.rustTest(fn); ok {
				b.file = file
				b.twins = s.rustTwins(from, to, seeded(seed+" "+id))
				break
			}
		}
	}
	return out
}

// rustTest finds the body of a function that #[test] stands before.
func (s *source) rustTest(name string) (from, to int, ok bool) {
	for i := range s.p {
		if s.text(i) != "fn" || s.text(i+1) != name || s.text(i+2) != "(" {
			continue
		}
		isTest := false
		for n := max(0, i-40); n < i; n++ {
			isTest = isTest || s.text(n) == "test" && s.text(n-1) == "["
		}
		for n := i + 3; isTest && n < len(s.p); n++ {
			if s.text(n) == "{" && s.match[n] > n {
				return n, s.match[n], true
			}
		}
	}
	return 0, 0, false
}

func (s *source) rustTwins(from, to int, r *mathrand.Rand) []twin {
	s.words.near = s.wordsOf(from, to)
	var changed, negated []twin
	for i := from; i <= to; i++ {
		word := s.text(i)
		if s.p[i].kind != 'w' || s.text(i+1) != "!" || !(s.text(i+2) == "(" || s.text(i+2) == "[") || s.match[i+2] < 0 {
			continue
		}
		args, first := s.args(i+2), [2]int{len(changed), len(negated)}
		switch {
		case rustContrary[word] != "" && len(args) >= 2:
			negated = append(negated, twin{What: contrary, Edits: []edit{{s.p[i].start, s.p[i].end, rustContrary[word]}}})
			for _, a := range args[:2] {
				for _, e := range s.literals(a[0], a[1], r) {
					changed = append(changed, twin{What: "another value is expected", Edits: s.withMessages(e, args[2:])})
				}
			}
		case word == "assert" && len(args) >= 1:
			start, end := s.p[args[0][0]].start, s.p[args[0][1]].end
			negated = append(negated, twin{What: contrary, Edits: []edit{{start, start, "!("}, {end, end, ")"}}})
		}
		s.placed(i, s.match[i+2], changed[first[0]:], negated[first[1]:])
	}
	return inTurns(r, changed, negated)
}

// cargoJobs run the tests of each target.
func cargoJobs(_ *language, t *task.Task, _ []*body, tests []string) []job {
	var out []job
	at := map[string]int{}
	for _, id := range tests {
		target, name, _ := strings.Cut(id, "::")
		n, ok := at[target]
		if !ok {
			n = len(out)
			at[target] = n
			flags := []string{"--lib"}
			if kind, name, ok := strings.Cut(target, " "); ok {
				flags = []string{"--" + kind, name}
			}
			args := slices.Concat([]string{"cargo", "test", "--offline", "--quiet"}, flags)
			out = append(out,
				job{Args: append(slices.Clone(args), "--no-run"), Timeout: 600, Needs: -1, build: true},
				job{Args: append(args, "--no-fail-fast", "--", "--exact", "--format=pretty"), Timeout: 60 + testTimeout(t), Needs: n})
		}
		out[n].tests = append(out[n].tests, id)
		out[n+1].tests = append(out[n+1].tests, id)
		out[n+1].Args = append(out[n+1].Args, name)
	}
	return out
}

var (
	rustEnd  = lazyregexp.New(`(?m)^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)`)
	rustLine = lazyregexp.New(`panicked at [^:\n]+\.rs:(\d+):`)
	rustSaid = lazyregexp.New(`(?m)^---- (\S+) stdout ----$`)
)

func readCargo(_ *task.Task, jobs []job, done []jobDone, r *openReport) {
	for i, j := range jobs {
		if j.build || len(j.tests) == 0 {
			continue
		}
		target, _, _ := strings.Cut(j.tests[0], "::")
		out := string(done[i].Out)
		said := map[string]string{}
		marks := rustSaid().FindAllStringSubmatchIndex(out, -1)
		for n, m := range marks {
			end := len(out)
			if n+1 < len(marks) {
				end = marks[n+1][0]
			}
			said[out[m[2]:m[3]]] = out[m[1]:end]
		}
		for _, m := range rustEnd().FindAllStringSubmatch(out, -1) {
			id := target + "::" + m[1]
			if slices.Contains(j.tests, id) {
				why := said[m[1]]
				r.add(id, m[2] == "ok", strings.Contains(why, "assertion") || strings.Contains(why, "did not panic"), why)
				r.at(id, lineOf(rustLine(), why))
			}
		}
	}
}
