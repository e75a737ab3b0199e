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
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds/coding/ridges"
	"github.com/agon-arena/agon/kinds/coding/signin"
)

// agentFile is the name under which an agent is entered.
const agentFile = "agent.py"

// quoteTime is how long a price holds.
const quoteTime = time.Hour

// Chain tells of stake and of what was burned on the arena's ledger.
type Chain interface {
	// Burnable is what a coldkey can burn of its stake on a hotkey, in rao of alpha.
	Burnable(ctx context.Context, coldkey, hotkey string) (int64, error)
	// Burned returns what an extrinsic did; nil: there is no such block.
	Burned(ctx context.Context, blockHash string, index int, hotkey string) (*Burn, error)
}

// Burn is an extrinsic, and what it burned.
type Burn struct {
	At      time.Time // of its block
	Call    string    // "SubtensorModule.burn_alpha"; empty: there is no such extrinsic
	Signer  string
	Failed  bool
	Owner   string // coldkey of the hotkey at that block
	Coldkey string // of the event; empty: nothing was burned
	Hotkey  string
	Netuid  uint16
	Amount  int64 // rao of alpha
}

// burnCalls are the calls that pay.
var burnCalls = []string{"SubtensorModule.burn_alpha", "SubtensorModule.add_stake_burn"}

// agentDoc is an agent that came over this wire.
type agentDoc struct {
	ID         string    `json:"agent_id"`
	Submission string    `json:"submission"`
	Hotkey     string    `json:"hotkey"`
	Paid       string    `json:"paid"` // block:index, or credit:id:0
	At         time.Time `json:"at"`
	Keys       *Checked  `json:"keys,omitempty"`
}

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

// entry is what is entered, however it was signed.
type entry struct {
	hotkey, name string
	*form
	block, index, quote, credit *string
	ticket                      bool
}

func ptr(f *form, name string) *string {
	if v, ok := f.fields[name]; ok {
		return &v
	}
	return nil
}

// loadAgents finds the agents that are known.
func (b *Backend) loadAgents() error {
	names, err := b.dir.Names("agent-")
	if err != nil {
		return err
	}
	for _, n := range names {
		var d agentDoc
		if ok, err := b.dir.Get(n, &d); err != nil || !ok {
			return err
		}
		b.agents[d.Submission], b.entered[d.ID] = d.ID, d.Submission
	}
	return nil
}

// agentID is the id under which a submission is known here.
func (b *Backend) agentID(submission string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id, ok := b.agents[submission]; ok {
		return id
	}
	return submission
}

// submissionOf is the submission behind an agent's id; it may not be there.
func (b *Backend) submissionOf(agent string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id, ok := b.entered[agent]; ok {
		return id
	}
	return agent
}

// member returns the coldkey of a hotkey on the subnet.
func (b *Backend) member(ctx context.Context, hotkey string) (string, error) {
	m, ok, err := b.cfg.Verifier.Members.Member(ctx, hotkey)
	switch {
	case err != nil:
		return "", no(http.StatusServiceUnavailable, "The ledger does not answer")
	case !ok:
		return "", no(http.StatusBadRequest, "Hotkey not registered on subnet")
	case m.Coldkey == "":
		return "", no(http.StatusBadRequest, "Hotkey owner not found")
	}
	return m.Coldkey, nil
}

func (b *Backend) notBanned(coldkey string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.flags.Coldkey[coldkey]; ok {
		return no(http.StatusForbidden, "Your miner coldkey has been banned: ask the operator of the arena if this is a mistake")
	}
	return nil
}

