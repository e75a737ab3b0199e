// Package cli holds the commands of agon: noun and verb, a table on a terminal
// and JSON in a pipe, data on stdout and everything else on stderr, errors of
// one line what and one line what to do, documented exit codes.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ledger/subtensor"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
)

// App is one invocation of agon. The zero values of optional fields are usable.
type App struct {
	IO       *iostreams.IO
	Env      config.Env
	Services Services
	// Extras are the commands of the kinds, each list made for this invocation.
	Extras []func(a *App) []Extra
	// Commit names the build; set by the linker.
	Commit string
	// Now is the clock; nil = time.Now.
	Now func() time.Time
	// Poll is how often --wait looks; 0 = one second.
	Poll time.Duration
	// CompleteIn bounds how long a completion may ask a server; 0 = 200 ms.
	CompleteIn time.Duration

	flags    globalFlags
	settings *pflag.FlagSet // of the command that runs, for config
	Printer  *output.Printer
	conf     *config.Config
	over     *certs.Client       // opened by Over
	ledger   string              // --ledger
	wait     string              // --wait
	included *subtensor.Included // what the chain last took
	example  *strings.Replacer   // names that examples show; set by root
}

type globalFlags struct {
	output, jq, colour string
	verbose            bool
}

// settingFlags are the flags that set a configuration key, by flag name.
var settingFlags = map[string]string{
	"url": config.URL, "data": config.Data, "listen": config.Listen, "store": config.Store, "blobs": config.Blobs,
	"tls-cert": config.TLSCert, "tls-key": config.TLSKey, "client-ca": config.ClientCA, "ca": config.CA, "client-cert": config.ClientCert, "client-key": config.ClientKey,
	"wallet.name": config.WalletName, "wallet.hotkey": config.WalletHotkey, "wallet.path": config.WalletPath,
}

// Main runs the command line args and returns the exit code. It writes errors
// to a.IO.Err. The context ends when the user interrupts.
func (a *App) Main(ctx context.Context, args []string) int {
	if a.Now == nil {
		a.Now = time.Now
	}
	if a.Poll == 0 {
		a.Poll = time.Second
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.IO.In)
	root.SetOut(a.IO.Out)
	root.SetErr(a.IO.Err)
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) && !isExit(err) {
		err = context.Canceled // whatever broke, it broke because the user stopped it
	}
	if err != nil {
		printError(a.IO, err, a.jsonErrors(args))
	}
	return ExitCode(err)
}

func isExit(err error) bool {
	var x *Exit
	return errors.As(err, &x)
}

// jsonErrors reports whether errors are to be documents: the user asked for
// JSON, even where the command line could not be read to its end.
func (a *App) jsonErrors(args []string) bool {
	if a.Printer != nil {
		return a.Printer.Explicit && (a.Printer.Format == output.JSON || a.Printer.Format == output.JSONL)
	}
	for i, s := range args {
		switch {
		case s == "--":
			return false
		case (s == "-o" || s == "--output") && i+1 < len(args):
			return strings.HasPrefix(args[i+1], "json")
		case strings.HasPrefix(s, "-ojson"), strings.HasPrefix(s, "-o=json"), strings.HasPrefix(s, "--output=json"):
			return true
		}
	}
	return false
}

// Tree is all commands, for those who look at them and run none.
func (a *App) Tree() *cobra.Command { return a.root() }

