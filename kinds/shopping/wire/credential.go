package wire

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/internal/sealed"
)

// What a miner leaves with the arena: credentials of providers. One is tried once before
// it is kept, sealed, and never read out. A validator gets it only where the miner has
// said so in a text that its hotkey signed (ConsentText); all others get a token of the
// arena's own gateway (lend.go).

// trial is the model by which a provider's credential is tried.
var trial = map[string]string{"chutes": "Qwen/Qwen3-32B-TEE", "openrouter": "openrouter/auto"}

// Limits of credentials.
const (
	trialTime     = 15 * time.Second
	trialsAMinute = 10 // of one hotkey
	maxConsent    = 366 * 24 * time.Hour
	maxNamed      = 64 // validators in a consent
	anyValidator  = "*"
	chutes        = "chutes"
)

// wallet is what one miner has left.
type wallet struct {
	Keys    map[string]*credential `json:"keys,omitempty"` // by provider
	Default string                 `json:"default,omitempty"`
}

type credential struct {
	Sealed  []byte    `json:"sealed"`
	Sum     string    `json:"sha256"` // of the credential, hex
	Updated time.Time `json:"updated_at"`
	Consent *consent  `json:"consent,omitempty"`
}

// consent is a miner's word that validators may have a credential.
type consent struct {
	Validators []string  `json:"validators"` // hotkeys, or "*" alone: every validator
	Until      time.Time `json:"until"`
	Signature  string    `json:"signature"`
}

// ConsentText is what a miner's hotkey signs: which credential of which provider, by the
// SHA-256 of its bytes, goes to which validators, and until when.
func ConsentText(arena, hotkey, provider, sum string, validators []string, until time.Time) string {
	return fmt.Sprintf("agon-credential/1 %s %s %s sha256:%s to %s until %s", arena, hotkey, provider, sum, strings.Join(validators, ","), until.UTC().Format(time.RFC3339))
}

func walletName(hotkey string) string {
	sum := sha256.Sum256([]byte(hotkey))
	return "miner-" + hex.EncodeToString(sum[:16])
}

func sealedFor(hotkey, provider string) string { return hotkey + " " + provider }

func (b *Backend) wallet(hotkey string) (wallet, error) {
	w := wallet{}
	_, err := b.dir.Get(walletName(hotkey), &w)
	if w.Keys == nil {
		w.Keys = map[string]*credential{}
	}
	return w, err
}

// preferred is the provider that claims are paid at; null where there is none.
func (w *wallet) preferred() *string {
	if w.Default == "" {
		return nil
	}
	return &w.Default
}

// shown is what a miner reads of its own credential; the SDK reads the first three.
func shown(provider string, c *credential) map[string]any {
	out := map[string]any{"provider": provider, "connected": c != nil, "updated_at": nil}
	if c != nil {
		out["updated_at"], out["sha256"] = stamp(c.Updated), c.Sum
		if c.Consent != nil {
			out["consent"] = map[string]any{"validators": c.Consent.Validators, "until": stamp(c.Consent.Until)}
		}
	}
	return out
}

// inferenceAuth is GET /v1/miner/inference-auth.
func (b *Backend) inferenceAuth(w http.ResponseWriter, r *http.Request) {
	b.mine(w, r, func(_ string, have *wallet, _ []byte) (any, bool) {
		list := []any{}
		for _, name := range slices.Sorted(maps.Keys(have.Keys)) {
			list = append(list, shown(name, have.Keys[name]))
		}
		return map[string]any{"providers": list, "default_provider": have.preferred()}, false
	})
}

// inferenceAuthOf is GET and DELETE /v1/miner/inference-auth/{provider}.
func (b *Backend) inferenceAuthOf(w http.ResponseWriter, r *http.Request) {
	provider, ok := providerOf(w, r)
	if !ok {
		return
	}
	b.mine(w, r, func(_ string, have *wallet, _ []byte) (any, bool) {
		if r.Method == http.MethodGet {
			return shown(provider, have.Keys[provider]), false
		}
		delete(have.Keys, provider)
		if have.Default == provider || have.Default == "" {
			have.Default = ""
			if left := slices.Sorted(maps.Keys(have.Keys)); len(left) > 0 {
				have.Default = left[0]
			}
		}
		return map[string]any{"deleted": true, "default_provider": have.preferred()}, true
	})
}

