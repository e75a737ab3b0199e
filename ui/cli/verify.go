package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/gateway"
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
}

// Verification is what `agon verify` prints.
type Verification struct {
	Run     string        `json:"run"`
	Attempt int           `json:"attempt"`
	OK      bool          `json:"ok"`
	Checks  []Check       `json:"checks"` // status ok, warn (not checked) or fail
	Chain   gateway.Chain `json:"chain"`
}

func (a *App) verifyCmd(j Judges) *cobra.Command {
	var attempt int
	var gateways []string
	var noJudge bool
	cmd := &cobra.Command{
		Use:   "verify RUN",
		Short: "Recompute a run: chain of receipts, signatures, bodies, cost and score",
		Long: `Recompute a run from what is stored of it: the hash chain of its receipts, the
gateway's signatures, the hashes of requests and replies, the cost, and, by judging the
evidence again in a box on this machine, the score. What cannot be looked at is said, not
passed over. With --gateway only receipts signed by these keys are accepted.

JSON: {run, attempt, ok, checks: [{name, status: ok|warn|fail, detail}], chain}.
Exit codes: 0 all holds, 1 something does not, 3 something could not be checked.`,
		Example:           "  agon verify 01JD…\n  agon verify 01JD… --no-judge --jq .chain.signers",
		Args:              Args(1, 1, "a run"),
		ValidArgsFunction: a.Complete(runIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.wholeRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			v, err := a.verify(cmd.Context(), j, id, attempt, gateways, !noJudge)
			if err != nil {
				return err
			}
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: v, IDs: []string{v.Run}, Human: func(h *output.Human) {
				rows := make([][]output.Cell, len(v.Checks))
				for i, c := range v.Checks {
					rows[i] = []output.Cell{output.Text(c.Name), output.Text(c.Status), output.Text(c.Detail)}
				}
				h.Table([]output.Column{{Title: "check"}, {Title: "status"}, {Title: "detail", Min: 20}}, rows)
			}}); err != nil {
				return err
			}
			open := false
			for _, c := range v.Checks {
				open = open || c.Status == CheckWarn
			}
			switch {
			case !v.OK:
				return &Exit{Code: CodeFailed}
			case open:
				return &Exit{Code: CodePartly}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&attempt, "attempt", 0, "of this attempt (`number`); by default the counted one")
	f.StringSliceVar(&gateways, "gateway", nil, "accept receipts of these gateway keys only (`address`)")
	f.BoolVar(&noJudge, "no-judge", false, "do not judge the evidence again")
	return cmd
}

