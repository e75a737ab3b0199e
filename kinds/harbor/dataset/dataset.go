// Package dataset makes Harbor task directories of the forms in which others keep
// their benchmarks: Harbor's own directories and archives, SWE-bench's lines,
// and the exercises of the polyglot benchmark.
package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
)

// Bounds of what is imported.
const (
	MaxTasks   = 20_000
	maxEntries = 1_000_000
)

// Imported says how one task came over.
type Imported struct {
	Task    string      `json:"task"` // name of its directory
	Source  string      `json:"source"`
	OK      bool        `json:"ok"`
	Cached  bool        `json:"cached"` // it was there already, with the same bytes
	Digest  agon.Digest `json:"digest,omitempty"`
	Licence string      `json:"licence,omitempty"`
	// Reason says why it did not come over; of one that did, why it cannot be played yet.
	Reason string `json:"reason,omitempty"`
}

// tree is a task directory that is to be written: path to content.
type tree map[string][]byte

// Writer writes task directories below one directory. What is there with the
// same bytes is not written again, so that an import goes on where it was stopped.
type Writer struct {
	Dir   string
	Check func(*task.Task) error // what the kind wants of its tasks
	Done  func(n int)            // after each task; may be nil
	Plain bool                   // leave out what only agon knows

	seen map[string]string // name: its source
	list []Imported
}

// Imported is what was written so far, in order.
func (w *Writer) Imported() []Imported { return w.list }

// Each goes through the tasks that came over. What do says of one is why it cannot
// be played; "" that it can, or was not its business. An error ends it.
func (w *Writer) Each(ctx context.Context, do func(dir, key string) (why string, err error)) error {
	for i := range w.list {
		x := &w.list[i]
		if !x.OK {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		dir, key := filepath.Join(w.Dir, x.Task), "import/"+x.Task
		why, err := do(dir, key)
		if err != nil {
			return fmt.Errorf("task %s: %w", x.Task, err)
		}
		t, err := Load(dir, key)
		if err != nil {
			return fmt.Errorf("task %s: %w", x.Task, err)
		}
		if t.Digest != x.Digest || why != "" {
			x.Digest, x.Reason = t.Digest, why
		}
	}
	return nil
}

// Load reads a task directory.
func Load(dir, key string) (*task.Task, error) { return task.LoadDir(dir, key) }

// Slug is a name as directories of tasks have it.
func Slug(s string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(s) {
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	out := b.String()
	return strings.Trim(out[:min(len(out), 64)], "-")
}

// add writes one task. Its mistakes are told in the list; an error means that nothing more can be written.
func (w *Writer) add(name, source string, files tree) error {
	if len(w.list) >= MaxTasks {
		return fmt.Errorf("more than %d tasks", MaxTasks)
	}
	if w.seen == nil {
		w.seen = map[string]string{}
	}
	slug := Slug(name)
	row := Imported{Task: slug, Source: source}
	defer func() {
		w.list = append(w.list, row)
		if w.Done != nil {
			w.Done(len(w.list))
		}
	}()
	if slug == "" {
		row.Reason = fmt.Sprintf("name %.100q has no letter and no digit", name)
		return nil
	}
	if other, clash := w.seen[slug]; clash {
		row.Reason = fmt.Sprintf("clashes with %s: both are %s", other, slug)
		return nil
	}
	w.seen[slug] = source
	tmp, err := os.MkdirTemp(w.Dir, ".import-")
	if err != nil {
		return fmt.Errorf("write task: %w", err)
	}
	defer os.RemoveAll(tmp)
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return fmt.Errorf("write task: %w", err)
	}
	defer root.Close()
	for p, b := range files {
		if w.Plain && p == "task.toml" {
			b = bare(b)
		}
		if err := root.MkdirAll(path.Dir(p), 0o755); err != nil {
			row.Reason = err.Error()
			return nil
		}
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(b, []byte("#!")) {
			mode = 0o755
		}
		if err := root.WriteFile(p, b, mode); err != nil {
			row.Reason = err.Error()
			return nil
		}
	}
	t, err := task.LoadDir(tmp, "import/"+slug)
	if err != nil {
		row.Reason = err.Error()
		return nil
	}
	if w.Check != nil {
		if err := w.Check(t); err != nil {
			row.Reason = "cannot be played yet: " + err.Error()
		}
	}
	row.Digest, row.Licence = t.Digest, t.Config.Metadata.Licence
	at := filepath.Join(w.Dir, slug)
	if old, err := task.LoadDir(at, "import/"+slug); err == nil {
		if old.Digest == t.Digest || sameButImage(old, tmp, slug) {
			row.OK, row.Cached, row.Digest = true, true, old.Digest
			if w.Check != nil && w.Check(old) == nil {
				row.Reason = ""
			}
			return nil
		}
		row.Reason = "a task of this name is there with other bytes: remove it first, or import to another directory"
		return nil
	} else if _, err := os.Lstat(at); err == nil {
		row.Reason = "something of this name is there and is not a task"
		return nil
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("write task: %w", err)
	}
	if err := os.Rename(tmp, at); err != nil {
		return fmt.Errorf("write task: %w", err)
	}
	row.OK = true
	return nil
}

// Harbor imports task directories: one, or all below a directory or in an archive.
func (w *Writer) Harbor(ctx context.Context, source string) error {
	fi, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("open %s: %w", source, err)
	}
	if !fi.IsDir() {
		tmp, err := os.MkdirTemp(w.Dir, ".archive-")
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		defer os.RemoveAll(tmp)
		if err := kit.Unpack(tmp, source); err != nil {
			return fmt.Errorf("unpack %s: %w", source, err)
		}
		source = tmp
	}
	dirs, err := find(ctx, source)
	if err != nil {
		return err
	}
	if len(dirs) == 0 {
		return fmt.Errorf("%s holds no task.toml", source)
	}
	for _, d := range dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := filepath.Base(d)
		if d == source {
			abs, err := filepath.Abs(d)
			if err != nil {
				return err
			}
			name = filepath.Base(abs)
		}
		files, why, err := read(d)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, d)
		if err != nil {
			rel = d
		}
		if why != "" {
			w.list = append(w.list, Imported{Task: Slug(name), Source: rel, Reason: why})
			continue
		}
		if err := w.add(name, rel, files); err != nil {
			return err
		}
	}
	return nil
}

