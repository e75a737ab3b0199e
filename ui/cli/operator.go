package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) operatorCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run an arena: pause, retune, cancel, ban, retry; with the operator's key",
		Long: `What only the operator may do. Every act is signed with the operator's key (wallet
"operator" below the data directory of the server) and written down with its reason.`,
		Example: "  agon operator pause {arena} --wallet.name operator\n  agon operator log",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, s := range []struct {
		verb, short, why string
		state            agon.ArenaState
	}{
		{"open", "Take submissions again", "the model is back", agon.ArenaOpen},
		{"pause", "Take no submissions and drain the queue", "the model is away", agon.ArenaPaused},
		{"hold", "Take and play nothing: what is under way goes back into the queue", "the provider bills twice", agon.ArenaHeld},
		{"close", "Take no submissions any more", "the season is over", agon.ArenaClosed},
	} {
		cmd.AddCommand(a.act(s.verb+" ARENA", s.short, "agon operator "+s.verb+" {arena} --reason '"+s.why+"'", false, func(ctx context.Context, c *client.Client, id, reason string) (any, error) {
			if err := c.SetArenaState(ctx, id, s.state, reason); err != nil {
				return nil, err
			}
			return c.Arena(ctx, id)
		}))
	}
	cmd.AddCommand(
		a.act("cancel RUN", "Cancel a run: it ends without a score", "agon operator cancel RUN --reason 'the task was broken'", true, func(ctx context.Context, c *client.Client, id, reason string) (any, error) {
			if err := c.CancelRun(ctx, id, reason); err != nil {
				return nil, err
			}
			return c.Run(ctx, id)
		}),
		a.act("ban SUBMISSION", "Take a submission out: its runs end, its seat falls, no corpus takes its rows", "agon operator ban SUBMISSION --reason 'it copied hidden tests'", true, func(ctx context.Context, c *client.Client, id, reason string) (any, error) {
			return c.Ban(ctx, id, reason)
		}),
		a.act("retry SUBMISSION", "Play again what it lacks through faults of ours", "agon operator retry SUBMISSION --reason 'the provider is back'", true, func(ctx context.Context, c *client.Client, id, reason string) (any, error) {
			return c.Retry(ctx, id, reason)
		}),
		a.act("grant SUBMISSION", "Grant a submission's appeal: its entry and attempt are given back", "agon operator grant SUBMISSION --reason 'the replay differs'", true, func(ctx context.Context, c *client.Client, id, reason string) (any, error) {
			return c.AnswerAppeal(ctx, id, true, reason)
		}),
		a.act("deny SUBMISSION", "Deny a submission's appeal", "agon operator deny SUBMISSION --reason 'the replay scores the same'", true, func(ctx context.Context, c *client.Client, id, reason string) (any, error) {
			return c.AnswerAppeal(ctx, id, false, reason)
		}),
		a.fundCmd(), a.canaryCmd(), a.canariesCmd(), a.vettingCmd(), a.retuneCmd(), a.gatewayKeyCmd(), a.operatorLogCmd(), a.webhookCmd(),
	)
	return cmd
}

// idsOf are the ids that a command takes, by the word in its use.
func idsOf(use string) func(context.Context, *client.Client) ([]string, error) {
	switch _, what, _ := strings.Cut(use, " "); what {
	case "RUN":
		return runIDs
	case "SUBMISSION":
		return SubmissionIDs
	}
	return arenaIDs
}

// meant is the id that a name means, by the word in the use of the command that takes it.
func (a *App) meant(ctx context.Context, c *client.Client, use, name string) (string, error) {
	switch _, what, _ := strings.Cut(use, " "); what {
	case "RUN":
		return a.runID(ctx, c, name)
	case "SUBMISSION":
		return a.submissionID(ctx, c, name)
	}
	return name, nil
}

// act is a command that does one thing to one thing and prints what became of it.
func (a *App) act(use, short, example string, reasoned bool, do func(ctx context.Context, c *client.Client, id, reason string) (any, error)) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ". JSON: what it was done to, as it is now.", Example: "  " + example, Args: Args(1, 1, "one id"),
		ValidArgsFunction: a.Complete(idsOf(use)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reasoned && reason == "" {
				return output.Usage("reason", "add --reason 'why'", "say why: it is written down")
			}
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			id, err := a.meant(cmd.Context(), c, use, args[0])
			if err != nil {
				return err
			}
			v, err := do(cmd.Context(), c, id, reason)
			if err != nil {
				return err
			}
			done := "done"
			switch x := v.(type) {
			case *client.Arena:
				done = string(x.State)
			case *agon.Appeal:
				done = "its appeal is " + x.State
				if x.State == agon.AppealOpen {
					done += "; answered by " + When(x.Deadline) + ", or else granted" + waitsFor(x)
				}
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: v, IDs: []string{id}, Human: func(h *output.Human) { h.Line("%s: %s", args[0], done) }})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is written down")
	return cmd
}

