package play

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"maps"
	mathrand "math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// goUnit is a test without its cases: one function plays them all.
func goUnit(id string) string {
	dir, name, _ := strings.Cut(id, "::")
	name, _, _ = strings.Cut(name, "/")
	return dir + "::" + name
}

// seeded is a source of choices that a text decides.
func seeded(seed string) *mathrand.Rand {
	h := fnv.New64a()
	h.Write([]byte(seed)) // never fails
	return mathrand.New(mathrand.NewPCG(h.Sum64(), uint64(len(seed))))
}

// goUnits reads Go's test files.
func goUnits(texts map[string][]byte, tests []string, seed string) []*body {
	var out []*body
	by := map[string]*body{}
	for _, id := range tests {
		u := goUnit(id)
		if by[u] == nil {
			by[u] = &body{name: u}
			out = append(out, by[u])
		}
		by[u].tests = append(by[u].tests, id)
	}
	numbers := map[*body]int{}
	for i, b := range out {
		numbers[b] = i
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, texts[name], parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		far := words(goTexts(f)...)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || fn.Body == nil {
				continue
			}
			b := by[path.Dir(name)+"::"+fn.Name.Name]
			if b == nil || b.file != "" {
				continue
			}
			b.file = name
			at := func(p token.Pos) int { return set.PositionFor(p, false).Offset }
			b.mark = []edit{{at(fn.Body.Lbrace) + 1, at(fn.Body.Lbrace) + 1, fmt.Sprintf(" println(%q);", beginMark+strconv.Itoa(numbers[b]))}}
			w := &goDrawer{at: at, line: func(p token.Pos) int { return set.PositionFor(p, false).Line }, text: texts[name], draw: seeded(seed + " " + b.name), words: vocabulary{words(goTexts(fn)...), far}}
			b.twins = w.twins(fn)
		}
	}
	return out
}

// goTexts are the string literals of a tree, without paths of imports.
func goTexts(n ast.Node) (out []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			out = append(out, l.Value)
		}
		_, imports := n.(*ast.ImportSpec)
		return !imports
	})
	return out
}

type goDrawer struct {
	at    func(token.Pos) int
	line  func(token.Pos) int
	text  []byte
	draw  *mathrand.Rand
	words vocabulary

	changed, negated []twin
}

var (
	wantName  = lazyregexp.New(`(?i)^(want|exp|expect|res|out|result)`)
	goFails   = map[string]bool{"Error": true, "Errorf": true, "Fatal": true, "Fatalf": true, "Fail": true, "FailNow": true}
	goAsserts = lazyregexp.New(`(?i)^(assert|require|is|be|must|check|expect|eq|equal|test|diff|qt)`)
)

// twins falsifies what a test expects: conditions that end in t.Error are
// negated, expected values of tables and of assertions are changed.
func (w *goDrawer) twins(fn *ast.FuncDecl) []twin {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			w.condition(n)
		case *ast.CompositeLit:
			w.table(n)
		case *ast.CallExpr:
			w.assertion(n)
		}
		return true
	})
	var out []twin
	for _, l := range [][]twin{w.changed, w.negated} {
		w.draw.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
	}
	for len(out) < candidates && len(w.changed)+len(w.negated) > 0 {
		for _, l := range []*[]twin{&w.changed, &w.negated} {
			if n := len(*l); n > 0 && len(out) < candidates {
				out = append(out, (*l)[n-1])
				*l = (*l)[:n-1]
			}
		}
	}
	return out
}

