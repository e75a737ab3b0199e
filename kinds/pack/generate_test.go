package pack

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon"
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
