package commands

import (
	"fmt"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/office"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/spf13/cobra"
)

// GenerateOptions is `agon task generate office`.
type GenerateOptions struct {
	cli.Common
	Seed       uint64
	Count      int
	Difficulty int
	Out        string // "": nothing is written
}

// Generated is what it made.
type Generated struct {
	Seed       uint64      `json:"seed"`
	Count      int         `json:"count"`
	Difficulty int         `json:"difficulty"`
	Digest     agon.Digest `json:"digest"` // over the digests of all tasks, in order
	Tasks      []MadeTask  `json:"tasks"`
	Out        string      `json:"out,omitempty"`
}

// MadeTask is one task of it.
type MadeTask struct {
	Task   string      `json:"task"`
	Digest agon.Digest `json:"digest"`
}

func (a commands) taskGenerateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "generate", Short: "Make tasks", Example: "  agon task generate office --seed 7 --count 50 --out ./season",
		Args: a.NoSubcommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var o GenerateOptions
	made := &cobra.Command{
		Use:   "office",
		Short: "Make office scenarios for policy packs: the same seed gives the same bytes",
		Long: `Make companies with people, mail, calendar, tasks and chat: facts to find (a clash, an open
invoice, a mail that repeats a task, a cause that only the chat tells), look-alikes of them, and
traps (a confidential message, orders in mails, acts that cannot be undone), with checks and
criteria that know the truth. --difficulty from 1 to 5 adds mail, people, look-alikes and traps.
With --out each becomes a task directory, for sets, hidden or [supply] of an arena file.
JSON: {seed, count, difficulty, digest, tasks[{task, digest}], out}.`,
		Example: "  agon task generate office --seed 7 --count 50 --out ./season\n  agon task generate office --seed 7 --count 50 -o json --jq .digest",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.Count < 1 || o.Count > office.MaxCount:
				return output.Usage("count", fmt.Sprintf("give 1 to %d", office.MaxCount), "--count %d is out of range", o.Count)
			case o.Difficulty < 1 || o.Difficulty > office.MaxDifficulty:
				return output.Usage("difficulty", fmt.Sprintf("give 1 to %d", office.MaxDifficulty), "--difficulty %d is out of range", o.Difficulty)
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			r, err := a.work.Generate(cmd.Context(), o)
			if err != nil {
				return err
			}
			done()
			return a.Printer.Print(cmd.Context(), output.Result{Value: r, IDs: []string{string(r.Digest)}, Human: func(h *output.Human) {
				h.Fields([2]string{"made", fmt.Sprintf("%d scenarios of seed %d, difficulty %d", r.Count, r.Seed, r.Difficulty)}, [2]string{"digest", string(r.Digest)})
				if r.Out != "" {
					h.Line("the tasks are in %s", r.Out)
				}
			}})
		},
	}
	f := made.Flags()
	f.Uint64Var(&o.Seed, "seed", 1, "the `number` that everything follows from")
	f.IntVar(&o.Count, "count", 10, "make this `many`")
	f.IntVar(&o.Difficulty, "difficulty", 3, "from 1 to 5")
	f.StringVar(&o.Out, "out", "", "write the tasks below this new `directory`")
	cmd.AddCommand(made)
	return cmd
}