// waitsFor says that nobody plays an appeal again as things are.
func waitsFor(x *agon.Appeal) string {
	if !x.Alone {
		return ""
	}
	return "; no second validator serves the arena now, and what is played again waits for one"
}

func (a *App) retuneCmd() *cobra.Command {
	var leases, attempts, perColdkey int
	var budget int64
	var reason string
	var plan bool
	cmd := &cobra.Command{
		Use: "retune ARENA", Short: "Change an arena's numbers while it runs",
		Long: "Change an arena's numbers while it runs. Runs that are planned keep theirs. JSON: the arena.\n" +
			"--plan changes nothing and says what the change would do, counted in the newest 500 runs and\n" +
			"the last seven days' submissions. JSON: {arena, changes: [{field, from, to, touched, of, effect}]}.",
		Example: "  agon operator retune {arena} --max-leases 4 --reason 'the model is slow today'", Args: Args(1, 1, "one arena"),
		ValidArgsFunction: a.Complete(arenaIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := client.RetuneRequest{Reason: reason}
			set := cmd.Flags().Changed
			if set("max-leases") {
				r.MaxLeases = &leases
			}
			if set("attempts") {
				r.Attempts = &attempts
			}
			if set("per-coldkey") {
				r.SubmissionsPerColdkey = &perColdkey
			}
			if set("budget-micros") {
				m := agon.Micros(budget)
				r.BudgetMicros = &m
			}
			if r.Retune == (client.Retune{}) {
				return output.Usage("", "agon operator retune --help shows them", "nothing to change: name at least one number")
			}
			if reason == "" && !plan {
				return output.Usage("reason", "add --reason 'why'", "say why: it is written down")
			}
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			if plan {
				v, err := c.RetunePlan(cmd.Context(), args[0], r.Retune)
				if err != nil {
					return err
				}
				return a.Printer.Print(cmd.Context(), output.Result{Value: v, IDs: []string{v.Arena}, Human: func(h *output.Human) {
					for _, x := range v.Changes {
						h.Line("%s %d to %d: %s", x.Field, x.From, x.To, x.Effect)
					}
					if len(v.Changes) == 0 {
						h.Line("%s has these numbers already", v.Arena)
					}
				}})
			}
			v, err := c.Retune(cmd.Context(), args[0], r)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: v, IDs: []string{args[0]}, Human: func(h *output.Human) { h.Line("%s: done", args[0]) }})
		},
	}
	cmd.Flags().IntVar(&leases, "max-leases", 0, "leases that one validator may hold")
	cmd.Flags().IntVar(&attempts, "attempts", 0, "retries of a run after a fault of ours")
	cmd.Flags().IntVar(&perColdkey, "per-coldkey", 0, "submissions of one coldkey a day (0: no cap)")
	cmd.Flags().BoolVar(&plan, "plan", false, "change nothing; say what the change would do")
	cmd.Flags().Int64Var(&budget, "budget-micros", 0, "money of one run, in millionths of a US dollar")
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is written down")
	return cmd
}

// maxSuccession bounds the file of a succession in bytes.
const maxSuccession = 4096

func (a *App) gatewayKeyCmd() *cobra.Command {
	var file string
	var r client.GatewayKey
	cmd := &cobra.Command{
		Use: "gateway-key ARENA", Short: "Put another key of the arena's gateway in force",
		Long: `Put another key of the arena's gateway in force: the one that agon gateway rotate made
(--succession, signed by the old key), or, where the old key is lost or stolen, one that you name
(--revoke --key). New statements need the new key at once. What the old one signed is checked with
it as before; what a revoked key signs later is worth nothing. JSON: the arena.`,
		Example: "  agon operator gateway-key {arena} --succession succession.json --reason 'yearly'\n  agon operator gateway-key {arena} --revoke --key 5F… --reason 'the host was broken into'",
		Args:    Args(1, 1, "one arena"), ValidArgsFunction: a.Complete(arenaIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (file == "") == !r.Revoke || r.Revoke && r.Key == "" {
				return output.Usage("succession", "give --succession FILE, or --revoke with --key ADDRESS", "which key follows")
			}
			if r.Reason == "" {
				return output.Usage("reason", "add --reason 'why'", "say why: it is written down")
			}
			if file != "" {
				f, err := os.Open(file)
				if err != nil {
					return fmt.Errorf("read succession: %w", err)
				}
				defer f.Close()
				b, err := io.ReadAll(io.LimitReader(f, maxSuccession+1))
				if err != nil {
					return fmt.Errorf("read succession: %w", err)
				}
				if len(b) > maxSuccession || json.Unmarshal(b, &r.Succession) != nil || r.Succession == nil {
					return output.Usage("succession", "give what agon gateway rotate -o json printed", "%s is not a succession", file)
				}
			}
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			v, err := c.GatewayKey(cmd.Context(), args[0], r)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: v, IDs: []string{args[0]}, Human: func(h *output.Human) {
				h.Line("%s: statements are signed by %s from now on", args[0], v.Policy.GatewayKey)
			}})
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "succession", "", "`file` that agon gateway rotate -o json printed")
	f.BoolVar(&r.Revoke, "revoke", false, "the old key is not to be believed any more")
	f.StringVar(&r.Key, "key", "", "with --revoke, the `address` of the new key")
	f.StringVar(&r.Reason, "reason", "", "why; it is written down")
	return cmd
}

