package roles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/kit"
)

// The last tries are kept, the oldest goes first, and numbers are never used again.
func TestNewTry(t *testing.T) {
	o := kit.Options{Data: t.TempDir()}
	for range keepTries + 3 {
		if _, err := newTry(o); err != nil {
			t.Fatal(err)
		}
	}
	list, err := tries(filepath.Join(o.Data, "try"))
	if err != nil || len(list) != keepTries || list[0] != 4 || list[keepTries-1] != keepTries+3 {
		t.Errorf("%v, %v", list, err)
	}
	if err := os.WriteFile(filepath.Join(o.Data, "try", "note"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newTry(o); err != nil {
		t.Errorf("a file beside the tries: %v", err)
	}
}

func TestEndOf(t *testing.T) {
	if got := endOf(strings.Repeat("x\n", 100) + "last\n"); strings.Count(got, "\n") != lastLines-1 || !strings.HasSuffix(got, "last") {
		t.Errorf("%q", got)
	}
	if got := endOf(strings.Repeat("y", 10_000)); len(got) != 4096 {
		t.Errorf("%d bytes", len(got))
	}
}
