package commands

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/miner"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/quorum"
	"github.com/agon-arena/agon/kinds/research/surface"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// TryInput is what is tried.
type TryInput struct {
	Dir     string        // of the task, with its hidden data; "": Task and Base
	Task    kr.Task       // what is public
	Base    *surface.Tree // of the checkout
	Patch   string
	Claim   map[string]any
	Against string // patch of the incumbent; "": the base
	Who     string // the incumbent's id or name
	Pairs   int    // of the duel, where the metric has noise
	Attempt int    // the how manieth of the coldkey it would be
}

// Tried is what came of it. Value, Pairs and Duel are those of this machine; Chance
// is that of a duel of validators by the same rule.
type Tried struct {
	Status    string             `json:"status"`
	Reason    string             `json:"reason"`
	Notes     string             `json:"notes"`
	Metric    string             `json:"metric_name"`
	Value     *float64           `json:"value"`
	Metrics   map[string]float64 `json:"metrics"`
	Incumbent string             `json:"incumbent"`
	Pairs     []quorum.Pair      `json:"pairs"`
	Duel      quorum.Duel        `json:"duel"`
	Chance    float64            `json:"chance"`
	Hidden    bool               `json:"hidden_data"` // the task's hidden data was there
	Log       string             `json:"log"`
}

// Try plays an entry in boxes of this machine.
type Try func(ctx context.Context, o kit.Options, in TryInput) (*Tried, error)

func (a commands) try() *cobra.Command {
	var c atServer
	var slug, dir, sidecar, against, taskDir, driver string
	var dirty bool
	var pairs, attempt int
	cmd := &cobra.Command{
		Use: "try --task-slug TASK --repo-dir DIR", Short: "Replay a workspace and duel with the best, on this machine", Args: cli.Args(0, 0, ""),
		Long: `Replay a workspace in boxes as validators do, then play it against the best, pair by pair, and say the chance to be
seated. Nothing is sent. The incumbent is the best whose patch the server shows, else the base; --against base or a
patch names another. Hidden data is not here unless --task names the task's directory: the benchmark then takes what it
takes on a miner's machine. Exit code 7 if the replay gives no number.`,
		Example: "  agon research try --task-slug my-task --repo-dir work --against base",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if pairs < 1 || pairs > 100 {
				return output.Usage("pairs", "1 to 100", "--pairs is %d", pairs)
			}
			mc, err := c.client(a, false)
			if err != nil {
				return err
			}
			t, err := findTask(cmd.Context(), mc, slug, false)
			if err != nil {
				return coded(err)
			}
			if sidecar, err = sidecarOf(cmd, dir, sidecar); err != nil {
				return err
			}
			s, err := gather(cmd.Context(), t, dir, sidecar, dirty)
			if err != nil {
				return coded(err)
			}
			in := TryInput{Dir: taskDir, Task: t.Task, Patch: s.Patch, Pairs: pairs, Attempt: attempt, Claim: map[string]any{"summary": s.Sidecar.Summary, "claimed_metrics": s.Sidecar.ClaimedMetrics}}
			if in.Base, err = miner.BaseTree(cmd.Context(), dir, s.BaseRef); err != nil {
				return err
			}
			if in.Who, in.Against, err = incumbent(cmd.Context(), mc, t, against); err != nil {
				return coded(err)
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			got, err := a.play(cmd.Context(), a.kits.Options(common, driver), in)
			if err != nil {
				return err
			}
			got.Hidden = taskDir != ""
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: got, Human: func(h *output.Human) { tell(h, got, attempt) }}); err != nil {
				return err
			}
			if got.Value == nil {
				return &agon.Error{Code: "not_accepted", Status: http.StatusUnprocessableEntity, Message: "the replay ended as " + got.Status + ": " + got.Notes, Mend: "the field log of -o json has what the benchmark said"}
			}
			return nil
		},
	}
	c.add(cmd)
	f := cmd.Flags()
	f.StringVar(&slug, "task-slug", "", "`slug` or id of the task")
	f.StringVar(&dir, "repo-dir", ".", "the checkout")
	f.StringVar(&sidecar, "submission-file", "submission.json", "the sidecar (default: in the checkout, else here)")
	f.StringVar(&against, "against", "best", "the incumbent: best, base or a patch `file`")
	f.StringVar(&taskDir, "task", "", "the task's `directory`, with its hidden data")
	f.BoolVar(&dirty, "allow-dirty", false, "leave changes outside the allowed paths out instead of refusing")
	f.IntVar(&pairs, "pairs", 6, "play so `many` pairs where the metric has noise")
	f.IntVar(&attempt, "attempt", 1, "the `number` of your coldkey's attempt: later ones need more evidence")
	cli.DriverFlag(cmd, &driver)
	return cmd
}

// tell says what came of a try.
func tell(h *output.Human, got *Tried, attempt int) {
	if got.Value == nil {
		h.Line("%s %s: %s", got.Status, got.Reason, got.Notes)
		return
	}
	h.Line("%s %v here, against %s", got.Metric, *got.Value, got.Incumbent)
	for i, p := range got.Pairs {
		h.Line("  pair %d: %v against %v", i+1, p.Challenger, p.Incumbent)
	}
	h.Line("%d of %d pairs won by more than %.4g; evidence %.3g of %.3g", got.Duel.Won, len(got.Pairs), got.Duel.Band, got.Duel.Evidence, got.Duel.Need)
	h.Line("chance to be seated by attempt %d: %.0f %%", attempt, 100*got.Chance)
	if !got.Hidden {
		h.Line("played without the task's hidden data, if it has any: validators' numbers may differ")
	}
}

// incumbent finds whom to play against: a name and its patch, "" for the base.
func incumbent(ctx context.Context, c *miner.Client, t *coordinator.TaskView, against string) (who, patch string, err error) {
	switch against {
	case "base":
		return "the base", "", nil
	case "best":
	default:
		b, err := os.ReadFile(against)
		if err != nil {
			return "", "", &agon.Error{Code: "no_file", Status: http.StatusUnprocessableEntity, Field: "against", Message: err.Error(), Mend: "name best, base or a patch"}
		}
		return against, string(b), nil
	}
	b, err := c.Do(ctx, http.MethodGet, "/api/v1/tasks/"+t.ID+"/best", nil, nil, false)
	var none *miner.APIError
	if errors.As(err, &none) && none.Status == http.StatusNotFound { // nobody holds the best
		return "the base", "", nil
	}
	if err != nil {
		return "", "", err
	}
	var best coordinator.BestView
	if err := json.Unmarshal(b, &best); err != nil || best.SubmissionID == "" {
		return "the base", "", err
	}
	if b, err = c.Do(ctx, http.MethodGet, "/api/v1/submissions/"+best.SubmissionID+"/detail", nil, nil, false); err != nil {
		return "", "", err
	}
	var detail coordinator.Detail
	if err := json.Unmarshal(b, &detail); err != nil {
		return "", "", err
	}
	if detail.Submission.Patch == nil || *detail.Submission.Patch == "" {
		return "", "", &agon.Error{Code: "patch_hidden", Status: http.StatusConflict, Field: "against", Message: "the server does not show the patch of the best", Mend: "compare with the base: --against base"}
	}
	return "the best, " + best.SubmissionID, *detail.Submission.Patch, nil
}
