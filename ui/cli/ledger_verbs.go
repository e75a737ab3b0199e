package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/keeper"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/subtensor"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
)

const raoPerTAO = 1_000_000_000

// parseTAO reads an amount of TAO with up to nine decimals, exactly.
func parseTAO(s string) (rao uint64, err error) {
	whole, frac, _ := strings.Cut(s, ".")
	bad := output.Usage("", "give TAO with at most nine decimals, such as 12.5", "%q is not an amount", s)
	if whole == "" && frac == "" || len(frac) > 9 || strings.ContainsAny(s, "+-") {
		return 0, bad
	}
	n, err := strconv.ParseUint("0"+whole, 10, 64)
	if err != nil || n > math.MaxInt64/raoPerTAO-1 {
		return 0, bad
	}
	f, err := strconv.ParseUint("0"+frac+strings.Repeat("0", 9-len(frac)), 10, 64)
	if err != nil {
		return 0, bad
	}
	return n*raoPerTAO + f, nil
}

// tao is rao as a person reads it.
func tao(rao uint64) string {
	s := fmt.Sprintf("%d.%09d", rao/raoPerTAO, rao%raoPerTAO)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// neuronOf is a registration with its subnet and balance.
type neuronOf struct {
	Netuid uint16 `json:"netuid"`
	ledger.Neuron
	Balance uint64 `json:"balance"` // rao, of the coldkey
}

// neuronNow reads a registration and the balance of its coldkey.
func neuronNow(ctx context.Context, l ledger.Full, netuid uint16, hotkey string) (n ledger.Neuron, balance uint64, err error) {
	m, err := l.Metagraph(ctx, netuid)
	if err != nil {
		return n, 0, err
	}
	n, ok := m.Neuron(hotkey)
	if !ok {
		return n, 0, ledger.ErrNotRegistered
	}
	balance, err = l.Balance(ctx, n.Coldkey)
	return n, balance, err
}

func (a *App) printNeuron(ctx context.Context, l ledger.Full, netuid uint16, hotkey string) error {
	n, balance, err := neuronNow(ctx, l, netuid, hotkey)
	if err != nil && a.included != nil {
		// What was paid for is done: its receipt is worth more than what cannot be read now.
		a.IO.Notef("it is done; reading the neuron afterwards failed: %v", err)
		in := *a.included
		return a.Printer.Print(ctx, output.Result{Value: a.withReceipt(struct {
			Netuid uint16 `json:"netuid"`
			Hotkey string `json:"hotkey"`
		}{netuid, hotkey}), IDs: []string{hotkey}, Human: func(h *output.Human) {
			h.Fields([2]string{"netuid", strconv.Itoa(int(netuid))}, [2]string{"hotkey", hotkey}, [2]string{"block", strconv.FormatUint(in.Block, 10)},
				[2]string{"extrinsic", in.Hash}, [2]string{"fee", tao(in.Fee) + " TAO"})
		}})
	}
	if err != nil {
		return err
	}
	return a.Printer.Print(ctx, output.Result{Value: a.withReceipt(neuronOf{netuid, n, balance}), IDs: []string{hotkey}, Human: func(h *output.Human) {
		permit := "no"
		if n.Permit {
			permit = "yes"
		}
		h.Fields([2]string{"netuid", strconv.Itoa(int(netuid))}, [2]string{"uid", strconv.Itoa(int(n.UID))}, [2]string{"hotkey", n.Hotkey},
			[2]string{"coldkey", n.Coldkey}, [2]string{"stake", tao(n.Stake) + " alpha"}, [2]string{"balance", tao(balance) + " TAO"}, [2]string{"permit", permit})
	}})
}

// ledgerRegister registers on the ledger that --ledger names.
func (a *App) ledgerRegister(ctx context.Context, o registerOptions) error {
	key, err := a.Key()
	if err != nil {
		return err
	}
	coldkey, err := a.coldkeyAddress(o.Coldkey)
	if err != nil {
		return err
	}
	return a.WithLedger(ctx, func(l ledger.Full) error {
		n, err := SubnetOf(ctx, l, o.Netuid)
		if err != nil {
			return err
		}
		// Asked first: a pool that is full refuses even what is registered, with its own code.
		if m, err := l.Metagraph(ctx, n); err == nil {
			if _, ok := m.Neuron(key.SS58()); ok {
				a.IO.Notef("%s is registered already", key.SS58())
				return a.printNeuron(ctx, l, n, key.SS58())
			}
		}
		if _, err := l.Register(ctx, n, key.SS58(), coldkey); errors.Is(err, ledger.ErrAlreadyRegistered) {
			a.IO.Notef("%s is registered already", key.SS58())
		} else if refused := (*ledger.Error)(nil); err != nil && (a.included == nil || errors.As(err, &refused)) {
			return err // else it is registered, and what was read after it failed
		}
		return a.printNeuron(ctx, l, n, key.SS58())
	})
}

func (a *App) ledgerFundCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "fund ADDRESS TAO",
		Short:   "Make money on an embedded ledger",
		Long:    "Make money on an embedded ledger and give it to a coldkey: in the file that --ledger names, else as the operator of the server (--url). JSON: {coldkey, balance} in rao.",
		Example: "  agon ledger fund 5Grw… 100 --ledger lab.db\n  agon ledger fund 5Grw… 5 --wallet.name operator",
		Args:    Args(2, 2, "an address and an amount"),
		RunE: func(cmd *cobra.Command, args []string) error {
			rao, err := parseTAO(args[1])
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if a.ledgerPlace() == "" {
				c, _, err := a.Writer()
				if err != nil {
					return err
				}
				v, err := c.Fund(ctx, client.FundRequest{Coldkey: args[0], Rao: rao})
				if err != nil {
					return err
				}
				return a.Printer.Print(ctx, output.Result{Value: v, IDs: []string{args[0]}, Human: func(h *output.Human) { h.Line("%s TAO", tao(v.Rao)) }})
			}
			return a.withFile(ctx, func(l *local.Ledger) error {
				if err := l.Fund(ctx, args[0], rao); err != nil {
					return err
				}
				balance, err := l.Balance(ctx, args[0])
				if err != nil {
					return err
				}
				v := struct {
					Coldkey string `json:"coldkey"`
					Balance uint64 `json:"balance"`
				}{args[0], balance}
				return a.Printer.Print(ctx, output.Result{Value: v, IDs: []string{args[0]}, Human: func(h *output.Human) { h.Line("%s TAO", tao(balance)) }})
			})
		},
	}
}

