package roles

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/task/check"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
)

// bench is where tasks are tried before anybody is paid for them.
type bench struct {
	work   string // gone with close
	tasks  []*task.Task
	driver sandbox.Driver
	root   string // of boxes where the task names no image
	blobs  *blobfs.Store
}

// openBench reads the tasks in dirs, which may be archives. Close it.
func openBench(ctx context.Context, o kit.Options, name string, dirs []string) (_ *bench, err error) {
	b := &bench{}
	if b.work, err = tempdir.Make(name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	dirs = slices.Clone(dirs)
	for i := range dirs {
		if dirs[i], err = kit.Unpacked(b.work, dirs[i]); err != nil {
			return nil, err
		}
	}
	if b.tasks, err = o.Kits.TasksIn(dirs); err != nil {
		return nil, err
	}
	if b.driver, b.root, err = kit.OpenDriver(ctx, o); err != nil {
		return nil, err
	}
	if b.blobs, err = blobfs.Open(filepath.Join(b.work, "blobs"), blobfs.Options{}); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *bench) close() { _ = os.RemoveAll(b.work) }

// player plays in b's boxes. Close it.
func (b *bench) player(ctx context.Context, o kit.Options, kinds map[string]kind.Kind) (*kit.Player, error) {
	return kit.NewPlayer(ctx, o, b.driver, b.root, kinds, b.blobs, filepath.Join(b.work, "trees"))
}

// CheckTasks runs the controls of task directories: the reference solution
// must solve, doing nothing must not, twice each, in boxes like any grading.
// With paid, a task is refused as well whose grade can be forged.
func CheckTasks(ctx context.Context, o kit.Options, dirs []string, paid bool) ([]cli.TaskReport, error) {
	b, err := openBench(ctx, o, "check", dirs)
	if err != nil {
		return nil, err
	}
	defer b.close()
	ks := o.Kinds(b.root)
	p, err := b.player(ctx, o, ks)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	out := []cli.TaskReport{}
	for _, t := range b.tasks {
		name := t.Config.Agon.Kind
		own, _ := o.Kits.Of(name)
		k, ok := ks[name].(kind.Controlled)
		if i := own.InsteadOfCheck; i != nil || !ok {
			if i == nil {
				i = &kit.Instead{Why: "is of a kind whose tasks have no controls"}
			}
			return nil, &agon.Error{Code: "wrong_kind", Status: 422, Field: "dir", Message: t.Key + " " + i.Why, Mend: i.Mend}
		}
		if own.Demo == nil { // its policy has the limits of the boxes
			return nil, &agon.Error{Code: "wrong_kind", Status: 422, Field: "dir", Message: t.Key + " is of a kind that ships no arena", Mend: "give its Kit a Demo"}
		}
		start := time.Now()
		ref, err := kit.PutTask(ctx, b.blobs, t, b.work)
		if err != nil {
			return nil, err
		}
		g := grader{p: p.Player, k: k, spec: agon.RunSpec{Run: "check", Tasks: []agon.TaskRef{ref}, Policy: own.Demo().Arena().Policy}}
		r := check.Check(ctx, g, t)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rep := cli.TaskReport{Task: t.Key, OK: r.OK(), Oracles: marks(r.Oracle), Nops: marks(r.Nop), Reason: r.Reason()}
		if len(rep.Oracles) > 0 && len(rep.Nops) > 0 {
			least, most := slices.Min(rep.Oracles), slices.Max(rep.Nops)
			rep.Oracle, rep.Nop = &least, &most
		}
		if l, ok := k.(kind.Linted); ok {
			rep.Lint = l.Lint(t)
		}
		if twinned, ok := k.(kind.Twinned); ok && rep.OK {
			if rep.Tests, err = g.twins(ctx, twinned); err != nil {
				return nil, fmt.Errorf("task %s: %w", t.Key, err)
			}
			few := rep.Forged()
			for _, x := range rep.Tests {
				rep.Twins += x.Twins
			}
			rep.Forgeable = len(few) > 0
			if paid && len(few) > 0 {
				rep.OK, rep.Reason = false, fmt.Sprintf("tests: %d of %d that decide have fewer twins than graders want, such as %s: a grade of them can be forged", len(few), len(rep.Tests), few[0])
			}
		}
		rep.MS = time.Since(start).Milliseconds()
		out = append(out, rep)
	}
	return out, nil
}

// grader judges patches with a kind in an attempt of their own.
type grader struct {
	p    *validator.Player
	k    kind.Controlled
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
	return g.k.Control(ctx, env, g.spec, t, patch)
}

// twins counts the twins of the task's tests.
func (g grader) twins(ctx context.Context, k kind.Twinned) ([]kind.TwinCount, error) {
	env, done := g.p.Env(g.spec)
	defer done()
	t, err := env.Task(ctx, g.spec.Tasks[0])
	if err != nil {
		return nil, err
	}
	return k.Twins(ctx, env, g.spec, t)
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
