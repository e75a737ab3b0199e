// Package commands is the command line of the research kind: agon research and
// agon merkle.
package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/miner"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
)

// commands makes the kind's commands of one invocation.
type commands struct {
	*cli.App
	kits kit.List
	play Try
}

// Of returns what the kind adds to the command line a.
func Of(a *cli.App, kits kit.List, try Try) []cli.Extra {
	c := commands{a, kits, try}
	return []cli.Extra{{Group: "play", Command: c.research()}, {Group: "play", Command: c.merkle()}}
}

// atServer holds the flags that every research command takes: the stock
// client's names, and agon's own wallet where none of them is given.
type atServer struct {
	url, mnemonic, name, hotkey, path, file string
}

func (c *atServer) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.url, "coordinator-url", "", "`address` of the coordinator (default: --url)")
	f.StringVar(&c.mnemonic, "hotkey-mnemonic", "", "`phrase` of the hotkey")
	f.StringVar(&c.name, "wallet-name", "", "wallet `name`")
	f.StringVar(&c.hotkey, "wallet-hotkey", "", "hotkey `name`")
	f.StringVar(&c.path, "wallet-path", "", "`directory` of wallets")
	f.StringVar(&c.file, "wallet-file", "", "`file` with the hotkey's phrase")
}

// client makes the client; it signs where sign is set.
func (c *atServer) client(a commands, sign bool) (*miner.Client, error) {
	out := &miner.Client{URL: strings.TrimRight(c.url, "/"), Now: a.Now}
	if out.URL == "" {
		conf, err := a.Config()
		if err != nil {
			return nil, err
		}
		out.URL = strings.TrimRight(conf.Get(config.URL), "/")
	}
	if !sign {
		return out, nil
	}
	key, err := c.key(a)
	if err != nil {
		return nil, err
	}
	out.Key = key
	return out, nil
}

func (c *atServer) key(a commands) (auth.Signer, error) {
	if c.mnemonic == "" && c.file == "" && c.name == "" && c.hotkey == "" && c.path == "" {
		return a.Key()
	}
	or := func(s, d string) string {
		if s == "" {
			return d
		}
		return s
	}
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	k, err := miner.Wallet{
		Mnemonic: c.mnemonic, File: c.file, Path: or(c.path, conf.Get(config.WalletPath)), Name: or(c.name, "default"), Hotkey: or(c.hotkey, "default"),
	}.Load()
	if err != nil {
		return nil, err
	}
	return k, nil
}

// coded gives an answer of the coordinator its exit code; the text stays the stock client's.
func coded(err error) error {
	var ae *miner.APIError
	var dirty *miner.DirtyError
	var no *coordinator.Refusal
	switch {
	case errors.As(err, &ae):
		return &agon.Error{Code: ae.Code(), Status: ae.Status, Message: ae.Text(), Mend: mendOf(ae)}
	case errors.As(err, &dirty):
		return &agon.Error{Code: "dirty_workspace", Status: 422, Message: dirty.Error(), Mend: "undo what lies outside, or send only what is allowed: --allow-dirty"}
	case errors.As(err, &no):
		return &agon.Error{Code: no.Code, Status: no.Status, Message: no.Message}
	case errors.Is(err, miner.ErrNoTask):
		return &agon.Error{Code: "no_task", Status: 404, Message: err.Error(), Mend: "list the live ones: agon research tasks"}
	case errors.Is(err, miner.ErrNoClaim):
		return &agon.Error{Code: "not_found", Status: 404, Message: err.Error(), Mend: "take the claim that `agon research start TASK` printed, or start anew"}
	case errors.Is(err, miner.ErrNothingToEvaluate):
		return &agon.Error{Code: "nothing_to_evaluate", Status: 404, Message: err.Error()}
	case errors.Is(err, miner.ErrNoPatch):
		return &agon.Error{Code: "empty_submission", Status: 422, Message: err.Error(), Mend: "change a file that the task allows, or give an artifact"}
	}
	return err
}

