// Package signin checks the signed requests of Caster and Harnyx, and says which
// bytes they sign.
package signin

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
)

// Caster is the header of Caster and Harnyx (spec/caster.md 4.1):
// Authorization: Bittensor ss58="…",sig="…" over method, path, query and body.
// It has neither time nor nonce: whoever sees a request can send it again for
// ever. Strict takes each signature once, but for reads.
type Caster struct {
	// Asks are beginnings of paths whose requests only ask, though by POST: Strict counts
	// them as reads. What is taken once is remembered for ever, and validators ask all the time.
	Asks []string

	// Detail answers {"detail": message} as validators do; else {"error_code", "message"}, the platform's form.
	Detail bool
}

// Name implements Dialect.
func (c Caster) Name() string { return "caster" }

const casterScheme = "Bittensor"

// Speaks implements Dialect.
func (c Caster) Speaks(r *dialect.Request) bool {
	value, _ := r.Get("Authorization")
	return strings.HasPrefix(strings.TrimSpace(value), casterScheme)
}

type casterError struct {
	Code    string `json:"error_code"`
	Message string `json:"message"`
}

func (c Caster) refuse(status int, code, message string, err error) *dialect.Refusal {
	r := &dialect.Refusal{Status: status, Code: code, Err: err, Body: casterError{code, message}}
	if c.Detail {
		r.Body = map[string]string{"detail": message}
	}
	return r
}

// Check implements Dialect.
func (c Caster) Check(ctx context.Context, v *dialect.Verifier, r *dialect.Request, need dialect.Need) (dialect.Identity, *dialect.Refusal) {
	value, ok := r.Get("Authorization")
	if !ok || strings.TrimSpace(value) == "" {
		return dialect.Identity{}, c.refuse(401, "missing_authorization", "missing Authorization header", nil)
	}
	hotkey, sigText, ok := parseCaster(value)
	if !ok {
		return dialect.Identity{}, c.refuse(401, "invalid_authorization_header", "invalid Authorization header", nil)
	}
	if need.Allow != nil && !need.Allow[hotkey] {
		return dialect.Identity{}, c.refuse(403, "caller_not_allowed", "caller is not allowed", nil)
	}
	sig, err := hex.DecodeString(sigText)
	if err != nil {
		return dialect.Identity{}, c.refuse(401, "invalid_signature_hex", "signature is not hex", nil)
	}
	if len(sig) != auth.SignatureSize {
		return dialect.Identity{}, c.refuse(401, "invalid_signature_length", "signature must be 64 bytes", nil)
	}
	pub, err := auth.ParseSS58(hotkey)
	if err != nil {
		return dialect.Identity{}, c.refuse(401, "invalid_ss58", "invalid ss58 address", err)
	}
	if !dialect.Holds(pub, sig, Message(r.Method, r.Target(), r.Body)) {
		return dialect.Identity{}, c.refuse(401, "invalid_signature", "invalid signature", nil)
	}
	member, standing, err := v.Standing(ctx, hotkey, need)
	if standing != dialect.StandingGood {
		return dialect.Identity{}, c.standing(standing, err)
	}
	// Only now: what is remembered for ever is of keys that may ask at all.
	if v.Strict && r.Mutates() && !slices.ContainsFunc(c.Asks, func(p string) bool { return strings.HasPrefix(r.Target(), p) }) {
		fresh, err := v.OnceSigned(ctx, c.Name(), hotkey, sig, v.Now().Add(dialect.Forever))
		if err != nil {
			return dialect.Identity{}, c.refuse(500, "internal_server_error", "internal error", err)
		}
		if !fresh {
			return dialect.Identity{}, c.refuse(401, "replayed_request", "signature was used before", nil)
		}
	}
	return dialect.Identity{Hotkey: hotkey, Dialect: c.Name(), Bound: true, Member: member}, nil
}

// standing: a validator answers 401 where the platform answers 403.
func (c Caster) standing(s dialect.Standing, err error) *dialect.Refusal {
	status := http.StatusForbidden
	if c.Detail {
		status = http.StatusUnauthorized
	}
	switch {
	case errors.Is(err, dialect.ErrStale):
		return c.refuse(503, "auth_unavailable", "authorization is not available", err)
	case s == dialect.StandingUnknown:
		return c.refuse(500, "internal_server_error", "internal error", err)
	case s == dialect.StandingNotOwner:
		return c.refuse(status, "not_owner", "hotkey is not owned by the subnet owner", nil)
	case s == dialect.StandingNoValidator:
		return c.refuse(403, "not_a_validator", "hotkey holds no validator permit", nil)
	case s == dialect.StandingBanned:
		return c.refuse(403, "banned", "hotkey is banned", nil)
	default:
		return c.refuse(status, "unknown_hotkey", "hotkey is not registered", nil)
	}
}

// parseCaster reads Bittensor<blanks>ss58="<no quote>",<blanks>sig="<hex>".
func parseCaster(value string) (hotkey, sig string, ok bool) {
	const blanks = " \t\r\n\f\v"
	rest, found := strings.CutPrefix(strings.Trim(value, blanks), casterScheme)
	trimmed := strings.TrimLeft(rest, blanks)
	if !found || trimmed == rest {
		return "", "", false
	}
	if rest, found = strings.CutPrefix(trimmed, `ss58="`); !found {
		return "", "", false
	}
	hotkey, rest, found = strings.Cut(rest, `"`)
	if !found || hotkey == "" {
		return "", "", false
	}
	if rest, found = strings.CutPrefix(rest, ","); !found {
		return "", "", false
	}
	if rest, found = strings.CutPrefix(strings.TrimLeft(rest, blanks), `sig="`); !found {
		return "", "", false
	}
	sig, found = strings.CutSuffix(rest, `"`)
	if !found || sig == "" {
		return "", "", false
	}
	for _, c := range []byte(sig) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return "", "", false
		}
	}
	return hotkey, sig, true
}
