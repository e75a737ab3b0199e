package coding

import (
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon/kinds/kit"
)

// A new task is a sound one of the kind, under its own name, from wherever it is named.
func TestNewTask(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := initTask("./my-task"); err != nil {
		t.Fatal(err)
	}
	list, err := kit.List{Kit()}.TasksIn([]string{"./my-task"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || filepath.Base(list[0].Key) != "my-task" || list[0].Config.Task.Name != "agon/my-task" || list[0].Config.Agon.Kind != "coding" {
		t.Errorf("%+v", list[0])
	}
	t.Chdir("my-task")
	if _, err := (kit.List{Kit()}).TasksIn([]string{"."}); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{".", "../my-task", "../My Task"} { // not empty, not empty, no name
		if _, err := initTask(dir); err == nil {
			t.Errorf("%s was written", dir)
		}
	}
}
