package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/timelock"
	"github.com/agon-arena/agon/ui/cli/output"
)

type localnetOptions struct {
	Listen, Preset, Fork string
	BlockTime            time.Duration
	Lag                  uint64
	Subnets              uint16
	CommitReveal, Beacon bool
	Stable               bool
}

const (
	// keptStates is of how many blocks a localnet's state can be read.
	keptStates = 1024
	// devFunds is what each development coldkey has, in rao, and devStake what a validator of them has staked.
	devFunds = 100_000 * raoPerTAO
	devStake = 10_000 * raoPerTAO
	// devPool is what is on each side of a subnet's pool, in rao.
	devPool = 1_000_000 * raoPerTAO
	// maxSubnets is how many subnets a localnet begins with at most.
	maxSubnets = 32
	// maxFaucet is what the faucet gives at once, in rao.
	maxFaucet = 1_000_000 * raoPerTAO
)

// devKeys are the names of the development keys: NAME is a coldkey, NAME//hot its
// hotkey. The first owns the subnet, the next three validate, the others mine.
var devKeys = []string{"//Alice", "//Bob", "//Charlie", "//Dave", "//Eve", "//Ferdie"}

const devValidators = 4 // with the owner

func (a *App) ledgerLocalnetCmd() *cobra.Command {
	var o localnetOptions
	cmd := &cobra.Command{
		Use:   "localnet",
		Short: "Run a local chain with a faucet and development keys",
		Long: `Run a local chain that Bittensor's tools connect to as to a node, until Ctrl-C: subnet 1,
owned by the development key //Alice, with validators and miners, a faucet (POST
/faucet?address=ADDRESS&tao=AMOUNT), and finality that lags as on the chain. The secrets of
development keys are known to everybody. Its file is the one that --ledger names, else a
temporary one.

--beacon signs drand's rounds itself, with a key that everybody knows, so that timelocked
weights are opened without a network. Its public key is in Drand.BeaconConfig; SDKs have
quicknet's key in their libraries, which has to be replaced there.

Subnets have an alpha of their own, whose price is what its pool says, and TAO may be staked on
the root network (netuid 0). Moving prices begin with 1, and the root network is paid by subnets
whose moving prices are together more than a TAO: with --subnets 2 or more. --stable makes
subnets in which a TAO of stake is a TAO. Subnets after the first are //Bob's and empty.

--fork begins with a real subnet instead: the file is what ` + "`agon ledger metagraph -o json`" + `
printed of it. Its neurons, stakes, weights, rules and epoch are there, at its block; bonds
begin anew.`,
		Example: "  agon ledger localnet\n  agon ledger localnet --block-time 250ms --commit-reveal\n  agon ledger metagraph --ledger finney --netuid 3 -o json >sn3.json && agon ledger localnet --fork sn3.json",
		Args:    Args(0, 0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.ledgerLocalnet(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.Listen, "listen", "127.0.0.1:9944", "`address` to listen on")
	cmd.Flags().StringVar(&o.Preset, "preset", local.PresetLocal, "rules of the subnet: demo, local or finney-like")
	cmd.Flags().DurationVar(&o.BlockTime, "block-time", time.Second, "how long a block `takes`")
	cmd.Flags().Uint64Var(&o.Lag, "lag", 3, "how many `blocks` finality is behind")
	cmd.Flags().BoolVar(&o.CommitReveal, "commit-reveal", false, "weights are committed and revealed")
	cmd.Flags().BoolVar(&o.Beacon, "beacon", false, "sign drand's rounds with a development key")
	cmd.Flags().Uint16Var(&o.Subnets, "subnets", 1, "how many subnets there `are`")
	cmd.Flags().BoolVar(&o.Stable, "stable", false, "a TAO of stake is a TAO: no pools")
	cmd.Flags().StringVar(&o.Fork, "fork", "", "begin with the subnet in this `file`")
	Register(cmd, "preset", local.Presets()...)
	return cmd
}

func (a *App) ledgerLocalnet(ctx context.Context, o localnetOptions) (err error) {
	path := a.ledgerPlace()
	if isURL(path) {
		return output.Usage("ledger", "name a file, or nothing", "`agon ledger localnet` runs a ledger of its own")
	}
	if path == "" {
		dir, derr := os.MkdirTemp("", "agon-localnet-")
		if derr != nil {
			return fmt.Errorf("make directory: %w", derr)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		path = filepath.Join(dir, "localnet.db")
	}
	if o.Subnets == 0 || o.Subnets > maxSubnets {
		return output.Usage("subnets", "", "a localnet has 1 to %d subnets, not %d", maxSubnets, o.Subnets)
	}
	now := time.Now
	if a.Now != nil {
		now = a.Now
	}
	// A block is told when it is over: the clock is a block late until the subnet is made.
	var made atomic.Bool
	cfg := local.Config{Preset: o.Preset, BlockTime: o.BlockTime, Keep: keptStates, Now: func() time.Time {
		if made.Load() {
			return now()
		}
		return now().Add(-o.BlockTime)
	}}
	var rounds roundSource
	if o.Beacon {
		b := timelock.NewBeacon([]byte("development"))
		cfg.Drand, rounds = b.Key(), b.Signature
	}
	var m *ledger.Metagraph
	first := time.Duration(1)
	if o.Fork != "" {
		if _, err := os.Stat(path); err == nil {
			return output.Usage("fork", "name another file, or none", "%s is there already: a fork begins a ledger of its own", path)
		}
		if m, err = readMetagraph(o.Fork); err != nil {
			return err
		}
		first += time.Duration(m.Block)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		cfg.Genesis = now().Add(-first * o.BlockTime).Truncate(time.Millisecond)
	}
	l, oerr := local.Open(ctx, path, cfg)
	if oerr != nil {
		return oerr
	}
	defer func() { err = errors.Join(err, ledgerError(l.Close())) }()
	if all, err := l.Subnets(ctx); err != nil {
		return err
	} else if len(all) == 0 {
		if err := a.fillLocalnet(ctx, l, o, m); err != nil {
			return err
		}
	}
	made.Store(true)
	a.IO.Notef("DEVELOPMENT KEYS: everybody knows their secrets. Never use them on a real network, and never send anything there.")
	for _, name := range devKeys {
		cold, hot, err := devKey(name)
		if err != nil {
			return err
		}
		a.IO.Notef("  %-10s coldkey %s  hotkey %s (%s//hot)", name, cold, hot, name)
	}
	a.IO.Notef("faucet: curl -X POST 'http://%s/faucet?address=ADDRESS&tao=100'", o.Listen)
	if o.Beacon {
		a.IO.Notef("rounds of drand are signed here, with a secret that everybody knows; public key %s", cfg.Drand)
	}
	return a.serveNode(ctx, l, nodeOptions{Listen: o.Listen, Lag: o.Lag, Rounds: rounds, More: map[string]http.HandlerFunc{"POST /faucet": faucet(l)}})
}

// devKey gives the addresses of a development key.
func devKey(name string) (cold, hot string, err error) {
	for _, x := range []struct {
		uri string
		to  *string
	}{{name, &cold}, {name + "//hot", &hot}} {
		k, err := auth.KeyFromURI(x.uri)
		if err != nil {
			return "", "", fmt.Errorf("development key %s: %w", x.uri, err)
		}
		*x.to = k.SS58()
	}
	return cold, hot, nil
}

// maxMetagraph bounds the file of a subnet, in bytes.
const maxMetagraph = 64 << 20

func readMetagraph(path string) (*ledger.Metagraph, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read subnet: %w", err)
	}
	if info.Size() > maxMetagraph {
		return nil, output.Usage("fork", "", "%s has more than %d bytes", path, maxMetagraph)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read subnet: %w", err)
	}
	var m ledger.Metagraph
	if err := json.Unmarshal(b, &m); err != nil || m.Netuid == 0 {
		return nil, output.Usage("fork", "make it with `agon ledger metagraph -o json`", "%s is not a metagraph: %v", path, err)
	}
	if err := local.CheckFork(&m); err != nil {
		return nil, output.Usage("fork", "make it with `agon ledger metagraph -o json`", "%s has no subnet that a ledger can begin with: %v", path, err)
	}
	return &m, nil
}

// fillLocalnet makes the subnet and funds the development keys.
func (a *App) fillLocalnet(ctx context.Context, l *local.Ledger, o localnetOptions, m *ledger.Metagraph) error {
	if m != nil {
		if err := l.Fork(ctx, m); err != nil {
			return err
		}
	}
	netuid := uint16(1)
	s := local.Subnet{Pool: devPool, Moving: raoPerTAO}
	if o.Stable {
		s.Pool = 0
	}
	for i, name := range devKeys {
		cold, hot, err := devKey(name)
		if err != nil {
			return err
		}
		if err := l.Fund(ctx, cold, devFunds); err != nil {
			return err
		}
		if m != nil {
			continue
		}
		if i == 0 {
			h, err := local.Hyperparameters(o.Preset)
			if err != nil {
				return err
			}
			h.CommitReveal = h.CommitReveal || o.CommitReveal
			s.OwnerHotkey, s.OwnerColdkey, s.Hyper = hot, cold, &h
			if err := l.EnsureSubnet(ctx, netuid, s); err != nil {
				return err
			}
		} else if _, err := l.Register(ctx, netuid, hot, cold); err != nil {
			return err
		}
		if i < devValidators {
			if err := l.AddStake(ctx, netuid, hot, cold, devStake); err != nil {
				return err
			}
			if err := l.SetValidator(ctx, netuid, hot, true, devStake); err != nil {
				return err
			}
		}
		if i == 1 {
			s.OwnerHotkey, s.OwnerColdkey = hot, cold
			for n := netuid + 1; n <= o.Subnets; n++ {
				if err := l.EnsureSubnet(ctx, n, s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// faucet gives TAO to whoever asks.
func faucet(l *local.Ledger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		address, amount := r.URL.Query().Get("address"), r.URL.Query().Get("tao")
		rao, err := parseTAO(amount)
		if err == nil && rao > maxFaucet {
			err = fmt.Errorf("at most %s TAO at once", tao(maxFaucet))
		}
		if err == nil {
			err = l.Fund(r.Context(), address, rao)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		have, err := l.Balance(r.Context(), address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"address": address, "balance": have}) // who left needs no answer
	}
}
