package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/remote"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ledger/serve"
	"github.com/agon-arena/agon/ledger/subtensor"
	"github.com/agon-arena/agon/ledger/timelock"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
)

// envLedger names the ledger where --ledger does not.
const envLedger = "AGON_LEDGER"

// envNetwork names a network of the chain where AGON_LEDGER names nothing: finney, test or local.
const envNetwork = "NETWORK"

// ledgerPlace is what --ledger, AGON_LEDGER or NETWORK says: a file, an address, or "".
func (a *App) ledgerPlace() string {
	place := a.ledger
	if place == "" {
		place = a.Env.Getenv(envLedger)
	}
	if place == "local" { // the embedded ledger of the arena server
		return ""
	}
	if place == "" {
		place = a.Env.Getenv(envNetwork)
	}
	if url, ok := subtensor.Networks[place]; ok {
		return url
	}
	return place
}

func isURL(s string) bool {
	return isWS(s) || strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// openLedger opens what --ledger names; without it the ledger that the arena
// server serves. The second result closes it.
func (a *App) openLedger(ctx context.Context) (ledger.Full, func() error, error) {
	place := a.ledgerPlace()
	if place != "" && !isURL(place) {
		if strings.Contains(place, "://") {
			return nil, nil, output.Usage("ledger", "give a file, a network, or an http, https, ws or wss address", "%q is not a ledger", place)
		}
		l, err := a.openFile(ctx)
		if err != nil {
			return nil, nil, err
		}
		return l, l.Close, nil
	}
	if place == "" {
		c, err := a.Config()
		if err != nil {
			return nil, nil, err
		}
		place = strings.TrimSuffix(c.Get(config.URL), "/")
	}
	return a.openAt(ctx, place)
}

// openFile opens the embedded ledger in the file that --ledger names. Who may
// write the file may do everything on it.
func (a *App) openFile(ctx context.Context) (*local.Ledger, error) { return a.openKept(ctx, 0) }

// openKept is openFile that keeps the states of so many blocks.
func (a *App) openKept(ctx context.Context, keep uint64) (*local.Ledger, error) {
	path := a.ledgerPlace()
	switch {
	case path == "":
		return nil, output.Usage("ledger", "name it with --ledger FILE", "this needs the file of an embedded ledger")
	case isURL(path):
		return nil, output.Usage("ledger", "run it where the file is", "this needs the file of an embedded ledger, not the address of one")
	}
	if _, err := os.Stat(path); err != nil {
		return nil, &agon.Error{Code: "no_ledger", Status: http.StatusNotFound, Field: "ledger", Message: "no ledger at " + path, Mend: "make one with `agon ledger init --ledger " + path + "`", Err: err}
	}
	return local.Open(ctx, path, local.Config{Now: a.Now, Keep: keep})
}

// WithLedger runs f on the ledger and closes it.
func (a *App) WithLedger(ctx context.Context, f func(ledger.Full) error) error {
	l, end, err := a.openLedger(ctx)
	if err != nil {
		return err
	}
	return ledgerError(errors.Join(f(l), end()))
}

// withFile is withLedger for what only the file's owner may do.
func (a *App) withFile(ctx context.Context, f func(*local.Ledger) error) error {
	l, err := a.openFile(ctx)
	if err != nil {
		return err
	}
	return ledgerError(errors.Join(f(l), l.Close()))
}

// ledgerError gives a refusal its exit code and says what to do.
func ledgerError(err error) error {
	var e *ledger.Error
	if !errors.As(err, &e) {
		for _, sick := range []error{subtensor.ErrNoNode, subtensor.ErrGenesis, subtensor.ErrStalled, subtensor.ErrBadState, subtensor.ErrUnknownFate} {
			if errors.Is(err, sick) {
				return &agon.Error{Code: "ledger_unavailable", Status: http.StatusBadGateway, Field: "ledger", Message: err.Error(), Mend: "name other nodes with --ledger, or try again later", Fault: agon.FaultLedger, Err: err}
			}
		}
		return err
	}
	out := &agon.Error{Code: e.Name, Status: http.StatusUnprocessableEntity, Message: e.Error(), Mend: "see `agon ledger metagraph --netuid N` and `agon ledger epoch --netuid N`", Err: err}
	switch {
	case errors.Is(err, ledger.ErrSubnetNotExists):
		out.Status, out.Mend = http.StatusNotFound, "`agon arena list -o json` shows the subnets of the server's arenas; of another ledger: `agon ledger view --ledger FILE`"
	case errors.Is(err, ledger.ErrNotRegistered), errors.Is(err, ledger.ErrAccountMayNotCommit):
		out.Mend = "register with `agon ledger register --netuid N`"
	case errors.Is(err, ledger.ErrBadOrigin):
		out.Status, out.Mend = http.StatusForbidden, "sign with the key that it belongs to"
	case errors.Is(err, ledger.ErrNotEnoughBalance):
		out.Mend = "on an embedded ledger `agon ledger fund` makes money"
	case errors.Is(err, ledger.ErrSettingWeightsTooFast), errors.Is(err, ledger.ErrCommittingTooFast), errors.Is(err, ledger.ErrNoPermit),
		errors.Is(err, ledger.ErrNotEnoughStake), errors.Is(err, ledger.ErrVersionKey):
		out.Mend = "see when it is possible with `agon ledger set-weights --plan --netuid N`"
	}
	return out
}

// SubnetOf is --netuid, or the ledger's only subnet.
func SubnetOf(ctx context.Context, l ledger.Full, n int) (uint16, error) {
	if n != netuidUnset {
		if n < 0 || n > 65535 {
			return 0, output.Usage("netuid", "give 0 to 65535", "--netuid %d: out of range", n)
		}
		return uint16(n), nil
	}
	all, err := l.Subnets(ctx)
	if err != nil {
		return 0, err
	}
	if len(all) != 1 {
		return 0, output.Usage("netuid", "name one with --netuid", "the ledger has %d subnets", len(all))
	}
	return all[0], nil
}

func NetuidFlag(cmd *cobra.Command, n *int) {
	cmd.Flags().IntVar(n, "netuid", netuidUnset, "subnet `number` (default: the only one)")
	cmd.Flags().Lookup("netuid").DefValue = "0" // help shows no default that is 0
}

// coldkeyAddress is the flag, or the owner of the wallet in force.
func (a *App) coldkeyAddress(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	w, err := a.wallet()
	if err != nil {
		return "", err
	}
	address, err := w.ColdkeyAddress()
	if errors.Is(err, auth.ErrKeyfileMissing) {
		return "", &agon.Error{
			Code: "no_coldkey", Status: http.StatusUnauthorized, Field: "coldkey", Message: "wallet " + w.Name + " has no coldkeypub.txt",
			Mend: "name the owner's address with --coldkey",
		}
	}
	return address, err
}

type initOptions struct {
	Preset, Coldkey string
	Stepped         bool
	Netuid          uint16
}

// initialised is what `agon ledger init` made.
type initialised struct {
	Ledger      string `json:"ledger"`
	Preset      string `json:"preset"`
	BlockTimeMS int64  `json:"block_time_ms"`
	Netuid      uint16 `json:"netuid"`
	OwnerHotkey string `json:"owner_hotkey"`
	Block       uint64 `json:"block"`
}

func (a *App) ledgerInitCmd() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make an embedded ledger with one subnet",
		Long: `Make an embedded ledger with one subnet, owned by the hotkey in force, in the file
that --ledger names. A file that is there already gets the subnet if it lacks it.
With --stepped blocks pass by ` + "`agon ledger step`" + ` only.
JSON: {ledger, preset, block_time_ms, netuid, owner_hotkey, block}.`,
		Example: "  agon ledger init --ledger lab.db --preset local --stepped\n  agon ledger init --ledger lab.db --netuid 2",
		Args:    Args(0, 0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.ledgerInit(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.Preset, "preset", local.PresetLocal, "rules: "+strings.Join(local.Presets(), ", "))
	cmd.Flags().BoolVar(&o.Stepped, "stepped", false, "let blocks pass by hand only")
	cmd.Flags().Uint16Var(&o.Netuid, "netuid", 1, "subnet `number`")
	cmd.Flags().StringVar(&o.Coldkey, "coldkey", "", "`address` of the owner (default: the wallet's)")
	Register(cmd, "preset", local.Presets()...)
	return cmd
}

func (a *App) ledgerInit(ctx context.Context, o initOptions) error {
	path := a.ledgerPlace()
	if path == "" || isURL(path) {
		return output.Usage("ledger", "name it with --ledger FILE", "`agon ledger init` wants a file")
	}
	key, err := a.Key()
	if err != nil {
		return err
	}
	coldkey, err := a.coldkeyAddress(o.Coldkey)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	cfg := local.Config{Preset: o.Preset, Now: a.Now}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		cfg.Stepped = o.Stepped
	}
	l, err := local.Open(ctx, path, cfg)
	if err != nil {
		return err
	}
	err = l.EnsureSubnet(ctx, o.Netuid, local.Subnet{OwnerHotkey: key.SS58(), OwnerColdkey: coldkey})
	block, berr := l.Block(ctx)
	if err := ledgerError(errors.Join(err, berr, l.Close())); err != nil {
		return err
	}
	v := initialised{path, o.Preset, l.BlockTime().Milliseconds(), o.Netuid, key.SS58(), block}
	return a.Printer.Print(ctx, output.Result{Value: v, IDs: []string{path}, Human: func(h *output.Human) {
		h.Fields([2]string{"ledger", path}, [2]string{"preset", o.Preset}, [2]string{"block time", blockTime(l.BlockTime())},
			[2]string{"subnet", strconv.Itoa(int(o.Netuid))}, [2]string{"owner", key.SS58()})
	}})
}