func (a *App) ledgerStakeCmd() *cobra.Command {
	var netuid int
	var hotkey, coldkey string
	var remove, permit, plan bool
	var limit string
	cmd := &cobra.Command{
		Use:   "stake TAO",
		Short: "Stake on the hotkey in force",
		Long: `Stake on a hotkey, or with --remove take stake back, from and to its coldkey's
balance. The next epoch gives validator permits to the most stake; --permit gives one
at once, on an embedded ledger's file. --limit is the worst price, in TAO an alpha, at
which it is done. --plan signs nothing and says what would be signed, its fee and its
effect. JSON: the neuron, with balance.`,
		Example: "  agon ledger stake 100 --ledger lab.db\n  agon ledger stake 2.5 --remove\n  agon ledger stake 2.5 --limit 0.03 --plan --ledger finney",
		Args:    Args(1, 1, "an amount"),
		RunE: func(cmd *cobra.Command, args []string) error {
			rao, err := parseTAO(args[0])
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if hotkey == "" {
				key, err := a.Key()
				if err != nil {
					return err
				}
				hotkey = key.SS58()
			}
			if coldkey, err = a.coldkeyAddress(coldkey); err != nil {
				return err
			}
			if plan || limit != "" {
				return a.stakeCall(ctx, stakeOptions{netuid, hotkey, coldkey, limit, rao, remove, plan})
			}
			return a.WithLedger(ctx, func(l ledger.Full) error {
				n, err := SubnetOf(ctx, l, netuid)
				if err != nil {
					return err
				}
				move := l.AddStake
				if remove {
					move = l.RemoveStake
				}
				if err := move(ctx, n, hotkey, coldkey, rao); err != nil {
					return err
				}
				if permit {
					if err := givePermit(ctx, l, n, hotkey); err != nil {
						return err
					}
				}
				return a.printNeuron(ctx, l, n, hotkey)
			})
		},
	}
	NetuidFlag(cmd, &netuid)
	cmd.Flags().StringVar(&hotkey, "hotkey", "", "`address` of the hotkey (default: the one in force)")
	cmd.Flags().StringVar(&coldkey, "coldkey", "", "`address` of the owner (default: the wallet's)")
	cmd.Flags().BoolVar(&remove, "remove", false, "take stake back")
	cmd.Flags().BoolVar(&permit, "permit", false, "give a validator permit at once")
	cmd.Flags().StringVar(&limit, "limit", "", "the worst `price`, TAO an alpha")
	planFlag(cmd, &plan)
	return cmd
}

