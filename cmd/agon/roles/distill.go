package roles

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"path/filepath"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus/distill"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// distillRole is `agon distill`.
func distillRole(ctx context.Context, o kit.Options, d cli.DistillOptions, tell func(distill.Event)) (*cli.DistillResult, error) {
	c := d.Config
	c.Python = distill.Python{
		Given: o.Getenv("AGON_DISTILL_PYTHON"), Torch: o.Getenv("AGON_INTEROP_TORCH"), Interpreter: o.Getenv("PYTHON312"),
		Home: filepath.Join(kit.CacheDir(o), "python"), Say: o.Sayf,
	}
	var train, held []*task.Task
	why := ""
	if d.Arena == "" && len(d.TaskDirs) == 0 {
		why = "name an --arena or --tasks to play"
	} else {
		var err error
		train, held, err = distillTasks(o, d)
		var e *agon.Error
		if errors.As(err, &e) {
			why = e.Message
		} else if err != nil {
			return nil, err
		}
	}
	p, err := c.Plan(ctx, distill.Made{Tasks: len(train), Held: len(held), Why: why})
	if err != nil {
		return nil, err
	}
	if d.DryRun {
		return &cli.DistillResult{Plan: p}, nil
	}
	if len(p.Missing) > 0 {
		return nil, &agon.Error{Code: "missing", Status: 422, Message: p.Missing[0], Mend: "agon distill … --dry-run lists all that is missing"}
	}
	var at distill.Environments
	for _, s := range []struct {
		list []*task.Task
		url  *string
	}{{train, &at.Train}, {held, &at.Held}} {
		if len(s.list) == 0 {
			continue
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		e, err := serveEnv(ctx, o, s.list, ln, cli.EnvServeOptions{Calls: 64}, nil)
		if err != nil {
			_ = ln.Close() // nobody was served
			return nil, err
		}
		defer e.stop()
		*s.url = e.url
	}
	r, err := c.Run(ctx, at, tell)
	if err != nil {
		return nil, err
	}
	return &cli.DistillResult{Plan: p, Report: r}, nil
}

// distillTasks are the public tasks to train on, and those to measure by: the ones
// that --eval names, else a fifth by the hash of their keys. A task stands in one.
func distillTasks(o kit.Options, d cli.DistillOptions) (train, held []*task.Task, err error) {
	all, _, _, err := envTasks(o, d.Arena, d.TaskDirs)
	if err != nil {
		return nil, nil, err
	}
	k, _ := o.Kits.Of(all[0].Config.Agon.Kind)
	if k.Environment == nil {
		return nil, nil, noEnvironment(o, all[0].Config.Agon.Kind)
	}
	if len(d.Eval) == 0 {
		for _, t := range all {
			if sha256.Sum256([]byte("distill " + t.Key))[0] < 51 {
				held = append(held, t)
			} else {
				train = append(train, t)
			}
		}
		return train, held, nil
	}
	if held, _, _, err = envTasks(o, "", d.Eval); err != nil {
		return nil, nil, err
	}
	keys, contents := map[string]bool{}, map[agon.Digest]bool{}
	for _, t := range held {
		keys[t.Key], contents[t.Digest] = true, true
	}
	for _, t := range all {
		if !keys[t.Key] && !contents[t.Digest] {
			train = append(train, t)
		}
	}
	return train, held, nil
}