func (a *App) verify(ctx context.Context, j Judges, run string, attempt int, gateways []string, judge bool) (*Verification, error) {
	c, err := a.Reader()
	if err != nil {
		return nil, err
	}
	r, err := c.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	att := attemptOf(r, attempt)
	if att == nil {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "attempt", Message: "the run has no such attempt", Mend: "agon run view " + run + " lists them"}
	}
	var events []agon.Event
	if err := a.eachEvent(ctx, run, false, func(e agon.Event) error {
		if e.Attempt == att.N {
			events = append(events, e)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	v := &Verification{Run: run, Attempt: att.N}
	add := func(name, status, format string, args ...any) {
		v.Checks = append(v.Checks, Check{Name: name, Status: status, Detail: fmt.Sprintf(format, args...)})
	}
	receipts, hosted, outcome, seen := verifyBodies(events, add)
	v.Chain = gateway.VerifyChain(receipts, gateways)
	switch {
	case seen.cut > 0:
		add("chain", CheckWarn, "%d events of calls were cut from a full log: the chain cannot be followed", seen.cut)
	case len(v.Chain.Problems) > 0:
		p := v.Chain.Problems[0]
		add("chain", CheckFail, "receipt %d (%s): %s: %s; %d problems in all", p.N, p.ID, p.Code, p.Message, len(v.Chain.Problems))
	case len(receipts) == 0:
		add("chain", CheckOK, "the attempt called no model")
	default:
		add("chain", CheckOK, "%d receipts, signed by %s", v.Chain.Receipts, strings.Join(v.Chain.Signers, ", "))
	}
	sum := v.Chain.Cost + verifyTools(hosted, gateways, add)
	if sum == att.CostMicros {
		add("cost", CheckOK, "the receipts sum to %s", money(att.CostMicros))
	} else {
		add("cost", CheckFail, "the receipts sum to %s, the attempt says %s", money(sum), money(att.CostMicros))
	}
	a.verifyScore(ctx, j, c, r, att, outcome, judge, add)
	v.OK = true
	for _, k := range v.Checks {
		v.OK = v.OK && k.Status != CheckFail
	}
	return v, nil
}

// verifyTools checks what a tool host wrote: a chain for each of its sessions.
// It returns what the tools cost; models are paid through the gateway's receipts.
func verifyTools(list []tools.Receipt, gateways []string, add func(name, status, format string, args ...any)) (cost agon.Micros) {
	if len(list) == 0 {
		return 0
	}
	chains := map[string][]agon.Receipt{}
	n, unsigned, bad := 0, 0, ""
	for _, r := range list {
		if r.Tool != tools.LLMChat {
			cost += r.Cost
		}
		s := r.Signed
		switch {
		case s != nil:
			n++
			chains[s.Run] = append(chains[s.Run], *s)
			if s.ID != r.ReceiptID || s.Cost != r.Cost || s.Model != r.Tool || s.RequestHash.Hex() != r.RequestHash {
				bad = fmt.Sprintf("receipt %s is not what was signed", r.ReceiptID)
			}
		case r.Cost != 0 || r.Reserved != 0 && r.Outcome == tools.OutcomeOK:
			unsigned++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(chains)) {
		if c := gateway.VerifyChain(chains[id], gateways); len(c.Problems) > 0 && bad == "" {
			bad = fmt.Sprintf("session %s: receipt %d: %s", id, c.Problems[0].N, c.Problems[0].Message)
		}
	}
	switch {
	case bad != "":
		add("tools", CheckFail, "%s", bad)
	case unsigned > 0:
		add("tools", CheckWarn, "%d calls of tools that cost money are under no signature", unsigned)
	default:
		add("tools", CheckOK, "%d receipts of tools in %d chains", n, len(chains))
	}
	return cost
}

// attemptOf finds the attempt to look at: the one named, the counted one, the last.
func attemptOf(r *client.Run, n int) *agon.Attempt {
	var out *agon.Attempt
	for i := range r.List {
		t := &r.List[i]
		if t.N == n || (n == 0 && (out == nil || !out.Counted)) {
			out = t
		}
	}
	return out
}

type bodyCount struct{ whole, part, cut int }

// verifyBodies hashes what was said and returns the receipts and the outcome that the events tell.
func verifyBodies(events []agon.Event, add func(name, status, format string, args ...any)) (list []agon.Receipt, hosted []tools.Receipt, outcome string, n bodyCount) {
	bad := ""
	check := func(id, what string, b gateway.Body, want agon.Digest) {
		switch {
		case b.Cut:
			n.part++
		case agon.Sum(b.Content()) != want:
			bad = fmt.Sprintf("%s of %s does not have the hash of its receipt", what, id)
		default:
			n.whole++
		}
	}
	for _, e := range events {
		switch e.Type {
		case agon.EventModel:
			var m gateway.ModelCall
			if json.Unmarshal(e.Data, &m) != nil || m.Receipt.ID == "" {
				n.cut++
				continue
			}
			list = append(list, m.Receipt)
			check(m.Receipt.ID, "the request", m.Request, m.Receipt.RequestHash)
			check(m.Receipt.ID, "the response", m.Response, m.Receipt.ResponseHash)
		case agon.EventTool:
			var host struct {
				Tool *tools.Receipt `json:"tool"`
			}
			if json.Unmarshal(e.Data, &host) == nil && host.Tool != nil {
				hosted = append(hosted, *host.Tool)
				continue
			}
			var t gateway.ToolCallEvent
			if json.Unmarshal(e.Data, &t) != nil || t.Receipt.ID == "" {
				n.cut++
				continue
			}
			list = append(list, t.Receipt)
			check(t.Receipt.ID, "the response", t.Response, t.Receipt.ResponseHash)
		case agon.EventPhase:
			var p struct {
				Outcome string `json:"outcome"`
			}
			if json.Unmarshal(e.Data, &p) == nil && p.Outcome != "" {
				outcome = p.Outcome
			}
		}
	}
	switch {
	case bad != "":
		add("bodies", CheckFail, "%s", bad)
	case n.part > 0:
		add("bodies", CheckWarn, "%d match; of %d only the beginning is kept", n.whole, n.part)
	default:
		add("bodies", CheckOK, "%d requests and responses match their hashes", n.whole)
	}
	return list, hosted, outcome, n
}

// verifyScore judges the stored evidence again.
func (a *App) verifyScore(ctx context.Context, j Judges, c *client.Client, r *client.Run, att *agon.Attempt, outcome string, judge bool, add func(name, status, format string, args ...any)) {
	switch {
	case !att.Counted:
		add("score", CheckOK, "the attempt was not counted: it has no score")
		return
	case att.Fault == agon.FaultAgent:
		for _, s := range r.Scores {
			if s.Value != 0 || s.Solved {
				add("score", CheckFail, "%s: %.4f, though the fault was the agent's", s.Task, s.Value)
				return
			}
		}
		add("score", CheckOK, "0: the fault was the agent's (%s)", att.Reason)
		return
	case !judge:
		add("score", CheckWarn, "not judged again (--no-judge)")
		return
	case j.Rejudge == nil:
		add("score", CheckWarn, "this binary cannot judge")
		return
	case att.Evidence == "":
		add("score", CheckWarn, "no evidence is stored")
		return
	}
	scores, err := a.rejudge(ctx, j, c, r, att, outcome)
	if err != nil {
		add("score", CheckWarn, "not judged again: %v", err)
		return
	}
	by := map[string]agon.Score{}
	for _, s := range scores {
		by[s.Task] = s
	}
	for _, s := range r.Scores {
		got, ok := by[s.Task]
		switch {
		case !ok:
			add("score", CheckFail, "%s: stored %.4f, judged again there is none", s.Task, s.Value)
			return
		case got.Value != s.Value || got.Solved != s.Solved:
			add("score", CheckFail, "%s: stored %.4f, judged again %.4f", s.Task, s.Value, got.Value)
			return
		}
	}
	add("score", CheckOK, "%d scores, judged again alike (mean %s)", len(scores), runScore(*r))
}

func (a *App) rejudge(ctx context.Context, j Judges, c *client.Client, r *client.Run, att *agon.Attempt, outcome string) ([]agon.Score, error) {
	files, err := evidence(ctx, c, att.Evidence)
	if err != nil {
		return nil, err
	}
	arena, err := c.Arena(ctx, r.Arena)
	if err != nil {
		return nil, err
	}
	common, done, err := a.Common()
	if err != nil {
		return nil, err
	}
	defer done()
	return j.Rejudge(ctx, RejudgeOptions{
		Common: common, Client: c, Run: r.RunSpec, Kind: arena.Kind, Attempt: att.N,
		Record: agon.Record{Outcome: outcome, Files: files},
	})
}

// Bounds of the evidence that is judged again.
const (
	maxEvidenceFiles = 1000
	maxEvidenceBytes = 256 << 20
)

// evidence fetches the files of a tree, each verified against its digest.
func evidence(ctx context.Context, c *client.Client, d agon.Digest) (map[string][]byte, error) {
	b, err := c.Blob(ctx, d)
	if err != nil {
		return nil, err
	}
	var m blob.Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("read evidence: %w", err)
	}
	if len(m.Files) > maxEvidenceFiles {
		return nil, fmt.Errorf("read evidence: more than %d files", maxEvidenceFiles)
	}
	out := make(map[string][]byte, len(m.Files))
	total := 0
	for _, f := range m.Files {
		if f.Mode == "link" {
			continue
		}
		b, err := c.Blob(ctx, f.Digest)
		if err != nil {
			return nil, err
		}
		if total += len(b); total > maxEvidenceBytes {
			return nil, fmt.Errorf("read evidence: larger than %d bytes", maxEvidenceBytes)
		}
		out[f.Path] = b
	}
	return out, nil
}