func blockTime(d time.Duration) string {
	if d == 0 {
		return "stepped by hand"
	}
	return d.String()
}

// atBlock is the answer of what only lets blocks pass.
type atBlock struct {
	Block uint64 `json:"block"`
}

func (a *App) ledgerStepCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "step [BLOCKS]",
		Short:   "Let blocks pass on a stepped ledger",
		Long:    "Let blocks pass on a stepped ledger, one if no number is given. JSON: {block}.",
		Example: "  agon ledger step 360 --ledger lab.db",
		Args:    Args(0, 1, "a number of blocks"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n := uint64(1)
			if len(args) > 0 {
				var err error
				if n, err = strconv.ParseUint(args[0], 10, 40); err != nil {
					return output.Usage("", "give a whole number", "%q is not a number of blocks", args[0])
				}
			}
			return a.withFile(cmd.Context(), func(l *local.Ledger) error {
				block, err := l.Step(cmd.Context(), n)
				if err != nil {
					return err
				}
				return a.Printer.Print(cmd.Context(), output.Result{Value: atBlock{block}, Human: func(h *output.Human) { h.Line("block %d", block) }})
			})
		},
	}
}

func (a *App) ledgerServeCmd() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Offer an embedded ledger to other processes",
		Long: `Offer the embedded ledger in the file that --ledger names to other processes: open
reads, extrinsics signed by the hotkey (registrations that cost something and stake
by the coldkey). Others reach it with --ledger http://HOST:PORT, clients of Substrate
chains at the same address: JSON-RPC over HTTP and WebSocket.`,
		Example: "  agon ledger serve --ledger lab.db --listen 127.0.0.1:9950",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.openKept(cmd.Context(), rpc.KeptStates)
			if err != nil {
				return err
			}
			return ledgerError(errors.Join(a.serveNode(cmd.Context(), l, nodeOptions{Listen: listen}), l.Close()))
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:9950", "`address` to listen on")
	return cmd
}

