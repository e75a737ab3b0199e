package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/subtensor"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
)

// withChain runs f with a client of the ledger as a chain: what an operator signs
// is an extrinsic, also on an embedded ledger, whose file is served to this
// process alone for the while.
func (a *App) withChain(ctx context.Context, f func(*subtensor.Client) error) error {
	place := a.ledgerPlace()
	if place != "" && !isURL(place) {
		l, err := a.openFile(ctx)
		if err != nil {
			return err
		}
		genesis := "agon-ledger:" + strconv.FormatInt(l.Genesis().UnixMilli(), 36)
		node, err := rpc.New(rpc.Config{Ledger: l, Genesis: genesis, Replay: l, BlockTime: l.BlockTime(), Now: a.Now})
		if err != nil {
			return errors.Join(err, l.Close())
		}
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return errors.Join(fmt.Errorf("serve ledger to this process: %w", err), l.Close())
		}
		s := &http.Server{Handler: node, ReadHeaderTimeout: 10 * time.Second}
		done := make(chan error, 1)
		go func() { done <- s.Serve(ln) }()
		err = a.withNode(ctx, "ws://"+ln.Addr().String(), f)
		cerr := s.Close()
		if serr := <-done; !errors.Is(serr, http.ErrServerClosed) {
			cerr = errors.Join(cerr, serr)
		}
		return errors.Join(err, cerr, ledgerError(l.Close()))
	}
	if place == "" {
		c, err := a.Config()
		if err != nil {
			return err
		}
		place = strings.TrimSuffix(c.Get(config.URL), "/") + "/rpc"
	}
	return a.withNode(ctx, place, f)
}

// withChainSubnet is withChain about the subnet that is meant, as SubnetOf has it.
func (a *App) withChainSubnet(ctx context.Context, netuid int, f func(c *subtensor.Client, n uint16) error) error {
	return a.withChain(ctx, func(c *subtensor.Client) error {
		n, err := SubnetOf(ctx, c, netuid)
		if err != nil {
			return err
		}
		return f(c, n)
	})
}

// withNode runs f with a client of nodes. An embedded ledger that is served
// speaks JSON-RPC at the same address.
func (a *App) withNode(ctx context.Context, place string, f func(*subtensor.Client) error) error {
	c, end, err := a.openAt(ctx, place)
	if err != nil {
		return err
	}
	chain, ok := c.(*subtensor.Client)
	if !ok {
		if err := end(); err != nil {
			return err
		}
		// The same server, by its JSON-RPC.
		u := strings.TrimSuffix(place, "/")
		if c, end, err = a.openAt(ctx, "ws"+strings.TrimPrefix(u, "http")); err != nil {
			return err
		}
		if chain, ok = c.(*subtensor.Client); !ok {
			return errors.Join(fmt.Errorf("%s is not a node", place), end())
		}
	}
	return ledgerError(errors.Join(f(chain), end()))
}

// planned is what --plan shows.
type planned struct {
	*subtensor.Plan
	Effect []string `json:"effect"`
}

// signed does one call for address, or says what would be signed. effect says what
// it changes.
func (a *App) signed(ctx context.Context, c *subtensor.Client, plan bool, address string, call subtensor.Call, effect ...string) error {
	if plan {
		p, err := c.Plan(ctx, address, call)
		if err != nil {
			return err
		}
		v := planned{p, effect}
		return a.Printer.Print(ctx, output.Result{Value: v, IDs: []string{p.Hash}, Human: func(h *output.Human) {
			args, err := json.Marshal(p.Args)
			if err != nil {
				args = []byte(err.Error())
			}
			rows := [][2]string{
				{"call", p.Pallet + "." + p.Call + " " + string(args)},
				{"signer", p.Signer},
				{"nonce", strconv.FormatUint(p.Nonce, 10)},
				{"fee", tao(p.Fee) + " TAO"},
				{"balance", tao(p.Balance) + " TAO"},
				{"taken until", "block " + strconv.FormatUint(p.Until, 10)},
				{"chain", fmt.Sprintf("%s, runtime %d", p.Genesis, p.Spec)},
				{"call hash", p.Hash},
			}
			for _, e := range effect {
				rows = append(rows, [2]string{"effect", e})
			}
			if p.Pending {
				rows = append(rows, [2]string{"note", "another call of this key is on its way"})
			}
			h.Fields(rows...)
		}})
	}
	in, err := c.Do(ctx, address, call)
	if err != nil {
		return err
	}
	v := struct {
		Signer string   `json:"signer"`
		Call   string   `json:"call"`
		Effect []string `json:"effect"`
	}{address, call.Pallet + "." + call.Name, effect}
	return a.Printer.Print(ctx, output.Result{Value: a.withReceipt(v), IDs: []string{in.Hash}, Human: func(h *output.Human) {
		rows := [][2]string{{"call", v.Call}, {"block", strconv.FormatUint(in.Block, 10)}, {"extrinsic", in.Hash}, {"fee", tao(in.Fee) + " TAO"}}
		for _, e := range effect {
			rows = append(rows, [2]string{"effect", e})
		}
		h.Fields(rows...)
	}})
}

