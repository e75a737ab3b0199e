package platform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/store"
)

// Purses are money that the operator holds for coldkeys. An entry takes its fee,
// and the most that its pairs may cost, in the transaction that admits it; when it
// is decided, what it did not cost goes back, and all of it where a fault of ours
// kept it from being decided or its appeal was granted. Both are worked out from
// what stands in the books, never from what was done last: doing it again moves
// nothing.

// maxPostings bounds what a purse shows.
const maxPostings = 200

// usd writes money for people.
func usd(m agon.Micros) string { return "$" + strconv.FormatFloat(float64(m)/1e6, 'f', -1, 64) }

// checkCharges refuses an arena whose charges nobody could keep.
func (p *Platform) checkCharges(a *agon.Arena, rule incentive.Rule) error {
	switch {
	case a.EntryFee < 0 || a.EntryFee > agon.MostMoney:
		return fmt.Errorf("entry_fee_micros: %d: want 0 to %d", a.EntryFee, agon.MostMoney)
	case !agon.IsPairsPaidBy(a.PairsPaidBy):
		return fmt.Errorf("pairs_paid_by: %q: want %s or %s", a.PairsPaidBy, agon.PaidByGateway, agon.PaidByChallenger)
	case a.PairsPaidBy != agon.PaidByChallenger:
		return nil
	case rule.Pairing == nil:
		return fmt.Errorf("pairs_paid_by: rule %s plays no pairs", a.Incentive)
	case a.Policy.Gateway == "" || a.Policy.GatewayKey == "":
		return errors.New("pairs_paid_by: a challenger pays by the statements of the platform's own gateway only: name it as policy.gateway, with gateway_key")
	}
	n := rule.Of(a.IncentiveNumbers)
	most := n[incentive.NumMaxUSD]
	if most <= 0 || most*1e6 > float64(agon.MostMoney) {
		return fmt.Errorf("pairs_paid_by: name %s, more than 0 and at most %s: it is held when a challenger enters", incentive.NumMaxUSD, usd(agon.MostMoney))
	}
	// A champion that spends its whole budget in every pair must not end challenges by that.
	if least := incentive.LeastUSD(n, float64(a.Policy.Budget.Micros)/1e6); most < least {
		return fmt.Errorf("pairs_paid_by: %s is $%s, but the pairs that seat anybody at least cost $%s where both sides spend their budget: a champion could end every challenge by spending",
			incentive.NumMaxUSD, incentive.Figure(most), incentive.Figure(least))
	}
	return nil
}

// costs are an entry's fee and the most that its pairs may cost its coldkey.
func (p *Platform) costs(a agon.Arena) (fee, pairs agon.Micros, err error) {
	if a.PairsPaidBy == agon.PaidByChallenger {
		rule, err := p.rule(a)
		if err != nil {
			return 0, 0, err
		}
		pairs = agon.Micros(math.Ceil(rule.Of(a.IncentiveNumbers)[incentive.NumMaxUSD] * 1e6))
	}
	return a.EntryFee, pairs, nil
}

// holding is what a submission holds of its coldkey's purse: since it last held nothing.
type holding struct{ net, fee, pairs, back agon.Micros }

func heldOf(list []agon.Posting) (h holding) {
	for _, x := range list {
		if h.net == 0 {
			h = holding{}
		}
		h.net -= x.Micros
		switch x.What {
		case agon.PostFee:
			h.fee -= x.Micros
		case agon.PostHold:
			h.pairs -= x.Micros
		case agon.PostBack:
			h.back += x.Micros
		}
	}
	return h
}

// hold takes what an entry costs at most from its coldkey's purse, or refuses it.
func (p *Platform) hold(tx *store.Tx, a agon.Arena, e store.Entry) error {
	fee, pairs, err := p.costs(a)
	if err != nil || fee+pairs == 0 {
		return err
	}
	list, err := tx.PostingsOf(e.ID)
	if err != nil || heldOf(list).net > 0 {
		return err // it holds already
	}
	have, err := tx.Balance(e.Coldkey)
	if err != nil {
		return err
	}
	if have < fee+pairs {
		x := refuse(402, "purse", "an entry takes %s from the purse of coldkey %s (fee %s, for its pairs at most %s), which holds %s", usd(fee+pairs), e.Coldkey, usd(fee), usd(pairs), usd(have))
		x.Limit, x.Mend = usd(fee+pairs)+" an entry", "pay the operator, who adds it to the purse: agon operator fund"
		return x
	}
	for _, x := range []agon.Posting{{What: agon.PostFee, Micros: -fee}, {What: agon.PostHold, Micros: -pairs}} {
		if x.Micros == 0 {
			continue
		}
		x.Submission, x.At = e.ID, p.now()
		if err := tx.Post(e.Coldkey, x); err != nil {
			return err
		}
	}
	return nil
}