// of returns a hotkey's submissions, the newest first.
func (b *Backend) of(ctx context.Context, hotkey string) ([]client.Submission, error) {
	var out []client.Submission
	cursor := ""
	for range maxPages {
		page, err := b.cfg.Platform.Submissions(ctx, operator, b.cfg.Arena, hotkey, cursor, pageSize)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Items...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	return out, nil
}

// rested refuses a hotkey that has entered the present set too short a time ago.
func (b *Backend) rested(ctx context.Context, hotkey string) error {
	if b.cfg.Cooldown <= 0 {
		return nil
	}
	list, err := b.of(ctx, hotkey)
	if err != nil || len(list) == 0 {
		return err
	}
	set, err := b.latest(ctx)
	if err != nil {
		return err
	}
	last := list[0].CreatedAt
	if left := last.Add(b.cfg.Cooldown).Sub(b.cfg.Now()); left > 0 && !last.Before(set.Created) {
		return no(http.StatusTooManyRequests, "You must wait %d seconds between uploads to one set: %d are left", int64(b.cfg.Cooldown.Seconds()), int64(left.Seconds())+1)
	}
	return nil
}

// goodFile checks name and size.
func goodFile(f *form) error {
	switch {
	case !strings.HasSuffix(f.name, ".py"):
		return no(http.StatusBadRequest, "File must be a python file: its name ends with .py")
	case f.large:
		return no(http.StatusBadRequest, "File size must not exceed 2MB (%d bytes)", maxAgent)
	case !utf8.Valid(f.file):
		return no(http.StatusBadRequest, "File must be UTF-8 text")
	}
	return nil
}

// creditFor finds a credit of a hotkey: that of an id, or the oldest that can be used.
func (b *Backend) creditFor(hotkey, id string) (*credit, error) {
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
		c, err := b.creditFor(hotkey, id)
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
	have, err := b.cfg.Chain.Burnable(ctx, coldkey, hotkey)
	if err != nil {
		b.cfg.Log.Error("ask for stake", "err", err)
		return nil, no(http.StatusServiceUnavailable, "Burnable alpha stake could not be verified")
	}
	netuid, err := b.netuid(ctx)
	if err != nil {
		return nil, err
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

var uploadFields = []string{"public_key", "file_info", "signature", "name", "openrouter_api_key", "openrouter_management_key"}

// check is POST /upload/agent/check.
func (b *Backend) check(w http.ResponseWriter, r *http.Request) {
	f, ok := readForm(w, r, uploadFields...)
	if !ok {
		return
	}
	out, err := b.checked(r.Context(), f)
	if err != nil {
		b.fail(w, "check", err)
		return
	}
	reply(w, http.StatusOK, out)
}

func (b *Backend) checked(ctx context.Context, f *form) (map[string]any, error) {
	if b.cfg.Frozen != "" {
		return nil, no(http.StatusServiceUnavailable, "%s", b.cfg.Frozen)
	}
	hotkey, _, _ := strings.Cut(f.fields["file_info"], ":")
	useCredit, err := strconv.ParseBool(cmpOr(f.fields["use_credit"], "false"))
	owner := hotkey == b.cfg.Owner
	switch {
	case err != nil:
		return nil, no(http.StatusBadRequest, "use_credit is true or false")
	case hotkey == "":
		return nil, no(http.StatusBadRequest, "miner_hotkey is required")
	case f.has("credit_id") && !useCredit:
		return nil, no(http.StatusBadRequest, "credit_id requires use_credit")
	case useCredit && owner:
		return nil, no(http.StatusBadRequest, "Upload credits are for miners, not for the owner")
	case f.large:
		return nil, goodFile(f)
	}
	if !useCredit {
		if err := b.rested(ctx, hotkey); err != nil {
			return nil, err
		}
	}
	if _, refusal := (signin.Ridges{}).CheckUpload(ctx, b.cfg.Verifier, f.fields["public_key"], f.fields["file_info"], f.fields["signature"], f.file, false); refusal != nil {
		return nil, refusal
	}
	coldkey, err := b.member(ctx, hotkey)
	if err != nil {
		return nil, err
	}
	if !owner {
		if err := b.notBanned(coldkey); err != nil {
			return nil, err
		}
	}
	if err := goodFile(f); err != nil {
		return nil, err
	}
	return b.funding(ctx, hotkey, coldkey, useCredit, ptr(f, "credit_id"), "Agent check successful", func() error {
		_, err := b.keysOf(ctx, f)
		return err
	})
}

func cmpOr(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

// keysOf checks and seals the provider's keys of an upload, where they are asked for.
func (b *Backend) keysOf(ctx context.Context, f *form) (*Checked, error) {
	if b.cfg.Keys == nil {
		return nil, nil
	}
	return b.cfg.Keys.Check(ctx, f.fields["openrouter_api_key"], f.fields["openrouter_management_key"])
}

// prepare is POST /upload/prepare.
func (b *Backend) prepare(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Hotkey    string  `json:"hotkey"`
		PublicKey string  `json:"public_key"`
		Signature string  `json:"signature"`
		UseCredit bool    `json:"use_credit"`
		Credit    *string `json:"credit_id"`
	}
	if !decode(w, r, maxSmall, &in, "hotkey", "public_key", "signature") {
		return
	}
	if in.Credit != nil {
		if _, err := uuid.Parse(*in.Credit); err != nil {
			invalid(w, "uuid_parsing", "Input should be a valid UUID", "body", "credit_id")
			return
		}
	}
	out, err := func() (map[string]any, error) {
		ctx := r.Context()
		if b.cfg.Frozen != "" {
			return nil, no(http.StatusServiceUnavailable, "%s", b.cfg.Frozen)
		}
		if refusal := (signin.Ridges{}).CheckPrepare(ctx, b.cfg.Verifier, in.Hotkey, in.PublicKey, in.Signature); refusal != nil {
			return nil, refusal
		}
		switch {
		case in.Hotkey == b.cfg.Owner:
			return nil, no(http.StatusBadRequest, "The owner uploads with team-upload, not with tickets")
		case in.Credit != nil && !in.UseCredit:
			return nil, no(http.StatusBadRequest, "credit_id requires use_credit")
		}
		coldkey, err := b.member(ctx, in.Hotkey)
		if err == nil {
			err = b.notBanned(coldkey)
		}
		if err == nil && !in.UseCredit {
			err = b.rested(ctx, in.Hotkey)
		}
		if err != nil {
			return nil, err
		}
		return b.funding(ctx, in.Hotkey, coldkey, in.UseCredit, in.Credit, "Funding is there: sign your ticket", func() error { return nil })
	}()
	if err != nil {
		b.fail(w, "prepare", err)
		return
	}
	reply(w, http.StatusOK, out)
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

// upload is POST /upload/agent.
func (b *Backend) upload(w http.ResponseWriter, r *http.Request) {
	f, ok := readForm(w, r, uploadFields[:4]...)
	if !ok {
		return
	}
	if b.cfg.A0 != "" && !slices.ContainsFunc([]string{"openrouter_api_key", "payment_block_hash", "quote_id", "credit_id", "use_credit"}, f.has) {
		b.seedUpload(w, r, f)
		return
	}
	for _, n := range uploadFields[4:] {
		if !f.has(n) && !f.large {
			invalid(w, "missing", "Field required", "body", n)
			return
		}
	}
	hotkey, _, _ := strings.Cut(f.fields["file_info"], ":")
	b.enter(w, r, entry{
		hotkey: hotkey, name: f.fields["name"], form: f,
		block: ptr(f, "payment_block_hash"), index: ptr(f, "payment_extrinsic_index"), quote: ptr(f, "quote_id"), credit: ptr(f, "credit_id"),
	})
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

// attempt is what is written down of every upload but those to a frozen arena.
type attempt struct {
	At      time.Time `json:"at"`
	Hotkey  string    `json:"hotkey"`
	Name    string    `json:"agent_name"`
	File    string    `json:"filename"`
	Size    int       `json:"file_size_bytes"`
	IP      string    `json:"ip_address"`
	Success bool      `json:"success"`
	Type    string    `json:"error_type,omitempty"`
	Message string    `json:"error_message,omitempty"`
	Status  int       `json:"http_status_code,omitempty"`
	Agent   string    `json:"agent_id,omitempty"`
}

func (b *Backend) enter(w http.ResponseWriter, r *http.Request, e entry) {
	a := attempt{At: b.cfg.Now().UTC(), Hotkey: clip(e.hotkey, 64), Name: clip(e.name, 80), File: clip(e.form.name, 80), Size: len(e.file), IP: address(r)}
	if b.cfg.Frozen != "" && e.hotkey != b.cfg.Owner {
		refuse(w, http.StatusServiceUnavailable, "%s", b.cfg.Frozen)
		return
	}
	id, message, err := b.admit(r.Context(), e)
	if err != nil {
		rec := &recorder{ResponseWriter: w}
		b.fail(rec, "upload", err)
		a.Status, a.Message, a.Type = rec.status, clip(err.Error(), 300), "validation_error"
		switch {
		case rec.status == http.StatusForbidden:
			a.Type = "banned"
		case rec.status == http.StatusTooManyRequests:
			a.Type = "rate_limit"
		case rec.status >= 500:
			a.Type = "internal_error"
		}
		b.cfg.Log.Info("upload refused", "attempt", a)
		return
	}
	a.Success, a.Agent = true, id
	b.cfg.Log.Info("upload taken", "attempt", a)
	reply(w, http.StatusOK, map[string]string{"status": "success", "message": message})
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// admit enters an agent: it returns its id and what is told.
func (b *Backend) admit(ctx context.Context, e entry) (string, string, error) {
	owner := e.hotkey == b.cfg.Owner
	switch {
	case e.hotkey == "":
		return "", "", no(http.StatusBadRequest, "miner_hotkey is required")
	case e.credit != nil && owner:
		return "", "", no(http.StatusBadRequest, "Upload credits are for miners, not for the owner")
	case e.large:
		return "", "", goodFile(e.form)
	}
	if !e.ticket {
		// A retry after a lost answer brings the same signature: what makes it one is its payment.
		if _, refusal := (signin.Ridges{}).CheckUpload(ctx, b.cfg.Verifier, e.fields["public_key"], e.fields["file_info"], e.fields["signature"], e.file, false); refusal != nil {
			return "", "", refusal
		}
	}
	coldkey, err := b.member(ctx, e.hotkey)
	if err == nil {
		err = goodFile(e.form)
	}
	if err != nil {
		return "", "", err
	}
	source := agon.Sum(e.file)
	var pay payment
	switch {
	case owner:
		if e.block == nil || e.index == nil {
			return "", "", no(http.StatusBadRequest, "Payment information is required")
		}
		pay = payment{source: *e.block + ":" + *e.index}
	case e.credit != nil:
		pay, err = b.creditPayment(e, coldkey)
	default:
		pay, err = b.burnPayment(ctx, e)
	}
	if err != nil {
		return "", "", err
	}
	keys, err := b.keysOf(ctx, e.form)
	if err != nil {
		return "", "", err
	}

	b.entering.Lock()
	defer b.entering.Unlock()
	if err := b.notBanned(coldkey); err != nil && !owner { // it may have come meanwhile
		return "", "", err
	}
	id, done, err := b.reserve(ctx, e, &pay, source)
	if err != nil || done != "" {
		return id, done, err
	}
	list, err := b.of(ctx, e.hotkey)
	if err != nil {
		return "", "", err
	}
	tree, err := treeOf(e.file)
	if err != nil {
		return "", "", err
	}
	name := e.name
	if len(list) > 0 {
		name = list[len(list)-1].Name // the first that was ever used
	}
	if i := slices.IndexFunc(list, func(s client.Submission) bool { return s.Digest == tree }); i >= 0 && !pay.resumed {
		return "", "", no(http.StatusConflict, "You have entered this very file before, as agent %s: nothing was spent", b.agentID(list[i].ID))
	}
	if pay.doc != "" {
		if err := b.dir.Put(pay.doc, pay.paid); err != nil {
			return "", "", err
		}
	}
	a, err := b.arena(ctx)
	if err != nil {
		return "", "", err
	}
	s, err := b.cfg.Platform.Submit(ctx, platform.Caller{Hotkey: e.hotkey}, b.cfg.Arena, client.SubmitRequest{
		Name: clip(name, 80), Licence: a.Licence, Files: []client.File{{Path: agentFile, Content: e.file}},
	})
	if err != nil {
		return "", "", err
	}
	id = ridges.AgentID(pay.source)
	doc := agentDoc{ID: id, Submission: s.ID, Hotkey: e.hotkey, Paid: pay.source, At: s.CreatedAt, Keys: keys}
	if err := b.dir.Put("agent-"+id, doc); err != nil {
		return "", "", err
	}
	if pay.doc != "" {
		pay.paid.Agent = id
		if err := b.dir.Put(pay.doc, pay.paid); err != nil {
			return "", "", err
		}
	}
	if pay.credit != nil {
		now := b.cfg.Now().UTC()
		pay.credit.Redeemed, pay.credit.Agent = &now, &id
		if err := b.dir.Put("credit-"+pay.credit.ID, pay.credit); err != nil {
			return "", "", err
		}
	}
	b.mu.Lock()
	b.agents[s.ID], b.entered[id] = id, s.ID
	b.mu.Unlock()
	b.books.stale()
	b.announce(ctx)
	return id, fmt.Sprintf("Successfully uploaded agent %s for miner %s.", id, e.hotkey), nil
}

// treeOf is the digest of a submission of this one file.
func treeOf(file []byte) (agon.Digest, error) {
	return blob.SumFiles([]blob.File{{Path: agentFile, Content: file}}, blob.TreeLimits{})
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
		c, err := b.creditFor(e.hotkey, pay.credit.ID)
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

// checkTicket is POST /upload/ticket/check: what is wrong is data.
func (b *Backend) checkTicket(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Ticket string `json:"ticket"`
	}
	if !decode(w, r, maxSmall, &in, "ticket") {
		return
	}
	out := map[string]any{"valid": false, "reason": nil, "hotkey": nil, "funding": nil, "amount_alpha_rao": nil, "expires_at": nil, "redeemed_agent_id": nil}
	t, no := (signin.Ridges{}).CheckTicket(r.Context(), b.cfg.Verifier, in.Ticket)
	if no != nil {
		out["reason"] = no.Code
		reply(w, http.StatusOK, out)
		return
	}
	out["hotkey"], out["funding"] = t.Hotkey, ridges.Burn
	reason, err := "", error(nil)
	switch {
	case t.Hotkey == b.cfg.Owner:
		reason = "owner_not_allowed"
	case t.CreditID != "":
		out["funding"], out["amount_alpha_rao"] = ridges.Credit, 0
		c, cerr := b.creditFor(t.Hotkey, t.CreditID)
		err = cerr
		switch {
		case c == nil:
			reason = "unknown_credit"
		case c.Revoked != nil:
			reason = "credit_revoked"
		case c.Redeemed != nil:
			reason, out["redeemed_agent_id"] = "already_redeemed", c.Agent
		case !c.usable(b.cfg.Now()):
			reason = "credit_expired"
		}
		if c != nil && c.Expires != nil {
			out["expires_at"] = stamp(*c.Expires)
		}
	default:
		var q quote
		var p paid
		ok, qerr := b.dir.Get("quote-"+t.QuoteID, &q)
		doc := "burn-" + agon.Sum([]byte(strings.ToLower(t.BlockHash) + ":" + strconv.FormatInt(t.ExtrinsicIndex, 10))).Hex()[:40]
		_, perr := b.dir.Get(doc, &p)
		err = errors.Join(qerr, perr)
		switch {
		case !ok || q.Hotkey != t.Hotkey:
			reason = "unknown_quote"
		case p.Agent != "":
			reason, out["redeemed_agent_id"] = "already_redeemed", p.Agent
		case p.Back:
			reason = "refunded"
		}
		if ok {
			out["amount_alpha_rao"] = q.Amount
		}
	}
	if err != nil {
		b.fail(w, "check ticket", err)
		return
	}
	if out["valid"] = reason == ""; reason != "" {
		out["reason"] = reason
	}
	reply(w, http.StatusOK, out)
}
