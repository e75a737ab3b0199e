// Package clitest is for tests of commands: golden files, and words of their
// scripts.
package clitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Indent lays out each line that is a document.
func Indent(s string) string {
	var b strings.Builder
	for l := range strings.Lines(s) {
		var buf bytes.Buffer
		if json.Indent(&buf, []byte(strings.TrimSuffix(l, "\n")), "", " ") == nil {
			l = buf.String() + "\n"
		}
		b.WriteString(l)
	}
	return b.String()
}

// Golden compares got with the file path; UPDATE_GOLDEN=1 writes it anew.
func Golden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (UPDATE_GOLDEN=1 writes it anew); now:\n%s", path, got)
	}
}

// Exits runs `agon ARGS` and demands an exit code: exits CODE [-in FILE] ARGS.
func Exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	want := args[0]
	err := ts.Exec("agon", args[1:]...)
	got := "0"
	if err != nil {
		var x interface{ ExitCode() int }
		if !errors.As(err, &x) {
			ts.Fatalf("agon: %v", err)
		}
		got = fmt.Sprint(x.ExitCode())
	}
	if got != want {
		ts.Fatalf("agon %s: exit code %s, want %s", strings.Join(args[1:], " "), got, want)
	}
}
