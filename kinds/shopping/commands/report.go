package commands

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// shopReport is what `agon shop report` prints.
type shopReport struct {
	Submission string `json:"submission"`
	// Rows are ordered by suite (public first) and category; the last of a suite is its "all".
	Rows []shopReportRow `json:"rows"`
}

// shopReportRow sums the problems of one category that were scored. Rates are
// means over those that have them, from 0 to 1, null where none has: an answer
// that could not be read has no parts, and of a race's problems some are not told.
// A problem that several validators played counts once, with the mean of its results.
type shopReportRow struct {
	Suite    string   `json:"suite"`    // public, race
	Category string   `json:"category"` // product, shop, voucher …, all
	Problems int      `json:"problems"`
	Success  *float64 `json:"success_rate"`
	GT       *float64 `json:"gt_rate"`       // the ground truth itself
	Rule     *float64 `json:"rule_rate"`     // constraints met
	Format   *float64 `json:"format_rate"`   // steps in the right form
	Score    *float64 `json:"score"`         // what counts on the board
	Ratio    *float64 `json:"agentic_ratio"` // tool calls that are credited to a model
}

func (a commands) report() *cobra.Command {
	return &cobra.Command{
		Use:   "report SUBMISSION",
		Short: "Show a shopping submission's results by category",
		Long: `Show a shopping submission's results by category: how many problems were scored, the rate
of right answers, and what they are made of. The race's problems stand apart from the
public suite. Scores of validators that the platform excluded are left out.
JSON: {submission, rows [{suite, category, problems, success_rate, gt_rate, rule_rate,
format_rate, score, agentic_ratio}]}.`,
		Example:           "  agon shop report demo-shopping/rules\n  agon shop report demo-shopping/rules --jq '.rows[] | select(.category == \"shop\")'",
		Args:              cli.Args(1, 1, "a submission"),
		ValidArgsFunction: a.Complete(cli.SubmissionIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, err := a.Reader()
			if err != nil {
				return err
			}
			s, err := c.Submission(ctx, args[0])
			if err != nil {
				return err
			}
			runs, err := cli.All(maxReportRuns, func(o client.ListOptions) (*client.Page[client.Run], error) {
				return c.Runs(ctx, s.Arena, s.ID, string(agon.RunScored), o)
			})
			if err != nil {
				return err
			}
			excluded := map[string]bool{}
			for _, f := range s.Findings {
				if f.Code == "validator_disagreement" {
					excluded[f.Field] = true
				}
			}
			if len(excluded) > 0 {
				if runs, err = keptRuns(runs, excluded, func(id string) (*client.Run, error) { return c.Run(ctx, id) }); err != nil {
					return err
				}
			}
			r := reportOf(s.ID, runs)
			if len(r.Rows) == 0 {
				a.IO.Notef("no problem of %s is scored yet", s.ID)
			}
			return a.Printer.Print(ctx, output.Result{Value: r, IDs: []string{s.ID}, Human: func(h *output.Human) { reportHuman(h, r) }})
		},
	}
}

// maxReportRuns bounds the runs of one submission that are read.
const maxReportRuns = 10_000

// keptRuns leaves out the runs whose result is of an excluded validator.
func keptRuns(runs []client.Run, excluded map[string]bool, full func(id string) (*client.Run, error)) ([]client.Run, error) {
	var out []client.Run
	for _, r := range runs {
		x, err := full(r.RunSpec.Run)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(x.List, func(t agon.Attempt) bool { return t.Counted && excluded[t.Validator] }) {
			out = append(out, r)
		}
	}
	return out, nil
}

// means are sums and counts of what a row shows, by name.
type means struct {
	sum map[string]float64
	n   map[string]int
}

func newMeans() means { return means{map[string]float64{}, map[string]int{}} }

func (m means) add(name string, v float64) {
	m.sum[name] += v
	m.n[name]++
}

func (m means) of(name string) *float64 {
	if m.n[name] == 0 {
		return nil
	}
	v := m.sum[name] / float64(m.n[name])
	return &v
}

// reported are the fields of a score that a report has.
var reported = []string{"gt", "rule", "format", "agentic_ratio"}

// categoryOf reads the category out of the name that `agon shop problems` gives
// a task: product-easy-01.
func categoryOf(task string) string {
	category, _, ok := strings.Cut(path.Base(task), "-")
	if !ok || category == "" {
		return "other"
	}
	return category
}

func reportOf(submission string, runs []client.Run) shopReport {
	hidden := map[string]bool{}
	byTask := map[string]means{}
	for _, r := range runs {
		for _, t := range r.Tasks {
			hidden[t.Key] = t.Hidden
		}
		for _, s := range r.Scores {
			m, ok := byTask[s.Task]
			if !ok {
				m = newMeans()
				byTask[s.Task] = m
			}
			solved := 0.0
			if s.Solved {
				solved = 1
			}
			m.add("success", solved)
			m.add("score", s.Value)
			for _, name := range reported {
				if v, ok := s.Metrics[name]; ok {
					m.add(name, v)
				}
			}
		}
	}
	type rowKey struct{ suite, category string }
	rows := map[rowKey]means{}
	for _, task := range slices.Sorted(maps.Keys(byTask)) { // in one order: sums of floats depend on it
		suite := "public"
		if hidden[task] {
			suite = "race"
		}
		for _, category := range []string{categoryOf(task), "all"} {
			k := rowKey{suite, category}
			if _, ok := rows[k]; !ok {
				rows[k] = newMeans()
			}
			for _, name := range append([]string{"success", "score"}, reported...) {
				if v := byTask[task].of(name); v != nil {
					rows[k].add(name, *v)
				}
			}
		}
	}
	out := shopReport{Submission: submission, Rows: []shopReportRow{}}
	for k, m := range rows {
		out.Rows = append(out.Rows, shopReportRow{
			Suite: k.suite, Category: k.category, Problems: m.n["success"], Success: m.of("success"), GT: m.of("gt"), Rule: m.of("rule"),
			Format: m.of("format"), Score: m.of("score"), Ratio: m.of("agentic_ratio"),
		})
	}
	last := func(r shopReportRow) int {
		if r.Category == "all" {
			return 1
		}
		return 0
	}
	slices.SortFunc(out.Rows, func(x, y shopReportRow) int {
		return cmp.Or(cmp.Compare(x.Suite, y.Suite), cmp.Compare(last(x), last(y)), cmp.Compare(x.Category, y.Category))
	})
	return out
}

func reportHuman(h *output.Human, r shopReport) {
	rows := make([][]output.Cell, len(r.Rows))
	for i, x := range r.Rows {
		rows[i] = []output.Cell{
			output.Text(x.Suite), output.Text(x.Category), output.Text(strconv.Itoa(x.Problems)), output.Text(cli.ScoreText(x.Success)), output.Text(cli.ScoreText(x.GT)),
			output.Text(cli.ScoreText(x.Rule)), output.Text(cli.ScoreText(x.Format)), output.Text(cli.ScoreText(x.Ratio)), output.Text(cli.ScoreText(x.Score)),
		}
	}
	h.Table([]output.Column{
		{Title: "suite"},
		{Title: "category"},
		{Title: "problems", Right: true},
		{Title: "success", Right: true},
		{Title: "gt", Right: true},
		{Title: "rule", Right: true},
		{Title: "format", Right: true},
		{Title: "agentic", Right: true},
		{Title: "score", Right: true},
	}, rows)
}