func planFlag(cmd *cobra.Command, plan *bool) {
	cmd.Flags().BoolVar(plan, "plan", false, "only say what would be signed, its fee and its effect")
}

// hyperSet is the answer of `agon ledger hyper NAME=VALUE…`.
type hyperSet struct {
	Netuid   uint16     `json:"netuid"`
	Changes  []change   `json:"changes"`
	Plans    []planned  `json:"plans,omitempty"`
	Receipts []receipts `json:"receipts,omitempty"`
}

type change struct {
	Name string `json:"name"`
	From any    `json:"from"`
	To   string `json:"to"`
}

type receipts = subtensor.Included

func (a *App) ledgerHyperCmd() *cobra.Command {
	var netuid int
	var plan bool
	cmd := &cobra.Command{
		Use:   "hyper [NAME=VALUE]...",
		Short: "Show a subnet's hyperparameters, or set them as its owner",
		Long: `Show the hyperparameters of a subnet, or set some: the subnet owner's coldkey signs one
extrinsic for each, in order, and the first that is refused ends it. Amounts are rao,
times are blocks. --plan signs nothing and says what would be signed, its fee and its effect.
JSON: the hyperparameters; of a change {netuid, changes, receipts}, of a plan {netuid,
changes, plans}. Names to set: ` + strings.Join(ledger.OwnerRules(), ", ") + ".",
		Example: "  agon ledger hyper --netuid 3 --ledger finney\n  agon ledger hyper weights_version_key=12 --plan\n  agon ledger hyper alpha_values=45875,58982 liquid_alpha_enabled=true",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.ledgerHyper(cmd.Context(), netuid, plan, args) },
	}
	NetuidFlag(cmd, &netuid)
	planFlag(cmd, &plan)
	return cmd
}

// hyperOf gives the hyperparameters as JSON has them.
func hyperOf(m *ledger.Metagraph) (map[string]any, error) {
	b, err := json.Marshal(m.Hyper)
	if err != nil {
		return nil, fmt.Errorf("encode hyperparameters: %w", err)
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	out := map[string]any{}
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("encode hyperparameters: %w", err)
	}
	return out, nil
}

