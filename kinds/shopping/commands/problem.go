package commands

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/kinds/shopping/encode"
	"github.com/agon-arena/agon/kinds/shopping/problem"
	"github.com/agon-arena/agon/kinds/shopping/shop"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// encoderFlags choose an encoder of titles.
type encoderFlags struct{ vectors, url, model string }

func (e *encoderFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&e.vectors, "vectors", "", "`file` of precomputed title vectors, see agon shop vectors (AGON_ENCODER_VECTORS)")
	f.StringVar(&e.url, "encoder-url", "", "`address` of a service of embeddings in OpenAI's form (AGON_ENCODER_URL; key: AGON_ENCODER_KEY)")
	f.StringVar(&e.model, "encoder-model", "", "its `model` (AGON_ENCODER_MODEL)")
}

// encoder is the one that flags or environment choose: the built-in one by default.
func (a commands) encoder(e encoderFlags) (shop.Encoder, error) {
	s := encode.FromEnv(a.Env.Getenv)
	for _, f := range []struct {
		to   *string
		flag string
	}{{&s.Vectors, e.vectors}, {&s.URL, e.url}, {&s.Model, e.model}} {
		if f.flag != "" {
			*f.to = f.flag
		}
	}
	return encode.Open(s)
}

// madeProblem is a line of `agon shop problems`.
type madeProblem struct {
	ProblemID  string `json:"problem_id"`
	Category   string `json:"category"`
	Difficulty string `json:"difficulty"`
	Items      int    `json:"items"`
	Query      string `json:"query"`
}

