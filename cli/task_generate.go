package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/cli/output"
	"github.com/agon-arena/agon/plain"
	"github.com/agon-arena/agon/supply"
)

// ClaimsGenerateOptions is `agon task generate claims`.
type ClaimsGenerateOptions struct {
	Common
	Feed      string // http(s) address, file, or folder of documents
	Out, Log  string
	Champion  string // script of the sitting champion; "" = the seat is empty
	Proposer  string // models; "" = the gateway's first
	Reference string
	Count     int
	Wrong     float64
	Draws     int
	Seed      uint64
	Budget    agon.Micros
	Replay    bool
	Driver    string
	AnyAge    bool // items older than a day too
}

func (a *App) taskGenerateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "generate",
		Short:   "Make tasks from what was published lately",
		Example: "  agon task generate claims FEED --out claims --champion agent.py",
		Args:    a.noSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.taskGenerateClaimsCmd())
	return cmd
}

func (a *App) taskGenerateClaimsCmd() *cobra.Command {
	var o ClaimsGenerateOptions
	var budget float64
	cmd := &cobra.Command{
		Use:   "claims FEED",
		Short: "Make claims from a feed, drawn again until the champion gets enough of them wrong",
		Long: `Make claim tasks from the items of the last 24 hours of FEED: an address of an RSS, Atom
or JSON feed, such a file, or a folder of documents. A proposer model writes claims, a
reference model answers them with quotes; what is duplicate, disputed, ambiguous or
unsupported is dropped. The sitting champion answers each claim in a box; easy ones are
drawn again until it gets the wanted share wrong.

Everything that came from outside is in the log beside the output (OUT.log): the command
goes on where it was stopped, and --replay makes the same set without asking anybody.
JSON: {claims, draws, dropped, rounds, wrong, target, complete, why, digest}.
Exit codes: 0 complete, 8 stopped early by budget, draws or a provider: run it again.`,
		Example: "  agon task generate claims https://news.example/feed.xml --out claims --champion agent.py\n  agon task generate claims ./documents --out claims --count 12 --replay",
		Args:    args(1, 1, "a feed"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.Services.ClaimsGenerate == nil {
				return missing("task supply")
			}
			switch {
			case o.Out == "":
				return output.Usage("out", "name a directory that does not exist yet", "--out is missing")
			case o.Count < 1 || o.Count > 10_000:
				return output.Usage("count", "give 1 to 10000", "--count %d: out of range", o.Count)
			case !(o.Wrong > 0 && o.Wrong <= 1):
				return output.Usage("wrong", "give more than 0 and at most 1", "--wrong %g: out of range", o.Wrong)
			case !(budget > 0 && budget <= 10_000):
				return output.Usage("budget", "give more than 0 and at most 10000", "--budget %g: out of range", budget)
			}
			o.Feed, o.Budget = args[0], agon.Micros(budget*1e6)
			if o.Log == "" {
				o.Log = o.Out + ".log"
			}
			common, done, err := a.common()
			if err != nil {
				return err
			}
			o.Common = common
			r, err := a.Services.ClaimsGenerate(cmd.Context(), o)
			done()
			if err != nil {
				return err
			}
			if err := a.printer.Print(cmd.Context(), output.Result{Value: r, IDs: []string{string(r.Digest)}, Human: func(h *output.Human) { supplyHuman(h, r) }}); err != nil {
				return err
			}
			if !r.Complete {
				a.IO.Notef("not complete: %s", plain.Line(r.Why))
				return &Exit{Code: CodePending}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Out, "out", "", "write the tasks into this new `directory`")
	f.StringVar(&o.Log, "log", "", "keep the log in this `file` (default OUT.log)")
	f.StringVar(&o.Champion, "champion", "", "the sitting champion's `script`; without it every claim counts as hard")
	f.StringVar(&o.Proposer, "proposer", "", "`model` that writes claims (default: the gateway's first)")
	f.StringVar(&o.Reference, "reference", "", "`model` that answers them (default: the gateway's first)")
	f.IntVar(&o.Count, "count", 12, "make this `many` claims")
	f.Float64Var(&o.Wrong, "wrong", 0.5, "`share` that the champion must get wrong")
	f.IntVar(&o.Draws, "draws", 0, "draw at most this `many` claims (default 20 times --count)")
	f.Uint64Var(&o.Seed, "seed", 1, "order of the items")
	f.Float64Var(&budget, "budget", 5, "spend at most this many `dollars` on models")
	f.BoolVar(&o.Replay, "replay", false, "answer from the log only")
	f.BoolVar(&o.AnyAge, "any-age", false, "take items older than 24 hours too")
	driverFlag(cmd, &o.Driver)
	return cmd
}

func supplyHuman(h *output.Human, r *supply.Report) {
	rows := [][]output.Cell{}
	for _, x := range r.Rounds {
		rows = append(rows, []output.Cell{output.Text(fmt.Sprint(x.Draws)), output.Text(fmt.Sprint(x.Claims)), output.Text(fmt.Sprintf("%.0f %%", 100*x.Wrong))})
	}
	h.Table([]output.Column{{Title: "drawn", Right: true}, {Title: "claims", Right: true}, {Title: "champion wrong", Right: true}}, rows)
}
