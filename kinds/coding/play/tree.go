package play

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/agon-arena/agon/engine/task"
)

// isNotDir reports the error of a path that goes through a file.
func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// treeFile is a regular file or a link of a task.
type treeFile struct {
	data []byte
	mode fs.FileMode
	link string // target, for a symbolic link
}

// grading is the tree that tests run in: base, then the patch, then the
// hidden files. Test modules are apart from it: they are handed to the grader
// in memory and are not on the box's disk.
type grading struct {
	tree    map[string]treeFile
	modules map[string][]byte // protected Python files by tree path
	// own names the top-level modules that the base tree has at its Python
	// roots, before the patch: they may stand before the standard library's.
	own []string
	// decided reports whether the task alone decides what stands at a path.
	decided func(path string) bool
}

// buildGrading lays the changes of a patch over the base tree and the hidden
// files over both. Where a patch touches a protected path, the task's own
// version stands:
//   - every path that a hidden file has;
//   - the file of every listed test;
//   - everything in the directories of those files, if they are called test or tests.
func buildGrading(t *task.Task, changed map[string][]byte, execBit map[string]bool) (*grading, error) {
	base, err := basePath(t)
	if err != nil {
		return nil, err
	}
	tree, err := readTree(base)
	if err != nil {
		return nil, fmt.Errorf("read base tree: %w", err)
	}
	hidden := map[string]treeFile{}
	if t.Config.Agon.Hidden != "" {
		dir, err := under(t, t.Config.Agon.Hidden)
		if err != nil {
			return nil, err
		}
		if hidden, err = readTree(dir); err != nil {
			return nil, fmt.Errorf("read hidden files: %w", err)
		}
	}
	// The task's own files decide what is protected, before the patch has a say.
	own := map[string]treeFile{}
	for name, f := range tree {
		own[name] = f
	}
	for name, f := range hidden {
		own[name] = f
	}
	runner, _ := task.RunnerOf(&t.Config.Agon)
	files, dirs := testPlaces(t, runner, own)
	protected := func(name string) bool {
		if _, ok := hidden[name]; ok || files[name] || runner.Own(name) {
			return true
		}
		for d := path.Dir(name); d != "."; d = path.Dir(d) {
			if dirs[d] {
				return true
			}
		}
		return false
	}
	for name, data := range changed {
		switch {
		case protected(name):
		case data == nil:
			delete(tree, name)
		default:
			f := treeFile{data: data, mode: 0o644}
			if old, ok := tree[name]; ok {
				f.mode = old.mode
			}
			if bit, ok := execBit[name]; ok {
				f.mode = 0o644
				if bit {
					f.mode = 0o755
				}
			}
			tree[name] = f
		}
	}
	for name, f := range hidden {
		tree[name] = f
	}
	g := &grading{tree: tree, modules: map[string][]byte{}, own: topModules(t, own), decided: protected}
	for name, f := range tree {
		if runner.Name == task.Unittest && protected(name) && f.link == "" && importable(t, name) {
			g.modules[name] = f.data
			delete(tree, name)
		}
	}
	return g, nil
}

// testPlaces returns the files of the listed tests and the directories that
// hold nothing but tests.
func testPlaces(t *task.Task, runner task.Runner, own map[string]treeFile) (files, dirs map[string]bool) {
	files, dirs = map[string]bool{}, map[string]bool{}
	for _, id := range append(append([]string{}, t.Config.Agon.FailToPass...), t.Config.Agon.PassToPass...) {
		if runner.Name != task.Unittest {
			if f := runner.File(id); f != "" {
				files[f] = true
				markTestDirs(dirs, path.Dir(f))
			}
			continue
		}
		parts := strings.Split(id, ".")
		for _, root := range pythonPath(t) {
			for n := len(parts) - 2; n > 0; n-- {
				name := path.Join(root, path.Join(parts[:n]...))
				for _, f := range []string{name + ".py", name + "/__init__.py"} {
					if _, ok := own[f]; ok {
						files[f] = true
						markTestDirs(dirs, path.Dir(f))
					}
				}
			}
		}
	}
	return files, dirs
}

// markTestDirs notes dir and those above it that are called test or tests.
func markTestDirs(dirs map[string]bool, dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		if b := path.Base(dir); b == "test" || b == "tests" {
			dirs[dir] = true
		}
	}
}

func pythonPath(t *task.Task) []string {
	if len(t.Config.Agon.PythonPath) == 0 {
		return []string{""}
	}
	return t.Config.Agon.PythonPath
}

// importable reports whether a file is a module below one of the task's
// Python roots; grade.py's module_names says the same.
func importable(t *task.Task, name string) bool {
	stem, ok := strings.CutSuffix(name, ".py")
	if !ok {
		return false
	}
	for _, root := range pythonPath(t) {
		rel := stem
		if root = path.Clean(root); root != "." {
			if rel, ok = strings.CutPrefix(stem, root+"/"); !ok {
				continue
			}
		}
		good := true
		for p := range strings.SplitSeq(rel, "/") {
			good = good && isIdentifier(p)
		}
		if good && rel != "__init__" {
			return true
		}
	}
	return false
}

// topModules lists, sorted, the top-level modules and packages of a tree.
func topModules(t *task.Task, tree map[string]treeFile) []string {
	set := map[string]bool{}
	for name := range tree {
		for _, root := range pythonPath(t) {
			rel := name
			if root = path.Clean(root); root != "." {
				var ok bool
				if rel, ok = strings.CutPrefix(name, root+"/"); !ok {
					continue
				}
			}
			top, _, nested := strings.Cut(rel, "/")
			stem, py := strings.CutSuffix(top, ".py")
			if nested && strings.HasSuffix(name, ".py") || !nested && py {
				if isIdentifier(stem) {
					set[stem] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func isIdentifier(s string) bool {
	for i := range len(s) {
		if !(s[i] == '_' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z' || i > 0 && isDigit(s[i])) {
			return false
		}
	}
	return s != ""
}

// readTree reads a directory of a task. Links are kept as links and never followed.
func readTree(dir string) (map[string]treeFile, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	out := map[string]treeFile{}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := root.Readlink(name)
			out[name] = treeFile{link: target}
			return err
		}
		data, had, err := readRegular(root, name)
		if err != nil || !had {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		out[name] = treeFile{data: data, mode: 0o644 | fi.Mode()&0o111}
		return nil
	})
	return out, err
}

// write lays the tree out below dir, which must be empty. Everything is
// readable by all, because the box runs as another user.
func (g *grading) write(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	// A module's directory exists even where it holds nothing else: packages without __init__.py need it.
	for name := range g.modules {
		if err := root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o755); err != nil {
			return err
		}
	}
	var links []string
	for name, f := range g.tree {
		if f.link != "" {
			links = append(links, name)
			continue
		}
		if err := writeFile(root, name, f); err != nil {
			return err
		}
	}
	// Links last, so that no file is written through one.
	for _, name := range links {
		if err := mkParent(root, name); err != nil {
			return err
		}
		if err := root.Symlink(g.tree[name].link, name); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func writeFile(root *os.Root, name string, f treeFile) error {
	if err := mkParent(root, name); err != nil {
		return err
	}
	return root.WriteFile(name, f.data, f.mode)
}

func mkParent(root *os.Root, name string) error {
	if d := path.Dir(name); d != "." {
		return root.MkdirAll(d, 0o755)
	}
	return nil
}
