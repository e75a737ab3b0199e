package roles

import (
	"context"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// taskKinds are the kinds with a template of a task.
func taskKinds(kits kit.List) []string {
	var out []string
	for _, k := range kits {
		if k.TaskInit != nil {
			out = append(out, k.Kind)
		}
	}
	return out
}

// initTask writes the template of a kind's task.
func initTask(kits kit.List, kind, dir string) ([]string, error) {
	k, _ := kits.Of(kind)
	if k.TaskInit == nil {
		return nil, &agon.Error{Code: "unknown_kind", Status: 422, Field: "kind", Message: "there is no template of a task for the kind " + kind, Mend: "the kinds with one are " + strings.Join(taskKinds(kits), ", ")}
	}
	names, err := k.TaskInit(dir)
	if err != nil {
		return nil, &agon.Error{Code: "cannot_init", Status: 422, Field: "dir", Message: err.Error()}
	}
	return names, nil
}

// preflightTasks tries tasks before they are paid for.
func preflightTasks(ctx context.Context, o kit.Options, dirs []string) ([]cli.TaskPreflight, error) {
	list, err := o.Kits.TasksIn(dirs)
	if err != nil {
		return nil, err
	}
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	out := []cli.TaskPreflight{}
	for _, t := range list {
		k, _ := o.Kits.Of(t.Config.Agon.Kind)
		if k.TaskPreflight == nil {
			return nil, &agon.Error{Code: "wrong_kind", Status: 422, Field: "dir", Message: t.Key + " is of a kind whose tasks have no preflight", Mend: "agon task check is for the others"}
		}
		got, err := k.TaskPreflight(ctx, o, d, root, []*task.Task{t})
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}
