package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/kinds/coding/ridges"
	"github.com/agon-arena/agon/kinds/coding/signin"
)

// quote is a price that was given.
type quote struct {
	ID      string    `json:"quote_id"`
	Hotkey  string    `json:"hotkey"`
	Amount  int64     `json:"amount_alpha_rao"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at"`
	Burn    string    `json:"burn,omitempty"` // the receipt that is reserved for it
}

// paid is a receipt or credit that was spent, or is about to be: the file that it
// pays for is written down before the file is entered.
type paid struct {
	Quote  string      `json:"quote_id,omitempty"`
	Hotkey string      `json:"hotkey"`
	Source agon.Digest `json:"source"`
	Agent  string      `json:"agent_id,omitempty"`
	Back   bool        `json:"refunded,omitempty"`
}

// credit is an upload that the operator gave.
type credit struct {
	ID        string     `json:"credit_id"`
	Hotkey    string     `json:"miner_hotkey"`
	Reason    string     `json:"reason"`
	By        string     `json:"granted_by"`
	Reference *string    `json:"grant_reference"`
	Granted   time.Time  `json:"granted_at"`
	Expires   *time.Time `json:"expires_at"`
	Redeemed  *time.Time `json:"redeemed_at"`
	Agent     *string    `json:"redeemed_agent_id"`
	Revoked   *time.Time `json:"revoked_at"`
	RevokedBy *string    `json:"revoked_by"`
	Why       *string    `json:"revoke_reason"`
}

func (c *credit) usable(now time.Time) bool {
	return c.Redeemed == nil && c.Revoked == nil && (c.Expires == nil || c.Expires.After(now))
}

// creditFor finds a credit of a hotkey: that of an id, or the oldest that can be used.
func (b *Backend) creditFor(ctx context.Context, hotkey, id string) (*credit, error) {
	if err := b.creditsBack(ctx, hotkey); err != nil {
		return nil, err
	}
	names := []string{"credit-" + id}
	if id == "" {
		var err error
		if names, err = b.dir.Names("credit-"); err != nil {
			return nil, err
		}
	}
	var best *credit
	for _, n := range names {
		c := &credit{}
		if ok, err := b.dir.Get(n, c); err != nil {
			return nil, err
		} else if !ok || c.Hotkey != hotkey || id == "" && !c.usable(b.cfg.Now()) {
			continue
		}
		if best == nil || c.Granted.Before(best.Granted) {
			best = c
		}
	}
	return best, nil
}

// funding answers what an upload will be paid with.
func (b *Backend) funding(ctx context.Context, hotkey, coldkey string, useCredit bool, creditID *string, message string, keys func() error) (map[string]any, error) {
	if useCredit {
		id := ""
		if creditID != nil {
			u, err := uuid.Parse(*creditID)
			if err != nil {
				return nil, no(http.StatusBadRequest, "Invalid upload credit ID")
			}
			id = u.String()
		}
		c, err := b.creditFor(ctx, hotkey, id)
		if err != nil {
			return nil, err
		}
		if c == nil || !c.usable(b.cfg.Now()) && c.Redeemed == nil {
			return nil, no(http.StatusPaymentRequired, "No usable upload credit is available for this hotkey")
		}
		if err := keys(); err != nil {
			return nil, err
		}
		return map[string]any{
			"status": "success", "message": message, "payment_method": ridges.Credit, "quote_id": nil, "credit_id": c.ID, "amount_alpha_rao": 0, "payment_netuid": nil, "expires_at": nil,
		}, nil
	}
	if b.cfg.Chain == nil {
		return nil, no(http.StatusServiceUnavailable, "Burnable alpha stake could not be verified: this arena takes upload credits only")
	}
	netuid, err := b.netuid(ctx)
	if err != nil {
		return nil, err
	}
	have, err := b.cfg.Chain.Burnable(ctx, netuid, coldkey, hotkey)
	if err != nil {
		b.cfg.Log.Error("ask for stake", "err", err)
		return nil, no(http.StatusServiceUnavailable, "Burnable alpha stake could not be verified")
	}
	if have < b.cfg.Price {
		return nil, no(http.StatusPaymentRequired, "Insufficient alpha: an upload burns %d rao of the hotkey's position on SN%d, %d can be burned", b.cfg.Price, netuid, have)
	}
	if err := keys(); err != nil {
		return nil, err
	}
	now := b.cfg.Now().UTC()
	q := quote{ID: uuid.NewString(), Hotkey: hotkey, Amount: b.cfg.Price, Created: now, Expires: now.Add(quoteTime)}
	if err := b.dir.Put("quote-"+q.ID, q); err != nil {
		return nil, err
	}
	return map[string]any{
		"status": "success", "message": message, "payment_method": ridges.Burn, "quote_id": q.ID, "credit_id": nil, "amount_alpha_rao": q.Amount, "payment_netuid": netuid, "expires_at": stamp(q.Expires),
	}, nil
}