func (a *App) ledgerHyper(ctx context.Context, netuid int, plan bool, words []string) error {
	if len(words) == 0 {
		return a.withSubnet(ctx, netuid, func(m *ledger.Metagraph) error {
			all, err := hyperOf(m)
			if err != nil {
				return err
			}
			return a.Printer.Print(ctx, output.Result{Value: all, IDs: []string{strconv.Itoa(int(m.Netuid))}, Human: func(h *output.Human) {
				h.Heading(fmt.Sprintf("subnet %d at block %d", m.Netuid, m.Block))
				var rows [][2]string
				for _, name := range sorted(all) {
					rows = append(rows, [2]string{name, fmt.Sprint(all[name])})
				}
				h.Fields(rows...)
			}})
		})
	}
	return a.withChainSubnet(ctx, netuid, func(c *subtensor.Client, n uint16) error {
		m, err := c.Metagraph(ctx, n)
		if err != nil {
			return err
		}
		have, err := hyperOf(m)
		if err != nil {
			return err
		}
		v := hyperSet{Netuid: n}
		var calls []subtensor.Call
		for _, w := range words {
			name, value, ok := strings.Cut(w, "=")
			if !ok {
				return output.Usage("", "give it as NAME=VALUE, such as tempo=360", "%q sets nothing", w)
			}
			call, err := subtensor.RuleCall(n, name, value)
			if err != nil {
				return err
			}
			calls = append(calls, call)
			from := have[name]
			if name == ledger.RuleAlpha {
				from = fmt.Sprintf("%v,%v", have["alpha_low"], have["alpha_high"])
			}
			v.Changes = append(v.Changes, change{name, from, value})
		}
		for i, call := range calls {
			ch := v.Changes[i]
			if plan {
				p, err := c.Plan(ctx, m.OwnerColdkey, call)
				if err != nil {
					return err
				}
				p.Nonce += uint64(i)
				v.Plans = append(v.Plans, planned{p, []string{fmt.Sprintf("%s of subnet %d: %v becomes %s", ch.Name, n, ch.From, ch.To)}})
				continue
			}
			in, err := c.Do(ctx, m.OwnerColdkey, call)
			if err != nil {
				for _, done := range v.Changes[:i] {
					a.IO.Notef("%s is set to %s", done.Name, done.To)
				}
				return err
			}
			v.Receipts = append(v.Receipts, *in)
		}
		return a.Printer.Print(ctx, output.Result{Value: v, IDs: []string{strconv.Itoa(int(n))}, Human: func(h *output.Human) {
			for i, ch := range v.Changes {
				h.Line("%s: %v becomes %s", ch.Name, ch.From, ch.To)
				if plan {
					p := v.Plans[i]
					h.Line("  %s.%s, signed by %s, fee %s TAO, call hash %s", p.Pallet, p.Call, p.Signer, tao(p.Fee), p.Hash)
				} else {
					h.Line("  block %d, extrinsic %s", v.Receipts[i].Block, v.Receipts[i].Hash)
				}
			}
		}})
	})
}

func (a *App) ledgerAxonCmd() *cobra.Command {
	var netuid int
	var plan bool
	var version uint32
	cmd := &cobra.Command{
		Use:   "axon ADDRESS:PORT",
		Short: "Say where the hotkey in force serves",
		Long: `Say on the ledger where the hotkey in force serves: an IP address that others reach, and a
port. --plan signs nothing. JSON: {signer, call, effect, block, extrinsic_hash, …}.`,
		Example: "  agon ledger axon 192.0.2.1:8091 --netuid 3\n  agon ledger axon '[2001:db8::1]:8091' --plan",
		Args:    Args(1, 1, "an address with a port"),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := netip.ParseAddrPort(args[0])
			if err != nil {
				return output.Usage("", "give it as 192.0.2.1:8091 or [2001:db8::1]:8091", "%q is not an address with a port", args[0])
			}
			key, err := a.Key()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return a.withChainSubnet(ctx, netuid, func(c *subtensor.Client, n uint16) error {
				call := subtensor.AxonCall(n, ledger.Axon{Version: version, IP: at.Addr().Unmap(), Port: at.Port(), Protocol: 4})
				return a.signed(ctx, c, plan, key.SS58(), call, fmt.Sprintf("%s serves at %s on subnet %d", key.SS58(), at, n))
			})
		},
	}
	NetuidFlag(cmd, &netuid)
	planFlag(cmd, &plan)
	cmd.Flags().Uint32Var(&version, "version", 1, "`version` of what serves there")
	return cmd
}

func (a *App) ledgerTransferCmd() *cobra.Command {
	var plan bool
	cmd := &cobra.Command{
		Use:   "transfer ADDRESS TAO",
		Short: "Send TAO from the wallet's coldkey",
		Long: `Send TAO from the wallet's coldkey to an address. The account keeps the existential
deposit. --plan signs nothing. JSON: {signer, call, effect, block, extrinsic_hash, fee, …}.`,
		Example: "  agon ledger transfer 5Grw… 2.5 --plan\n  agon ledger transfer 5Grw… 2.5 --ledger finney",
		Args:    Args(2, 2, "an address and an amount"),
		RunE: func(cmd *cobra.Command, args []string) error {
			rao, err := parseTAO(args[1])
			if err != nil {
				return err
			}
			from, err := a.coldkeyAddress("")
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return a.withChain(ctx, func(c *subtensor.Client) error {
				have, err := c.Balance(ctx, from)
				if err != nil {
					return err
				}
				effect := fmt.Sprintf("%s has %s TAO and sends %s to %s", from, tao(have), tao(rao), args[0])
				return a.signed(ctx, c, plan, from, subtensor.TransferCall(args[0], rao), effect)
			})
		},
	}
	planFlag(cmd, &plan)
	return cmd
}

