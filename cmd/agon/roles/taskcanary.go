package roles

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// canaryTask makes a task whose statement is another's, by the kind of that one.
func canaryTask(o kit.Options, c cli.TaskCanaryOptions) (*cli.TaskCanary, error) {
	t, err := namedTask(o, c.Task)
	if err != nil {
		return nil, err
	}
	own, _ := o.Kits.Of(t.Config.Agon.Kind)
	if own.TaskCanary == nil {
		return nil, &agon.Error{Code: "wrong_kind", Status: 422, Field: "task", Message: t.Key + " is of a kind that makes no canaries"}
	}
	names, err := own.TaskCanary(t, filepath.Clean(c.Dir), c.Seed)
	if errors.Is(err, fs.ErrExist) {
		return nil, &agon.Error{Code: "bad_request", Status: 422, Field: "dir", Message: err.Error(), Mend: "name a directory that is not there"}
	}
	if err != nil {
		return nil, &agon.Error{Code: "bad_request", Status: 422, Field: "task", Message: err.Error(), Mend: "take a task whose solution names more of what its tree defines"}
	}
	return &cli.TaskCanary{Task: t.Key, Dir: c.Dir, Names: names}, nil
}

// namedTask is the task in a directory, or a shipped one by its key: fetched, where
// it is made of a published package.
func namedTask(o kit.Options, name string) (*task.Task, error) {
	if _, err := os.Stat(filepath.Join(name, "task.toml")); err == nil {
		list, err := o.Kits.TasksIn([]string{name})
		if err != nil {
			return nil, err
		}
		return list[0], nil
	}
	for _, k := range o.Kits {
		for _, set := range k.Sets {
			list, err := o.ShippedSet(k.Kind, set)
			if err != nil {
				return nil, err
			}
			for _, t := range list {
				if t.Key != name {
					continue
				}
				if t.Recipe() {
					return task.Fetched(t, kit.TasksDir(o))
				}
				return t, nil
			}
		}
	}
	return nil, &agon.Error{Code: "not_found", Status: 404, Field: "task", Message: "there is no task " + name, Mend: "agon task list shows what is shipped; a task of your own is a directory with task.toml"}
}
