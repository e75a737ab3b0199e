package kit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// LoadSet returns the tasks of a shipped set or of a directory. Of the
// released set only those that were fetched are returned, and missing counts the rest.
func LoadSet(o Options, kind, name string) (list []*task.Task, missing int, err error) {
	if strings.ContainsRune(name, os.PathSeparator) {
		list, err = task.LoadSet(os.DirFS(name), filepath.Base(name))
		list, err = o.Kits.checked(kind, list, err)
		return list, 0, err
	}
	list, err = o.ShippedSet(kind, name)
	if err != nil {
		return nil, 0, err
	}
	out := list[:0]
	for _, t := range list {
		if !t.Recipe() {
			out = append(out, t)
			continue
		}
		got, err := task.Fetched(t, TasksDir(o))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, task.ErrPin):
			missing++ // never fetched, or fetched by an agon that pinned it otherwise
		case err != nil:
			return nil, 0, err
		default:
			out = append(out, got)
		}
	}
	return out, missing, nil
}

// CheckTask says what is wrong with a task for its kind, beyond what every task
// is checked for.
func (l List) CheckTask(t *task.Task) error {
	if t.Config.Agon.Kind == "" {
		for _, k := range l {
			if k.Adopts != nil && k.Adopts(t) {
				t.Config.Agon.Kind = k.Kind
				break
			}
		}
	}
	k, ok := l.Of(t.Config.Agon.Kind)
	if !ok {
		return wrongKind(t, "%q: want "+strings.Join(l.Names(), ", "), t.Config.Agon.Kind)
	}
	if k.CheckTask == nil {
		return nil
	}
	return k.CheckTask(t)
}

func wrongKind(t *task.Task, format string, args ...any) error {
	return &task.InvalidError{Key: t.Key, Findings: []agon.Finding{{Code: "invalid_task", Field: "agon.kind", Message: fmt.Sprintf(format, args...)}}}
}

// checked drops what is not a task of the kind and joins the reasons to err.
func (l List) checked(kind string, list []*task.Task, err error) ([]*task.Task, error) {
	out, errs := list[:0], []error{err}
	for _, t := range list {
		bad := l.CheckTask(t)
		if own := t.Config.Agon.Kind; bad == nil && own != kind {
			bad = wrongKind(t, "%q: tasks of the kind %s are wanted here", own, kind)
		}
		if bad != nil {
			errs = append(errs, bad)
			continue
		}
		out = append(out, t)
	}
	return out, errors.Join(errs...)
}

// Recipes returns the shipped tasks that are made from published packages, of all kinds.
func (o Options) Recipes() ([]*task.Task, error) {
	var out []*task.Task
	for _, k := range o.Kits {
		for _, set := range k.Sets {
			list, err := o.ShippedSet(k.Kind, set)
			if err != nil {
				return nil, err
			}
			for _, t := range list {
				if t.Recipe() {
					out = append(out, t)
				}
			}
		}
	}
	return out, nil
}

// PutTask stores the tree of t as blobs and returns its reference. work is a
// directory for its files while they are read.
func PutTask(ctx context.Context, s blob.Store, t *task.Task, work string) (agon.TaskRef, error) {
	if err := os.MkdirAll(work, 0o700); err != nil {
		return agon.TaskRef{}, fmt.Errorf("store task %s: %w", t.Key, err)
	}
	tmp, err := os.MkdirTemp(work, "task-")
	if err != nil {
		return agon.TaskRef{}, fmt.Errorf("store task %s: %w", t.Key, err)
	}
	defer os.RemoveAll(tmp)
	dir := filepath.Join(tmp, "t")
	if err := task.Materialise(t, dir); err != nil {
		return agon.TaskRef{}, err
	}
	d, err := blob.PutTree(ctx, s, dir, blob.TreeLimits{})
	if err != nil {
		return agon.TaskRef{}, fmt.Errorf("store task %s: %w", t.Key, err)
	}
	if d != t.Digest {
		return agon.TaskRef{}, fmt.Errorf("store task %s: the tree has digest %s, the task %s", t.Key, d, t.Digest)
	}
	return agon.TaskRef{Key: t.Key, Digest: d, Image: t.Image(), Datasets: t.Datasets(), GPU: t.Config.Environment.GPU()}, nil
}

// ArenaTasks stores the tasks of an arena file and returns their references in
// order. It says which sets are not complete.
func ArenaTasks(ctx context.Context, o Options, f ArenaFile, s blob.Store, work string) ([]agon.TaskRef, error) {
	refs, err := putSets(ctx, o, f, s, work, []named{{f.Sets, false}, {f.Hidden, true}})
	if err != nil {
		return nil, err
	}
	if libs, files := f.Libraries(); libs != nil {
		if _, err := blob.PutFiles(ctx, s, files, blob.TreeLimits{}); err != nil {
			return nil, fmt.Errorf("store the agents' list of libraries: %w", err)
		}
	}
	if len(refs) == 0 {
		return nil, &agon.Error{Code: "no_tasks", Status: 422, Field: "sets", Message: "the arena " + f.ID + " has no task", Mend: "run agon setup, or name other sets"}
	}
	return refs, nil
}

