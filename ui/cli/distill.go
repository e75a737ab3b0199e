package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/corpus/distill"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/agon-arena/agon/ui/cli/progress"
)

// DistillOptions is `agon distill`.
type DistillOptions struct {
	Common
	distill.Config
	// TaskDirs are tasks to train on, where no arena is named; Eval are tasks that
	// measure, in their own directories.
	TaskDirs, Eval []string
	DryRun         bool
}

// DistillResult is what came of it: the plan alone with DryRun.
type DistillResult struct {
	Plan   *distill.Plan
	Report *distill.Report
}

func (a *App) distillCmd(r Roles) *cobra.Command {
	var o DistillOptions
	cmd := &cobra.Command{
		Use:   "distill --base DIR --method METHOD --out DIR",
		Short: "Train a model on plays, and measure it on tasks that it never saw",
		Long: `Train a model on plays with TRL, in a virtual environment that the command makes (its own
copy of torch: some 6 GB). sft trains on solved plays of --corpus or --rows, kto on all of
them, dpo on pairs; rft plays each task -k times with the base, keeps what the arena's
scorer calls solved, and trains on that; grpo samples while it trains. Then base and model
play the held-out tasks, a fifth of the public ones by hash or those of --eval, in pairs.
The directory holds model, plays, report.md and a digest of each; the same command goes on
where it was stopped. Hidden tasks and tasks that are held back are never used.

--dry-run checks everything but the steps. JSON of it: {method, rows, kept, tokens, steps,
memory_bytes, parameters, held_out, python, ready, missing}; what has to be mended first is
in missing. Else: {method, arena, base, model, rows, kept, steps, loss, held_out, before,
after, gain, p, k, contaminated, seconds, artifacts}. docs/training.md has flags, memory
and time for real bases.`,
		Example: "  agon distill --arena {arena} --base ./Qwen3-4B --method rft --out ./model --dry-run\n  agon distill --arena {arena} --corpus ./corpus --base ./Qwen3-4B --method sft --lora 32 --out ./model",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.Distill == nil {
				return Missing("distill")
			}
			if o.Arena != "" && len(o.TaskDirs) > 0 {
				return output.Usage("arena", "name an arena or tasks", "give one of --arena and --tasks")
			}
			if o.Corpus != "" && o.Rows != "" {
				return output.Usage("rows", "name a corpus or a file", "give one of --corpus and --rows")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			got, err := r.Distill(cmd.Context(), o, func(e distill.Event) {
				common.Progress(progress.State{Label: e.Stage, Done: e.Step, Total: e.Of})
			})
			done()
			if err != nil {
				return err
			}
			if o.DryRun {
				return a.Printer.Print(cmd.Context(), output.Result{Value: got.Plan, Human: func(h *output.Human) { planHuman(h, got.Plan) }})
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: got.Report, IDs: []string{got.Report.Model}, Human: func(h *output.Human) { reportHuman(h, got.Report) }})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Arena, "arena", "", "arena `file`, or the id of an arena that agon ships")
	f.StringSliceVar(&o.TaskDirs, "tasks", nil, "`directory` of tasks of one kind, instead of an arena")
	f.StringSliceVar(&o.Eval, "eval", nil, "`directory` of tasks to measure by (default: a fifth of the tasks, by hash)")
	f.StringVar(&o.Base, "base", "", "`directory` of the model to train, in the form of transformers")
	f.StringVar(&o.Method, "method", "", strings.Join(distill.Methods, ", "))
	Register(cmd, "method", distill.Methods...)
	f.StringVar(&o.Out, "out", "", "`directory` to make")
	f.StringVar(&o.Corpus, "corpus", "", "`directory` of agon corpus build to train on")
	f.StringVar(&o.Rows, "rows", "", "`file` of plays to train on: JSON lines {messages, tools?, task, reward}")
	f.IntVarP(&o.K, "plays", "k", 0, "plays of a task that are sampled (4)")
	f.Float64Var(&o.Epochs, "epochs", 0, "times that each row is trained on (1)")
	f.IntVar(&o.Batch, "batch", 0, "rows in a step (16)")
	f.IntVar(&o.MaxLength, "max-length", 0, "`tokens` of a row; longer ones are left out (14336)")
	f.Float64Var(&o.LearningRate, "learning-rate", 0, "the learning rate (1e-4; kto, dpo and grpo 1e-6)")
	f.IntVar(&o.LoRA, "lora", 0, "`rank` of LoRA; 0 trains all weights")
	f.IntVar(&o.MaxSteps, "max-steps", 0, "end after so many steps")
	f.Float64Var(&o.Temperature, "temperature", 0, "of sampled plays (1)")
	f.IntVar(&o.TurnTokens, "turn-tokens", 0, "`tokens` of one turn of the model (512)")
	f.Int64Var(&o.Seed, "seed", 0, "of training and sampling (7)")
	f.IntVar(&o.Threads, "threads", 0, "`number` of torch's threads on a CPU")
	f.BoolVar(&o.Scripted, "scripted", false, "rows by the stand-in script count, too")
	f.BoolVar(&o.DryRun, "dry-run", false, "check everything but the steps")
	return cmd
}

func planHuman(h *output.Human, p *distill.Plan) {
	h.Line("%s: %d rows, %d kept, %d tokens, %d steps; tasks to measure by: %d", p.Method, p.Rows, p.Kept, p.Tokens, p.Steps, p.Held)
	h.Line("%d parameters, about %d MiB of memory", p.Parameters, p.Memory>>20)
	if len(p.Missing) == 0 && !p.Ready {
		h.Line("the trainers' environment will be made: %s", p.Python)
	}
	for _, m := range p.Missing {
		h.Line("missing: %s", m)
	}
}

func reportHuman(h *output.Human, r *distill.Report) {
	h.Line("%s in %s: %d of %d plays, %d steps, %.0f s", r.Method, r.Model, r.Kept, r.Rows, r.Steps, r.Seconds)
	if r.Before != nil && r.After != nil && r.P != nil {
		h.Line("held-out tasks: %d; solved before %d, after %d; paired p = %.3g", r.HeldOut, r.Before.Solved, r.After.Solved, *r.P)
	}
}
