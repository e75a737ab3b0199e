package commands

import (
	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/claim/rounds"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// forget is `agon claim forget`.
func (a commands) forget() *cobra.Command {
	return &cobra.Command{
		Use:   "forget ARENA ADDRESS...",
		Short: "Delete texts of a feed that rounds of claims were made of",
		Long: `Delete the texts of items of a feed, by the addresses that the feed gives them, from the
rounds of an arena in the data directory (--data), which may be in use: the arena's server
finds them no longer from its next search on, and no later round takes them in again.
Claims that were made of a text stay, with the sentences that their references quote, and so
do results of searches in the events of runs, until these are dropped (docs/data.md).
A document of a folder or of a database is deleted there as well, by its owner.
Validators elsewhere have texts of their own (AGON_CORPUS): the command is given there, too.

JSON: {arena, texts, unknown: [address]}.
Exit codes: 0 deleted, 3 no round has a text of some address, 5 no such rounds.`,
		Example: "  agon claim forget my-claims https://news.example/2026/11/28/harbour",
		Args:    cli.Args(2, 1000, "an arena, and the addresses of texts"),
		RunE: func(cmd *cobra.Command, args []string) error {
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			r, err := rounds.Forget(a.kits.Options(common, "").Data, args[0], args[1:])
			if err != nil {
				return err
			}
			err = a.Printer.Print(cmd.Context(), output.Result{Value: r, Human: func(h *output.Human) {
				h.Line("%d texts deleted; the addresses are left out of later rounds", r.Texts)
				for _, u := range r.Unknown {
					h.Line("no round has a text of %s", plain.Line(u))
				}
			}})
			if err == nil && len(r.Unknown) > 0 {
				return &cli.Exit{Code: cli.CodePartly}
			}
			return err
		},
	}
}