func (a *App) operatorLogCmd() *cobra.Command {
	return &cobra.Command{
		Use: "log", Short: "What the operator did and why, newest first",
		Long: "List what the operator did and why, newest first. JSON: [{at, actor, what, target, reason, change}].", Example: "  agon operator log", Args: Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			list, err := c.Actions(cmd.Context())
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.List(list, func(x agon.OperatorAction) string { return x.Target }, func(h *output.Human) {
				rows := make([][]output.Cell, len(list))
				for i, x := range list {
					rows[i] = []output.Cell{output.Text(When(x.At)), output.Text(x.What), output.Text(x.Target), output.Text(x.Change), output.Text(x.Reason)}
				}
				h.Table([]output.Column{{Title: "when"}, {Title: "what"}, {Title: "target", Min: 8}, {Title: "change", Min: 8}, {Title: "reason", Min: 10}}, rows)
			}))
		},
	}
}

func (a *App) webhookCmd() *cobra.Command {
	show := func(ctx context.Context, w *client.Webhooks) error {
		return a.Printer.Print(ctx, output.Result{Value: w, IDs: ids(w.Items, func(h agon.Webhook) string { return h.ID }), Human: func(h *output.Human) {
			h.Line("signed with %s", w.Key)
			rows := make([][]output.Cell, len(w.Items))
			for i, x := range w.Items {
				rows[i] = []output.Cell{output.Text(x.ID), output.Text(x.URL), output.Text(fmt.Sprint(x.Types)), output.Text(x.Disabled)}
			}
			h.Table([]output.Column{{Title: "id", Min: 8}, {Title: "url", Min: 12}, {Title: "types"}, {Title: "disabled", Min: 8}}, rows)
		}})
	}
	cmd := &cobra.Command{
		Use: "webhook", Short: "Tell other programs of decisions, new champions and the operator's acts",
		Long: `Webhooks by the Standard Webhooks protocol, signed with ed25519 (v1a). Types: submission.decided,
seat.taken, operator.acted. A message that fails is sent again, with growing pauses, for about three days.`,
		Example: "  agon operator webhook add https://example.org/hook --types seat.taken\n  agon operator webhook", Args: Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			w, err := c.Webhooks(cmd.Context())
			if err != nil {
				return err
			}
			return show(cmd.Context(), w)
		},
	}
	var types []string
	add := &cobra.Command{
		Use: "add URL", Short: "Tell an address of events", Long: "Tell an address of events. JSON: {id, url, types, created_at}.", Example: "  agon operator webhook add https://example.org/hook --types seat.taken", Args: Args(1, 1, "one address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			h, err := c.AddWebhook(cmd.Context(), client.WebhookRequest{URL: args[0], Types: types})
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: h, IDs: []string{h.ID}, Human: func(x *output.Human) { x.Line("%s", h.ID) }})
		},
	}
	add.Flags().StringSliceVar(&types, "types", nil, "event types (default: all)")
	cmd.AddCommand(add, &cobra.Command{
		Use: "remove ID", Short: "Tell it no more", Long: "Tell it no more. JSON: those that are left.", Example: "  agon operator webhook remove wh_…", Args: Args(1, 1, "one id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			w, err := c.RemoveWebhook(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return show(cmd.Context(), w)
		},
	})
	return cmd
}

