package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/agon-arena/agon/ui/cli/progress"
	"github.com/agon-arena/agon/ui/mcp"
)

func (a *App) corpusCmd(s Corpora) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "corpus",
		Short: "Corpora: turn runs into data to train on",
		Long: `Turn the runs of arenas into data that a trainer can trust: filtered by what the gateway
saw, scrubbed, without duplicates, split by leak cluster, checked against public benchmarks,
and written for OpenAI, TRL, verl, ATIF and Hugging Face (docs/corpus.md).`,
		Example: "  agon corpus build --arena {arena} --out ./corpus\n  agon corpus verify ./corpus",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.corpusBuildCmd(s, false), a.corpusBuildCmd(s, true), a.corpusImportCmd(s.Finals), a.corpusMixCmd(s.Finals), a.corpusClassifyCmd(s.Finals), a.corpusStatsCmd(), a.corpusVerifyCmd(s.Finals), a.corpusAuditCmd())
	return cmd
}

// corpusBuildCmd makes `build`, or `release`, which publishes: the same rows but
// for those held, and refused where they are not fit for others.
func (a *App) corpusBuildCmd(s Corpora, release bool) *cobra.Command {
	cfg := corpus.Config{Release: release}
	var poison []string
	cmd := &cobra.Command{
		Use:   "build --out DIR",
		Short: "Build a corpus from the runs of arenas",
		Long: `Build a corpus from the runs of the server's arenas (default: all). It holds what your key
may read; hidden tasks, open runs and withdrawn submissions never become rows. The same
runs give the same bytes. Rows whose model was the stand-in script are marked, and stay out
of the files for trainers without --scripted. JSON: {rows, scripted_rows, rejected, dir}.`,
		Example: "  agon corpus build --out ./corpus\n  agon corpus build --arena {arena} --poison ./public-tests.txt --out ./corpus",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Out == "" {
				return output.Usage("out", "agon corpus build --out ./corpus", "--out names the directory to make")
			}
			c, err := a.Reader()
			if err != nil {
				return err
			}
			cfg.Source, cfg.Finals = mcp.Remote{Client: c}, s.Finals
			if cfg.Poison, err = readPoison(poison); err != nil {
				return err
			}
			if s.Keys != nil {
				common, done, err := a.Common()
				if err != nil {
					return err
				}
				defer done()
				cfg.LeakKeys = s.Keys(common)
			}
			bar := a.bar()
			cfg.Progress = func(runs, _ int) { bar.Set(progress.State{Label: "reading runs", Done: runs}) }
			cfg.Wrote = func(rows, of int) { bar.Set(progress.State{Label: "writing rows", Done: rows, Total: of}) }
			if release && cfg.Poison == nil {
				return output.Usage("poison", "agon corpus release --poison ./public-tests.txt --out ./release", "--poison names a list of a public benchmark: what is not checked is not released")
			}
			r, err := corpus.Build(cmd.Context(), cfg)
			bar.Close()
			if err == nil && release {
				err = fitToPublish(r, s.Finals)
			}
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: r, IDs: []string{r.Dir}, Human: func(h *output.Human) {
				h.Line("%d rows in %s", r.Rows, r.Dir)
				if w := (&corpus.Counts{Rows: r.Rows, Scripted: r.Scripted}).Warning(); w != "" {
					h.Line("%s", w)
					if !cfg.Scripted {
						h.Line("They are in rows.jsonl only; --scripted writes them into the files for trainers, too.")
					}
				}
				counts(h, "tasks without a row", r.Rejected)
			}})
		},
	}
	if release {
		cmd.Use, cmd.Short = "release --out DIR --poison FILE", "Make the set of rows that can be published, with its card"
		cmd.Long = `Make the set that can be published, in one command: rows of the server's arenas, in splits
for training and evaluation, checked against the lists of public benchmarks that --poison
names, with a dataset card: different queries, overlap, leaks, licences, who acted. Rows of
the split held are left out. It is refused, and nothing is left, where every row comes from
the stand-in script, a licence is missing, or a check of the result fails (exit code 7).
JSON: {rows, scripted_rows, rejected, dir}.`
		cmd.Example = "  agon corpus release --poison ./public-tests.txt --out ./release\n  agon corpus release --arena {arena} --axis agentic --poison ./public-tests.txt --out ./release"
	}
	cmd.Flags().StringSliceVar(&cfg.Arenas, "arena", nil, "only this arena (again for more)")
	cmd.Flags().StringVar(&cfg.Out, "out", "", "directory to make")
	cmd.Flags().StringArrayVar(&poison, "poison", nil, "list of a public benchmark, at most 256 MiB: rows that stand in it are cut (again for more)")
	cmd.Flags().BoolVar(&cfg.Scripted, "scripted", false, "write rows by the stand-in script into the files for trainers, too")
	cmd.Flags().StringVar(&cfg.Salt, "salt", "", "of the split into train, eval and held (default \"agon\")")
	cmd.Flags().IntVar(&cfg.PerCluster, "per-cluster", 0, "rows of one problem (default 32)")
	cmd.Flags().StringSliceVar(&cfg.Only.Axes, "axis", nil, "only rows of this axis: agentic, sub_task, narrated (again for more)")
	cmd.Flags().StringSliceVar(&cfg.Only.Kinds, "kind", nil, "only rows of this kind (again for more)")
	cmd.Flags().StringSliceVar(&cfg.Only.Models, "model", nil, "only rows of this model (again for more)")
	cmd.Flags().BoolVar(&cfg.Only.Solved, "solved", false, "only rows that solve their task")
	cmd.Flags().Float64Var(&cfg.Only.Quality, "min-quality", 0, "only rows of at least this quality, 0 to 1")
	cmd.Flags().Float64Var(&cfg.Only.Judge, "min-judge", 0, "only rows to which a judge gave at least this, 0 to 1")
	cmd.Flags().IntVar(&cfg.PerColdkey, "per-coldkey", 0, "rows of one coldkey (default 2000)")
	return cmd
}

