package commands

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/claim/query"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// maxSuiteFile bounds a benchmark's file, in bytes.
const maxSuiteFile = 256 << 20

// benchmarkOptions is `agon claim benchmark`.
type benchmarkOptions struct {
	file, script   string
	arena          string // whose champion is played; "" = script
	suite, version string
	source         string // what the run is of, as its ids name it
	all            bool
	budget         agon.Micros // of a question
}

// BenchmarkReport is what `agon claim benchmark` prints.
type BenchmarkReport struct {
	Suite     string          `json:"suite"`
	Version   string          `json:"dataset_version"`
	Scoring   string          `json:"scoring_version"`
	Run       string          `json:"run_id"`
	Batch     string          `json:"backing_batch_id"`
	Source    string          `json:"source_batch_id"`
	Script    agon.Digest     `json:"script"` // of the tree that was played
	Judge     string          `json:"judge"`
	Measured  string          `json:"judge_measured"` // how its judge did on labelled cases, in a sentence
	State     string          `json:"state"`          // completed, partial_success or failed
	Mean      float64         `json:"mean"`           // over all items, failed ones as 0
	Completed int             `json:"completed"`
	Failed    int             `json:"failed"`
	Cost      agon.Micros     `json:"cost_micros"` // of the script's calls
	Items     []BenchmarkItem `json:"items"`
}

// BenchmarkItem is one question of it.
type BenchmarkItem struct {
	Item   int         `json:"item"` // in the file, from 0
	Task   string      `json:"task_id"`
	State  string      `json:"state"` // completed or failed
	Score  float64     `json:"score"`
	Reason string      `json:"reason"`
	Cost   agon.Micros `json:"cost_micros"`
}

func (a commands) benchmark() *cobra.Command {
	var o benchmarkOptions
	var budget float64
	var driver string
	cmd := &cobra.Command{
		Use:   "benchmark FILE [SCRIPT]",
		Short: "Play a script of the query era, or a champion, on a benchmark's questions",
		Long: `Play SCRIPT, or with --arena the champion of an arena, on the questions of a benchmark, in
boxes as a validator does. It reports and seats nobody: what is public cannot decide money.

FILE has a JSON object on each line: {"question", "answer"}, graded right or wrong, or
{"question", "rubric": [{"id", "section", "weight", "requirement"}]}, graded by the weights
of what is met. Twenty items are asked, the same in each run of a version; --all asks all.
Answers are graded by AGON_JUDGE_MODEL; without a model key words are compared in its place.

JSON: {suite, dataset_version, scoring_version, run_id, backing_batch_id, judge,
judge_measured, state, mean, completed, failed, cost_micros, items: [{item, task_id, state, score, reason}]}.
Exit codes: 0 all answered, 3 some failed, 7 all failed.`,
		Example: "  agon claim benchmark deepsearchqa.jsonl agent.py\n  agon claim benchmark draco.jsonl --arena queries --suite draco --dataset-version 2026-05",
		Args:    cli.Args(1, 2, "a benchmark's file, and a script"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case (len(args) == 2) == (o.arena != ""):
				return output.Usage("script", "name a script, or an arena by --arena", "want a script or --arena, one of them")
			case !(budget > 0 && budget <= 10):
				return output.Usage("budget", "give more than 0 and at most 10", "--budget %g: out of range", budget)
			}
			o.file, o.budget = args[0], agon.Micros(budget*1e6)
			if len(args) == 2 {
				o.script = args[1]
			}
			if o.suite == "" {
				o.suite = strings.TrimSuffix(filepath.Base(o.file), filepath.Ext(o.file))
			}
			r, err := a.playBenchmark(cmd.Context(), driver, o)
			if err != nil {
				return err
			}
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: r, IDs: []string{r.Run}, Human: func(h *output.Human) { benchmarkHuman(h, r) }}); err != nil {
				return err
			}
			switch r.State {
			case query.BenchPartial:
				return &cli.Exit{Code: cli.CodePartly}
			case query.BenchFailed:
				return &cli.Exit{Code: cli.CodeRefused}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.arena, "arena", "", "play the champion of this `arena`, whose files must be public")
	f.StringVar(&o.suite, "suite", "", "`name` of the benchmark (default: that of the file)")
	f.StringVar(&o.version, "dataset-version", "1", "`version` of its data, by which the items are drawn")
	f.StringVar(&o.source, "source", "", "`id` of the batch that the run is of (default: the submission, or the script's digest)")
	f.BoolVar(&o.all, "all", false, "ask all items, not twenty")
	f.Float64Var(&budget, "budget", 0.5, "`dollars` that the script may spend on a question")
	cli.DriverFlag(cmd, &driver)
	return cmd
}

