package task

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

// Limits of a task directory. They are checked before or while reading.
const (
	MaxInstruction = 256 << 10 // bytes of instruction.md
	MaxConfig      = 256 << 10 // bytes of task.toml
	MaxSolution    = 2 << 20   // bytes of the reference patch
	MaxFile        = 8 << 20   // bytes of any one file
	MaxBytes       = 64 << 20  // bytes of all files
	MaxFiles       = 5000      // files and links
	MaxDepth       = 24        // elements of a path
	MaxPath        = 512       // bytes of a path
	MaxTests       = 2000      // listed tests, both lists together
)

// Files of the Harbor form that Load itself reads.
const (
	configFile      = "task.toml"
	instructionFile = "instruction.md"
	// symlinksFile lists the links of the base tree, one "path -> target" a
	// line, paths relative to the base tree. Sets are committed and embedded
	// without links; Materialise makes them.
	symlinksFile = "environment/symlinks"
)

// ErrInvalid is what every InvalidError wraps.
var ErrInvalid = errors.New("invalid task")

// InvalidError lists everything that is wrong with a task directory.
type InvalidError struct {
	Key      string
	Findings []agon.Finding
}

func (e *InvalidError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "task %s: ", e.Key)
	for i, f := range e.Findings {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s", f.Field, f.Message)
		if f.Limit != "" {
			fmt.Fprintf(&b, " (limit %s)", f.Limit)
		}
	}
	return b.String()
}

func (e *InvalidError) Unwrap() error { return ErrInvalid }

// file is one entry of a task's tree as Materialise writes it.
type file struct {
	path   string
	mode   string
	size   int64
	digest agon.Digest
	target string // of a link
}

// Load reads and checks one task from fsys, whose root is the task directory:
// an embedded set, os.Root.FS, or a materialised tree (links then stand on
// disk as environment/symlinks lists them). All mistakes are returned at once
// in an *InvalidError; any other error means that reading itself broke.
//
// The same task has the same digest wherever it is loaded from, because modes
// are not read from the file system (embedding loses them): a file is
// executable iff it begins with "#!".
func Load(fsys fs.FS, key string) (*Task, error) {
	l := loader{fsys: fsys, files: map[string]file{}, dirs: map[string]bool{}}
	if !keyOK(key) {
		l.add("key", "", "%q: want set/name of a-z, 0-9 and dashes, each at most 64 bytes", key)
		return nil, &InvalidError{Key: key, Findings: l.findings}
	}
	if err := l.inventory(); err != nil {
		return nil, fmt.Errorf("read task %s: %w", key, err)
	}
	t := &Task{Key: key, fsys: fsys}
	if len(l.findings) == 0 { // else paths and sizes cannot be trusted further
		understood, err := l.texts(t)
		if err != nil {
			return nil, fmt.Errorf("read task %s: %w", key, err)
		}
		if understood {
			l.check(&t.Config)
		}
	}
	if len(l.findings) > 0 {
		slices.SortStableFunc(l.findings, func(a, b agon.Finding) int {
			return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Message, b.Message))
		})
		return nil, &InvalidError{Key: key, Findings: l.findings}
	}
	for _, f := range l.files {
		t.files = append(t.files, f)
	}
	slices.SortFunc(t.files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	m, err := t.Manifest().Canonical()
	if err != nil {
		return nil, fmt.Errorf("digest task %s: %w", key, err)
	}
	t.Digest = agon.Sum(m)
	return t, nil
}

// LoadDir is Load from a directory on this host, which may hold anything. The
// task keeps the directory's path in Dir, no open file.
func LoadDir(dir, key string) (*Task, error) {
	t, err := Load(dirFS(dir), key)
	if err != nil {
		return nil, err
	}
	t.Dir = dir
	return t, nil
}

// LoadSet loads every directory of fsys as a task with key name/directory,
// sorted by key. Tasks that are wrong are left out and joined into the error,
// so that a caller may go on with the rest.
func LoadSet(fsys fs.FS, name string) ([]*Task, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("read set %s: %w", name, err)
	}
	var tasks []*Task
	var errs []error
	for _, e := range entries {
		if !e.IsDir() {
			continue // a README beside the tasks
		}
		sub, err := fs.Sub(fsys, e.Name())
		if err != nil {
			errs = append(errs, fmt.Errorf("read set %s: %w", name, err))
			continue
		}
		t, err := Load(sub, name+"/"+e.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		tasks = append(tasks, t)
	}
	return tasks, errors.Join(errs...)
}

