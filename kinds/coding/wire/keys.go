package wire

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

func randomBytes(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		return nil, fmt.Errorf("read entropy: %w", err)
	}
	return b, nil
}

// NewKey makes a key of a Sealer.
func NewKey() ([]byte, error) { return randomBytes(32) }

// Sealer keeps secrets at rest: byte 1, a nonce of 12 bytes, and AES-256-GCM of
// the text with its tag. The first key seals; all open, so that keys can be changed.
type Sealer struct{ keys []cipher.AEAD }

// Errors of a Sealer.
var (
	ErrSealed    = errors.New("the sealed text cannot be opened: it is cut, of another version, or its key is not here")
	errSealerKey = errors.New("want keys of 32 bytes in base64, the newest first, with commas between them")
)

const (
	sealVersion = 1
	nonceBytes  = 12
)

// NewSealer reads keys as base64 of 32 bytes each, the newest first, with commas between them.
func NewSealer(keys string) (*Sealer, error) {
	s := &Sealer{}
	for _, k := range strings.Split(strings.TrimSpace(keys), ",") {
		raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(k))
		if err != nil || len(raw) != 32 {
			return nil, errSealerKey
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}
		a, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, a)
	}
	return s, nil
}

// Seal returns the sealed text.
func (s *Sealer) Seal(text string) ([]byte, error) {
	nonce, err := randomBytes(nonceBytes)
	if err != nil {
		return nil, err
	}
	return s.keys[0].Seal(append([]byte{sealVersion}, nonce...), nonce, []byte(text), nil), nil
}

// Open returns the text of sealed bytes, or ErrSealed.
func (s *Sealer) Open(sealed []byte) (string, error) {
	if len(sealed) <= 1+nonceBytes || sealed[0] != sealVersion {
		return "", ErrSealed
	}
	for _, k := range s.keys {
		if text, err := k.Open(nil, sealed[1:1+nonceBytes], sealed[1+nonceBytes:], nil); err == nil {
			return string(text), nil
		}
	}
	return "", ErrSealed
}

// Keys checks the keys of miners with their provider.
type Keys struct {
	URL    string // of the provider's API, "https://openrouter.ai/api/v1"
	Sealer *Sealer
	Client *http.Client // nil: one with a limit of 15 seconds a call
}

// Checked is a pair of keys that the provider knows.
type Checked struct {
	Workspace string `json:"workspace_id"`
	API       []byte `json:"api_key"` // sealed
	Manage    []byte `json:"management_key"`
}

// maxProvider bounds an answer of the provider, in bytes; maxWorkspaces how many are looked at.
const (
	maxProvider   = 1 << 20
	maxWorkspaces = 100
	maxKey        = 4 << 10
)

// get asks the provider with a key. The error is a refusal.
func (k *Keys) get(ctx context.Context, path, key, bad string, v any) error {
	c := k.Client
	if c == nil {
		c = &http.Client{Timeout: 15 * time.Second}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(k.URL, "/")+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := c.Do(r)
	if err != nil {
		return no(http.StatusServiceUnavailable, "The provider of the keys does not answer")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProvider))
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return no(http.StatusBadRequest, "%s", bad)
	case err != nil || resp.StatusCode >= 400 || json.Unmarshal(body, v) != nil:
		return no(http.StatusServiceUnavailable, "The provider of the keys answered %d", resp.StatusCode)
	}
	return nil
}

// Check asks the provider whether the management key sees the other one in exactly
// one workspace, and that it writes no prompts down. It returns them sealed.
func (k *Keys) Check(ctx context.Context, api, manage string) (*Checked, error) {
	api, manage = strings.TrimSpace(api), strings.TrimSpace(manage)
	for name, v := range map[string]string{"openrouter_api_key": api, "openrouter_management_key": manage} {
		if v == "" || len(v) > maxKey || strings.ContainsAny(v, "\r\n\x00") {
			return nil, no(http.StatusBadRequest, "%s is required, as one line", name)
		}
	}
	const badKey, badManage = "Invalid OpenRouter API key", "Invalid OpenRouter management key"
	type record struct {
		Label   string `json:"label"`
		Creator string `json:"creator_user_id"`
	}
	var own struct{ Data record }
	if err := k.get(ctx, "/key", api, badKey, &own); err != nil {
		return nil, err
	}
	if own.Data.Label == "" || own.Data.Creator == "" {
		return nil, no(http.StatusServiceUnavailable, "The provider does not say whose the key is")
	}
	var spaces struct{ Data []struct{ ID string } }
	if err := k.get(ctx, "/workspaces", manage, badManage, &spaces); err != nil {
		return nil, err
	}
	var found []string
	for i, s := range spaces.Data {
		if s.ID == "" || i >= maxWorkspaces {
			continue
		}
		var list struct{ Data []record }
		if err := k.get(ctx, "/keys?workspace_id="+url.QueryEscape(s.ID), manage, badManage, &list); err != nil {
			return nil, err
		}
		for _, x := range list.Data {
			if x == own.Data {
				found = append(found, s.ID)
			}
		}
	}
	switch {
	case len(found) == 0:
		return nil, no(http.StatusBadRequest, "The management key does not see the OpenRouter API key")
	case len(found) > 1:
		return nil, no(http.StatusBadRequest, "The OpenRouter API key has several records")
	}
	var space struct{ Data map[string]any }
	if err := k.get(ctx, "/workspaces/"+url.PathEscape(found[0]), manage, badManage, &space); err != nil {
		return nil, err
	}
	for _, flag := range []string{"is_observability_io_logging_enabled", "is_observability_broadcast_enabled", "is_data_discount_logging_enabled"} {
		if on, said := space.Data[flag]; said && on != false && on != nil {
			return nil, no(http.StatusBadRequest, "The workspace of this key writes prompts down: turn off logging, broadcast and the data discount (%s)", flag)
		}
	}
	out := &Checked{Workspace: found[0]}
	var err error
	if out.API, err = k.Sealer.Seal(api); err != nil {
		return nil, err
	}
	out.Manage, err = k.Sealer.Seal(manage)
	return out, err
}

// checkKeys is POST /upload/validate-openrouter-keys.
func (b *Backend) checkKeys(w http.ResponseWriter, r *http.Request) {
	var in struct {
		API    string `json:"openrouter_api_key"`
		Manage string `json:"openrouter_management_key"`
	}
	if !decode(w, r, maxSmall, &in, "openrouter_api_key", "openrouter_management_key") {
		return
	}
	var reason *string
	if b.cfg.Keys != nil {
		_, err := b.cfg.Keys.Check(r.Context(), in.API, in.Manage)
		var not *refusal
		switch {
		case errors.As(err, &not) && not.status == http.StatusBadRequest:
			reason = &not.detail
		case err != nil:
			b.fail(w, "check keys", err)
			return
		}
	}
	reply(w, http.StatusOK, map[string]any{"valid": reason == nil, "reason": reason})
}
