package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/dial"
	"github.com/agon-arena/agon/ledger/remote"
	"github.com/agon-arena/agon/ledger/subtensor"
	"github.com/agon-arena/agon/ui/cli/output"
)

// forecast is `agon ledger forecast`. Amounts are billionths: of an alpha, or rao.
type forecast struct {
	Arena       string          `json:"arena"`
	Netuid      uint16          `json:"netuid"`
	Block       uint64          `json:"block"`
	BlockTimeMS int64           `json:"block_time_ms"`
	Price       uint64          `json:"alpha_price"` // rao
	Subnet      ledger.Forecast `json:"subnet"`      // a day, alpha
	Seats       []seatForecast  `json:"seats"`
	Vacant      bool            `json:"vacant"`
	// Burned is what of the miners' part nobody earns, a day, alpha.
	Burned      uint64   `json:"burned"`
	Burn        uint64   `json:"registration"` // rao
	Assumptions []string `json:"assumptions"`
}

type seatForecast struct {
	Place    int     `json:"place"`
	Miner    string  `json:"miner"`
	UID      *uint16 `json:"uid"` // null: the hotkey is not on the subnet
	Share    float64 `json:"share"`
	AlphaDay uint64  `json:"alpha_day"`
	RaoDay   uint64  `json:"rao_day"`
	// LastDay is what the incentive of the last epoch makes in a day, alpha.
	LastDay uint64 `json:"alpha_day_by_last_epoch"`
}

func (a *App) ledgerForecastCmd() *cobra.Command {
	var arena string
	cmd := &cobra.Command{
		Use:   "forecast",
		Short: "Say what a seat of an arena earns in a day, and what the owner earns",
		Long: `Say what a seat of an arena earns in a day, and what the subnet's owner earns, as the
subnet stands now; the answer names its assumptions. The seat's part is that of the arena's
rule, beside it stands what the incentive of the last epoch makes in a day. Amounts are
alpha, and TAO at the price of now.
JSON: {arena, netuid, block, block_time_ms, alpha_price, subnet: {emitted, owner, miners,
validators}, seats: [{place, miner, uid, share, alpha_day, rao_day, alpha_day_by_last_epoch}],
vacant, burned, registration, assumptions}, amounts in billionths.`,
		Example: "  agon ledger forecast --arena {arena}\n  agon ledger forecast --arena {arena} --ledger finney --jq .seats",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if arena == "" {
				return output.Usage("arena", "name it with --arena", "`agon ledger forecast` wants an arena")
			}
			return a.ledgerForecast(cmd.Context(), arena)
		},
	}
	cmd.Flags().StringVar(&arena, "arena", "", "the `arena` of the server")
	return cmd
}

func (a *App) ledgerForecast(ctx context.Context, name string) error {
	c, err := a.Reader()
	if err != nil {
		return err
	}
	x, err := c.Arena(ctx, name)
	if err != nil {
		return err
	}
	all, err := c.Arenas(ctx)
	if err != nil {
		return err
	}
	sharing := 0
	for _, other := range all {
		if other.Netuid == x.Netuid && other.Ledger == x.Ledger && other.Mechanism == x.Mechanism {
			sharing++
		}
	}
	if a.ledger == "" && x.Ledger != "" && x.Ledger != dial.Local {
		a.ledger = x.Ledger // the arena names the chain that it is on
		if at, ok := subtensor.Networks[x.Ledger]; ok {
			a.ledger = at
		}
	}
	return a.WithLedger(ctx, func(l ledger.Full) error {
		m, err := l.Metagraph(ctx, x.Netuid)
		if err != nil {
			return err
		}
		e, err := economyOf(ctx, l, m)
		if err != nil {
			return err
		}
		if m, err = mechanismOf(ctx, l, m, x.Mechanism); err != nil {
			return err
		}
		v, err := foresee(x, max(sharing, 1), m, e)
		if err != nil {
			return err
		}
		return a.Printer.Print(ctx, output.Result{Value: v, IDs: []string{x.ID}, Human: func(h *output.Human) { forecastHuman(h, v) }})
	})
}

// mechanismOf is a subnet as one of its mechanisms has it.
func mechanismOf(ctx context.Context, l ledger.Full, m *ledger.Metagraph, id uint8) (*ledger.Metagraph, error) {
	if chain, ok := l.(*subtensor.Client); ok && id > 0 {
		return chain.MechanismMetagraph(ctx, m.Netuid, id)
	}
	of, ok := m.Mechanism(id)
	if !ok {
		return nil, ledger.ErrMechanismNotExists.With(fmt.Sprintf("the arena is on mechanism %d: subnet %d has %d, from 0", id, m.Netuid, len(m.Mechanisms)+1))
	}
	return of, nil
}

// steppedBlock is what a block of a ledger that is stepped by hand counts as.
const steppedBlock = 12 * time.Second

