package cli

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) taskCanaryCmd(t Tasks) *cobra.Command {
	o := TaskCanaryOptions{}
	cmd := &cobra.Command{
		Use:   "canary TASK DIR",
		Short: "Make a task that names who knows answers by heart",
		Long: `Make a canary of a task: its statement word for word, while the names in its tree,
hidden tests and solution are others. TASK is a directory or a shipped task's name;
DIR must not be there. Who reads the tree can solve it as well as the task itself. Who
looks up the statement in a table of answers gives the other task's, with names that
nothing here shows: such a submission is worth 0, and its lines are shown.

Prove it with agon task check, then put it into a hidden set. The statement must stay as
it is, and the directory and --seed secret: whoever has them knows the new names. A
name may mean something to a library as well; the check then fails, and another task is
the way out.
JSON: {task, dir, names: {old: new}}. Exit code 7 if the task has too few names of its own.`,
		Example: "  agon task canary small/lru-cache ./canaries/lru-cache\n  agon task canary ./my-task ./canaries/my-task --seed 'keep me'",
		Args:    Args(2, 2, "a task and a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.Canary == nil {
				return Missing("tasks")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common, o.Task, o.Dir = common, args[0], args[1]
			if o.Seed == "" {
				o.Seed = rand.Text()
			}
			made, err := t.Canary(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: made, Human: func(h *output.Human) {
				h.Line("%s", fmt.Sprintf("made %s of %s", made.Dir, made.Task))
				rows := make([][]output.Cell, 0, len(made.Names))
				for _, old := range slices.Sorted(maps.Keys(made.Names)) {
					rows = append(rows, []output.Cell{output.Text(old), output.Text(made.Names[old])})
				}
				h.Table([]output.Column{{Title: "name"}, {Title: "becomes"}}, rows)
			}})
		},
	}
	cmd.Flags().StringVar(&o.Seed, "seed", "", "a secret `word`: the same one makes the same task (default: a random one)")
	return cmd
}
