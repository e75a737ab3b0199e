package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) vettingCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "vetting", Short: "See and answer what is asked of submissions before they are played, or sit",
		Long: `Some arenas ask somebody outside, a judge's program or a person, before a submission is
played (entry) and before one sits (seat). A worker takes a question for a time, keeps it
while it works, and answers passed, refused or unsure. The operator settles what a worker
was unsure of. All these commands need the operator's key.`,
		Example: "  agon operator vetting list {arena}\n  agon operator vetting claim {arena}",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.vettingListCmd(), a.vettingClaimCmd(), a.vettingExtendCmd(), a.vettingAnswerCmd(), a.vettingReviewCmd())
	return cmd
}

// vettingWhat adds the flag of the question.
func vettingWhat(cmd *cobra.Command, what *string) {
	cmd.Flags().StringVar(what, "what", "entry", "the `question`: entry or seat")
}

func (a *App) vettingListCmd() *cobra.Command {
	var what, state string
	cmd := &cobra.Command{
		Use: "list ARENA", Short: "List vettings of an arena, the newest first",
		Long: `The newest vettings of an arena. JSON: an array of {id, arena, submission, what, state, tries,
worker, lease_until, next_at, verdict, score, confidence, summary, error, actor, created_at,
ended_at}. States: open, held (a worker has it), sent (for the operator to settle), done.`,
		Example: "  agon operator vetting list {arena} --state sent",
		Args:    Args(1, 1, "one arena"), ValidArgsFunction: a.Complete(arenaIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			list, err := c.Vettings(cmd.Context(), args[0], what, state)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: list, IDs: ids(list, func(v client.Vetting) string { return v.ID }), Human: func(h *output.Human) { vettingsHuman(h, list) }})
		},
	}
	vettingWhat(cmd, &what)
	cmd.Flags().StringVar(&state, "state", "", "only those in this `state`")
	return cmd
}

func vettingsHuman(h *output.Human, list []client.Vetting) {
	var rows [][]output.Cell
	for _, v := range list {
		rows = append(rows, []output.Cell{
			output.Text(When(v.CreatedAt)), output.Text(v.ID), output.Text(v.Submission), output.Text(v.State), output.Text(v.Worker), output.Text(strconv.Itoa(v.Tries)), output.Text(v.Verdict), output.Text(v.Summary + v.Error),
		})
	}
	h.Table([]output.Column{
		{Title: "when"},
		{Title: "id", ID: true},
		{Title: "submission", ID: true},
		{Title: "state"},
		{Title: "worker"},
		{Title: "tries", Right: true},
		{Title: "verdict"},
		{Title: "says", Min: 8},
	}, rows)
}

// vettingAct is a command that changes one vetting and prints it.
func (a *App) vettingAct(use, short, long, example string, do func(ctx context.Context, c *client.Client, id string) (*client.Vetting, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long + " JSON: as agon operator vetting list, one.", Example: example,
		Args: Args(1, 1, "one vetting or arena"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			v, err := do(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: v, IDs: []string{v.ID}, Human: func(h *output.Human) {
				switch {
				case v.ID == "":
					h.Line("nothing waits")
				case v.Token != "":
					h.Line("%s: submission %s; held until %s by the token %s", v.ID, v.Submission, When(*v.LeaseUntil), v.Token)
				default:
					h.Line("%s: submission %s is %s %s", v.ID, v.Submission, v.State, v.Verdict)
				}
			}})
		},
	}
}

func (a *App) vettingClaimCmd() *cobra.Command {
	r := client.VettingClaim{}
	hold := 5 * time.Minute
	cmd := a.vettingAct("claim ARENA", "Take the vetting that has waited longest",
		"Take the vetting that has waited longest, and the token by which it is kept and answered. Its submission's files: agon submission download.",
		"  agon operator vetting claim {arena} --worker me --for 10m", func(ctx context.Context, c *client.Client, arena string) (*client.Vetting, error) {
			r.Seconds = int(hold / time.Second)
			return c.ClaimVetting(ctx, arena, r)
		})
	vettingWhat(cmd, &r.What)
	cmd.Flags().StringVar(&r.Worker, "worker", "operator", "`name` for the lists")
	cmd.Flags().DurationVar(&hold, "for", hold, "`how long`, 10s to 2h")
	return cmd
}

func (a *App) vettingExtendCmd() *cobra.Command {
	r := client.VettingHold{}
	hold := 5 * time.Minute
	cmd := a.vettingAct("extend VETTING", "Keep a vetting that is held", "Keep a vetting for longer, from now.",
		"  agon operator vetting extend VETTING --token TOKEN --for 30m", func(ctx context.Context, c *client.Client, id string) (*client.Vetting, error) {
			r.Seconds = int(hold / time.Second)
			return c.ExtendVetting(ctx, id, r)
		})
	cmd.Flags().StringVar(&r.Token, "token", "", "the `token` of the claim")
	cmd.Flags().DurationVar(&hold, "for", hold, "`how long`, 10s to 2h")
	return cmd
}

func (a *App) vettingAnswerCmd() *cobra.Command {
	r := client.VettingAnswer{}
	cmd := a.vettingAct("answer VETTING", "Answer a vetting that is held", "Answer a vetting: passed, refused or unsure; or an error, after which another try is made later.",
		"  agon operator vetting answer VETTING --token TOKEN --verdict passed --summary 'reads as its own work'", func(ctx context.Context, c *client.Client, id string) (*client.Vetting, error) {
			if r.Verdict == "" && r.Error == "" {
				return nil, output.Usage("verdict", "add --verdict passed, refused or unsure, or --error", "say what came of it")
			}
			return c.AnswerVetting(ctx, id, r)
		})
	f := cmd.Flags()
	f.StringVar(&r.Token, "token", "", "the `token` of the claim")
	f.StringVar(&r.Verdict, "verdict", "", "`word`: passed, refused or unsure")
	f.StringVar(&r.Summary, "summary", "", "a `sentence` for the miner")
	f.Float64Var(&r.Score, "score", 0, "a `number` of 0 to 1")
	f.Float64Var(&r.Confidence, "confidence", 0, "a `number` of 0 to 1")
	f.StringVar(&r.Error, "error", "", "`why` it could not be answered")
	return cmd
}

func (a *App) vettingReviewCmd() *cobra.Command {
	r := client.VettingReview{}
	cmd := a.vettingAct("review VETTING", "Settle a vetting that its worker was unsure of", "Settle a vetting that its worker was unsure of: it is refused, or with --pass it passes.",
		"  agon operator vetting review VETTING --pass --reason 'the table is of constants'", func(ctx context.Context, c *client.Client, id string) (*client.Vetting, error) {
			if r.Reason == "" {
				return nil, output.Usage("reason", "add --reason 'why'", "say why: it is written down")
			}
			return c.ReviewVetting(ctx, id, r)
		})
	cmd.Flags().BoolVar(&r.Pass, "pass", false, "it passes")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why; it is written down")
	return cmd
}
