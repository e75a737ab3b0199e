package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/audit"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/ledger/dial"
	"github.com/agon-arena/agon/ui/cli/output"
)

// RejudgeOptions asks for a run to be judged again from its evidence.
type RejudgeOptions struct {
	Common
	Client  *client.Client
	Run     agon.RunSpec
	Record  agon.Record // what the play left, from the stored evidence
	Kind    string
	Attempt int
	Driver  string
	// TaskDir is the directory, or archive, of the task whose verifier judges; "": the run's own.
	TaskDir string
}

// verifyFlags are those of `agon verify`.
type verifyFlags struct {
	attempt   int
	gateways  []string
	noJudge   bool
	replay    bool
	log       string
	witnesses []string
	bundle    string
	chain     string
}

func (a *App) verifyCmd(j Judges) *cobra.Command {
	var v verifyFlags
	cmd := &cobra.Command{
		Use:   "verify [RUN|SUBMISSION]",
		Short: "Recompute a run or a submission: log, receipts, signatures, bodies, cost and score",
		Long: `Recompute what a server says of a run, or of a submission with its decision, from
public keys only: that it stands in the transparency log as it is shown, the hash chain of
the receipts, the gateway's signatures and closing statement, the hashes of requests and
replies, what the model said, the cost, and, by judging the evidence again in a box on
this machine, the score.

What cannot be checked is listed as unchecked, never passed over. The log's key is
remembered when a server is first seen, and every later head must follow from the one
seen before; --log names the key from somewhere else. With --gateway only receipts signed
by these keys are accepted; by default those are that the arena names.

With --bundle a file from "agon export" is checked, offline.

JSON: {submission, run, attempt, ok, checked: [NAME], unchecked: [{what, why}],
wrong: [{what, where}], checks: [{name, status: ok|warn|fail, detail}], chain, log}.
Exit codes: 0 all holds, 1 something does not, 3 something could not be checked.`,
		Example:           "  agon verify …9f59ecbd\n  agon verify my-arena/my-agent --no-judge\n  agon export …9f59ecbd --bundle run.json && agon verify --bundle run.json --log agon/log/…",
		Args:              Args(0, 1, "a run or a submission"),
		ValidArgsFunction: a.Complete(runIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (v.bundle != "") {
				return output.Usage("bundle", "name a run or a submission, or give --bundle FILE", "verify what?")
			}
			r, err := a.verify(cmd.Context(), j, args, v)
			if err != nil {
				return err
			}
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: r, IDs: []string{r.Submission}, Human: func(h *output.Human) {
				rows := make([][]output.Cell, len(r.Checks))
				for i, c := range r.Checks {
					rows[i] = []output.Cell{output.Text(c.Name), output.Text(c.Status), output.Text(c.Detail)}
				}
				h.Table([]output.Column{{Title: "check"}, {Title: "status"}, {Title: "detail", Min: 20}}, rows)
			}}); err != nil {
				return err
			}
			switch {
			case !r.OK:
				return &Exit{Code: CodeFailed}
			case len(r.Unchecked) > 0:
				return &Exit{Code: CodePartly}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&v.attempt, "attempt", 0, "of this attempt (`number`); by default the counted one")
	f.StringSliceVar(&v.gateways, "gateway", nil, "accept receipts of these gateway keys only (`address`)")
	f.BoolVar(&v.replay, "replay", false, "play again what asked no model and no tool, in a box on this machine")
	f.BoolVar(&v.noJudge, "no-judge", false, "do not judge the evidence again")
	f.StringVar(&v.log, "log", "", "public `key` of the transparency log, NAME+HASH+BASE64")
	f.StringVar(&v.chain, "chain", "", "compare the block that seeds come of with this `network` or node: finney, test, or addresses")
	f.StringSliceVar(&v.witnesses, "witness", nil, "public `key` of a witness whose cosignature is looked for")
	f.StringVar(&v.bundle, "bundle", "", "check this `file` from agon export, offline")
	return cmd
}

// ReplayOptions asks for a run to be played again.
type ReplayOptions struct {
	Common
	Client     *client.Client // serves the submission and the tasks
	Run        agon.RunSpec
	Arena      agon.Arena
	Submission agon.Submission
}

// pair is how the kind of a bundle's arena compares scores.
func (j Judges) pair(b *audit.Bundle) func(map[string]float64, agon.Score, agon.Score, bool) incentive.Pair {
	if j.Pair == nil {
		return nil
	}
	return j.Pair(b.Arena.Kind)
}

