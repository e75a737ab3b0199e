package coding

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/agon-arena/agon/kinds/coding/data"
)

// taskTemplate is the shipped task that a new one begins as: small, and sound.
const taskTemplate = "tasks/small/ring-buffer"

var taskName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,61}$`)

// nextSteps stands at the top of the new task's task.toml.
const nextSteps = `# A task that works: ` + "`agon task check DIR`" + ` proves it. Change it step by step and check again:
#   instruction.md            what the agent is told
#   environment/repo/         the repository with the bug, and the tests that may be seen
#   tests/hidden/             the tests that judge, laid over the repository
#   solution/fix.patch        the repair; it must turn fail_to_pass green
#   fail_to_pass, pass_to_pass below: tests that the bug breaks, and tests that must stay green
# In an arena file: sets = ["./FOLDER"], where FOLDER holds such tasks (paths are relative to that file).

`

// initTask writes a task that passes its check into dir, which is new or empty;
// its last part is the task's name.
func initTask(dir string) ([]string, error) {
	name := filepath.Base(filepath.Clean(dir))
	if !taskName.MatchString(name) {
		return nil, fmt.Errorf("init task: %q is not a name: want 2 to 62 lower-case letters, digits and dashes", name)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("init task: %w", err)
	}
	if have, err := os.ReadDir(dir); err != nil || len(have) > 0 {
		return nil, fmt.Errorf("init task: %w", errors.Join(err, fmt.Errorf("%s is not empty", dir)))
	}
	var out []string
	err := fs.WalkDir(data.FS, taskTemplate, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := data.FS.ReadFile(p)
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(p, taskTemplate+"/")
		mode := os.FileMode(0o644)
		switch {
		case rel == "task.toml":
			b = []byte(nextSteps + strings.Replace(string(b), `"agon/ring-buffer"`, `"agon/`+name+`"`, 1))
		case path.Ext(rel) == ".sh":
			mode = 0o755
		}
		to := filepath.Join(dir, filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		out = append(out, rel)
		return os.WriteFile(to, b, mode)
	})
	if err != nil {
		return nil, fmt.Errorf("init task: %w", err)
	}
	return out, nil
}