func (a commands) research() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "research",
		Short: "Claim research tasks, submit patches, follow their replays",
		Long: `Work with research arenas: claim a live task, change only the files that it allows,
submit the patch with the metric you claim, and follow its replays by validators.

list-tasks, signed-request, submit-workspace, mine-once, peer-evaluate-once and loop take the flags of the public
client of such coordinators and answer as it does; started under the name
` + stock + `, agon is that client.`,
		Example: "  agon research tasks\n  agon research start my-task work\n  agon research submit-workspace --claim-id CLAIM --repo-dir work",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tasks(), a.onboard(), a.start(), a.claim(), a.cancel(), a.status(), a.record(), a.check(), a.try(), a.importKernel(),
		a.listTasks(), a.signed(), a.submit(), a.mine("mine-once"), a.mine("peer-evaluate-once"), a.mine("loop"), a.builtins())
	return cmd
}

func (a commands) tasks() *cobra.Command {
	var c atServer
	cmd := &cobra.Command{
		Use: "tasks", Aliases: []string{"ls"}, Short: "List research tasks", Args: cli.Args(0, 0, ""),
		Example: "  agon research tasks\n  agon research tasks --jq '.[].slug'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			mc, err := c.client(a, false)
			if err != nil {
				return err
			}
			list, err := mc.Tasks(cmd.Context())
			if err != nil {
				return coded(err)
			}
			return a.Printer.Print(cmd.Context(), output.List(list, func(t coordinator.TaskView) string { return t.ID }, func(h *output.Human) {
				rows := [][]output.Cell{}
				for _, t := range list {
					rows = append(rows, []output.Cell{
						output.Text(t.Slug), cli.StateCell(t.State), output.Text(t.MetricName), output.Text(t.MetricDirection), output.Text(t.CompetitionMode), output.Text(t.Title),
					})
				}
				h.Table([]output.Column{{Title: "SLUG"}, {Title: "STATE"}, {Title: "METRIC"}, {Title: "DIRECTION"}, {Title: "MODE"}, {Title: "TITLE"}}, rows)
			}))
		},
	}
	c.add(cmd)
	return cmd
}

func (a commands) onboard() *cobra.Command {
	var c atServer
	cmd := &cobra.Command{
		Use: "onboard TASK", Short: "Show the contract of a task", Args: cli.Args(1, 1, "the slug or id of a task"),
		Long: "Show the contract of a task: what is rewarded, how it is replayed, what may be changed. Markdown on stdout.", Example: "  agon research onboard my-task",
		RunE: func(cmd *cobra.Command, in []string) error {
			mc, err := c.client(a, false)
			if err != nil {
				return err
			}
			t, err := findTask(cmd.Context(), mc, in[0], false)
			if err != nil {
				return coded(err)
			}
			b, err := mc.Do(cmd.Context(), "GET", "/api/v1/tasks/"+t.ID+"/onboard.md", nil, nil, false)
			if err != nil {
				return coded(err)
			}
			fmt.Fprintln(a.IO.Out, strings.TrimRight(plain.Clean(string(b)), "\n"))
			return nil
		},
	}
	c.add(cmd)
	return cmd
}

