package task

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon/blob"
)

const goodConfig = `version = "1.0"

[task]
name = "agon/stack-pop"

[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 60.0
env = { HARBOR = "may hold more than we know" }

[environment]
cpus = 1
memory_mb = 512

[agon]
kind = "coding"
base = "environment/repo"
hidden = "tests/hidden"
solution = "solution/fix.patch"
fail_to_pass = ["tests.test_stack.TestPop.test_empty"]
pass_to_pass = ["tests.test_stack.TestPop.test_one"]
`

const recipeConfig = `version = "1.0"
[agon]
kind = "coding"
fail_to_pass = ["tests.test_x.TestX.test_y"]
[agon.released]
package = "some-package"
base = "1.0"
base_sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
fix = "1.1"
fix_sha256 = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
licence = "MIT"
sources = ["some.py"]
tests = { "tests/test_x.py" = "tests/test_x.py" }
`

// edit is a change to the good task: a nil value removes the file.
type edit map[string]*fstest.MapFile

func text(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s), Mode: 0o644} }

func link(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

func good(e edit) fstest.MapFS {
	m := fstest.MapFS{
		"task.toml":                           text(goodConfig),
		"instruction.md":                      text("Popping an empty stack loses the error.\n"),
		"environment/repo/stack.py":           text("def pop(): pass\n"),
		"environment/repo/run.sh":             text("#!/bin/sh\n"),
		"environment/repo/tests/__init__.py":  text(""),
		"tests/hidden/tests/test_stack.py":    text("import unittest\n"),
		"tests/test.sh":                       text("#!/bin/sh\n"),
		"solution/fix.patch":                  text("--- a/stack.py\n"),
		"environment/repo/docs/guide/one.txt": text("one\n"),
	}
	for p, f := range e {
		if f == nil {
			delete(m, p)
			continue
		}
		m[p] = f
	}
	return m
}

func recipe(e edit) fstest.MapFS {
	m := fstest.MapFS{"task.toml": text(recipeConfig), "instruction.md": text("It breaks.\n")}
	for p, f := range e {
		m[p] = f
	}
	return m
}

func config(old, new string) edit {
	if !strings.Contains(goodConfig, old) {
		panic("no such text in the good config: " + old)
	}
	return edit{"task.toml": text(strings.Replace(goodConfig, old, new, 1))}
}

func TestLoad(t *testing.T) {
	got, err := Load(good(nil), "small/stack-pop")
	if err != nil {
		t.Fatal(err)
	}
	if got.Key != "small/stack-pop" || got.Instruction == "" || got.Recipe() {
		t.Errorf("got %+v", got)
	}
	a := got.Config.Agon
	if a.TestTimeoutSec != DefaultTestTimeoutSec || len(a.PythonPath) != 1 || a.PythonPath[0] != "" {
		t.Errorf("defaults are not filled in: %+v", a)
	}
	if err := got.Digest.Validate(); err != nil {
		t.Error(err)
	}
	for _, e := range got.Manifest().Files {
		want := blob.ModeFile
		if strings.HasSuffix(e.Path, ".sh") {
			want = blob.ModeExec
		}
		if e.Mode != want {
			t.Errorf("%s has mode %s, want %s", e.Path, e.Mode, want)
		}
	}
	r, err := Load(recipe(nil), "released/x")
	if err != nil {
		t.Fatal(err)
	}
	if !r.Recipe() {
		t.Error("a released task without trees is a recipe")
	}
	if _, err := r.SolutionPatch(); err == nil {
		t.Error("a recipe has no solution")
	}
}

// TestLoadRefuses has one row per rule; want is a part of the finding, which
// must stand alone.
func TestLoadRefuses(t *testing.T) {
	long := strings.Repeat("x", MaxInstruction+1)
	rows := []struct {
		name string
		fsys fs.FS
		want string
	}{
		{"no config", good(edit{"task.toml": nil}), "task.toml: missing"},
		{"no instruction", good(edit{"instruction.md": nil}), "instruction.md: missing"},
		{"empty instruction", good(edit{"instruction.md": text(" \n")}), "instruction.md: empty"},
		{"long instruction", good(edit{"instruction.md": text(long)}), "(limit 262144 bytes)"},
		{"instruction not UTF-8", good(edit{"instruction.md": text("\xff")}), "instruction.md: not UTF-8"},
		{"not TOML", good(edit{"task.toml": text("[agon")}), "task.toml:1:"},
		{"unknown field", good(config("kind = ", "kinds = 1\nkind = ")), `unknown field "agon.kinds"`},
		{"unknown released field", recipe(edit{"task.toml": text(recipeConfig + "sauces = []\n")}), `unknown field "agon.released.sauces"`},
		{"other kind", good(config(`kind = "coding"`, `kind = "../chess"`)), "agon.kind"},
		{"no kind", good(config(`kind = "coding"`, "")), "agon.kind"},
		{"no failing test", good(config(`["tests.test_stack.TestPop.test_empty"]`, "[]")), "agon.fail_to_pass: empty"},
		{"test of another style", good(config("tests.test_stack.TestPop.test_one", "tests/test_stack.py::TestPop")), "want an id of unittest"},
		{"test id with an option", good(config("tests.test_stack.TestPop.test_one", "-v.a.b")), "want an id of unittest"},
		{"test twice", good(config("TestPop.test_one", "TestPop.test_empty")), "listed twice"},
		{"test of no module", good(config("tests.test_stack.TestPop.test_one", "test.test_stack.TestPop.test_one")), `no module "test"`},
		{"endless test", good(config("[agon]", "[agon]\ntest_timeout_sec = 601")), "agon.test_timeout_sec"},
		{"negative timeout", good(config("timeout_sec = 60.0", "timeout_sec = -1.0")), "agent.timeout_sec"},
		{"timeout is not a number", good(config("timeout_sec = 60.0", "timeout_sec = nan")), "agent.timeout_sec"},
		{"infinite memory", good(config("cpus = 1", "cpus = inf")), "environment.cpus"},
		{"base missing", good(config("environment/repo", "environment/rep")), "agon.base"},
		{"base outside", good(config("environment/repo", "../repo")), "not local"},
		{"base absolute", good(config("environment/repo", "/etc")), "not local"},
		{"hidden in sight", good(config("tests/hidden", "environment/repo/tests")), "want a path below tests/"},
		{"solution in sight", good(config("solution/fix.patch", "environment/repo/stack.py")), "want a path below solution/"},
		{"solution missing", good(edit{"solution/fix.patch": nil}), "agon.solution"},
		{"solution empty", good(edit{"solution/fix.patch": text("")}), "agon.solution"},
		{"python path outside", good(config("[agon]", "[agon]\npython_path = [\"\", \"../x\"]")), "agon.python_path"},
		{"python path missing", good(config("[agon]", "[agon]\npython_path = [\"\", \"src\"]")), `"src" holds no file`},
		{"git directory", good(edit{"environment/repo/.GIT/config": text("")}), ".git element"},
		{"backslash", good(edit{`environment/repo/a\b`: text("")}), "backslash"},
		{"control character", good(edit{"environment/repo/a\x1bb": text("")}), "control character"},
		{"deep", good(edit{strings.Repeat("d/", MaxDepth) + "f": text("")}), "deeper"},
		{"long element", good(edit{strings.Repeat("d", 256): text("")}), "longer than 255"},
		{"device", good(edit{"environment/repo/null": {Mode: fs.ModeDevice}}), "not a regular file"},
		{"large file", good(edit{"environment/repo/big": {Data: make([]byte, MaxFile+1)}}), "file too large"},
		{"hidden over a directory", good(edit{"tests/hidden/docs": text("")}), "may not replace"},
		{"hidden below a file", good(edit{"tests/hidden/stack.py/x.py": text("")}), "may not stand below"},
		{"link unlisted", good(edit{"environment/repo/l": link("stack.py")}), "does not list"},
		{"link outside the base", good(edit{"tests/hidden/l": link("../../solution/fix.patch")}), "does not list"},
		{"link elsewhere", good(edit{"environment/symlinks": text("l -> stack.py\n"), "environment/repo/l": link("run.sh")}), "points elsewhere"},
		{"link and file", good(edit{"environment/symlinks": text("stack.py -> run.sh\n")}), "both a file and a symbolic link"},
		{"link without arrow", good(edit{"environment/symlinks": text("l stack.py\n")}), "want: path -> target"},
		{"link twice", good(edit{"environment/symlinks": text("l -> stack.py\nl -> run.sh\n")}), "listed twice"},
		{"link leaves", good(edit{"environment/symlinks": text("docs/l -> ../../symlinks\n")}), "leaves the base tree"},
		{"link absolute", good(edit{"environment/symlinks": text("l -> /etc/passwd\n")}), "relative and clean"},
		{"link unclean", good(edit{"environment/symlinks": text("l -> docs/../stack.py\n")}), "relative and clean"},
		{"link path leaves", good(edit{"environment/symlinks": text("../l -> stack.py\n")}), "not local"},
		{"link through a link", good(edit{"environment/symlinks": text("d -> docs\nd/l -> one.txt\n")}), "runs through another link"},
		{"link target through a link", good(edit{"environment/symlinks": text("d -> docs/guide\nl -> d/one.txt\n")}), "runs through another link"},
		{"hidden over a link", good(edit{"environment/symlinks": text("tests/test_stack.py -> ../stack.py\n")}), "may not replace"},
		{"hidden below a link", good(edit{"environment/symlinks": text("more -> docs\n"), "tests/hidden/more/x.py": text("")}), "may not stand below"},
		{"recipe with bytes", recipe(edit{"environment/repo/some.py": text("")}), "holds only task.toml"},
		{"recipe with a short sum", recipe(edit{"task.toml": text(strings.Replace(recipeConfig, "aaaa", "aaa", 1))}), "base_sha256"},
		{"recipe with an option for a version", recipe(edit{"task.toml": text(strings.Replace(recipeConfig, `"1.1"`, `"--pre"`, 1))}), "is not a version"},
		{"recipe with a URL for a name", recipe(edit{"task.toml": text(strings.Replace(recipeConfig, "some-package", "x @ file:///etc", 1))}), "is not a package name"},
		{"recipe that writes outside", recipe(edit{"task.toml": text(strings.Replace(recipeConfig, `= "tests/test_x.py" }`, `= "../test_x.py" }`, 1))}), "not local"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := Load(r.fsys, "small/stack-pop")
			var bad *InvalidError
			if !errors.As(err, &bad) || !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v, want an InvalidError", err)
			}
			if !strings.Contains(err.Error(), r.want) {
				t.Errorf("got %v, want %q in it", err, r.want)
			}
			if len(bad.Findings) != 1 {
				t.Errorf("got %d findings, want the one: %v", len(bad.Findings), err)
			}
			if strings.ContainsRune(err.Error(), '\n') && r.name != "not TOML" {
				t.Errorf("error has more than one line: %q", err)
			}
		})
	}
}

