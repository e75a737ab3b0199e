package cli

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/agon-arena/agon/ui/cli/progress"
)

func (a *App) incentiveCmd(f Arenas) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "incentive",
		Short:   "Rules: how often they seat copies, and what gain they see",
		Example: "  agon incentive simulate --rule paired",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.simulateCmd(f))
	return cmd
}

func (a *App) simulateCmd(f Arenas) *cobra.Command {
	s := incentive.Simulation{}
	var rule, arena, history, svg string
	var tasks int
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Play a rule against copies of the champion, with drawn outcomes",
		Long: `Play a rule against identical copies of the champion, each entered up to five times, and
against challengers that are truly better. Outcomes are drawn: a pair of equal agents
differs with the chance --discordance. --history takes pairs that were played instead, a
JSON object a line: {"pair": 1, "challenger": 0.5, "incumbent": 1, "usd": 0.01}.

JSON: {rule, copies, copy_1, low_1, high_1, copy_5, low_5, high_5, upper_5, power: {gain: share},
pairs_mean, money_mean, pairs_by_gain, emission, validators, liars, tasks, pairs, seed}; limits of 95 %.`,
		Example: "  agon incentive simulate --rule paired\n  agon incentive simulate --rule winner_takes_all --discordance 0.15 -o json\n" +
			"  agon incentive simulate --arena ./mine.toml --liars 1\n  agon incentive simulate --history pairs.jsonl --svg power.svg",
		Args: Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Rules == nil {
				return Missing("incentive simulate")
			}
			if arena != "" && history != "" {
				return output.Usage("history", "give --arena or --history", "--arena and --history exclude each other")
			}
			s.Tasks = tasks
			if arena != "" {
				c, done, err := a.Common()
				if err != nil {
					return err
				}
				defer done()
				own, err := f.Rule(c, arena)
				if err != nil {
					return err
				}
				if rule == "" {
					rule = own.Name
				}
				if rule == own.Name {
					s.Numbers = own.Numbers
				}
				if tasks == 0 {
					s.Tasks = own.Tasks
				}
				if !cmd.Flags().Changed("play-usd") {
					s.PlayUSD = own.PlayUSD
				}
			}
			if rule == "" {
				rule = incentive.PairedRule
			}
			r, ok := f.Rules[rule]
			if !ok {
				return output.Usage("rule", "the rules are "+strings.Join(slices.Sorted(maps.Keys(f.Rules)), ", "), "there is no rule %q", rule)
			}
			s.Name, s.Rule = rule, r
			if history != "" {
				in, err := os.Open(history)
				if err != nil {
					return fmt.Errorf("read history: %w", err)
				}
				defer in.Close()
				if s.History, err = incentive.ReadHistory(in); err != nil {
					return output.Usage("history", "write one pair a line", "%s: %s", history, err)
				}
			}
			bar := a.bar()
			defer bar.Close()
			s.Progress = func(done, total int) { bar.Set(progress.State{Label: "simulating", Done: done, Total: total}) }
			out, err := s.Run(cmd.Context())
			bar.Close()
			if cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			if err != nil {
				field, msg, _ := strings.Cut(err.Error(), ": ")
				return output.Usage(field, "agon incentive simulate --help", "%s: %s", field, msg)
			}
			if svg != "" {
				if err := WriteFile(svg, simulatedSVG(out)); err != nil {
					return err
				}
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: out, IDs: []string{rule}, Human: func(h *output.Human) { simulatedHuman(h, out) }})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&rule, "rule", "", "`rule` to play (default the arena's, or paired)")
	fl.StringVar(&arena, "arena", "", "arena `file` whose numbers, set and budget count")
	fl.StringVar(&history, "history", "", "`file` of pairs that were played")
	fl.IntVar(&s.Copies, "copies", 2000, "copiers, each with five tries, and challengers of each gain")
	fl.Float64Var(&s.Effect, "effect", 0, "true `gain` to tell the power of, besides 0.005, 0.05 and 0.1")
	fl.Float64Var(&s.Discordance, "discordance", 0.3, "`share` of the pairs in which equal agents differ")
	fl.Float64Var(&s.Noise, "noise", 0, "standard `deviation` of what is added to every value")
	fl.IntVar(&s.Validators, "validators", 0, "validators (default as the rule's numbers say)")
	fl.IntVar(&s.Liars, "liars", 0, "of them that say what helps the copy, or harms the better one")
	fl.IntVar(&tasks, "tasks", 0, "tasks of the set, for rules by scores (default the arena's, or 50)")
	fl.Float64Var(&s.PlayUSD, "play-usd", 0, "`dollars` that one play costs (default the arena's budget)")
	fl.Uint64Var(&s.Seed, "seed", 1, "seed of what is drawn")
	fl.StringVar(&svg, "svg", "", "`file` for a drawing of the result")
	return cmd
}