// fitToPublish checks what was made, and removes it where it is not fit.
func fitToPublish(r *corpus.Result, finals corpus.Finals) error {
	why := ""
	v, err := corpus.Verify(r.Dir, finals)
	if err != nil {
		return err
	}
	m, err := corpus.ReadManifest(r.Dir)
	if err != nil {
		return err
	}
	switch {
	case m.Counts.Rows == 0:
		why = "there is no row to publish"
	case m.Counts.Scripted == m.Counts.Rows:
		why = "every row comes from the stand-in script, not from a model"
	case m.Counts.Licences[""]+m.Counts.Licences["unknown"] > 0:
		why = "some rows have no licence"
	case len(v.Problems) > 0:
		why = v.Problems[0]
	default:
		return nil
	}
	if err := os.RemoveAll(r.Dir); err != nil {
		return fmt.Errorf("remove what is not fit to publish: %w", err)
	}
	return &agon.Error{Code: "not_fit", Status: 422, Field: "out", Message: "not fit to publish: " + why, Mend: "agon corpus build --out DIR makes a corpus to look at; its report.md says what became no row"}
}

func (a *App) corpusImportCmd(finals corpus.Finals) *cobra.Command {
	var cfg corpus.ImportConfig
	var poison []string
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Audit trajectories of others, and make a corpus of them",
		Long: `Read trajectories of others and look at them as at rows of our own: structure, secrets,
duplicates, leak clusters, public benchmarks. Files are JSON or JSON lines, plain or packed
with gzip or zstd: ATIF documents, {messages, tools} as OpenAI and published sets have them,
{conversations}, episodes of steps with completions, {instruction, input, output} of one
step. Rows that are wrong or of no use are named and passed over. With --out the others
become a corpus, marked as imported: no gateway vouches for who acted. JSON: {name, read,
rows, forms, axis, invalid, errors, dropped, distinct_queries, rows_per_query,
leak_clusters, duplicates, near_duplicates, rejected, overlap, scrubbed}.`,
		Example: "  agon corpus import ./sft.jsonl --poison ./public-tests.txt\n  agon corpus import ./traces.jsonl.zst --licence CC-BY-4.0 --out ./imported",
		Args:    Args(1, 1000, "files of trajectories"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.Files, cfg.Finals = args, finals
			var err error
			if cfg.Poison, err = readPoison(poison); err != nil {
				return err
			}
			bar := a.bar()
			cfg.Progress = func(rows int) { bar.Set(progress.State{Label: "reading rows", Done: rows}) }
			r, err := corpus.Import(cmd.Context(), cfg)
			bar.Close()
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: r, IDs: []string{r.Name}, Human: func(h *output.Human) {
				h.Line("%d rows of %d are left: %d different queries, %.1f rows each; %d leak clusters", r.Rows, r.Read, r.Queries, r.RowsPerQuery, r.Clusters)
				for _, n := range r.Overlap {
					h.Line("%s: %d rows overlap", n.List, n.Cut)
				}
				for _, e := range r.Errors {
					h.Line("passed over: %s", e)
				}
				for _, d := range r.Dropped {
					h.Line("dropped: %s", d)
				}
				counts(h, "rows that were cut", r.Rejected)
			}})
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Form, "form", "", "atif, messages, sharegpt, dialogue or instruction (default: by what each row holds)")
	f.StringVar(&cfg.Kind, "kind", "", "kind of arena whose rules of structure hold (default: what the rows say)")
	f.StringVar(&cfg.Name, "name", "", "of the data set (default: the first file's)")
	f.StringVar(&cfg.Licence, "licence", "", "of the rows, as SPDX names it; needed with --out")
	f.StringVar(&cfg.Out, "out", "", "directory to make; without it the rows are only audited")
	f.StringArrayVar(&poison, "poison", nil, "list of a public benchmark, at most 256 MiB: overlap with it is counted, and cut (again for more)")
	f.StringVar(&cfg.Salt, "salt", "", "of the split into train, eval and held (default \"agon\")")
	return cmd
}