func (a commands) claim() *cobra.Command {
	var c atServer
	var description, item string
	cmd := &cobra.Command{
		Use: "claim TASK", Short: "Claim a task: reserve an attempt", Args: cli.Args(0, 1, "the slug or id of a task"),
		Long:    "Claim a task by slug or id, or a work item with --work-item. JSON: the claim, with the time at which it expires.",
		Example: "  agon research claim my-task --description \"smaller alphabet\"",
		RunE: func(cmd *cobra.Command, in []string) error {
			mc, err := c.client(a, true)
			if err != nil {
				return err
			}
			id := ""
			if item == "" {
				if len(in) == 0 {
					return output.Usage("", "name a task, or a work item with --work-item", "no task named")
				}
				t, err := findTask(cmd.Context(), mc, in[0], true)
				if err != nil {
					return coded(err)
				}
				id = t.ID
			}
			cl, _, err := mc.Claim(cmd.Context(), id, item, description)
			if err != nil {
				return coded(err)
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: cl, IDs: []string{cl.ID}, Human: func(h *output.Human) {
				h.Fields([2]string{"claim", cl.ID}, [2]string{"task", cl.TaskID}, [2]string{"expires", cli.When(cl.ExpiresAt.Time)})
				h.Line("next: clone the task's repository, change it, write submission.json; agon research start does all of it at once")
			}})
		},
	}
	c.add(cmd)
	cmd.Flags().StringVar(&description, "description", "", "what you will try")
	cmd.Flags().StringVar(&item, "work-item", "", "`id` of a work item")
	return cmd
}

// started is what `agon research start` prints.
type started struct {
	Claim   string    `json:"claim"`
	Task    string    `json:"task"`
	Dir     string    `json:"dir"`
	Expires time.Time `json:"expires_at"`
}

func (a commands) start() *cobra.Command {
	var c atServer
	var description string
	cmd := &cobra.Command{
		Use: "start TASK [DIR]", Short: "Claim a task, clone it and write a submission.json to fill in", Args: cli.Args(1, 2, "a task and at most one directory"),
		Long:    "Claim a task, clone its repository into DIR (default: the task's slug) and write DIR/submission.json to fill in. Needs git. JSON: {claim, task, dir, expires_at}.",
		Example: "  agon research start my-task work --description \"smaller alphabet\"",
		RunE: func(cmd *cobra.Command, in []string) error {
			ctx := cmd.Context()
			mc, err := c.client(a, true)
			if err != nil {
				return err
			}
			t, err := findTask(ctx, mc, in[0], true)
			if err != nil {
				return coded(err)
			}
			dir := t.Slug
			if len(in) == 2 {
				dir = in[1]
			}
			if exists(dir) {
				return &agon.Error{Code: "exists", Status: 409, Field: "dir", Message: dir + " is there already", Mend: "name another directory: `agon research start " + t.Slug + " DIR`"}
			}
			if description == "" {
				description = "a try at " + t.Slug // the coordinator wants one
			}
			cl, _, err := mc.Claim(ctx, t.ID, "", description)
			if err != nil {
				return coded(err)
			}
			if err := miner.Start(ctx, t, dir); err != nil {
				// A claim that nobody can work on takes one of the few.
				_, gone := mc.Cancel(context.WithoutCancel(ctx), cl.ID)
				return errors.Join(err, gone)
			}
			v := started{cl.ID, t.Slug, dir, cl.ExpiresAt.Time}
			return a.Printer.Print(ctx, output.Result{Value: v, IDs: []string{cl.ID}, Human: func(h *output.Human) {
				h.Fields([2]string{"claim", cl.ID}, [2]string{"expires", cli.When(v.Expires)}, [2]string{"checkout", dir})
				h.Line("change %s in %s, and the claimed %s in %s", strings.Join(t.AllowedPatchPaths, ", "), dir, t.MetricName, filepath.Join(dir, "submission.json"))
				h.Line("next: agon research check --task-slug %s --repo-dir %s", t.Slug, dir)
				h.Line("then: agon research submit-workspace --claim-id %s --repo-dir %s", cl.ID, dir)
			}})
		},
	}
	c.add(cmd)
	cmd.Flags().StringVar(&description, "description", "", "what you will try (default: a try at the task)")
	return cmd
}