// setState moves a submission, and settles its purse where it has come to its end.
func (p *Platform) setState(tx *store.Tx, id string, s agon.SubmissionState, f []agon.Finding) error {
	if err := tx.SetEntryState(id, s, f); err != nil {
		return err
	}
	if s == agon.SubmissionQueued || s == agon.SubmissionPlaying {
		return nil
	}
	return p.settlePurse(tx, id)
}

// settlePurse gives back what a submission that has ended did not cost.
func (p *Platform) settlePurse(tx *store.Tx, id string) error {
	list, err := tx.PostingsOf(id)
	if err != nil || len(list) == 0 {
		return err
	}
	e, err := tx.Entry(id)
	if err != nil {
		return err
	}
	why, err := givenBack(tx, e)
	if err != nil {
		return err
	}
	h, due := heldOf(list), agon.Micros(0)
	if why == "" {
		cost, err := tx.PairsCost(id)
		if err != nil {
			return err
		}
		due, why = h.fee+min(cost, h.pairs), "what its pairs did not cost"
	}
	if h.net <= due {
		return nil
	}
	return tx.Post(e.Coldkey, agon.Posting{What: agon.PostBack, Micros: h.net - due, Submission: id, Reason: why, At: p.now()})
}

// givenBack says why what a submission paid goes back whole; "" is that it does
// not. Who took the seat has had what was paid for, and who was banned has itself to thank.
func givenBack(tx *store.Tx, e store.Entry) (string, error) {
	if banned(e) {
		return "", nil
	}
	if e.State == agon.SubmissionExcluded && slices.ContainsFunc(e.Findings, func(f agon.Finding) bool { return f.Code == FindingIncomplete }) {
		return "it could not be decided through a fault of ours", nil
	}
	a, err := tx.Appeal(e.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && a.State != agon.AppealGranted {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	d, err := tx.Decision(e.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && d.Outcome != agon.TookSeat {
		return "its appeal was granted", nil
	}
	return "", err
}

// paidOf is what a submission has cost its coldkey; nil: nothing was taken.
func paidOf(tx *store.Tx, id string) (*agon.Paid, error) {
	list, err := tx.PostingsOf(id)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	h := heldOf(list)
	if h.net == 0 {
		return &agon.Paid{Back: h.back}, nil
	}
	return &agon.Paid{Fee: h.fee, Held: h.net - h.fee}, nil
}

// moneyOf is what a submission has cost its coldkey, and what is given back to it.
func moneyOf(tx *store.Tx, e store.Entry) (*agon.Paid, *agon.Credit, error) {
	p, err := paidOf(tx, e.ID)
	if err != nil {
		return nil, nil, err
	}
	c, err := creditOf(tx, e)
	return p, c, err
}

// Fund books a payment into a coldkey's purse, or out of it where it is negative,
// by the operator. One payment counts once.
func (p *Platform) Fund(ctx context.Context, c Caller, coldkey string, m agon.Micros, payment, reason string) (*agon.Purse, error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	if err := needReason(reason); err != nil {
		return nil, err
	}
	payment = strings.TrimSpace(payment)
	switch {
	case coldkey == "" || len(coldkey) > 64 || !plainLine(coldkey):
		return nil, badField("coldkey", "name the coldkey whose purse it is")
	case m == 0 || m > agon.MostMoney || m < -agon.MostMoney:
		return nil, badField("micros", "the amount is %d micro-dollars: want 1 to %d, or as much out", m, agon.MostMoney)
	case payment == "" || len(payment) > 200 || !plainLine(payment):
		return nil, badField("payment", "name the payment, such as the hash of its transfer: it counts once")
	}
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		switch paid, err := tx.Paid(payment); {
		case err != nil:
			return err
		case paid:
			return refuse(409, "paid", "payment %s has been booked already", payment)
		}
		have, err := tx.Balance(coldkey)
		if err != nil {
			return err
		}
		if have+m < 0 {
			return refuse(409, "purse", "the purse of coldkey %s holds %s", coldkey, usd(have))
		}
		if err := tx.Post(coldkey, agon.Posting{What: agon.PostPayment, Micros: m, Payment: payment, Reason: cut(reason, maxReason), At: p.now()}); err != nil {
			return err
		}
		return p.logAction(tx, c, "fund", coldkey, reason, fmt.Sprintf("%s by %s", usd(m), payment))
	})
	if err != nil {
		return nil, err
	}
	return p.Purse(ctx, c, coldkey)
}

// Purse returns what a coldkey holds, to the operator and to whom that coldkey
// has registered.
func (p *Platform) Purse(ctx context.Context, c Caller, coldkey string) (*agon.Purse, error) {
	if !c.Operator || coldkey == ownPurse {
		key, err := p.coldkeyOf(ctx, c.Hotkey, coldkey)
		if err != nil {
			return nil, err
		}
		if key == "" {
			return nil, refuse(403, "not_coldkey", "a purse is shown to hotkeys of its coldkey, and to the operator")
		}
		coldkey = key
	}
	out := &agon.Purse{Coldkey: coldkey}
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if out.Balance, err = tx.Balance(coldkey); err != nil {
			return err
		}
		out.Postings, err = tx.Postings(coldkey, maxPostings)
		return err
	})
	if err != nil {
		return nil, err
	}
	if out.Postings == nil {
		out.Postings = []agon.Posting{}
	}
	return out, nil
}