// maxPoisonFile bounds one poison list.
const maxPoisonFile = 256 << 20

func readPoison(paths []string) (*corpus.Poison, error) {
	if len(paths) == 0 {
		return nil, nil //nolint:nilnil // no list is not a poison
	}
	p := corpus.NewPoison()
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, &agon.Error{Code: "not_found", Status: 404, Field: "poison", Message: err.Error(), Mend: "name a file with one text a line of the benchmark that must not stand in the rows"}
		}
		st, err := f.Stat()
		if err == nil && st.Size() > maxPoisonFile {
			err = &agon.Error{Code: "too_large", Status: 413, Field: "poison", Limit: "256 MiB", Message: path + " is too large"}
		}
		if err == nil {
			err = p.Add(filepath.Base(path), f)
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			var e *agon.Error
			if !errors.As(err, &e) {
				err = &agon.Error{Code: "bad_poison", Status: 422, Field: "poison", Message: err.Error()}
			}
			return nil, err
		}
	}
	return p, nil
}

// counts prints counted things, most first.
func counts(h *output.Human, what string, m map[string]int) {
	keys := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(keys, func(x, y string) int { return cmp.Compare(m[y], m[x]) })
	var rows [][]output.Cell
	for _, k := range keys {
		rows = append(rows, []output.Cell{output.Text(k), output.Text(fmt.Sprint(m[k]))})
	}
	if len(rows) > 0 {
		h.Table([]output.Column{{Title: what, Min: 12}, {Title: "n"}}, rows)
	}
}

