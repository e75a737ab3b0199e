package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// checkCommand says what is wrong with a command line that people are told to
// type: an unknown command, an unknown flag. "": nothing. It runs nothing.
func checkCommand(t *testing.T, line string) string {
	t.Helper()
	args := shellWords(line)
	if len(args) == 0 || args[0] != "agon" {
		return "it does not begin with agon"
	}
	a, _ := whole(t)
	root := a.Tree()
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	cmd, rest, err := root.Find(args[1:])
	if err != nil {
		return err.Error()
	}
	for i, w := range rest {
		switch {
		case w == "--":
			return ""
		case strings.HasPrefix(w, "--"):
			name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
			if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil && name != "help" && name != "version" {
				return "no flag --" + name + " of " + cmd.CommandPath()
			}
		case len(w) == 2 && w[0] == '-':
			if cmd.Flags().ShorthandLookup(w[1:]) == nil && cmd.InheritedFlags().ShorthandLookup(w[1:]) == nil && w != "-h" {
				return "no flag " + w + " of " + cmd.CommandPath()
			}
		case i == 0 && cmd.HasSubCommands():
			return "no command " + w + " of " + cmd.CommandPath()
		}
	}
	return ""
}

// shellWords splits a command line up to what a shell would take for itself.
func shellWords(line string) (out []string) {
	var w strings.Builder
	quote, any := rune(0), false
	end := func() {
		if any {
			out = append(out, w.String())
		}
		w.Reset()
		any = false
	}
	for i, c := range line {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				w.WriteRune(c)
			}
		case c == '\'' || c == '"':
			quote, any = c, true
		case c == ' ' || c == '\t':
			end()
		case c == '#' && !any, c == '>' || c == '<' || c == ';' || c == '&' || c == '(' || c == ')':
			end()
			return out
		case c == '|':
			if any && i+1 < len(line) && line[i+1] != ' ' && line[i+1] != '|' { // a choice: view|logs
				w.WriteRune(c)
				continue
			}
			end()
			return out
		default:
			w.WriteRune(c)
			any = true
		}
	}
	end()
	return out
}

var (
	inlineCommand = regexp.MustCompile("`((?:[A-Z_]+=[^ `]+ )*(?:bin/)?agon [^`]+)`")
	commandStart  = regexp.MustCompile(`^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:bin/)?agon `)
	assignments   = regexp.MustCompile(`^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:bin/)?`)
)

// commandsIn returns the commands that a page tells to type, in blocks and in lines.
func commandsIn(page string) (out []string) {
	block := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			block = !block
			continue
		}
		if block {
			if !commandStart.MatchString(strings.TrimSpace(line)) && !strings.Contains(line, "| agon ") && !strings.Contains(line, "&& agon ") && !strings.Contains(line, "&& bin/agon ") {
				continue
			}
			for _, part := range regexp.MustCompile(`&& | \| |; `).Split(strings.TrimSpace(line), -1) {
				if commandStart.MatchString(part) {
					out = append(out, assignments.ReplaceAllString(part, ""))
				}
			}
			continue
		}
		for _, m := range inlineCommand.FindAllStringSubmatch(line, -1) {
			out = append(out, assignments.ReplaceAllString(m[1], ""))
		}
	}
	return out
}

// blockCommands are the lines of a page's fenced blocks that begin with a command of
// this binary, without remarks, as a shell would get them.
func blockCommands(page string) (out []string) {
	block := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			block = !block
		case block && commandStart.MatchString(line):
			out = append(out, assignments.ReplaceAllString(remark.ReplaceAllString(line, ""), ""))
		}
	}
	return out
}

var remark = regexp.MustCompile(`\s+#.*$`)

// choices makes a command for each of `view|logs|trace`.
func choices(line string) []string {
	words := strings.Fields(line)
	for i, w := range words {
		if i > 0 && i < 4 && strings.Contains(w, "|") && !strings.ContainsAny(w, "'\"{[") {
			var out []string
			for _, x := range strings.Split(strings.Trim(w, "[]"), "|") {
				words[i] = x
				out = append(out, choices(strings.Join(words, " "))...)
			}
			return out
		}
	}
	return []string{line}
}

