package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/agon-arena/agon/ui/cli/progress"
)

// Common prepares what a long-running service is given. done ends the
// progress line; it may be called twice.
func (a *App) Common() (Common, func(), error) {
	conf, err := a.Config()
	if err != nil {
		return Common{}, nil, err
	}
	over, err := a.Over()
	if err != nil {
		return Common{}, nil, err
	}
	bar := a.bar()
	level := slog.LevelWarn
	if a.flags.verbose {
		level = slog.LevelDebug
	}
	return Common{
		Config:   conf,
		Over:     over,
		Log:      slog.New(slog.NewTextHandler(bar, &slog.HandlerOptions{Level: level})),
		Progress: func(st progress.State) { bar.Set(st) },
		Say: func(format string, args ...any) {
			// The bar hands a broken stderr to nobody, as there is nobody left to tell.
			_, _ = fmt.Fprintln(bar, plain.Line(fmt.Sprintf(format, args...)))
		},
		raw: func(line string) { _, _ = io.WriteString(bar, line) },
	}, bar.Close, nil
}

// served is Common for a command with tlsFlags.
func (a *App) served() (Common, func(), error) {
	c, done, err := a.Common()
	if err != nil {
		return c, done, err
	}
	if c.TLS, err = a.serverCerts(c.Log); err != nil {
		done()
	}
	return c, done, err
}

func DriverFlag(cmd *cobra.Command, driver *string) {
	cmd.Flags().StringVar(driver, "driver", "", "demand this box `driver`: runsc, runc or bwrap (default: the strongest that works here)")
	Register(cmd, "driver", "runsc", "runc", "bwrap")
}

func boxesFlag(cmd *cobra.Command, boxes *int) {
	cmd.Flags().IntVar(boxes, "boxes", 0, "play this `many` runs at once (default: by the machine)")
}

func CheckBoxes(n int) error {
	if n < 0 || n > 1000 {
		return output.Usage("boxes", "give 1 to 1000", "--boxes %d: out of range", n)
	}
	return nil
}

// peers are whose certificates a server checks: it serves others without.
const peers = "servers that pass requests on"

func (a *App) upCmd(r Roles) *cobra.Command {
	var o UpOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a whole arena on this machine: platform, validator, ledger",
		Long: `Run a whole arena on this machine, in one process: platform, ledger, gateway and a
validator that plays in boxes. It stays up until Ctrl-C and goes on where it was
when it is started again. With --once it ends when every submission is decided.

JSON of --once: {arenas: [{id, kind, champion, submissions, weights, decisions}],
runs: {scored, failed, by_fault}, box_driver}.`,
		Example: "  agon up\n  agon up --once -o json\n  agon up --arena ./my-arena.toml --arena ./another.toml",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := CheckBoxes(o.Boxes); err != nil {
				return err
			}
			return a.up(cmd.Context(), r, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Once, "once", false, "end when every submission is decided, and print the outcome")
	f.StringArrayVar(&o.ArenaFiles, "arena", nil, "open the arena of this `file`, or a demo by its id (may be repeated; default: all demos)")
	f.String("listen", "", "`address` of /v1 (AGON_LISTEN)")
	tlsFlags(cmd, peers)
	storeFlag(cmd)
	boxesFlag(cmd, &o.Boxes)
	DriverFlag(cmd, &o.Driver)
	return cmd
}

func (a *App) up(ctx context.Context, r Roles, o UpOptions) error {
	if r.Up == nil {
		return Missing("up")
	}
	common, done, err := a.served()
	if err != nil {
		return err
	}
	o.Common = common
	address := ""
	o.Ready = func(url string) {
		address = url
		common.Say("agon is up at %s; from a second terminal: AGON_URL=%s agon board", url, url)
	}
	o.Decided = func(v *client.Overview) {
		if !o.Once { // else it is the result, and goes to stdout
			if n := entered(v); n == 0 {
				common.Say("nobody has entered yet, and %s waits. Enter an agent from a second terminal: AGON_URL=%s agon agent new KIND ./mine", address, address)
			} else {
				common.Say("nothing is left to play; it stays up for more")
			}
			if a.Printer.Format == output.Table {
				a.sayTable(common, func(h *output.Human) { boardsHuman(h, v.Arenas) })
			}
			common.Say("look at %s; next: agon agent new claim ./mine; Ctrl-C ends, and data stays", address)
		}
	}
	outcome, err := r.Up(ctx, o)
	done()
	if !o.Once {
		err = EndOfService(ctx, err)
		var x *Exit
		if errors.As(err, &x) && x.Code == CodeOK {
			a.IO.Notef("stopped. Data stays in %s: `agon up` goes on there, `agon reset` removes it", plain.Line(common.Config.Get(config.Data)))
		}
		return err
	}
	if err != nil {
		return err
	}
	if outcome == nil {
		return errors.New("up: ended without an outcome")
	}
	return a.Printer.Print(ctx, output.Result{Value: outcome, Rows: nil, IDs: ids(outcome.Arenas, func(b client.Board) string { return b.ID }), Human: func(h *output.Human) {
		boardsHuman(h, outcome.Arenas)
		h.Line("")
		h.Line("%d runs scored, %d failed, boxes by %s", outcome.Runs.Scored, outcome.Runs.Failed, outcome.BoxDriver)
	}})
}

