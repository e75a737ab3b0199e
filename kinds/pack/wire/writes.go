package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/served"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/kinds/pack/signin"
)

// Limits of what is posted.
const (
	maxBody      = 64 << 10
	maxPack      = 32_768 // of a pack's text
	maxScenarios = 100
)

// problem is an answer that refuses a post. Code names the error for programs,
// Error is the sentence that the field's clients know.
type problem struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
	Code    string `json:"code,omitempty"`
	Field   string `json:"field,omitempty"`
	Limit   string `json:"limit,omitempty"`
}

func refuse(w http.ResponseWriter, status int, code, field, format string, args ...any) {
	reply(w, status, problem{Error: fmt.Sprintf(format, args...), Code: code, Field: field})
}

// refused answers an error of the platform: what is its client's is 400, as that system says.
func (b *Backend) refused(w http.ResponseWriter, what string, err error) {
	var e *agon.Error
	if errors.As(err, &e) && e.Status < 500 {
		status := http.StatusBadRequest
		if e.Status == http.StatusForbidden || e.Status == http.StatusTooManyRequests || e.Status == http.StatusConflict {
			status = e.Status
		}
		reply(w, status, problem{Error: plain(e.Message, 400), Code: e.Code, Field: plain(e.Field, 80), Limit: e.Limit})
		return
	}
	b.cfg.Log.Error("request failed", "what", what, "err", err)
	refuse(w, http.StatusInternalServerError, "internal", "", "Internal server error")
}

// object reads a JSON object of at most maxBody bytes into v.
func object(w http.ResponseWriter, r *http.Request, v any) bool {
	body, err := served.Body(w, r, maxBody)
	if errors.Is(err, served.ErrLarge) {
		reply(w, http.StatusBadRequest, problem{Error: "body must be ≤65536 bytes", Code: "too_large", Field: "body", Limit: "65536 bytes"})
		return false
	}
	if err == nil {
		err = decode(body, v)
	}
	if err != nil {
		badObject(w, err)
	}
	return err == nil
}

// decode reads a JSON object into v.
func decode(body []byte, v any) error {
	if t := bytes.TrimSpace(body); len(t) == 0 || t[0] != '{' {
		return errors.New("not an object")
	}
	return json.Unmarshal(body, v)
}

// badObject answers an error of decode: with the field of a wrong type, where one has it.
func badObject(w http.ResponseWriter, err error) {
	var typ *json.UnmarshalTypeError
	if !errors.As(err, &typ) {
		refuse(w, http.StatusBadRequest, "bad_json", "body", "body must be a JSON object")
		return
	}
	// Go names the embedded struct; a body has no such object.
	field := strings.TrimPrefix(typ.Field, "signer.")
	refuse(w, http.StatusBadRequest, "bad_field", field, "%s must be %s", field, kindOf(typ.Type))
}

func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[whole]():
		return "an integer"
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Bool:
		return "a boolean"
	case t.Kind() == reflect.Float64:
		return "a finite number"
	}
	return "an object"
}

// whole is an integer, and the digits that a signature covers.
type whole struct {
	n    int64
	text string
}

// UnmarshalJSON reads a plain integer; null leaves it out.
func (i *whole) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != string(b) {
		return &json.UnmarshalTypeError{Value: "no plain integer", Type: reflect.TypeFor[whole]()} // decoding adds the field's name
	}
	*i = whole{n, string(b)}
	return nil
}

// signer are the fields that every signed body has.
type signer struct {
	Validator string `json:"validator_hotkey"`
	Timestamp whole  `json:"timestamp"`
	Signature string `json:"signature"`
}

func (s signer) fields() signin.Fields {
	return signin.Fields{Hotkey: s.Validator, Timestamp: s.Timestamp.text, Signature: s.Signature}
}

// check checks a signature and answers where it does not hold.
func (b *Backend) check(w http.ResponseWriter, r *http.Request, p signin.TrajectoryRL, f signin.Fields) bool {
	_, refusal := p.Check(r.Context(), b.cfg.Verifier, f, dialect.Need{})
	if refusal != nil {
		_ = refusal.Write(w) // a client that is gone reads no error
		return false
	}
	return true
}