func givePermit(ctx context.Context, l ledger.Full, netuid uint16, hotkey string) error {
	file, ok := l.(*local.Ledger)
	if !ok {
		return output.Usage("permit", "leave it out, and wait for an epoch", "--permit needs the file of an embedded ledger")
	}
	m, err := l.Metagraph(ctx, netuid)
	if err != nil {
		return err
	}
	n, _ := m.Neuron(hotkey)
	return file.SetValidator(ctx, netuid, hotkey, true, n.Stake)
}

func (a *App) ledgerCommitCmd() *cobra.Command {
	var netuid int
	var file, sum string
	cmd := &cobra.Command{
		Use:   "commit [TEXT]",
		Short: "Commit a text, a file's bytes or a hash",
		Long: `Replace the hotkey's commitment by a text, the bytes of a file (at most 512) or a
SHA-256 hash. The block of the commitment is its time stamp; committing again gives
another. JSON: {netuid, hotkey, block, fields}.`,
		Example: "  agon ledger commit 'sha256:deadbeef'\n  agon ledger commit --sha256 $(sha256sum agent.py | cut -d' ' -f1)",
		Args:    Args(0, 1, "a text"),
		RunE: func(cmd *cobra.Command, args []string) error {
			field, err := commitField(args, file, sum)
			if err != nil {
				return err
			}
			key, err := a.Key()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return a.WithLedger(ctx, func(l ledger.Full) error {
				n, err := SubnetOf(ctx, l, netuid)
				if err != nil {
					return err
				}
				block, err := l.Commit(ctx, n, key.SS58(), field)
				if err != nil {
					return err
				}
				c := ledger.Commitment{Netuid: n, Hotkey: key.SS58(), Block: block, Fields: []ledger.Field{field}}
				return a.Printer.Print(ctx, output.Result{Value: a.withReceipt(c), IDs: []string{strconv.FormatUint(block, 10)}, Human: func(h *output.Human) { h.Line("committed in block %d", block) }})
			})
		},
	}
	NetuidFlag(cmd, &netuid)
	cmd.Flags().StringVar(&file, "file", "", "commit the bytes of a `file`, - for stdin")
	cmd.Flags().StringVar(&sum, "sha256", "", "commit a hash, 64 `hex` digits")
	return cmd
}

func commitField(args []string, file, sum string) (ledger.Field, error) {
	given := len(args)
	for _, s := range []string{file, sum} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		return ledger.Field{}, output.Usage("", "give one of them", "`agon ledger commit` wants a text, --file or --sha256")
	}
	switch {
	case sum != "":
		b, err := hex.DecodeString(sum)
		if err != nil || len(b) != 32 {
			return ledger.Field{}, output.Usage("sha256", "give 64 hex digits", "--sha256 %q is not a hash", sum)
		}
		return ledger.Field{Type: ledger.FieldSha256, Data: b}, nil
	case file != "":
		in := io.Reader(os.Stdin)
		if file != "-" {
			f, err := os.Open(file)
			if err != nil {
				return ledger.Field{}, fmt.Errorf("read commitment: %w", err)
			}
			defer f.Close()
			in = f
		}
		b, err := io.ReadAll(io.LimitReader(in, 1024)) // the ledger says what is too long
		if err != nil {
			return ledger.Field{}, fmt.Errorf("read commitment: %w", err)
		}
		return ledger.Raw(b), nil
	}
	return ledger.Raw([]byte(args[0])), nil
}

func (a *App) ledgerCommitmentsCmd() *cobra.Command {
	var netuid int
	var from uint64
	cmd := &cobra.Command{
		Use:   "commitments [HOTKEY]",
		Short: "List the live commitments, or all that a hotkey ever made",
		Long: `List the live commitments of a subnet by uid, or with a hotkey all that it made since
block --from, oldest first. JSON: [{netuid, hotkey, block, fields}]; data is base64.`,
		Example: "  agon ledger commitments\n  agon ledger commitments 5Grw… --from 1000",
		Args:    Args(0, 1, "a hotkey"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.WithLedger(ctx, func(l ledger.Full) error {
				n, err := SubnetOf(ctx, l, netuid)
				if err != nil {
					return err
				}
				var all []ledger.Commitment
				if len(args) > 0 {
					all, err = l.History(ctx, n, args[0], from)
				} else {
					all, err = l.Commitments(ctx, n)
				}
				if err != nil {
					return err
				}
				return a.Printer.Print(ctx, output.List(all, func(c ledger.Commitment) string { return c.Hotkey }, func(h *output.Human) {
					rows := make([][]output.Cell, len(all))
					for i, c := range all {
						rows[i] = []output.Cell{output.Text(strconv.FormatUint(c.Block, 10)), output.Text(c.Hotkey), output.Text(fieldsText(c.Fields))}
					}
					h.Table([]output.Column{{Title: "block", Right: true}, {Title: "hotkey", Min: 7}, {Title: "fields", Min: 12}}, rows)
				}))
			})
		},
	}
	NetuidFlag(cmd, &netuid)
	cmd.Flags().Uint64Var(&from, "from", 0, "first `block` of a hotkey's history")
	return cmd
}

