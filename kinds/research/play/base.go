package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/research/surface"
)

// maxBases bounds how many tasks' bases are remembered.
const maxBases = 16

// mark is what a file of the base must be, as box/workspace.py compares it:
// kind ("file", "exec", "link"), size, sha256 or target of a link.
type mark [3]any

// baseInfo is what does not change about a base: everything but where it lies.
type baseInfo struct {
	commit string // 40 hex digits; empty for a task's own tree
	marks  map[string]mark
	sizes  map[string]int64
	modes  map[string]uint32
}

// base is a base tree on this host for the time of one play.
type base struct {
	*baseInfo
	dir  string
	tree *surface.Tree
}

// open makes the surface's view of the tree in dir. Files are read from below
// root only, and never through a link.
func (i *baseInfo) open(dir string) *base {
	files := make(map[string]surface.File, len(i.modes))
	for name, mode := range i.modes {
		files[name] = surface.File{Mode: mode, Size: i.sizes[name], Read: func() ([]byte, error) { return readRegular(dir, name, i.sizes[name]) }}
	}
	return &base{baseInfo: i, dir: dir, tree: surface.NewTree(files)}
}

func readRegular(dir, name string, size int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	st, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() != size {
		return nil, fmt.Errorf("%s of the base is not what it was", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, size+1))
}

// baseOf returns the base of a task: its own tree, or the clone of the
// repository that it names.
func (k *Kind) baseOf(ctx context.Context, env kind.Env, t *Task, taskDir string, r agon.RunSpec) (*base, func(), error) {
	if t.Repository != "" {
		return k.clone(ctx, env, t, r)
	}
	dir, digest := filepath.Join(taskDir, filepath.FromSlash(BaseDir)), r.Tasks[0].Digest
	k.mu.Lock()
	info := k.bases[digest]
	k.mu.Unlock()
	if info == nil {
		// Reads and digests every file of the task: once is enough.
		tk, err := env.Task(ctx, r.Tasks[0])
		if err != nil {
			return nil, nil, err
		}
		if info, err = infoOf(tk); err != nil {
			return nil, nil, err
		}
		k.mu.Lock()
		if len(k.bases) >= maxBases {
			clear(k.bases)
		}
		k.bases[digest] = info
		k.mu.Unlock()
	}
	return info.open(dir), func() {}, nil
}

// infoOf takes the marks of a task's own tree from the task's manifest, whose
// digests were just compared with its bytes.
func infoOf(tk *task.Task) (*baseInfo, error) {
	i := &baseInfo{marks: map[string]mark{}, sizes: map[string]int64{}, modes: map[string]uint32{}}
	for _, e := range tk.Manifest().Files {
		name, ok := strings.CutPrefix(e.Path, BaseDir+"/")
		if !ok {
			continue
		}
		switch e.Mode {
		case blob.ModeLink:
			root, err := os.OpenRoot(tk.Dir)
			if err != nil {
				return nil, fmt.Errorf("open task: %w", err)
			}
			target, err := root.Readlink(e.Path)
			_ = root.Close()
			if err != nil {
				return nil, fmt.Errorf("read link of the base: %w", err)
			}
			i.marks[name], i.modes[name] = mark{"link", 0, target}, surface.ModeLink
		case blob.ModeExec:
			i.marks[name], i.modes[name] = mark{"exec", e.Size, e.Digest.Hex()}, surface.ModeExec
		default:
			i.marks[name], i.modes[name] = mark{"file", e.Size, e.Digest.Hex()}, surface.ModeFile
		}
		i.sizes[name] = e.Size
	}
	if len(i.marks) == 0 {
		return nil, errors.New("the task's base is empty")
	}
	return i, nil
}

// OpenTask reads the research half of a task directory on this host.
func OpenTask(dir string) (Task, Private, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Task{}, Private{}, fmt.Errorf("open task: %w", err)
	}
	defer func() { _ = root.Close() }()
	return LoadTask(root.FS())
}

// protected lists what must not change from the base: all that a patch may not.
func (b *base) protected(t *Task) map[string]mark {
	out := map[string]mark{}
	rule := t.Rule()
	for name, m := range b.marks {
		if !surface.Match(rule.Style, rule.Allowed, name) {
			out[name] = m
		}
	}
	return out
}

// unasked reports files that an interpreter loads without being asked to.
func unasked(name string) bool {
	b := strings.ToLower(path.Base(name))
	switch b {
	case "sitecustomize.py", "usercustomize.py", "pyvenv.cfg":
		return true
	}
	return strings.HasSuffix(b, ".pyc") || strings.HasSuffix(b, ".pyo") || strings.HasSuffix(b, ".pth")
}

// codeDirs lists the directories that hold protected Python files.
func codeDirs(files map[string]mark) map[string]bool {
	out := map[string]bool{}
	for name := range files {
		if strings.HasSuffix(name, ".py") {
			out[path.Dir(name)] = true
		}
	}
	return out
}

// shadows reports a new module below a directory whose protected code would
// find it before the one that it means: json.py beside benchmark.py. What is
// installed in .venv is reached by those who ask for it.
func shadows(name string, code map[string]bool) bool {
	if l := strings.ToLower(name); !strings.HasSuffix(l, ".py") && !strings.HasSuffix(l, ".so") || strings.HasPrefix(l, ".venv/") {
		return false
	}
	for d := path.Dir(name); ; d = path.Dir(d) {
		if code[d] {
			return true
		}
		if d == "." {
			return false
		}
	}
}

// exists reports whether a directory is in a task's tree.
func exists(dir, name string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer func() { _ = root.Close() }()
	st, err := root.Lstat(name)
	return err == nil && st.IsDir()
}

// copyTree copies regular files.
func copyTree(src, dst string) error {
	root, err := os.OpenRoot(src)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dst, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dst, name), b, 0o644)
	})
}
