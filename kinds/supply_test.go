package kinds_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

// The shipped tasks of each kind serve as the stock of an arena: two sets share
// nothing, the same seed gives the same set, another one another.
func TestStockOfEveryKind(t *testing.T) {
	o := kittest.Options(t.TempDir(), kinds.All())
	blobs, err := blobfs.Open(filepath.Join(t.TempDir(), "blobs"), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := kit.OpenData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	s := &kit.Server{Options: o, Blobs: blobs, Data: data}
	for kind, sets := range map[string][]string{"coding": {"small"}, "claim": {"demo"}, "pack": {"office"}, "research": {"sortnet", "kernel"}, "harbor": {"basic"}, "shopping": {"demo"}} {
		dir := filepath.Join(t.TempDir(), "stock")
		n := 0
		for _, set := range sets {
			list, _, err := kit.LoadSet(o, kind, set)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range list {
				if err := task.Materialise(x, filepath.Join(dir, filepath.Base(x.Key))); err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
		each := min(n/2, 3)
		if each < 1 {
			t.Fatalf("%s: %d tasks", kind, n)
		}
		k, _ := o.Kits.Of(kind)
		x := &kit.Stock{Server: s, Kit: k, File: kit.SupplyFile{From: agon.SupplyDirectory, Path: dir, Tasks: each}}
		draw := func(seed int64, shown map[agon.Digest]bool) []agon.TaskRef {
			t.Helper()
			got, err := x.Draw(t.Context(), platform.SetRequest{Tasks: each, Seed: seed, Shown: shown})
			if err != nil || len(got) != each {
				t.Fatalf("%s: %v %v", kind, got, err)
			}
			return got
		}
		one := draw(1, nil)
		shown := map[agon.Digest]bool{}
		for i, r := range draw(1, nil) {
			if !reflect.DeepEqual(r, one[i]) {
				t.Errorf("%s: one seed gives %v and %v", kind, r, one[i])
			}
			shown[r.Digest] = true
		}
		for _, r := range draw(1, shown) {
			if shown[r.Digest] {
				t.Errorf("%s: %s comes again", kind, r.Key)
			}
		}
		differs := false
		for seed := int64(2); seed < 40 && !differs; seed++ {
			differs = fmt.Sprint(draw(seed, nil)) != fmt.Sprint(one)
		}
		if !differs {
			t.Errorf("%s: every seed gives the same set", kind)
		}
		_, err := x.Draw(t.Context(), platform.SetRequest{Tasks: n + 1, Period: 4})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d tasks left for period 4", n)) {
			t.Errorf("%s: too few: %v", kind, err)
		}
		first := filepath.Join(dir, filepath.Base(one[0].Key))
		if err := os.CopyFS(filepath.Join(dir, "again"), os.DirFS(first)); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Draw(t.Context(), platform.SetRequest{Tasks: 1}); err == nil || !strings.Contains(err.Error(), "have the same content") {
			t.Errorf("%s: one task twice: %v", kind, err)
		}
	}
}
