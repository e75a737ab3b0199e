package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) canaryCmd() *cobra.Command {
	r := client.CanaryRequest{Validators: 3}
	var known, tolerance float64
	cmd := &cobra.Command{
		Use: "canary RUN", Short: "Have a run of known outcome played by validators, whose word is measured so",
		Long: `Have a scored run of a decided submission played once more by validators, each once: who
says something else than is known has missed it, which counts in its standing (agon validator
standing). With --rival it is a duel of the two submissions on the same tasks and seed: what
is known is then the gain, 0 where they are alike. A run of a stage stands for all tasks of its
stage, which an evaluation plays together; one task that is said otherwise is a miss. What a
canary comes to moves nothing of the contest. Choose agents that do the same each time, or a
tolerance that luck does not pass.
JSON: {id, arena, submission, rival, known, tolerance, plays, at, actor, reason, hits}.`,
		Example: "  agon operator canary RUN --reason 'weekly'\n  agon operator canary RUN --rival SUBMISSION --validators 5 --reason 'a gain that is known'",
		Args:    Args(1, 1, "one run"), ValidArgsFunction: a.Complete(runIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.Reason == "" {
				return output.Usage("reason", "add --reason 'why'", "say why: it is written down")
			}
			if cmd.Flags().Changed("known") {
				r.Known = &known
			}
			if cmd.Flags().Changed("tolerance") {
				r.Tolerance = &tolerance
			}
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			run, err := a.runID(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if r.Rival != "" {
				if r.Rival, err = a.submissionID(cmd.Context(), c, r.Rival); err != nil {
					return err
				}
			}
			v, err := c.MakeCanary(cmd.Context(), run, r)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: v, IDs: []string{v.ID}, Human: func(h *output.Human) {
				h.Line("%s: %d validators play it; known is %.4g, right within %.4g", v.ID, v.Plays, v.Known, v.Tolerance)
			}})
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Rival, "rival", "", "`submission` to play against: a duel of known gain")
	f.Float64Var(&known, "known", 0, "the `score`, or the gain of a duel (default: as counted)")
	f.Float64Var(&tolerance, "tolerance", 0.05, "`distance` within which a validator is right; of a stage at most half a task")
	f.IntVar(&r.Validators, "validators", 3, "`how many` play it, each once")
	f.StringVar(&r.Reason, "reason", "", "why; it is written down")
	return cmd
}

func (a *App) canariesCmd() *cobra.Command {
	return &cobra.Command{
		Use: "canaries ARENA", Short: "Plays of known outcome, and what validators made of them",
		Long: `Plays of known outcome of an arena, and what validators made of them. JSON: an array of
canaries {id, submission, rival, known, tolerance, plays, at, reason, hits: [{run, validator,
known, observed, missed, at}]}.`,
		Example: "  agon operator canaries {arena}",
		Args:    Args(1, 1, "one arena"), ValidArgsFunction: a.Complete(arenaIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			list, err := c.Canaries(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: list, IDs: ids(list, func(x agon.Canary) string { return x.ID }), Human: func(h *output.Human) { canariesHuman(h, list) }})
		},
	}
}

func canariesHuman(h *output.Human, list []agon.Canary) {
	var rows [][]output.Cell
	for _, c := range list {
		missed := 0
		for _, x := range c.Hits {
			if x.Missed {
				missed++
			}
		}
		rows = append(rows, []output.Cell{
			output.Text(When(c.At)), output.Text(c.ID), output.Text(c.Submission), output.Text(c.Rival), output.Text(number(c.Known)),
			output.Text(fmt.Sprintf("%d of %d", len(c.Hits), c.Plays)), output.Text(strconv.Itoa(missed)), output.Text(c.Reason),
		})
	}
	h.Table([]output.Column{
		{Title: "when"},
		{Title: "id", ID: true},
		{Title: "submission", ID: true},
		{Title: "rival", ID: true},
		{Title: "known", Right: true},
		{Title: "played", Right: true},
		{Title: "missed", Right: true},
		{Title: "reason", Min: 8},
	}, rows)
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
