package roles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ui/cli"
)

// A hidden task that stands among the public ones by another name is not served.
func TestHiddenTaskAmongPublicOnesIsNotServed(t *testing.T) {
	o := testOptions(t.TempDir())
	k, _ := o.Kits.Of("shopping")
	dir := t.TempDir()
	for from, to := range map[string]string{"product-easy-01": "public/one", "product-easy-02": "public/two", "product-medium-04": "hidden/other"} {
		sub, err := fs.Sub(k.Data, "tasks/demo/"+from)
		if err == nil {
			err = os.CopyFS(filepath.Join(dir, to), sub)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	arena := filepath.Join(dir, "arena.toml")
	if err := os.WriteFile(arena, fmt.Appendf(nil, "id = \"mine\"\nkind = \"shopping\"\nsets = [%q]\nhidden = [%q]\n", filepath.Join(dir, "public"), filepath.Join(dir, "hidden")), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, _, withheld, err := envTasks(o, arena, nil); err != nil || len(list) != 2 || withheld != 1 {
		t.Fatalf("%d tasks, %d withheld: %v", len(list), withheld, err)
	}
	if err := os.CopyFS(filepath.Join(dir, "hidden", "same"), os.DirFS(filepath.Join(dir, "public", "two"))); err != nil {
		t.Fatal(err)
	}
	list, _, _, err := envTasks(o, arena, nil)
	var e *agon.Error
	if !errors.As(err, &e) || e.Code != "duplicate" {
		t.Errorf("%d tasks are served: %v", len(list), err)
	}
}

// An arena's file that calls a hidden set of a demo public does not make it so.
func TestHiddenSetOfADemoIsNotServed(t *testing.T) {
	o := testOptions(t.TempDir())
	for _, k := range o.Kits {
		if k.Demo == nil {
			continue
		}
		for _, name := range k.Demo().Hidden {
			arena := filepath.Join(t.TempDir(), "arena.toml")
			if err := os.WriteFile(arena, fmt.Appendf(nil, "id = \"mine\"\nkind = %q\nsets = [%q]\n", k.Kind, name), 0o600); err != nil {
				t.Fatal(err)
			}
			list, _, _, err := envTasks(o, arena, nil)
			var e *agon.Error
			if !errors.As(err, &e) || e.Code != "hidden_task" {
				t.Errorf("%s: %d tasks are served: %v", name, len(list), err)
			}
		}
	}
}

// A task that measures is not trained on, under no name of its directory.
func TestTasksToMeasureByAreNotTrainedOn(t *testing.T) {
	o := testOptions(t.TempDir())
	k, _ := o.Kits.Of("shopping")
	dir := t.TempDir()
	for to, from := range map[string]string{"all/one": "product-easy-01", "all/two": "product-easy-02", "eval/copy": "product-easy-02"} {
		sub, err := fs.Sub(k.Data, "tasks/demo/"+from)
		if err == nil {
			err = os.CopyFS(filepath.Join(dir, to), sub)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	train, held, err := distillTasks(o, cli.DistillOptions{TaskDirs: []string{filepath.Join(dir, "all")}, Eval: []string{filepath.Join(dir, "eval")}})
	if err != nil || len(train) != 1 || train[0].Key != "all/one" || len(held) != 1 {
		t.Errorf("%d to train on, %d to measure by: %v", len(train), len(held), err)
	}
}
