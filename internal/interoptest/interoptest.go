// Package interoptest finds the strangers' clients that scripts/interop.sh
// installed for the tests that run them.
package interoptest

import (
	"os"
	"path/filepath"
	"testing"
)

// Dir is the folder of the installed environments (AGON_INTEROP). Without it the
// test fails: it was not started by scripts/interop.sh.
func Dir(t testing.TB) string {
	t.Helper()
	root := os.Getenv("AGON_INTEROP")
	if root == "" {
		t.Fatal("AGON_INTEROP is not set: run scripts/interop.sh")
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// Python is the interpreter of an environment.
func Python(t testing.TB, env string) string {
	t.Helper()
	return File(t, env, "bin", "python")
}

// File is a file below Dir that an installed package brought.
func File(t testing.TB, path ...string) string {
	t.Helper()
	p := filepath.Join(append([]string{Dir(t)}, path...)...)
	if _, err := os.Stat(p); err != nil {
		Absent(t, filepath.Join(path...))
	}
	return p
}

// Absent ends a test whose part could not be installed: it fails, or says aloud
// that it did not run where INTEROP_PARTIAL=1 allows that.
func Absent(t testing.TB, part string) {
	t.Helper()
	if os.Getenv("INTEROP_PARTIAL") == "1" {
		t.Skipf("NOT RUN: %s is not installed", part)
	}
	t.Fatalf("%s is not installed; INTEROP_PARTIAL=1 runs what can be", part)
}

// Checkout is a repository of others below AGON_STRANGERS, where file must be; at says
// where it comes from. Without AGON_STRANGERS the test says aloud that it did not run.
func Checkout(t testing.TB, name, file, at string) string {
	t.Helper()
	dir := os.Getenv("AGON_STRANGERS")
	if dir == "" {
		t.Skipf("NOT RUN: AGON_STRANGERS names no folder with checkouts of others' repositories (%s)", name)
	}
	repo, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(repo, file)); err != nil {
		Absent(t, "AGON_STRANGERS/"+name+" ("+at+")")
	}
	return repo
}
