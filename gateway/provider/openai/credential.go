package openai

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/agon-arena/agon/gateway/provider"
)

// Credential says what a provider thinks of a key.
type Credential string

// What a key can be. A provider that is busy or broken has not refused it.
const (
	CredentialValid       Credential = "valid"
	CredentialInvalid     Credential = "invalid"     // 401, 403
	CredentialNoCredit    Credential = "no-credit"   // 402
	CredentialUnreachable Credential = "unreachable" // no answer at all
)

// Check asks the smallest question there is, one token, and says what became
// of the key. It costs at most that one call and never shows the key.
func Check(ctx context.Context, c Config) (Credential, error) {
	u, err := New(c)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]any{
		"model": c.Models[0], "max_tokens": 1, "messages": []any{map[string]any{"role": "user", "content": "1"}},
	})
	if err != nil {
		return "", err
	}
	r, err := u.Do(ctx, provider.Request{Path: provider.PathChat, Model: c.Models[0], Body: body})
	if err == nil {
		_ = r.Body.Close() // the status has said it
		return CredentialValid, nil
	}
	var f *provider.Failure
	if !errors.As(err, &f) {
		return "", err
	}
	switch {
	case f.Class == provider.ClassAuth:
		return CredentialInvalid, nil
	case f.Class == provider.ClassPayment:
		return CredentialNoCredit, nil
	case f.Status == 0:
		return CredentialUnreachable, nil
	}
	return CredentialValid, nil
}
