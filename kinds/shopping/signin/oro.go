// Package signin checks the signed requests of ORO (bittensor-auth) and gives its
// bearer tokens, and says which bytes they sign.
package signin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
)

// Windows of ORO.
const (
	oroWindow   = 60 * time.Second
	oroMemory   = 2 * oroWindow // or a request dated into the future could be used twice
	oroMaxNonce = 256
)

// ORO is the colon form of bittensor-auth (spec/oro.md 2.7): X- headers over
// hotkey:timestamp:nonce, or a bearer token of Sessions. The signature covers
// nothing of the request unless the nonce ends in "." and signing.Bind, which
// is then always checked, and which Strict demands of requests that change something.
type ORO struct {
	Sessions *Sessions // nil: no bearer tokens; an Authorization header is then not looked at
	// Dots joins the three with dots, as some subnets do. Nonces may not hold the joint.
	Dots bool
	// Collapse answers every 401 of headers and tokens alike, so that nobody learns which check failed.
	Collapse bool
}

// Name implements Dialect.
func (o ORO) Name() string { return "oro" }

// Speaks implements Dialect: a nonce, or a bearer token where there are sessions.
func (o ORO) Speaks(r *dialect.Request) bool { return r.Any(dialect.HeaderNonce) || o.bearer(r) }

// bearer reports whether an Authorization header is there and counts.
func (o ORO) bearer(r *dialect.Request) bool {
	if o.Sessions == nil {
		return false
	}
	value, _ := r.Get("Authorization")
	return strings.TrimSpace(value) != ""
}

type oroDetail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (o ORO) refuse(status int, code, message string, err error) *dialect.Refusal {
	if o.Collapse && status == http.StatusUnauthorized {
		err = errors.Join(errors.New(code), err)
		code, message = "UNAUTHORIZED", "Authentication required"
	}
	return &dialect.Refusal{Status: status, Code: code, Err: err, Body: map[string]oroDetail{"detail": {code, message}}}
}

// Check implements Dialect.
func (o ORO) Check(ctx context.Context, v *dialect.Verifier, r *dialect.Request, need dialect.Need) (dialect.Identity, *dialect.Refusal) {
	// A token that does not hold is refused, never passed on to the headers.
	if o.bearer(r) {
		return o.checkBearer(ctx, v, r, need)
	}
	names := []string{dialect.HeaderHotkey, dialect.HeaderTimestamp, dialect.HeaderNonce, dialect.HeaderSignature}
	values := make([]string, len(names))
	var missing []string
	for i, name := range names {
		value, ok := r.Get(name)
		if !ok {
			missing = append(missing, name)
		}
		values[i] = value
	}
	if missing != nil {
		return dialect.Identity{}, o.refuse(401, "MISSING_HEADERS", "Missing required authentication headers: "+strings.Join(missing, ", "), nil)
	}
	hotkey, timestamp, nonce, signature := values[0], values[1], values[2], values[3]

	pub, err := auth.ParseSS58(hotkey)
	if err != nil {
		return dialect.Identity{}, o.refuse(400, "INVALID_HOTKEY_FORMAT", "Invalid hotkey format", err)
	}
	seconds, err := pythonInt(timestamp)
	if err != nil {
		return dialect.Identity{}, o.refuse(400, "INVALID_TIMESTAMP", "Invalid timestamp format", err)
	}
	now := v.Now()
	at := time.Unix(seconds, 0)
	if !dialect.Near(time.Unix(now.Unix(), 0), at, oroWindow) {
		return dialect.Identity{}, o.refuse(401, "TIMESTAMP_SKEW", "Timestamp outside acceptable window", nil)
	}
	if len(nonce) > oroMaxNonce {
		return dialect.Identity{}, o.refuse(400, "NONCE_TOO_LONG", "Nonce exceeds maximum allowed length", nil)
	}
	msg, joint := Colon(hotkey, timestamp, nonce), ":"
	if o.Dots {
		msg, joint = []byte(hotkey+"."+timestamp+"."+nonce), "."
	}
	sig, err := dialect.Unhex(signature, auth.SignatureSize)
	if err != nil || !dialect.Holds(pub, sig, msg) {
		return dialect.Identity{}, o.refuse(401, "INVALID_SIGNATURE", "Invalid signature", err)
	}
	if strings.Contains(nonce, joint) {
		return dialect.Identity{}, o.refuse(400, "NONCE_INVALID_CHARS", "Nonce contains invalid characters", nil)
	}
	bound, ok := o.binding(r, nonce)
	if !ok || v.Strict && !bound && r.Mutates() {
		return dialect.Identity{}, o.refuse(401, "REQUEST_NOT_BOUND", "The nonce is not bound to this request", nil)
	}
	fresh, err := v.Once(ctx, o.Name(), hotkey, nonce, now.Add(oroMemory))
	if err != nil {
		return dialect.Identity{}, dialect.PlainBroken(err)
	}
	if !fresh {
		return dialect.Identity{}, o.refuse(401, "NONCE_REUSED", "Nonce has already been used", nil)
	}
	member, standing, err := v.Standing(ctx, hotkey, need)
	if refusal := o.standing(standing, need, err); refusal != nil {
		return dialect.Identity{}, refusal
	}
	return dialect.Identity{Hotkey: hotkey, Dialect: o.Name(), At: at, Bound: bound, Member: member}, nil
}

// binding reports whether the nonce is bound, and not to another request.
func (o ORO) binding(r *dialect.Request, nonce string) (bound, ok bool) {
	const hexLen = 64
	dot := len(nonce) - hexLen - 1
	if dot < 1 || nonce[dot] != '.' || o.Dots {
		return false, true
	}
	for _, c := range []byte(nonce[dot+1:]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false, true
		}
	}
	return true, nonce[dot+1:] == Bind(r.Method, r.Target(), r.Body)
}

func (o ORO) standing(s dialect.Standing, need dialect.Need, err error) *dialect.Refusal {
	switch {
	case s == dialect.StandingGood:
		return nil
	case s == dialect.StandingUnknown && !errors.Is(err, dialect.ErrStale):
		return dialect.PlainBroken(err)
	case s == dialect.StandingBanned:
		return o.refuse(403, "BANNED", "Hotkey is banned", nil)
	case need.Validator: // with a stale metagraph nobody is registered
		return o.refuse(403, "NOT_REGISTERED_AS_VALIDATOR", "Not registered as validator", err)
	default:
		return o.refuse(403, "NOT_REGISTERED", "Hotkey not registered on subnet", err)
	}
}

// pythonInt reads what Python's int() reads: blanks around, a sign, digits with
// single underscores between them. A number beyond any time is cut to one far away.
func pythonInt(s string) (int64, error) {
	const far = int64(1) << 52
	s = strings.TrimSpace(s)
	if len(s) > 64 {
		return 0, errors.New("too long")
	}
	digits, negative := strings.CutPrefix(s, "-")
	if !negative {
		digits = strings.TrimPrefix(digits, "+")
	}
	var n int64
	last := byte('_')
	for _, c := range []byte(digits) {
		switch {
		case c >= '0' && c <= '9':
			n = min(n*10+int64(c-'0'), far)
		case c != '_' || last == '_':
			return 0, errors.New("not an integer")
		}
		last = c
	}
	if last == '_' {
		return 0, errors.New("not an integer")
	}
	if negative {
		n = -n
	}
	return n, nil
}
