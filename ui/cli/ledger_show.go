package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) ledgerMetagraphCmd() *cobra.Command {
	var netuid int
	cmd := &cobra.Command{
		Use:   "metagraph",
		Short: "Show a subnet: neurons, weights, rules, epoch",
		Long: `Show a subnet: its neurons with what the last epoch decided, all weights, the rules
and where its epoch stands. JSON: {netuid, block, owner_hotkey, owner_coldkey,
hyperparameters, epoch, burn, neurons, weights}; stake and emission are rao.`,
		Example: "  agon ledger metagraph --ledger lab.db\n  agon ledger metagraph --jq '.neurons[] | {uid, incentive}'",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.withSubnet(ctx, netuid, func(m *ledger.Metagraph) error {
				return a.Printer.Print(ctx, output.Result{Value: m, IDs: ids(m.Neurons, func(n ledger.Neuron) string { return n.Hotkey }), Human: func(h *output.Human) { neuronsHuman(h, m) }})
			})
		},
	}
	NetuidFlag(cmd, &netuid)
	return cmd
}

// withSubnet runs f on a metagraph.
func (a *App) withSubnet(ctx context.Context, netuid int, f func(*ledger.Metagraph) error) error {
	return a.WithLedger(ctx, func(l ledger.Full) error {
		n, err := SubnetOf(ctx, l, netuid)
		if err != nil {
			return err
		}
		m, err := l.Metagraph(ctx, n)
		if err != nil {
			return err
		}
		return f(m)
	})
}

func neuronsHuman(h *output.Human, m *ledger.Metagraph) {
	h.Heading(fmt.Sprintf("subnet %d at block %d", m.Netuid, m.Block))
	share := func(v uint16) output.Cell { return output.Text(fmt.Sprintf("%.4f", float64(v)/65535)) }
	rows := make([][]output.Cell, len(m.Neurons))
	for i, n := range m.Neurons {
		role := ""
		if n.Permit {
			role = "permit"
		}
		if n.Hotkey == m.OwnerHotkey {
			role = "owner"
		}
		rows[i] = []output.Cell{
			output.Text(strconv.Itoa(int(n.UID))), output.Text(n.Hotkey), output.Text(role), output.Text(tao(n.Stake)), share(n.Consensus), share(n.Incentive),
			share(n.Dividends), share(n.ValidatorTrust), output.Text(tao(n.Emission)), output.Text(strconv.FormatUint(n.LastUpdate, 10)),
		}
	}
	right := func(s string) output.Column { return output.Column{Title: s, Right: true} }
	h.Table([]output.Column{right("uid"), {Title: "hotkey", Min: 7}, {Title: "role"}, right("stake"), right("consensus"), right("incentive"), right("dividends"), right("vtrust"), right("emission"), right("updated")}, rows)
}

// epochInfo is `agon ledger epoch`.
type epochInfo struct {
	Netuid uint16       `json:"netuid"`
	Block  uint64       `json:"block"`
	Model  ledger.Model `json:"model"`
	Tempo  uint16       `json:"tempo"`
	Next   uint64       `json:"next_epoch"`
	ledger.Epoch
}

func (a *App) ledgerEpochCmd() *cobra.Command {
	var netuid int
	var trigger bool
	cmd := &cobra.Command{
		Use:   "epoch",
		Short: "Show when a subnet's epochs are",
		Long: `Show when a subnet's epochs are. --trigger puts the next one into the next block, on
an embedded ledger's file. JSON: {netuid, block, model, tempo, next_epoch,
last_epoch_block, pending_epoch_at, subnet_epoch_index, …}.`,
		Example: "  agon ledger epoch --netuid 1 --ledger lab.db",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if trigger {
				if err := a.withFile(ctx, func(l *local.Ledger) error {
					n, err := SubnetOf(ctx, l, netuid)
					if err != nil {
						return err
					}
					return l.TriggerEpoch(ctx, n)
				}); err != nil {
					return err
				}
			}
			return a.withSubnet(ctx, netuid, func(m *ledger.Metagraph) error {
				next, err := m.NextEpoch()
				if err != nil {
					return err
				}
				model := m.Hyper.Model
				if model == "" {
					model = ledger.Dynamic
				}
				v := epochInfo{m.Netuid, m.Block, model, m.Hyper.Tempo, next, m.Epoch}
				return a.Printer.Print(ctx, output.Result{Value: v, IDs: []string{strconv.FormatUint(next, 10)}, Human: func(h *output.Human) {
					h.Fields([2]string{"subnet", strconv.Itoa(int(m.Netuid))}, [2]string{"block", strconv.FormatUint(m.Block, 10)}, [2]string{"tempo", fmt.Sprintf("%d blocks, %s", m.Hyper.Tempo, model)},
						[2]string{"epochs so far", strconv.FormatUint(m.Epoch.Index, 10)}, [2]string{"next", fmt.Sprintf("block %d, in %d blocks", next, next-m.Block)})
				}})
			})
		},
	}
	NetuidFlag(cmd, &netuid)
	cmd.Flags().BoolVar(&trigger, "trigger", false, "have the next epoch in the next block")
	return cmd
}

// subnetInfo is a line of `agon ledger view --ledger`.
type subnetInfo struct {
	Netuid    uint16 `json:"netuid"`
	Block     uint64 `json:"block"`
	Owner     string `json:"owner_hotkey"`
	Neurons   int    `json:"neurons"`
	Permits   int    `json:"validator_permits"`
	Weights   int    `json:"weights"` // validators that gave any
	Burn      uint64 `json:"burn"`    // rao
	NextEpoch uint64 `json:"next_epoch"`
}

// ledgerView lists the subnets of the ledger that --ledger names.
func (a *App) ledgerView(ctx context.Context) error {
	return a.WithLedger(ctx, func(l ledger.Full) error {
		all, err := l.Subnets(ctx)
		if err != nil {
			return err
		}
		subnets := make([]subnetInfo, 0, len(all))
		for _, n := range all {
			m, err := l.Metagraph(ctx, n)
			if err != nil {
				return err
			}
			s := subnetInfo{Netuid: n, Block: m.Block, Owner: m.OwnerHotkey, Neurons: len(m.Neurons), Weights: len(m.Weights), Burn: m.Burn}
			for _, x := range m.Neurons {
				if x.Permit {
					s.Permits++
				}
			}
			if s.NextEpoch, err = m.NextEpoch(); err != nil {
				return err
			}
			subnets = append(subnets, s)
		}
		return a.Printer.Print(ctx, output.List(subnets, func(s subnetInfo) string { return strconv.Itoa(int(s.Netuid)) }, func(h *output.Human) {
			rows := make([][]output.Cell, len(subnets))
			for i, s := range subnets {
				rows[i] = []output.Cell{
					output.Text(strconv.Itoa(int(s.Netuid))), output.Text(strconv.FormatUint(s.Block, 10)), output.Text(strconv.Itoa(s.Neurons)), output.Text(strconv.Itoa(s.Permits)),
					output.Text(strconv.Itoa(s.Weights)), output.Text(tao(s.Burn)), output.Text(strconv.FormatUint(s.NextEpoch, 10)), output.Text(s.Owner),
				}
			}
			right := func(s string) output.Column { return output.Column{Title: s, Right: true} }
			h.Table([]output.Column{right("subnet"), right("block"), right("neurons"), right("permits"), right("weights"), right("burn"), right("next epoch"), {Title: "owner", Min: 7}}, rows)
		}))
	})
}
