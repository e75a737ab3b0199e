package law

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// maxLines is how long a file of code may be: beyond it nobody reads it in one
// sitting.
const maxLines = 600

// longFiles are those that were longer when the rule came, with the most lines
// that each may have. A number here only ever falls; who splits a file takes
// its line away.
var longFiles = map[string]int{
	"ui/api/hostile_test.go": 652,
}

// TestFilesAreShort reads every file of Go, Python and shell that git knows.
func TestFilesAreShort(t *testing.T) {
	seen := 0
	for name, b := range tracked(t, "*.go", "*.py", "*.sh") {
		seen++
		lines := bytes.Count(b, []byte{'\n'})
		most, old := longFiles[name]
		switch {
		case old && lines <= maxLines:
			t.Errorf("%s has %d lines now: take it out of longFiles", name, lines)
		case old && lines > most:
			t.Errorf("%s has %d lines, longFiles allows %d: split it at a seam", name, lines, most)
		case !old && lines > maxLines:
			t.Errorf("%s has %d lines, want at most %d: split it at a seam", name, lines, maxLines)
		}
	}
	if seen < 500 {
		t.Errorf("only %d files were read", seen)
	}
	for name := range longFiles {
		if _, err := os.Stat(filepath.Join(repo, name)); err != nil {
			t.Errorf("longFiles names %s, which is not there", name)
		}
	}
}
