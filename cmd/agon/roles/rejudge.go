package roles

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
)

// rejudge judges stored evidence again, on this machine, without an account.
func rejudge(ctx context.Context, kits kit.List, r cli.RejudgeOptions) ([]agon.Score, error) {
	o := kits.Options(r.Common, r.Driver)
	p, k, source, done, err := auditor(ctx, o, r.Client, r.Kind)
	if err != nil {
		return nil, err
	}
	defer done()
	if r.TaskDir != "" {
		if err := otherTask(ctx, o, &r, source); err != nil {
			return nil, err
		}
	}
	env, end := p.Env(r.Run)
	defer end()
	return k.Judge(ctx, env, r.Run, r.Record)
}

// otherTask puts the task of a directory in the place of a run's only one.
func otherTask(ctx context.Context, o kit.Options, r *cli.RejudgeOptions, source blob.Store) error {
	if len(r.Run.Tasks) != 1 {
		return &agon.Error{Code: "bad_flag", Status: 422, Field: "task", Message: fmt.Sprintf("--task: the run has %d tasks", len(r.Run.Tasks)), Mend: "leave it out, or regrade a run of one task"}
	}
	work, err := tempdir.Make("regrade")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	dir, err := kit.Unpacked(work, r.TaskDir)
	if err != nil {
		return err
	}
	list, err := o.Kits.TasksIn([]string{dir})
	if err != nil {
		return err
	}
	if len(list) != 1 || list[0].Config.Agon.Kind != r.Kind {
		return &agon.Error{Code: "bad_flag", Status: 422, Field: "task", Message: fmt.Sprintf("--task: want one task of the kind %s", r.Kind), Mend: "name a task's directory"}
	}
	ref, err := kit.PutTask(ctx, source, list[0], work)
	if err != nil {
		return err
	}
	ref.Key = r.Run.Tasks[0].Key // scores compare by key
	r.Run.Tasks = []agon.TaskRef{ref}
	return nil
}

// auditor is a player of what a server shows, on this machine, for one kind.
func auditor(ctx context.Context, o kit.Options, c *client.Client, name string) (*kit.Player, kind.Kind, blob.Store, func(), error) {
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	ks := o.Kinds(root)
	k, ok := ks[name]
	if !ok {
		return nil, nil, nil, nil, fmt.Errorf("this agon does not know the kind %s", name)
	}
	work, err := tempdir.Make("verify")
	if err != nil {
		return nil, nil, nil, nil, err
	}
	source, err := kit.RemoteSource(c, work)
	if err == nil {
		var p *kit.Player
		if p, err = kit.NewPlayer(ctx, o, d, root, ks, source, work+"/trees"); err == nil {
			return p, k, source, func() { p.Close(); os.RemoveAll(work) }, nil
		}
	}
	return nil, nil, nil, nil, errors.Join(err, os.RemoveAll(work))
}

// replay plays a run again as a validator does.
func replay(ctx context.Context, kits kit.List, r cli.ReplayOptions) ([]agon.Score, error) {
	p, _, _, done, err := auditor(ctx, kits.Options(r.Common, ""), r.Client, r.Arena.Kind)
	if err != nil {
		return nil, err
	}
	defer done()
	att := p.Play(ctx, validator.Job{Run: r.Run, Attempt: 1, Arena: r.Arena, Submission: r.Submission})
	if att.Fault.Ours() {
		return nil, fmt.Errorf("failed here: %s", att.Reason)
	}
	return att.Scores, nil
}

// pairOf is how a kind compares scores; nil: by their values.
func pairOf(o kit.Options) func(name string) func(map[string]float64, agon.Score, agon.Score, bool) incentive.Pair {
	return func(name string) func(map[string]float64, agon.Score, agon.Score, bool) incentive.Pair {
		k, ok := o.Kinds("")[name]
		if !ok {
			return nil
		}
		return func(n map[string]float64, c, i agon.Score, baseline bool) incentive.Pair {
			return kind.Compare(k, n, c, i, baseline)
		}
	}
}