func (a commands) problems() *cobra.Command {
	var count int
	var seed uint64
	var label, pool, suite, tasks, from string
	var hard, hidden, oro, plain bool
	var only []string
	var enc encoderFlags
	cmd := &cobra.Command{
		Use:   "problems INDEX",
		Short: "Make problems with ground truth from an index, or read a suite",
		Long: `Make problems of the three kinds: one product, several of one shop, several within a
voucher's budget. The difficulty is measured: easy, where a plain search lists every ground
truth on its first page; medium, on one of its five; hard (--hard), where it does not. Every
ground truth is scored before its problem is kept.

Who knows the seed knows the answers: --hidden draws one and tells nobody. Sets of
different --pool, 0/2 and 1/2, share no answer. --suite writes ORO's form, --tasks a
directory of tasks. JSON: a list of {problem_id, category, difficulty, items, query}.
--from FILE takes the problems of a suite in ORO's form instead, to check it or to write
its tasks.`,
		Example: "  agon shop problems catalogue.jsonl.index --count 30 --seed 7 --pool 0/2 --tasks public\n  agon shop problems catalogue.jsonl.index --count 90 --hidden --pool 1/2 --suite hidden.json\n  agon shop problems --from problem_suite_v3.json --tasks oro",
		Args:    cli.Args(0, 1, "an index"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if from != "" {
				list, err := readSuite(from)
				if err != nil {
					return err
				}
				if tasks != "" {
					if _, err := problem.WriteTasks(tasks, "a suite in ORO's form", list); err != nil {
						return err
					}
				}
				return a.printProblems(cmd, list)
			}
			if len(args) == 0 {
				return output.Usage("index", "make one with `agon shop index FILE.jsonl`", "an index is missing")
			}
			if suite == "" && tasks == "" {
				return output.Usage("suite", "name a --suite file or a --tasks directory", "there is nowhere to write the problems")
			}
			c := problem.Config{Label: label, Seed: seed, Counts: problem.Suite(count, hard), ORO: oro, Plain: plain}
			if count < 1 || count > problem.MaxProblems {
				return output.Usage("count", fmt.Sprintf("give 1 to %d", problem.MaxProblems), "--count %d: out of range", count)
			}
			if len(only) > 0 {
				var err error
				if c.Counts, err = problem.Only(count, only, hard); err != nil {
					return err
				}
			}
			if hidden {
				var b [8]byte
				if _, err := rand.Read(b[:]); err != nil {
					return fmt.Errorf("draw a seed: %w", err)
				}
				c.Seed = binary.BigEndian.Uint64(b[:])
			}
			if pool != "" {
				i, n, ok := strings.Cut(pool, "/")
				var err1, err2 error
				c.Pool, err1 = strconv.Atoi(i)
				c.Pools, err2 = strconv.Atoi(n)
				if !ok || err1 != nil || err2 != nil || c.Pool < 0 || c.Pool >= c.Pools || c.Pools > 1000 {
					return output.Usage("pool", "give 0/2 and 1/2, say", "--pool %q: want I/N with 0 <= I < N", pool)
				}
			}
			var err error
			if c.Encoder, err = a.encoder(enc); err != nil {
				return err
			}
			_, c.NoVectors = c.Encoder.(encode.Ngram)
			x, err := openIndex(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = x.Close() }()
			c.Index = x
			list, err := problem.Generate(cmd.Context(), c)
			if err != nil {
				return err
			}
			mode := os.FileMode(0o644)
			if hidden {
				mode = 0o600 // it holds the answers
			}
			if suite != "" {
				if err := replaceFile(suite, mode, func(w io.Writer) error { return problem.WriteSuite(w, list) }); err != nil {
					return err
				}
			}
			if tasks != "" {
				if _, err := problem.WriteTasks(tasks, "generated by agon from the catalogue "+string(x.Meta().Catalogue), list); err != nil {
					return err
				}
				if err := os.Chmod(tasks, map[bool]os.FileMode{false: 0o755, true: 0o700}[hidden]); err != nil {
					return fmt.Errorf("write tasks: %w", err)
				}
			}
			return a.printProblems(cmd, list)
		},
	}
	f := cmd.Flags()
	f.IntVar(&count, "count", 30, "how many problems")
	f.Uint64Var(&seed, "seed", 1, "the `seed`")
	f.StringSliceVar(&only, "only", nil, "only these, as `CATEGORY/DIFFICULTY` or CATEGORY (again for more)")
	f.StringVar(&label, "label", "", "`name` of the set: another one gives other problems")
	f.StringVar(&pool, "pool", "", "use only the products of one part, `I/N`")
	f.StringVar(&suite, "suite", "", "write a suite in ORO's form to this `file`")
	f.StringVar(&tasks, "tasks", "", "write task directories below this new `directory`")
	f.StringVar(&from, "from", "", "take the problems of this `suite` in ORO's form")
	f.BoolVar(&hard, "hard", false, "hard problems too")
	f.BoolVar(&plain, "plain", false, "in the catalogue's own words, for models that learn: comparing words solves them")
	f.BoolVar(&oro, "oro", false, "only what ORO's own scorer reads: each has an answer, nothing is excluded")
	f.BoolVar(&hidden, "hidden", false, "draw a seed that nobody is told")
	enc.add(cmd)
	return cmd
}

func readSuite(path string) ([]shop.Problem, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read suite: %w", err)
	}
	defer func() { _ = f.Close() }()
	return problem.ReadSuite(f)
}

func (a commands) printProblems(cmd *cobra.Command, list []shop.Problem) error {
	made := make([]madeProblem, len(list))
	for i, p := range list {
		made[i] = madeProblem{p.ProblemID, p.Category, p.Difficulty, len(p.Reward.Items), p.Query}
	}
	return a.Printer.Print(cmd.Context(), output.List(made, func(p madeProblem) string { return p.ProblemID }, func(h *output.Human) {
		rows := make([][]output.Cell, len(made))
		for i, p := range made {
			rows[i] = []output.Cell{output.Text(p.Category), output.Text(p.Difficulty), output.Text(strconv.Itoa(p.Items)), output.Text(p.Query)}
		}
		h.Table([]output.Column{{Title: "category"}, {Title: "difficulty"}, {Title: "items", Right: true}, {Title: "query", Min: 30}}, rows)
	}))
}

// bankInfo is what the commands of a bank print: nothing of hidden problems but their number.
type bankInfo struct {
	Public  int        `json:"public"`
	Hidden  int        `json:"hidden"`
	Racing  int        `json:"racing"`
	Retired int        `json:"retired"`
	Races   []bankRace `json:"races"`
	// NewlyRetired are the problems that the race just closed has used up.
	NewlyRetired []string `json:"newly_retired,omitempty"`
}