// entered counts the submissions of all arenas.
func entered(v *client.Overview) (n int) {
	for _, b := range v.Arenas {
		n += len(b.Submissions)
	}
	return n
}

// sayTable writes a form for a person to stderr, above the progress line.
func (a *App) sayTable(c Common, human func(*output.Human)) {
	for line := range strings.Lines(a.Printer.Render(human)) {
		c.raw(line)
	}
}

// EndOfService makes an interrupt the ordinary end of what runs until it is
// interrupted: exit code 0.
func EndOfService(ctx context.Context, err error) error {
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return &Exit{Code: CodeOK}
	}
	return err
}

// storeFlag lets the platform's rows stand in a PostgreSQL database, and its bytes in a bucket.
func storeFlag(cmd *cobra.Command) {
	cmd.Flags().String("store", "", "`URL` (postgres://…) of the database that holds the platform's rows (AGON_STORE; default: a file in the data directory)")
	cmd.Flags().String("blobs", "", "`URL` (s3://BUCKET/PREFIX?endpoint=…) of the bucket that holds submissions, tasks and evidence (AGON_BLOBS; default: a folder in the data directory)")
}

func (a *App) serveCmd(r Roles) *cobra.Command {
	var o ServeOptions
	var registration string
	var price float64
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the platform and the ledger; validators play elsewhere",
		Long: `Run the platform and the embedded ledger; validators play elsewhere.

Who may register hotkeys on the embedded ledger (--registration):
  operator  the operator only: agon ledger register --hotkey … --coldkey … --wallet.name operator
  coldkey   the coldkey that a registration names signs it. It costs nothing, so caps per
            coldkey bind nobody who makes new coldkeys; a full subnet evicts nobody
  burn      the coldkey signs and pays a price, which each registration raises by a quarter and
            six minutes of blocks halve. The operator gives money with agon ledger fund
  open      a hotkey registers itself under any coldkey: for tests, on loopback only`,
		Example: "  agon serve --listen 0.0.0.0:8900 --arena ./my-arena.toml\n  agon serve --listen 0.0.0.0:8900 --registration burn --registration-price 0.5",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.Serve == nil {
				return Missing("serve")
			}
			var err error
			if o.Registration, err = local.ParseRegistration(registration); err != nil {
				return output.Usage("registration", "give operator, coldkey, burn or open", "%v", err)
			}
			if price < 0.001 || price > 1e6 {
				return output.Usage("registration-price", "give 0.001 to 1000000", "--registration-price %v: out of range", price)
			}
			if cmd.Flags().Changed("registration-price") && o.Registration != local.RegistrationBurn {
				return output.Usage("registration-price", "add --registration burn", "a price needs --registration burn")
			}
			o.RegistrationPrice = uint64(price * 1e9)
			common, done, err := a.served()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			o.Ready = func(url string) { common.Say("agon serves at %s", url) }
			return EndOfService(cmd.Context(), r.Serve(cmd.Context(), o))
		},
	}
	cmd.Flags().StringArrayVar(&o.ArenaFiles, "arena", nil, "open the arena of this `file`, or a demo by its id (may be repeated; default: all demos)")
	cmd.Flags().String("listen", "", "`address` of /v1 (AGON_LISTEN)")
	tlsFlags(cmd, peers)
	storeFlag(cmd)
	cmd.Flags().StringVar(&registration, "registration", string(local.RegistrationOperator), "who may register hotkeys: operator, coldkey, burn or open")
	cmd.Flags().Float64Var(&price, "registration-price", 1, "with burn, the least price in `TAO`")
	cmd.Flags().BoolVar(&o.LocalMetrics, "local-metrics", false, "let anybody on this machine read /metrics without the token")
	Register(cmd, "registration", "operator", "coldkey", "burn", "open")
	return cmd
}

