package coding

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/coding/play"
	"github.com/agon-arena/agon/kinds/coding/release"
	"github.com/agon-arena/agon/kinds/coding/toolchain"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/ui/cli"
)

// maxRange is how many pairs of releases one command tries.
const maxRange = 40

// fromRelease makes tasks of two releases, or of each two in a range.
func fromRelease(ctx context.Context, o kit.Options, d sandbox.Driver, root string, k kind.Kind, env func(agon.RunSpec) (kind.Env, func()), r cli.TaskReleaseOptions) ([]cli.TaskMade, error) {
	p, ok := k.(*play.Kind)
	if !ok {
		return nil, fmt.Errorf("make tasks of releases: the kind is %T", k)
	}
	bad := func(field, format string, args ...any) error {
		return &agon.Error{Code: "bad_request", Status: 422, Field: field, Message: fmt.Sprintf(format, args...)}
	}
	if x, ok := task.Indexes[r.Index]; !ok {
		return nil, bad("index", "%.40q is not a package index: want pypi, go or npm", r.Index)
	} else if !x.Name().MatchString(r.Package) {
		return nil, bad("name", "%.80q is not a package name of %s", r.Package, x.Title)
	}
	for field, v := range map[string]string{"old": r.Old, "new": r.New} {
		if !task.IsVersion(v) {
			return nil, bad(field, "%.80q is not a version", v)
		}
	}
	if r.Repeats < 2 || r.Repeats > 20 {
		return nil, bad("repeats", "%d: want 2 to 20, since a flaky test is found by repetition", r.Repeats)
	}
	src := task.NewSource(d, root, kit.TasksDir(o), func(s string) { o.Sayf("%s", s) })
	defer src.Close()
	pairs := [][2]string{{r.Old, r.New}}
	if r.Range {
		list, _, err := src.Versions(ctx, r.Index, r.Package)
		if err != nil {
			return nil, err
		}
		from, to := slices.Index(list, r.Old), slices.Index(list, r.New)
		if from < 0 || to <= from {
			return nil, bad("old, new", "%s has %d versions, in which %s does not come before %s", r.Package, len(list), r.Old, r.New)
		}
		if to-from > maxRange {
			return nil, bad("new", "%d releases are too many, limit %d", to-from, maxRange)
		}
		pairs = nil
		for i := from; i < to; i++ {
			pairs = append(pairs, [2]string{list[i], list[i+1]})
		}
	}
	spec := agon.RunSpec{Run: "release", Policy: Kit().Demo().Arena().Policy}
	spec.Policy.Grader.WallMS = 1_200_000
	var out []cli.TaskMade
	for _, pair := range pairs {
		made, err := release.Make(ctx, src, release.Request{
			Index: r.Index, Package: r.Package, Old: pair[0], New: pair[1], Runner: r.Runner, Out: r.Out, Repeats: r.Repeats, Say: o.Sayf,
			Run: func(ctx context.Context, t *task.Task, files []string, patch []byte) (map[string]bool, error) {
				e, done := env(spec)
				defer done()
				return p.Discover(ctx, e, t, spec.Policy, files, patch)
			},
		})
		if made == nil || err != nil && !errors.Is(err, release.ErrNoTask) && len(pairs) == 1 {
			return nil, err
		}
		if err != nil && made.Reason == "" {
			made.Reason = err.Error()
		}
		out = append(out, *made)
	}
	return out, nil
}

// prepareTasks fetches the toolchains that tasks are played by.
func prepareTasks(ctx context.Context, list []*task.Task, say func(string)) error {
	for _, t := range list {
		if name := play.Toolchain(t); name != "" {
			if _, err := toolchain.Ensure(ctx, name, "", say); err != nil {
				return err
			}
		}
	}
	return nil
}