type bankRace struct {
	ID       string `json:"id"`
	Open     bool   `json:"open"`
	Problems int    `json:"problems"`
	Players  int    `json:"players"`
}

func (a commands) printBank(cmd *cobra.Command, b *problem.Bank, retired []string) error {
	info := bankInfo{Races: []bankRace{}, NewlyRetired: retired}
	for _, e := range b.Entries {
		switch e.State {
		case problem.StatePublic:
			info.Public++
		case problem.StateHidden:
			info.Hidden++
		case problem.StateRacing:
			info.Racing++
		case problem.StateRetired:
			info.Retired++
		}
	}
	for _, r := range b.Races {
		info.Races = append(info.Races, bankRace{r.ID, r.Open, len(r.Problems), len(r.Played)})
	}
	return a.Printer.Print(cmd.Context(), output.Result{Value: info, Human: func(h *output.Human) {
		h.Line("%d public, %d hidden, %d racing, %d retired", info.Public, info.Hidden, info.Racing, info.Retired)
		rows := make([][]output.Cell, len(info.Races))
		for i, r := range info.Races {
			rows[i] = []output.Cell{output.Text(r.ID), output.Text(map[bool]string{true: "open", false: "closed"}[r.Open]), output.Text(strconv.Itoa(r.Problems)), output.Text(strconv.Itoa(r.Players))}
		}
		if len(rows) > 0 {
			h.Table([]output.Column{{Title: "race"}, {Title: "state"}, {Title: "problems", Right: true}, {Title: "players", Right: true}}, rows)
		}
	}})
}

func (a commands) bank() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bank",
		Short: "Rotate hidden problems through races",
		Long: `A bank is a file with the public suite and the hidden problems of an arena. A race draws
hidden problems that fewest submissions have seen; when it closes they go back, or retire
by the bank's policy. Whoever can read the file can read the answers: it is 0600.`,
		Example: "  agon shop bank new bank.json --public public.json --hidden hidden.json --max-races 3\n  agon shop bank draw bank.json --race r1 --count 12 --tasks race-r1\n  agon shop bank close bank.json --race r1",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.bankNew(), a.bankShow(), a.bankAdd(), a.bankDraw(), a.bankExpose(), a.bankClose())
	return cmd
}

func (a commands) bankNew() *cobra.Command {
	var public, hidden string
	var policy problem.Policy
	cmd := &cobra.Command{
		Use:     "new BANK",
		Short:   "Make a bank of two suites that share no answer",
		Example: "  agon shop bank new bank.json --public public.json --hidden hidden.json --max-races 3",
		Args:    cli.Args(1, 1, "a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var sets [2][]shop.Problem
			for i, path := range []string{public, hidden} {
				if path == "" {
					continue
				}
				var err error
				if sets[i], err = readSuite(path); err != nil {
					return err
				}
			}
			if _, err := os.Lstat(args[0]); err == nil {
				return output.Usage("bank", "name another file", "%s exists: its history would be lost", args[0])
			}
			b, err := problem.NewBank(policy, sets[0], sets[1])
			if err != nil {
				return err
			}
			if err := b.Save(args[0]); err != nil {
				return err
			}
			return a.printBank(cmd, b, nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&public, "public", "", "`suite` that everybody may read")
	f.StringVar(&hidden, "hidden", "", "`suite` that races draw from")
	f.IntVar(&policy.MaxExposures, "max-exposures", 0, "retire a problem after so many submissions; 0 = never")
	f.IntVar(&policy.MaxRaces, "max-races", 0, "retire a problem after so many races; 0 = never")
	f.BoolVar(&policy.Publish, "publish", false, "retire all problems of a race when it closes")
	return cmd
}

func (a commands) bankShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show BANK",
		Short:   "Show how many problems are left, and the races",
		Example: "  agon shop bank show bank.json",
		Args:    cli.Args(1, 1, "a bank"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := problem.LoadBank(args[0])
			if err != nil {
				return err
			}
			return a.printBank(cmd, b, nil)
		},
	}
}