// condition negates `if got != want { t.Errorf(…) }`.
func (w *goDrawer) condition(n *ast.IfStmt) {
	fails := false
	for _, s := range n.Body.List {
		if x, ok := s.(*ast.ExprStmt); ok {
			if c, ok := x.X.(*ast.CallExpr); ok {
				if f, ok := c.Fun.(*ast.SelectorExpr); ok {
					fails = fails || goFails[f.Sel.Name]
				}
			}
		}
	}
	if !fails {
		return
	}
	start, end := w.at(n.Cond.Pos()), w.at(n.Cond.End())
	lines := [2]int{w.line(n.Pos()), w.line(n.Body.End())}
	w.negated = append(w.negated, twin{What: contrary, Lines: lines, Edits: []edit{{start, start, "!("}, {end, end, ")"}}})
	if x, ok := n.Cond.(*ast.BinaryExpr); ok && (x.Op == token.NEQ || x.Op == token.EQL) {
		for _, side := range []ast.Expr{x.Y, x.X} {
			if e, ok := w.literal(side); ok {
				w.changed = append(w.changed, twin{What: "another value is expected", Lines: lines, Edits: w.withMessages(e, n.Body)})
			}
		}
	}
}

// withMessages adds to a change of what is expected that of messages which say it.
func (w *goDrawer) withMessages(e edit, body ast.Node) []edit {
	out, old := []edit{e}, string(w.text[e.Start:e.End])
	ast.Inspect(body, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if x, ok := said(l.Value, old, e.Text); ok {
				out = append(out, edit{w.at(l.Pos()), w.at(l.End()), x})
			}
		}
		return true
	})
	return out
}

// table changes what each row of a table expects, twice over by other draws.
func (w *goDrawer) table(n *ast.CompositeLit) {
	switch n.Type.(type) {
	case *ast.ArrayType, *ast.MapType:
	default:
		return
	}
	for range 2 {
		var edits []edit
		for _, row := range n.Elts {
			if kv, ok := row.(*ast.KeyValueExpr); ok {
				row = kv.Value
			}
			if e, ok := w.row(row); ok {
				edits = append(edits, e)
			}
		}
		if len(edits) > 0 {
			w.changed = append(w.changed, twin{What: "another value is expected in each case", Edits: edits})
		}
	}
}

func (w *goDrawer) row(row ast.Expr) (edit, bool) {
	c, ok := row.(*ast.CompositeLit)
	if !ok {
		return w.literal(row)
	}
	var named, last ast.Expr
	for _, e := range c.Elts {
		v := e
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			v = kv.Value
			if id, ok := kv.Key.(*ast.Ident); ok && wantName().MatchString(id.Name) {
				if _, ok := w.literal(v); ok {
					named = v
				}
			}
		}
		if _, ok := w.literal(v); ok {
			last = v
		}
	}
	for _, v := range []ast.Expr{named, last} {
		if v != nil {
			return w.literal(v)
		}
	}
	return edit{}, false
}

// assertion changes a literal in a call such as assert.Equal(t, 3, f(x)).
func (w *goDrawer) assertion(n *ast.CallExpr) {
	name := ""
	switch f := n.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
		if x, ok := f.X.(*ast.Ident); ok && (goFails[name] || x.Name == "fmt" || x.Name == "strings" || x.Name == "errors") {
			return
		} else if ok && goAsserts().MatchString(x.Name) {
			name = x.Name
		}
	}
	if !goAsserts().MatchString(name) {
		return
	}
	for _, a := range n.Args {
		if e, ok := w.literal(a); ok {
			w.changed = append(w.changed, twin{What: "another value is expected", Lines: [2]int{w.line(n.Pos()), w.line(n.End())}, Edits: []edit{e}})
		}
	}
}

