package run

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/agon-arena/agon"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/cli"
	"github.com/agon-arena/agon/kind/coding"
	kr "github.com/agon-arena/agon/kind/research"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/task"
	"github.com/agon-arena/agon/task/check"
	"github.com/agon-arena/agon/validator"
)

// CheckTasks runs the controls of task directories: the reference solution
// must solve, doing nothing must not, twice each, in boxes like any grading.
func CheckTasks(ctx context.Context, o Options, dirs []string) ([]cli.TaskReport, error) {
	list, err := tasksIn(dirs)
	if err != nil {
		return nil, err
	}
	d, root, err := openDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	work, err := tempdir.Make("check")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	blobs, err := blobfs.Open(filepath.Join(work, "blobs"), blobfs.Options{})
	if err != nil {
		return nil, err
	}
	k := coding.New(coding.Config{Rootfs: root})
	p, err := newPlayer(ctx, o, d, root, kinds(o, root), blobs, filepath.Join(work, "trees"))
	if err != nil {
		return nil, err
	}
	defer p.close()
	policy := codingKit().demo().Arena().Policy
	out := []cli.TaskReport{}
	for _, t := range list {
		if t.Config.Agon.Kind == kr.Name {
			return nil, &agon.Error{Code: "wrong_kind", Status: 422, Field: "dir", Message: t.Key + " is a research task, which has no reference solution", Mend: "agon task preflight tries it"}
		}
		if t.Config.Agon.Kind == "pack" {
			return nil, &agon.Error{Code: "wrong_kind", Status: 422, Field: "dir", Message: t.Key + " is an office scenario, which has no reference solution", Mend: "agon pack batch --dry-run names missing fixtures, agon pack batch plays its two policies"}
		}
		start := time.Now()
		ref, err := putTask(ctx, blobs, t, work)
		if err != nil {
			return nil, err
		}
		g := grader{p: p.Player, k: k, spec: agon.RunSpec{Run: "check", Tasks: []agon.TaskRef{ref}, Policy: policy}}
		r := check.Check(ctx, g, t)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out = append(out, cli.TaskReport{
			Task: t.Key, OK: r.OK(), Oracle: marks(r.Oracle), Nop: marks(r.Nop),
			MS: time.Since(start).Milliseconds(), Reason: r.Reason(),
		})
	}
	return out, nil
}

// grader judges patches with the coding kind in an attempt of their own.
type grader struct {
	p    *validator.Player
	k    *coding.Kind
	spec agon.RunSpec
}

// JudgePatch implements check.Grader.
func (g grader) JudgePatch(ctx context.Context, _ *task.Task, patch []byte) (bool, string, error) {
	env, done := g.p.Env(g.spec)
	defer done()
	// The task as a validator gets it, not as it stands in the author's directory.
	t, err := env.Task(ctx, g.spec.Tasks[0])
	if err != nil {
		return false, "", err
	}
	v, err := g.k.JudgePatch(ctx, env, g.spec, t, patch)
	if err != nil {
		return false, "", err
	}
	return v.Solved, v.Detail, nil
}

// tasksIn loads task directories, or directories of them.
func tasksIn(dirs []string) ([]*task.Task, error) {
	var out []*task.Task
	for _, dir := range dirs {
		dir = filepath.Clean(dir)
		if _, err := os.Stat(filepath.Join(dir, "task.toml")); err == nil {
			t, err := task.LoadDir(dir, filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir))
			if err != nil {
				return nil, err
			}
			out = append(out, t)
			continue
		}
		if _, err := os.Stat(dir); err != nil {
			return nil, &agon.Error{Code: "not_found", Status: 404, Field: "dir", Message: "there is no directory " + dir}
		}
		list, err := task.LoadSet(os.DirFS(dir), filepath.Base(dir))
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

// marks turns solved into scores.
func marks(solved []bool) []float64 {
	out := make([]float64, len(solved))
	for i, s := range solved {
		if s {
			out[i] = 1
		}
	}
	return out
}
