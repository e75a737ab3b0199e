package roles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
)

// maxLeakFile bounds what leak keys are read from, in bytes.
const maxLeakFile = 1 << 20

// leakKeys returns what tasks of the kinds share, from their trees in s.
func leakKeys(ctx context.Context, o kit.Options, kinds map[string]kind.Kind, s blob.Store) func(string, agon.TaskRef) []string {
	return cachedKeys(o, kinds, func(_ string, t agon.TaskRef) (func(string) ([]byte, error), func(), error) {
		m, err := blob.GetManifest(ctx, s, t.Digest, blob.TreeLimits{})
		if err != nil {
			return nil, nil, err
		}
		return func(name string) ([]byte, error) {
			i := slices.IndexFunc(m.Files, func(e blob.Entry) bool { return e.Path == name && e.Mode != blob.ModeLink })
			if i < 0 {
				return nil, fs.ErrNotExist
			}
			if m.Files[i].Size > maxLeakFile {
				return nil, fmt.Errorf("%s is larger than %d bytes", name, maxLeakFile)
			}
			return s.Get(ctx, m.Files[i].Digest)
		}, func() {}, nil
	})
}

// CorpusKeys returns the leak keys of tasks that this binary ships or has
// fetched. Of others, read from a server far away, only what every row says is
// known: the task's key and digest.
func CorpusKeys(o kit.Options) func(string, agon.TaskRef) []string {
	known := map[string][]*task.Task{}
	return cachedKeys(o, o.Kinds(""), func(name string, t agon.TaskRef) (func(string) ([]byte, error), func(), error) {
		if _, ok := known[name]; !ok {
			known[name] = nil
			if k, ok := o.Kits.Of(name); ok {
				for _, set := range k.Sets {
					list, _, err := kit.LoadSet(o, name, set)
					if err != nil {
						o.Log.Warn("leak keys: a set cannot be read", "set", set, "error", err)
					}
					known[name] = append(known[name], list...)
				}
			}
		}
		i := slices.IndexFunc(known[name], func(x *task.Task) bool { return x.Digest == t.Digest })
		if i < 0 {
			return nil, nil, fs.ErrNotExist
		}
		tmp, err := os.MkdirTemp("", "agon-task-")
		if err != nil {
			return nil, nil, err
		}
		clean := func() { _ = os.RemoveAll(tmp) }
		dir := filepath.Join(tmp, "t")
		if err := task.Materialise(known[name][i], dir); err != nil {
			clean()
			return nil, nil, err
		}
		read := func(file string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, filepath.FromSlash(file))) } // tasks of our own
		return read, clean, nil
	})
}

// cachedKeys asks a kind once for each task. A task whose keys cannot be read
// has none of its kind's own; that is logged.
func cachedKeys(o kit.Options, kinds map[string]kind.Kind, open func(string, agon.TaskRef) (func(string) ([]byte, error), func(), error)) func(string, agon.TaskRef) []string {
	var mu sync.Mutex
	done := map[string][]string{}
	return func(name string, t agon.TaskRef) []string {
		k, ok := kinds[name].(kind.LeakKeyer)
		if !ok {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		id := name + " " + string(t.Digest)
		if keys, ok := done[id]; ok {
			return keys
		}
		var keys []string
		read, clean, err := open(name, t)
		if err == nil {
			keys, err = k.LeakKeys(t, read)
			clean()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && o.Log != nil {
			o.Log.Warn("leak keys: a task cannot be read", "task", t.Key, "error", err)
		}
		done[id] = keys
		return keys
	}
}
