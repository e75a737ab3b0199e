package tasks_test

import (
	"io/fs"
	"testing"

	"github.com/agon-arena/agon/task"
	"github.com/agon-arena/agon/tasks"
)

// TestSets loads every committed task: a mistake in one fails here, by name.
func TestSets(t *testing.T) {
	for _, set := range []struct {
		kind   string
		name   string
		least  int
		recipe bool
	}{{"coding", "small", 12, false}, {"coding", "released", 6, true}, {"shopping", "demo", 12, false}} {
		t.Run(set.kind+"/"+set.name, func(t *testing.T) {
			fsys, err := fs.Sub(tasks.FS, set.kind+"/"+set.name)
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := task.LoadSet(fsys, set.name)
			if err != nil {
				t.Error(err)
			}
			if len(loaded) < set.least {
				t.Errorf("%d tasks, want at least %d", len(loaded), set.least)
			}
			for _, task := range loaded {
				if task.Recipe() != set.recipe {
					t.Errorf("%s: recipe is %v", task.Key, task.Recipe())
				}
				if r := task.Config.Agon.Released; r != nil && r.Digest == "" {
					t.Errorf("%s: released tasks pin the digest of what is played", task.Key)
				}
			}
		})
	}
}