func (a commands) cancel() *cobra.Command {
	var c atServer
	cmd := &cobra.Command{
		Use: "cancel CLAIM", Short: "Give a claim back", Args: cli.Args(1, 1, "the id of a claim"), Example: "  agon research cancel 0192...",
		RunE: func(cmd *cobra.Command, in []string) error {
			mc, err := c.client(a, true)
			if err != nil {
				return err
			}
			b, err := mc.Cancel(cmd.Context(), in[0])
			if err != nil {
				return coded(err)
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: json.RawMessage(b), IDs: []string{in[0]}})
		},
	}
	c.add(cmd)
	return cmd
}

func (a commands) status() *cobra.Command {
	var c atServer
	var task string
	var wait bool
	cmd := &cobra.Command{
		Use: "status [SUBMISSION]", Short: "Show submissions, or all of one", Args: cli.Args(0, 1, "the id of a submission"),
		Long: `Show the submissions of a task (--task), or all of one: claimed against observed, who replayed it and
what each saw, the noise band, how it stood against the best, its lineage.
With --wait, wait until it is decided (exit code 8 when interrupted, 7 if it was rejected).`,
		Example: "  agon research status --task my-task\n  agon research status 0192... --wait",
		RunE: func(cmd *cobra.Command, in []string) error {
			key, err := c.key(a)
			mc, cerr := c.client(a, false)
			if cerr != nil {
				return cerr
			}
			if err == nil {
				mc.Key = key
			}
			if len(in) == 0 {
				return a.list(cmd.Context(), mc, task)
			}
			return a.one(cmd.Context(), mc, in[0], wait)
		},
	}
	c.add(cmd)
	cmd.Flags().StringVar(&task, "task", "", "`slug` or id of a task")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is decided")
	return cmd
}

func (a commands) list(ctx context.Context, mc *miner.Client, task string) error {
	var q []miner.Field
	if task != "" {
		t, err := findTask(ctx, mc, task, false)
		if err != nil {
			return coded(err)
		}
		q = append(q, miner.Field{Name: "task_id", Value: t.ID})
	}
	b, err := mc.Do(ctx, "GET", "/api/v1/submissions", q, nil, mc.Key != nil)
	if err != nil {
		return coded(err)
	}
	var list []coordinator.Submission
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("read submissions: %w", err)
	}
	return a.Printer.Print(ctx, output.List(list, func(s coordinator.Submission) string { return s.ID }, func(h *output.Human) {
		rows := [][]output.Cell{}
		for _, s := range list {
			best := ""
			if s.Best != nil && s.Best.Took {
				best = "took the best"
			}
			rows = append(rows, []output.Cell{output.Text(s.ID), cli.StateCell(s.Status), output.Text(metrics(s.Observed)), output.Text(best), output.Text(s.Miner), output.Text(s.Summary)})
		}
		h.Table([]output.Column{{Title: "SUBMISSION"}, {Title: "STATUS"}, {Title: "OBSERVED"}, {Title: "BEST"}, {Title: "MINER"}, {Title: "SUMMARY"}}, rows)
	}))
}

