package kit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon/engine/task"
)

// taskOf is a task directory of a kind.
func taskOf(kind string, more ...string) fstest.MapFS {
	m := fstest.MapFS{
		"task.toml":      {Data: []byte("[agon]\nkind = \"" + kind + "\"\n")},
		"instruction.md": {Data: []byte("Win.\n")},
	}
	for _, name := range more {
		m[name] = &fstest.MapFile{Data: []byte("x")}
	}
	return m
}

// Tasks are checked by the kit of their kind wherever they come from: a shipped
// set, a set that the kind makes, a directory.
func TestTasksAreCheckedByTheirKind(t *testing.T) {
	board := task.Form{Files: []string{"board"}, Limit: 9}.Check
	data := fstest.MapFS{}
	put := func(at string, fsys fstest.MapFS) {
		for name, f := range fsys {
			data[at+"/"+name] = f
		}
	}
	put("tasks/demo/good", taskOf("chess", "board"))
	put("tasks/demo/bare", taskOf("chess"))
	put("tasks/demo/other", taskOf("go"))
	made := func(_ Options, set string) ([]*task.Task, bool, error) {
		if set != "made" {
			return nil, false, nil
		}
		tk, err := task.Load(taskOf("chess"), "made/bare")
		return []*task.Task{tk}, true, err
	}
	o := Options{Kits: List{{Kind: "chess", Data: data, CheckTask: board, LoadSet: made}, {Kind: "go"}}}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "demo"), data); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(dir, "demo", "tasks", "demo")
	for name, load := range map[string]func() ([]*task.Task, error){
		"shipped":   func() ([]*task.Task, error) { return o.ShippedSet("chess", "demo") },
		"directory": func() ([]*task.Task, error) { l, _, err := LoadSet(o, "chess", mine); return l, err },
	} {
		list, err := load()
		if len(list) != 1 || list[0].Key != "demo/good" || !errors.Is(err, task.ErrInvalid) {
			t.Errorf("%s: %d tasks, %v", name, len(list), err)
			continue
		}
		for _, want := range []string{"task demo/bare: board: missing", `task demo/other: agon.kind: "go": tasks of the kind chess are wanted here`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", name, err, want)
			}
		}
	}
	if list, err := o.ShippedSet("chess", "made"); len(list) != 0 || !errors.Is(err, task.ErrInvalid) {
		t.Errorf("a set that the kind makes: %d tasks, %v", len(list), err)
	}
	if list, err := o.Kits.TasksIn([]string{filepath.Join(mine, "good"), filepath.Join(mine, "other")}); len(list) != 2 || err != nil {
		t.Errorf("directories of two kinds: %d tasks, %v", len(list), err)
	}
	if _, err := o.Kits.TasksIn([]string{filepath.Join(mine, "bare")}); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("a directory without its board: %v", err)
	}
	if _, err := (List{{Kind: "go"}}).TasksIn([]string{mine}); err == nil || !strings.Contains(err.Error(), `agon.kind: "chess": want go`) {
		t.Errorf("a kind that is not here: %v", err)
	}
}