func TestLoadNamesEveryMistake(t *testing.T) {
	cfg := strings.NewReplacer(`kind = "coding"`, `kind = "Chess"`, "cpus = 1", "cpus = -1", "tests/hidden", "tests/hid").Replace(goodConfig)
	_, err := Load(good(edit{"task.toml": text(cfg), "instruction.md": text("")}), "small/x")
	var bad *InvalidError
	if !errors.As(err, &bad) || len(bad.Findings) != 4 {
		t.Errorf("got %v, want four findings", err)
	}
	many := good(nil)
	for i := range MaxFiles {
		many[fmt.Sprintf("environment/repo/n%d/f%d", i%50, i)] = text("")
	}
	if _, err := Load(many, "small/x"); err == nil || !strings.Contains(err.Error(), "too many files") {
		t.Errorf("got %v, want too many files", err)
	}
}

func TestKey(t *testing.T) {
	for key, ok := range map[string]bool{
		"small/stack-pop": true, "released/a1": true, "": false, "small": false, "small/": false, "/x": false,
		"small/x/y": false, "small/..": false, "Small/x": false, "small/-x": false, "small/" + strings.Repeat("x", 65): false,
	} {
		_, err := Load(good(nil), key)
		if (err == nil) != ok {
			t.Errorf("key %q: got error %v, want ok %v", key, err, ok)
		}
	}
}

