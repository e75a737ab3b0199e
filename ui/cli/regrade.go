package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/audit"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
)

// Regrade is a stored play that was judged anew.
type Regrade struct {
	Run     string       `json:"run"`
	Attempt int          `json:"attempt"`
	At      time.Time    `json:"at"`
	Task    string       `json:"task,omitempty"` // the directory whose verifier judged, instead of the run's own
	Driver  string       `json:"driver,omitempty"`
	Tasks   []RegradeRow `json:"tasks"`
	Same    bool         `json:"same"`
	Kept    string       `json:"kept"` // the file to which this was added
}

// RegradeRow is a task's score as it stands, and as it was judged anew.
type RegradeRow struct {
	Key      string      `json:"key"`
	Stored   *agon.Score `json:"stored"`
	Regraded *agon.Score `json:"regraded"`
}

// regradesFile holds what was regraded, a line each, in the data directory.
const regradesFile = "regrades.jsonl"

func (a *App) regradeCmd(j Judges) *cobra.Command {
	var dir, driver string
	var attempt int
	cmd := &cobra.Command{
		Use:   "regrade ID",
		Short: "Judge a stored play anew, and keep both scores",
		Long: `Judge what a run's play left anew, in a box on this machine: nothing is played. With
--task the verifier of that directory (or archive) judges, such as one that was mended;
without, the run's own. The score that stands at the server is not touched: both are
printed, and kept in regrades.jsonl in the data directory.

JSON: {run, attempt, at, task, driver, tasks: [{key, stored, regraded}], same, kept}.
Exit codes: 0 alike, 3 the scores differ, 5 no evidence is stored, or it may not be read,
7 the play left nothing to judge.`,
		Example:           "  agon run regrade …9f59ecbd\n  agon run regrade …9f59ecbd --task ./mended-task -o json",
		Args:              Args(1, 1, "a run"),
		ValidArgsFunction: a.Complete(runIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.regrade(cmd.Context(), j, args[0], dir, driver, attempt)
			if err != nil {
				return err
			}
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: r, IDs: ids(r.Tasks, func(x RegradeRow) string { return x.Key }), Human: func(h *output.Human) { regradeHuman(h, r) }}); err != nil {
				return err
			}
			if !r.Same {
				return &Exit{Code: CodePartly}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "task", "", "judge by the verifier of this task, a `directory` or archive")
	f.IntVar(&attempt, "attempt", 0, "of this attempt (`number`); by default the counted one")
	DriverFlag(cmd, &driver)
	return cmd
}

func (a *App) regrade(ctx context.Context, j Judges, name, dir, driver string, attempt int) (*Regrade, error) {
	if j.Rejudge == nil {
		return nil, Missing("judges")
	}
	c, err := a.Reader()
	if err != nil {
		return nil, err
	}
	id, err := a.wholeRun(ctx, name)
	if err != nil {
		return nil, err
	}
	b, err := audit.Collect(ctx, c, audit.Want{Run: id, Attempt: attempt, Evidence: true})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(b.Runs, func(r audit.Run) bool { return r.Run.RunSpec.Run == id })
	if i < 0 || b.Runs[i].Of() == nil {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "attempt", Message: fmt.Sprintf("run %s has no such attempt", id), Mend: "agon run view " + id + " lists them"}
	}
	r := &b.Runs[i]
	t := r.Of()
	switch {
	case t.Evidence == "" && t.Fault == agon.FaultAgent:
		return nil, &agon.Error{Code: "nothing_to_judge", Status: 422, Message: fmt.Sprintf("the play left nothing to judge: %s", t.Reason)}
	case t.Evidence == "":
		return nil, &agon.Error{Code: "no_evidence", Status: 404, Message: "no evidence of run " + id + " is stored"}
	}
	files, err := b.Evidence(r)
	if err != nil {
		return nil, &agon.Error{Code: "no_evidence", Status: 404, Message: fmt.Sprintf("the evidence of run %s cannot be read: %v", id, err), Mend: "it is public once the submission is decided"}
	}
	common, done, err := a.Common()
	if err != nil {
		return nil, err
	}
	defer done()
	scores, err := j.Rejudge(ctx, RejudgeOptions{
		Common: common, Client: c, Run: r.Run.RunSpec, Kind: b.Arena.Kind, Attempt: r.Attempt, Driver: driver, TaskDir: dir,
		Record: agon.Record{Outcome: audit.OutcomeOf(r), Files: files},
	})
	if err != nil {
		return nil, err
	}
	out := &Regrade{Run: id, Attempt: r.Attempt, At: a.Now(), Task: dir, Driver: driver, Tasks: []RegradeRow{}, Same: true}
	for _, ref := range r.Run.Tasks {
		row := RegradeRow{Key: ref.Key, Stored: taskScore(r.Run.Scores, ref.Key), Regraded: taskScore(scores, ref.Key)}
		same := row.Stored == nil && row.Regraded == nil || row.Stored != nil && row.Regraded != nil && row.Stored.Value == row.Regraded.Value && row.Stored.Solved == row.Regraded.Solved
		out.Same = out.Same && same
		out.Tasks = append(out.Tasks, row)
	}
	return out, keepRegrade(common.Config.Get(config.Data), out)
}

func taskScore(list []agon.Score, key string) *agon.Score {
	if i := slices.IndexFunc(list, func(s agon.Score) bool { return s.Task == key }); i >= 0 {
		return &list[i]
	}
	return nil
}

// keepRegrade adds a line.
func keepRegrade(data string, r *Regrade) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("keep scores: %w", err)
	}
	r.Kept = filepath.Join(data, regradesFile)
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("keep scores: %w", err)
	}
	f, err := os.OpenFile(r.Kept, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep scores: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keep scores: %w", err)
	}
	return nil
}

func regradeHuman(h *output.Human, r *Regrade) {
	text := func(s *agon.Score) string {
		if s == nil {
			return "-"
		}
		return ScoreText(&s.Value)
	}
	rows := make([][]output.Cell, len(r.Tasks))
	for i, x := range r.Tasks {
		detail := ""
		if x.Regraded != nil {
			detail = x.Regraded.Detail
		}
		rows[i] = []output.Cell{output.Text(x.Key), output.Text(text(x.Stored)), output.Text(text(x.Regraded)), output.Text(detail)}
	}
	h.Table([]output.Column{{Title: "task", Min: 12}, {Title: "stands", Right: true}, {Title: "anew", Right: true}, {Title: "detail", Min: 10}}, rows)
	h.Line("")
	if r.Same {
		h.Line("judged alike; kept in %s", r.Kept)
	} else {
		h.Line("judged otherwise: the score at the server stands; both are kept in %s", r.Kept)
	}
}
