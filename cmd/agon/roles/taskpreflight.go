package roles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/task/leak"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/datasets"
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

// preflightTasks tries tasks before they are paid for: as their kind does it, or
// as is done for every kind.
func preflightTasks(ctx context.Context, o kit.Options, dirs []string) ([]cli.TaskPreflight, error) {
	b, err := openBench(ctx, o, "preflight", dirs)
	if err != nil {
		return nil, err
	}
	defer b.close()
	var p *kit.Player // of the kinds without a preflight of their own
	defer func() {
		if p != nil {
			p.Close()
		}
	}()
	out := []cli.TaskPreflight{}
	for _, t := range b.tasks {
		k, _ := o.Kits.Of(t.Config.Agon.Kind)
		if k.TaskPreflight != nil {
			got, err := k.TaskPreflight(ctx, o, b.driver, b.root, []*task.Task{t})
			if err != nil {
				return nil, err
			}
			out = append(out, got...)
			continue
		}
		if k.Demo == nil { // its policy has the limits of the boxes
			return nil, &agon.Error{Code: "wrong_kind", Status: 422, Field: "dir", Message: t.Key + " is of a kind that ships no arena", Mend: "give its Kit a Demo"}
		}
		if p == nil {
			if p, err = b.player(ctx, o, o.Kinds(b.root)); err != nil {
				return nil, err
			}
		}
		f := preflight{o: o, own: k, p: p, blobs: b.blobs, root: b.root, work: b.work, t: t}
		f.rep = cli.TaskPreflight{Task: t.Key, OK: true, Values: []float64{}, Seeds: []int64{}, BySeed: []cli.TaskSeedValue{}, Leaks: []leak.Leak{}}
		if err := f.run(ctx); err != nil {
			return nil, fmt.Errorf("task %s: %w", t.Key, err)
		}
		out = append(out, f.rep)
	}
	return out, nil
}

// preflightSeeds is how many seeds a task is played with: one says nothing of luck.
const preflightSeeds = 5

// commonForm is in how many public tasks of a kind hidden bytes stand that are the
// kind's form: names of fields, a script that all have.
const commonForm = 3

// preflight tries one task of a kind that has no preflight of its own. What stands
// below tests/ and solution/ is hidden (of a repository task the hidden tests and
// the patch); the rest is the agent's.
type preflight struct {
	o     kit.Options
	own   kit.Kit
	p     *kit.Player
	blobs blob.Store
	root  string // of the boxes, where the task names no image
	work  string
	t     *task.Task
	sets  []place // data sets that hidden bytes are looked for in
	rep   cli.TaskPreflight
}

func (f *preflight) add(name, status, format string, args ...any) {
	f.rep.Checks = append(f.rep.Checks, cli.Check{Name: name, Status: status, Detail: plain.Short(fmt.Sprintf(format, args...), 600)})
	if status == "fail" {
		f.rep.OK = false
	}
}

func (f *preflight) run(ctx context.Context) error {
	if f.t.Recipe() {
		f.add("files", "fail", "the task is made of a published package and is not here: agon task fetch makes it")
		return nil
	}
	ref, err := kit.PutTask(ctx, f.blobs, f.t, f.work)
	if err != nil {
		return err
	}
	if here, err := f.datasets(ctx); err != nil || !here {
		return err
	}
	if err := f.hidden(ctx); err != nil {
		return err
	}
	spec := agon.RunSpec{Run: "preflight", Tasks: []agon.TaskRef{ref}, Policy: f.own.Demo().Arena().Policy}
	if k, ok := f.p.Kinds[f.own.Kind].(kind.Controlled); ok {
		return f.controls(ctx, k, spec)
	}
	return f.sample(ctx, ref)
}

// controls judges the reference solution once with each seed, and doing nothing.
func (f *preflight) controls(ctx context.Context, k kind.Controlled, spec agon.RunSpec) error {
	patch, err := f.t.SolutionPatch()
	if err != nil {
		f.add("reference", "fail", "%v", err)
		return nil
	}
	g := grader{p: f.p.Player, k: k, spec: spec}
	for i := range preflightSeeds {
		g.spec.Seed = seeds.Derive("preflight", string(f.t.Digest), strconv.Itoa(i))
		start := time.Now()
		solved, detail, err := g.JudgePatch(ctx, f.t, patch)
		if err != nil {
			return err
		}
		f.rep.BenchmarkMS = max(f.rep.BenchmarkMS, time.Since(start).Milliseconds())
		f.played(g.spec.Seed, marks([]bool{solved})[0])
		if !solved {
			f.add("reference", "fail", "the reference solution does not solve the task with the seed %d: %s", g.spec.Seed, detail)
		}
	}
	solved, detail, err := g.JudgePatch(ctx, f.t, nil)
	switch {
	case err != nil:
		return err
	case solved:
		f.add("nothing", "fail", "the task is solved without a change: %s", detail)
	default:
		f.add("nothing", "ok", "doing nothing does not solve it: %s", detail)
	}
	f.measured("the reference solution")
	return nil
}

