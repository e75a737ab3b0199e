package cli

import (
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) fundCmd() *cobra.Command {
	var f client.Funding
	cmd := &cobra.Command{
		Use: "fund COLDKEY USD", Short: "Book a payment into a coldkey's purse, or out of it",
		Long: `Book a payment into the purse of a coldkey, from which arenas with entry_fee_usd or
pairs_paid_by = "challenger" take what entries cost. A payment is named (--payment) and counts
once. A negative sum pays out: what entries hold cannot be paid out. JSON: {coldkey,
balance_micros, postings}.`,
		Example: "  agon operator fund 5F… 20 --payment 0x3a…-2 --reason 'paid by transfer'\n  agon operator fund 5F… --payment refund-7 --reason 'it leaves' -- -4.5",
		Args:    Args(2, 2, "a coldkey and dollars"),
		RunE: func(cmd *cobra.Command, args []string) error {
			usd, err := strconv.ParseFloat(strings.TrimPrefix(args[1], "$"), 64)
			if err != nil || math.IsNaN(usd) || math.Abs(usd) > float64(agon.MostMoney)/1e6 {
				return output.Usage("USD", "give dollars, such as 20 or 0.5", "%q is not a sum of money", args[1])
			}
			switch f.Micros = agon.Micros(math.Round(usd * 1e6)); {
			case f.Payment == "":
				return output.Usage("payment", "add --payment with what names it, such as the hash of the transfer", "which payment is it: it counts once")
			case f.Reason == "":
				return output.Usage("reason", "add --reason 'why'", "say why: it is written down")
			}
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			v, err := c.FundPurse(cmd.Context(), args[0], f)
			if err != nil {
				return err
			}
			return a.printPurse(cmd, v)
		},
	}
	cmd.Flags().StringVar(&f.Payment, "payment", "", "what `names` the payment, such as the hash of its transfer")
	cmd.Flags().StringVar(&f.Reason, "reason", "", "why; it is written down")
	return cmd
}

func (a *App) purseCmd() *cobra.Command {
	return &cobra.Command{
		Use: "purse [COLDKEY]", Short: "What your coldkey has paid in, and what its entries took",
		Long: `What a coldkey has paid in, and what its entries took of it: fees, what is held for pairs, and
what went back. Without an argument that of your own hotkey; others' are shown to the operator.
JSON: {coldkey, balance_micros, postings: [{n, what, micros, submission, payment, reason, at}]}.`,
		Example: "  agon submission purse",
		Args:    Args(0, 1, "at most one coldkey"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := a.Writer()
			if err != nil {
				return err
			}
			v, err := c.Purse(cmd.Context(), append(args, "mine")[0])
			if err != nil {
				return err
			}
			return a.printPurse(cmd, v)
		},
	}
}

func (a *App) printPurse(cmd *cobra.Command, v *agon.Purse) error {
	return a.Printer.Print(cmd.Context(), output.Result{Value: v, IDs: []string{v.Coldkey}, Human: func(h *output.Human) {
		h.Heading(v.Coldkey)
		h.Fields([2]string{"balance", money(v.Balance)})
		var rows [][]output.Cell
		for _, p := range v.Postings {
			rows = append(rows, []output.Cell{output.Text(When(p.At)), output.Text(p.What), output.Text(money(p.Micros)), output.Text(p.Submission + p.Payment), output.Text(p.Reason)})
		}
		h.Table([]output.Column{{Title: "when"}, {Title: "what"}, {Title: "sum"}, {Title: "of"}, {Title: "reason"}}, rows)
	}})
}

// moneyLines say what a submission has cost its coldkey, and what is given back to it.
func moneyLines(h *output.Human, s *client.Submission) {
	if c := s.Credit; c != nil {
		given := "given back:"
		if c.Quota {
			given += " the entry, the attempt;"
		}
		h.Line("%s %s (%s)", given, money(c.Micros), c.Why)
		if c.Back > 0 {
			h.Line("%s went back to the purse of its coldkey", money(c.Back))
		}
		for _, f := range c.Fees {
			h.Line("the fee %s is given back as one free entry", f.Ref)
		}
	}
	if p := s.Paid; p != nil && p.Fee+p.Held > 0 {
		h.Line("paid from the purse of its coldkey: fee %s, pairs %s", money(p.Fee), money(p.Held))
	}
}