// Every command in README and docs is one of this binary, with its flags.
func TestCommandsOfDocs(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../kinds/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range append(append(pages, more...), "../../README.md", "../../CONTRIBUTING.md", "../../ARCHITECTURE.md") {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandsIn(string(b)) {
			if strings.Contains(line, "[flags]") || strings.Contains(line, "…") && !strings.Contains(line, "01") {
				continue // a usage line of cobra's, or a part is left out
			}
			for _, c := range choices(line) {
				n++
				if why := checkCommand(t, c); why != "" {
					t.Errorf("%s: `%s`: %s", filepath.Base(path), c, why)
				}
			}
		}
	}
	if n < 300 {
		t.Errorf("only %d commands were found", n)
	}
}

// literal is the text of an expression; what is not constant stands as X.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" && len(e.Args) > 0 {
			return regexp.MustCompile(`%[-+#0-9.]*[a-z]`).ReplaceAllString(literal(e.Args[0]), "X")
		}
	}
	return "X"
}

// mends are the texts of all errors that say what to do, by place.
func mends(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir("../..", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 || d.Name() == "testdata" || d.Name() == "interop" || d.Name() == "bench") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, p, nil, 0)
		if err != nil {
			return err
		}
		add := func(e ast.Expr) {
			at := set.Position(e.Pos())
			key := strings.TrimPrefix(at.Filename, "../../") + ":" + strconv.Itoa(at.Line)
			out[key] = append(out[key], literal(e))
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if k, ok := n.Key.(*ast.Ident); ok && k.Name == "Mend" {
					add(n.Value)
				}
			case *ast.AssignStmt:
				for i, l := range n.Lhs {
					if i >= len(n.Rhs) {
						break
					}
					if s, ok := l.(*ast.SelectorExpr); ok && s.Sel.Name == "Mend" {
						add(n.Rhs[i])
					}
					if s, ok := l.(*ast.Ident); ok && s.Name == "mend" {
						add(n.Rhs[i])
					}
				}
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Usage" && len(n.Args) > 2 {
					add(n.Args[1])
				}
				if s, ok := n.Fun.(*ast.Ident); ok && s.Name == "Usage" && len(n.Args) > 2 {
					add(n.Args[1])
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var (
	quoted = regexp.MustCompile("`(agon [^`]+)`")
	bare   = regexp.MustCompile(`(?:^|[:;,(] |with |run |use )(agon [a-z][-a-z]*(?: (?:--?[a-z][-a-z.]*(?:=\S+)?|[a-z][-a-z]*|[A-Z./]+))*)`)
)

// Every command that an error says to type is one of this binary, with its flags:
// a fix that leads into the next error is none.
func TestMendsAreCommands(t *testing.T) {
	all := mends(t)
	n := 0
	for at, list := range all {
		for _, m := range list {
			found := map[string]bool{}
			for _, x := range quoted.FindAllStringSubmatch(m, -1) {
				found[x[1]] = true
			}
			for _, x := range bare.FindAllStringSubmatch(quoted.ReplaceAllString(m, ""), -1) {
				found[shortest(t, x[1])] = true
			}
			for c := range found {
				if strings.Contains(c, "…") || strings.HasPrefix(c, "agon X") {
					continue
				}
				for _, c := range choices(c) {
					n++
					if why := checkCommand(t, c); why != "" {
						t.Errorf("%s: fix %q: `%s`: %s", at, m, c, why)
					}
				}
			}
		}
	}
	if len(all) < 200 || n < 40 {
		t.Errorf("only %d fixes with %d commands were found", len(all), n)
	}
}

// shortest cuts prose after a command: `agon doctor may say more` is agon doctor.
func shortest(t *testing.T, line string) string {
	t.Helper()
	a, _ := whole(t)
	words := strings.Fields(line)
	cmd, _, err := a.Tree().Find(words[1:])
	if err != nil {
		return line
	}
	depth := len(strings.Fields(cmd.CommandPath()))
	for i, w := range words {
		if i >= depth && !strings.HasPrefix(w, "-") && strings.ToLower(w) == w && !strings.ContainsAny(w, "./{") {
			return strings.Join(words[:i], " ")
		}
	}
	return line
}
