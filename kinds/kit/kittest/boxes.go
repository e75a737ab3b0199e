package kittest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
)

// opened is the driver of this process: probing takes a second.
var opened struct {
	sync.Mutex
	driver sandbox.Driver
	root   string
}

// Driver is this machine's driver of boxes and their root file system, the same for all
// tests of a process: runc, or what AGON_DRIVER names; benchmarks have the strongest. No box: it fails.
func Driver(t testing.TB) (d sandbox.Driver, root string) {
	t.Helper()
	opened.Lock()
	defer opened.Unlock()
	if opened.driver == nil {
		o := Options(t.TempDir(), nil)
		if _, measured := t.(*testing.B); measured {
			o = Strongest(o)
		}
		var err error
		if opened.driver, opened.root, err = kit.OpenDriver(t.Context(), o); err != nil {
			t.Fatalf("no box, nothing can be played: %v", err)
		}
	}
	return opened.driver, opened.root
}

// Trees are directories by digest, as a validator has them.
type Trees map[agon.Digest]string

// Tree implements validator.Trees.
func (d Trees) Tree(_ context.Context, x agon.Digest) (string, error) {
	dir, ok := d[x]
	if !ok {
		return "", fmt.Errorf("no tree %s", x)
	}
	return dir, nil
}

// Add makes a tree of files, by path, that boxes can read.
func (d Trees) Add(t testing.TB, files map[string]string) agon.Digest {
	t.Helper()
	dir := Dir(t, files)
	x := agon.Sum([]byte(dir))
	d[x] = dir
	return x
}

// Dir makes a directory of files, by path, that boxes can read.
func Dir(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for p := dir; p != os.TempDir() && len(p) > 1; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