func (a *App) ledgerTakeCmd() *cobra.Command {
	var plan bool
	var hotkey string
	cmd := &cobra.Command{
		Use:   "take [PERCENT]",
		Short: "Show or set what a hotkey keeps of its stakers' dividends",
		Long: `Show, or set, what a hotkey keeps of its stakers' dividends, in percent. The coldkey
signs. --plan signs nothing. JSON: {hotkey, take, percent}, take of 65535; of a change
{signer, call, effect, block, extrinsic_hash, …}.`,
		Example: "  agon ledger take --ledger finney\n  agon ledger take 9.5 --plan",
		Args:    Args(0, 1, "a percentage"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if hotkey == "" {
				key, err := a.Key()
				if err != nil {
					return err
				}
				hotkey = key.SS58()
			}
			ctx := cmd.Context()
			return a.withChain(ctx, func(c *subtensor.Client) error {
				have, err := c.Take(ctx, hotkey)
				if err != nil {
					return err
				}
				if len(args) == 0 {
					v := struct {
						Hotkey  string  `json:"hotkey"`
						Take    uint16  `json:"take"`
						Percent float64 `json:"percent"`
					}{hotkey, have, float64(have) * 100 / 65535}
					return a.Printer.Print(ctx, output.Result{Value: v, IDs: []string{hotkey}, Human: func(h *output.Human) { h.Line("%s keeps %.2f %%", hotkey, v.Percent) }})
				}
				want, err := strconv.ParseFloat(args[0], 64)
				if err != nil || want < 0 || want > 100 {
					return output.Usage("", "give 0 to 100, such as 9.5", "%q is not a percentage", args[0])
				}
				coldkey, err := a.coldkeyAddress("")
				if err != nil {
					return err
				}
				to := uint16(want / 100 * 65535)
				return a.signed(ctx, c, plan, coldkey, subtensor.TakeCall(hotkey, have, to), fmt.Sprintf("%s keeps %.2f %% and will keep %.2f %%", hotkey, float64(have)*100/65535, float64(to)*100/65535))
			})
		},
	}
	cmd.Flags().StringVar(&hotkey, "hotkey", "", "`address` of the hotkey (default: the one in force)")
	planFlag(cmd, &plan)
	return cmd
}

func (a *App) ledgerMechanismsCmd() *cobra.Command {
	var netuid int
	var plan bool
	var count uint8
	var split string
	cmd := &cobra.Command{
		Use:   "mechanisms",
		Short: "Show or set the mechanisms of a subnet",
		Long: `Show the mechanisms of a subnet and how its emission is divided over them, or, as its
owner, set their number or the shares. --plan signs nothing. JSON: {count, shares}, shares
of 65535 (none: equal ones); of a change {signer, call, effect, block, extrinsic_hash, …}.`,
		Example: "  agon ledger mechanisms --netuid 3 --ledger finney\n  agon ledger mechanisms --split 70,30 --plan",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if count > 0 && split != "" {
				return output.Usage("split", "set the number first, then the shares", "--count and --split are two calls")
			}
			shares, err := parseShares(split)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return a.withChainSubnet(ctx, netuid, func(c *subtensor.Client, n uint16) error {
				have, err := c.Mechanisms(ctx, n)
				if err != nil {
					return err
				}
				if count == 0 && split == "" {
					return a.Printer.Print(ctx, output.Result{Value: have, IDs: []string{strconv.Itoa(int(have.Count))}, Human: func(h *output.Human) {
						h.Line("%d mechanisms; shares of 65535: %v", have.Count, have.Shares)
					}})
				}
				m, err := c.Metagraph(ctx, n)
				if err != nil {
					return err
				}
				call, effect := subtensor.SplitCall(n, shares), fmt.Sprintf("the emission of subnet %d is divided %v, it was %v", n, shares, have.Shares)
				if count > 0 {
					if call, err = subtensor.RuleCall(n, "mechanism_count", strconv.Itoa(int(count))); err != nil {
						return err
					}
					effect = fmt.Sprintf("subnet %d has %d mechanisms, it had %d", n, count, have.Count)
				}
				return a.signed(ctx, c, plan, m.OwnerColdkey, call, effect)
			})
		},
	}
	NetuidFlag(cmd, &netuid)
	planFlag(cmd, &plan)
	cmd.Flags().Uint8Var(&count, "count", 0, "set the `number` of mechanisms")
	cmd.Flags().StringVar(&split, "split", "", "set the `shares`, such as 70,30; they are scaled to 65535")
	return cmd
}

