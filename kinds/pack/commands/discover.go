package commands

import (
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/spf13/cobra"
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
	f.IntVar(&d.MinValidators, "min-validators", 0, "with --discover: validators that must agree (0: two)")
	f.Float64Var(&d.Burn, "burn", 0.5, "with --discover: `share` of the reward that is burned")
	f.BoolVar(&d.PlainMean, "plain-mean", false, "with --discover: average costs without trimming outliers")
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
	case d.WindowBlocks < 10:
		return output.Usage("window-blocks", "give at least 10", "--window-blocks %d is too short", d.WindowBlocks)
	case d.Poll < 10*time.Millisecond:
		return output.Usage("poll", "give at least 10ms", "--poll %s is too short", d.Poll)
	case !(d.Burn >= 0 && d.Burn <= 1):
		return output.Usage("burn", "give a share from 0 to 1", "--burn %v is no share", d.Burn)
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
