package cli

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/agon-arena/agon/ui/cli/progress"
)

func (a *App) corpusMixCmd(finals corpus.Finals) *cobra.Command {
	cfg := corpus.MixConfig{Finals: finals}
	var difficulty, freshness, diversity float64
	var in, out string
	cmd := &cobra.Command{
		Use:   "mix DIR... --out DIR",
		Short: "Mix corpora for a training, and say who is credited",
		Long: `Take the rows of corpora that weigh most, within caps, and write them as a corpus to train
on, with statement.json: who is credited how much, by rows kept. A row weighs difficulty
(most where half of the plays solve its problem), freshness (halved with every --half-life
before the newest run) and diversity (less with every row of its problem, or with the same
order of tools, that was taken before it); an exponent of 0 leaves a part out.

Only rows of the split train are read, and none whose problem or query stands in eval or
held of one of the corpora. A row needs a licence; --opt-in and --opt-out name files of
hotkeys or coldkeys, a line each. --pool parts an amount by rows, in whole units, to the last.
JSON: the statement {format, rows, tokens, rows_digest, corpora, settings, left_out, licences,
shares: [{miner_hotkey, miner_coldkey, rows, solved, tokens, share, credit}], coldkeys,
uncredited, pool, dir}.`,
		Example: "  agon corpus mix ./corpus --rows 5000 --max-share 0.2 --out ./mix\n  agon corpus mix ./may ./june --licence MIT --opt-in ./agreed.txt --pool 1000000 --out ./mix -o json",
		Args:    Args(1, 100, "directories of agon corpus build"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cfg.Out == "" {
				return output.Usage("out", "agon corpus mix ./corpus --out ./mix", "--out names the directory to make")
			}
			cfg.Corpora, cfg.Difficulty, cfg.Freshness, cfg.Diversity = args, &difficulty, &freshness, &diversity
			var err error
			if in != "" {
				if cfg.OptIn, err = readKeys("opt-in", in); err != nil {
					return err
				}
			}
			if out != "" {
				if cfg.OptOut, err = readKeys("opt-out", out); err != nil {
					return err
				}
			}
			bar := a.bar()
			cfg.Progress = func(rows int) { bar.Set(progress.State{Label: "reading rows", Done: rows}) }
			s, err := corpus.Mix(cmd.Context(), cfg)
			bar.Close()
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: s, IDs: []string{s.Dir}, Human: func(h *output.Human) { mixHuman(h, s) }})
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Out, "out", "", "directory to make")
	f.IntVar(&cfg.Rows, "rows", 0, "rows at most (default: all that are left)")
	f.Float64Var(&difficulty, "difficulty", 1, "`exponent` of difficulty in a row's weight, 0 to 16")
	f.Float64Var(&freshness, "freshness", 1, "`exponent` of freshness")
	f.Float64Var(&diversity, "diversity", 1, "`exponent` of diversity")
	f.DurationVar(&cfg.HalfLife, "half-life", 0, "of freshness (default 720h)")
	f.IntVar(&cfg.PerMiner, "per-miner", 0, "rows of one hotkey (default: no bound)")
	f.IntVar(&cfg.PerColdkey, "per-coldkey", 0, "rows of one coldkey, over all its hotkeys (default: no bound)")
	f.Float64Var(&cfg.MaxShare, "max-share", 0, "`share` of the mix that one coldkey may have, above 0 to 1 (default 1)")
	f.StringSliceVar(&cfg.Licences, "licence", nil, "only rows under this licence, as SPDX names it (again for more)")
	f.StringVar(&in, "opt-in", "", "`file` of the hotkeys or coldkeys that agreed: rows of others are left out")
	f.StringVar(&out, "opt-out", "", "`file` of the hotkeys or coldkeys that withdrew: their rows are left out")
	f.BoolVar(&cfg.Scripted, "scripted", false, "rows by the stand-in script, too")
	f.BoolVar(&cfg.Solved, "solved", false, "only rows that solve their task")
	f.Int64Var(&cfg.Pool, "pool", 0, "`amount` to part by rows, in its smallest unit")
	return cmd
}

func mixHuman(h *output.Human, s *corpus.Statement) {
	h.Line("%d rows, %d tokens in %s; %s says who is credited", s.Rows, s.Tokens, s.Dir, corpus.StatementName)
	if s.Nobody > 0 {
		h.Line("%d rows name no miner", s.Nobody)
	}
	const most = 20
	var rows [][]output.Cell
	for i, x := range s.Shares {
		if i == most {
			break
		}
		rows = append(rows, []output.Cell{output.Text(x.Miner), output.Text(strconv.Itoa(x.Rows)), output.Text(percent(x.Share)), output.Text(strconv.FormatInt(x.Credit, 10))})
	}
	if len(rows) > 0 {
		h.Table([]output.Column{{Title: "miner", Min: 12}, {Title: "rows"}, {Title: "share"}, {Title: "credit"}}, rows)
	}
	if n := len(s.Shares) - most; n > 0 {
		h.Line("and %d more", n)
	}
	counts(h, "rows left out", s.LeftOut)
}

// maxKeys bounds a list of keys, in bytes.
const maxKeys = 64 << 20

// readKeys reads a list of hotkeys or coldkeys: a line each, # begins a comment.
func readKeys(field, path string) (map[string]bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: field, Message: err.Error()}
	}
	defer f.Close()
	out := map[string]bool{}
	in := bufio.NewScanner(io.LimitReader(f, maxKeys))
	for n := 1; in.Scan(); n++ {
		line, _, _ := strings.Cut(in.Text(), "#")
		line = strings.TrimSpace(line)
		if strings.ContainsAny(line, " \t,;") {
			return nil, &agon.Error{Code: "bad_field", Status: 422, Field: field, Message: "line " + strconv.Itoa(n) + " holds more than one key"}
		}
		if line != "" {
			out[line] = true
		}
	}
	if err := in.Err(); err != nil {
		return nil, &agon.Error{Code: "bad_field", Status: 422, Field: field, Message: path + ": " + err.Error()}
	}
	return out, nil
}