func (a *App) exportCmd() *cobra.Command {
	var file, statement string
	var attempt int
	cmd := &cobra.Command{
		Use:   "export RUN|SUBMISSION",
		Short: "Write all that a stranger needs to check a run or a submission offline",
		Long: `Write a bundle: the run or all runs of a submission with their events, receipts and
evidence, the decision, and the proofs of the transparency log. It holds what its reader
may read, no more; "agon verify --bundle FILE" checks it without a server.

With --in-toto an in-toto statement (v1) of the decision is written, for tools that read
attestations: subject is the submission's digest, the predicate holds value, threshold,
evidence and the proof of the log. It is not signed itself: the log's head is.`,
		Example: "  agon export …9f59ecbd --bundle run.json\n  agon export demo/mine --in-toto decision.json",
		Args:    Args(1, 1, "a run or a submission"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (file == "") == (statement == "") {
				return output.Usage("bundle", "give --bundle FILE, or --in-toto FILE", "write what, where to?")
			}
			c, err := a.Reader()
			if err != nil {
				return err
			}
			b, err := a.collect(cmd.Context(), c, args[0], attempt, statement == "")
			if err != nil {
				return err
			}
			if statement != "" {
				return a.writeStatement(cmd.Context(), b, statement)
			}
			raw, err := json.Marshal(b)
			if err != nil {
				return fmt.Errorf("encode bundle: %w", err)
			}
			if err := WriteFile(file, raw); err != nil {
				return err
			}
			value := map[string]any{"file": file, "bytes": len(raw), "submission": b.Submission.ID, "runs": len(b.Runs), "missing": b.Missing}
			return a.Printer.Print(cmd.Context(), output.Result{Value: value, IDs: []string{file}, Human: func(h *output.Human) {
				h.Line("%s: submission %s, runs: %d, %d bytes", file, b.Submission.ID, len(b.Runs), len(raw))
				for _, m := range b.Missing {
					h.Line("  without the %s", m)
				}
				h.Line("check it with: agon verify --bundle %s --log KEY", file)
			}})
		},
	}
	cmd.Flags().StringVar(&file, "bundle", "", "write the bundle to this `file`")
	cmd.Flags().StringVar(&statement, "in-toto", "", "write a statement of the decision to this `file`")
	cmd.Flags().IntVar(&attempt, "attempt", 0, "of this attempt (`number`); by default the counted one")
	return cmd
}

// writeStatement writes the in-toto statement of a bundle's decision.
func (a *App) writeStatement(ctx context.Context, b *audit.Bundle, file string) error {
	s, err := b.Statement()
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode statement: %w", err)
	}
	if err := WriteFile(file, append(raw, '\n')); err != nil {
		return err
	}
	return a.Printer.Print(ctx, output.Result{Value: s, IDs: []string{file}, Human: func(h *output.Human) {
		h.Line("%s: %s, score %.4g on %d tasks", file, s.Predicate.Decision.Outcome, s.Predicate.Value, s.Predicate.SampleSize)
	}})
}

// collect reads the bundle of a run, or of a submission where there is no such run.
func (a *App) collect(ctx context.Context, c *client.Client, name string, attempt int, evidence bool) (*audit.Bundle, error) {
	run, err := a.runID(ctx, c, name)
	if err == nil {
		_, err = c.Run(ctx, run)
	}
	if err == nil {
		return audit.Collect(ctx, c, audit.Want{Run: run, Attempt: attempt, Evidence: evidence})
	}
	if !notFound(err) {
		return nil, err
	}
	sub, serr := a.submissionID(ctx, c, name)
	if serr != nil {
		return nil, err // no run of this name is what people mean first
	}
	return audit.Collect(ctx, c, audit.Want{Submission: sub, Attempt: attempt, Evidence: evidence})
}