// ownPurse stands for the coldkey of whoever asks.
const ownPurse = "mine"

// coldkeyOf asks the ledgers of all arenas who registered a hotkey: coldkey, where
// one is named, or any; "" is nobody.
func (p *Platform) coldkeyOf(ctx context.Context, hotkey, coldkey string) (string, error) {
	if hotkey == "" {
		return "", nil
	}
	var arenas []agon.Arena
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		arenas, err = tx.Arenas()
		return err
	})
	if err != nil {
		return "", err
	}
	var failed error
	for _, a := range arenas {
		key, ok, err := p.ledgerOf(a).Registered(ctx, a.Netuid, hotkey)
		if err != nil {
			failed = ledgerError(err) // another may answer
		} else if ok && key != "" && (key == coldkey || coldkey == ownPurse) {
			return key, nil
		}
	}
	return "", failed
}

// BurnFee writes down what was burnt on a ledger for a submission, in the
// transaction that admits it. One payment pays for one submission.
func BurnFee(tx *store.Tx, submission string, f agon.Fee) error {
	if f.Ref == "" || f.Amount < 0 {
		return errors.New("burnt fee: no reference, or a negative amount")
	}
	err := tx.BurnFee(submission, f)
	if errors.Is(err, store.ErrConflict) {
		return refuse(409, "paid", "this payment has paid for another submission")
	}
	return err
}

// FeesBack returns every fee that a miner has burnt in an arena and that is given
// back, and notes so in the same transaction: from then on what it paid for is not
// played again without another. To ask again returns the same.
func (p *Platform) FeesBack(ctx context.Context, arena, miner string) (out []agon.Fee, err error) {
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		out = nil
		list, err := tx.PayersOf(arena, miner)
		if err != nil {
			return err
		}
		for _, id := range list {
			fees, err := tx.BurntFees(id)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(fees, func(f agon.Fee) bool { return f.Back }) {
				e, err := tx.Entry(id)
				if err != nil {
					return err
				}
				why, err := givenBack(tx, e)
				if err != nil {
					return err
				}
				if why == "" {
					continue
				}
				if err := tx.FeesBack(id); err != nil {
					return err
				}
			}
			out = append(out, fees...)
		}
		return nil
	})
	return out, err
}

// feeStands refuses to play a submission again whose fee has been given back.
func feeStands(tx *store.Tx, id string) error {
	fees, err := tx.BurntFees(id)
	if err != nil || !slices.ContainsFunc(fees, func(f agon.Fee) bool { return f.Back }) {
		return err
	}
	x := refuse(409, "given_back", "the fee of submission %s has been given back: it is not played again for nothing", id)
	x.Mend = "enter other files with the credit"
	return x
}