func benchmarkHuman(h *output.Human, r *BenchmarkReport) {
	rows := [][]output.Cell{}
	for _, x := range r.Items {
		rows = append(rows, []output.Cell{output.Text(fmt.Sprint(x.Item)), output.Text(x.State), output.Text(fmt.Sprintf("%.3f", x.Score)), output.Text(plain.Line(x.Reason))})
	}
	h.Table([]output.Column{{Title: "item", Right: true}, {Title: "state"}, {Title: "score", Right: true}, {Title: "why"}}, rows)
	h.Line("%s: mean %.3f of %d items, %d of them failed (%s, judged by %s)", plain.Line(r.Suite), r.Mean, len(r.Items), r.Failed, r.Scoring, r.Judge)
	h.Line("%s", r.Measured)
}

// playBenchmark reads the benchmark and the script, and plays it.
func (a commands) playBenchmark(ctx context.Context, driver string, o benchmarkOptions) (*BenchmarkReport, error) {
	b, err := kit.ReadFile(o.file, maxSuiteFile)
	if err != nil {
		return nil, err
	}
	items, scoring, err := query.ReadSuite(bytes.NewReader(b))
	if err != nil {
		return nil, &agon.Error{Code: "bad_file", Status: http.StatusUnprocessableEntity, Field: "file", Message: o.file + ": " + err.Error(), Mend: "`agon claim benchmark --help` shows the form of a line"}
	}
	files, err := a.played(ctx, &o)
	if err != nil {
		return nil, err
	}
	common, done, err := a.Common()
	if err != nil {
		return nil, err
	}
	defer done()
	return runBenchmark(ctx, a.kits.Options(common, driver), o, items, scoring, files)
}

// played reads the files of who is played.
func (a commands) played(ctx context.Context, o *benchmarkOptions) ([]blob.File, error) {
	if o.arena == "" {
		src, err := kit.ReadFile(o.script, play.MaxQueryBytes)
		return []blob.File{{Path: play.AgentFile, Content: src}}, err
	}
	c, err := a.Reader()
	if err != nil {
		return nil, err
	}
	board, err := c.Board(ctx, o.arena)
	if err != nil {
		return nil, err
	}
	if board.Champion == nil {
		return nil, &agon.Error{Code: "no_champion", Status: http.StatusNotFound, Field: "arena", Message: "nobody sits in " + o.arena, Mend: "name a script in place of --arena"}
	}
	if o.source == "" {
		o.source = *board.Champion
	}
	list, err := c.SubmissionFiles(ctx, *board.Champion)
	if err != nil {
		return nil, err
	}
	var out []blob.File
	for _, f := range list {
		out = append(out, blob.File{Path: f.Path, Content: f.Content})
	}
	return out, nil
}

