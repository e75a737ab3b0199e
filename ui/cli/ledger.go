package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) ledgerCmd() *cobra.Command {
	view := a.ledgerViewCmd()
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "The ledger: registrations, stake, commitments, weights, epochs",
		Long: `The ledger: registrations, stake, commitments, weights, epochs. --ledger names the file
of an embedded ledger, the http address of one that is served, or the ws, wss or http
address of a chain's node, several with commas (AGON_LEDGER); finney, test and the
variable NETWORK name networks. Without it, or as local, the arena server's is meant.`,
		Example: "  agon ledger\n  agon ledger register\n  agon ledger init --ledger lab.db --stepped",
		Args:    a.NoSubcommand,
		RunE:    view.RunE,
	}
	cmd.Flags().AddFlagSet(view.Flags())
	cmd.PersistentFlags().StringVar(&a.ledger, "ledger", "", "`file or address` of the ledger (AGON_LEDGER)")
	cmd.PersistentFlags().StringVar(&a.wait, "wait", waitFinalized, "on a chain, `until` the extrinsic is inblock or finalized")
	Register(cmd, "wait", waitInBlock, waitFinalized)
	cmd.AddCommand(view, a.ledgerRegisterCmd(), a.ledgerMetagraphCmd(), a.ledgerEpochCmd(), a.ledgerCommitmentsCmd(), a.ledgerCommitCmd(),
		a.ledgerSetWeightsCmd(), a.ledgerStakeCmd(), a.ledgerInitCmd(), a.ledgerStepCmd(), a.ledgerFundCmd(), a.ledgerServeCmd(),
		a.ledgerHyperCmd(), a.ledgerAxonCmd(), a.ledgerTransferCmd(), a.ledgerTakeCmd(), a.ledgerMechanismsCmd(), a.ledgerCallCmd(), a.ledgerForecastCmd(), a.ledgerLocalnetCmd())
	return cmd
}

// netuidFlag is --netuid: without it the subnet that all arenas of the server share.
const netuidUnset = -1

func (a *App) netuid(ctx context.Context, c *client.Client, n int) (uint16, error) {
	if n != netuidUnset {
		if n < 0 || n > 65535 {
			return 0, output.Usage("netuid", "give 0 to 65535", "--netuid %d: out of range", n)
		}
		return uint16(n), nil
	}
	arenas, err := c.Arenas(ctx)
	if err != nil {
		return 0, err
	}
	if len(arenas) == 0 {
		return 0, output.Usage("netuid", "name the subnet with --netuid", "the server has no arena to take the subnet from")
	}
	for _, x := range arenas {
		if x.Netuid != arenas[0].Netuid {
			return 0, output.Usage("netuid", "name one with --netuid, or an arena with --arena", "the server's arenas are on several subnets")
		}
	}
	return arenas[0].Netuid, nil
}

func (a *App) ledgerViewCmd() *cobra.Command {
	var netuid int
	cmd := &cobra.Command{
		Use:   "view",
		Short: "Show a subnet's metagraph and weights",
		Long: `Show a subnet's metagraph and weights. JSON: {netuid, block, neurons, weights}. Of a
ledger named by --ledger it lists the subnets.`,
		Example: "  agon ledger view\n  agon ledger view --netuid 1 --jq '.weights'",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.ledgerPlace() != "" {
				return a.ledgerView(cmd.Context())
			}
			c, err := a.Reader()
			if err != nil {
				return err
			}
			n, err := a.netuid(cmd.Context(), c, netuid)
			if err != nil {
				return err
			}
			m, err := c.Ledger(cmd.Context(), n)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{
				Value: m, IDs: ids(m.Neurons, func(x client.Neuron) string { return x.Hotkey }),
				Human: func(h *output.Human) { metagraphHuman(h, m) },
			})
		},
	}
	cmd.Flags().IntVar(&netuid, "netuid", netuidUnset, "subnet `number` (default: that of the arenas)")
	cmd.Flags().Lookup("netuid").DefValue = "0"
	return cmd
}

func metagraphHuman(h *output.Human, m *client.Metagraph) {
	h.Heading(fmt.Sprintf("subnet %d at block %d", m.Netuid, m.Block))
	if len(m.Neurons) == 0 {
		h.Line("nobody is registered")
		return
	}
	weights := map[uint16]uint16{}
	for _, w := range m.Weights {
		weights[w.UID] = w.Weight
	}
	rows := make([][]output.Cell, len(m.Neurons))
	for i, n := range m.Neurons {
		role := "miner"
		if n.Validator {
			role = "validator"
		}
		rows[i] = []output.Cell{
			output.Text(strconv.Itoa(int(n.UID))), output.Text(n.Hotkey), output.Text(n.Coldkey), output.Text(role),
			output.Text(strconv.Itoa(int(weights[n.UID]))), output.Text(strconv.FormatUint(n.Registered, 10)), output.Text(strconv.FormatUint(n.LastUpdate, 10)),
		}
	}
	h.Table([]output.Column{
		{Title: "uid", Right: true},
		{Title: "hotkey", Min: 7},
		{Title: "coldkey", Min: 7},
		{Title: "role"},
		{Title: "weight", Right: true},
		{Title: "registered", Right: true},
		{Title: "updated", Right: true},
	}, rows)
}

type registerOptions struct {
	Arena     string // whose subnet it is
	Netuid    int
	Hotkey    string // of another: the operator registers it
	Coldkey   string
	Validator bool
	Plan      bool // only say what would be signed
}