// economyOf asks a ledger what its subnet pays.
func economyOf(ctx context.Context, l ledger.Full, m *ledger.Metagraph) (ledger.Economy, error) {
	if chain, ok := l.(*subtensor.Client); ok {
		return chain.Economy(ctx, m.Netuid)
	}
	var blocks time.Duration
	switch t := l.(type) {
	case interface{ BlockTime() time.Duration }:
		blocks = t.BlockTime()
	case *remote.Client:
		info, err := t.Info(ctx)
		if err != nil {
			return ledger.Economy{}, err
		}
		blocks = time.Duration(info.BlockTimeMS) * time.Millisecond
	}
	if blocks == 0 {
		blocks = steppedBlock
	}
	return ledger.EconomyOf(m, blocks), nil
}

// foresee makes the forecast of an arena that shares its subnet with others.
func foresee(x *client.Arena, sharing int, m *ledger.Metagraph, e ledger.Economy) (*forecast, error) {
	day, err := e.Day()
	if err != nil {
		return nil, err
	}
	v := &forecast{Arena: x.ID, Netuid: m.Netuid, Block: m.Block, BlockTimeMS: e.BlockTime.Milliseconds(), Price: e.Price, Subnet: day, Burn: m.Burn, Seats: []seatForecast{}}
	miners := e.Of(x.Mechanism, day.Miners)
	part := ledger.Part(miners, 1/float64(sharing))
	v.Burned = ledger.Part(part, x.Burned)
	v.Vacant = len(x.Seats) == 0
	for _, p := range x.Seats {
		s := seatForecast{Place: p.Place, Miner: p.Miner, Share: p.Share, AlphaDay: ledger.Part(part, p.Share)}
		if n, ok := m.Neuron(p.Miner); ok {
			s.UID, s.LastDay = &n.UID, ledger.Part(miners, float64(n.Incentive)/65535)
		} else {
			v.Burned += s.AlphaDay
			s.AlphaDay = 0
		}
		s.RaoDay = e.Worth(s.AlphaDay)
		v.Seats = append(v.Seats, s)
	}
	v.Assumptions = []string{
		fmt.Sprintf("the subnet goes on to emit %s alpha a block, every %v, and an alpha to cost %s TAO; selling does not move the price", tao(e.AlphaPerBlock), e.BlockTime, tao(e.Price)),
		fmt.Sprintf("the owner takes %.1f %% first; miners and validators have half of the rest each; of the validators' half, stakers and the root network have their parts", float64(e.OwnerCut)*100/65535),
		"all validators give the weights that the arena wants, and the seat is held for the whole day",
	}
	if part := e.Elsewhere(x.Mechanism); part > 0 {
		v.Assumptions = append(v.Assumptions, fmt.Sprintf("other mechanisms of the subnet have %.1f %% of its emission; the arena's weights go on mechanism %d", float64(part)*100/65535, x.Mechanism))
	}
	if m.Hyper.NullConsensus {
		v.Assumptions = append(v.Assumptions, "the subnet is under consensus Null: the weights of the neuron with the most stake pay all miners, and those are the arena's")
	}
	if share := m.Hyper.CollateralShare; share > 0 {
		v.Assumptions = append(v.Assumptions, fmt.Sprintf("%.1f %% of a registration's price become the miner's collateral: alpha that cannot leave until the hotkey has earned it free", float64(share)*100/65535))
	}
	if sharing > 1 {
		v.Assumptions = append(v.Assumptions, fmt.Sprintf("%d arenas are on the subnet's mechanism, each with the same part of its weight", sharing))
	}
	if x.Burned > 0 {
		v.Assumptions = append(v.Assumptions, fmt.Sprintf("%.1f %% of the arena's reward goes to no seat and is burned", x.Burned*100))
	}
	return v, nil
}

func forecastHuman(h *output.Human, v *forecast) {
	h.Heading(fmt.Sprintf("%s, subnet %d at block %d", v.Arena, v.Netuid, v.Block))
	worth := func(alpha uint64) string {
		return fmt.Sprintf("%s alpha, %s TAO", tao(alpha), tao(ledger.Economy{Price: v.Price}.Worth(alpha)))
	}
	h.Fields([2]string{"miners a day", worth(v.Subnet.Miners)}, [2]string{"owner a day", worth(v.Subnet.Owner)}, [2]string{"validators a day", worth(v.Subnet.Validators)},
		[2]string{"burned a day", worth(v.Burned)}, [2]string{"a registration", tao(v.Burn) + " TAO"})
	if v.Vacant {
		h.Line("no seat is taken: no miner earns the miners' part")
	} else {
		rows := make([][]output.Cell, len(v.Seats))
		for i, s := range v.Seats {
			uid := "-"
			if s.UID != nil {
				uid = strconv.Itoa(int(*s.UID))
			}
			rows[i] = []output.Cell{
				output.Text(strconv.Itoa(s.Place)), output.Text(s.Miner), output.Text(uid), output.Text(fmt.Sprintf("%.1f %%", s.Share*100)), output.Text(tao(s.AlphaDay)), output.Text(tao(s.RaoDay)), output.Text(tao(s.LastDay)),
			}
		}
		right := func(s string) output.Column { return output.Column{Title: s, Right: true} }
		h.Table([]output.Column{right("seat"), {Title: "miner", Min: 7}, right("uid"), right("share"), right("alpha a day"), right("TAO a day"), right("by the last epoch")}, rows)
	}
	for _, s := range v.Assumptions {
		h.Line("assumed: %s", s)
	}
}
