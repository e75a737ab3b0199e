package coding

import (
	"strings"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/coding/data"
)

// taskTemplate is the shipped task that a new one begins as: small, and sound.
const taskTemplate = "tasks/small/ring-buffer"

var taskName = lazyregexp.New(`^[a-z0-9][a-z0-9-]{1,61}$`)

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
	return task.FromTemplate(data.FS, taskTemplate, dir, taskName().MatchString, "2 to 62 lower-case letters, digits and dashes", func(file, name string, b []byte) []byte {
		if file == "task.toml" {
			b = []byte(nextSteps + strings.Replace(string(b), `"agon/ring-buffer"`, `"agon/`+name+`"`, 1))
		}
		return b
	})
}
