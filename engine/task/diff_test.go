package task

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnifiedDiff(t *testing.T) {
	numbers := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}
	rows := []struct {
		name          string
		before, after string // "-" means absent
	}{
		{"one line", "a\nb\nc\n", "a\nB\nc\n"},
		{"two hunks", numbers(40), strings.NewReplacer("line 3\n", "three\n", "line 30\n", "").Replace(numbers(40))},
		{"hunks that touch", numbers(20), strings.NewReplacer("line 3\n", "x\n", "line 10\n", "y\n").Replace(numbers(20))},
		{"head and tail", numbers(9), "new\n" + numbers(9) + "end\n"},
		{"new file", "-", "a\nb\n"},
		{"new empty file", "-", ""},
		{"deleted", "a\nb\n", "-"},
		{"deleted script", "#!/bin/sh\n", "-"},
		{"emptied", "a\n", ""},
		{"filled", "", "a\n"},
		{"newline lost", "a\nb\n", "a\nb"},
		{"newline won", "a\nb", "a\nb\n"},
		{"no newline in both", "a\nb", "c\nb"},
		{"carriage returns", "a\r\nb\r\n", "a\r\nc\r\n"},
		{"nothing in common", numbers(2500), strings.ReplaceAll(numbers(2500), "line", "row")},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			c := change{path: "dir/f.py"}
			if r.before != "-" {
				c.before = []byte(r.before)
			}
			if r.after != "-" {
				c.after = []byte(r.after)
			}
			patch, err := unifiedDiff([]change{c})
			if err != nil {
				t.Fatal(err)
			}
			if got := gitApply(t, c, patch); !bytes.Equal(got, c.after) || (got == nil) != (c.after == nil) {
				t.Errorf("patch gives %.200q, want %.200q\n%.500s", got, c.after, patch)
			}
		})
	}
	if _, err := unifiedDiff([]change{{path: "f", before: []byte("a"), after: []byte("a")}}); err == nil {
		t.Error("a patch that changes nothing was written")
	}
	if _, err := unifiedDiff([]change{{path: "f", before: []byte("a\x00"), after: []byte("a")}}); err == nil {
		t.Error("a binary file was written as text")
	}
}

// gitApply lets git apply patch to c.before; nil means that the file is gone.
func gitApply(t *testing.T, c change, patch []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, filepath.FromSlash(c.path))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if c.before != nil {
		mode := os.FileMode(0o644)
		if gitMode(c.before) == "100755" {
			mode = 0o755
		}
		if err := os.WriteFile(name, c.before, mode); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(patch)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v: %s\n%.500s", err, out, patch)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return b
}

// TestLineEditsRandom: both sides can be read back from the edits, and no edit
// is longer than replacing everything.
func TestLineEditsRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() (lines []string) {
		for range r.IntN(30) {
			lines = append(lines, string(rune('a'+r.IntN(4)))+"\n")
		}
		return lines
	}
	for range 3000 {
		before, after := text(), text()
		var a, b []string
		changed := 0
		for _, e := range lineEdits(before, after) {
			if e.op != '+' {
				a = append(a, e.text)
			}
			if e.op != '-' {
				b = append(b, e.text)
			}
			if e.op != ' ' {
				changed++
			}
		}
		if strings.Join(a, "") != strings.Join(before, "") || strings.Join(b, "") != strings.Join(after, "") {
			t.Fatalf("edits of %q and %q give %q and %q", before, after, a, b)
		}
		if want := len(before) + len(after) - 2*common(before, after); changed != want {
			t.Fatalf("%d changes between %q and %q, a shortest edit has %d", changed, before, after, want)
		}
	}
}

// common is the length of a longest common subsequence, the slow and plain way.
func common(a, b []string) int {
	row := make([]int, len(b)+1)
	for i := range a {
		diagonal := 0
		for j := range b {
			up := row[j+1]
			if a[i] == b[j] {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			diagonal = up
		}
	}
	return row[len(b)]
}
