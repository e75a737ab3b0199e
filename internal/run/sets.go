package run

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
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/task"
)

// cacheDir is where root file systems and fetched tasks are kept.
func cacheDir(o Options) string {
	if o.Cache != "" {
		return o.Cache
	}
	return filepath.Dir(rootfs.DefaultDir())
}

// tasksDir is where released tasks stand after agon setup.
func tasksDir(o Options) string { return filepath.Join(cacheDir(o), "tasks") }

// releasedSet is the name of the set that is made from published packages.
const releasedSet = "released"

// loadSet returns the tasks of a shipped set or of a directory. Of the
// released set only those that were fetched are returned, and missing counts the rest.
func loadSet(o Options, kind, name string) (list []*task.Task, missing int, err error) {
	if strings.ContainsRune(name, os.PathSeparator) {
		list, err = task.LoadSet(os.DirFS(name), filepath.Base(name))
		return list, 0, err
	}
	list, err = shippedSet(o, kind, name)
	if err != nil {
		return nil, 0, err
	}
	out := list[:0]
	for _, t := range list {
		if !t.Recipe() {
			out = append(out, t)
			continue
		}
		got, err := task.Fetched(t, tasksDir(o))
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

// putTask stores the tree of t as blobs and returns its reference. work is a
// directory for its files while they are read.
func putTask(ctx context.Context, s blob.Store, t *task.Task, work string) (agon.TaskRef, error) {
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
	return agon.TaskRef{Key: t.Key, Digest: d}, nil
}

// arenaTasks stores the tasks of an arena file and returns their references in
// order. It says which sets are not complete.
func arenaTasks(ctx context.Context, o Options, f ArenaFile, s blob.Store, work string) ([]agon.TaskRef, error) {
	var refs []agon.TaskRef
	seen := map[string]bool{}
	add := func(names []string, hidden bool) error {
		for _, name := range names {
			list, missing, err := loadSet(o, f.Kind, name)
			if err != nil {
				return err
			}
			if missing > 0 {
				o.say("%s: %d tasks of the set %s are not here (made from published packages by `agon setup`; is the package index reachable?): playing without them", f.ID, missing, name)
			}
			for _, t := range list {
				if seen[t.Key] {
					return &agon.Error{Code: "duplicate", Status: 422, Field: "sets", Message: "task " + t.Key + " stands in two sets"}
				}
				seen[t.Key] = true
				ref, err := putTask(ctx, s, t, work)
				if err != nil {
					return err
				}
				ref.Hidden = hidden
				refs = append(refs, ref)
			}
		}
		return nil
	}
	if err := errors.Join(add(f.Sets, false), add(f.Hidden, true)); err != nil {
		return nil, err
	}
	if len(refs) == 0 {
		return nil, &agon.Error{Code: "no_tasks", Status: 422, Field: "sets", Message: "the arena " + f.ID + " has no task", Mend: "run agon setup, or name other sets"}
	}
	return refs, nil
}
