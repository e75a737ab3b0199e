package commands

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/claim/supply"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// generateOptions is `agon task generate claims`.
type generateOptions struct {
	feed      string // http(s) address, file, or folder of documents
	out, log  string
	champion  string // script of the sitting champion; "" = the seat is empty
	proposer  string // models; "" = the gateway's first
	reference string
	auditor   string // "" = that of AGON_AUDITOR_MODEL, or none
	count     int
	wrong     float64
	draws     int
	seed      uint64
	budget    agon.Micros
	replay    bool
	anyAge    bool // items older than a day too
}

func (a commands) generate() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "generate",
		Short:   "Make tasks from what was published lately",
		Example: "  agon task generate claims FEED --out claims --champion agent.py",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.generateClaims())
	return cmd
}

func (a commands) generateClaims() *cobra.Command {
	var o generateOptions
	var budget float64
	var driver string
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
		Args:    cli.Args(1, 1, "a feed"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.out == "":
				return output.Usage("out", "name a directory that does not exist yet", "--out is missing")
			case o.count < 1 || o.count > 10_000:
				return output.Usage("count", "give 1 to 10000", "--count %d: out of range", o.count)
			case !(o.wrong > 0 && o.wrong <= 1):
				return output.Usage("wrong", "give more than 0 and at most 1", "--wrong %g: out of range", o.wrong)
			case !(budget > 0 && budget <= 10_000):
				return output.Usage("budget", "give more than 0 and at most 10000", "--budget %g: out of range", budget)
			}
			o.feed, o.budget = args[0], agon.Micros(budget*1e6)
			if o.log == "" {
				o.log = o.out + ".log"
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			r, err := makeClaims(cmd.Context(), a.kits.Options(common, driver), o)
			done()
			if err != nil {
				return err
			}
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: r, IDs: []string{string(r.Digest)}, Human: func(h *output.Human) { supplyHuman(h, r) }}); err != nil {
				return err
			}
			if !r.Complete {
				a.IO.Notef("not complete: %s", plain.Line(r.Why))
				return &cli.Exit{Code: cli.CodePending}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "write the tasks into this new `directory`")
	f.StringVar(&o.log, "log", "", "keep the log in this `file` (default OUT.log)")
	f.StringVar(&o.champion, "champion", "", "the sitting champion's `script`; without it every claim counts as hard")
	f.StringVar(&o.proposer, "proposer", "", "`model` that writes claims (default: the gateway's first)")
	f.StringVar(&o.reference, "reference", "", "`model` that answers them (default: the gateway's first)")
	f.StringVar(&o.auditor, "auditor", "", "`model` that audits each answer and has it mended (default: that of AGON_AUDITOR_MODEL, or none)")
	f.IntVar(&o.count, "count", 12, "make this `many` claims")
	f.Float64Var(&o.wrong, "wrong", 0.5, "`share` that the champion must get wrong")
	f.IntVar(&o.draws, "draws", 0, "draw at most this `many` claims (default 20 times --count)")
	f.Uint64Var(&o.seed, "seed", 1, "order of the items")
	f.Float64Var(&budget, "budget", 5, "spend at most this many `dollars` on models")
	f.BoolVar(&o.replay, "replay", false, "answer from the log only")
	f.BoolVar(&o.anyAge, "any-age", false, "take items older than 24 hours too")
	cli.DriverFlag(cmd, &driver)
	return cmd
}

func supplyHuman(h *output.Human, r *supply.Report) {
	rows := [][]output.Cell{}
	for _, x := range r.Rounds {
		rows = append(rows, []output.Cell{output.Text(fmt.Sprint(x.Draws)), output.Text(fmt.Sprint(x.Claims)), output.Text(fmt.Sprintf("%.0f %%", 100*x.Wrong))})
	}
	h.Table([]output.Column{{Title: "drawn", Right: true}, {Title: "claims", Right: true}, {Title: "champion wrong", Right: true}}, rows)
}
