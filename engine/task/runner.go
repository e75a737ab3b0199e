package task

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Unittest is the runner of a task that names none.
const Unittest = "unittest"

// Runner is a program that runs the tests of a task, and how it names them.
type Runner struct {
	Name string
	Form string            // of an id, for people
	ID   func(string) bool // whether a text is an id
	// File is the file of the tree that holds a test; "" where the id does not say.
	File func(id string) string
	// Own reports whether only the task decides what stands at a path of the
	// tree: its tests, and what configures the runner.
	Own func(path string) bool
}

const maxTestID = 300 // bytes

// unittestID is at least module, class and method.
var unittestID = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){2,}$`)

// Runners are the runners that tasks may name.
var Runners = []Runner{
	{Name: Unittest, Form: "module.Class.method", ID: func(id string) bool { return unittestID().MatchString(id) }, File: noFile, Own: never},
	{
		Name: "pytest", Form: "path/to/test_file.py::test, path/to/test_file.py::Class::test[case]",
		ID: inFile(".py"), File: before("::"), Own: named("conftest.py pytest.ini .pytest.ini tox.ini setup.cfg pyproject.toml pytest.toml .pytest.toml"),
	},
	{
		Name: "go", Form: "folder::TestName, folder::TestName/case; the module's own folder is .",
		ID: func(id string) bool {
			dir, name, ok := strings.Cut(id, "::")
			return ok && (dir == "." || plainPath().MatchString(dir) && checkPath(dir) == nil) && goTest().MatchString(name) && printable(name)
		},
		File: noFile,
		Own: func(p string) bool {
			return strings.HasSuffix(p, "_test.go") || under(p, "vendor") || under(p, "testdata") || named("go.mod go.sum go.work")(p)
		},
	},
	{Name: "node", Form: "path/to/file.test.js::suite > test", ID: inFile(".js", ".mjs", ".cjs", ".ts"), File: before("::"), Own: script},
	{Name: "jest", Form: "path/to/file.test.js::suite > test", ID: inFile(".js", ".mjs", ".cjs", ".ts", ".jsx", ".tsx"), File: before("::"), Own: script},
	{
		Name: "cargo", Form: "lib::module::test, bin NAME::test, test NAME::test",
		ID: func(id string) bool { return cargoTest().MatchString(id) }, File: noFile,
		Own: func(p string) bool {
			return under(p, "tests") || under(p, ".cargo") || named("Cargo.toml Cargo.lock rust-toolchain rust-toolchain.toml build.rs")(p)
		},
	},
	{Name: "script", Form: "path/to/script, which writes the reward 0 or 1 to $AGON_REWARD", ID: func(id string) bool { return checkPath(id) == nil && plainPath().MatchString(id) }, File: func(id string) string { return id }, Own: never},
}

var (
	goTest    = lazyregexp.New(`^Test[^/\s]*(/.+)?$`)
	cargoTest = lazyregexp.New(`^(lib|(bin|test) [A-Za-z0-9_-]+)(::[A-Za-z0-9_]+)+$`)
)

// RunnerOf returns the runner of a task.
func RunnerOf(a *Agon) (Runner, bool) {
	for _, r := range Runners {
		if r.Name == a.Runner || a.Runner == "" && r.Name == Unittest {
			return r, true
		}
	}
	return Runner{}, false
}

func runnerNames() []string {
	var out []string
	for _, r := range Runners {
		out = append(out, r.Name)
	}
	return out
}

func noFile(string) string { return "" }

func never(string) bool { return false }

// inFile wants path::name, where the path ends as one of those given.
func inFile(ends ...string) func(string) bool {
	return func(id string) bool {
		p, name, ok := strings.Cut(id, "::")
		if !ok || name == "" || !printable(name) || !plainPath().MatchString(p) || checkPath(p) != nil {
			return false
		}
		for _, e := range ends {
			if strings.HasSuffix(p, e) {
				return true
			}
		}
		return false
	}
}

func before(sep string) func(string) string {
	return func(id string) string {
		p, _, _ := strings.Cut(id, sep)
		return p
	}
}

// named is for files of these names, in any folder.
func named(list string) func(string) bool {
	names := map[string]bool{}
	for n := range strings.FieldsSeq(list) {
		names[n] = true
	}
	return func(p string) bool { return names[p[strings.LastIndexByte(p, '/')+1:]] }
}

// under reports whether a folder of this name is above p.
func under(p, folder string) bool { return strings.Contains("/"+p, "/"+folder+"/") }

var scriptTest = lazyregexp.New(`[.-](test|spec)\.[cm]?[jt]sx?$`)

func script(p string) bool {
	return scriptTest().MatchString(p) || under(p, "node_modules") || under(p, "__tests__") || under(p, "__snapshots__") || strings.HasSuffix(p, ".snap") ||
		named("package.json .npmrc jest.config.js jest.config.cjs jest.config.mjs jest.config.json jest.config.ts babel.config.js babel.config.cjs .babelrc")(p)
}

func printable(s string) bool {
	for _, c := range s {
		if c == utf8.RuneError || unicode.IsControl(c) {
			return false
		}
	}
	return utf8.ValidString(s)
}
