package scaffold

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/kit"
)

// docs/kinds.md names everything that a kit may have and that a kind may do, and
// every file that `agon kind new` writes.
func TestThePageIsWhole(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(repo, "docs", "kinds.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	names := func(word, what string) {
		if !strings.Contains(page, "`"+word+"`") && !strings.Contains(page, "`kind."+word+"`") {
			t.Errorf("docs/kinds.md does not name %s %s", what, word)
		}
	}
	k := reflect.TypeFor[kit.Kit]()
	for i := range k.NumField() {
		names(k.Field(i).Name, "the field")
	}
	files, err := filepath.Glob(filepath.Join(repo, "engine", "kind", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	n := 0
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(node ast.Node) bool {
			if s, ok := node.(*ast.TypeSpec); ok {
				if _, ok := s.Type.(*ast.InterfaceType); ok && s.Name.Name != "Kind" {
					n++
					names(s.Name.Name, "the interface")
				}
			}
			return true
		})
	}
	if n < 8 {
		t.Errorf("only %d interfaces", n)
	}
	for _, p := range below(t, placeholder) {
		p = strings.ReplaceAll(p, placeholder, "golf")
		for _, dir := range []string{"tasks/first/three/", "samples/adder/", "template/"} {
			if strings.HasPrefix(p, dir) {
				p = dir
			}
		}
		names(p, "the file")
	}
}