func percent(f float64) string { return strconv.FormatFloat(100*f, 'f', 2, 64) + " %" }

// gainsOf are the gains of a simulation in order.
func gainsOf(m map[string]float64) []string {
	keys := slices.Collect(maps.Keys(m))
	slices.SortFunc(keys, func(a, b string) int {
		x, _ := strconv.ParseFloat(a, 64)
		y, _ := strconv.ParseFloat(b, 64)
		return int(1e6 * (x - y))
	})
	return keys
}

func simulatedHuman(h *output.Human, s incentive.Simulated) {
	h.Heading("rule " + s.Rule)
	h.Fields(
		[2]string{"identical copies", fmt.Sprintf("%d, each up to %d tries", s.Copies, incentive.Tries)},
		[2]string{"seated in 1 try", fmt.Sprintf("%s (95 %%: %s to %s)", percent(s.Copy1), percent(s.Low1), percent(s.High1))},
		[2]string{"seated in 5", fmt.Sprintf("%s (95 %%: %s to %s; upper limit %s)", percent(s.Copy5), percent(s.Low5), percent(s.High5), percent(s.Upper5))},
		[2]string{"emission", percent(s.Emission) + " to a copier"},
		[2]string{"an entry takes", fmt.Sprintf("%.0f pairs, $%.2f", s.PairsMean, s.MoneyMean)},
		[2]string{"validators", fmt.Sprintf("%d, of them %d liars", s.Validators, s.Liars)},
	)
	rows := make([][]output.Cell, 0, len(s.Power))
	for _, g := range gainsOf(s.Power) {
		v, _ := strconv.ParseFloat(g, 64)
		rows = append(rows, []output.Cell{output.Text(incentive.Figure(100*v) + " points"), output.Text(percent(s.Power[g])), output.Text(fmt.Sprintf("%.0f", s.PairsBy[g]))})
	}
	h.Table([]output.Column{{Title: "true gain"}, {Title: "seated", Right: true}, {Title: "pairs", Right: true}}, rows)
}

// simulatedSVG draws a bar for each share.
func simulatedSVG(s incentive.Simulated) []byte {
	type bar struct {
		label string
		v     float64
		copy  bool
	}
	bars := []bar{{"copy, 1 try", s.Copy1, true}, {"copy, 5 tries", s.Copy5, true}}
	for _, g := range gainsOf(s.Power) {
		v, _ := strconv.ParseFloat(g, 64)
		bars = append(bars, bar{"+" + incentive.Figure(100*v) + " points", s.Power[g], false})
	}
	const left, width, step = 150, 400, 28
	height := 60 + step*len(bars)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" role="img" aria-label="who takes the seat under %s">`, left+width+90, height, s.Rule)
	fmt.Fprintf(&b, "\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"10\" y=\"24\" font-weight=\"bold\">Who takes the seat under %s (discordance %s, %d validators, %d liars)</text>\n", s.Rule, incentive.Figure(s.Discordance), s.Validators, s.Liars)
	for i, x := range bars {
		y := 42 + i*step
		colour := "#2a78b5"
		if x.copy {
			colour = "#b5402a"
		}
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"18\" fill=\"%s\"/><text x=\"%.1f\" y=\"%d\">%s</text>\n",
			left-10, y+14, x.label, left, y, max(1, x.v*width), colour, left+max(1, x.v*width)+6, y+14, percent(x.v))
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}
