package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/kinds/pack/consensus"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
)

// DiscoverOptions is `agon validator --discover ledger`.
type DiscoverOptions struct {
	cli.Common
	Key           auth.Signer
	From          string // "ledger"
	ArenaFile     string
	Ledger        string // address of the ledger
	Store         string // content store: a folder, s3://…, ipfs+http://…
	WindowBlocks  int64
	Anchor        int64
	MinStake      float64 // alpha
	MinValidators int
	Burn          float64
	PlainMean     bool
	Bootstrap     bool
	CacheTTL      time.Duration
	Blacklist     []string
	Report        string // address of a server that is told
	AllowPrivate  bool
	Poll          time.Duration
	Boxes         int
	Driver        string
}

// discoverFlags gives `agon validator` its form without a platform.
func (a commands) discoverFlags(cmd *cobra.Command) {
	var d DiscoverOptions
	f := cmd.Flags()
	play := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if d.From == "" {
			return play(cmd, args)
		}
		// Flags of the command itself; it has them whatever else stands here.
		d.Boxes, _ = f.GetInt("boxes")
		d.Driver, _ = f.GetString("driver")
		arenas, _ := f.GetStringArray("arena")
		return a.discover(cmd, d, arenas)
	}
	f.StringVar(&d.From, "discover", "", "find submissions on the `ledger`, without a platform (policy packs)")
	cli.Register(cmd, "discover", "ledger")
	f.StringVar(&d.Store, "store", "", "with --discover: content `store` of payloads: a folder, s3://BUCKET/PREFIX, ipfs+http://HOST:5001/api/v0, https://SERVER, or several with commas (AGON_STORE)")
	f.Int64Var(&d.WindowBlocks, "window-blocks", 7200, "with --discover: `blocks` of a window")
	f.Int64Var(&d.Anchor, "window-anchor", 0, "with --discover: first `block` of window 0")
	f.Float64Var(&d.MinStake, "min-stake", 10_000, "with --discover: `alpha` that a validator must have to be heard; below 0: none")
	f.IntVar(&d.MinValidators, "min-validators", 0, "with --discover: validators that must agree (0: two, or one where no other has stake enough)")
	f.Float64Var(&d.Burn, "burn", 0.5, "with --discover: `share` of the reward that is burned")
	f.BoolVar(&d.PlainMean, "plain-mean", false, "with --discover: average costs instead of taking their median")
	f.BoolVar(&d.Bootstrap, "bootstrap", false, "with --discover: pay the three cheapest 70, 20 and 10 % while fewer than ten miners are active")
	f.DurationVar(&d.CacheTTL, "cache-ttl", 7*24*time.Hour, "with --discover: `time` for which a pack is not played again; below 0: it is in every window")
	f.StringSliceVar(&d.Blacklist, "blacklist", nil, "with --discover: `coldkeys` whose miners are passed over")
	f.StringVar(&d.Report, "report", "", "with --discover: `address` of a server that gets heartbeats, reports and logs, and may refuse packs (TRAJECTORYRL_API_BASE_URL)")
	f.BoolVar(&d.AllowPrivate, "allow-private", false, "with --discover: fetch packs from private addresses too")
	f.DurationVar(&d.Poll, "poll", 12*time.Second, "with --discover: `time` between looks at the ledger")
}

func (a commands) discover(cmd *cobra.Command, d DiscoverOptions, arenas []string) error {
	switch {
	case d.From != "ledger":
		return output.Usage("discover", "use --discover ledger", "--discover %q is not known", d.From)
	case len(arenas) != 1:
		return output.Usage("arena", "name the arena's file: --arena arena.toml", "--discover ledger wants one arena file")
	case d.WindowBlocks < consensus.MinSealed:
		return output.Usage("window-blocks", fmt.Sprintf("give at least %d", consensus.MinSealed), "--window-blocks %d is too short", d.WindowBlocks)
	case d.Poll < 10*time.Millisecond:
		return output.Usage("poll", "give at least 10ms", "--poll %s is too short", d.Poll)
	case !(d.Burn >= 0 && d.Burn <= 1):
		return output.Usage("burn", "give a share from 0 to 1", "--burn %v is not a share", d.Burn)
	}
	if err := cli.CheckBoxes(d.Boxes); err != nil {
		return err
	}
	key, err := a.Key()
	if err != nil {
		return err
	}
	common, done, err := a.Common()
	if err != nil {
		return err
	}
	defer done()
	d.Common, d.Key, d.ArenaFile = common, key, arenas[0]
	if d.Report == "" {
		d.Report = a.Env.Getenv("TRAJECTORYRL_API_BASE_URL")
	}
	if d.Store == "" {
		d.Store = a.Env.Getenv("AGON_STORE")
	}
	if d.Ledger = a.Env.Getenv("AGON_LEDGER"); d.Ledger == "" || d.Ledger == "local" {
		d.Ledger = common.Config.Get(config.URL)
	}
	return cli.EndOfService(cmd.Context(), a.work.Discover(cmd.Context(), d))
}