func TestMaterialise(t *testing.T) {
	src := good(edit{"environment/symlinks": text("# links of the base tree\nlatest -> docs/guide\ndocs/up.py -> ../stack.py\n")})
	first, err := Load(src, "small/links")
	if err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(t.TempDir(), "deep", "task")
	if err := Materialise(first, dst); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(filepath.Join(dst, "environment/repo/docs/up.py")); err != nil || got != "../stack.py" {
		t.Errorf("link is %q, %v", got, err)
	}
	if st, err := os.Stat(filepath.Join(dst, "environment/repo/run.sh")); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("run.sh is %v, %v, want an executable", st, err)
	}
	again, err := LoadDir(dst, "small/links")
	if err != nil {
		t.Fatal(err)
	}
	if again.Digest != first.Digest {
		t.Errorf("digest %s after materialising, want %s", again.Digest, first.Digest)
	}
	if sum, err := blob.SumTree(t.Context(), dst, blob.TreeLimits{}); err != nil || sum != first.Digest {
		t.Errorf("blob store names the tree %s, %v, want %s", sum, err, first.Digest)
	}
	if again.Dir != dst {
		t.Errorf("dir is %q", again.Dir)
	}
	if b, err := again.SolutionPatch(); err != nil || len(b) == 0 {
		t.Errorf("solution: %q, %v", b, err)
	}
	if err := Materialise(again, dst); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v over an existing directory, want ErrExist", err)
	}

	// What changed after Load is not written, and leaves nothing behind.
	if err := os.WriteFile(filepath.Join(dst, "environment/repo/stack.py"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Materialise(again, dst+"2"); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v, want ErrChanged", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dst), "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Lstat(dst + "2"); err == nil {
		t.Error("half a task was written")
	}
}

// TestDigestIsContent: one changed byte, mode or target is another task.
func TestDigestIsContent(t *testing.T) {
	digest := func(e edit) string {
		got, err := Load(good(e), "small/x")
		if err != nil {
			t.Fatal(err)
		}
		return string(got.Digest)
	}
	seen := map[string]string{}
	for name, e := range map[string]edit{
		"same":   nil,
		"byte":   {"environment/repo/stack.py": text("def pop(): pass \n")},
		"mode":   {"environment/repo/run.sh": text("# /bin/sh\n")},
		"name":   {"environment/repo/run.sh": nil, "environment/repo/Run.sh": text("#!/bin/sh\n")},
		"link":   {"environment/symlinks": text("l -> stack.py\n")},
		"target": {"environment/symlinks": text("l -> run.sh\n")},
	} {
		d := digest(e)
		if other, dup := seen[d]; dup {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		seen[d] = name
	}
	loose := good(nil)
	for _, f := range loose {
		f.Mode = 0o444 // as embedded files have it
	}
	got, err := Load(loose, "small/y")
	if err != nil {
		t.Fatal(err)
	}
	if seen[string(got.Digest)] != "same" {
		t.Error("digest depends on the modes of the file system or on the key")
	}
}

func TestLoadSet(t *testing.T) {
	set := fstest.MapFS{"README.md": text("about\n")}
	for p, f := range good(nil) {
		set["b/"+p], set["a/"+p] = f, f
	}
	set["broken/task.toml"] = text("")
	tasks, err := LoadSet(set, "small")
	if err == nil || !strings.Contains(err.Error(), "small/broken") {
		t.Errorf("got %v, want the broken task named", err)
	}
	if len(tasks) != 2 || tasks[0].Key != "small/a" || tasks[1].Key != "small/b" {
		t.Errorf("got %d tasks", len(tasks))
	}
}

// TestLoadDirHostile: a directory on disk may hold links and devices.
func TestLoadDirHostile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t")
	first, err := Load(good(nil), "small/x")
	if err != nil {
		t.Fatal(err)
	}
	if err := Materialise(first, dir); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("# secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "instruction.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "instruction.md")); err != nil {
		t.Fatal(err)
	}
	if got, err := LoadDir(dir, "small/x"); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v, %v through a link out of the directory", got, err)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(goodConfig))
	f.Add([]byte(recipeConfig))
	f.Add([]byte(""))
	f.Add([]byte("[agon]\nfail_to_pass = [\"a.b.c\"]\npython_path = [\"../..\"]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > MaxConfig {
			return
		}
		got, err := Load(good(edit{"task.toml": {Data: b}}), "small/x")
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		a := got.Config.Agon
		if a.Kind != "" && !kindName().MatchString(a.Kind) { // Harbor's own tasks name none
			t.Fatalf("accepted the kind %q", a.Kind)
		}
		if !a.Repository() {
			return
		}
		if len(a.FailToPass) == 0 || a.TestTimeoutSec <= 0 || a.TestTimeoutSec > maxTestTimeoutSec || !fs.ValidPath(a.Base) {
			t.Fatalf("accepted %+v", a)
		}
	})
}

func FuzzLinks(f *testing.F) {
	f.Add("a -> b\n")
	f.Add("docs/l -> ../../../etc/passwd\nd -> docs\nd/x -> ../y")
	f.Fuzz(func(t *testing.T, list string) {
		got, err := Load(good(edit{"environment/symlinks": text(list)}), "small/x")
		if err != nil {
			return
		}
		dir := filepath.Join(t.TempDir(), "t")
		if err := Materialise(got, dir); err != nil {
			t.Fatalf("accepted links cannot be made: %v", err)
		}
		base := filepath.Join(dir, "environment/repo")
		for _, e := range got.files {
			if e.mode != blob.ModeLink {
				continue
			}
			to, err := filepath.EvalSymlinks(filepath.Join(dir, e.path))
			if err == nil && to != base && !strings.HasPrefix(to, base+"/") {
				t.Fatalf("%s leads to %s", e.path, to)
			}
		}
	})
}
