package roles

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
)

// Every kind says what its shipped tasks share, the same from blobs as from the shipped sets.
func TestLeakKeys(t *testing.T) {
	o := kit.Options{Kits: kinds.All(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Cache: t.TempDir()}
	store, err := blobfs.Open(t.TempDir(), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	near, far := leakKeys(t.Context(), o, o.Kinds(""), store), CorpusKeys(o)
	for kind, want := range map[string]string{"coding": "solution/", "claim": "factoid sha256:", "research": "repo ", "shopping": "reward sha256:", "pack": "scenario "} {
		k, _ := kinds.All().Of(kind)
		n, seen := 0, map[string]int{}
		for _, set := range k.Sets {
			list, _, err := kit.LoadSet(o, kind, set)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range list[:min(len(list), 8)] {
				ref, err := kit.PutTask(t.Context(), store, x, t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				keys := near(kind, ref)
				if !slices.ContainsFunc(keys, func(s string) bool { return strings.HasPrefix(s, want) }) {
					t.Errorf("%s: keys %q, want one of %s", x.Key, keys, want)
				}
				if got := far(kind, ref); !slices.Equal(got, keys) {
					t.Errorf("%s: %q from the shipped set, %q from blobs", x.Key, got, keys)
				}
				for _, s := range keys {
					seen[s]++
				}
				n++
			}
		}
		if n == 0 {
			t.Errorf("%s: no task", kind)
		}
	}
	if got := far("coding", agon.TaskRef{Key: "small/none", Digest: agon.Sum(nil)}); got != nil {
		t.Errorf("a task from elsewhere: %q", got)
	}
}
