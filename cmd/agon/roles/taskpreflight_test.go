package roles

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/task/leak"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/ui/cli"
)

// A task of any kind is tried: with its reference or a sample, five seeds, and a
// search for what it hides. A copy of a public task hides nothing.
func TestPreflightOfEveryKind(t *testing.T) {
	kits := kinds.All()
	o := kittest.Options(t.TempDir(), kits)
	list, err := o.ShippedSet("claim", "demo")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copied")
	for _, x := range list {
		if strings.HasSuffix(x.Key, "/library-fines") {
			writeChanged(t, x, copied)
		}
	}
	got, err := preflightTasks(t.Context(), o, []string{copied, "../../../kinds/harbor/tasks/basic/hello"})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range got {
		distinct := slices.Compact(slices.Sorted(slices.Values(r.Seeds)))
		if len(distinct) != 5 || len(r.BySeed) != 5 || r.Noise.Absolute != 0 {
			t.Errorf("%s: seeds %v, %v, noise %v", r.Task, r.Seeds, r.BySeed, r.Noise)
		}
		seeds := slices.IndexFunc(r.Checks, func(c cli.Check) bool { return c.Name == "seeds" })
		if seeds < 0 || r.Checks[seeds].Status != "ok" {
			t.Errorf("%s: %+v", r.Task, r.Checks)
		}
		if leaky := i == 0; r.OK == leaky || (len(r.Leaks) > 0) != leaky {
			t.Errorf("%s: ok %v, leaks %+v", r.Task, r.OK, r.Leaks)
		}
	}
	if len(got) != 2 || !slices.ContainsFunc(got[0].Leaks, func(l leak.Leak) bool {
		return l.Where == "public/sets/demo/library-fines/tests/reference.json" && l.What == "tests/reference.json"
	}) {
		t.Errorf("the copy: %+v", got)
	}
	if got[1].Value != 1 {
		t.Errorf("the reference solution scores %v", got[1].Value)
	}
}

// writeChanged writes a task with one more word in its instruction.
func writeChanged(t *testing.T, x *task.Task, dir string) {
	t.Helper()
	if err := task.Materialise(x, dir); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "instruction.md"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\nchanged\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// A directory without a task is refused, and the error says why.
func TestCheckOfNoTask(t *testing.T) {
	o := kittest.Options(t.TempDir(), kinds.All())
	for _, dir := range []string{t.TempDir(), kittest.Dir(t, map[string]string{"task.toml": "[agent\n"}), filepath.Join(t.TempDir(), "none")} {
		if _, err := CheckTasks(t.Context(), o, []string{dir}, false); err == nil || strings.Contains(err.Error(), "sandbox") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