// root builds the command tree.
func (a *App) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agon",
		Short: "Run agent arenas: enter agents, play them in sandboxes, score them, set weights",
		Long: `agon runs agent arenas: open competitions in which miners enter agents, validators
play them in sandboxes with metered model and tool access, and scores become
weights on a ledger.

A terminal gets tables, a pipe gets JSON (-o table|json|jsonl|id, --jq EXPR).
Data goes to stdout, everything else to stderr.

Exit codes: 0 ok, 1 failed, 2 usage, 3 partly done, 4 not authorised, 5 not found,
6 conflict, 7 refused by a rule, 8 still pending, 9 our or a provider's fault,
130 interrupted.

Settings: flag, then AGON_* environment, then agon.toml (here or above), then the
user's agon/config.toml, then the default; see agon config view --origin.`,
		Example:           "  agon up\n  agon board {arena}\n  agon try ./agent.py --arena {arena}",
		Version:           a.versionText(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              a.NoSubcommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: a.prepare,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	cmd.SetVersionTemplate("agon {{.Version}}\n")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		// A word that is not a command comes before what is said of its flags.
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 && cmd.Args != nil {
			if err := cmd.Args(cmd, words); err != nil {
				return err
			}
		}
		return output.Usage("", "see `"+cmd.CommandPath()+" --help`", "%v", err)
	})
	f := cmd.PersistentFlags()
	f.StringVarP(&a.flags.output, "output", "o", "", "print as table, json, jsonl or id (default: table on a terminal, else json)")
	f.StringVar(&a.flags.jq, "jq", "", "filter the JSON by a jq `expression`")
	f.StringVar(&a.flags.colour, "color", "auto", "colour: auto, always or never")
	f.BoolVarP(&a.flags.verbose, "verbose", "v", false, "log more to stderr")
	f.String("url", "", "`address` of the arena server (AGON_URL)")
	f.String("data", "", "data `directory` (AGON_DATA)")
	f.String("ca", "", "trust the authorities in this PEM `file` too, of servers that agon asks (AGON_CA)")
	f.String("client-cert", "", "show them this certificate, a PEM `file` (AGON_CLIENT_CERT)")
	f.String("client-key", "", "its key, a PEM `file` (AGON_CLIENT_KEY)")
	f.String("wallet.name", "", "wallet `name` (AGON_WALLET_NAME, BT_WALLET_NAME)")
	f.String("wallet.hotkey", "", "hotkey `name` (AGON_WALLET_HOTKEY, BT_WALLET_HOTKEY)")
	f.String("wallet.path", "", "`directory` of wallets (AGON_WALLET_PATH, BT_WALLET_PATH)")
	Register(cmd, "output", "table", "json", "jsonl", "id")
	Register(cmd, "color", "auto", "always", "never")

	cmd.AddGroup(&cobra.Group{ID: "start", Title: "Start here:"}, &cobra.Group{ID: "play", Title: "Look closer:"}, &cobra.Group{ID: "run", Title: "Run an arena:"},
		&cobra.Group{ID: "own", Title: "Your machine:"})
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			cmd.AddCommand(c)
		}
	}
	s := a.Services
	add("start", a.upCmd(s.Roles), a.agentCmd(s.Agents), a.tryCmd(s.Agents), a.keyCmd(), a.submissionCmd(s.Agents), a.boardCmd(), a.runCmd(s.Corpora, s.Judges))
	add("play", a.arenaCmd(s.Arenas), a.verifyCmd(s.Judges), a.exportCmd(), a.logCmd(s.Host), a.mcpCmd(), a.watchArenaCmd(), a.topCmd(), a.webCmd())
	add("run", a.serveCmd(s.Roles), a.validatorCmd(s.Roles), a.gatewayCmd(s.Roles, s.Host), a.taskCmd(s.Tasks), a.envCmd(s.Roles), a.distillCmd(s.Roles), a.kindCmd(s.Kinds), a.buildCmd(s.Kinds), a.judgeCmd(s.Judges), a.incentiveCmd(s.Arenas), a.ledgerCmd())
	add("play", a.corpusCmd(s.Corpora))
	add("run", a.operatorCmd(), a.gcCmd(s.Stores), a.storeCmd(s.Stores), a.backupCmd(s.Stores), a.restoreCmd(s.Stores))
	add("run", a.certCmd())
	add("own", a.doctorCmd(s.Host), a.imageCmd(s.Host), a.datasetCmd(s.Host), a.configCmd(), a.resetCmd(), a.calcCmd(s.Calc), a.versionCmd(), a.superviseCmd(), a.completionCmd(), a.manCmd(), a.setupCmd(s.Host), a.docsCmd(s.OpenAPI))
	for _, f := range a.Extras {
		addExtras(cmd, f(a))
	}
	a.fillExamples(cmd)
	return cmd
}

func Register(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("cli: no flag " + flag) // a programming error
	}
}

// prepare runs before every command: streams and output rules.
func (a *App) prepare(cmd *cobra.Command, _ []string) error {
	a.settings = cmd.Flags()
	if err := a.IO.SetColour(a.flags.colour); err != nil {
		return output.Usage("color", "use auto, always or never", "%v", err)
	}
	p, err := output.New(a.IO, a.flags.output, a.flags.jq)
	if err != nil {
		return err
	}
	a.Printer = p
	return nil
}

// Config resolves the settings, once.
func (a *App) Config() (*config.Config, error) {
	if a.conf != nil {
		return a.conf, nil
	}
	set := map[string]string{}
	if a.settings != nil {
		a.settings.Visit(func(f *pflag.Flag) {
			if key, ok := settingFlags[f.Name]; ok {
				set[key] = f.Value.String()
			}
		})
	}
	c, err := config.Load(a.Env, set)
	if err != nil {
		return nil, err
	}
	for _, w := range c.Warnings {
		a.IO.Notef("warning: %s", plain.Line(w))
	}
	a.conf = c
	return c, nil
}

