package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/ui/cli/output"
)

// JudgeCalibrateOptions is `agon judge calibrate`.
type JudgeCalibrateOptions struct {
	Common
	File   string // cases, one JSON object a line; "" = those that ship with agon
	Model  string // "" = the gateway's first
	Budget agon.Micros
}

func (a *App) judgeCmd(j Judges) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "judge",
		Short:   "Models as judges: measure them on labelled cases",
		Example: "  agon judge calibrate\n  agon judge calibrate cases.jsonl --model NAME",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.judgeCalibrateCmd(j))
	return cmd
}

func (a *App) judgeCalibrateCmd(j Judges) *cobra.Command {
	var o JudgeCalibrateOptions
	var budget float64
	cmd := &cobra.Command{
		Use:   "calibrate [FILE]",
		Short: "Compare a judge with labels: agreement, false accepts, false rejects",
		Long: `Judge labelled cases with the prompt in use and compare. FILE has one JSON object a
line: {id, claim, reference: {verdict, justification}, answer: {verdict, justification,
citations}, support_ok}; without it the cases that ship with agon are judged, some of which
try to talk the judge over. A case without a verdict counts as neither.
JSON: {prompt, model, cases, judged, failed, agree, false_accepts, false_rejects, agreement,
false_accept_rate, false_reject_rate, cost_micros, wrong}.
Exit codes: 0 all were judged, 3 some got no verdict, 9 none did.`,
		Example: "  agon judge calibrate\n  agon judge calibrate cases.jsonl --budget 0.50 --jq .agreement",
		Args:    Args(0, 1, "at most one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if j.Calibrate == nil {
				return Missing("judges")
			}
			if !(budget > 0 && budget <= 1000) {
				return output.Usage("budget", "give more than 0 and at most 1000", "--budget %g: out of range", budget)
			}
			if len(args) > 0 {
				o.File = args[0]
			}
			o.Budget = agon.Micros(budget * 1e6)
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			o.Common = common
			c, err := j.Calibrate(cmd.Context(), o)
			done()
			if err != nil {
				return err
			}
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: c, Human: func(h *output.Human) { calibrationHuman(h, c) }}); err != nil {
				return err
			}
			switch {
			case c.Judged == 0:
				return &Exit{Code: CodeOurs}
			case c.Failed > 0:
				return &Exit{Code: CodePartly}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Model, "model", "", "judge with this `model` (default: the gateway's first)")
	cmd.Flags().Float64Var(&budget, "budget", 0.5, "spend at most this many `dollars`")
	return cmd
}

func calibrationHuman(h *output.Human, c *judge.Calibration) {
	percent := func(v float64) output.Cell { return output.Text(fmt.Sprintf("%.1f %%", 100*v)) }
	count := func(n int) output.Cell { return output.Text(fmt.Sprint(n)) }
	h.Table([]output.Column{{Title: "measure"}, {Title: "cases", Right: true}, {Title: "share", Right: true}}, [][]output.Cell{
		{output.Text("judged"), count(c.Judged), output.Text("")},
		{output.Text("agreement"), count(c.Agree), percent(c.Agreement)},
		{output.Text("false accepts"), count(c.FalseAccepts), percent(c.FalseAcceptRate)},
		{output.Text("false rejects"), count(c.FalseRejects), percent(c.FalseRejectRate)},
		{output.Text("no verdict"), count(c.Failed), output.Text("")},
	})
}
