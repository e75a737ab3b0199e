package play

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon/engine/copycat"
	"github.com/agon-arena/agon/kinds/research/data"
)

// A copy of another's patch with a bit shaved off is known by the patch, however long
// the text of its claim is; another method by another patch is not.
func TestCopyWithALongClaim(t *testing.T) {
	patch := func(task, name string) string {
		t.Helper()
		list, err := data.Samples(task)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(s data.Sample) bool { return s.Name == name })
		return string(list[i].Patch)
	}
	var junk strings.Builder
	for i := range 900 {
		fmt.Fprintf(&junk, "w%d ", i*7919)
	}
	like := func(a, b string) (copycat.Match, bool) {
		t.Helper()
		x := copycat.NewIndex()
		for _, e := range []struct{ id, patch, claim string }{{"first", a, "a good idea"}, {"", b, junk.String()}} {
			s, err := copycat.SketchOf((&Kind{}).Work(fstest.MapFS{
				PatchFile: {Data: []byte(e.patch)}, ClaimFile: {Data: fmt.Appendf(nil, `{"summary": %q}`, e.claim)},
			}))
			if err != nil {
				t.Fatal(err)
			}
			if e.id == "" {
				return x.Nearest(s)
			}
			x.Add(e.id, s)
		}
		return copycat.Match{}, false
	}
	for _, of := range [][2]string{{"compress", "word-codes"}, {"golomb", "ruzsa"}, {"matmul", "strassen-twice"}} {
		p := patch(of[0], of[1])
		if m, ok := like(p, strings.Replace(p, "0", "1", 2)); !ok || m.Similarity < 0.9 {
			t.Errorf("%s: a shaved copy is not known: %+v", of[1], m)
		}
	}
	if m, ok := like(patch("golomb", "ruzsa"), patch("golomb", "greedy")); ok {
		t.Errorf("another method is a copy: %+v", m)
	}
	artifacts := fstest.MapFS{PatchFile: {}, ClaimFile: {Data: []byte(`{"summary": "an artifact"}`)}}
	if s, err := copycat.SketchOf((&Kind{}).Work(artifacts)); err != nil || len(s.Prints) == 0 {
		t.Errorf("an entry without a patch has no sketch: %+v %v", s, err)
	}
}
