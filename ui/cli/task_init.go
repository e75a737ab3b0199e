package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) taskInitCmd(t Tasks) *cobra.Command {
	example := "KIND"
	if len(t.Kinds) > 0 {
		example = t.Kinds[0]
	}
	return &cobra.Command{
		Use:     "new KIND DIR",
		Aliases: []string{"init"},
		Short:   "Write a task that works into a new directory, to be changed step by step",
		Long: "Write a task that works into a new directory; its last part is the task's slug.\nKIND is " +
			cmp.Or(strings.Join(t.Kinds, ", "), "a kind that has such a task") + ". JSON: an array of the files' names.",
		Example: "  agon task new " + example + " ./my-task && agon task check ./my-task",
		Args:    Args(2, 2, "a kind and a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.Init == nil {
				return Missing("tasks")
			}
			names, err := t.Init(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.List(names, func(n string) string { return n }, func(h *output.Human) {
				rows := make([][]output.Cell, len(names))
				for i, n := range names {
					rows[i] = []output.Cell{output.Text(n)}
				}
				h.Table([]output.Column{{Title: "file", Min: 12}}, rows)
				h.Line("next: agon task check %s", args[1])
			}))
		},
	}
}

func (a *App) taskPreflightCmd(t Tasks) *cobra.Command {
	var driver string
	cmd := &cobra.Command{
		Use:   "preflight DIR...",
		Short: "Try tasks before they go live: noise over seeds, hidden data that can be read, surface",
		Long: `Try tasks before they go live. Hidden data is looked for wherever contestants can
read: in the root file system of boxes or the task's image, in cached packages and
libraries, in what ships with agon (other tasks, samples), also inside compressed
files and archives (gz, bz2, xz, zst, lz4, zip, deb), from 64 bytes on.

The task is played with five seeds: one seed does not tell whether it is
deterministic. Tasks with a reference solution are played by it, and by doing
nothing; others by the first sample of their kind that asks no model. Kinds that
measure what a patch gains replay the unpatched base three times from clean trees
(the noise band is measured) and once with each of four more seeds, and attack the
patch surface.
JSON, of several directories an array: {task, ok, checks: [{name, status, detail}],
value, seeds, by_seed: [{seed, value}], noise, band_abs, band_rel,
leaks: [{where, what, bytes}], values, baseline, band, setup_ms, benchmark_ms, max_rss_bytes}. Exit code 7 if a check fails.`,
		Example: "  agon task preflight ./my-task\n  agon task preflight ./my-tasks",
		Args:    Args(1, -1, "at least one task directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.Preflight == nil {
				return Missing("tasks")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			reports, err := t.Preflight(cmd.Context(), TaskCheckOptions{Common: common, Dirs: args, Driver: driver})
			done()
			if err != nil {
				return err
			}
			bad := false
			for _, r := range reports {
				bad = bad || !r.OK
			}
			result := output.List(reports, func(r TaskPreflight) string { return r.Task }, func(h *output.Human) {
				var rows [][]output.Cell
				for _, r := range reports {
					for _, c := range r.Checks {
						rows = append(rows, []output.Cell{output.Text(r.Task), output.Text(c.Name), status(c.Status), output.Text(c.Detail)})
					}
					rows = append(rows, []output.Cell{output.Text(r.Task), output.Text("measured"), output.Text(""), output.Text(fmt.Sprintf("baseline = %v, band = %v, between %d seeds %v; bands to ask for: %.3g or %.3g %% of the value, whichever is more", r.Baseline, r.Band, len(r.Seeds), r.Noise.Absolute, r.BandAbs, 100*r.BandRel))})
				}
				h.Table([]output.Column{{Title: "task", Min: 12}, {Title: "check"}, {Title: "status"}, {Title: "detail", Min: 20}}, rows)
			})
			if len(reports) == 1 {
				result.Value = reports[0] // of one task, its report
			}
			if err := a.Printer.Print(cmd.Context(), result); err != nil {
				return err
			}
			if bad {
				return &Exit{Code: CodeRefused}
			}
			return nil
		},
	}
	DriverFlag(cmd, &driver)
	return cmd
}

func status(s string) output.Cell {
	switch s {
	case "ok":
		return output.Styled(iostreams.Green, s)
	case "fail":
		return output.Styled(iostreams.Red, s)
	}
	return output.Text(s)
}
