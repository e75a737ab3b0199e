package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/agon-arena/agon/ui/cli/progress"
)

// Limits of an entry as this side reads it; the arena's own are checked there.
const (
	maxEntryFiles = 64
	maxEntryBytes = 8 << 20
)

func (a *App) submissionCmd(in Agents) *cobra.Command {
	return a.noun(&cobra.Command{
		Use:     "submission",
		Short:   "Submissions: enter an agent, see why it lost",
		Example: "  agon submission submit ./agent.py --arena {arena} --wait\n  agon submission",
	}, a.submissionListCmd(), a.submitCmd(in), a.submissionViewCmd(), a.downloadCmd(), a.purseCmd(),
		a.act("appeal SUBMISSION", "Object to how it was played: others play it again, and the operator answers", "agon submission appeal SUBMISSION --reason 'the model was down in run 3'", true, func(ctx context.Context, c *client.Client, id, reason string) (any, error) {
			return c.Appeal(ctx, id, reason)
		}))
}

func (a *App) submissionListCmd() *cobra.Command {
	var arena, miner string
	var mine bool
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List submissions, newest first",
		Long:    "List submissions, newest first. JSON: an array of submissions {id, arena, miner, name, digest, state, score, solved, total, cost_micros, scripted, …}.",
		Example: "  agon submission list --arena {arena}\n  agon submission list --mine -o id",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return output.Usage("limit", "ask for at least 1", "--limit %d: out of range", limit)
			}
			c, err := a.Reader()
			if err != nil {
				return err
			}
			if _, err := auth.ParseSS58(miner); miner != "" && err != nil {
				return output.Usage("miner", "--mine lists yours; give the whole address of another's hotkey", "--miner %q is not the address of a hotkey", miner)
			}
			if mine {
				key, err := a.Key()
				if err != nil {
					return err
				}
				miner = key.SS58()
			}
			subs, err := All(limit, func(o client.ListOptions) (*client.Page[client.Submission], error) {
				return c.Submissions(cmd.Context(), arena, miner, o)
			})
			if err != nil {
				return err
			}
			if len(subs) == 0 {
				if err := knownArena(cmd.Context(), c, arena); err != nil {
					return err
				}
			}
			return a.Printer.Print(cmd.Context(), output.List(subs, func(s client.Submission) string { return s.ID }, func(h *output.Human) {
				if len(subs) == 0 {
					h.Line("no submissions")
					return
				}
				rows := make([][]output.Cell, len(subs))
				for i, s := range subs {
					rows[i] = []output.Cell{
						output.Text(s.ID), output.Text(s.Name), output.Text(s.Arena), output.Text(s.Miner), StateCell(string(s.State)),
						output.Text(ScoreText(s.Score)), output.Text(solved(s.Solved, s.Total)), output.Text(money(s.CostMicros)), output.Text(When(s.CreatedAt)),
					}
				}
				h.Table([]output.Column{
					{Title: "id", ID: true},
					{Title: "name", Min: 6},
					{Title: "arena", Min: 6},
					{Title: "miner", Min: 7},
					{Title: "state"},
					{Title: "score", Right: true},
					{Title: "solved", Right: true},
					{Title: "cost", Right: true},
					{Title: "entered", Min: 10},
				}, rows)
			}))
		},
	}
	f := cmd.Flags()
	f.StringVar(&arena, "arena", "", "only of this `arena`")
	f.StringVar(&miner, "miner", "", "only of this miner (`address`)")
	f.BoolVar(&mine, "mine", false, "only of the hotkey in force")
	f.IntVar(&limit, "limit", 50, "at most this many")
	cmd.MarkFlagsMutuallyExclusive("miner", "mine")
	return cmd
}

// All follows a listing's cursor up to limit items.
func All[T any](limit int, page func(client.ListOptions) (*client.Page[T], error)) ([]T, error) {
	var out []T
	o := client.ListOptions{}
	for {
		o.Limit = min(200, limit-len(out))
		p, err := page(o)
		if err != nil {
			return nil, err
		}
		out = append(out, p.Items...)
		if p.Next == "" || p.Next == o.Cursor || len(p.Items) == 0 || len(out) >= limit {
			return out[:min(len(out), limit)], nil
		}
		o.Cursor = p.Next
	}
}

type submitOptions struct {
	File, Arena, Name, Licence string
	Wait                       time.Duration // 0 = do not wait
}

