package miner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon/internal/lazyregexp"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/surface"
)

// Patch is what a workspace changes of a task's base.
type Patch struct {
	Base  string // 40 hex
	Text  string // UTF-8: files that are not text travel as git's binary patches
	Paths []string
	// Outside lists changes that the task does not allow; they are not in Text.
	Outside []string
}

// DirtyError lists what a workspace changes outside a task's surface.
type DirtyError struct {
	Paths   []string
	Allowed []string
}

func (e *DirtyError) Error() string {
	shown := e.Paths
	if len(shown) > 20 {
		shown = shown[:20]
	}
	files := "files"
	if len(e.Paths) == 1 {
		files = "file"
	}
	return fmt.Sprintf("the workspace changes %d %s outside the task's allowed paths (%s): %s; undo them, or pass --allow-dirty to send the allowed part only",
		len(e.Paths), files, strings.Join(e.Allowed, ", "), strings.Join(shown, ", "))
}

// ErrNoPatch is the stock client's word for a workspace without a change.
var ErrNoPatch = errors.New("repo checkout has no patch to submit")

var commitForm = lazyregexp.New(`^[0-9a-f]{40}$`)

// repo runs git in a workspace. Nothing of the user's configuration that would
// change bytes or run programs has a say.
type repo struct {
	dir  string
	env  []string
	conf []string
}

func (r *repo) git(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	full := append([]string{
		"-c", "core.quotePath=false", "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false", "-c", "core.safecrlf=false", "-c", "diff.noprefix=false",
		"-c", "diff.mnemonicPrefix=false", "-c", "diff.renames=false", "-c", "diff.orderFile=/dev/null", "-c", "diff.context=3", "-c", "diff.interHunkContext=0",
	}, r.conf...)
	cmd := exec.CommandContext(ctx, "git", append(full, args...)...)
	cmd.Dir = r.dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0"), r.env...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.Bytes(), nil
}

