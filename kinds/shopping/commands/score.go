package commands

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	shopscore "github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/shop"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// maxEnvelope bounds one line of an output file, in bytes; an episode of an
// arena is smaller.
const maxEnvelope = 64 << 20

// scoredCategory is a line of `agon shop score`: one category, or "all".
type scoredCategory struct {
	Category string `json:"category"`
	shopscore.Components
}

func (a commands) score() *cobra.Command {
	var suite, mode string
	var skip bool
	var enc encoderFlags
	cmd := &cobra.Command{
		Use:   "score INDEX OUTPUT.jsonl --suite FILE",
		Short: "Score the episodes of a run, by category",
		Long: `Score the output file of ORO's sandbox, one envelope {problem_id, status, dialogue} a line,
against the suite that it was played on, and sum it up by category and in all. The first
envelope of a problem counts; one that FAILED or TIMED_OUT has no score; rates are shares of
the suite's problems. Without problem_id an envelope is found by its first step's query.
--mode compat scores as ORO's scorer does, strict with its faults mended. A line that is not an
envelope of the suite ends it; with --skip-invalid such lines are named and passed over, as
ORO's reader does silently, and their problems have no score.
JSON: a list of {category, ground_truth_rate, success_rate, format_score, field_matching,
total_problems, successful_problems, scored_problems}, the last of category "all".`,
		Example: "  agon shop score catalogue.jsonl.index output.jsonl --suite public.json\n  agon shop score catalogue.jsonl.index output.jsonl --suite public.json --mode strict -o json",
		Args:    cli.Args(2, 2, "an index and an output file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if suite == "" {
				return output.Usage("suite", "name the suite that was played", "--suite is missing")
			}
			fix, ok := shopscore.ParseFix(mode)
			if !ok {
				return output.Usage("mode", "use compat, strict, or fixes by name", "mode %.60q is unknown", mode)
			}
			problems, err := readSuite(suite)
			if err != nil {
				return err
			}
			e, err := a.encoder(enc)
			if err != nil {
				return err
			}
			x, err := openIndex(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = x.Close() }()
			in, err := os.Open(args[1])
			if err != nil {
				return fmt.Errorf("read output: %w", err)
			}
			defer func() { _ = in.Close() }()
			var wrong func(error)
			if skip {
				wrong = func(err error) { a.IO.Notef("skipped: %v", err) }
			}
			list, err := scoreOutput(cmd.Context(), in, problems, shopscore.New(shopscore.Config{Fix: fix, Encoder: e}), x, wrong)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.List(list, func(c scoredCategory) string { return c.Category }, func(h *output.Human) {
				rows := make([][]output.Cell, len(list))
				share := func(v float64) output.Cell { return output.Text(strconv.FormatFloat(v, 'f', 4, 64)) }
				for i, c := range list {
					rows[i] = []output.Cell{
						output.Text(c.Category), output.Text(fmt.Sprintf("%d/%d", c.SuccessfulProblems, c.TotalProblems)), share(c.SuccessRate),
						share(c.GroundTruthRate), share(c.FieldMatching), share(c.FormatScore), output.Text(strconv.Itoa(c.ScoredProblems)),
					}
				}
				h.Table([]output.Column{
					{Title: "category"},
					{Title: "solved", Right: true},
					{Title: "success", Right: true},
					{Title: "ground truth", Right: true},
					{Title: "fields", Right: true},
					{Title: "format", Right: true},
					{Title: "scored", Right: true},
				}, rows)
			}))
		},
	}
	f := cmd.Flags()
	f.StringVar(&suite, "suite", "", "the `suite` in ORO's form")
	f.StringVar(&mode, "mode", "compat", "compat, strict, or `fixes` by name")
	f.BoolVar(&skip, "skip-invalid", false, "pass over lines that are wrong, and say which")
	enc.add(cmd)
	cli.Register(cmd, "mode", "compat", "strict")
	return cmd
}