// evalForm is what names of evaluations look like.
var evalForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,79}$`)

func hotkeyField(w http.ResponseWriter, name, v string) bool {
	if _, err := auth.ParseSS58(v); err != nil {
		refuse(w, http.StatusBadRequest, "bad_field", name, "%s must be an SS58 address", name)
		return false
	}
	return true
}

func hashField(w http.ResponseWriter, v string) bool {
	if !hashForm().MatchString(v) {
		refuse(w, http.StatusBadRequest, "bad_field", "pack_hash", "pack_hash must be 64 hex characters")
		return false
	}
	return true
}

// preEval is the signed form, preEval2 the one whose signature may be left out.
func (b *Backend) preEval(w http.ResponseWriter, r *http.Request) { b.askPreEval(w, r, true) }

func (b *Backend) preEval2(w http.ResponseWriter, r *http.Request) { b.askPreEval(w, r, false) }

func (b *Backend) askPreEval(w http.ResponseWriter, r *http.Request, signed bool) {
	var q struct {
		signer
		Miner string `json:"miner_hotkey"`
		Hash  string `json:"pack_hash"`
		URL   string `json:"pack_url"`
		Epoch whole  `json:"epoch_number"`
	}
	if !object(w, r, &q) {
		return
	}
	if q.Hash == "" && (signed || q.Epoch.text == "") {
		refuse(w, http.StatusBadRequest, "missing_field", "pack_hash", "Either pack_hash or epoch_number is required")
		return
	}
	if q.Hash != "" && !hashField(w, q.Hash) || !hotkeyField(w, "miner_hotkey", q.Miner) {
		return
	}
	if signed || q.Validator != "" || q.Timestamp.text != "" || q.Signature != "" {
		if !b.check(w, r, signin.Report, q.fields()) {
			return
		}
	}
	s := b.with(w, r, "pre-eval")
	if s == nil {
		return
	}
	if _, ok := s.neurons[q.Miner]; !ok {
		refuse(w, http.StatusForbidden, "not_registered", "miner_hotkey", "miner_hotkey is not a registered miner on-chain")
		return
	}
	e := s.current(q.Miner)
	if q.Hash != "" {
		e = s.find(q.Miner, q.Hash)
	}
	out := map[string]any{"allowed": true, "verified": false, "pack_hash": q.Hash}
	if e != nil {
		out["pack_hash"] = e.pack.Hash
		switch reason := e.refusalReason(); {
		case reason != "":
			out["allowed"], out["verified"], out["reason"] = false, true, reason
		case e.State == agon.SubmissionScored:
			out["verified"] = true
		}
	}
	reply(w, http.StatusOK, out)
}

// refusalReason is one word for why a pack is not let in; empty where it is.
func (e *entry) refusalReason() string {
	if _, _, ok := e.rejection(); !ok {
		return ""
	}
	f := e.blocking()
	switch {
	case f == nil:
		return "excluded"
	case f.Code == kindpack.CodeIntegrity:
		return "hardcoded"
	}
	return plain(f.Code, 60)
}

// submit takes a pack from its miner: the checks in the order that the field's
// server has them.
func (b *Backend) submit(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Miner     string `json:"miner_hotkey"`
		Timestamp whole  `json:"timestamp"`
		Signature string `json:"signature"`
		Hash      string `json:"pack_hash"`
		Content   string `json:"pack_content"`
		receipt
	}
	if !object(w, r, &q) || !hotkeyField(w, "miner_hotkey", q.Miner) || !hashField(w, q.Hash) {
		return
	}
	switch {
	case q.Content == "":
		refuse(w, http.StatusBadRequest, "missing_field", "pack_content", "pack_content is required")
		return
	case len(q.Content) > maxPack:
		reply(w, http.StatusBadRequest, problem{Error: fmt.Sprintf("pack_content must be ≤%d bytes", maxPack), Code: "too_large", Field: "pack_content", Limit: fmt.Sprintf("%d bytes", maxPack)})
		return
	}
	p, err := packfile.Read([]byte(q.Content))
	switch {
	case err == nil && p.Hash != q.Hash:
		refuse(w, http.StatusBadRequest, "hash_mismatch", "pack_hash", "pack_hash does not match pack_content")
		return
	case err != nil || !hasPolicy(p):
		refuse(w, http.StatusBadRequest, "bad_pack", "pack_content", "pack_content must be valid pack.json containing files.SKILL.md")
		return
	}
	if !b.check(w, r, signin.MinerSubmit, signin.Fields{Hotkey: q.Miner, Timestamp: q.Timestamp.text, Signature: q.Signature}) {
		return
	}
	// One at a time: whether a miner may enter is looked up and changed together.
	b.entering.Lock()
	defer b.entering.Unlock()
	ctx := r.Context()
	ref, err := b.unused(ctx, q.Miner, q.receipt)
	if err != nil {
		b.refused(w, "submit", err)
		return
	}
	last, err := b.cfg.Platform.Submissions(ctx, anybody, b.cfg.Arena, q.Miner, "", 1)
	if err != nil {
		b.refused(w, "submit", err)
		return
	}
	now := b.cfg.Now()
	if len(last.Items) > 0 {
		if next := last.Items[0].CreatedAt.Add(cooldown); next.After(now) {
			reply(w, http.StatusTooManyRequests, map[string]any{
				"success": false, "error": "cooldown", "code": "cooldown", "last_upload_at": stamp(last.Items[0].CreatedAt), "next_upload_allowed_at": stamp(next),
				"cooldown_seconds": int64(cooldown.Seconds()),
			})
			return
		}
	}
	a, err := b.cfg.Platform.Arena(ctx, b.cfg.Arena)
	if err != nil {
		b.refused(w, "submit", err)
		return
	}
	if err := b.feePaid(ctx, q.Miner, q.receipt, ref); err != nil {
		b.refused(w, "submit", err)
		return
	}
	name := plain(p.Value.Get("metadata").Get("pack_name").Str, 18) // within the 80 bytes of a name
	used := false
	sub, err := b.cfg.Platform.Enter(ctx, platform.Caller{Hotkey: q.Miner}, b.cfg.Arena, client.SubmitRequest{
		Name: name, Licence: a.Licence, Files: []client.File{{Path: kindpack.File, Content: []byte(q.Content)}},
	}, b.pay(ref, &used))
	if err != nil {
		b.refused(w, "submit", err)
		return
	}
	if used {
		if err := b.spent(ref); err != nil {
			b.cfg.Log.Error("note a receipt", "err", err) // the platform knows it
		}
	}
	b.stale.Store(true)
	reply(w, http.StatusOK, map[string]any{
		"success": true, "pack_hash": p.Hash, "pack_url": b.base(r) + "/api/packs/" + p.Hash + ".json", "submission_id": sub.ID,
		"next_upload_allowed_at": stamp(now.Add(cooldown)), "cooldown_seconds": int64(cooldown.Seconds()), "pre_eval_status": rowState(sub),
	})
}

func hasPolicy(p *packfile.Pack) bool {
	text, ok := p.Policy()
	return ok && text != ""
}

// rowState is how that system calls the states of a submission.
func rowState(s *client.Submission) string {
	switch s.State {
	case agon.SubmissionQueued, agon.SubmissionPlaying:
		return "pending_eval"
	case agon.SubmissionScored:
		return "completed"
	}
	return "failed"
}

func (b *Backend) heartbeat(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Hotkey    string `json:"hotkey"`
		Timestamp whole  `json:"timestamp"`
		Signature string `json:"signature"`
		Version   string `json:"version"`
		LastEval  whole  `json:"last_eval_at"`
		LastSet   whole  `json:"last_set_weights_at"`
		Bench     string `json:"bench_version"`
		Model     string `json:"llm_model"`
	}
	if !object(w, r, &q) || !b.check(w, r, signin.Heartbeat, signin.Fields{Hotkey: q.Hotkey, Timestamp: q.Timestamp.text, Signature: q.Signature}) {
		return
	}
	now := b.cfg.Now()
	x := beat{Hotkey: q.Hotkey, Version: plain(q.Version, 40), Model: plain(q.Model, 80), Bench: plain(q.Bench, 40), Seen: now}
	if q.LastEval.n > 0 && q.LastEval.n <= now.Unix()+300 {
		x.LastEval = time.Unix(q.LastEval.n, 0).UTC()
	}
	if err := b.posts.putBeat(b, x); err != nil {
		b.refused(w, "heartbeat", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"success": true, "validator": map[string]any{
		"hotkey": x.Hotkey, "version": text(x.Version), "lastSeen": stamp(x.Seen), "llmModel": text(x.Model), "benchVersion": text(x.Bench),
	}})
}

// submitScore keeps a validator's report of one pack.
func (b *Backend) submitScore(w http.ResponseWriter, r *http.Request) {
	var q struct {
		signer
		Miner     string   `json:"miner_hotkey"`
		UID       whole    `json:"miner_uid"`
		Block     whole    `json:"block_height"`
		Score     *float64 `json:"score"`
		Cost      *float64 `json:"cost"`
		Weight    float64  `json:"weight"`
		Qualified *bool    `json:"qualified"`
		Hash      string   `json:"pack_hash"`
		Model     string   `json:"llm_model"`
		Rejected  bool     `json:"rejected"`
		Stage     string   `json:"rejection_stage"`
		Detail    string   `json:"rejection_detail"`
		Scenarios map[string]struct {
			Score     float64  `json:"score"`
			Weight    *float64 `json:"weight"`
			Qualified bool     `json:"qualified"`
			Cost      *float64 `json:"cost"`
		} `json:"scenario_results"`
	}
	if !object(w, r, &q) || !hotkeyField(w, "miner_hotkey", q.Miner) || q.Hash != "" && !hashField(w, q.Hash) {
		return
	}
	bad := func(field, format string, args ...any) { refuse(w, 400, "bad_field", field, format, args...) }
	within := func(p *float64) bool { return p == nil || *p >= 0 && *p <= 1e6 }
	switch {
	case q.Score == nil || !within(q.Score) || *q.Score > 100:
		bad("score", "score must be a finite number from 0 to 100")
		return
	case q.Qualified == nil:
		bad("qualified", "qualified must be a boolean")
		return
	case q.Block.text == "" || q.Block.n < 0:
		bad("block_height", "block_height must be a non-negative integer")
		return
	case !within(q.Cost) || !(q.Weight >= 0 && q.Weight <= 1):
		bad("cost", "cost and weight must be finite and not negative")
		return
	case q.Rejected && (*q.Score != 0 || *q.Qualified || q.Weight != 0 || q.Stage == ""):
		bad("rejected", "a rejected report has score 0, weight 0, qualified false and a rejection_stage")
		return
	case q.Stage != "" && q.Stage != "pack_fetch" && q.Stage != "schema_validation" && q.Stage != "integrity_check":
		bad("rejection_stage", "rejection_stage must be pack_fetch, schema_validation or integrity_check")
		return
	case len(q.Scenarios) > maxScenarios:
		bad("scenario_results", "scenario_results must have at most %d scenarios", maxScenarios)
		return
	}
	x := &posted{
		Validator: q.Validator, Miner: q.Miner, Hash: q.Hash, Block: q.Block.n, Score: *q.Score, Cost: q.Cost, Weight: q.Weight, Qualified: *q.Qualified,
		Rejected: q.Rejected, Stage: q.Stage, Detail: plain(q.Detail, 400), Model: plain(q.Model, 80), At: b.cfg.Now(), Signed: q.Timestamp.n,
	}
	for _, name := range sorted(q.Scenarios) {
		sc := q.Scenarios[name]
		if len(name) > 80 || !within(&sc.Score) || !within(sc.Weight) || !within(sc.Cost) {
			bad("scenario_results", "scenario_results has a name or a number that is out of bounds")
			return
		}
		weight := 1.0
		if sc.Weight != nil {
			weight = *sc.Weight
		}
		x.Scenarios = append(x.Scenarios, postedScenario{plain(name, 80), sc.Score, weight, sc.Qualified, sc.Cost})
	}
	if !b.check(w, r, signin.Submit, q.fields()) {
		return
	}
	if err := b.posts.putScore(b, x); err != nil {
		b.refused(w, "score", err)
		return
	}
	b.stale.Store(true)
	reply(w, http.StatusOK, map[string]any{"success": true, "result": map[string]any{
		"validator_hotkey": x.Validator, "miner_hotkey": x.Miner, "miner_uid": q.UID.n, "block_height": x.Block, "score": x.Score, "qualified": x.Qualified, "submittedAt": stamp(x.At),
	}})
}