func (a *App) corpusClassifyCmd(finals corpus.Finals) *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use:   "classify FILE",
		Short: "Say of an ATIF file who acted, and what is wrong with its form",
		Long: `Classify a trajectory (ATIF v1.8): agentic, sub_task or narrated by the share of tool calls
that a model made; structural rejects; tokens of o200k_base over the canonical JSON of
messages and tools. JSON: {axis, ratio, rejects, tokens}.`,
		Example: "  agon corpus classify run.atif.json -o json",
		Args:    Args(1, 1, "one file, or - for stdin"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := a.IO.In
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return &agon.Error{Code: "not_found", Status: 404, Field: "file", Message: err.Error()}
				}
				defer f.Close()
				in = f
			}
			b, err := io.ReadAll(io.LimitReader(in, corpus.MaxDocument+1))
			if err != nil {
				return fmt.Errorf("read file: %w", err)
			}
			c, err := corpus.ClassifyFile(b, kind, finals)
			if err != nil {
				return &agon.Error{Code: "bad_trajectory", Status: 422, Field: "file", Message: err.Error(), Mend: "it must be one ATIF v1.7 document"}
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: c, Human: func(h *output.Human) {
				h.Line("%s, ratio %.3f, %d tokens", c.Axis, c.Ratio, c.Tokens)
				for _, r := range c.Rejects {
					h.Line("rejected: %s", r)
				}
			}})
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "kind whose rules of form hold (default: as the file says)")
	return cmd
}

func (a *App) corpusStatsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "stats DIR",
		Short:   "Sum up a corpus: rows, why runs became none, contamination",
		Long:    "Sum up a built corpus. JSON: the manifest's counts and report.",
		Example: "  agon corpus stats ./corpus",
		Args:    Args(1, 1, "one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := corpus.ReadManifest(args[0])
			if err != nil {
				return err
			}
			v := struct {
				Counts corpus.Counts  `json:"counts"`
				Report *corpus.Report `json:"report"`
			}{m.Counts, m.Report}
			return a.Printer.Print(cmd.Context(), output.Result{Value: v, Human: func(h *output.Human) {
				c := m.Counts
				h.Line("%d rows in %d clusters: %d train, %d eval, %d held; %d solved; %d tokens; %s", c.Rows, c.Cluster, c.Train, c.Eval, c.Held, c.Solved, c.Tokens, m.Licence)
				if w := c.Warning(); w != "" {
					h.Line("%s", w)
				}
				counts(h, "kind", c.Kind)
				counts(h, "solved", c.SolvedByKind)
				counts(h, "tokens", c.TokensByKind)
				counts(h, "tool calls", c.Tools)
				counts(h, "axis", c.Axis)
				counts(h, "tasks without a row", m.Report.Rejected)
				counts(h, "removed", m.Report.Scrubbed)
				if len(m.Poison) == 0 {
					h.Line("no list of a public benchmark was given: nothing is known about contamination")
				}
				for _, n := range m.Report.Contamination {
					h.Line("contaminated by %s: %d", n.List, n.Cut)
				}
				if len(m.Report.Open) > 0 {
					h.Line("refused, since they are not over: %d runs", len(m.Report.Open))
				}
			}})
		},
	}
}

func (a *App) corpusVerifyCmd(finals corpus.Finals) *cobra.Command {
	return &cobra.Command{
		Use:     "verify DIR",
		Short:   "Hash a corpus again and look for leaks between its splits",
		Long:    "Hash the files of a corpus again and look for leaks. Exit code 7 if anything is wrong. JSON: {rows, files, problems}.",
		Example: "  agon corpus verify ./corpus",
		Args:    Args(1, 1, "one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := corpus.Verify(args[0], finals)
			if err != nil {
				return err
			}
			err = a.Printer.Print(cmd.Context(), output.Result{Value: v, Human: func(h *output.Human) {
				h.Line("%d files, %d rows", v.Files, v.Rows)
				if len(v.Problems) == 0 {
					h.Line("all is as its manifest says, and nothing leaks between the splits")
				}
				for _, p := range v.Problems {
					h.Line("%s", p)
				}
			}})
			if err == nil && len(v.Problems) > 0 {
				return &Exit{Code: CodeRefused}
			}
			return err
		},
	}
}
