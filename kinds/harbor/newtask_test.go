package harbor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/kit"
)

// A new task is one of the kind under its own name, its scripts may be executed,
// and nothing that is there is written over.
func TestNewTask(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := initTask("./my-task"); err != nil {
		t.Fatal(err)
	}
	list, err := kit.List{Kit()}.TasksIn([]string{"./my-task"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || filepath.Base(list[0].Key) != "my-task" || list[0].Config.Task.Name != "harbor/my-task" || list[0].Config.Agon.Kind != name {
		t.Errorf("%+v", list[0])
	}
	if info, err := os.Stat("my-task/tests/test.sh"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("test.sh: %v, %v", info, err)
	}
	for dir, want := range map[string]string{"my-task": "is not empty", "My Task": "is not a name"} {
		if _, err := initTask(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