// scoreOutput scores an output file and sums it up by category, in ORO's order,
// then in all. A wrong line is told to wrong and passed over; without it it is the error.
func scoreOutput(ctx context.Context, in io.Reader, problems []shop.Problem, s *shopscore.Scorer, cat shopscore.Catalogue, wrong func(error)) ([]scoredCategory, error) {
	byID, byQuery, total := map[string]*shop.Problem{}, map[string]*shop.Problem{}, map[string]int{}
	for i := range problems {
		p := &problems[i]
		byID[p.ProblemID], byQuery[p.Query] = p, p
		total[p.Category]++
	}
	results, seen := map[string][]shopscore.Result{}, map[*shop.Problem]bool{}
	lines := bufio.NewReaderSize(in, 1<<16)
	for n := 1; ; n++ {
		line, err := readEnvelope(lines, n)
		if errors.Is(err, io.EOF) {
			break
		}
		var e envelope
		var p *shop.Problem
		if err == nil && len(line) > 0 {
			e, p, err = parseEnvelope(line, n, byID, byQuery)
		}
		var coded *agon.Error
		switch {
		case errors.As(err, &coded) && wrong != nil:
			wrong(err)
			continue
		case err != nil:
			return nil, err
		case p == nil, seen[p]: // blank, or not the first of its problem
			continue
		}
		if seen[p] = true; e.Status != "SUCCESS" {
			continue
		}
		got, err := s.Score(ctx, p, cat, e.Dialogue)
		switch {
		case errors.Is(err, shopscore.ErrUnscored): // as where ORO's scorer raises
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", n, err)
		default:
			results[p.Category] = append(results[p.Category], shopscore.Result{Category: p.Category, Score: got})
		}
	}
	var out []scoredCategory
	var all []shopscore.Result
	for _, c := range []string{"Product", "Shop", "Voucher"} {
		if total[c] > 0 {
			out = append(out, scoredCategory{c, shopscore.Aggregate(total[c], results[c])})
		}
		all = append(all, results[c]...)
	}
	return append(out, scoredCategory{"all", shopscore.Aggregate(len(problems), all)}), nil
}

// envelope is what scoring reads of a line.
type envelope struct {
	ProblemID string          `json:"problem_id"`
	Status    string          `json:"status"`
	Dialogue  json.RawMessage `json:"dialogue"`
}

// parseEnvelope reads line n and finds its problem. Errors are of *agon.Error.
func parseEnvelope(line []byte, n int, byID, byQuery map[string]*shop.Problem) (e envelope, p *shop.Problem, err error) {
	const mend = "mend that line, or pass over such lines with --skip-invalid"
	if err := json.Unmarshal(line, &e); err != nil {
		return e, nil, &agon.Error{Code: "bad_output", Status: 422, Field: "line " + strconv.Itoa(n), Message: fmt.Sprintf("line %d is not an envelope: %v", n, err), Mend: mend}
	}
	if p = byID[e.ProblemID]; p != nil {
		return e, p, nil
	}
	var steps []struct {
		Extra struct {
			Query string `json:"query"`
		} `json:"extra_info"`
	}
	if json.Unmarshal(e.Dialogue, &steps) == nil && len(steps) > 0 {
		p = byQuery[steps[0].Extra.Query]
	}
	if p == nil {
		return e, nil, &agon.Error{Code: "not_found", Status: 404, Field: "line " + strconv.Itoa(n), Message: fmt.Sprintf("line %d: problem %.60q is not in the suite", n, e.ProblemID), Mend: mend}
	}
	return e, p, nil
}

// readEnvelope reads line n without its end. One over maxEnvelope is passed over and an
// *agon.Error.
func readEnvelope(in *bufio.Reader, n int) ([]byte, error) {
	var buf []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if buf = append(buf, part...); len(buf) > maxEnvelope {
			long, buf = true, buf[:0]
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("read output: %w", err)
		case long:
			return nil, &agon.Error{
				Code: "too_large", Status: 413, Field: "line " + strconv.Itoa(n), Limit: strconv.Itoa(maxEnvelope), Message: fmt.Sprintf("line %d has more than %d bytes", n, maxEnvelope),
				Mend: "leave that line out, or pass over such lines with --skip-invalid",
			}
		case err != nil && len(buf) == 0:
			return nil, io.EOF
		default:
			return bytes.TrimRight(buf, "\r\n"), nil
		}
	}
}
