package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) validatorStandingCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "standing",
		Short: "How far the word of each validator holds, with the cases against it",
		Long: `Validators judge each other's results again: a random share, and all of a submission that
would take a seat. Who is contradicted, and by a third judging too, has a case. Canaries are
runs whose outcome the platform knew. Below the bar a validator gets no leases, and its
results do not count.
JSON: {bar, validators: [{hotkey, runs, judged_again, judged, contradicted, canaries, missed, standing,
named, excluded, pairs: [{by, judged, agrees}], cases: [{run, arena, role, at, url}]}]}.`,
		Example: "  agon validator standing\n  agon validator standing -o json --jq '.validators[] | select(.named)'",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Reader()
			if err != nil {
				return err
			}
			s, err := c.Standings(cmd.Context())
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: s, Human: func(h *output.Human) { standingsHuman(h, s) }})
		},
	}
}

func standingsHuman(h *output.Human, s *client.Standings) {
	rows := make([][]output.Cell, 0, len(s.Validators))
	for _, v := range s.Validators {
		state := ""
		if v.Excluded {
			state = "excluded"
		} else if v.Named {
			state = "named"
		}
		rows = append(rows, []output.Cell{
			output.Text(v.Hotkey), output.Text(strconv.FormatInt(v.Runs, 10)), output.Text(strconv.FormatInt(v.JudgedAgain, 10)), output.Text(strconv.FormatInt(v.Contradicted, 10)),
			output.Text(fmt.Sprintf("%d of %d", v.Canaries-v.Missed, v.Canaries)), output.Text(fmt.Sprintf("%.2f", v.Standing)), output.Text(state),
		})
	}
	h.Table([]output.Column{
		{Title: "validator", Min: 12},
		{Title: "runs", Right: true},
		{Title: "judged again", Right: true},
		{Title: "contradicted", Right: true},
		{Title: "canaries", Right: true},
		{Title: "standing", Right: true},
		{Title: "", Min: 5},
	}, rows)
}
