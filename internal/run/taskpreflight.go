package run

import (
	"context"
	"os"
	"path/filepath"

	"github.com/agon-arena/agon"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/cli"
	kr "github.com/agon-arena/agon/kind/research"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// initTask writes the template of a kind's task.
func initTask(_ context.Context, kind, dir string) ([]string, error) {
	if kind != kr.Name {
		return nil, &agon.Error{Code: "unknown_kind", Status: 422, Field: "kind", Message: "there is no template of a task for the kind " + kind, Mend: "research is the one that there is"}
	}
	names, err := kr.Init(dir)
	if err != nil {
		return nil, &agon.Error{Code: "cannot_init", Status: 422, Field: "dir", Message: err.Error()}
	}
	return names, nil
}

// preflightTasks tries research tasks in boxes like those of any replay.
func preflightTasks(ctx context.Context, o Options, dirs []string) ([]cli.TaskPreflight, error) {
	list, err := tasksIn(dirs)
	if err != nil {
		return nil, err
	}
	d, root, err := openDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	work, err := tempdir.Make("preflight")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	blobs, err := blobfs.Open(filepath.Join(work, "blobs"), blobfs.Options{})
	if err != nil {
		return nil, err
	}
	k := kr.New(researchConfig(o, root))
	p, err := newPlayer(ctx, o, d, root, kinds(o, root), blobs, filepath.Join(work, "trees"))
	if err != nil {
		return nil, err
	}
	defer p.close()
	policy := researchTemplate().Policy
	out := []cli.TaskPreflight{}
	for _, t := range list {
		if t.Config.Agon.Kind != kr.Name {
			return nil, &agon.Error{Code: "wrong_kind", Status: 422, Field: "dir", Message: t.Key + " is no research task", Mend: "agon task check is for the others"}
		}
		ref, err := putTask(ctx, blobs, t, work)
		if err != nil {
			return nil, err
		}
		spec := agon.RunSpec{Run: "preflight", Tasks: []agon.TaskRef{ref}, Policy: policy}
		env, done := p.Env(spec)
		r, err := k.Preflight(ctx, env, spec)
		done()
		if err != nil {
			return nil, err
		}
		x := cli.TaskPreflight{
			Task: r.Task, OK: r.OK, Values: r.Values, Baseline: r.Baseline, Band: r.Band,
			SetupMS: r.SetupMS, BenchmarkMS: r.BenchmarkMS, MaxRSS: r.MaxRSS,
		}
		for _, c := range r.Checks {
			x.Checks = append(x.Checks, cli.Check{Name: c.Name, Status: c.Status, Detail: c.Detail})
		}
		out = append(out, x)
	}
	return out, nil
}
