package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) taskCmd(t Tasks) *cobra.Command {
	return a.noun(&cobra.Command{
		Use:     "task",
		Short:   "Tasks: list, fetch and check the problems that agents are given",
		Example: "  agon task\n  agon task check ./my-task",
	}, a.taskListCmd(t), a.taskCheckCmd(t), a.taskFetchCmd(t), a.taskInitCmd(t), a.taskReleaseCmd(t), a.taskCanaryCmd(t), a.taskPreflightCmd(t))
}

func (a *App) taskListCmd(t Tasks) *cobra.Command {
	var set string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the shipped tasks",
		Long:    "List the shipped tasks. JSON: an array of {task, kind, difficulty, visible, available, title}.",
		Example: "  agon task list\n  agon task list --set released",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.List == nil {
				return Missing("tasks")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			tasks, err := t.List(cmd.Context(), TaskListOptions{common, set})
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.List(tasks, func(t TaskInfo) string { return t.Task }, func(h *output.Human) {
				rows := make([][]output.Cell, len(tasks))
				for i, t := range tasks {
					state := "here"
					if !t.Available {
						state = "not fetched"
					}
					rows[i] = []output.Cell{output.Text(t.Task), output.Text(t.Kind), output.Text(t.Difficulty), output.Text(Yes(t.Visible)), output.Text(state), output.Text(t.Title)}
				}
				h.Table([]output.Column{{Title: "task", Min: 12}, {Title: "kind"}, {Title: "difficulty"}, {Title: "visible"}, {Title: "files"}, {Title: "title", Min: 10}}, rows)
			}))
		},
	}
	cmd.Flags().StringVar(&set, "set", "", "only of this `set`")
	return cmd
}

func Yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (a *App) taskCheckCmd(t Tasks) *cobra.Command {
	var driver string
	var paid bool
	cmd := &cobra.Command{
		Use:   "check DIR...",
		Short: "Prove that tasks are sound: the reference solves them, doing nothing does not",
		Long: `Prove that tasks are sound. DIR is a task's directory, a directory of them, or an
archive (.tar, .tar.gz, .zip). The reference solution must solve a task and an agent
that does nothing must not, twice each; a task that drifts is refused.

Graders play twins of the tests that decide: the same test with a falsified
expectation, which no fix passes. A test with fewer than two is forgeable: code
that takes over the test's process could pass it. With --paid such a task is
refused; without, it is only shown.
What the kind warns of is shown below: of Harbor's tasks, what harbor lint would say.
JSON: {task, ok, oracle, nop, oracles, nops, forgeable, twins, tests: [{id, twins, forgeable}],
ms, reason, lint: [{code, field, message}]}, where oracle is the least score of the
repeats and nop the greatest; an array of them where DIR is not one task. Exit code 7
if one is refused.`,
		Example: "  agon task check ./my-task\n  agon task check --paid ./my-tasks",
		Args:    Args(1, -1, "at least one task directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.Check == nil {
				return Missing("tasks")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			reports, err := t.Check(cmd.Context(), TaskCheckOptions{common, args, driver, paid})
			done()
			if err != nil {
				return err
			}
			bad := false
			res := output.List(reports, func(r TaskReport) string { return r.Task }, func(h *output.Human) {
				rows := make([][]output.Cell, len(reports))
				for i, r := range reports {
					rows[i] = []output.Cell{output.Text(r.Task), verdict(r.OK), output.Text(floats(r.Oracles)), output.Text(floats(r.Nops)), output.Text(twins(r)), output.Text(fmt.Sprintf("%d ms", r.MS)), output.Text(r.Reason)}
				}
				h.Table([]output.Column{{Title: "task", Min: 12}, {Title: "verdict"}, {Title: "oracle"}, {Title: "nop"}, {Title: "twins"}, {Title: "time", Right: true}, {Title: "reason", Min: 10}}, rows)
				for _, r := range reports {
					for _, f := range r.Lint {
						h.Line("%s: %s: %s (%s)", r.Task, f.Field, f.Message, f.Code)
					}
				}
			})
			if oneTask(args) && len(reports) == 1 {
				res.Value = reports[0]
			}
			if err := a.Printer.Print(cmd.Context(), res); err != nil {
				return err
			}
			for _, r := range reports {
				bad = bad || !r.OK
			}
			if bad {
				return &Exit{Code: CodeRefused}
			}
			return nil
		},
	}
	DriverFlag(cmd, &driver)
	cmd.Flags().BoolVar(&paid, "paid", false, "refuse a task whose grade can be forged, as a set that pays must")
	return cmd
}

// oneTask says that args name a single task and no directory of them.
func oneTask(args []string) bool {
	if len(args) != 1 {
		return false
	}
	if info, err := os.Stat(args[0]); err == nil && !info.IsDir() {
		return true // an archive
	}
	_, err := os.Stat(filepath.Join(args[0], "task.toml"))
	return err == nil
}

// twins says how many twins the tests of a task have, and how many have too few.
func twins(r TaskReport) string {
	if r.Tests == nil {
		return "-"
	}
	n := 0
	for _, t := range r.Tests {
		n += t.Twins
	}
	s := fmt.Sprintf("%d for %d tests", n, len(r.Tests))
	if few := len(r.Forged()); few > 0 {
		s += fmt.Sprintf(", %d forgeable", few)
	}
	return s
}

func verdict(ok bool) output.Cell {
	if ok {
		return output.Styled(iostreams.Green, "sound")
	}
	return output.Styled(iostreams.Red, "refused")
}

func floats(list []float64) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = strconv.FormatFloat(v, 'g', 4, 64)
	}
	return strings.Join(out, " ")
}

func (a *App) taskFetchCmd(t Tasks) *cobra.Command {
	return &cobra.Command{
		Use:   "fetch [TASK...]",
		Short: "Make the tasks that come from published packages",
		Long: `Make the tasks that come from published packages: two versions each, pinned by
hash, fetched and built in a throw-away box. JSON: an array of {task, ok, cached, digest, reason}.
Exit code 3 if some could not be made, 9 if none could.`,
		Example: "  agon task fetch\n  agon task fetch released/NAME",
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.Fetch == nil {
				return Missing("tasks")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			got, err := t.Fetch(cmd.Context(), TaskFetchOptions{common, args})
			done()
			if err != nil {
				return err
			}
			failed := 0
			for _, t := range got {
				if !t.OK {
					failed++
				}
			}
			if err := a.Printer.Print(cmd.Context(), output.List(got, func(t TaskFetched) string { return t.Task }, func(h *output.Human) {
				rows := make([][]output.Cell, len(got))
				for i, t := range got {
					state := output.Styled(iostreams.Green, "made")
					switch {
					case !t.OK:
						state = output.Styled(iostreams.Red, "failed")
					case t.Cached:
						state = output.Text("here")
					}
					rows[i] = []output.Cell{output.Text(t.Task), state, output.Text(t.Reason)}
				}
				h.Table([]output.Column{{Title: "task", Min: 12}, {Title: "state"}, {Title: "reason", Min: 10}}, rows)
			})); err != nil {
				return err
			}
			switch {
			case failed > 0 && failed == len(got):
				return &Exit{Code: CodeOurs}
			case failed > 0:
				return &Exit{Code: CodePartly}
			}
			return nil
		},
	}
}