func (a commands) one(ctx context.Context, mc *miner.Client, id string, wait bool) error {
	var d coordinator.Detail
	for {
		b, err := mc.Do(ctx, "GET", "/api/v1/submissions/"+id+"/detail", nil, nil, mc.Key != nil)
		if err != nil {
			return coded(err)
		}
		d = coordinator.Detail{}
		if err := json.Unmarshal(b, &d); err != nil {
			return fmt.Errorf("read submission: %w", err)
		}
		s := d.Submission
		if !wait || s.Best != nil || s.Status == "rejected" || s.Status == "error" {
			break
		}
		if err := a.sleep(ctx); err != nil {
			return &cli.Exit{Code: cli.CodePending, Err: fmt.Errorf("submission %s is still %s", id, s.Status)}
		}
	}
	s := d.Submission
	err := a.Printer.Print(ctx, output.Result{Value: d, IDs: []string{id}, Human: func(h *output.Human) {
		claimed, over := "", ""
		if raw, err := json.Marshal(s.ClaimedMetrics); err == nil {
			claimed = string(raw)
		}
		switch {
		case s.OverClaim == nil || *s.OverClaim == 0:
		case *s.OverClaim < 0:
			over = "none: it was observed better than claimed"
		default:
			over = fmt.Sprintf("%.6g", *s.OverClaim)
		}
		h.Fields([2]string{"submission", s.ID}, [2]string{"status", s.Status}, [2]string{"reason", s.Reason}, [2]string{"miner", s.Miner}, [2]string{"summary", s.Summary},
			[2]string{"claimed", claimed}, [2]string{"observed", metrics(s.Observed)}, [2]string{"over-claim", over},
			[2]string{"noise band", fmt.Sprintf("%.6g", d.NoiseBand)}, [2]string{"patch", fmt.Sprintf("%d bytes, %s", s.PatchBytes, s.PatchDigest)})
		if s.Best != nil {
			took := "did not take the best"
			if s.Best.Took {
				took = "took the best"
			}
			d := agon.Decision{Challenger: s.ID, Incumbent: s.Best.Incumbent, Rule: s.Best.Rule, Numbers: s.Best.Numbers, Outcome: agon.KeptSeat}
			if s.Best.Took {
				d.Outcome = agon.TookSeat
			}
			if say := kr.Sentence(d); say != "" {
				took = say
			}
			h.Fields([2]string{"decision", took + " (rule " + s.Best.Rule + "; its numbers: -o json)"})
		}
		h.Heading("Replays")
		rows := [][]output.Cell{}
		for _, v := range d.Verifications {
			what := "replay"
			if v.Duel {
				what = "duel"
			}
			rows = append(rows, []output.Cell{output.Text(what), output.Text(v.Validator), cli.StateCell(v.Status), output.Text(metrics(v.Observed)), output.Text(fmt.Sprintf("%.2f", v.Trust)), output.Text(v.Driver), output.Text(v.Notes)})
		}
		h.Table([]output.Column{{Title: "WHAT"}, {Title: "VALIDATOR"}, {Title: "STATUS"}, {Title: "OBSERVED"}, {Title: "TRUST"}, {Title: "DRIVER"}, {Title: "NOTES"}}, rows)
		if len(d.Lineage) > 0 {
			h.Heading("Lineage")
			for _, l := range d.Lineage {
				h.Line("#%d  %.6g  %s  %s", l.Number, l.Value, l.Miner, l.Submission)
			}
		}
	}})
	if err == nil && wait && s.Status != "accepted" {
		return &cli.Exit{Code: cli.CodeRefused}
	}
	return err
}

// sleep waits for the next look.
func (a commands) sleep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.Poll)
	defer cancel()
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return ctx.Err()
}