// Manifest lists the tree that Materialise writes.
func (t *Task) Manifest() blob.Manifest {
	m := blob.Manifest{Files: make([]blob.Entry, 0, len(t.files))}
	for _, f := range t.files {
		m.Files = append(m.Files, blob.Entry{Path: f.path, Mode: f.mode, Size: f.size, Digest: f.digest})
	}
	return m
}

// ReadFile reads a file of at most limit bytes of the task's tree, which may hold
// anything: links out of it, pipes, files without end. A task that Load read from
// an fs.FS has no tree on the host: the file comes from there, as Load saw it.
func (t *Task) ReadFile(name string, limit int64) ([]byte, error) {
	if t.Dir == "" {
		return t.readLoaded(name, limit)
	}
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return nil, fmt.Errorf("open task %s: %w", t.Key, err)
	}
	defer func() { _ = root.Close() }()
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // opening a pipe would wait for its writer
	if err != nil {
		return nil, fmt.Errorf("open task %s: %w", t.Key, err)
	}
	defer func() { _ = f.Close() }()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, fmt.Errorf("open task %s: %s is not a regular file", t.Key, name)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read task %s: %w", t.Key, err)
	case int64(len(b)) > limit:
		return nil, fmt.Errorf("read task %s: %s is larger than %d bytes", t.Key, name, limit)
	}
	return b, nil
}

