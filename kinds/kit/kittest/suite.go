package kittest

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// Main runs the tests of a package that plays in real boxes: func TestMain(m
// *testing.M) { kittest.Main(m) }. Boxes start the test binary again as their helper.
func Main(m *testing.M) {
	netns.MaybeChild()
	os.Exit(m.Run())
}

// Files are what a miner enters, by path.
type Files map[string]string

// Sample returns the files of a kit's own agent.
func Sample(t testing.TB, k kit.Kit, name string) Files {
	t.Helper()
	list, err := k.Files(name)
	if err != nil {
		t.Fatalf("%s: %v", k.Kind, err)
	}
	out := Files{}
	for _, f := range list {
		out[f.Path] = string(f.Content)
	}
	return out
}

func (f Files) blobs() []blob.File {
	var out []blob.File
	for _, p := range slices.Sorted(maps.Keys(f)) {
		out = append(out, blob.File{Path: p, Content: []byte(f[p])})
	}
	return out
}

// FS returns the files as a kind's Check gets them.
func (f Files) FS() fs.FS { return blob.FS(f.blobs()) }

// Template is what `agon agent new KIND` writes, as it is entered; empty where
// the kind has none.
func Template(t testing.TB, k kit.Kit) Files {
	t.Helper()
	template, ok := kit.List{k}.Templates()[k.Kind]
	if !ok {
		return nil
	}
	files := Files{}
	err := fs.WalkDir(template, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := fs.ReadFile(template, p)
		files[k.Entry(p)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Whole checks that a kit is whole: it has a kind of its name, its arena names
// what exists, its tasks load, its script can be read, and what it offers to
// miners passes the gate that everybody's submissions pass.
func Whole(t *testing.T, k kit.Kit) {
	t.Helper()
	o := Options(t.TempDir(), kit.List{k})
	if err := o.Kits.Check(); err != nil {
		t.Fatal(err)
	}
	made := k.New(kit.Parts{Options: o})
	if made.Name() != k.Kind || made.Scorer() == "" {
		t.Errorf("%s: the kind's name is %q, its scorer %q", k.Kind, made.Name(), made.Scorer())
	}
	if k.Demo == nil {
		t.Fatalf("%s: without Demo neither `agon up` nor `agon arena new` knows an arena of the kind", k.Kind)
	}
	f := k.Demo()
	if f.Kind != k.Kind {
		t.Errorf("%s: the arena is of the kind %q", k.Kind, f.Kind)
	}
	if err := f.Check(o.Kits); err != nil {
		t.Errorf("%s: the arena: %v", k.Kind, err)
	}
	for _, set := range slices.Concat(f.Sets, f.Hidden, k.Sets) {
		if list, err := o.ShippedSet(k.Kind, set); err != nil || len(list) == 0 {
			t.Errorf("%s: set %s: %d tasks, %v", k.Kind, set, len(list), err)
		}
	}
	if k.Page != nil {
		if err := k.Page.Check(); err != nil || k.Page.Data == nil && k.Page.RunData == nil {
			t.Errorf("%s: the page part: %v, or it has no data", k.Kind, err)
		}
	}
	if k.Script != nil {
		if _, err := scripted.Parse(k.Script(), "json"); err != nil {
			t.Errorf("%s: the script: %v", k.Kind, err)
		}
	}
	a := f.Arena()
	enters := func(what string, files Files, refused bool) {
		found, err := made.Check(t.Context(), &a, files.FS())
		if err != nil {
			t.Errorf("%s: %s: %v", k.Kind, what, err)
		}
		for _, x := range found {
			if !x.Warning && !refused {
				t.Errorf("%s: %s is refused: %+v", k.Kind, what, x)
			}
		}
	}
	for _, s := range k.Samples {
		enters("sample "+s.Name, Sample(t, k, s.Name), s.Refused)
	}
	// What `agon agent new KIND` writes can be entered as it is.
	if files := Template(t, k); len(files) > 0 {
		enters("the template", files, false)
	}
}

// tasks loads the tasks of the kit's arena.
func tasks(t testing.TB, k kit.Kit, o kit.Options) []*task.Task {
	t.Helper()
	var out []*task.Task
	f := k.Demo()
	for _, set := range slices.Concat(f.Sets, f.Hidden) {
		list, err := o.ShippedSet(k.Kind, set)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, list...)
	}
	return out
}

// Case makes the case of the conformance suite out of a kit: its arena, its
// tasks, and one of its samples. Bad and Behave are left to the caller.
func Case(t testing.TB, k kit.Kit, sample string) kindtest.Case {
	t.Helper()
	o := Options(t.TempDir(), kit.List{k})
	trees := Trees{}
	a := k.Demo().Arena()
	for i, tk := range tasks(t, k, o) {
		dir := filepath.Join(o.Data, fmt.Sprintf("task-%d", i))
		if err := task.Materialise(tk, dir); err != nil {
			t.Fatal(err)
		}
		trees[tk.Digest] = dir
		a.Tasks = append(a.Tasks, agon.TaskRef{Key: tk.Key, Digest: tk.Digest})
	}
	files := Sample(t, k, sample)
	sub := agon.Submission{ID: "submission", Arena: a.ID, Digest: agon.Sum([]byte(sample))}
	trees[sub.Digest] = filepath.Join(o.Data, "submission")
	for p, text := range files {
		at := filepath.Join(trees[sub.Digest], filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return kindtest.Case{Kind: k.New(kit.Parts{Options: o, Rootfs: "/"}), Arena: a, Trees: trees, Submission: sub, Good: files.FS()}
}

// arena is the kit's arena with its tasks, its kind and a player of it in boxes of this machine.
func arena(t testing.TB, k kit.Kit) (*kit.Player, kind.Kind, *blobfs.Store, agon.Arena) {
	t.Helper()
	// Boxes see parts of this path: it is short.
	dir, err := tempdir.Make("kit")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what stays is removed by the next sweep
	ctx, o := t.Context(), Options(dir, kit.List{k})
	d, root := Driver(t)
	blobs, err := blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := k.Demo().Arena()
	for _, tk := range tasks(t, k, o) {
		ref, err := kit.PutTask(ctx, blobs, tk, filepath.Join(dir, "work"))
		if err != nil {
			t.Fatal(err)
		}
		a.Tasks = append(a.Tasks, ref)
	}
	ks := o.Kinds(root)
	p, err := kit.NewPlayer(ctx, o, d, root, ks, blobs, filepath.Join(dir, "trees"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, ks[k.Kind], blobs, a
}

// Twins has the kind count what stands between a task's tests and one that forges
// their verdict, for each task of the kit's arena.
func Twins(t testing.TB, k kit.Kit) (out []kind.TwinCount) {
	t.Helper()
	p, kd, _, a := arena(t, k)
	for _, ref := range a.Tasks {
		spec := agon.RunSpec{Run: "check", Tasks: []agon.TaskRef{ref}, Policy: a.Policy}
		env, done := p.Env(spec)
		tk, err := env.Task(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		list, err := kd.(kind.Twinned).Twins(t.Context(), env, spec, tk)
		done()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, list...)
	}
	return out
}

// Play enters files in the kit's arena and plays them as a validator does: in
// boxes of this machine, with a gateway on which the kit's script answers. It
// returns every attempt; a fault of ours fails the test. No box, no test: it fails.
func Play(t testing.TB, k kit.Kit, files Files) []*validator.Attempt {
	t.Helper()
	out := PlayAny(t, k, files)
	for _, a := range out {
		if a.Fault.Ours() {
			t.Fatalf("%s: fault %s: %s", k.Kind, a.Fault, a.Reason)
		}
	}
	return out
}

// PlayAny is Play where a fault of ours is what is looked for: it ends there, with
// that attempt as the last.
func PlayAny(t testing.TB, k kit.Kit, files Files) []*validator.Attempt {
	t.Helper()
	ctx := t.Context()
	p, kd, blobs, a := arena(t, k)
	digest, err := blob.PutFiles(ctx, blobs, files.blobs(), blob.TreeLimits{})
	if err != nil {
		t.Fatal(err)
	}
	v := agon.View{Arena: a, Submission: agon.Submission{ID: "submission", Arena: a.ID, Digest: digest}}
	var out []*validator.Attempt
	for len(out) < maxRuns {
		plan, err := kd.Plan(v)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Done {
			return out
		}
		if len(plan.Runs) == 0 {
			t.Fatalf("%s: the plan is neither done nor has it runs: %s", k.Kind, plan.Why)
		}
		for _, r := range plan.Runs {
			r.Run = fmt.Sprintf("run-%d", len(out)+1)
			at := p.Play(ctx, validator.Job{Run: r, Attempt: 1, Arena: a, Submission: v.Submission})
			if out = append(out, at); at.Fault.Ours() {
				return out
			}
			v.Runs = append(v.Runs, agon.Run{RunSpec: r, Submission: v.Submission.ID, State: agon.RunScored, Scores: at.Scores})
		}
	}
	t.Fatalf("%s: no end after %d runs", k.Kind, maxRuns)
	return nil
}

// maxRuns bounds Play: a plan that never ends is found.
const maxRuns = 1000