// inferenceDefault is PATCH /v1/miner/inference-auth/default.
func (b *Backend) inferenceDefault(w http.ResponseWriter, r *http.Request) {
	b.mine(w, r, func(_ string, have *wallet, body []byte) (any, bool) {
		var in struct {
			Provider string `json:"provider"`
		}
		if !decode(w, body, &in) {
			return nil, false
		}
		if have.Keys[in.Provider] == nil {
			refuse(w, http.StatusConflict, "NOT_CONNECTED", "No credential of %.40q is stored", in.Provider)
			return nil, false
		}
		have.Default = in.Provider
		return map[string]string{"default_provider": have.Default}, true
	})
}

// chutesStatus is GET /v1/miner/chutes-auth/status, as SDKs before 2026-06 ask.
func (b *Backend) chutesStatus(w http.ResponseWriter, r *http.Request) {
	b.mine(w, r, func(_ string, have *wallet, _ []byte) (any, bool) { return shown(chutes, have.Keys[chutes]), false })
}

// mine lets f read or change the wallet of who has signed. A nil reply: f has answered.
func (b *Backend) mine(w http.ResponseWriter, r *http.Request, f func(hotkey string, have *wallet, body []byte) (out any, changed bool)) {
	id, body, ok := b.signed(w, r, asMiner, maxBody)
	if !ok {
		return
	}
	b.wallets.Lock()
	defer b.wallets.Unlock()
	have, err := b.wallet(id.Hotkey)
	if err != nil {
		b.broken(w, "read credentials", err)
		return
	}
	out, changed := f(id.Hotkey, &have, body)
	if changed {
		if err := b.dir.Put(walletName(id.Hotkey), have); err != nil {
			b.broken(w, "keep credentials", err)
			return
		}
	}
	if out != nil {
		reply(w, http.StatusOK, out)
	}
}

// providerOf is the provider that a path names.
func providerOf(w http.ResponseWriter, r *http.Request) (string, bool) {
	p := r.PathValue("provider")
	if trial[p] == "" {
		invalid(w, "enum", "Input should be one of "+strings.Join(slices.Sorted(maps.Keys(trial)), ", "), "provider")
		return "", false
	}
	return p, true
}

// storeCredential is POST /v1/miner/inference-auth/{provider}, and /v1/miner/chutes-auth
// of SDKs before 2026-06: the credential is tried, then kept.
func (b *Backend) storeCredential(w http.ResponseWriter, r *http.Request) {
	provider := chutes
	if r.PathValue("provider") != "" || !strings.HasSuffix(r.URL.Path, "/chutes-auth") {
		var ok bool
		if provider, ok = providerOf(w, r); !ok {
			return
		}
	}
	id, body, ok := b.signed(w, r, asMiner, maxBody)
	if !ok {
		return
	}
	var in struct {
		Credential string `json:"credential"`
		Refresh    string `json:"refresh_token"`
	}
	if !decode(w, body, &in) {
		return
	}
	if in.Credential == "" {
		in.Credential = in.Refresh
	}
	secret, ok := sealed.Clean(in.Credential)
	if !ok {
		invalid(w, "value_error", fmt.Sprintf("want a credential of 1 to %d printable characters", sealed.MaxSecret), "credential")
		return
	}
	if !b.limit.allow("credential "+id.Hotkey, trialsAMinute) {
		refuse(w, http.StatusTooManyRequests, "RATE_LIMITED", "too many credentials, at most %d a minute", trialsAMinute)
		return
	}
	switch b.try(r.Context(), provider, secret) {
	case invalidKey:
		refuse(w, http.StatusBadRequest, "INVALID_CREDENTIAL", "%s refuses it: want an API key that may ask its models; a refresh token or a key that only manages keys does not", provider)
		return
	case noCredit:
		refuse(w, http.StatusPaymentRequired, "NO_CREDIT", "the account at %s has no credit", provider)
		return
	}
	b.wallets.Lock()
	defer b.wallets.Unlock()
	have, err := b.wallet(id.Hotkey)
	if err == nil {
		c := &credential{Updated: b.cfg.Now().UTC()}
		sum := sha256.Sum256([]byte(secret))
		c.Sum = hex.EncodeToString(sum[:])
		if was := have.Keys[provider]; was != nil && was.Sum == c.Sum {
			c.Consent = was.Consent // which names the same credential
		}
		if have.Default == "" {
			have.Default = provider
		}
		have.Keys[provider] = c
		if c.Sealed, err = b.secret.Seal(secret, sealedFor(id.Hotkey, provider)); err == nil {
			err = b.dir.Put(walletName(id.Hotkey), have)
		}
	}
	if err != nil {
		b.broken(w, "keep a credential", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"stored": true})
}