func (a *App) submitCmd(in Agents) *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use:   "submit FILE",
		Short: "Enter an agent in an arena",
		Long: `Enter an agent in an arena. FILE is a file, or a directory of files.

By entering you agree that the files stand under the arena's licence. Entering
the same bytes again gives the same submission. With --wait the command stays
until the submission is decided and says why it won or lost; Ctrl-C detaches and
cancels nothing.

JSON: the submission {id, arena, digest, state, score, solved, total, decision, created, …}.
Exit codes: 4 no key or not registered, 5 no such arena, 6 entered by another miner
before, 7 refused by the arena's rules, 8 --wait ended before the decision.`,
		Example: "  agon submission submit ./agent.py --arena {arena} --wait\n  agon submission submit ./agent.py --arena {arena} --name tuned -o id",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && cmd.Flags().Changed("wait") {
				// The time of --wait may be left out, so a time after a blank is an argument.
				if n, err := strconv.Atoi(args[1]); err == nil {
					return output.Usage("wait", fmt.Sprintf("write --wait=%dm", n), "--wait takes its time after =, with a unit")
				}
				if _, err := time.ParseDuration(args[1]); err == nil {
					return output.Usage("wait", "write --wait="+args[1], "--wait takes its time after =")
				}
			}
			return Args(1, 1, "one file or directory")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.File = args[0]
			if o.Arena == "" {
				var err error
				if o.Arena, err = a.onlyArena(cmd.Context()); err != nil {
					return err
				}
			}
			if o.Wait < 0 {
				return output.Usage("wait", "give a duration such as 30m", "--wait %v: not a time to wait", o.Wait)
			}
			return a.submit(cmd.Context(), in, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Arena, "arena", "", "the `arena` to enter")
	f.StringVar(&o.Name, "name", "", "`name` on the board (default: the file's)")
	f.StringVar(&o.Licence, "licence", "", "SPDX `id` you agree to (default: the arena's)")
	f.Var((*waitTime)(&o.Wait), "wait", "wait for the decision, at most this `long`: 30m, or a number of minutes")
	f.Lookup("wait").NoOptDefVal = "30m"
	if err := cmd.RegisterFlagCompletionFunc("arena", a.Complete(arenaIDs)); err != nil {
		panic("cli: no flag arena")
	}
	return cmd
}

// waitTime is a time to wait: a duration, or a bare number of minutes.
type waitTime time.Duration

func (w *waitTime) String() string { return time.Duration(*w).String() }
func (w *waitTime) Type() string   { return "duration" }

func (w *waitTime) Set(s string) error {
	if n, err := strconv.ParseUint(s, 10, 16); err == nil {
		*w = waitTime(time.Duration(n) * time.Minute)
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return errors.New("not a time such as 30m")
	}
	*w = waitTime(d)
	return nil
}

func (a *App) submit(ctx context.Context, in Agents, o submitOptions) error {
	c, _, err := a.Writer()
	if err != nil {
		return err
	}
	arena, err := c.Arena(ctx, o.Arena)
	if err != nil {
		return err
	}
	files, err := readEntry(o.File, in.entryName(arena.Kind, o.File))
	if err != nil {
		return err
	}
	if o.Name == "" {
		o.Name = defaultName(o.File)
	}
	if o.Licence == "" {
		o.Licence = arena.Licence
	}
	s, err := c.Submit(ctx, arena.ID, client.SubmitRequest{Name: o.Name, Licence: o.Licence, Files: files})
	if err != nil {
		return err
	}
	for _, f := range s.Findings {
		a.IO.Notef("warning: %s", findingLine(f))
	}
	if s.Created {
		a.IO.Notef("entered %s under licence %s", plain.Line(s.ID), plain.Line(o.Licence))
		a.keepReceipt(ctx, c, s.ID)
	} else {
		a.IO.Notef("the same bytes were entered before: %s", plain.Line(s.ID))
	}
	if o.Wait == 0 {
		if !decided(s) {
			a.IO.Notef("follow it with `agon submission view %s`", plain.Line(s.ID))
		}
		return a.printSubmitted(ctx, c, s)
	}
	created := s.Created
	s, err = a.await(ctx, c, s, o.Wait)
	if s != nil {
		s.Created = created
		// The caller may be gone; the last known state is still worth printing.
		if perr := a.printSubmitted(context.WithoutCancel(ctx), c, s); perr != nil {
			return perr
		}
	}
	if err != nil {
		return err
	}
	if s.State == agon.SubmissionRefused || s.State == agon.SubmissionExcluded {
		return &Exit{Code: CodeRefused}
	}
	return nil
}

func (a *App) printSubmitted(ctx context.Context, c *client.Client, s *client.Submission) error {
	var zeros []client.Reason
	if decided(s) {
		zeros, _ = a.zeros(ctx, c, s.ID) // the decision is what was waited for: it is said without them, too
	}
	return a.Printer.Print(ctx, output.Result{Value: s, IDs: []string{s.ID}, Human: func(h *output.Human) {
		if !decided(s) {
			h.Line("%s", s.ID)
			return
		}
		submissionHuman(h, s)
		zerosHuman(h, zeros)
	}})
}