// find returns the directories with a task.toml, sorted; it does not look into tasks, and follows no link.
func find(ctx context.Context, top string) ([]string, error) {
	var out []string
	n := 0
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if n++; n > maxEntries {
			return fmt.Errorf("%s holds more than %d files", top, maxEntries)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !d.IsDir() {
			return nil
		}
		if p != top && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if fi, err := os.Lstat(filepath.Join(p, "task.toml")); err == nil && fi.Mode().IsRegular() {
			out = append(out, p)
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for tasks: %w", err)
	}
	slices.Sort(out)
	return out, nil
}

// read takes a task directory into memory, within what a task may hold. why says why it is refused.
func read(dir string) (files tree, why string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", fmt.Errorf("open task: %w", err)
	}
	defer root.Close()
	files = tree{}
	total := int64(0)
	stop := errors.New("refused")
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if d.Name() == ".git" || d.Name() == "__pycache__" {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			why = fmt.Sprintf("%s is neither a file nor a directory", p)
			return stop
		case len(files) >= task.MaxFiles:
			why = fmt.Sprintf("more than %d files", task.MaxFiles)
			return stop
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if total += fi.Size(); fi.Size() > task.MaxFile || total > task.MaxBytes {
			why = fmt.Sprintf("%s: larger than %d bytes, or all together than %d", p, task.MaxFile, task.MaxBytes)
			return stop
		}
		b, err := root.ReadFile(p)
		files[p] = b
		return err
	})
	if errors.Is(err, stop) {
		err = nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read task: %w", err)
	}
	return files, why, nil
}

// toml writes a text as TOML has it.
func quote(s string) string {
	b, _ := json.Marshal(s) // JSON's strings are TOML's basic strings but for \/, which it never writes
	return string(b)
}

// Lines writes the instances of imported SWE-bench tasks below dir as they came, a line each.
func Lines(ctx context.Context, dir, file string) (int, error) {
	dirs, err := find(ctx, dir)
	if err != nil {
		return 0, err
	}
	var buf bytes.Buffer
	for _, d := range dirs {
		t, err := task.LoadDir(d, "export/"+Slug(filepath.Base(d)))
		if err != nil {
			return 0, err
		}
		b, err := t.ReadFile("tests/instance.json", task.MaxFile)
		if err != nil {
			return 0, err
		}
		buf.Write(bytes.TrimSpace(b))
		buf.WriteByte('\n')
	}
	if len(dirs) == 0 {
		return 0, fmt.Errorf("%s holds no task.toml", dir)
	}
	return len(dirs), os.WriteFile(file, buf.Bytes(), 0o644)
}

// plain is a task.toml without the table that only agon knows, which stands last or
// before another table.
func bare(b []byte) []byte {
	var out []byte
	own := false
	for line := range bytes.Lines(b) {
		if s := bytes.TrimSpace(line); bytes.HasPrefix(s, []byte("[")) {
			own = bytes.HasPrefix(s, []byte("[agon]")) || bytes.HasPrefix(s, []byte("[agon."))
		}
		if !own {
			out = append(out, line...)
		}
	}
	return append(bytes.TrimRight(out, "\n"), '\n')
}
