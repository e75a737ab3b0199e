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
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/kinds/coding/ridges"
	"github.com/agon-arena/agon/kinds/coding/signin"
)

// agentFile is the name under which an agent is entered.
const agentFile = "agent.py"

// quoteTime is how long a price holds.
const quoteTime = time.Hour

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
	return folder.Load(b.dir, "agent-", func(_ string, d agentDoc) { b.agents[d.Submission], b.entered[d.ID] = d.ID, d.Submission })
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
	a := attempt{At: b.cfg.Now().UTC(), Hotkey: clip(e.hotkey, 64), Name: clip(e.name, 80), File: clip(e.form.name, 80), Size: len(e.file), IP: auth.RemoteHost(r)}
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
	s, err := b.cfg.Platform.Enter(ctx, platform.Caller{Hotkey: e.hotkey}, b.cfg.Arena, client.SubmitRequest{
		Name: clip(name, 80), Licence: a.Licence, Files: []client.File{{Path: agentFile, Content: e.file}},
	}, pay.burn)
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
		c, cerr := b.creditFor(r.Context(), t.Hotkey, t.CreditID)
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