// runBenchmark plays the chosen items one by one.
func runBenchmark(ctx context.Context, o kit.Options, in benchmarkOptions, items []query.Item, scoring string, files []blob.File) (*BenchmarkReport, error) {
	chosen := make([]int, len(items))
	for i := range chosen {
		chosen[i] = i
	}
	if !in.all {
		var err error
		if chosen, err = query.Panel(in.version, scoring, len(items)); err != nil {
			return nil, err
		}
	}
	work, err := tempdir.Make("benchmark")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	blobs, err := blobfs.Open(filepath.Join(work, "blobs"), blobfs.Options{})
	if err != nil {
		return nil, err
	}
	script, err := blob.PutFiles(ctx, blobs, files, blob.TreeLimits{})
	if err != nil {
		return nil, err
	}
	source := in.source
	if source == "" {
		source = string(script)
	}
	ids := query.BenchmarkIDs(in.suite, source, in.version, scoring, chosen)
	byKey := map[string]query.Item{}
	tasks := make([]agon.TaskRef, 0, len(chosen))
	for i, n := range chosen {
		t := agon.TaskRef{Key: fmt.Sprintf("benchmark/item-%05d", n)}
		if t.Digest, err = putItem(ctx, blobs, ids.Tasks[i], items[n], in.budget); err != nil {
			return nil, err
		}
		byKey[t.Key], tasks = items[n], append(tasks, t)
	}
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	var grader play.ItemJudge
	if p := o.Parts(root); p.Keyed {
		grader = play.ModelItems{ModelJudge: play.ModelJudge{Models: p.Judges}}
	}
	k := play.NewBench(play.QueryConfig{Rootfs: root}, grader, byKey)
	p, err := kit.NewPlayer(ctx, o, d, root, map[string]kind.Kind{k.Name(): k}, blobs, filepath.Join(work, "trees"))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	measured, err := judgeMeasured(o.Data, k)
	if err != nil {
		return nil, err
	}
	r := &BenchmarkReport{Measured: measured, Suite: in.suite, Version: in.version, Scoring: scoring, Run: ids.Run, Batch: ids.Batch, Source: source, Script: script, Judge: k.Scorer(), Items: []BenchmarkItem{}}
	var scores []float64
	for i, t := range tasks {
		o.Sayf("item %d of %d", i+1, len(tasks))
		policy := agon.Policy{Models: []string{"*"}, Budget: agon.Budget{Micros: in.budget, Calls: 1000}}
		x, err := playItem(ctx, p, t, policy, agon.Submission{ID: "benchmark", Name: "benchmark", Digest: script})
		if err != nil {
			return nil, err
		}
		x.Item, x.Task = chosen[i], ids.Tasks[i]
		if r.Cost += x.Cost; x.State == query.BenchCompleted {
			scores = append(scores, x.Score)
		}
		r.Items = append(r.Items, x)
	}
	r.Completed, r.Failed = len(scores), len(tasks)-len(scores)
	r.Mean, r.State = query.BenchSum(scores, r.Failed)
	return r, nil
}

// judgeMeasured says how the judge of a benchmark did on labelled cases.
func judgeMeasured(data string, k *play.BenchKind) (string, error) {
	own, prompt := k.Judged(), k.Prompt()
	list, err := kit.Gauges(data).Records()
	if err != nil {
		return "", err
	}
	for _, r := range list {
		if r.Scorer == own {
			_, why := r.Against(agon.Gate{Kappa: judge.GateKappa, FalseAccepts: judge.GateFalseAccept})
			return fmt.Sprintf("Its judge agrees with the labels on %.1f %% of %d cases, kappa %.2f to %.2f: %s.", 100*r.Agreement, r.Judged, r.CI[0], r.CI[1], why), nil
		}
	}
	if own == judge.LexicalItems {
		return "Words were compared in a judge's place: the grades are for a demo only.", nil
	}
	return "Its judge was never measured: " + judge.Measuring(prompt.Name) + " does that.", nil
}

func putItem(ctx context.Context, blobs blob.Store, id string, x query.Item, budget agon.Micros) (agon.Digest, error) {
	texts, err := play.BenchFiles(id, x, budget)
	if err != nil {
		return "", err
	}
	var files []blob.File
	for name, text := range texts {
		files = append(files, blob.File{Path: name, Mode: blob.ModeFile, Content: []byte(text)})
	}
	return blob.PutFiles(ctx, blobs, files, blob.TreeLimits{})
}

// playItem asks one question. An error is our failure; a script's own is a failed item.
func playItem(ctx context.Context, p *kit.Player, t agon.TaskRef, policy agon.Policy, s agon.Submission) (BenchmarkItem, error) {
	att := p.Play(ctx, validator.Job{
		Run:     agon.RunSpec{Run: "benchmark-" + strings.TrimPrefix(t.Key, "benchmark/"), Arena: "benchmark", Tasks: []agon.TaskRef{t}, Policy: policy},
		Attempt: 1, Arena: agon.Arena{ID: "benchmark", Kind: play.BenchName}, Submission: s,
	})
	if att.Fault.Ours() {
		return BenchmarkItem{}, fmt.Errorf("play %s: %s", t.Key, att.Reason)
	}
	out := BenchmarkItem{State: query.BenchFailed, Reason: att.Reason, Cost: att.Cost}
	if len(att.Scores) != 1 {
		return out, nil
	}
	sc := att.Scores[0]
	out.Reason = sc.Detail
	if sc.Metrics[play.MetricGraded] == 1 {
		out.State, out.Score = query.BenchCompleted, sc.Value
	}
	return out, nil
}
