package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/kinds/pack/commands"
)

// Two makings of a seed are the same bytes, on disk and by digest; another seed is another set.
func TestGenerateTasks(t *testing.T) {
	for _, set := range []string{commands.SetOffice, commands.SetSeason} {
		t.Run(set, func(t *testing.T) { generateTwice(t, set) })
	}
}

func generateTwice(t *testing.T, set string) {
	dir := t.TempDir()
	read := func(seed uint64, name string) (agon.Digest, map[string]string) {
		t.Helper()
		out := filepath.Join(dir, name)
		g, err := GenerateTasks(t.Context(), commands.GenerateOptions{Set: set, Seed: seed, Count: 5, Difficulty: 2, Out: out})
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		err = filepath.WalkDir(out, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			rel, _ := filepath.Rel(out, path)
			files[rel] = string(b)
			return err
		})
		if err != nil || len(g.Tasks) != 5 {
			t.Fatalf("%+v %v", g, err)
		}
		return g.Digest, files
	}
	a, af := read(7, "a")
	b, bf := read(7, "b")
	c, _ := read(8, "c")
	if a != b || a == c || len(af) == 0 || len(af) != len(bf) {
		t.Errorf("%s %s %s, %d and %d files", a, b, c, len(af), len(bf))
	}
	for name, text := range af {
		if bf[name] != text {
			t.Errorf("%s differs", name)
		}
	}
	if _, err := GenerateTasks(t.Context(), commands.GenerateOptions{Set: set, Seed: 7, Count: 1, Difficulty: 2, Out: filepath.Join(dir, "a")}); err == nil {
		t.Error("an existing directory is overwritten")
	}
}

// Under a secret every task has a seed of its own: what becomes public makes that task again, and no other.
func TestGenerateBySecret(t *testing.T) {
	make := func(c commands.GenerateOptions) []commands.MadeTask {
		t.Helper()
		c.Set, c.Difficulty = commands.SetOffice, 2
		g, err := GenerateTasks(t.Context(), c)
		if err != nil || (g.Seed == nil) != (c.Secret != nil) {
			t.Fatalf("%+v %v", g, err)
		}
		return g.Tasks
	}
	secret := []byte("0123456789abcdef0123456789abcdef")
	a, b, other := make(commands.GenerateOptions{Secret: secret, Count: 4}), make(commands.GenerateOptions{Secret: secret, Count: 4}), make(commands.GenerateOptions{Secret: append(secret, 'x'), Count: 4})
	seeds := map[uint64]bool{}
	for i, x := range a {
		var seed uint64
		var index, level int
		if _, err := fmt.Sscanf(x.Task, "office/office-%d-%d-d%d", &seed, &index, &level); err != nil || seeds[seed] || index != 0 || seed < 1<<40 {
			t.Errorf("%s: %v", x.Task, err)
		}
		seeds[seed] = true
		if x != b[i] || x == other[i] {
			t.Errorf("task %d: %v, again %v, of another secret %v", i, x, b[i], other[i])
		}
		if again := make(commands.GenerateOptions{Seed: seed, Count: 4}); again[0] != x || slices.Contains(a, again[1]) || slices.Contains(a, again[2]) {
			t.Errorf("%s made again: %v", x.Task, again)
		}
	}
}