func (a *App) validatorCmd(r Roles) *cobra.Command {
	var o ValidatorOptions
	cmd := &cobra.Command{
		Use:   "validator",
		Short: "Play runs for a platform and set weights",
		Long: `Play runs for the platform at --url with the hotkey in force, which must hold a
validator permit there, and set weights.

With --metrics Prometheus reads what it does: claims, heartbeats, runs and boxes, under the
names validator_*. There is no login: name an address that only Prometheus reaches.`,
		Example: "  agon validator --url https://arena.example --wallet.name val --boxes 4\n  agon validator --url https://arena.example --wallet.name val --metrics 127.0.0.1:9100",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.Validator == nil {
				return Missing("validator")
			}
			if err := CheckBoxes(o.Boxes); err != nil {
				return err
			}
			c, key, err := a.Writer() // before any box is made
			if err != nil {
				return err
			}
			c.Tries = 6 // nobody waits, and a result must not be lost
			common, done, err := a.served()
			if err != nil {
				return err
			}
			defer done()
			o.Common, o.Client, o.Key = common, c, key
			return EndOfService(cmd.Context(), r.Validator(cmd.Context(), o))
		},
	}
	cmd.AddCommand(a.validatorStandingCmd())
	cmd.Flags().StringArrayVar(&o.Arenas, "arena", nil, "play for this `arena` only (may be repeated); with --discover, the arena's file")
	cmd.Flags().StringVar(&o.Metrics, "metrics", "", "serve /metrics for Prometheus at this `address`, without a login")
	tlsFlags(cmd, "those who read /metrics")
	boxesFlag(cmd, &o.Boxes)
	DriverFlag(cmd, &o.Driver)
	return cmd
}