// SolutionPatch reads the reference patch.
func (t *Task) SolutionPatch() ([]byte, error) {
	if t.Config.Agon.Solution == "" && !t.Config.Agon.Repository() {
		const script = "solution/solve.sh" // Harbor's
		b, err := t.ReadFile(script, MaxSolution)
		if errors.Is(err, fs.ErrNotExist) {
			for _, f := range t.files { // each step has its own
				if ok, _ := path.Match("steps/*/"+script, f.path); ok {
					b, err = t.ReadFile(f.path, MaxSolution)
					break
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read solution of %s: %w", t.Key, err)
		}
		return b, nil
	}
	if t.Config.Agon.Solution == "" {
		return nil, fmt.Errorf("read solution of %s: the task is a recipe, fetch it first", t.Key)
	}
	b, err := readLimited(t.fsys, t.Config.Agon.Solution, MaxSolution)
	if err != nil {
		return nil, fmt.Errorf("read solution of %s: %w", t.Key, err)
	}
	return b, nil
}

// loader gathers what is wrong while it reads.
type loader struct {
	fsys     fs.FS
	files    map[string]file // by path; links included
	dirs     map[string]bool
	findings []agon.Finding
}

// maxFindings bounds an error's length: a directory of rubbish is one mistake.
const maxFindings = 50

func (l *loader) add(field, limit, format string, args ...any) {
	if len(l.findings) < maxFindings {
		l.findings = append(l.findings, agon.Finding{Code: "invalid_task", Field: field, Limit: limit, Message: fmt.Sprintf(format, args...)})
	}
}

// inventory walks the tree and digests every file, within the limits.
func (l *loader) inventory() error {
	var total int64
	links := map[string]string{} // found on disk
	err := fs.WalkDir(l.fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == "." {
			return nil
		}
		if err := checkPath(p); err != nil {
			l.add(fmt.Sprintf("%.80q", p), "", "%v", err)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if len(l.files)+len(links)+len(l.dirs) >= MaxFiles {
			l.add("directory", fmt.Sprintf("%d files", MaxFiles), "too many files")
			return fs.SkipAll
		}
		switch {
		case d.IsDir():
			l.dirs[p] = true
		case d.Type() == fs.ModeSymlink:
			target, err := fs.ReadLink(l.fsys, p)
			if err != nil {
				return err
			}
			links[p] = target
		case d.Type().IsRegular():
			b, err := readLimited(l.fsys, p, MaxFile)
			if errors.Is(err, errTooLarge) {
				l.add(p, fmt.Sprintf("%d bytes", MaxFile), "file too large")
				return nil
			}
			if err != nil {
				return err
			}
			if total += int64(len(b)); total > MaxBytes {
				l.add("directory", fmt.Sprintf("%d bytes", MaxBytes), "too large")
				return fs.SkipAll
			}
			l.files[p] = file{path: p, mode: fileMode(b), size: int64(len(b)), digest: agon.Sum(b)}
		default:
			l.add(p, "", "not a regular file")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.links(links)
}

// texts reads task.toml and instruction.md. It says whether task.toml could be
// understood: if not, what is missing from it is not worth telling.
func (l *loader) texts(t *Task) (understood bool, err error) {
	b, ok, err := l.text(configFile, MaxConfig)
	if err != nil {
		return false, err
	}
	if ok {
		var findings []agon.Finding
		t.Config, findings, understood = parseConfig(b)
		l.findings = append(l.findings, findings...)
	}
	if _, ok := l.files[instructionFile]; !ok && l.stepped() {
		return understood, nil
	}
	b, ok, err = l.text(instructionFile, MaxInstruction)
	if err != nil {
		return false, err
	}
	if ok {
		t.Instruction = string(b)
		if strings.TrimSpace(t.Instruction) == "" {
			l.add(instructionFile, "", "empty")
		}
	}
	return understood, nil
}

// stepped tells whether the task has instructions for each of its steps, in Harbor's form.
func (l *loader) stepped() bool {
	for p := range l.files {
		if ok, _ := path.Match("steps/*/"+instructionFile, p); ok {
			return true
		}
	}
	return false
}

// text reads a required UTF-8 file of at most limit bytes.
func (l *loader) text(name string, limit int64) ([]byte, bool, error) {
	f, ok := l.files[name]
	if !ok {
		l.add(name, "", "missing")
		return nil, false, nil
	}
	if f.size > limit {
		l.add(name, fmt.Sprintf("%d bytes", limit), "%d bytes are too many", f.size)
		return nil, false, nil
	}
	b, err := readLimited(l.fsys, name, limit)
	if err != nil {
		return nil, false, err
	}
	if !utf8.Valid(b) {
		l.add(name, "", "not UTF-8")
		return nil, false, nil
	}
	return b, true, nil
}

var errTooLarge = errors.New("file too large")

// readLimited reads a whole file; errTooLarge if it has more than limit bytes.
func readLimited(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, errTooLarge
	}
	return b, nil
}

// fileMode decides from content alone, see Load.
func fileMode(b []byte) string {
	if len(b) > 2 && b[0] == '#' && b[1] == '!' {
		return blob.ModeExec
	}
	return blob.ModeFile
}

// keyOK reports whether key is set/name.
func keyOK(key string) bool {
	set, name, ok := strings.Cut(key, "/")
	return ok && slugOK(set) && slugOK(name)
}

func slugOK(s string) bool {
	if s == "" || len(s) > 64 || s[0] == '-' {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// checkPath refuses every path that could mean something else elsewhere:
// leaving the tree, another system's separators, control characters, git's own directory.
func checkPath(p string) error {
	switch {
	case len(p) > MaxPath:
		return fmt.Errorf("path longer than %d bytes", MaxPath)
	case !utf8.ValidString(p):
		return errors.New("path is not UTF-8")
	case p == "." || !fs.ValidPath(p):
		return errors.New("path is not local: want a relative one without . or .. elements")
	case strings.ContainsRune(p, '\\'):
		return errors.New("path has a backslash")
	}
	for _, c := range p {
		if c < ' ' || c == 0x7f || (c >= 0x80 && c < 0xa0) {
			return errors.New("path has a control character")
		}
	}
	elements := strings.Split(p, "/")
	if len(elements) > MaxDepth {
		return fmt.Errorf("path deeper than %d elements", MaxDepth)
	}
	for _, e := range elements {
		if len(e) > 255 {
			return errors.New("path element longer than 255 bytes")
		}
		// A history or a hook in the tree would be read by git in the box.
		if strings.EqualFold(e, ".git") {
			return errors.New("path has a .git element")
		}
	}
	return nil
}

// parents calls f with every proper prefix of p, shortest first, until f says false.
func parents(p string, f func(string) bool) {
	for i := range len(p) {
		if p[i] == '/' && !f(p[:i]) {
			return
		}
	}
}

// links reads environment/symlinks, checks each line, compares it with the
// links found on disk and enters the links as files of the tree.
func (l *loader) links(found map[string]string) error {
	listed := map[string]string{}
	if _, ok := l.files[symlinksFile]; ok {
		b, ok, err := l.text(symlinksFile, 64<<10)
		if err != nil {
			return err
		}
		if ok {
			listed = l.parseLinks(string(b))
		}
	}
	for _, p := range sortedKeys(found) {
		switch target, ok := listed[p]; {
		case !ok:
			l.add(p, "", "symbolic link that %s does not list", symlinksFile)
		case target != found[p]:
			l.add(p, "", "symbolic link points elsewhere than %s says", symlinksFile)
		}
	}
	for _, p := range sortedKeys(listed) {
		l.enterLink(p, listed[p], listed)
	}
	return nil
}

// linkBase is where the paths of environment/symlinks start.
const linkBase = "environment/repo"

func (l *loader) parseLinks(text string) map[string]string {
	listed := map[string]string{}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		field := fmt.Sprintf("%s:%d", symlinksFile, i+1)
		p, target, ok := strings.Cut(line, " -> ")
		if !ok {
			l.add(field, "", "want: path -> target")
			continue
		}
		if err := checkPath(p); err != nil {
			l.add(field, "", "%v", err)
			continue
		}
		p = path.Join(linkBase, p)
		if _, dup := listed[p]; dup {
			l.add(field, "", "listed twice")
			continue
		}
		if err := checkTarget(p, target); err != nil {
			l.add(field, "", "%v", err)
			continue
		}
		listed[p] = target
	}
	return listed
}

// checkTarget wants a clean relative target that stays inside the base tree.
func checkTarget(link, target string) error {
	if target == "" || path.IsAbs(target) || path.Clean(target) != target {
		return errors.New("link target must be relative and clean")
	}
	to := path.Join(path.Dir(link), target)
	if to == linkBase {
		return nil
	}
	if !strings.HasPrefix(to, linkBase+"/") {
		return errors.New("link target leaves the base tree")
	}
	if err := checkPath(to); err != nil {
		return fmt.Errorf("link target: %w", err)
	}
	return nil
}

// enterLink adds one listed link to the tree, unless it would hide a file, or
// it or its target runs through another link (then its text no longer tells
// where it leads).
func (l *loader) enterLink(p, target string, listed map[string]string) {
	if _, ok := l.files[p]; ok || l.dirs[p] {
		l.add(p, "", "both a file and a symbolic link")
		return
	}
	through := func(q string) bool {
		bad := false
		parents(q, func(dir string) bool {
			_, link := listed[dir]
			_, isFile := l.files[dir]
			bad = link || isFile
			return !bad
		})
		return bad
	}
	if through(p) || through(path.Join(path.Dir(p), target)) {
		l.add(p, "", "symbolic link runs through another link or a file")
		return
	}
	l.files[p] = file{path: p, mode: blob.ModeLink, size: int64(len(target)), digest: agon.Sum([]byte(target)), target: target}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// readLoaded reads a file that Load listed.
func (t *Task) readLoaded(name string, limit int64) ([]byte, error) {
	i, ok := slices.BinarySearchFunc(t.files, name, func(f file, name string) int { return strings.Compare(f.path, name) })
	switch {
	case !ok:
		return nil, fmt.Errorf("open task %s: %s: %w", t.Key, name, fs.ErrNotExist)
	case t.files[i].mode == blob.ModeLink:
		return nil, fmt.Errorf("open task %s: %s is not a regular file", t.Key, name)
	case t.files[i].size > limit:
		return nil, fmt.Errorf("read task %s: %s is larger than %d bytes", t.Key, name, limit)
	}
	b, err := readLimited(t.fsys, name, MaxFile)
	if err != nil {
		return nil, fmt.Errorf("read task %s: %w", t.Key, err)
	}
	if agon.Sum(b) != t.files[i].digest {
		return nil, fmt.Errorf("read task %s: %w: %s", t.Key, ErrChanged, name)
	}
	return b, nil
}
