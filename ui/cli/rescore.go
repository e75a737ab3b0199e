package cli

import (
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ui/cli/output"
)

// RescoreOptions is `agon judge rescore`.
type RescoreOptions struct {
	Common
	Client     *client.Client
	Arena      string
	Scorer     string // models between commas, "words", or a scorer as scores name it
	Panel      int    // how many of the models give a verdict of each case
	Submission string // only its plays; "": all
	Parallel   int    // plays judged at a time
	Budget     agon.Micros
}

// Rescore is what scoring an arena's stored plays anew came to.
type Rescore struct {
	Arena    string    `json:"arena"`
	Scorer   string    `json:"scorer"` // as scores name it
	At       time.Time `json:"at"`
	Runs     int       `json:"runs"`
	Pairs    int       `json:"pairs"`    // tasks of those runs, each with both scores
	Same     int       `json:"same"`     // pairs whose scores are alike
	Unscored int       `json:"unscored"` // pairs without a verdict; they count nowhere
	Skipped  int       `json:"skipped"`  // runs whose evidence may not be read, or that left none
	// Stored and Rescored are the means of the pairs.
	Stored      float64        `json:"stored"`
	Rescored    float64        `json:"rescored"`
	Submissions []RescoreEntry `json:"submissions"`
	CostMicros  agon.Micros    `json:"cost_micros"`
	Kept        string         `json:"kept"` // the file to which every pair was added
}

// RescoreEntry is a submission by both scores, the best by the new one first.
type RescoreEntry struct {
	ID       string  `json:"id"`
	Name     string  `json:"name,omitempty"`
	Pairs    int     `json:"pairs"`
	Stored   float64 `json:"stored"`
	Rescored float64 `json:"rescored"`
}

// RescoredPair is one pair of RescoresFile.
type RescoredPair struct {
	At         time.Time  `json:"at"`
	Arena      string     `json:"arena"`
	Submission string     `json:"submission"`
	Run        string     `json:"run"`
	Attempt    int        `json:"attempt"`
	Stored     agon.Score `json:"stored"`
	Rescored   agon.Score `json:"rescored"`
}

// RescoresFile holds what was scored anew, a pair a line, in the data directory.
const RescoresFile = "rescores.jsonl"

func (a *App) judgeRescoreCmd(j Judges) *cobra.Command {
	o := RescoreOptions{Parallel: 32}
	var budget float64
	cmd := &cobra.Command{
		Use:   "rescore ARENA",
		Short: "Score an arena's stored plays anew by another judge, and keep both scores",
		Long: `Judge what all plays of an arena left by another judge: nothing is played and no box is
started. It is for kinds whose judge is a model. --scorer names the judge: a model, several
between commas (each stands in for the one before; with --panel they vote), a scorer as
scores name it, or "words" for the comparison of words. The scores that stand at the server
are not touched: both are kept in rescores.jsonl in the data directory, a pair a line, and
compared here, by submission, the best by the new judge first. Plays whose evidence is not
public are skipped, unless it is the operator who asks.

JSON: {arena, scorer, at, runs, pairs, same, unscored, skipped, stored, rescored, submissions:
[{id, name, pairs, stored, rescored}], cost_micros, kept}.
Exit codes: 0 all are alike, 3 some differ or got no verdict, 5 no play could be read.`,
		Example:           "  agon judge rescore {arena} --scorer words\n  agon judge rescore {arena} --scorer NAME --budget 2 -o json",
		Args:              Args(1, 1, "an arena"),
		ValidArgsFunction: a.Complete(arenaIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if j.Rescore == nil {
				return Missing("judges")
			}
			switch {
			case o.Scorer == "":
				return output.Usage("scorer", `name a model, or "words"`, "--scorer is missing")
			case !(budget > 0 && budget <= 1000):
				return output.Usage("budget", "give more than 0 and at most 1000", "--budget %g: out of range", budget)
			case o.Panel < 0 || o.Panel > 9:
				return output.Usage("panel", "give 0 to 9", "--panel %d: out of range", o.Panel)
			case o.Parallel < 1 || o.Parallel > 64:
				return output.Usage("parallel", "give 1 to 64", "--parallel %d: out of range", o.Parallel)
			}
			o.Arena, o.Budget = args[0], agon.Micros(math.Round(budget*1e6))
			c, err := a.Reader()
			if err != nil {
				return err
			}
			o.Client = c
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			o.Common = common
			r, err := j.Rescore(cmd.Context(), o)
			done()
			if err != nil {
				return err
			}
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: r, IDs: ids(r.Submissions, func(x RescoreEntry) string { return x.ID }), Human: func(h *output.Human) { rescoreHuman(h, r) }}); err != nil {
				return err
			}
			if r.Same < r.Pairs || r.Unscored > 0 {
				return &Exit{Code: CodePartly}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Scorer, "scorer", "", `judge by this model (several between commas), scorer, or "words" (`+"`name`"+`)`)
	f.IntVar(&o.Panel, "panel", 0, "let this `many` of the models judge each case, and the most votes count")
	f.StringVar(&o.Submission, "submission", "", "only plays of this submission (`id`)")
	f.IntVar(&o.Parallel, "parallel", o.Parallel, "judge this `many` plays at a time")
	f.Float64Var(&budget, "budget", 0.5, "spend at most this many `dollars`")
	return cmd
}

func rescoreHuman(h *output.Human, r *Rescore) {
	rows := make([][]output.Cell, len(r.Submissions))
	for i, x := range r.Submissions {
		rows[i] = []output.Cell{output.Text(x.ID), output.Text(x.Name), output.Text(fmt.Sprint(x.Pairs)), output.Text(ScoreText(&x.Stored)), output.Text(ScoreText(&x.Rescored))}
	}
	h.Table([]output.Column{{Title: "submission"}, {Title: "name", Min: 10}, {Title: "pairs", Right: true}, {Title: "stands", Right: true}, {Title: "anew", Right: true}}, rows)
	h.Line("")
	h.Line("%d of %d pairs of %d plays are alike by %s; %d got no verdict, %d plays were skipped", r.Same, r.Pairs, r.Runs, r.Scorer, r.Unscored, r.Skipped)
	h.Line("the scores at the server stand; both are kept in %s", r.Kept)
}