// RetiredTasks stores the tasks of an arena file that were hidden and are played no
// more, and returns their references.
func RetiredTasks(ctx context.Context, o Options, f ArenaFile, s blob.Store, work string) ([]agon.TaskRef, error) {
	return putSets(ctx, o, f, s, work, []named{{f.Retired, false}})
}

// named are sets, hidden or not.
type named struct {
	sets   []string
	hidden bool
}

func putSets(ctx context.Context, o Options, f ArenaFile, s blob.Store, work string, all []named) ([]agon.TaskRef, error) {
	var refs []agon.TaskRef
	once := f.Distinct(o)
	for _, n := range all {
		for _, name := range n.sets {
			list, missing, err := LoadSet(o, f.Kind, name)
			if err != nil {
				return nil, err
			}
			if missing > 0 {
				o.Sayf("%s: %d tasks of the set %s are not here (made from published packages by `agon setup`; is the package index reachable?): playing without them", f.ID, missing, name)
			}
			for _, t := range list {
				if err := once.Add("sets", t, n.hidden); err != nil {
					return nil, err
				}
				ref, err := PutTask(ctx, s, t, work)
				if err != nil {
					return nil, err
				}
				ref.Hidden = n.hidden
				refs = append(refs, ref)
			}
		}
	}
	return refs, nil
}

// Distinct refuses a task that stands in an arena's sets, or its supply, twice. The
// zero value has none. It refuses a hidden task, too, that is made again from what
// another one shows once that is public (Kit.MadeFrom).
type Distinct struct {
	madeFrom func(key string) string // nil: the kind makes no tasks by a seed
	keys     map[string]bool
	contents map[agon.Digest]string // to key
	made     map[string]madeTask
}

// madeTask is a task that was made from something.
type madeTask struct {
	key    string
	hidden bool
}

// Distinct has none of the arena's tasks yet.
func (f ArenaFile) Distinct(o Options) *Distinct {
	k, _ := o.Kits.Of(f.Kind)
	return &Distinct{madeFrom: k.MadeFrom}
}

// Add takes a task; the error is for people and names field.
func (d *Distinct) Add(field string, t *task.Task, hidden bool) error {
	if d.keys == nil {
		d.keys, d.contents, d.made = map[string]bool{}, map[agon.Digest]string{}, map[string]madeTask{}
	}
	if d.keys[t.Key] {
		return &agon.Error{Code: "duplicate", Status: 422, Field: field, Message: "task " + t.Key + " stands in two sets"}
	}
	if other := d.contents[t.Digest]; other != "" {
		return &agon.Error{Code: "duplicate", Status: 422, Field: field, Message: "tasks " + other + " and " + t.Key + " have the same content", Mend: "leave one of them out: it would count twice"}
	}
	d.keys[t.Key], d.contents[t.Digest] = true, t.Key
	if d.madeFrom == nil {
		return nil
	}
	from := d.madeFrom(t.Key)
	if from == "" {
		return nil
	}
	other, ok := d.made[from]
	if ok && (hidden || other.hidden) {
		return &agon.Error{
			Code: "made_from_one_seed", Status: 422, Field: field, Message: fmt.Sprintf("tasks %s and %s are made from %s, and not both are public: one that is seen gives away the other", other.key, t.Key, from),
			Mend: "make hidden tasks by agon task generate without --seed: each has a seed of its own then",
		}
	}
	if !ok {
		d.made[from] = madeTask{t.Key, hidden}
	}
	return nil
}

// loneKey is the key of a task that is looked at on its own: its folder's name in
// the set of the folder above, or in "here" where that has no name of a set.
func loneKey(dir string) string {
	dir = whole(dir)
	set := filepath.Base(filepath.Dir(dir))
	if !setName().MatchString(set) {
		set = "here"
	}
	return set + "/" + filepath.Base(dir)
}

var setName = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,63}$`)

// whole is dir from the root: "." and "./x" have no names above them.
func whole(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// TasksIn loads task directories, or directories of them.
func (l List) TasksIn(dirs []string) ([]*task.Task, error) {
	var out []*task.Task
	for _, dir := range dirs {
		dir = filepath.Clean(dir)
		if _, err := os.Stat(filepath.Join(dir, "task.toml")); err == nil {
			t, err := task.LoadDir(dir, loneKey(dir))
			if err == nil {
				err = l.CheckTask(t)
			}
			if err != nil {
				return nil, err
			}
			out = append(out, t)
			continue
		}
		if _, err := os.Stat(dir); err != nil {
			return nil, &agon.Error{Code: "not_found", Status: 404, Field: "dir", Message: "there is no directory " + dir}
		}
		list, err := task.LoadSet(os.DirFS(dir), filepath.Base(whole(dir)))
		for _, t := range list {
			err = errors.Join(err, l.CheckTask(t))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	if len(out) == 0 {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "dir", Message: "no task stands there", Mend: "a task directory holds task.toml"}
	}
	return out, nil
}
