package harbor

import (
	"strings"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

var taskName = lazyregexp.New(`^[a-z0-9][a-z0-9-]{1,61}$`)

// nextSteps stands at the top of the new task's task.toml.
const nextSteps = `# A Harbor task that works: ` + "`agon task check DIR`" + ` proves it. Change it step by step and check again:
#   instruction.md           what the agent is told
#   environment/             the Dockerfile, and what it copies into the agent's box
#   tests/test.sh            judges a snapshot of that box, in a box of its own; writes
#                            /logs/verifier/reward.txt or reward.json
#   solution/solve.sh        the reference solution; the reward for it must be 1
# In an arena file: sets = ["./FOLDER"], where FOLDER holds such tasks (paths are relative to that file).

`

// initTask writes a task that passes its check into dir, which is new or empty;
// its last part is the task's name.
func initTask(dir string) ([]string, error) {
	return task.FromTemplate(files, "tasks/basic/totals", dir, taskName().MatchString, "2 to 62 lower-case letters, digits and dashes", func(file, name string, b []byte) []byte {
		if file == "task.toml" {
			b = []byte(nextSteps + strings.Replace(string(b), `"harbor/totals"`, `"harbor/`+name+`"`, 1))
		}
		return b
	})
}
