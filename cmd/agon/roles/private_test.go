package roles

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/ledger/local"
)

// checkPrivate walks a data directory: only its owner reads what is in it.
// Trees that boxes mount keep the modes that their programs need; the directory
// above them is shut.
func checkPrivate(t *testing.T, dir string) {
	t.Helper()
	seen := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() && rel == "corpus" { // made of what everybody may read, to be handed on
			return fs.SkipDir
		}
		if info.Mode().Perm()&0o077 != 0 && info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s has mode %v", rel, info.Mode())
		}
		for _, suffix := range []string{".db", ".db-wal", ".db-shm", ".db-commits", ".key"} {
			if strings.HasSuffix(path, suffix) {
				seen[suffix] = true
			}
		}
		if d.IsDir() && d.Name() == "trees" {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !seen[".db"] || !seen[".key"] || !seen[".db-commits"] {
		t.Errorf("the walk saw no database or no key: %v", seen)
	}
}

// A data directory that others could read before is shut at the next start,
// databases with their logs too, while the server runs.
func TestStateIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	o := testOptions(dir)
	o.Arenas, o.Registration = []string{smallArena(t, "small/interval-merge")}, local.RegistrationOpen
	for range 2 {
		s, err := openArenas(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		checkPrivate(t, dir)
		s.close()
		checkPrivate(t, dir)
		for name, mode := range map[string]fs.FileMode{"": 0o755, "agon.db": 0o644, "ledger.db": 0o644} {
			if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
}
