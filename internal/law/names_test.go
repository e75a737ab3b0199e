package law

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Below the list of kinds nothing knows the name of one: not its own name, not
// that of the foreign subnet whose arena it plays. What a kind is called
// reaches the engine as a value, through its Kit.

// foreign are names of foreign arenas: their programs, headers, rules.
var foreign = []string{"caster", "harnyx", "oro", "ridges", "trajrl", "bitsota"}

// meant are the literals that name a kind, or share a word with one, and stay:
// file, literal (* = every one in the file), reason.
var meant = []struct{ file, literal, why string }{
	{"corpus/export.go", "oro_flat", "the name of a file of a corpus, which others read"},
	{"corpus/write.go", "oro_flat.jsonl", "as above"},
	{"engine/task/clients.go", "pack", "the verb: a command of npm"},
	{"engine/store/storetest/contest.go", "research_claims", "a table of documents that the migrations make: databases of before have it"},
	{"ui/api/lease.go", "claim", "the verb: an operation of the API"},
	{"ledger/rpc/economy.go", "claim_root", "a call of the chain's"},
	{"ledger/rpc/gen/main.go", "claim_root", "a call of the chain's"},
	{"ledger/rpc/economy_test.go", "claim_root", "a call of the chain's"},
}

// madeUp are kinds that tests below make up. A real one may be added under such
// a name (docs/kinds.md does it): what the tests say is not of it.
var madeUp = []string{"golf", "chess"}

// kindsHere are the folders of kinds, which have their names.
func kindsHere(t *testing.T, root string) []string {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(root, "kinds"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		if e.IsDir() && e.Name() != "kit" && e.Name() != "testdata" {
			out = append(out, e.Name())
		}
	}
	if len(out) < 3 {
		t.Fatalf("only %d kinds found", len(out))
	}
	return out
}

// naming returns what says whether a text names a kind.
func naming(kinds []string) func(string) bool {
	k := strings.Join(kinds, "|")
	// The whole text, the beginning of a dotted, underscored or slashed name, a
	// demo arena anywhere, a kind's command
	// anywhere.
	own := regexp.MustCompile(`^(` + k + `)($|[._/])|\bdemo-(` + k + `)\b|\bagon (` + k + `)\b`)
	theirs := regexp.MustCompile(`(?i)(^|[^a-z0-9])(` + strings.Join(foreign, "|") + `)($|[^a-z0-9])`)
	return func(s string) bool { return own.MatchString(s) || theirs.MatchString(s) }
}

func TestNaming(t *testing.T) {
	names := naming([]string{"golf", "chess"})
	for s, want := range map[string]bool{
		"golf": true, "golf.takeover": true, "golf_holes": true, "golf/small": true, "at demo-golf now": true, "run agon golf play": true,
		"X-Caster-Token": true, "oro_flat": true, "spec/oro.md": true,
		"golfer": false, "a golf club": false, "a chess.board": false, "demo-golfers": false, "coroner": false, "broadcaster": false,
	} {
		if names(s) != want {
			t.Errorf("%q names a kind: %v, want %v", s, !want, want)
		}
	}
}

func TestNothingBelowNamesAKind(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	here := kindsHere(t, root)
	all, used, files := naming(here), make([]bool, len(meant)), 0
	inTests := naming(slices.DeleteFunc(slices.Clone(here), func(k string) bool { return slices.Contains(madeUp, k) }))
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		if dir == "." {
			dir = ""
		}
		if at := rank(module + "/" + dir); filepath.Ext(path) != ".go" || at < 0 || at > rank(module+"/kinds/kit") {
			return nil
		}
		files++
		names := all
		if strings.HasSuffix(path, "_test.go") {
			names = inTests
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if _, ok := n.(*ast.ImportSpec); ok {
				return false
			}
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			s, err := strconv.Unquote(lit.Value)
			if err != nil || !names(s) {
				return true
			}
			i := slices.IndexFunc(meant, func(m struct{ file, literal, why string }) bool {
				return m.file == filepath.ToSlash(rel) && (m.literal == "*" || m.literal == s)
			})
			if i < 0 {
				t.Errorf("%s:%d: %.80q names a kind: its kit hands this over, or it stands in the list with a reason", filepath.ToSlash(rel), set.Position(lit.Pos()).Line, s)
			} else {
				used[i] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Fatalf("only %d files below the kinds were read", files)
	}
	for i, m := range meant {
		if m.why == "" {
			t.Errorf("%s %q: no reason", m.file, m.literal)
		}
		if !used[i] {
			t.Errorf("%s %q stands in the list and not in the code", m.file, m.literal)
		}
	}
}