// decided reports whether nothing about s changes any more.
func decided(s *client.Submission) bool {
	switch s.State {
	case agon.SubmissionScored, agon.SubmissionRefused, agon.SubmissionExcluded:
		return true
	}
	return false
}

// await polls until s is decided. It returns the last state seen with an Exit
// of 8 when the time is up, and 130 when the user detached.
func (a *App) await(ctx context.Context, c *client.Client, s *client.Submission, wait time.Duration) (*client.Submission, error) {
	bar := a.bar()
	defer bar.Close()
	tick := time.NewTicker(a.Poll)
	defer tick.Stop()
	end := time.NewTimer(wait)
	defer end.Stop()
	follow := fmt.Sprintf("follow it with `agon submission view %s`", plain.Line(s.ID))
	away := 0 // looks in turn that a server did not answer
	for {
		if decided(s) {
			return s, nil
		}
		if away == 0 {
			if err := a.showRuns(ctx, c, s, bar); err != nil && ctx.Err() == nil && !passing(err) {
				return s, err
			}
		}
		select {
		case <-ctx.Done():
			bar.Close()
			a.IO.Notef("detached; %s goes on being played. %s", plain.Line(s.ID), follow)
			return s, &Exit{Code: CodeInterrupted}
		case <-end.C:
			bar.Close()
			a.IO.Notef("not decided after %v. %s", wait, follow)
			return s, &Exit{Code: CodePending}
		case <-tick.C:
		}
		next, err := c.Submission(ctx, s.ID)
		if err != nil {
			away++
			if ctx.Err() != nil || passing(err) && time.Duration(away)*a.Poll < awayMost {
				continue
			}
			return s, err
		}
		s, away = next, 0
	}
}

// awayMost is how long --wait bears servers that do not answer: they are restarted, or another
// takes the lead.
const awayMost = 2 * time.Minute

// passing reports whether the same request may succeed in a while.
func passing(err error) bool {
	var e *agon.Error
	return errors.As(err, &e) && (e.Code == "unreachable" || e.Code == "not_ready")
}

// showRuns puts the state of s's runs on the bar. When every run has ended and
// some failed by a fault of ours there will be no decision: it says so.
func (a *App) showRuns(ctx context.Context, c *client.Client, s *client.Submission, bar *progress.Bar) error {
	runs, err := All(10_000, func(o client.ListOptions) (*client.Page[client.Run], error) { return c.Runs(ctx, "", s.ID, "", o) })
	if err != nil {
		return err
	}
	st := progress.State{Label: "playing " + s.ID, Total: len(runs)}
	var broken *client.Run
	for i, r := range runs {
		switch {
		case r.State.Final():
			st.Done++
		case r.State.Held():
			st.Running++
		}
		if r.State == agon.RunFailed {
			st.Failed++
			broken = &runs[i]
		}
	}
	switch {
	case st.Done == 0 && st.Running == 0:
		st.Label = "waiting for a validator to play " + s.ID
	case broken == nil && st.Done == st.Total:
		st.Label = "waiting for the decision on " + s.ID
	}
	bar.Set(st)
	if broken != nil && st.Done == st.Total {
		return &agon.Error{
			Code: "run_failed", Status: http.StatusServiceUnavailable, Fault: broken.Fault,
			Message: fmt.Sprintf("%d of %d runs could not be played (fault: %s): %s", st.Failed, st.Total, broken.Fault, broken.Reason),
			Mend:    "this costs you nothing; tell the arena's operator run " + broken.Run.Run,
		}
	}
	return nil
}

// bar returns a progress bar on stderr.
func (a *App) bar() *progress.Bar {
	return progress.New(a.IO, a.Now, a.Env.Getenv("TERM") == "dumb")
}

func defaultName(file string) string {
	abs, err := filepath.Abs(file)
	if err != nil {
		abs = file
	}
	name := strings.TrimSuffix(filepath.Base(abs), filepath.Ext(abs))
	if name == "agent" { // as the template is called: the directory says more
		name = filepath.Base(filepath.Dir(abs))
	}
	return plain.Cut(plain.Line(name), 80)
}

// readEntry reads what is to be entered: one file under the given name, or
// every regular file of a directory.
func readEntry(file, name string) ([]client.File, error) {
	st, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("read entry: %w", err)
	}
	if st.Mode().IsRegular() {
		b, err := readBounded(os.DirFS(filepath.Dir(file)), filepath.Base(file), maxEntryBytes)
		if err != nil {
			return nil, err
		}
		return []client.File{{Path: name, Content: b}}, nil
	}
	if !st.IsDir() {
		return nil, output.Usage("", "give a file or a directory", "%s is neither a file nor a directory", file)
	}
	var files []client.File
	total := 0
	tree := os.DirFS(file)
	err = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("read entry: %w", err)
		case p == ".":
			return nil
		case strings.HasPrefix(d.Name(), "."), d.Name() == "__pycache__":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return &agon.Error{Code: "not_regular", Status: http.StatusUnprocessableEntity, Field: p, Message: p + " is not a regular file", Mend: "enter regular files only"}
		case len(files) == maxEntryFiles:
			return tooLarge(file, fmt.Sprintf("%d files", maxEntryFiles))
		}
		b, err := readBounded(tree, p, maxEntryBytes-total)
		if err != nil {
			return err
		}
		total += len(b)
		files = append(files, client.File{Path: p, Content: b})
		return nil
	})
	return files, err
}