// wallet returns the wallet in force. Where nobody named a hotkey and the
// wallet has exactly one, that one is meant.
func (a *App) wallet() (auth.Wallet, error) {
	c, err := a.Config()
	if err != nil {
		return auth.Wallet{}, err
	}
	w := auth.Wallet{Path: c.Get(config.WalletPath), Name: c.Get(config.WalletName), Hotkey: c.Get(config.WalletHotkey)}
	if c.IsSet(config.WalletHotkey) {
		return w, nil
	}
	if _, err := os.Lstat(w.HotkeyPath()); err == nil {
		return w, nil
	}
	if names := hotkeyNames(w); len(names) == 1 {
		w.Hotkey = names[0]
	}
	return w, nil
}

// Key is the hotkey in force: the key itself, or an agent that signs with it.
func (a *App) Key() (auth.Signer, error) { return a.signer() }

// Reader returns a client for reads: signed where there is a usable hotkey, so
// that a miner sees what is a miner's own, and unsigned else.
func (a *App) Reader() (*client.Client, error) {
	if _, err := a.Config(); err != nil {
		return nil, err
	}
	key, err := a.Key()
	if err != nil {
		if !errors.Is(err, auth.ErrKeyfileMissing) {
			a.IO.Notef("warning: reading without a key: %s", plain.Line(err.Error()))
		}
		return a.Client(nil)
	}
	return a.Client(key)
}

// Writer returns a client for changes: it needs a hotkey.
func (a *App) Writer() (*client.Client, auth.Signer, error) {
	key, err := a.Key()
	if err != nil {
		return nil, nil, err
	}
	c, err := a.Client(key)
	return c, key, err
}

// Client returns a client that signs with key, or not at all for nil.
func (a *App) Client(key auth.Signer) (*client.Client, error) {
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	c, err := client.New(conf.Get(config.URL), key)
	if err != nil {
		return nil, err
	}
	over, err := a.Over()
	if err != nil {
		return nil, err
	}
	if err := c.Through(over); err != nil {
		return nil, err
	}
	c.Now = a.Now
	c.Tries = 3 // a person waits
	return c, nil
}

// Over is how this process reaches servers over TLS, opened once.
func (a *App) Over() (*certs.Client, error) {
	if a.over != nil {
		return a.over, nil
	}
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	over, err := certs.OpenClient(certs.Files{Cert: conf.Get(config.ClientCert), Key: conf.Get(config.ClientKey), CA: conf.Get(config.CA)}, slog.New(slog.NewTextHandler(a.IO.Err, nil)), a.Now)
	if err != nil {
		return nil, err
	}
	a.over = over
	return over, nil
}

// tlsFlags let a command's listener speak TLS. callers says whose certificates are checked.
func tlsFlags(cmd *cobra.Command, callers string) {
	f := cmd.Flags()
	f.String("tls-cert", "", "serve TLS with this certificate and its chain, a PEM `file`; a changed file is in force at once (AGON_TLS_CERT)")
	f.String("tls-key", "", "its key, a PEM `file` (AGON_TLS_KEY)")
	f.String("client-ca", "", "want a certificate by the authorities in this PEM `file` of "+callers+" (AGON_CLIENT_CA)")
}

// serverCerts opens what tlsFlags name.
func (a *App) serverCerts(log *slog.Logger) (*certs.Server, error) {
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	return certs.OpenServer(certs.Files{Cert: conf.Get(config.TLSCert), Key: conf.Get(config.TLSKey), CA: conf.Get(config.ClientCA)}, log, a.Now)
}

// noun makes a command whose bare form lists: it runs list, with list's flags.
func (a *App) noun(cmd *cobra.Command, list *cobra.Command, others ...*cobra.Command) *cobra.Command {
	list.Aliases = append(list.Aliases, "ls")
	cmd.Args = a.NoSubcommand
	cmd.RunE = list.RunE
	cmd.Flags().AddFlagSet(list.Flags())
	cmd.AddCommand(list)
	cmd.AddCommand(others...)
	return cmd
}

// named is the first command below the root that has a name, those of the nouns
// that everybody begins with first; nil: none has it.
func named(root *cobra.Command, name string) *cobra.Command {
	var found *cobra.Command
	for _, noun := range root.Commands() {
		for _, c := range noun.Commands() {
			if c.Name() != name || !c.IsAvailableCommand() {
				continue
			}
			if noun.GroupID == "start" {
				return c
			}
			if found == nil {
				found = c
			}
		}
	}
	return found
}

// NoSubcommand refuses words that are not a subcommand, with the nearest that is.
func (a *App) NoSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	mend := "see `" + cmd.CommandPath() + " --help`"
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		mend = "did you mean `" + cmd.CommandPath() + " " + near[0] + "`?"
	} else if c := named(cmd.Root(), args[0]); c != nil {
		mend = "did you mean `" + c.CommandPath() + "`?"
	}
	return output.Usage("", mend, "unknown command %q for %q", args[0], cmd.CommandPath())
}

