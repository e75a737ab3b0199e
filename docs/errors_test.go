package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// codeForm is what an error's code looks like.
var codeForm = regexp.MustCompile(`^[a-z]+(_[a-z0-9]+)*_?$`)

// helpers are the names of functions that make an error of (status, code, …).
var helpers = map[string]bool{"refuse": true, "fail": true}

// codesOf are the codes of errors that a file makes: Code fields of literals of
// agon.Error, constants named Code…, and second arguments of the helpers.
func codesOf(f *ast.File) (out []string) {
	add := func(e ast.Expr) {
		if b, ok := e.(*ast.BinaryExpr); ok {
			e = b.X // "bad_" + field
		}
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil && codeForm.MatchString(s) {
				out = append(out, s)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if s, ok := n.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Error" {
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						if id, ok := kv.Key.(*ast.Ident); ok && id.Name == "Code" {
							add(kv.Value)
						}
					}
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if strings.HasPrefix(name.Name, "Code") && i < len(n.Values) {
					add(n.Values[i])
				}
			}
		case *ast.CallExpr:
			name := ""
			switch f := n.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
			}
			if helpers[name] && len(n.Args) >= 2 && isStatus(n.Args[0]) {
				add(n.Args[1])
			}
		}
		return true
	})
	return out
}

// isStatus tells 404 and http.StatusNotFound from other arguments.
func isStatus(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.INT
	case *ast.SelectorExpr:
		return strings.HasPrefix(e.Sel.Name, "Status")
	}
	return false
}

// Every code of an error that a server answers with, whose pages and problems lead
// here, stands on the page of errors with what it means and what to do. Kinds tell
// theirs on pages of their own.
func TestEveryErrorCodeIsExplained(t *testing.T) {
	page, err := os.ReadFile("errors.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, s := range strings.Split(string(page), "\n### ")[1:] {
		title, text, _ := strings.Cut(s, "\n")
		code := strings.Trim(title, "`")
		if listed[code] != "" {
			t.Errorf("%s stands twice", code)
		}
		listed[code] = text
		if !strings.Contains(text, "**What to do:** ") {
			t.Errorf("%s does not say what to do", code)
		}
	}
	found := map[string]string{}
	for _, top := range []string{"auth", "client", "engine", "gateway", "internal", "ledger", "ui/api", "ui/env", "ui/web", "ui/webhook"} {
		err := filepath.WalkDir(filepath.Join("..", filepath.FromSlash(top)), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test") || d.Name() == "sprout"):
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, c := range codesOf(f) {
				found[c] = path
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 60 {
		t.Fatalf("only %d codes were found: the walk misses them", len(found))
	}
	for c, path := range found {
		if strings.HasSuffix(c, "_") {
			c += "…"
		}
		if listed[c] == "" {
			t.Errorf("%s of %s is not explained in errors.md", c, path)
		}
	}
}