// Verdicts of a trial.
const (
	validKey   = "valid"
	invalidKey = "invalid"
	noCredit   = "no_credit"
)

// try asks a provider for one token. Only its own clear no is one: a provider that is
// slow, busy or down says nothing of the credential.
func (b *Backend) try(ctx context.Context, provider, secret string) string {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	ask, err := json.Marshal(map[string]any{"model": trial[provider], "messages": []any{map[string]string{"role": "user", "content": "hi"}}, "max_tokens": 1})
	if err != nil {
		return validKey
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(b.cfg.Providers[provider], "/")+"/v1/chat/completions", strings.NewReader(string(ask)))
	if err != nil {
		b.cfg.Log.Warn("a credential is not tried", "provider", provider, "err", err)
		return validKey
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+secret)
	// A redirect would carry the credential elsewhere.
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(req)
	if err != nil {
		b.cfg.Log.Warn("a credential could not be tried", "provider", provider, "err", err)
		return validKey
	}
	_ = resp.Body.Close() // the status says it
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return invalidKey
	case http.StatusPaymentRequired:
		return noCredit
	}
	return validKey
}

// consents is PUT and DELETE /v1/miner/inference-auth/{provider}/consent. PUT carries the
// signature of the text itself, so that any wallet that signs messages can give one; who
// brings it does not matter.
func (b *Backend) consents(w http.ResponseWriter, r *http.Request) {
	provider, ok := providerOf(w, r)
	if !ok {
		return
	}
	if r.Method == http.MethodDelete {
		b.mine(w, r, func(_ string, have *wallet, _ []byte) (any, bool) {
			if c := have.Keys[provider]; c != nil {
				c.Consent = nil
			}
			return shown(provider, have.Keys[provider]), true
		})
		return
	}
	id, body, ok := b.signed(w, r, asMiner, maxBody)
	if !ok {
		return
	}
	var in consent
	if !decode(w, body, &in) {
		return
	}
	if why := checkConsent(&in, b.cfg.Now()); why != "" {
		invalid(w, "value_error", why, "validators")
		return
	}
	b.wallets.Lock()
	defer b.wallets.Unlock()
	have, err := b.wallet(id.Hotkey)
	if err != nil {
		b.broken(w, "read credentials", err)
		return
	}
	c := have.Keys[provider]
	if c == nil {
		refuse(w, http.StatusConflict, "NOT_CONNECTED", "No credential of %s is stored", provider)
		return
	}
	text := ConsentText(b.cfg.Arena, id.Hotkey, provider, c.Sum, in.Validators, in.Until)
	if !signedBy(id.Hotkey, in.Signature, text) {
		reply(w, http.StatusForbidden, map[string]string{"detail": "The signature is not the hotkey's over the text", "error_code": "INVALID_CONSENT", "text": text})
		return
	}
	c.Consent = &in
	if err := b.dir.Put(walletName(id.Hotkey), have); err != nil {
		b.broken(w, "keep a consent", err)
		return
	}
	reply(w, http.StatusOK, shown(provider, c))
}