func (b *Backend) netuid(ctx context.Context) (uint16, error) {
	a, err := b.arena(ctx)
	if err != nil {
		return 0, err
	}
	return a.Netuid, nil
}

// pricing is GET /upload/eval-pricing.
func (b *Backend) pricing(w http.ResponseWriter, r *http.Request) {
	n, err := b.netuid(r.Context())
	if err != nil {
		b.fail(w, "price", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"amount_alpha_rao": b.cfg.Price, "payment_netuid": n})
}

// redeem is POST /upload/agent/ticket.
func (b *Backend) redeem(w http.ResponseWriter, r *http.Request) {
	f, ok := readForm(w, r, "ticket", "name", "openrouter_api_key", "openrouter_management_key")
	if !ok {
		return
	}
	t, refusal := (signin.Ridges{}).CheckTicket(r.Context(), b.cfg.Verifier, f.fields["ticket"])
	switch {
	case refusal != nil:
		refuse(w, refusal.Status, "%s", refusal.Code)
		return
	case t.Hotkey == b.cfg.Owner:
		refuse(w, http.StatusBadRequest, "owner_not_allowed")
		return
	}
	e := entry{hotkey: t.Hotkey, name: f.fields["name"], form: f, ticket: true}
	if t.CreditID != "" {
		e.credit = &t.CreditID
	} else {
		n := strconv.FormatInt(t.ExtrinsicIndex, 10)
		e.quote, e.block, e.index = &t.QuoteID, &t.BlockHash, &n
	}
	b.enter(w, r, e)
}

// payment is what pays for an upload.
type payment struct {
	source string // of the agent's id
	doc    string // where it is written down; empty: it costs nothing
	paid   paid
	credit *credit
	quote  *quote
	// resumed: an upload with it was cut off after its file had been written down.
	resumed bool
}

// burn tells the platform what was paid for a submission, so that a fault of ours gives it back.
func (p *payment) burn(tx *store.Tx, e store.Entry) error {
	if p.doc == "" {
		return nil
	}
	f := agon.Fee{Ref: p.doc}
	if p.quote != nil {
		f.Amount, f.Unit = p.quote.Amount, "alpha_rao"
	}
	return platform.BurnFee(tx, e.ID, f)
}