// fieldsText shows committed bytes: as text where they are, else as hex.
func fieldsText(fields []ledger.Field) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		if f.Type != ledger.FieldSha256 && utf8.Valid(f.Data) {
			parts[i] = strconv.Quote(string(f.Data))
		} else {
			parts[i] = string(f.Type) + ":" + hex.EncodeToString(f.Data)
		}
	}
	return strings.Join(parts, " ")
}

type setWeightsOptions struct {
	Netuid     int
	VersionKey uint64
	Mechanism  uint8
	Plan       bool
}

// weightsGiven is the answer of set-weights.
type weightsGiven struct {
	Netuid  uint16          `json:"netuid"`
	Hotkey  string          `json:"hotkey"`
	Block   uint64          `json:"block"`
	Actions []keeper.Action `json:"actions"`
	UIDs    []uint16        `json:"uids"`
	Values  []uint16        `json:"values"`
}

func (a *App) ledgerSetWeightsCmd() *cobra.Command {
	var o setWeightsOptions
	cmd := &cobra.Command{
		Use:   "set-weights [UID=WEIGHT]...",
		Short: "Set weights, or say when they may be set",
		Long: `Set the weights of the hotkey in force: the largest becomes 65535, the others in
proportion. Where the subnet commits and reveals, the weights are promised, kept in the
data directory, and revealed by a later set-weights, with or without weights, in the
epoch they are due; once per tempo.

--plan sets nothing and says when it may be done and why not now. JSON: {netuid, hotkey,
block, actions, uids, values}; of a plan {call, ready, earliest, reasons, next_epoch, …}.`,
		Example: "  agon ledger set-weights --plan\n  agon ledger set-weights 1=0.7 4=0.3",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.setWeights(cmd.Context(), o, args) },
	}
	NetuidFlag(cmd, &o.Netuid)
	cmd.Flags().Uint64Var(&o.VersionKey, "version-key", 0, "`version` of the software that judges")
	cmd.Flags().Uint8Var(&o.Mechanism, "mechanism", 0, "`number` of the subnet's mechanism that the weights are for")
	cmd.Flags().BoolVar(&o.Plan, "plan", false, "only say when and why not now")
	return cmd
}

// parseWeights reads UID=WEIGHT words into weights by uid.
func parseWeights(words []string) (uids, values []uint16, err error) {
	weights := []float64{}
	seen := map[uint64]bool{}
	for _, s := range words {
		left, right, ok := strings.Cut(s, "=")
		uid, uerr := strconv.ParseUint(left, 10, 16)
		w, werr := strconv.ParseFloat(right, 64)
		if !ok || uerr != nil || werr != nil || seen[uid] {
			return nil, nil, output.Usage("", "give each uid once, such as 3=0.5", "%q is not a UID=WEIGHT", s)
		}
		seen[uid] = true
		for uint64(len(weights)) <= uid {
			weights = append(weights, 0)
		}
		weights[uid] = w
	}
	uids, values, err = ledger.NormalizeWeights(weights)
	if err != nil {
		return nil, nil, output.Usage("", "give numbers from 0", "%v", err)
	}
	if len(words) > 0 && len(uids) == 0 {
		return nil, nil, output.Usage("", "give at least one above 0", "all weights are 0")
	}
	return uids, values, nil
}

