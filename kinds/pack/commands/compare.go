package commands

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/ui/cli"

	"github.com/agon-arena/agon/ui/cli/output"
)

// maxPacks bounds one comparison.
const maxPacks = 8

// CompareOptions is `agon pack compare`.
type CompareOptions struct {
	EpisodeOptions
	A, B    string
	More    []string // further packs, each compared with A
	Rounds  int
	PerDay  float64
	Results []string // two folders of batches, instead of playing
	// Cassette is a tape of model calls that is played instead of asking a model.
	Cassette string
	Plot     string // an SVG is written to this file
}

// Side is one pack of a comparison.
type Side struct {
	Pack      string             `json:"pack"`
	Hash      string             `json:"pack_hash"`
	Episodes  int                `json:"episodes"`
	Qualified int                `json:"qualified"`
	PerUSD    float64            `json:"usd_per_episode"`
	MonthUSD  float64            `json:"usd_per_month"`
	Score     float64            `json:"score"`
	Calls     float64            `json:"tool_calls_per_episode"`
	Models    []Share            `json:"models"`
	ByTask    map[string]float64 `json:"usd_by_scenario"`
}

// Share is a model's part.
type Share struct {
	Model string  `json:"model"`
	Share float64 `json:"share_of_calls"`
	USD   float64 `json:"usd_per_episode"`
}

// Difference is one measure of both.
type Difference struct {
	Measure string  `json:"measure"`
	A       float64 `json:"a"`
	B       float64 `json:"b"`
	Diff    float64 `json:"diff"` // B less A
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Beyond  bool    `json:"beyond_noise"` // 0 is outside of low and high
}

// Comparison is `agon pack compare`.
type Comparison struct {
	A        Side    `json:"a"`
	B        Side    `json:"b"`
	PerDay   float64 `json:"episodes_per_day"`
	Scripted bool    `json:"scripted"`
	// Saving is the share of A's cost that B saves, CI its 95 per cent interval:
	// null where one pair says nothing about noise, or A costs nothing.
	Saving      *float64     `json:"saving"`
	CI          *[2]float64  `json:"ci"`
	Differences []Difference `json:"differences"`
	// More are the packs behind A and B, each compared with A.
	More []Further `json:"more"`
}

// Further is a pack behind the first two of a comparison.
type Further struct {
	Side
	Saving *float64    `json:"saving"`
	CI     *[2]float64 `json:"ci"`
}

// sides lists the packs in the order of the command.
func (c *Comparison) sides() []Side {
	out := []Side{c.A, c.B}
	for _, m := range c.More {
		out = append(out, m.Side)
	}
	return out
}

func (a commands) packCompareCmd() *cobra.Command {
	var o CompareOptions
	cmd := &cobra.Command{
		Use:   "compare A B [MORE...]",
		Short: "Play packs on the same scenarios and compare what they cost",
		Long: `Play two packs on every scenario, --rounds times each, and compare: cost per episode,
projected to a month of --per-day episodes, each model's share of the calls, and which
differences are beyond noise (paired by scenario, each the mean of its rounds, 95 per cent).
saving is the share of A's cost that B saves, ci its 95 per cent interval. With --cassette the
model calls are those of a tape (recorded with AGON_LLM_CASSETTE and AGON_LLM_BASE_URL), so
that the costs come out the same to the micro-dollar everywhere; its models are those of AGON_LLM_MODEL,
or those that its replies name. --plot draws the cost of a month, by model. Packs behind the
second are each compared with A.
JSON: {a, b, saving, ci, episodes_per_day, scripted, differences[{measure, a, b, diff, low, high, beyond_noise}], more[]}.`,
		Example: "  agon pack compare before.json after.json --rounds 3 --per-day 400\n  agon pack compare before.json after.json --cassette tape.jsonl -o json\n  agon pack compare docs/examples/cost/{plain,tuned,routed}.json --cassette docs/examples/cost/tape.jsonl --per-day 2000 --plot cost.svg",
		Args:    cli.Args(2, maxPacks, "two packs, or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Rounds < 1 || o.Rounds > 100 {
				return output.Usage("rounds", "1 to 100", "--rounds %d is out of range", o.Rounds)
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common, o.A, o.B, o.More = common, args[0], args[1], args[2:]
			r, err := a.work.Compare(cmd.Context(), o)
			if err != nil {
				return err
			}
			if o.Plot != "" {
				if err := cli.WriteFile(o.Plot, Plot(r)); err != nil {
					return err
				}
			}
			done()
			return a.Printer.Print(cmd.Context(), output.Result{Value: r, Human: func(h *output.Human) {
				for _, s := range r.sides() {
					h.Heading(s.Pack)
					h.Fields([2]string{"per episode", fmt.Sprintf("$%.6f", s.PerUSD)}, [2]string{"per month", fmt.Sprintf("$%.2f at %.0f episodes a day", s.MonthUSD, r.PerDay)},
						[2]string{"qualified", fmt.Sprintf("%d of %d", s.Qualified, s.Episodes)})
					for _, m := range s.Models {
						h.Line("  %s: %.0f%% of the calls, $%.6f an episode", m.Model, m.Share*100, m.USD)
					}
				}
				rows := make([][]output.Cell, len(r.Differences))
				for i, d := range r.Differences {
					rows[i] = []output.Cell{output.Text(d.Measure), output.Text(fmt.Sprintf("%.6f", d.A)), output.Text(fmt.Sprintf("%.6f", d.B)), output.Text(fmt.Sprintf("%.6f to %.6f", d.Low, d.High)), output.Text(cli.Yes(d.Beyond))}
				}
				if r.Saving != nil && r.CI != nil {
					h.Line("b saves %.1f %% of a's cost, 95 %% interval %.1f to %.1f %%", 100**r.Saving, 100*r.CI[0], 100*r.CI[1])
				}
				for _, m := range r.More {
					if m.Saving != nil {
						h.Line("%s saves %.1f %% of a's cost", m.Pack, 100**m.Saving)
					}
				}
				h.Table([]output.Column{{Title: "measure"}, {Title: "a", Right: true}, {Title: "b", Right: true}, {Title: "b less a, 95%"}, {Title: "beyond noise"}}, rows)
			}})
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Rounds, "rounds", 1, "play each scenario this `often`")
	f.StringVar(&o.Cassette, "cassette", "", "play the model calls of this `tape` instead of asking a model")
	f.StringVar(&o.Plot, "plot", "", "draw the cost of a month as SVG to this `file`")
	f.Float64Var(&o.PerDay, "per-day", 400, "`episodes` a day, for the cost of a month")
	f.StringVar(&o.Scenarios, "scenarios", "", "`directory` with scenarios/ and fixtures/")
	f.DurationVar(&o.Timeout, "timeout", 0, "end each agent after this `time`")
	cli.DriverFlag(cmd, &o.Driver)
	return cmd
}
