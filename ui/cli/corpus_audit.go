package cli

import (
	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/corpus/probe"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/agon-arena/agon/ui/cli/progress"
)

func (a *App) corpusAuditCmd() *cobra.Command {
	var cfg probe.Config
	var door, model, base, baseModel string
	var held, public []string
	cmd := &cobra.Command{
		Use:   "audit-model --door URL --held TASKS --public TASKS",
		Short: "Ask a model whether it was trained on tasks that are held back",
		Long: `Ask a model, behind a door that speaks OpenAI's completions, whether it knows tasks that it
must not know. TASKS are directories of tasks or files of JSON lines {task, text}. It looks
for the held tasks' canaries in what the model says; tests whether held tasks are more
familiar to it than public ones of the same maker (one-sided permutation test of the mean
log-probability of a token, of what it goes on to say where the door tells none); and ranks
each canary among made ones. As --public, name tasks that the model was not trained on
either, or --reference, a base that has seen neither.

Held tasks are sent to the door: it must be on this machine. Exit code 7 if the model is
caught, where p is at most --alpha over the two tests or a canary was said. JSON: {method, held,
public, mean_held, mean_public, p, alpha, canaries, canaries_ranked, canary_p, found,
copied, samples, caught, why}.`,
		Example: "  agon corpus audit-model --door http://127.0.0.1:8000/v1 --held ./held --public ./fresh\n  agon corpus audit-model --door http://127.0.0.1:8000/v1 --reference http://127.0.0.1:8001/v1 --held ./held --public ./public -o json",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if door == "" || len(held) == 0 || len(public) == 0 {
				return output.Usage("door", "agon corpus audit-model --door http://127.0.0.1:8000/v1 --held ./held --public ./public", "--door, --held and --public are needed")
			}
			if cfg.Door, err = probe.NewDoor(door, model); err != nil {
				return err
			}
			if base != "" {
				if cfg.Reference, err = probe.NewDoor(base, baseModel); err != nil {
					return err
				}
			}
			for _, x := range []struct {
				from []string
				to   *[]probe.Text
			}{{held, &cfg.Held}, {public, &cfg.Public}} {
				for _, path := range x.from {
					list, err := probe.Read(path)
					if err != nil {
						return err
					}
					*x.to = append(*x.to, list...)
				}
			}
			bar := a.bar()
			cfg.Progress = func(done, of int) { bar.Set(progress.State{Label: "asking the model", Done: done, Total: of}) }
			r, err := probe.Audit(cmd.Context(), cfg)
			bar.Close()
			if err != nil {
				return err
			}
			err = a.Printer.Print(cmd.Context(), output.Result{Value: r, Human: func(h *output.Human) { auditHuman(h, r) }})
			if err == nil && r.Caught {
				return &Exit{Code: CodeRefused}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&door, "door", "", "`url` of the model's door on this machine, ending in /v1")
	f.StringVar(&model, "model", "", "`name` that the door knows it by")
	f.StringVar(&base, "reference", "", "`url` of the door of a model that has seen neither held nor public tasks")
	f.StringVar(&baseModel, "reference-model", "", "`name` that its door knows it by")
	f.StringSliceVar(&held, "held", nil, "`tasks` that it must not know (again for more)")
	f.StringSliceVar(&public, "public", nil, "`tasks` of the same maker to compare with (again for more)")
	f.StringArrayVar(&cfg.Canaries, "canary", nil, "`mark` to look for besides those in the held tasks' files (again for more)")
	f.IntVar(&cfg.Samples, "samples", 0, "continuations of each beginning of a text (default 4)")
	f.IntVar(&cfg.Texts, "texts", 0, "texts of each side, drawn by the seed (default 256)")
	f.Float64Var(&cfg.Alpha, "alpha", 0, "`chance` of catching a model that knows nothing (default 0.01)")
	f.Int64Var(&cfg.Seed, "seed", 0, "of what is drawn")
	f.BoolVar(&cfg.BySamples, "by-samples", false, "do not ask for log-probabilities")
	return cmd
}

func auditHuman(h *output.Human, r *probe.Report) {
	what := "not caught"
	if r.Caught {
		what = "caught"
	}
	h.Line("%s: %d held and %d public tasks by %s, %d samples", what, r.Held, r.Public, r.Method, r.Samples)
	if r.P != nil {
		h.Line("held %.4g, public %.4g, p = %.3g", r.MeanHeld, r.MeanPublic, *r.P)
	}
	if r.RankP != nil {
		h.Line("%d canaries among made ones, p = %.3g", r.Ranked, *r.RankP)
	}
	for _, x := range r.Found {
		h.Line("it says the canary %s of %s", x.Canary, x.Task)
	}
	for _, x := range r.Copied {
		h.Line("it says the second half of %s", x)
	}
	for _, x := range r.Why {
		h.Line("%s", x)
	}
}