// checkConsent says what is wrong with whom a consent names, and for how long.
func checkConsent(c *consent, now time.Time) string {
	switch {
	case len(c.Validators) == 0 || len(c.Validators) > maxNamed:
		return fmt.Sprintf("want 1 to %d hotkeys of validators, or \"*\"", maxNamed)
	case !c.Until.After(now) || c.Until.Sub(now) > maxConsent:
		return "until: want a time within the next year"
	case len(c.Validators) == 1 && c.Validators[0] == anyValidator:
		return ""
	}
	for _, v := range c.Validators {
		if _, err := auth.ParseSS58(v); err != nil {
			return fmt.Sprintf("%.60q is not a hotkey", v)
		}
	}
	return ""
}

func signedBy(hotkey, signature, text string) bool {
	pub, err := auth.ParseSS58(hotkey)
	if err != nil {
		return false
	}
	sig, err := dialect.Unhex(signature, auth.SignatureSize)
	return err == nil && dialect.Holds(pub, sig, []byte(text))
}

// grant is a miner's own credential that a validator gets.
type grant struct {
	provider, secret, base string
	until                  time.Time
}

// granted is the miner's own credential for a validator, of its default provider; nil:
// it has left none, or has not said that this validator may have it.
func (b *Backend) granted(miner, validator string) (*grant, error) {
	b.wallets.Lock()
	defer b.wallets.Unlock()
	have, err := b.wallet(miner)
	if err != nil {
		return nil, err
	}
	c := have.Keys[have.Default]
	if c == nil || c.Consent == nil || !c.Consent.Until.After(b.cfg.Now()) {
		return nil, nil //nolint:nilnil // there is none
	}
	if c.Consent.Validators[0] != anyValidator && !slices.Contains(c.Consent.Validators, validator) {
		return nil, nil //nolint:nilnil // not for this one
	}
	// What is on disk is not trusted to be what the miner signed.
	if !signedBy(miner, c.Consent.Signature, ConsentText(b.cfg.Arena, miner, have.Default, c.Sum, c.Consent.Validators, c.Consent.Until)) {
		return nil, errors.New("a stored consent is not what its miner signed")
	}
	secret, err := b.secret.Unseal(c.Sealed, sealedFor(miner, have.Default))
	if err != nil {
		return nil, fmt.Errorf("read a credential: %w", err)
	}
	return &grant{have.Default, secret, strings.TrimRight(b.cfg.Providers[have.Default], "/") + "/v1", c.Consent.Until}, nil
}

// fund puts into a claim's reply what pays for models: the miner's own credential where
// the miner has signed that this validator may have it, else a token of the arena's
// gateway, if it lends one. Validators that know one provider only get that token too
// where the miner's credential is of another. A run on hidden problems is never paid by
// the miner's credential: a provider shows the owner of an account what was asked there.
func (b *Backend) fund(out map[string]any, run *evalRun, miner string) {
	var own *grant
	var err error
	if !slices.ContainsFunc(run.Tasks, func(t agon.TaskRef) bool { return t.Hidden }) {
		own, err = b.granted(miner, run.Validator)
	}
	if err == nil && own != nil {
		told := *run
		told.Own = own.provider
		if own.provider == chutes {
			told.Inference = ""
		}
		if err = b.dir.Put(docName(run.ID), told); err == nil {
			*run = told
		}
	}
	if err != nil { // the arena pays, as for everybody else
		b.cfg.Log.Error("a miner's own credential is not handed on", "run", run.Run, "err", err)
		own = nil
	}
	if run.Inference != "" {
		out["chutes_access_token"] = lentToken(run)
		out["inference_token"] = map[string]any{"provider": chutes, "access_token": lentToken(run), "base_url": b.cfg.Base() + "/v1", "expires_at": stamp(run.LentUntil)}
	}
	if own != nil {
		b.cfg.Log.Info("a miner's own credential is handed on", "run", run.Run, "attempt", run.Attempt, "provider", own.provider, "validator", run.Validator)
		out["inference_token"] = map[string]any{"provider": own.provider, "access_token": own.secret, "base_url": own.base, "expires_at": stamp(own.until)}
		if own.provider == chutes {
			out["chutes_access_token"] = own.secret
		}
	}
}