// sample plays one of the kind's samples once with each seed: the first that asks
// no model, where there is one.
func (f *preflight) sample(ctx context.Context, ref agon.TaskRef) error {
	samples := slices.DeleteFunc(slices.Clone(f.own.Samples), func(s kit.Sample) bool { return s.Refused })
	i := max(0, slices.IndexFunc(samples, func(s kit.Sample) bool { return !s.Model }))
	if len(samples) == 0 {
		f.add("seeds", "warn", "the kind has neither controls nor a sample: nothing was played")
		return nil
	}
	name := samples[i].Name
	files, err := f.own.Files(name)
	if err != nil {
		return err
	}
	tree := make([]blob.File, len(files))
	for i, x := range files {
		tree[i] = blob.File{Path: x.Path, Content: x.Content}
	}
	digest, err := blob.PutFiles(ctx, f.blobs, tree, blob.TreeLimits{})
	if err != nil {
		return err
	}
	a := f.own.Demo().Arena()
	a.Tasks = []agon.TaskRef{ref}
	sub := agon.Submission{ID: "preflight", Arena: a.ID, Name: name, Digest: digest, Licence: a.Licence}
	specs, err := tryRuns(f.p.Kinds[f.own.Kind], a, sub, a.Tasks, nil)
	if err != nil {
		return err
	}
	if len(specs) == 0 {
		f.add("seeds", "warn", "the kind plans nothing for this task: nothing was played")
		return nil
	}
	scripted := false
	for i := range preflightSeeds {
		spec := specs[0]
		spec.Run = fmt.Sprintf("preflight-%d", i+1)
		spec.Seed = seeds.Derive("preflight", string(f.t.Digest), strconv.Itoa(i))
		att := f.p.Play(ctx, validator.Job{Run: spec, Attempt: 1, Arena: a, Submission: sub})
		if err := ctx.Err(); err != nil {
			return err
		}
		at := slices.IndexFunc(att.Scores, func(s agon.Score) bool { return s.Task == ref.Key })
		if att.Fault.Ours() || at < 0 {
			f.add("seeds", "fail", "the sample %s got no score with the seed %d: %s", name, spec.Seed, cmp.Or(att.Reason, att.Detail, att.Outcome))
			return nil
		}
		scripted = scripted || slices.ContainsFunc(att.Receipts, agon.Receipt.Scripted)
		f.rep.BenchmarkMS = max(f.rep.BenchmarkMS, att.Wall.Milliseconds())
		f.played(spec.Seed, att.Scores[at].Value)
	}
	if scripted {
		f.add("model", "warn", "no model is configured: replies came from a script, and a real model's luck is not in these numbers")
	}
	f.measured("the sample " + name)
	return nil
}

func (f *preflight) played(seed int64, value float64) {
	f.rep.Seeds = append(f.rep.Seeds, seed)
	f.rep.BySeed = append(f.rep.BySeed, cli.TaskSeedValue{Seed: seed, Value: value})
	f.rep.Values = append(f.rep.Values, value)
}

// measured sums up what the seeds came to.
func (f *preflight) measured(what string) {
	sorted := slices.Sorted(slices.Values(f.rep.Values))
	f.rep.Value = sorted[len(sorted)/2]
	spread := sorted[len(sorted)-1] - sorted[0]
	f.rep.Baseline, f.rep.BandAbs, f.rep.Noise.Absolute = f.rep.Value, spread, spread
	if f.rep.Value != 0 {
		f.rep.BandRel = spread / math.Abs(f.rep.Value)
		f.rep.Noise.Relative = f.rep.BandRel
	}
	if spread == 0 {
		f.add("seeds", "ok", "%s scores %v with each of %d seeds", what, f.rep.Value, len(f.rep.Seeds))
		return
	}
	f.add("seeds", "warn", "%s scores %v with %d seeds, which differ by %v: a rule has to tell a gain from that", what, f.rep.Values, len(f.rep.Seeds), spread)
}

// place is where contestants can read.
type place struct{ label, dir string }

// datasets brings the task's data sets here; false: one cannot be had, which is said.
func (f *preflight) datasets(ctx context.Context) (here bool, err error) {
	list, err := datasets.ParseAll(f.t.Config.Environment.Datasets)
	if err != nil {
		return false, err
	}
	here = true
	for _, r := range list {
		dir, release, err := f.p.Datasets.Ensure(ctx, r)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			f.add("data set "+r.Name, "fail", "it cannot be had: %v", err)
			here = false
			continue
		}
		release()
		d, err := f.p.Datasets.Get(r.Digest)
		switch {
		case err != nil:
			return false, err
		case d.Bytes > leak.MaxSearched:
			f.add("data set "+r.Name, "warn", "%d files, %d MB: too large to be searched for hidden data", d.Files, d.Bytes>>20)
		default:
			f.add("data set "+r.Name, "ok", "%d files, %d MB", d.Files, d.Bytes>>20)
			f.sets = append(f.sets, place{"data set " + r.Name, dir})
		}
	}
	return here, nil
}