// Args demands from min to max arguments, named for the message; max < 0 is not a bound.
func Args(low, high int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= low && (high < 0 || len(args) <= high) {
			return nil
		}
		want := "takes no argument"
		if names != "" {
			want = "needs " + names
		}
		got := "got none"
		if len(args) > 0 {
			got = fmt.Sprintf("got %d", len(args))
		}
		mend := "see `" + cmd.CommandPath() + " --help`"
		if p := cmd.Parent(); p != nil && len(args) < low && (strings.Contains(cmd.Use, "ID") || strings.Contains(cmd.Use, "ARENA")) {
			for _, c := range p.Commands() {
				if c.Name() == "list" {
					mend = "list them with `" + c.CommandPath() + "`"
				}
			}
		}
		return output.Usage("", mend, "`%s` %s, %s", cmd.CommandPath(), want, got)
	}
}

// Missing is the error of a part that this binary was built without.
func Missing(what string) error {
	return &agon.Error{Code: "not_built", Message: "this binary was built without " + what, Mend: "build it with `make build`"}
}

func (a *App) versionText() string {
	v := agon.Version
	if a.Commit != "" {
		v += " (" + a.Commit + ")"
	}
	return v
}

func (a *App) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version",
		Long:    "Show the version. JSON: {version, commit, go, platform}.",
		Example: "  agon version\n  agon --version",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.Printer.Print(cmd.Context(), output.Result{
				Value: map[string]string{"version": agon.Version, "commit": a.Commit, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH},
				IDs:   []string{agon.Version},
				Human: func(h *output.Human) { h.Line("agon %s", a.versionText()) },
			})
		},
	}
}

func (a *App) completionCmd() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion {bash|zsh|fish|powershell}",
		Short:     "Write a completion script for a shell",
		Example:   "  source <(agon completion bash)\n  agon completion zsh > ~/.zfunc/_agon",
		Args:      Args(1, 1, "one shell: "+strings.Join(shells, ", ")),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.IO.Out, true)
			case "zsh":
				return root.GenZshCompletion(a.IO.Out)
			case "fish":
				return root.GenFishCompletion(a.IO.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.IO.Out)
			}
			return output.Usage("", "use one of "+strings.Join(shells, ", "), "no completion for %q", args[0])
		},
	}
}

// completeBudget is what a person at a prompt waits without noticing.
const completeBudget = 200 * time.Millisecond

// Complete offers the ids that ask returns; it is silent when the server is.
func (a *App) Complete(ask func(ctx context.Context, c *client.Client) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), cmp.Or(a.CompleteIn, completeBudget))
		defer cancel()
		a.settings = cmd.Flags()
		c, err := a.Client(nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c.Tries = 1
		ids, err := ask(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for i := range ids {
			ids[i] = plain.Line(ids[i])
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

func arenaIDs(ctx context.Context, c *client.Client) ([]string, error) {
	arenas, err := c.Arenas(ctx)
	return ids(arenas, func(x client.Arena) string { return x.ID }), err
}

func SubmissionIDs(ctx context.Context, c *client.Client) ([]string, error) {
	p, err := c.Submissions(ctx, "", "", client.ListOptions{})
	if err != nil {
		return nil, err
	}
	return ids(p.Items, func(x client.Submission) string { return x.ID }), nil
}

func runIDs(ctx context.Context, c *client.Client) ([]string, error) {
	p, err := c.Runs(ctx, "", "", "", client.ListOptions{})
	if err != nil {
		return nil, err
	}
	return ids(p.Items, func(x client.Run) string { return x.Run.Run }), nil
}

func ids[T any](items []T, id func(T) string) []string {
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = id(it)
	}
	return out
}

// Texts of values in tables.

func money(m agon.Micros) string { return fmt.Sprintf("$%.4f", float64(m)/1e6) }

func ScoreText(s *float64) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *s)
}

func solved(n, total *int) string {
	if n == nil || total == nil {
		return "-"
	}
	return fmt.Sprintf("%d/%d", *n, *total)
}

func When(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// stateStyle marks states of submissions and runs.
func stateStyle(s string) iostreams.Style {
	switch s {
	case "scored", "open", CheckOK, agon.TookSeat:
		return iostreams.Green
	case "refused", "excluded", "failed", "error", "closed", CheckFail:
		return iostreams.Red
	case "leased", "playing", "judging", "paused", "held", CheckWarn:
		return iostreams.Yellow
	}
	return ""
}

func StateCell(s string) output.Cell { return output.Styled(stateStyle(s), s) }