func (a commands) bankDraw() *cobra.Command {
	var race, tasks string
	var count int
	cmd := &cobra.Command{
		Use:     "draw BANK --race NAME",
		Short:   "Open a race: draw hidden problems and write them as tasks",
		Example: "  agon shop bank draw bank.json --race r1 --count 12 --tasks race-r1",
		Args:    cli.Args(1, 1, "a bank"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if tasks == "" {
				return output.Usage("tasks", "name a directory that does not exist yet", "--tasks is missing")
			}
			b, err := problem.LoadBank(args[0])
			if err != nil {
				return err
			}
			list, err := b.Draw(race, count)
			if err != nil {
				return err
			}
			// The bank first: a draw that nobody got is better than two races with one set.
			if err := b.Save(args[0]); err != nil {
				return err
			}
			if _, err := problem.WriteTasks(tasks, "hidden set of race "+race, list); err != nil {
				return err
			}
			if err := os.Chmod(tasks, 0o700); err != nil { // its files are the answers
				return fmt.Errorf("write tasks: %w", err)
			}
			return a.printBank(cmd, b, nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&race, "race", "", "`name` of the race")
	f.IntVar(&count, "count", 12, "how many problems")
	f.StringVar(&tasks, "tasks", "", "write task directories below this new `directory`")
	return cmd
}

func (a commands) bankAdd() *cobra.Command {
	var hidden string
	cmd := &cobra.Command{
		Use:     "add BANK --hidden SUITE",
		Short:   "Put further hidden problems into a bank",
		Example: "  agon shop bank add bank.json --hidden more.json",
		Args:    cli.Args(1, 1, "a bank"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if hidden == "" {
				return output.Usage("hidden", "name a suite", "--hidden is missing")
			}
			b, err := problem.LoadBank(args[0])
			if err != nil {
				return err
			}
			list, err := readSuite(hidden)
			if err != nil {
				return err
			}
			if fresh := b.Unshown(list); len(fresh) > 0 && len(fresh) < len(list) {
				a.IO.Notef("%d of %d problems are left out: an answer of each is shown with a retired one", len(list)-len(fresh), len(list))
				list = fresh
			}
			if err := b.Add(problem.StateHidden, list); err != nil {
				return err
			}
			if err := b.Save(args[0]); err != nil {
				return err
			}
			return a.printBank(cmd, b, nil)
		},
	}
	cmd.Flags().StringVar(&hidden, "hidden", "", "`suite` that races draw from")
	return cmd
}

func (a commands) bankExpose() *cobra.Command {
	var race string
	cmd := &cobra.Command{
		Use:   "expose BANK --race NAME SUBMISSION...",
		Short: "Note which submissions have played an open race",
		Long: `Note that submissions have seen the problems of an open race; noting it again changes
nothing. The counts decide what the next race draws and what retires.`,
		Example: "  agon submission list --arena shop -o id | xargs agon shop bank expose bank.json --race r1",
		Args:    cli.Args(2, -1, "a bank and submissions"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := problem.LoadBank(args[0])
			if err != nil {
				return err
			}
			list, err := b.Racing(race)
			if err != nil {
				return err
			}
			for _, p := range list {
				for _, submission := range args[1:] {
					if err := b.Expose(race, p.ProblemID, submission); err != nil {
						return err
					}
				}
			}
			if err := b.Save(args[0]); err != nil {
				return err
			}
			return a.printBank(cmd, b, nil)
		},
	}
	cmd.Flags().StringVar(&race, "race", "", "`name` of the race")
	return cmd
}

func (a commands) bankClose() *cobra.Command {
	var race string
	cmd := &cobra.Command{
		Use:     "close BANK --race NAME",
		Short:   "Close a race: its problems go back, or retire",
		Example: "  agon shop bank close bank.json --race r1",
		Args:    cli.Args(1, 1, "a bank"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := problem.LoadBank(args[0])
			if err != nil {
				return err
			}
			retired, err := b.Close(race)
			if err != nil {
				return err
			}
			if err := b.Save(args[0]); err != nil {
				return err
			}
			return a.printBank(cmd, b, retired)
		},
	}
	cmd.Flags().StringVar(&race, "race", "", "`name` of the race")
	return cmd
}