// hidden looks for hidden bytes where contestants can read: in the root file system
// of the boxes, the packages that agents may be given, and what ships in public.
func (f *preflight) hidden(ctx context.Context) error {
	dir := filepath.Join(f.work, "searched")
	defer os.RemoveAll(dir)
	if err := task.Materialise(f.t, filepath.Join(dir, "task")); err != nil {
		return err
	}
	x := leak.New()
	var shown [][]byte
	err := eachFile(filepath.Join(dir, "task"), func(name string, b []byte) error {
		switch {
		case isHidden(f.t, name):
			return x.Add(name, b)
		case !belowHidden(name):
			shown = append(shown, b)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the task's files: %w", err)
	}
	if x.Files() == 0 {
		f.add("hidden data", "warn", "nothing stands below tests/ and solution/: the task hides nothing")
		return nil
	}
	// A task of a repository shows most of what its tests and its patch hold.
	for _, b := range shown {
		x.Forget(b)
	}
	places := append(slices.Clone(f.sets), place{"libraries", filepath.Join(kit.CacheDir(f.o), "libraries")})
	image := cmp.Or(f.t.Config.Environment.Image, f.t.Config.Environment.DockerImage)
	switch r, err := f.p.Roots.Of(ctx, image); {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		f.add("image", "warn", "not searched: %v", err)
	default:
		places = append(places, place{"root file system", r.Dir})
	}
	if !f.t.Config.Agon.Repository() { // those are made of packages
		places = append(places, place{"package mirror", kit.TasksDir(f.o)})
	}
	public, theirs, err := f.public(filepath.Join(dir, "public"))
	if err != nil {
		return err
	}
	x.ForgetCommon(commonForm, theirs)
	places = append(places, place{"public", public})
	var found leak.Report
	for _, at := range places {
		if _, err := os.Stat(at.dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := x.Dir(ctx, at.label, at.dir, &found); err != nil {
			return err
		}
	}
	if f.rep.Leaks = append(f.rep.Leaks, found.Leaks...); len(found.Leaks) > 0 {
		l := found.Leaks[0]
		f.add("hidden data", "fail", "%s holds %d bytes of %s, and contestants can read it; %d places in all", l.Where, l.Bytes, l.What, len(found.Leaks))
		return nil
	}
	note := ""
	if len(found.Unread) > 0 {
		note = "; too large to open: " + strings.Join(found.Unread, ", ")
	}
	f.add("hidden data", "ok", "no %d bytes of %d hidden files are in %d files (%d MB) that contestants can read%s", leak.Piece, x.Files(), found.Files, found.Bytes>>20, note)
	return nil
}

// belowHidden reports whether agents do not see a file of a task.
func belowHidden(name string) bool {
	return strings.HasPrefix(name, "tests/") || strings.HasPrefix(name, "solution/")
}

// isHidden reports whether a file of a task says how it is judged.
func isHidden(t *task.Task, name string) bool {
	if a := t.Config.Agon; a.Repository() {
		return name == a.Solution || strings.HasPrefix(name, a.Hidden+"/")
	}
	return belowHidden(name)
}

// public writes what ships with the kind: its sets but this task, samples,
// template. theirs is what the tasks of those sets hide.
func (f *preflight) public(dir string) (at string, theirs [][][]byte, err error) {
	for _, set := range f.own.Sets {
		list, _, err := kit.LoadSet(f.o, f.own.Kind, set)
		if err != nil {
			return "", nil, err
		}
		for _, t := range list {
			if t.Digest == f.t.Digest {
				f.add("public", "warn", "this is the task %s, which ships with agon: it hides nothing from anybody who looks there", t.Key)
				continue
			}
			at := filepath.Join(dir, "sets", filepath.FromSlash(t.Key))
			if err := task.Materialise(t, at); err != nil {
				return "", nil, err
			}
			var hidden [][]byte
			err := eachFile(at, func(name string, b []byte) error {
				if isHidden(t, name) {
					hidden = append(hidden, b)
				}
				return nil
			})
			if err != nil {
				return "", nil, err
			}
			theirs = append(theirs, hidden)
		}
	}
	if f.own.Data == nil {
		return dir, theirs, nil
	}
	for _, part := range []string{"samples", "template"} {
		sub, err := fs.Sub(f.own.Data, part)
		if err != nil {
			return "", nil, err
		}
		if _, err := fs.Stat(sub, "."); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.CopyFS(filepath.Join(dir, part), sub); err != nil {
			return "", nil, err
		}
	}
	return dir, theirs, nil
}

// eachFile calls use with the regular files below a directory.
func eachFile(dir string, use func(name string, b []byte) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		return use(name, b)
	})
}