// AuditOptions is `agon discover audit`.
type AuditOptions struct {
	DiscoverOptions
	Window int64 // below 0: the newest whose pointers are read
	Unpaid bool
	Page   string // an HTML page is written to this file
	Listen string // the page is served there, worked out again and again
}

func (a commands) discoverCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "discover",
		Short: "Validators without a platform: what they saw, and whether their weights are right",
		Long: `Validators that play with "agon validator --discover ledger" agree through payloads that
they point to on the ledger. Anybody can work out from the same pointers what they ought to
have decided: kinds/pack/README.md tells how.`,
		Example: "  agon discover status\n  agon discover audit --arena arena.toml --store s3://bucket/payloads",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.discoverStatusCmd(), a.discoverAuditCmd(), a.discoverEpochsCmd())
	return cmd
}

func (a commands) discoverStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what the validators of this machine last saw and decided",
		Long: `Show what each validator without a platform wrote into the data directory: window, filter,
winner, weights, whose payloads were rejected or outvoted, and why nothing was decided.
JSON: {validators: [status]}.`,
		Example: "  agon discover status\n  agon discover status -o json --jq '.validators[].rejected'",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			dir := common.Config.Get(config.Data)
			files, err := filepath.Glob(filepath.Join(dir, "discover-*", "status.json"))
			if err != nil {
				return err
			}
			if len(files) == 0 {
				return &agon.Error{Code: "not_found", Status: 404, Field: "data", Message: "no validator without a platform has played from " + dir, Mend: "start one with `agon validator --discover ledger`, or name its directory with --data"}
			}
			slices.Sort(files)
			out := struct {
				Validators []consensus.Status `json:"validators"`
			}{}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					return fmt.Errorf("read status: %w", err)
				}
				var s consensus.Status
				if err := json.Unmarshal(b, &s); err != nil {
					return fmt.Errorf("read %s: %w", f, err)
				}
				out.Validators = append(out.Validators, s)
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: out, Human: func(h *output.Human) {
				for _, s := range out.Validators {
					h.Heading(s.Hotkey)
					winner := "nobody yet"
					if s.Winner != "" {
						winner = frozen(s.Winner, s.Cost, s.Spread)
					}
					h.Fields([2]string{"block", fmt.Sprintf("%d, window %d, %s", s.Block, s.Window.Number, s.Window.Phase)}, [2]string{"packs", fmt.Sprintf("%d, %d judged", s.Packs, s.Judged)},
						[2]string{"winner", winner}, [2]string{"agreed", fmt.Sprintf("window %d", s.Agreed)}, [2]string{"filter", s.Filter.String()})
					if s.Short != "" {
						h.Line("nothing was decided: %s", s.Short)
					}
					if s.Fault != "" {
						h.Line("nothing was judged: fault %s: %s", s.Fault, s.Reason)
					}
					for _, o := range s.Outvoted {
						h.Line("outvoted: %s about %s", o.Validator, strings.Join(o.Miners, ", "))
					}
					for _, r := range s.Rejected {
						h.Line("rejected: %s: %s", r.Validator, r.Reason)
					}
				}
			}})
		},
	}
}

