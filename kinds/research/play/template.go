package play

import (
	"embed"
	"fmt"
	"strings"

	"github.com/agon-arena/agon/engine/task"
)

//go:embed all:template
var templateFS embed.FS

// Init writes a task that works into dir, which must not exist or be empty:
// something to change step by step, with Preflight after each. The last
// element of dir is the task's slug. It returns the files' names.
func Init(dir string) ([]string, error) {
	good := func(slug string) bool {
		return slugForm().MatchString(slug) && len(slug) >= MinSlug && len(slug) <= MaxSlug
	}
	return task.FromTemplate(templateFS, "template", dir, good, fmt.Sprintf("%d to %d lower-case letters, digits and dashes", MinSlug, MaxSlug), func(_, slug string, b []byte) []byte {
		return []byte(strings.ReplaceAll(string(b), "SLUG", slug))
	})
}
