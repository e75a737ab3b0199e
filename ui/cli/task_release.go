package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) taskReleaseCmd(t Tasks) *cobra.Command {
	o := TaskReleaseOptions{}
	cmd := &cobra.Command{
		Use:   "from-release NAME OLD NEW",
		Short: "Make tasks of two releases of a package: the later one's changes are the solution",
		Long: `Make a task of two releases of a package. The tree is the earlier one, the solution
is what changed in its sources, the hidden tests are those of the later one, and
both lists of tests are found by running them: what fails before and passes after,
and what passes in both. Tests that come out differently when they are repeated
are quarantined. What is written holds names, versions, digests and lists, none of
the package's text: agon task fetch makes the task of it.

With --range, a task of each two releases that follow each other from OLD to NEW.
JSON: an array of {task, dir, package, old, new, licence, published, files,
fail_to_pass, pass_to_pass, quarantined, ok, reason}. Exit code 3 if some releases
make no task, 7 if none does.`,
		Example: "  agon task from-release polib 1.1.0 1.1.1\n  agon task from-release github.com/google/uuid v1.5.0 v1.6.0 --index go --out ./my-tasks",
		Args:    Args(3, 3, "a package and two of its versions"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.FromRelease == nil {
				return Missing("tasks")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			o.Common, o.Package, o.Old, o.New = common, args[0], args[1], args[2]
			made, err := t.FromRelease(cmd.Context(), o)
			done()
			if err != nil {
				return err
			}
			good := 0
			for _, m := range made {
				if m.OK {
					good++
				}
			}
			if err := a.Printer.Print(cmd.Context(), output.List(made, func(m TaskMade) string { return m.Task }, func(h *output.Human) {
				rows := make([][]output.Cell, len(made))
				for i, m := range made {
					state := output.Styled(iostreams.Green, "made")
					if !m.OK {
						state = output.Styled(iostreams.Red, "no task")
					}
					rows[i] = []output.Cell{
						output.Text(m.Task), state, output.Text(m.Licence), output.Text(m.Published), output.Text(fmt.Sprint(m.Files)),
						output.Text(fmt.Sprintf("%d/%d", m.FailToPass, m.PassToPass)), output.Text(fmt.Sprint(len(m.Quarantined))), output.Text(m.Reason),
					}
				}
				h.Table([]output.Column{{Title: "task", Min: 12}, {Title: "state"}, {Title: "licence"}, {Title: "published"}, {Title: "files", Right: true}, {Title: "tests", Right: true}, {Title: "flaky", Right: true}, {Title: "reason", Min: 10}}, rows)
			})); err != nil {
				return err
			}
			switch {
			case good == 0:
				return &Exit{Code: CodeRefused}
			case good < len(made):
				return &Exit{Code: CodePartly}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Index, "index", "pypi", "the package `index`: pypi, go or npm")
	f.BoolVar(&o.Range, "range", false, "a task of each two releases that follow each other")
	f.StringVar(&o.Runner, "runner", "", "the `runner` of the tests (default: the index's usual one)")
	f.StringVar(&o.Out, "out", ".", "the `directory` in which the tasks' directories are made")
	f.IntVar(&o.Repeats, "repeats", 3, "how often each test is run with the solution, to find flaky ones")
	DriverFlag(cmd, &o.Driver)
	return cmd
}