func (a commands) discoverAuditCmd() *cobra.Command {
	var o AuditOptions
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Work out a window's weights from the ledger alone, and compare what was published",
		Long: `Read pointers and payloads as any validator does, on a machine that knows nothing, decide
every window up to --window in order, and compare the weights that validators have published
since. Who lied, forged, copied, equivocated or came late is named; alike are validators whose
costs are the same to the last bit, of whom one at most has played. --page writes all of it as
one HTML file that can be shown anywhere; --listen serves it, worked out anew for who looks,
at most once in 12 seconds.
JSON: {window, block, reads_at, winner, winner_pack_hash, winner_cost,
winner_spread{mean, low, high, validators}, weights, agreed,
rows[{validator, uid, block, weights, state}], rejected[{validator, reason}], quorum, short, filter, alike[{validators, packs}]}.
Exit codes: 0 published weights are right, 1 somebody's differ.`,
		Example: "  agon discover audit --arena arena.toml --store ./payloads\n  agon discover audit --arena arena.toml --store https://store.example --window 12 -o json",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.ArenaFile == "" {
				return output.Usage("arena", "name the arena's file: --arena arena.toml", "the audit needs an arena file")
			}
			if o.WindowBlocks < consensus.MinSealed {
				return output.Usage("window-blocks", fmt.Sprintf("give at least %d", consensus.MinSealed), "--window-blocks %d is too short", o.WindowBlocks)
			}
			if !(o.Burn >= 0 && o.Burn <= 1) {
				return output.Usage("burn", "give a share from 0 to 1", "--burn %v is not a share", o.Burn)
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			if o.Store == "" {
				o.Store = a.Env.Getenv("AGON_STORE")
			}
			if o.Ledger = a.Env.Getenv("AGON_LEDGER"); o.Ledger == "" || o.Ledger == "local" {
				o.Ledger = common.Config.Get(config.URL)
			}
			if o.Listen != "" {
				s := &auditServer{audit: a.work.Audit, o: o, now: time.Now}
				return cli.EndOfService(cmd.Context(), serveAudit(cmd.Context(), s, func(addr string) { common.Say("the audit is at http://%s/, as JSON at /audit.json", addr) }))
			}
			r, err := a.work.Audit(cmd.Context(), o)
			if err != nil {
				return err
			}
			if o.Page != "" {
				page, err := auditPage(r)
				if err != nil {
					return err
				}
				if err := cli.WriteFile(o.Page, page); err != nil {
					return err
				}
			}
			done()
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: r, Human: func(h *output.Human) { auditFor(h, r) }}); err != nil {
				return err
			}
			if !r.Agreed {
				return &cli.Exit{Code: cli.CodeFailed}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "", "serve the page at this `address` until the command is ended; /audit.json has the JSON")
	f.StringVar(&o.Page, "page", "", "write a page that shows the audit to this `file`")
	f.Int64Var(&o.Window, "window", -1, "audit this `window` (default: the newest whose pointers are read)")
	f.StringVar(&o.ArenaFile, "arena", "", "the arena's `file`")
	f.StringVar(&o.Store, "store", "", "content `store` of payloads, as validators name it (AGON_STORE)")
	f.Int64Var(&o.WindowBlocks, "window-blocks", 7200, "`blocks` of a window")
	f.Int64Var(&o.Anchor, "window-anchor", 0, "first `block` of window 0")
	f.Float64Var(&o.MinStake, "min-stake", 10_000, "`alpha` that a validator must have to be heard; below 0: none")
	f.IntVar(&o.MinValidators, "min-validators", 0, "validators that must agree (0: two)")
	f.Float64Var(&o.Burn, "burn", 0.5, "`share` of the reward that is burned")
	f.BoolVar(&o.PlainMean, "plain-mean", false, "average costs instead of taking their median")
	f.BoolVar(&o.Bootstrap, "bootstrap", false, "the three cheapest are paid while fewer than ten miners are active")
	f.BoolVar(&o.Unpaid, "unpaid", false, "all is burned: the model was a script")
	f.BoolVar(&o.AllowPrivate, "allow-private", false, "fetch payloads from private addresses too")
	return cmd
}

// frozen is who sits, at what cost.
func frozen(winner string, cost float64, s *consensus.Spread) string {
	out := fmt.Sprintf("%s at $%.6f", winner, cost)
	if text := s.Text(); text != "" {
		out += " (" + text + ")"
	}
	return out
}

func auditFor(h *output.Human, r *consensus.Audited) {
	winner := "nobody"
	if r.Winner != "" {
		winner = frozen(r.Winner, r.Cost, r.Spread)
	}
	h.Fields([2]string{"window", fmt.Sprintf("%d, its pointers are read at block %d", r.Window, r.Reads)}, [2]string{"winner", winner},
		[2]string{"quorum", fmt.Sprintf("%.0f %% of the active stake", 100*r.Quorum)}, [2]string{"filter", r.Filter.String()})
	if r.Short != "" {
		h.Line("this window decided nothing: %s", r.Short)
	}
	var rows [][]output.Cell
	for _, x := range r.Rows {
		rows = append(rows, []output.Cell{output.Text(x.Validator), output.Text(fmt.Sprint(x.Block)), output.Text(x.State)})
	}
	h.Table([]output.Column{{Title: "validator"}, {Title: "weights of block", Right: true}, {Title: "against the rules"}}, rows)
	for _, x := range r.Rejected {
		h.Line("%s: %s", x.Validator, x.Reason)
	}
	for _, x := range r.Alike {
		h.Line("the same figures for %d packs: %s", x.Packs, strings.Join(x.Validators, ", "))
	}
	if r.Agreed {
		h.Line("the published weights are right")
	} else {
		h.Line("published weights differ from what the rules give")
	}
}

// Audited is a function of Work.
type Audited = func(context.Context, AuditOptions) (*consensus.Audited, error)