// roundsEvery is how often a served ledger asks for the rounds that it waits for.
const roundsEvery = time.Second

// roundSource gives the signature of a round.
type roundSource func(ctx context.Context, round uint64) ([]byte, error)

type nodeOptions struct {
	Listen string
	Lag    uint64                      // blocks are final so many blocks later
	Rounds roundSource                 // nil = drand's relays, where some are named
	More   map[string]http.HandlerFunc // other paths
}

// serveNode serves a ledger until ctx ends.
func (a *App) serveNode(ctx context.Context, l *local.Ledger, o nodeOptions) error {
	listen := o.Listen
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return &agon.Error{Code: "listen", Status: http.StatusConflict, Field: "listen", Message: fmt.Sprintf("cannot listen on %s: %v", listen, err), Mend: "choose another address with --listen"}
	}
	url := "http://" + ln.Addr().String()
	genesis := "agon-ledger:" + strconv.FormatInt(l.Genesis().UnixMilli(), 36)
	chain, err := rpc.New(rpc.Config{Ledger: l, Genesis: genesis, Replay: l, BlockTime: l.BlockTime(), Lag: o.Lag, Now: a.Now, Log: slog.New(slog.NewTextHandler(a.IO.Err, nil))})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	handler := http.NewServeMux()
	handler.Handle("/", chain)
	for pattern, f := range o.More {
		handler.HandleFunc(pattern, f)
	}
	own := serve.New(serve.Config{
		Ledger: l, BlockTime: l.BlockTime(), Log: slog.New(slog.NewTextHandler(a.IO.Err, nil)),
		// The genesis is the ledger's own: a signature for another ledger is none here.
		Verifier: &auth.Verifier{Audience: genesis, Now: a.Now, Replay: l},
	})
	handler.Handle(remote.PathInfo, own)
	handler.Handle(remote.PathInfo+"/", own)
	s := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	rounds := o.Rounds
	if hosts := strings.Fields(a.Env.Getenv(envRelays)); rounds == nil && len(hosts) > 0 {
		rounds = (&timelock.Relay{Hosts: hosts}).Signature
	}
	if rounds != nil {
		follow, end := context.WithCancel(ctx)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			l.FollowRounds(follow, roundsEvery, rounds, slog.New(slog.NewTextHandler(a.IO.Err, nil)))
		}()
		defer func() { end(); <-stopped }()
	}
	sealing, stop := context.WithCancel(ctx)
	sealed := make(chan struct{})
	go func() {
		defer close(sealed)
		chain.KeepSealing(sealing)
	}()
	defer func() { stop(); <-sealed }()
	a.IO.Notef("the ledger is at %s", url)
	select {
	case err := <-done:
		return fmt.Errorf("serve ledger: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := s.Shutdown(end); err != nil {
		return errors.Join(ctx.Err(), s.Close())
	}
	return ctx.Err()
}