// arenaNewCmd writes an arena file to start from.
func (a *App) arenaNewCmd(f Arenas) *cobra.Command {
	var dataset string
	cmd := &cobra.Command{
		Use: "new KIND [FILE]", Short: "Write a commented arena file to start from",
		Long:    "Write a commented arena file of a kind (default: ./arena.toml). --dataset names a directory of tasks in\nplace of the kind's shipped sets. JSON: {file, kind}.",
		Example: "  agon arena new {kind} ./mine.toml\n  agon arena check ./mine.toml && agon up --arena ./mine.toml", Args: Args(1, 2, "a kind and at most one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.Template == nil {
				return Missing("arena new")
			}
			path := "arena.toml"
			if len(args) == 2 {
				path = args[1]
			}
			text, err := f.Template(args[0])
			if err != nil {
				return err
			}
			if dataset != "" {
				if text, err = withDataset(text, path, dataset); err != nil {
					return err
				}
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return &agon.Error{Code: "exists", Status: 409, Field: "file", Message: path + " is there already", Mend: "name another file"}
			}
			if err == nil {
				_, err = f.Write(text)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				return fmt.Errorf("write arena file: %w", err)
			}
			v := map[string]string{"file": path, "kind": args[0]}
			return a.Printer.Print(cmd.Context(), output.Result{Value: v, IDs: []string{path}, Human: func(h *output.Human) {
				h.Line("%s", path)
				h.Line("next: agon arena check %s && agon up --arena %s", path, path)
			}})
		},
	}
	cmd.Flags().StringVar(&dataset, "dataset", "", "play the tasks of this `directory`")
	return cmd
}

var setsLine = lazyregexp.New(`(?m)^sets = \[[^\]]*\].*$`)

// withDataset names a directory of tasks in an arena file that will stand at path:
// folders are relative to the file.
func withDataset(text []byte, path, dir string) ([]byte, error) {
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return nil, output.Usage("dataset", "name a directory of task directories", "--dataset %s: no such directory", dir)
	}
	if !filepath.IsAbs(dir) {
		base, err := filepath.Abs(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		whole, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if dir, err = filepath.Rel(base, whole); err != nil {
			return nil, err
		}
		if dir = filepath.ToSlash(dir); !strings.HasPrefix(dir, "../") {
			dir = "./" + dir
		}
	}
	return setsLine().ReplaceAllLiteral(text, []byte("sets = ["+strconv.Quote(dir)+"]")), nil
}

// arenaCheckCmd checks an arena file and names every mistake.
func (a *App) arenaCheckCmd(f Arenas) *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Check an arena file; every mistake is named at once",
		Long: "Check an arena file without opening the arena, and say what gain its rule, set and budget can tell apart. Exit code 7 with every mistake. JSON: {file, id, kind, tasks, rule, told: {gain, discordance, for_5_points, copy_1, least_pairs, max_usd}, judge: {seats, sentence, judges}, gpus: {need: tasks}}.", Example: "  agon arena check ./mine.toml", Args: Args(1, 1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.Check == nil {
				return Missing("arena check")
			}
			c, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			v, err := f.Check(c, args[0])
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: v, IDs: []string{v.ID}, Human: func(h *output.Human) {
				h.Line("%s: valid: %s, %d tasks", v.ID, v.Kind, v.Tasks)
				for _, l := range v.lines() {
					h.Line("%s", l)
				}
			}})
		},
	}
}

// ArenaChecked is what `agon arena check` prints.
type ArenaChecked struct {
	File  string `json:"file"`
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Tasks int    `json:"tasks"`
	Rule  string `json:"rule"`
	// Told is what the rule can tell apart; nil where the kind decides itself.
	Told *incentive.Told `json:"told,omitempty"`
	// Judge says whether it will decide seats; nil where its judge does not err.
	Judge *client.JudgeStanding `json:"judge,omitempty"`
	// GPUs says how many of the tasks need which GPUs.
	GPUs map[string]int `json:"gpus,omitempty"`
}

// lines say what the arena can tell.
func (v *ArenaChecked) lines() (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if v.Judge != nil {
		say("judge: %s", v.Judge.Sentence)
	}
	for _, need := range slices.Sorted(maps.Keys(v.GPUs)) {
		say("%d of the tasks need %s: only validators that have that play them; the operator's page says when none has", v.GPUs[need], need)
	}
	t := v.Told
	if t == nil {
		return out
	}
	fig := incentive.Figure
	if t.Gain > 0 {
		say("rule %s: a true gain of %s points takes the seat four times in five (equal agents differ in %s %% of the tasks)", v.Rule, fig(100*t.Gain), fig(100*t.Discordance))
	} else {
		say("rule %s: no gain takes the seat four times in five", v.Rule)
	}
	switch {
	case t.Least > 0 && t.For5 > 0:
		say("%d pairs of each validator would tell 5 points; at least %d won in a row seat anybody", t.For5, t.Least)
	case t.Least > 0:
		say("more than 25600 pairs of each validator would be needed to tell 5 points")
	default:
		say("luck: an identical copy takes the seat in %s %% of single tries; %d tasks would tell 5 points", fig(100*t.Copy), t.For5)
	}
	if t.MaxUSD > 0 {
		say("the operator pays for the pairs of an entry: at most $%s", fig(t.MaxUSD))
	}
	return out
}