func (a *App) setWeights(ctx context.Context, o setWeightsOptions, words []string) error {
	uids, values, err := parseWeights(words)
	if err != nil {
		return err
	}
	key, err := a.Key()
	if err != nil {
		return err
	}
	return a.WithLedger(ctx, func(l ledger.Full) error {
		n, err := SubnetOf(ctx, l, o.Netuid)
		if err != nil {
			return err
		}
		on, err := keeper.OnMechanism(l, o.Mechanism)
		if err != nil {
			return err
		}
		m, err := on.Metagraph(ctx, n)
		if err != nil {
			return err
		}
		if o.Plan {
			return a.printPlan(ctx, ledger.PlanWeights(m, key.SS58(), o.VersionKey))
		}
		v := weightsGiven{Netuid: n, Hotkey: key.SS58(), Block: m.Block, Actions: []keeper.Action{}, UIDs: uids, Values: values}
		switch {
		case m.Hyper.CommitReveal:
			if v.Actions, err = a.keepWeights(ctx, l, o, v); err != nil {
				return err
			}
		case len(uids) == 0:
			return output.Usage("", "name them, such as 3=0.5", "`agon ledger set-weights` wants weights")
		default:
			if err := on.SetWeights(ctx, n, key.SS58(), ledger.Weights{UIDs: uids, Values: values, VersionKey: o.VersionKey}); err != nil {
				return err
			}
			v.Actions = append(v.Actions, keeper.ActionSet)
		}
		return a.Printer.Print(ctx, output.Result{Value: a.withReceipt(v), IDs: []string{key.SS58()}, Human: func(h *output.Human) {
			if len(v.Actions) == 0 {
				h.Line("nothing was due in block %d", v.Block)
			}
			for _, act := range v.Actions {
				h.Line("weights %s in block %d", act, v.Block)
			}
		}})
	})
}

// keepWeights promises weights, or reveals what was promised.
func (a *App) keepWeights(ctx context.Context, l ledger.Full, o setWeightsOptions, v weightsGiven) ([]keeper.Action, error) {
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(conf.Get(config.Data), "keeper")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	cfg := keeper.Config{
		Ledger: l, Netuid: v.Netuid, Mechanism: o.Mechanism, Hotkey: v.Hotkey, VersionKey: o.VersionKey, Now: a.Now,
		Path: filepath.Join(dir, fmt.Sprintf("%d-%s.json", v.Netuid, v.Hotkey)),
	}
	if o.Mechanism > 0 {
		cfg.Path = filepath.Join(dir, fmt.Sprintf("%d-%d-%s.json", v.Netuid, o.Mechanism, v.Hotkey))
	}
	if chain, ok := l.(*subtensor.Client); ok { // the same hotkey may validate the same netuid of two chains
		if cfg.Genesis, err = chain.Genesis(ctx); err != nil {
			return nil, err
		}
		cfg.Old, cfg.Path = cfg.Path, filepath.Join(dir, keeper.File(cfg.Genesis, v.Netuid, o.Mechanism, v.Hotkey))
	}
	k, err := keeper.Open(cfg)
	if err != nil {
		return nil, err
	}
	r, err := k.Tick(ctx, func(*ledger.Metagraph) ([]uint16, []uint16, error) { return v.UIDs, v.Values, nil })
	for _, note := range r.Notes {
		a.IO.Notef("%s", note)
	}
	if err != nil {
		return nil, err
	}
	if len(r.Actions) == 0 && len(v.UIDs) > 0 {
		if r.Done {
			return nil, ledger.ErrCommittingTooFast.With(fmt.Sprintf("the weights of epoch %d are committed already", r.Epoch))
		}
		if r.Plan != nil && len(r.Plan.Reasons) > 0 {
			return nil, &ledger.Error{Name: r.Plan.Reasons[0].Name, Message: r.Plan.Reasons[0].Message}
		}
	}
	if r.Actions == nil {
		r.Actions = []keeper.Action{}
	}
	return r.Actions, nil
}

func (a *App) printPlan(ctx context.Context, p ledger.Plan) error {
	return a.Printer.Print(ctx, output.Result{Value: p, IDs: []string{p.Hotkey}, Human: func(h *output.Human) {
		when := "not by waiting"
		switch {
		case p.Ready:
			when = "now"
		case p.Earliest > 0:
			when = fmt.Sprintf("from block %d, in %d blocks", p.Earliest, p.Earliest-p.Block)
		}
		rows := [][2]string{{"call", p.Call}, {"block", strconv.FormatUint(p.Block, 10)}, {"possible", when}, {"next epoch", strconv.FormatUint(p.NextEpoch, 10)}}
		if p.RevealFrom > 0 {
			rows = append(rows, [2]string{"reveal", fmt.Sprintf("from block %d, before %d", p.RevealFrom, p.RevealUntil)})
		}
		h.Fields(rows...)
		for _, r := range p.Reasons {
			h.Line("not now: %s (%s)", r.Message, r.Name)
		}
		for _, n := range p.Notes {
			h.Line("note: %s", n)
		}
	}})
}