// literal changes a constant, within its line.
func (w *goDrawer) literal(x ast.Expr) (edit, bool) {
	if u, ok := x.(*ast.UnaryExpr); ok && (u.Op == token.SUB || u.Op == token.AND) {
		x = u.X
	}
	start, end := w.at(x.Pos()), w.at(x.End())
	switch x := x.(type) {
	case *ast.Ident:
		switch x.Name {
		case "true":
			return edit{start, end, "false"}, true
		case "false":
			return edit{start, end, "true"}, true
		}
	case *ast.BinaryExpr:
		if x.Op == token.ADD || x.Op == token.SUB || x.Op == token.MUL {
			return w.literal(x.Y)
		}
	case *ast.CompositeLit: // the last constant in it
		for _, e := range slices.Backward(x.Elts) {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				e = kv.Value
			}
			if out, ok := w.literal(e); ok {
				return out, true
			}
		}
	case *ast.BasicLit:
		switch x.Kind {
		case token.INT:
			if v, ok := number(x.Value, w.draw); ok {
				return edit{start, end, v}, true
			}
		case token.FLOAT:
			if v, err := strconv.ParseFloat(x.Value, 64); err == nil && v < 1e30 {
				return edit{start, end, strconv.FormatFloat(v+1+float64(w.draw.IntN(5)), 'f', -1, 64)}, true
			}
		case token.STRING:
			return edit{start, end, w.words.text(x.Value, w.draw)}, true
		}
	}
	return edit{}, false
}

// goJobs build each package's tests and run each function in a process of its own.
func goJobs(l *language, t *task.Task, units []*body, tests []string) []job {
	var out []job
	built := map[string]int{}
	for _, u := range units {
		dir, name, _ := strings.Cut(u.name, "::")
		n, ok := built[dir]
		if !ok {
			n = len(out)
			built[dir] = n
			b := job{
				Args: []string{"go", "test", "-c", "-vet=off", "-o", fmt.Sprintf("/tmp/tests%d", n), "./" + dir}, Timeout: 300, Needs: -1, build: true,
			}
			for _, id := range tests {
				if d, _, _ := strings.Cut(id, "::"); d == dir {
					b.tests = append(b.tests, id)
				}
			}
			out = append(out, b)
		}
		j := job{
			Args: []string{fmt.Sprintf("/tmp/tests%d", n), "-test.v=test2json", "-test.count=1", "-test.run", "^" + regexp.QuoteMeta(name) + "$"},
			Dir:  dir, Timeout: testTimeout(t), Needs: n,
		}
		for _, id := range tests {
			if goUnit(id) == u.name {
				j.tests = append(j.tests, id)
			}
		}
		out = append(out, j)
	}
	return out
}

var goLine = lazyregexp.New(`(?m)^ +[^ ]+_test\.go:(\d+): `)

var goEnd = lazyregexp.New(`^\x16? *--- (PASS|FAIL|SKIP): (\S+) \(`)

// readGo reads what test binaries write.
func readGo(_ *task.Task, jobs []job, done []jobDone, r *openReport) {
	for i, j := range jobs {
		if j.build || len(j.tests) == 0 {
			continue
		}
		dir, _, _ := strings.Cut(j.tests[0], "::")
		all := slices.Concat(done[i].Out, []byte("\n"), done[i].Err)
		panicked := bytes.Contains(all, []byte("\npanic: ")) || bytes.HasPrefix(all, []byte("panic: "))
		why := lastLines(done[i].Out)
		seen := map[string]bool{}
		for line := range bytes.Lines(done[i].Out) {
			// What a test prints without a newline stands before the mark.
			if n := bytes.LastIndexByte(line, 0x16); n > 0 {
				line = line[n:]
			}
			m := goEnd().FindSubmatch(line)
			if m == nil {
				continue
			}
			id := dir + "::" + string(m[2])
			if !slices.Contains(j.tests, id) || seen[id] { // the first counts
				continue
			}
			seen[id] = true
			passed := string(m[1]) == "PASS" && !panicked && (done[i].ok() || len(j.tests) > 1)
			r.add(id, passed, string(m[1]) == "FAIL" && !panicked, why)
			r.at(id, lineOf(goLine(), string(done[i].Out)))
		}
		if len(seen) == 0 && len(done[i].Out)+len(done[i].Err) > 0 {
			for _, id := range j.tests {
				r.add(id, false, false, lastLines(all))
			}
		}
	}
}

// lastLines is the end of an output that says why.
func lastLines(b []byte) string {
	if len(b) > 600 {
		b = b[len(b)-600:]
	}
	return strings.ToValidUTF8(string(b), "")
}