func split(b []byte) []string {
	var out []string
	for s := range strings.SplitSeq(string(b), "\x00") {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// Style is how a task's allowed paths are read.
func Style(t kr.Task) surface.Style {
	if t.Fnmatch {
		return surface.StyleFnmatch
	}
	return surface.StylePath
}

// MakePatch computes the change of a workspace against base (empty: HEAD) byte
// by byte: line ends, binary files, names of any bytes, files that git does not
// track yet and work that is committed already. ignore lists paths of the
// workspace that are never part of it (the sidecar, results).
func MakePatch(ctx context.Context, dir, base string, t kr.Task, ignore []string) (*Patch, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	r := &repo{dir: abs}
	top, err := r.git(ctx, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("%s is not a git checkout: %w", dir, err)
	}
	r.dir = strings.TrimRight(string(top), "\n")
	if base == "" {
		base = "HEAD"
	}
	b, err := r.git(ctx, nil, "rev-parse", "--verify", "--end-of-options", base+"^{commit}")
	if err != nil {
		return nil, fmt.Errorf("the checkout does not hold the base %s: clone the task's repository: %w", base, err)
	}
	p := &Patch{Base: strings.TrimSpace(string(b))}
	if !commitForm().MatchString(p.Base) {
		return nil, fmt.Errorf("base %q is not a commit", p.Base)
	}
	changed, err := r.changed(ctx, p.Base)
	if err != nil {
		return nil, err
	}
	for _, name := range changed {
		switch {
		case slices.Contains(ignore, name) || generated(name):
		case surface.Match(Style(t), t.AllowedPatchPaths, name):
			p.Paths = append(p.Paths, name)
		default:
			p.Outside = append(p.Outside, name)
		}
	}
	if len(p.Paths) == 0 {
		return p, nil
	}
	text, err := r.diff(ctx, p.Base, p.Paths)
	p.Text = string(text)
	return p, err
}

// generated reports what interpreters leave behind: never part of a patch.
func generated(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasSuffix(lower, ".pyc") || strings.HasSuffix(lower, ".pyo") || slices.Contains(strings.Split(name, "/"), "__pycache__")
}

// changed lists the files that differ between a commit and the workspace,
// those that git does not track (and does not ignore) among them.
func (r *repo) changed(ctx context.Context, base string) ([]string, error) {
	diff, err := r.git(ctx, nil, "diff", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none", base, "--")
	if err != nil {
		return nil, err
	}
	cached, err := r.git(ctx, nil, "diff", "-z", "--cached", "--name-only", "--no-renames", "--no-ext-diff", base, "--")
	if err != nil {
		return nil, err
	}
	other, err := r.git(ctx, nil, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	out := slices.Concat(split(diff), split(cached), split(other))
	slices.Sort(out)
	return slices.Compact(out), nil
}

// diff writes the patch of paths from a scratch index and a scratch object
// store: the bytes of the workspace go in as they are, whatever filters
// .gitattributes asks for.
func (r *repo) diff(ctx context.Context, base string, paths []string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "agon-index-")
	if err != nil {
		return nil, fmt.Errorf("make scratch index: %w", err)
	}
	defer os.RemoveAll(tmp)
	objects, err := r.git(ctx, nil, "rev-parse", "--git-path", "objects")
	if err != nil {
		return nil, err
	}
	store := strings.TrimRight(string(objects), "\n")
	if !filepath.IsAbs(store) {
		store = filepath.Join(r.dir, store)
	}
	if err := os.Mkdir(filepath.Join(tmp, "objects"), 0o700); err != nil {
		return nil, fmt.Errorf("make scratch index: %w", err)
	}
	s := &repo{dir: r.dir, env: []string{
		"GIT_INDEX_FILE=" + filepath.Join(tmp, "index"), "GIT_OBJECT_DIRECTORY=" + filepath.Join(tmp, "objects"), "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + store,
	}}
	if _, err := s.git(ctx, nil, "read-tree", base); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	defer root.Close()
	modes, err := s.modes(ctx, base, paths)
	if err != nil {
		return nil, err
	}
	var info bytes.Buffer
	var opaque []string // files whose diff as text would not be UTF-8
	for _, p := range paths {
		mode, data, err := readFile(root, p, modes[p])
		if errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(&info, "0 %040d\t%s\x00", 0, p)
			continue
		}
		if err != nil {
			return nil, err
		}
		sum, err := s.git(ctx, data, "hash-object", "-w", "--no-filters", "--stdin")
		if err != nil {
			return nil, err
		}
		if !utf8.Valid(data) {
			opaque = append(opaque, p)
		}
		fmt.Fprintf(&info, "%s %s\t%s\x00", mode, bytes.TrimSpace(sum), p)
	}
	if _, err := s.git(ctx, info.Bytes(), "update-index", "-z", "--index-info"); err != nil {
		return nil, err
	}
	out, err := s.render(ctx, base)
	if err != nil || utf8.Valid(out) {
		return out, err
	}
	// The old side may be what is not UTF-8: then every file goes as binary.
	if out, err = s.opaque(ctx, tmp, base, opaque); err != nil || utf8.Valid(out) {
		return out, err
	}
	return s.opaque(ctx, tmp, base, paths)
}

func (r *repo) render(ctx context.Context, base string) ([]byte, error) {
	return r.git(ctx, nil, "diff", "--cached", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/", base, "--")
}

// opaque renders with some files marked as binary.
func (r *repo) opaque(ctx context.Context, tmp, base string, paths []string) ([]byte, error) {
	var b bytes.Buffer
	for _, p := range paths {
		q := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "[", `\\[`, "*", `\\*`, "?", `\\?`).Replace(p)
		fmt.Fprintf(&b, "\"/%s\" -diff\n", q)
	}
	name := filepath.Join(tmp, "attributes")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("make scratch index: %w", err)
	}
	s := *r
	s.conf = []string{"-c", "core.attributesFile=" + name}
	return s.render(ctx, base)
}

// modes are those of paths at base.
func (r *repo) modes(ctx context.Context, base string, paths []string) (map[string]string, error) {
	b, err := r.git(ctx, nil, "ls-tree", "-r", "-z", base)
	if err != nil {
		return nil, err
	}
	want := map[string]bool{}
	for _, p := range paths {
		want[p] = true
	}
	out := map[string]string{}
	for _, line := range split(b) {
		meta, name, _ := strings.Cut(line, "\t")
		if mode, _, ok := strings.Cut(meta, " "); ok && want[name] {
			out[name] = mode
		}
	}
	return out, nil
}

// readFile reads a file of the workspace with git's mode for it. Links are not followed.
func readFile(root *os.Root, name, was string) (mode string, data []byte, err error) {
	st, err := root.Lstat(name)
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", name, err)
	}
	switch {
	case st.Mode()&os.ModeSymlink != 0:
		to, err := root.Readlink(name)
		return "120000", []byte(to), err
	case !st.Mode().IsRegular():
		return "", nil, fmt.Errorf("read %s: it is not a file", name)
	case st.Size() > kr.HighestMaxPatch:
		return "", nil, fmt.Errorf("read %s: %d bytes are more than any patch may have (%d)", name, st.Size(), kr.HighestMaxPatch)
	}
	data, err = root.ReadFile(name)
	mode = "100644"
	if st.Mode()&0o111 != 0 {
		mode = "100755"
	}
	if was == "100644" || was == "100755" {
		mode = was // a mode is never part of a patch: it would be refused
	}
	return mode, data, err
}

// BaseTree reads a commit of a workspace as the tree that patches are checked against.
func BaseTree(ctx context.Context, dir, base string) (*surface.Tree, error) {
	r := &repo{dir: dir}
	b, err := r.git(ctx, nil, "ls-tree", "-r", "-z", "-l", base)
	if err != nil {
		return nil, err
	}
	files := map[string]surface.File{}
	for _, line := range split(b) {
		meta, name, _ := strings.Cut(line, "\t")
		f := strings.Fields(meta)
		if len(f) != 4 {
			return nil, fmt.Errorf("read base: %q", line)
		}
		var mode uint32
		var size int64
		if _, err := fmt.Sscanf(f[0], "%o", &mode); err != nil {
			return nil, fmt.Errorf("read base: mode %q", f[0])
		}
		if f[3] != "-" {
			if _, err := fmt.Sscanf(f[3], "%d", &size); err != nil {
				return nil, fmt.Errorf("read base: size %q", f[3])
			}
		}
		sum := f[2]
		files[name] = surface.File{Mode: mode, Size: size, Read: func() ([]byte, error) { return r.git(ctx, nil, "cat-file", "blob", sum) }}
	}
	return surface.NewTree(files), nil
}