func (a *App) verify(ctx context.Context, j Judges, args []string, v verifyFlags) (*audit.Report, error) {
	o := audit.Options{LogKey: v.log, Witnesses: v.witnesses, Gateways: v.gateways, Why: "not judged again (--no-judge)"}
	if v.chain != "" {
		p, err := dial.Parse(v.chain)
		if err != nil || p.Own() {
			return nil, output.Usage("chain", "give a network, or http, https, ws or wss addresses", "%q is not a chain", v.chain)
		}
		over, err := a.Over()
		if err != nil {
			return nil, err
		}
		l := dial.NewLazy(p, dial.Config{Now: a.Now, Over: over})
		defer func() { _ = l.Close() }() // it was read only
		o.BlockHash = l.BlockHash
	}
	if v.bundle != "" {
		f, err := os.Open(v.bundle)
		if err != nil {
			return nil, output.Usage("bundle", "name a file that is there", "%v", err)
		}
		defer f.Close()
		b, err := audit.Read(f)
		if err != nil {
			return nil, err
		}
		o.Why = "judging again needs the tasks: verify at the server, without --bundle"
		o.Pair = j.pair(b)
		return audit.Check(ctx, b, o), nil
	}
	c, err := a.Reader()
	if err != nil {
		return nil, err
	}
	b, err := a.collect(ctx, c, args[0], v.attempt, !v.noJudge)
	if err != nil {
		return nil, err
	}
	switch {
	case v.noJudge:
	case j.Rejudge == nil:
		o.Why = "this binary cannot judge"
	default:
		o.Rejudge = func(ctx context.Context, b *audit.Bundle, r *audit.Run, files map[string][]byte, outcome string) ([]agon.Score, error) {
			common, done, err := a.Common()
			if err != nil {
				return nil, err
			}
			defer done()
			return j.Rejudge(ctx, RejudgeOptions{
				Common: common, Client: c, Run: r.Run.RunSpec, Kind: b.Arena.Kind, Attempt: r.Attempt,
				Record: agon.Record{Outcome: outcome, Files: files},
			})
		}
	}
	o.Pair = j.pair(b)
	if v.replay && j.Replay != nil {
		o.Replay = func(ctx context.Context, b *audit.Bundle, r *audit.Run) ([]agon.Score, error) {
			common, done, err := a.Common()
			if err != nil {
				return nil, err
			}
			defer done()
			return j.Replay(ctx, ReplayOptions{Common: common, Client: c, Run: r.Run.RunSpec, Arena: b.Arena.Arena, Submission: b.Submission.Submission})
		}
	}
	mem, known, err := a.knownLog(c, b.Server.Log)
	if err != nil {
		return nil, err
	}
	if known.Key != "" {
		if known.Key, err = successor(ctx, c, known.Key, b.Server.Log); err != nil {
			return nil, err
		}
	}
	if o.LogKey == "" {
		o.LogKey = known.Key // as it was when this server was first seen
	}
	r := audit.Check(ctx, b, o)
	if r.Log != nil && r.OK && (known.Key == "" || known.Key == r.Log.Key) {
		if err := a.follow(ctx, c, mem, r); err != nil {
			var eq *translog.EquivocationError
			var stale *translog.StaleError
			if !errors.As(err, &eq) && !errors.As(err, &stale) {
				return nil, err
			}
			r.OK = false
			r.Wrong = append(r.Wrong, audit.Wrong{What: "history", Where: err.Error()})
			r.Checks = append(r.Checks, audit.Line{Name: "history", Status: CheckFail, Detail: err.Error()})
		}
	}
	return r, nil
}

// follow compares the head of a report with the one that was seen before, and
// remembers it.
func (a *App) follow(ctx context.Context, c *client.Client, mem translog.Memory, r *audit.Report) error {
	now := r.Log.Checkpoint
	if now.N == 0 {
		return nil
	}
	_, known, err := a.knownLog(c, r.Log.Key)
	if err != nil {
		return err
	}
	if known.Checkpoint != "" {
		old, err := translog.OpenCheckpoint(known.Checkpoint, known.Key) // of then
		if err != nil {
			return fmt.Errorf("read %s: %w", mem.Path, err)
		}
		head, err := advance(ctx, c, old, r.Log.Key)
		if err != nil {
			return err
		}
		// What was proved must be in the same history as the newest head.
		if _, err := advance(ctx, c, now, r.Log.Key); err != nil {
			return err
		}
		now = head
		r.Checked = append(r.Checked, "history")
		r.Checks = append(r.Checks, audit.Line{Name: "history", Status: CheckOK, Detail: fmt.Sprintf("the log of %d begins with the %d seen before", now.N, old.N)})
	}
	if mem.Path == "" {
		return nil
	}
	return mem.Put(c.URL(), translog.Known{Key: r.Log.Key, Checkpoint: now.Text})
}

// advance fetches the newest head of a log and checks that it follows old.
func advance(ctx context.Context, c *client.Client, old translog.Checkpoint, key string) (translog.Checkpoint, error) {
	p, err := c.LogConsistency(ctx, old.N)
	if err != nil {
		var e *agon.Error
		if errors.As(err, &e) && e.Code == "bad_size" {
			return old, &translog.StaleError{Seen: old.N}
		}
		return old, err
	}
	return translog.CheckConsistency(p, old, key)
}

// knownLog is what is remembered of the log behind a client.
func (a *App) knownLog(c *client.Client, said string) (translog.Memory, translog.Known, error) {
	dir := a.Env.UserConfigDir
	if dir == "" {
		return translog.Memory{}, translog.Known{}, nil
	}
	mem := translog.Memory{Path: filepath.Join(dir, "agon", "logs.json")}
	k, ok, err := mem.Get(c.URL())
	if !ok && err == nil && said != "" {
		a.IO.Notef("the log of %s is new here: its key %s is remembered in %s", c.URL(), said, mem.Path)
	}
	return mem, k, err
}
