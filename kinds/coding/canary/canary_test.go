package canary

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/coding/data"
)

// Of most of the small tasks a canary can be made: its statement is the same byte for
// byte, the other task's answer is known in it, and its own is not.
func TestMake(t *testing.T) {
	set, err := fs.Sub(data.FS, "tasks/small")
	if err != nil {
		t.Fatal(err)
	}
	list, err := task.LoadSet(set, "small")
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, x := range list {
		dir := filepath.Join(t.TempDir(), filepath.Base(x.Key))
		to, err := Make(x, dir, "seed")
		if errors.Is(err, ErrNone) {
			t.Logf("%s: %v", x.Key, err)
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		made++
		c, err := task.LoadDir(dir, x.Key)
		if err != nil {
			t.Fatal(err)
		}
		if c.Instruction != x.Instruction || Check(c) != nil {
			t.Errorf("%s: %v", x.Key, Check(c))
		}
		old, err := x.SolutionPatch()
		if err != nil {
			t.Fatal(err)
		}
		own, err := c.SolutionPatch()
		if err != nil {
			t.Fatal(err)
		}
		known, err := Known(c, old)
		if err != nil || len(known) < MinLines {
			t.Errorf("%s: the other's answer: %q %v", x.Key, known, err)
		}
		if known, err := Known(c, own); err != nil || known != nil {
			t.Errorf("%s: its own answer: %q %v", x.Key, known, err)
		}
		t.Logf("%s: %v; %d lines give a table away", x.Key, to, len(known))
	}
	if made < len(list)/2 {
		t.Errorf("canaries of %d of %d tasks", made, len(list))
	}
}

// A list with a line that an honest answer could hold is refused.
func TestCheck(t *testing.T) {
	set, err := fs.Sub(data.FS, "tasks/small/lru-cache")
	if err != nil {
		t.Fatal(err)
	}
	x, err := task.Load(set, "small/lru-cache")
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string]string{"one line": "korbel = vantu\n", "shown": "korbel = vantu\nreturn self.capacity\n", "in the statement": "korbel = vantu\ncache = LRUCache(capacity=2)\n"} {
		dir := filepath.Join(t.TempDir(), "lru-cache")
		if _, err := Make(x, dir, "seed"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "tests", "canary.txt"), []byte(list), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := task.LoadDir(dir, "small/lru-cache")
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(c); err == nil || !strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