// creditsBack makes a credit of every fee of a hotkey that the platform gives back.
func (b *Backend) creditsBack(ctx context.Context, hotkey string) error {
	b.giving.Lock()
	defer b.giving.Unlock()
	fees, err := b.cfg.Platform.FeesBack(ctx, b.cfg.Arena, hotkey)
	if err != nil {
		return err
	}
	for _, f := range fees {
		id := uuid.NewSHA1(uuid.NameSpaceURL, []byte("ridges-fee:"+f.Ref)).String()
		var c credit
		if ok, err := b.dir.Get("credit-"+id, &c); err != nil {
			return err
		} else if ok {
			continue
		}
		ref := f.Ref
		c = credit{ID: id, Hotkey: hotkey, Reason: "a fault of ours: the fee is given back", By: "platform", Reference: &ref, Granted: b.cfg.Now().UTC()}
		if err := b.dir.Put("credit-"+id, c); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) creditPayment(e entry, coldkey string) (payment, error) {
	if e.quote != nil || e.block != nil || e.index != nil {
		return payment{}, no(http.StatusBadRequest, "Credit uploads cannot include burn payment fields")
	}
	id, err := uuid.Parse(*e.credit)
	if err != nil {
		return payment{}, no(http.StatusBadRequest, "Invalid upload credit ID")
	}
	if err := b.notBanned(coldkey); err != nil {
		return payment{}, err
	}
	return payment{source: "credit:" + id.String() + ":0", doc: "spent-credit-" + id.String(), credit: &credit{ID: id.String()}}, nil
}

// burnPayment checks a receipt against its quote and the ledger.
func (b *Backend) burnPayment(ctx context.Context, e entry) (payment, error) {
	pay := func(format string, args ...any) (payment, error) {
		return payment{}, no(http.StatusPaymentRequired, format, args...)
	}
	switch {
	case e.quote == nil:
		return payment{}, no(http.StatusBadRequest, "This upload client is outdated: it sends no quote_id. Upgrade Ridges CLI and retry")
	case e.block == nil || e.index == nil:
		return payment{}, no(http.StatusBadRequest, "Burn payment information is required")
	}
	u, err := uuid.Parse(*e.quote)
	if err != nil {
		return payment{}, no(http.StatusBadRequest, "Invalid payment quote ID")
	}
	q := &quote{}
	if ok, err := b.dir.Get("quote-"+u.String(), q); err != nil {
		return payment{}, err
	} else if !ok {
		return payment{}, no(http.StatusBadRequest, "Invalid payment quote ID")
	}
	hash := strings.ToLower(strings.TrimSpace(*e.block))
	index, err := strconv.Atoi(*e.index)
	source := *e.block + ":" + *e.index
	doc := "burn-" + agon.Sum([]byte(hash + ":" + strconv.Itoa(index))).Hex()[:40]
	var old paid
	had, gerr := b.dir.Get(doc, &old)
	switch {
	case gerr != nil:
		return payment{}, gerr
	case q.Hotkey != e.hotkey:
		return pay("The quote was given to another hotkey")
	case q.Amount <= 0:
		return payment{}, no(http.StatusBadRequest, "The quote names no amount of alpha")
	case had && old.Agent != "":
		return pay("This payment was already used for an agent")
	case had && old.Quote != q.ID:
		return payment{}, no(http.StatusConflict, "Payment is already reserved for a different quote")
	case had && old.Back:
		return pay("This payment was refunded")
	case b.cfg.Chain == nil:
		return pay("Payment could not be verified: this arena takes upload credits only")
	case err != nil || index < 0 || len(hash) > 100:
		return pay("Burn extrinsic could not be decoded")
	}
	x, err := b.cfg.Chain.Burned(ctx, hash, index, e.hotkey)
	if err != nil {
		b.cfg.Log.Error("read a payment", "block", clip(hash, 80), "err", err)
		return pay("Payment could not be verified")
	}
	if x == nil {
		return pay("Payment block not found")
	}
	if x.Call == "" {
		return pay("Burn extrinsic could not be decoded")
	}
	if x.Owner == "" {
		return pay("Hotkey owner not found at payment block")
	}
	if err := b.notBanned(x.Owner); err != nil {
		return payment{}, err
	}
	netuid, err := b.netuid(ctx)
	if err != nil {
		return payment{}, err
	}
	switch {
	case x.Failed:
		return pay("Burn extrinsic failed on-chain")
	case !slices.Contains(burnCalls, x.Call):
		return pay("Extrinsic is not a recognized alpha burn")
	case x.Signer != x.Owner:
		return pay("Burn was not signed by the miner coldkey")
	case x.Coldkey == "" || x.Netuid != netuid:
		return pay("Burn event not found")
	case x.Coldkey != x.Owner:
		return pay("Coldkey does not match")
	case x.Hotkey != e.hotkey:
		return pay("Hotkey does not match")
	case x.Amount < q.Amount:
		return pay("Burn amount too low: %d rao, the quote asks for %d", x.Amount, q.Amount)
	case x.At.Before(q.Created.Truncate(time.Second)) || x.At.After(q.Expires):
		return pay("Payment was made outside the quote validity window")
	}
	return payment{source: source, doc: doc, quote: q, paid: paid{Quote: q.ID, Hotkey: e.hotkey}}, nil
}

// reserve keeps a payment for a file. done is not empty where the payment has
// made an agent of this file before. Under entering.
func (b *Backend) reserve(ctx context.Context, e entry, pay *payment, source agon.Digest) (id, done string, err error) {
	if pay.doc == "" { // the owner's
		var old agentDoc
		if ok, err := b.dir.Get("agent-"+ridges.AgentID(pay.source), &old); err != nil || ok {
			return "", "", errors.Join(err, no(http.StatusPaymentRequired, "This payment was already used for an agent"))
		}
		return "", "", nil
	}
	if pay.credit == nil {
		if err := b.rested(ctx, e.hotkey); err != nil {
			var old paid
			if ok, gerr := b.dir.Get(pay.doc, &old); gerr != nil || !ok || old.Source != source {
				return "", "", err
			}
		}
		if pay.quote.Burn != "" && pay.quote.Burn != pay.doc {
			return "", "", no(http.StatusConflict, "Payment or quote is already reserved")
		}
	} else {
		c, err := b.creditFor(ctx, e.hotkey, pay.credit.ID)
		switch {
		case err != nil:
			return "", "", err
		case c == nil || c.Revoked != nil || c.Redeemed == nil && !c.usable(b.cfg.Now()):
			return "", "", no(http.StatusPaymentRequired, "Upload credit is not available for this hotkey")
		}
		pay.credit, pay.paid = c, paid{Hotkey: e.hotkey}
	}
	var old paid
	had, err := b.dir.Get(pay.doc, &old)
	if err != nil {
		return "", "", err
	}
	switch {
	case had && old.Agent != "" && pay.credit != nil && old.Source == source:
		return old.Agent, fmt.Sprintf("Upload credit %s was already used for agent %s. No new agent was created.", pay.credit.ID, old.Agent), nil
	case had && old.Agent != "" && pay.credit != nil:
		return "", "", no(http.StatusConflict, "Upload credit %s was already used for agent %s", pay.credit.ID, old.Agent)
	case had && old.Agent != "":
		return "", "", no(http.StatusPaymentRequired, "This payment was already used for an agent")
	case had && old.Quote != pay.paid.Quote:
		return "", "", no(http.StatusConflict, "Payment is already reserved for a different quote")
	case had && old.Source == source:
		pay.resumed = true
	case had:
		// It was cut off, or its file was refused. A file that did come in has used it up.
		list, err := b.of(ctx, e.hotkey)
		if err != nil {
			return "", "", err
		}
		for _, s := range list {
			files, err := b.cfg.Platform.SubmissionFiles(ctx, operator, s.ID)
			if err != nil {
				return "", "", err
			}
			if len(files) == 1 && agon.Sum(files[0].Content) == old.Source && !s.CreatedAt.Before(b.cfg.Now().Add(-48*time.Hour)) {
				return "", "", no(http.StatusConflict, "This payment is reserved for another file, which came in: send that one again")
			}
		}
	}
	pay.paid.Source = source
	if pay.quote != nil && pay.quote.Burn == "" {
		pay.quote.Burn = pay.doc
		if err := b.dir.Put("quote-"+pay.quote.ID, pay.quote); err != nil {
			return "", "", err
		}
	}
	return "", "", nil
}