// parseShares reads weights and scales them to a sum of 65535.
func parseShares(s string) ([]uint16, error) {
	if s == "" {
		return nil, nil
	}
	var parts []float64
	sum := 0.0
	for _, word := range strings.Split(s, ",") {
		f, err := strconv.ParseFloat(word, 64)
		if err != nil || f < 0 || f > 1e9 {
			return nil, output.Usage("split", "give numbers such as 70,30", "%q is not a share", word)
		}
		parts, sum = append(parts, f), sum+f
	}
	if sum == 0 {
		return nil, output.Usage("split", "give one above 0", "all shares are 0")
	}
	out := make([]uint16, len(parts))
	left := 65535
	for i, f := range parts {
		out[i] = uint16(f / sum * 65535)
		left -= int(out[i])
	}
	out[0] += uint16(left)
	return out, nil
}

func (a *App) ledgerCallCmd() *cobra.Command {
	var plan bool
	var signer string
	cmd := &cobra.Command{
		Use:   "call PALLET.CALL [JSON]",
		Short: "Make any call of the runtime",
		Long: `Make any call of the runtime by its name, with its arguments as JSON: an object by their
names, or a list in their order. --signer says whose key signs: hotkey (the one in force),
coldkey (the wallet's). --plan signs nothing and says what would be signed.
JSON: {signer, call, effect, block, extrinsic_hash, events, fee}.`,
		Example: "  agon ledger call SubtensorModule.trigger_epoch '{\"netuid\":3}' --signer coldkey --plan\n  agon ledger call System.remark '{\"remark\":\"0x00\"}'",
		Args:    Args(1, 2, "a call and its arguments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			pallet, name, ok := strings.Cut(args[0], ".")
			if !ok {
				return output.Usage("", "give it as SubtensorModule.set_tempo", "%q is not PALLET.CALL", args[0])
			}
			text := "{}"
			if len(args) > 1 {
				text = args[1]
			}
			parsed, err := scale.ParseJSON([]byte(text))
			if err != nil {
				return output.Usage("", "give an object or a list", "the arguments are not JSON: %v", err)
			}
			who, err := a.signerNamed(signer)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			err = a.withChain(ctx, func(c *subtensor.Client) error {
				return a.signed(ctx, c, plan, who, subtensor.Call{Pallet: pallet, Name: name, Args: parsed})
			})
			if errors.Is(err, scale.ErrUnknown) {
				return &agon.Error{Code: "no_call", Status: http.StatusNotFound, Field: "call", Message: "the runtime has no call " + args[0], Mend: "names are those of the runtime's metadata", Err: err}
			}
			return err
		},
	}
	planFlag(cmd, &plan)
	cmd.Flags().StringVar(&signer, "signer", "hotkey", "whose `key` signs: hotkey or coldkey")
	Register(cmd, "signer", "hotkey", "coldkey")
	return cmd
}

func (a *App) signerNamed(name string) (string, error) {
	switch name {
	case "coldkey":
		return a.coldkeyAddress("")
	case "hotkey":
		key, err := a.Key()
		if err != nil {
			return "", err
		}
		return key.SS58(), nil
	}
	return "", output.Usage("signer", "give hotkey or coldkey", "--signer %q is neither", name)
}

func sorted(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