// An arena whose sets a generator makes draws each at its period's level, each task of a seed
// that tells no other's; the same request gives the same set.
func TestGeneratedSupply(t *testing.T) {
	o := kittest.Options(t.TempDir(), kit.List{Kit()})
	blobs, err := blobfs.Open(t.TempDir(), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := kit.OpenData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	x := &kit.Stock{Server: &kit.Server{Options: o, Blobs: blobs, Data: data}, Kit: Kit(), File: kit.SupplyFile{From: agon.SupplyGenerator, Tasks: 3}}
	for asked, level := range map[int]int{0: usualLevel, 1: 1, 5: 5} {
		r := platform.SetRequest{Tasks: 3, TaskSeeds: []int64{11, 12, 1 << 52}, Level: asked}
		one, err := x.Draw(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := x.Draw(t.Context(), r)
		if err != nil || !slices.EqualFunc(one, again, func(a, b agon.TaskRef) bool { return a.Digest == b.Digest }) {
			t.Errorf("level %d: %v, again %v: %v", asked, one, again, err)
		}
		for i, seed := range r.TaskSeeds {
			if want := fmt.Sprintf("office/office-%d-00000-d%d", seed, level); one[i].Key != want {
				t.Errorf("level %d: task %d is %s, want %s", asked, i, one[i].Key, want)
			}
		}
	}
	if _, err := x.Draw(t.Context(), platform.SetRequest{Tasks: 1, TaskSeeds: []int64{1}, Level: 6}); err == nil || !strings.Contains(err.Error(), "difficulty: want 1 to 5") {
		t.Errorf("level 6: %v", err)
	}
}

// The validators beside a demo find their scenario where the arena's own tasks are hidden or drawn anew.
func TestAloneFile(t *testing.T) {
	kits := kit.List{Kit()}
	o := kittest.Options(t.TempDir(), kits)
	for name, f := range map[string]kit.ArenaFile{
		"supply": {Supply: &kit.SupplyFile{From: agon.SupplyDirectory, Path: "./nowhere", Tasks: 2}}, "hidden": {Hidden: []string{"./nowhere"}}, "usual": {Sets: []string{officeSet}},
	} {
		f.ID, f.Kind, f.Netuid = "x", "pack", 11
		store, err := blobfs.Open(t.TempDir(), blobfs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		alone := aloneFile(f)
		refs, err := kit.ArenaTasks(t.Context(), o, alone, store, t.TempDir())
		its := func(r agon.TaskRef) bool { return strings.HasSuffix(r.Key, alone.Only) && !r.Hidden }
		if err != nil || alone.Only == "" || !slices.ContainsFunc(refs, its) || alone.Netuid == f.Netuid {
			t.Errorf("%s: %+v %v", name, refs, err)
		}
	}
}

// A validator without a platform cannot know what a platform's supply draws: it says so, and
// plays no other set in its place.
func TestNoSupplyWithoutPlatform(t *testing.T) {
	o := kittest.Options(t.TempDir(), kit.List{Kit()})
	f := kit.ArenaFile{ID: "x", Kind: "pack", Netuid: 11, Sets: []string{officeSet}, Supply: &kit.SupplyFile{From: agon.SupplyGenerator, Tasks: 2}}
	_, err := newEvaluator(t.Context(), o, nil, "", f, t.TempDir())
	var own *agon.Error
	if !errors.As(err, &own) || own.Field != "supply" || own.Mend == "" {
		t.Errorf("%v", err)
	}
}

// Hidden tasks that share a seed are refused, in sets and in a supply: one that is seen gives away the others. Those of seeds of
// their own are taken, and public ones may share.
func TestHiddenTasksOfOneSeed(t *testing.T) {
	kits := kit.List{Kit()}
	o := kittest.Options(t.TempDir(), kits)
	store, err := blobfs.Open(t.TempDir(), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := kit.OpenData(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	dir := t.TempDir()
	for _, set := range []string{commands.SetOffice, commands.SetSeason} {
		shared, own := filepath.Join(dir, set+"-shared"), filepath.Join(dir, set+"-own")
		for _, c := range []commands.GenerateOptions{{Seed: 7, Out: shared}, {Secret: []byte("0123456789abcdef0123456789abcdef"), Out: own}} {
			c.Set, c.Difficulty, c.Count = set, 2, 2
			if _, err := GenerateTasks(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		half := filepath.Join(dir, set+"-half")
		if err := os.Mkdir(half, 0o755); err != nil {
			t.Fatal(err)
		}
		tasks, err := filepath.Glob(filepath.Join(shared, "*"))
		if err != nil || len(tasks) != 2 {
			t.Fatalf("%v %v", tasks, err)
		}
		shown := filepath.Join(dir, set+"-shown")
		for name, part := range map[string]string{half: tasks[0], shown: tasks[1]} {
			if err := os.CopyFS(filepath.Join(name, filepath.Base(part)), os.DirFS(part)); err != nil {
				t.Fatal(err)
			}
		}
		for name, c := range map[string]struct {
			file kit.ArenaFile
			want string
		}{
			"hidden of one seed":           {kit.ArenaFile{Hidden: []string{shared}}, "made_from_one_seed"},
			"hidden beside a public one":   {kit.ArenaFile{Sets: []string{shown}, Hidden: []string{half}}, "made_from_one_seed"},
			"public of one seed":           {kit.ArenaFile{Sets: []string{shared}}, ""},
			"hidden of seeds of their own": {kit.ArenaFile{Hidden: []string{own}}, ""},
			"one hidden":                   {kit.ArenaFile{Hidden: []string{half}}, ""},
		} {
			c.file.ID, c.file.Kind, c.file.Netuid = "x", "pack", 11
			_, err := kit.ArenaTasks(t.Context(), o, c.file, store, t.TempDir())
			wantCode(t, set+": "+name, err, c.want)
		}
		for path, want := range map[string]string{shared: "made_from_one_seed", own: ""} {
			stock := &kit.Stock{Server: &kit.Server{Options: o, Blobs: store, Data: data}, Kit: kits[0], File: kit.SupplyFile{From: agon.SupplyDirectory, Path: path, Tasks: 1}}
			_, err := stock.Draw(t.Context(), platform.SetRequest{Tasks: 1, Period: 1})
			wantCode(t, set+": the supply "+filepath.Base(path), err, want)
		}
	}
}

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	var e *agon.Error
	if code == "" && err != nil || code != "" && (!errors.As(err, &e) || e.Code != code) {
		t.Errorf("%s: %v, want the code %q", what, err, code)
	}
}