func (a *App) ledgerRegisterCmd() *cobra.Command {
	var o registerOptions
	cmd := &cobra.Command{
		Use:   "register",
		Short: "Register the hotkey in force on a subnet",
		Long: `Register the hotkey in force on a subnet. JSON: its neuron {netuid, uid, hotkey, coldkey, …}.
A hotkey that is registered already is shown, and nothing changes. Where the server wants
the coldkey's signature, the wallet's coldkey signs. With --hotkey and --coldkey the operator
registers somebody else, with --validator as a validator.`,
		Example: "  agon ledger register --arena {arena}\n  agon ledger register --wallet.hotkey second --netuid 1\n  agon ledger register --hotkey 5F… --coldkey 5G… --wallet.name operator",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Hotkey != "" && o.Coldkey == "" {
				return output.Usage("coldkey", "add --coldkey", "whose hotkey is it")
			}
			if o.Arena != "" {
				if o.Netuid != netuidUnset {
					return output.Usage("arena", "leave one of them away", "--arena and --netuid both name the subnet")
				}
				c, err := a.Reader()
				if err != nil {
					return err
				}
				x, err := c.Arena(cmd.Context(), o.Arena)
				if err != nil {
					return err
				}
				o.Netuid = int(x.Netuid)
			}
			if o.Plan {
				if o.Hotkey != "" || o.Validator {
					return output.Usage("plan", "leave --hotkey and --validator away", "what the operator does signs no extrinsic")
				}
				return a.registerPlan(cmd.Context(), o)
			}
			if a.ledgerPlace() != "" {
				if o.Hotkey != "" || o.Validator {
					return output.Usage("hotkey", "leave --ledger away", "the operator registers others at the server (--url)")
				}
				return a.ledgerRegister(cmd.Context(), o)
			}
			return a.register(cmd.Context(), o)
		},
	}
	cmd.Flags().IntVar(&o.Netuid, "netuid", netuidUnset, "subnet `number` (default: that of the arenas)")
	cmd.Flags().Lookup("netuid").DefValue = "0"
	cmd.Flags().StringVar(&o.Arena, "arena", "", "the subnet of this `arena` of the server, in place of --netuid")
	cmd.Flags().StringVar(&o.Coldkey, "coldkey", "", "`address` of the owner (default: the wallet's)")
	cmd.Flags().StringVar(&o.Hotkey, "hotkey", "", "`address` of the hotkey to register (operator; default: the one in force)")
	planFlag(cmd, &o.Plan)
	cmd.Flags().BoolVar(&o.Validator, "validator", false, "give it a validator's permit (operator)")
	return cmd
}

// registered is a neuron with its subnet.
type registered struct {
	Netuid uint16 `json:"netuid"`
	client.Neuron
}

func (a *App) register(ctx context.Context, o registerOptions) error {
	c, key, err := a.Writer()
	if err != nil {
		return err
	}
	if o.Coldkey == "" {
		w, err := a.wallet()
		if err != nil {
			return err
		}
		o.Coldkey, err = w.ColdkeyAddress()
		if errors.Is(err, auth.ErrKeyfileMissing) {
			return &agon.Error{
				Code: "no_coldkey", Status: http.StatusUnauthorized, Field: "coldkey", Message: "wallet " + w.Name + " has no coldkeypub.txt",
				Mend: "name the owner's address with --coldkey",
			}
		}
		if err != nil {
			return err
		}
	}
	n, err := a.netuid(ctx, c, o.Netuid)
	if err != nil {
		return err
	}
	hotkey := o.Hotkey
	if hotkey == "" {
		hotkey = key.SS58()
	}
	neuron, err := findNeuron(ctx, c, n, hotkey)
	if err != nil {
		return err
	}
	if neuron == nil {
		info, err := c.Server(ctx)
		if err != nil {
			return err
		}
		if (info.Registration == string(local.RegistrationColdkey) || info.Registration == string(local.RegistrationBurn)) && key.SS58() != info.Operator {
			o.Netuid = int(n)
			return a.ledgerRegister(ctx, o) // signed by the coldkey
		}
		if err := c.Register(ctx, n, client.RegisterRequest{Hotkey: hotkey, Coldkey: o.Coldkey, Validator: o.Validator}); err != nil {
			return err
		}
		if neuron, err = findNeuron(ctx, c, n, hotkey); err != nil {
			return err
		}
		if neuron == nil {
			return &agon.Error{Code: "pending", Message: "registered, but the ledger does not show it yet", Mend: "look again with `agon ledger view`"}
		}
	} else {
		a.IO.Notef("%s is registered already", neuron.Hotkey)
	}
	return a.Printer.Print(ctx, output.Result{Value: registered{n, *neuron}, IDs: []string{neuron.Hotkey}, Human: func(h *output.Human) {
		h.Fields([2]string{"netuid", strconv.Itoa(int(n))}, [2]string{"uid", strconv.Itoa(int(neuron.UID))}, [2]string{"hotkey", neuron.Hotkey}, [2]string{"coldkey", neuron.Coldkey})
	}})
}

func findNeuron(ctx context.Context, c *client.Client, netuid uint16, hotkey string) (*client.Neuron, error) {
	m, err := c.Ledger(ctx, netuid)
	if err != nil {
		return nil, err
	}
	for i := range m.Neurons {
		if m.Neurons[i].Hotkey == hotkey {
			return &m.Neurons[i], nil
		}
	}
	return nil, nil
}
