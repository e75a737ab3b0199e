package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/ui/cli/output"
)

// JudgeCalibrateOptions is `agon judge calibrate`.
type JudgeCalibrateOptions struct {
	Common
	File   string // cases, one JSON object a line; "" = those that ship with agon
	Prompt string // what is measured: the name of one of Judges.Exams
	Model  string // names between commas; "" = AGON_JUDGE_MODEL, or the gateway's first
	Panel  int    // how many of them give a verdict of each case
	Gate   float64
	Budget agon.Micros
}

func (a *App) judgeCmd(j Judges) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "judge",
		Short:   "Models as judges: measure them on labelled cases, score stored plays anew",
		Example: "  agon judge calibrate\n  agon judge calibrate cases.jsonl --model NAME\n  agon judge rescore {arena} --scorer NAME",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.judgeCalibrateCmd(j), a.judgeRescoreCmd(j))
	return cmd
}

func (a *App) judgeCalibrateCmd(j Judges) *cobra.Command {
	var o JudgeCalibrateOptions
	var budget float64
	cmd := &cobra.Command{
		Use:   "calibrate [FILE]",
		Short: "Compare a judge with labels: agreement, false accepts, false rejects",
		Long: `Judge labelled cases and compare. A judge is measured by its prompt (--prompt); without FILE
on the cases that ship with agon, some of which try to talk the judge over. FILE has one JSON
object a line:

` + examForms(j.Exams) + `
--prompt pairwise asks in both orders, as arenas of queries do: a case whose orders disagree is
wrong, and position says how many do (flipped) and how often the first answer is preferred
(first). A case without a verdict counts as neither right nor wrong. kappa is Cohen's: agreement
beyond what chance gives; ci is its 95 % interval. false_accept has the rate of false accepts
for each class of case. The result is kept in the data directory (--data): an arena of that
server decides seats by a judge only if its last calibration passes the arena's gate. Without a
configured model words are compared, as in demos (demo: true): that is not kept and passes no gate.
JSON: {prompt, model, scorer, cases, judged, failed, agree, false_accepts, false_rejects, agreement,
kappa, ci, false_accept, negatives, false_accept_rate, false_reject_rate, position: {flipped,
first}, gate, passed, why, cost_micros, demo, kept, wrong}.
Exit codes: 0 all were judged and the gate is passed, 3 some got no verdict, 7 the judge is
below the gate, 9 none got a verdict.`,
		Example: "  agon judge calibrate\n  agon judge calibrate --prompt pairwise\n  agon judge calibrate cases.jsonl --budget 0.50 --jq .kappa\n  agon judge calibrate --model a,b,c --panel 3",
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
			if i := slices.IndexFunc(j.Exams, func(x judge.Exam) bool { return x.Prompt.Name == o.Prompt }); i < 0 {
				return output.Usage("prompt", "give one of "+strings.Join(examNames(j.Exams), ", "), "--prompt %q: no judge has such a prompt", o.Prompt)
			} else if o.Panel > 1 && !j.Exams[i].Votes {
				return output.Usage("panel", "leave it out", "--panel %d: judges with prompt %s have no panel", o.Panel, o.Prompt)
			}
			if o.Panel < 0 || o.Panel > 9 {
				return output.Usage("panel", "give 0 to 9", "--panel %d: out of range", o.Panel)
			}
			if !(o.Gate >= -1 && o.Gate < 1) {
				return output.Usage("gate", "give at least -1 and less than 1", "--gate %g: out of range", o.Gate)
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
			case !c.Passed:
				return &Exit{Code: CodeRefused}
			case c.Failed > 0:
				return &Exit{Code: CodePartly}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Prompt, "prompt", judge.SupportPrompt().Name, "measure judges with this `prompt`: "+strings.Join(examNames(j.Exams), ", "))
	cmd.Flags().StringVar(&o.Model, "model", "", "judge with this `model`; of several between commas each stands in for the one before (default AGON_JUDGE_MODEL, or the gateway's first)")
	cmd.Flags().IntVar(&o.Panel, "panel", 0, "let this `many` of the models judge each case, and the most votes count")
	cmd.Flags().Float64Var(&o.Gate, "gate", judge.GateKappa, "the `kappa` that the lower end of the interval must reach")
	cmd.Flags().Float64Var(&budget, "budget", 0.5, "spend at most this many `dollars`")
	return cmd
}

func examNames(list []judge.Exam) []string {
	out := make([]string, 0, len(list))
	for _, x := range list {
		out = append(out, x.Prompt.Name)
	}
	return out
}

// examForms has a line for each exam: its prompt, and what a case looks like.
func examForms(list []judge.Exam) string {
	var b strings.Builder
	for _, x := range list {
		fmt.Fprintf(&b, "  %-10s %s\n", x.Prompt.Name, x.Form)
	}
	return b.String()
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
	var rows [][]output.Cell
	for _, k := range slices.Sorted(maps.Keys(c.FalseAccept)) {
		rows = append(rows, []output.Cell{output.Text(k), percent(c.FalseAccept[k])})
	}
	h.Table([]output.Column{{Title: "false accepts of class"}, {Title: "share", Right: true}}, rows)
	if p := c.Position; p != nil {
		h.Line("the order of the answers decided %.1f %% of the cases; %.1f %% of all verdicts went to the first answer", 100*p.Flipped, 100*p.First)
	}
	h.Line("Cohen's kappa %.3f, 95 %% interval %.3f to %.3f; %s", c.Kappa, c.CI[0], c.CI[1], c.Why)
	if c.Kept {
		h.Line("kept for the arenas of this data directory")
	}
}