func readBounded(tree fs.FS, name string, limit int) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read entry: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("read entry: %w", err)
	}
	if len(b) > limit {
		return nil, tooLarge(name, fmt.Sprintf("%d bytes", maxEntryBytes))
	}
	return b, nil
}

func tooLarge(what, limit string) error {
	return &agon.Error{
		Code: "too_large", Status: http.StatusRequestEntityTooLarge, Field: what, Limit: limit,
		Message: fmt.Sprintf("%s is larger than %s", what, limit), Mend: "enter less",
	}
}

func (a *App) submissionViewCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "view ID",
		Short:             "Show one submission and why it won or lost",
		Example:           "  agon submission view {arena}/mine\n  agon submission view {arena}/mine --jq .decision",
		Args:              Args(1, 1, "a submission"),
		ValidArgsFunction: a.Complete(SubmissionIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Reader()
			if err != nil {
				return err
			}
			id, err := a.submissionID(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			s, err := c.Submission(cmd.Context(), id)
			if err != nil {
				return err
			}
			zeros, err := a.zeros(cmd.Context(), c, s.ID)
			if err != nil {
				return err
			}
			gate, held := "", false
			if !decided(s) { // what it is still waiting for may be the operator
				arena, err := c.Arena(cmd.Context(), s.Arena)
				if err != nil {
					return err
				}
				gate, held = arena.Withholds(s), arena.State == agon.ArenaHeld
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: s, IDs: []string{s.ID}, Human: func(h *output.Human) {
				submissionHuman(h, s)
				if gate != "" {
					h.Line("its decision waits for the arena's judge. %s", gate)
				}
				if held {
					h.Line("the operator holds the arena: nothing is played there now, and nothing is lost")
				}
				zerosHuman(h, zeros)
			}})
		},
	}
}

func submissionHuman(h *output.Human, s *client.Submission) {
	scripted := ""
	if s.Scripted {
		scripted = "yes: its model is a script, it earns nothing"
	}
	h.Heading(s.ID + "  " + s.Name)
	h.Fields([2]string{"arena", s.Arena}, [2]string{"miner", s.Miner}, [2]string{"state", string(s.State)}, [2]string{"score", ScoreText(s.Score)},
		[2]string{"solved", solved(s.Solved, s.Total)}, [2]string{"cost", money(s.CostMicros)}, [2]string{"scripted", scripted},
		[2]string{"licence", s.Licence}, [2]string{"digest", string(s.Digest)}, [2]string{"entered", When(s.CreatedAt)}, [2]string{"reason", reason(s)})
	if n := s.Contest; n["need"] > 0 {
		h.Line("attempt %.0f of its coldkey or cluster: needs evidence %.6g (alpha %.3g) from %.0f of %.0f validators, has %.3g after %.0f pairs; at most %.0f pairs of each",
			n["attempt"], n["need"], n["alpha"], n["agree"], n["validators"], max(n["evidence"], 1), n["pairs"], n["max_pairs"])
	}
	moneyLines(h, s)
	if p := s.Appeal; p != nil {
		h.Line("appeal %s: played again %d of %d tasks, %d with the same score, %d with the same requests; answer until %s%s", p.State, p.Compared.Played, p.Compared.Tasks, p.Compared.Same, p.Compared.Requests, When(p.Deadline), waitsFor(p))
		if p.Answer != "" {
			h.Line("answer: %s", p.Answer)
		}
	}
	for _, f := range s.Findings {
		h.Line("- %s", findingLine(f))
	}
}

// onlyArena is the server's arena, where it has one: nobody need name it.
func (a *App) onlyArena(ctx context.Context) (string, error) {
	c, err := a.Reader()
	if err != nil {
		return "", err
	}
	list, err := c.Arenas(ctx)
	if err != nil {
		return "", err
	}
	names := ids(list, func(x client.Arena) string { return x.ID })
	if len(names) != 1 {
		return "", output.Usage("arena", "add --arena with one of "+strings.Join(names, ", "), "--arena is missing")
	}
	return names[0], nil
}

// entryName is the path under which a single file is entered in an arena of a kind.
func (in Agents) entryName(kind, file string) string {
	if in.EntryName == nil {
		return filepath.Base(file)
	}
	return in.EntryName(kind, file)
}