func (a commands) record() *cobra.Command {
	var c atServer
	cmd := &cobra.Command{
		Use: "record TASK", Short: "Show the ledger of bests of a task, and check its signatures", Args: cli.Args(1, 1, "the slug or id of a task"),
		Long: `Show every best of a task with its lineage, noise band and who verified it. The coordinator's signature of each
record is checked here, offline; a record that is not what was signed ends with exit code 1.`,
		Example: "  agon research record my-task",
		RunE: func(cmd *cobra.Command, in []string) error {
			mc, err := c.client(a, false)
			if err != nil {
				return err
			}
			t, err := findTask(cmd.Context(), mc, in[0], false)
			if err != nil {
				return coded(err)
			}
			b, err := mc.Do(cmd.Context(), "GET", "/api/v1/tasks/"+t.ID+"/records", nil, nil, false)
			if err != nil {
				return coded(err)
			}
			var list []coordinator.Record
			if err := json.Unmarshal(b, &list); err != nil {
				return fmt.Errorf("read records: %w", err)
			}
			broken := 0
			for _, r := range list {
				if err := coordinator.VerifyRecord(r); err != nil {
					broken++
					a.IO.Notef("record %s: %s", plain.Line(r.Submission), plain.Line(err.Error()))
				}
			}
			err = a.Printer.Print(cmd.Context(), output.List(list, func(r coordinator.Record) string { return r.Submission }, func(h *output.Human) {
				for _, r := range list {
					h.Heading(fmt.Sprintf("#%d %s = %.6g", r.Number, r.Metric, r.Value))
					parent, delta := "the base", ""
					if r.Parent != nil {
						parent = *r.Parent
					}
					if r.Delta != nil {
						delta = fmt.Sprintf("%.6g", *r.Delta)
					}
					h.Fields([2]string{"submission", r.Submission}, [2]string{"miner", r.Miner}, [2]string{"at", cli.When(r.At.Time)}, [2]string{"beat", parent},
						[2]string{"gain", delta}, [2]string{"noise band", fmt.Sprintf("%.6g", r.Band)}, [2]string{"rule", r.Rule})
					for _, x := range r.Replays {
						what := "replay"
						switch {
						case x.Duel:
							what = "duel"
						case !x.Agrees:
							what = "replay, outvoted"
						}
						on := ""
						if x.Hardware != "" {
							on = " on " + x.Hardware
						}
						h.Line("  verified by %s: %s %.6g (%s in %s%s, trust %.2f)", x.Validator, x.Verdict, x.Value, what, x.Driver, on, x.Trust)
					}
				}
			}))
			if err == nil && broken > 0 {
				return fmt.Errorf("%d of %d records are not what was signed", broken, len(list))
			}
			return err
		},
	}
	c.add(cmd)
	return cmd
}

func (a commands) check() *cobra.Command {
	var c atServer
	var task, dir, sidecar string
	var dirty bool
	cmd := &cobra.Command{
		Use: "check --task-slug TASK --repo-dir DIR", Short: "Check a workspace locally, by the server's rules", Args: cli.Args(0, 0, ""),
		Long: `Check a workspace as the server would when it is submitted: sizes, the sidecar, and the patch by the tree that it makes
of the base. Nothing is sent but the question for the task. Exit code 7 if it would be refused.`,
		Example: "  agon research check --task-slug my-task --repo-dir work --submission-file submission.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			mc, err := c.client(a, false)
			if err != nil {
				return err
			}
			t, err := findTask(cmd.Context(), mc, task, false)
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
			base, err := miner.BaseTree(cmd.Context(), dir, s.BaseRef)
			if err != nil {
				return err
			}
			body, err := s.Body()
			if err != nil {
				return err
			}
			var e coordinator.Entry
			if err := json.Unmarshal(body, &e); err != nil {
				return err
			}
			res, err := coordinator.CheckEntry(t.Task, base, t.BaseSHA, &e)
			if err != nil {
				return coded(err)
			}
			out := map[string]any{"ok": true, "patch_bytes": len(s.Patch), "base_ref": s.BaseRef, "paths": []string{}}
			if res != nil {
				out["paths"], out["patch_digest"] = res.Paths(), res.Digest
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: out, Human: func(h *output.Human) {
				h.Line("the server would take it: %d bytes of patch", len(s.Patch))
				for _, p := range out["paths"].([]string) {
					h.Line("  %s", p)
				}
				if s.Sidecar.Summary == coordinator.SampleSummary {
					h.Line("%s still says what it was made with: fill in what you did, and the %s that the benchmark reports", sidecar, t.MetricName)
				}
			}})
		},
	}
	c.add(cmd)
	f := cmd.Flags()
	f.StringVar(&task, "task-slug", "", "`slug` or id of the task")
	f.StringVar(&dir, "repo-dir", ".", "the checkout")
	f.StringVar(&sidecar, "submission-file", "submission.json", "the sidecar (default: in the checkout, else here)")
	f.BoolVar(&dirty, "allow-dirty", false, "leave changes outside the allowed paths out instead of refusing")
	return cmd
}