func (a *App) tryCmd(in Agents) *cobra.Command {
	var o TryOptions
	var period int64
	cmd := &cobra.Command{
		Use:   "try FILE|DIR",
		Short: "Play an agent on this machine, by the validator's own code path",
		Long: `Play an agent on this machine by the validator's own code path: the same boxes,
the same gateway, the same grading, so the same score as the arena on its public
tasks. No running arena is needed.

Where the configured server (--url) runs the arena, it also says how the champion
did, and whether this file would take the seat by the arena's rule.

What the agent printed (a traceback too) and the trace of each run are kept below
try/ in the data directory, of the last 20 tries; the end of it is shown where the
agent failed, or where one task alone was tried.

FILE may be a directory that holds the kind's file (agent.py), or an archive of one (.tar,
.tar.gz, .zip). A task's directory or archive (--task ./some-task, --task task.tar.gz) is
played without an arena, by the rules of its kind's demo. Without --arena the one arena of
the configured server is taken.

With --period N the tasks are those of a set period that has ended, which are public: a
wrong N is answered with those that there are. The champion's score, cost and time are
what it had on them.

JSON: {arena, score, solved, total, cost_micros, box_ms, log, tasks: [{key, reward, solved, fault}],
runs: [{task, state, fault, score, ms, detail, solved, log, output}],
champion: {submission, name, score, cost_micros, box_ms, rule, bar, takes} or null, entry: how
entries fare and what they pay}.
Exit codes: 0 all tasks are solved; 3 some are not; 7 the arena would refuse the file, or a
hidden task was named; 9 a run failed by a fault of ours.`,
		Example: "  agon try ./agent.py --arena {arena}\n  agon try ./agent.py --arena {arena} --task small/lru-cache\n  agon try ./agent --task ./harbor-task\n  agon try ./agent.py --task task.tar.gz\n  agon try ./agent.py --arena {arena} --period 0",
		Args:    Args(1, 1, "one agent file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.File = args[0]
			if cmd.Flags().Changed("period") {
				o.Set = &period
			}
			if err := CheckBoxes(o.Boxes); err != nil {
				return err
			}
			if o.Arena == "" && !slices.ContainsFunc(o.Tasks, TaskDir) {
				only, err := a.onlyArena(cmd.Context())
				if code := ""; err != nil {
					if e := Describe(err); e != nil {
						code = e.Code
					}
					if code == "usage" {
						return err // several arenas: its mend names them
					}
					return output.Usage("arena", a.example.Replace("name one, for example --arena {arena}, or start the server at --url"), "--arena is missing, and no server says which there is: %v", err)
				}
				o.Arena = only
			}
			return a.try(cmd.Context(), in, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Arena, "arena", "", "the `arena` whose tasks and rules are played")
	f.StringArrayVar(&o.Tasks, "task", nil, "only this `task`, by name or by its directory, which needs no arena (may be repeated)")
	f.Int64Var(&period, "period", 0, "play the set of this set `period`, which has ended")
	boxesFlag(cmd, &o.Boxes)
	DriverFlag(cmd, &o.Driver)
	return cmd
}

// TaskDir tells whether --task names a task's directory on this machine, or an
// archive of one.
func TaskDir(name string) bool {
	if fi, err := os.Stat(filepath.Join(name, "task.toml")); err == nil && fi.Mode().IsRegular() {
		return true
	}
	archive := slices.ContainsFunc([]string{".tar", ".tar.gz", ".tgz", ".zip"}, func(end string) bool { return strings.HasSuffix(name, end) })
	fi, err := os.Stat(name)
	return archive && err == nil && fi.Mode().IsRegular()
}

func (a *App) try(ctx context.Context, in Agents, o TryOptions) error {
	if in.Try == nil {
		return Missing("try")
	}
	common, done, err := a.Common()
	if err != nil {
		return err
	}
	o.Common = common
	r, err := in.Try(ctx, o)
	done()
	if r != nil {
		// Runs that were played are worth showing even if another could not be.
		if perr := a.Printer.Print(context.WithoutCancel(ctx), output.Result{Value: r, IDs: ids(r.Runs, func(x TryRun) string { return x.Task }), Human: func(h *output.Human) { tryHuman(h, r) }}); perr != nil {
			return perr
		}
	}
	if err == nil && r != nil && r.Solved < r.Total {
		return &Exit{Code: CodePartly}
	}
	return err
}

// maxOutputs bounds how many agents' outputs are shown: mostly they fail alike.
const maxOutputs = 3

func tryHuman(h *output.Human, r *TryResult) {
	rows := make([][]output.Cell, len(r.Runs))
	for i, x := range r.Runs {
		state := StateCell(string(x.State))
		if x.Fault == agon.FaultAgent {
			state = StateCell("error")
		}
		rows[i] = []output.Cell{
			output.Text(x.Task), state, output.Text(faultText(x.Fault)), output.Text(ScoreText(x.Score)),
			output.Text(fmt.Sprintf("%d ms", x.MS)), output.Text(x.Detail),
		}
	}
	h.Table([]output.Column{{Title: "task", Min: 12}, {Title: "state"}, {Title: "fault"}, {Title: "score", Right: true}, {Title: "time", Right: true}, {Title: "detail", Min: 10}}, rows)
	shown := map[string]bool{}
	for _, x := range r.Runs {
		if x.Output == "" || shown[x.Output] || len(shown) == maxOutputs {
			continue
		}
		shown[x.Output] = true
		h.Line("")
		h.Line("%s printed last:", x.Task)
		for l := range strings.Lines(x.Output) {
			h.Line("  %s", strings.TrimRight(l, "\n"))
		}
	}
	h.Line("")
	if r.Log != "" {
		h.Line("all that was printed, and the trace of each run: %s", r.Log)
	}
	h.Line("%s: score %s, solved %d/%d, cost %s, %.1f s in boxes", r.Arena, ScoreText(r.Score), r.Solved, r.Total, money(r.CostMicros), float64(r.BoxMS)/1000)
	if r.Scripted {
		said := "Such a submission is played and shown, never seated."
		if r.Rehearsal {
			said = "This arena is a rehearsal: such a submission may take the seat, and earns nothing."
		}
		h.Line("scripted: a script answered in its model's place. %s Set AGON_LLM_* to compete.", said)
	}
	if c := r.Champion; c != nil {
		took := ""
		if c.BoxMS != nil {
			took = fmt.Sprintf(", %.1f s in boxes", float64(*c.BoxMS)/1000)
		}
		h.Line("champion %s (%s): score %.4f, cost %s%s", c.Name, c.Submission, c.Score, money(c.CostMicros), took)
		h.Line("by the rule %s: %s", c.Rule, c.Sentence)
	}
	if r.Entry != "" {
		h.Line("to enter: %s", r.Entry)
	}
}

func (a *App) setupCmd(host Host) *cobra.Command {
	var o SetupOptions
	cmd := &cobra.Command{
		Use:     "setup",
		Short:   "Prepare this machine: the boxes' root file system and the fetched tasks",
		Hidden:  true, // make setup calls it
		Example: "  agon setup\n  agon setup --image docker.io/library/python:3.13-slim",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if host.Setup == nil {
				return Missing("setup")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			return host.Setup(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Image, "image", "", "OCI `image` to take the root file system from (AGON_ROOTFS_IMAGE)")
	DriverFlag(cmd, &o.Driver)
	return cmd
}
