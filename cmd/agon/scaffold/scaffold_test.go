package scaffold

import (
	"bytes"
	"errors"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// repo is the root of this repository.
const repo = "../../.."

// code is the code of an *agon.Error; "" for nil.
func code(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *agon.Error
	if !errors.As(err, &e) || e.Message == "" || e.Mend == "" || strings.Contains(err.Error(), "\n") {
		t.Errorf("not one clear error: %v", err)
		return "unclear"
	}
	return e.Code
}

// below lists the files below dir.
func below(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			out = append(out, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// clone is a directory that looks like a clone of agon.
func clone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	b, err := os.ReadFile(filepath.Join(repo, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What cannot be is refused with one error, and nothing is written.
func TestNewRefuses(t *testing.T) {
	dir := clone(t)
	if err := os.MkdirAll(filepath.Join(dir, "kinds", "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kinds/full/x", "kinds/file"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := below(t, dir)
	for _, c := range []struct{ name, dir, module, want string }{
		{"", "kinds/a", "", "bad_name"},
		{"g", "kinds/a", "", "bad_name"},
		{"Golf", "kinds/a", "", "bad_name"},
		{"golf-2", "kinds/a", "", "bad_name"},
		{"golf_2", "kinds/a", "", "bad_name"},
		{"2golf", "kinds/a", "", "bad_name"},
		{"gölf", "kinds/a", "", "bad_name"},
		{"../golf", "kinds/a", "", "bad_name"},
		{strings.Repeat("g", 31), "kinds/a", "", "bad_name"},
		{"func", "kinds/a", "", "bad_name"},
		{"string", "kinds/a", "", "bad_name"},
		{"main", "kinds/a", "", "bad_name"},
		{"kit", "kinds/a", "", "bad_name"},
		{placeholder, "kinds/a", "", "bad_name"},
		{"coding", "kinds/a", "", "kind_taken"},
		{"golf", "kinds/full", "", "dir_not_empty"},
		{"golf", "kinds/file", "", "not_a_directory"},
		{"golf", "golf", "", "bad_dir"},
		{"golf", "kinds", "", "dir_not_empty"},
		{"golf", "kinds/full/golf", "", "bad_dir"},
		{"golf", "kinds/a", "-x", "bad_module"},
		{"golf", "kinds/a", "example.org/a b", "bad_module"},
		{"golf", "kinds/a", "example.org/x\"\nreplace", "bad_module"},
	} {
		_, err := New(kinds.All(), cli.KindNewOptions{Name: c.name, Dir: filepath.Join(dir, c.dir), Module: c.module, Agon: repo})
		if got := code(t, err); got != c.want {
			t.Errorf("%q in %s (%q): %q (%v), want %q", c.name, c.dir, c.module, got, err, c.want)
		}
		if after := below(t, dir); !slices.Equal(before, after) {
			t.Fatalf("%q in %s: wrote %v", c.name, c.dir, after)
		}
	}
}

// What is written is sprout under its own name, in a subnet of its own.
func TestNewInAClone(t *testing.T) {
	dir := clone(t)
	at := filepath.Join(dir, "kinds", "golf")
	if err := os.MkdirAll(at, 0o755); err != nil { // an empty directory is taken
		t.Fatal(err)
	}
	made, err := New(kinds.All(), cli.KindNewOptions{Name: "golf", Dir: at})
	if err != nil {
		t.Fatal(err)
	}
	if made.Package != module+"/kinds/golf" || made.Module != "" || made.Arena != "golf.toml" {
		t.Errorf("%+v", made)
	}
	var want []string
	for _, p := range below(t, placeholder) {
		want = append(want, strings.ReplaceAll(p, placeholder, "golf"))
	}
	slices.Sort(want)
	if got := below(t, at); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	nets := map[uint16]bool{}
	for _, f := range kinds.All().Demos() {
		nets[f.Netuid] = true
	}
	for _, p := range below(t, at) {
		b, err := os.ReadFile(filepath.Join(at, p))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(bytes.ToLower(b), []byte(placeholder)) {
			t.Errorf("%s still says %s", p, placeholder)
		}
		switch {
		case strings.HasSuffix(p, ".go"):
			if neat, err := format.Source(b); err != nil || !bytes.Equal(neat, b) {
				t.Errorf("%s is not formatted: %v", p, err)
			}
		case p == "golf.toml":
			f := kit.ShippedArena(b)()
			if f.ID != "golf" || f.Kind != "golf" || !f.Samples || nets[f.Netuid] || f.Netuid == 0 || f.Netuid > 100 {
				t.Errorf("arena %+v", f)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "kinds", ".*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v %v", left, err)
	}
}

// A kind in another module compiles with its tests, from nothing but this clone
// and the modules that it needs itself.
func TestAnotherModule(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles")
	}
	dir := filepath.Join(t.TempDir(), "golf")
	made, err := New(kinds.All(), cli.KindNewOptions{Name: "golf", Dir: dir, Agon: repo})
	if err != nil {
		t.Fatal(err)
	}
	if made.Module != "example.org/golf" || made.Package != made.Module {
		t.Errorf("%+v", made)
	}
	// The other suites can be imported, too.
	suites := `package golf

import (
	"testing"

	"github.com/agon-arena/agon/auth/dialect/dialecttest"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/gatewaytest"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest"
)

func TestSuites(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Config{Driver: sandbox.Driver(nil)})
	gatewaytest.Start(t, gateway.Config{}, gatewaytest.Says(gatewaytest.Answer))
	dialecttest.Verifier(t)
}
`
	if err := os.WriteFile(filepath.Join(dir, "suites_test.go"), []byte(suites), 0o600); err != nil {
		t.Fatal(err)
	}
	// -mod=readonly: go.mod is whole as it was written.
	for _, args := range [][]string{{"vet", "-mod=readonly", "."}, {"list", "-mod=readonly", "-deps", "-test", "."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=-trimpath")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %v: %v\n%s", args, err, out)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	golf := filepath.Join(t.TempDir(), "golf")
	if _, err := New(kinds.All(), cli.KindNewOptions{Name: "golf", Dir: golf, Agon: repo, Module: "example.org/golf"}); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	good := "example.org/golf=" + golf
	for _, c := range []struct {
		with       []string
		file, from string
		want       string
	}{
		{nil, "x", repo, "bad_with"},
		{[]string{"not a module"}, "x", repo, "bad_with"},
		{[]string{"example.org/golf\"=" + golf}, "x", repo, "bad_with"},
		{[]string{"example.org/golf="}, "x", repo, "bad_with"},
		{[]string{"example.org/golf=" + empty}, "x", repo, "bad_with"},
		{[]string{"example.org/chess=" + golf}, "x", repo, "bad_with"},
		{[]string{"example.org/golf@latest"}, "x", repo, "bad_with"},
		{[]string{"example.org/golf@v1.0.0=" + golf}, "x", repo, "bad_with"},
		{[]string{module}, "x", repo, "bad_with"},
		{[]string{good, good}, "x", repo, "bad_with"},
		{[]string{good}, empty, repo, "bad_output"},
		{[]string{good}, "x", empty, "bad_agon"},
		{[]string{good}, "x", clone(t), "no_go"},
	} {
		t.Run(c.want, func(t *testing.T) {
			t.Setenv("PATH", empty)
			if c.file != empty {
				c.file = filepath.Join(t.TempDir(), c.file)
			}
			_, err := Build(t.Context(), cli.BuildOptions{With: c.with, File: c.file, Agon: c.from, Say: t.Logf})
			if got := code(t, err); got != c.want {
				t.Errorf("%v: %q (%v), want %q", c.with, got, err, c.want)
			}
		})
	}
}

func TestMainOf(t *testing.T) {
	got, err := mainOf([]with{{module: "example.org/golf"}, {module: "example.org/chess/v2"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`kind0 "example.org/golf"`, `kind1 "example.org/chess/v2"`, "kind0.Kit(),\n", "kind1.Kit(),\n", "kinds.All()"} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// A path may hold what means something in go.mod.
func TestGoModOfOddPaths(t *testing.T) {
	for path, want := range map[string]string{"/a/b": "/a/b", "/a b": "`/a b`", "/a(b": "`/a(b`"} {
		if got := quotePath(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	s := Source{Version: "v1.2.3"}
	b, _, err := s.goMod("example.org/x", []with{{module: "example.org/y", version: "v0.1.0"}, {module: "example.org/z"}})
	if err != nil || !bytes.Contains(b, []byte("require "+module+" v1.2.3\n")) || !bytes.Contains(b, []byte("require example.org/y v0.1.0\n")) || bytes.Contains(b, []byte("example.org/z")) {
		t.Errorf("%v\n%s", err, b)
	}
}
