// Package signin checks the signed requests of BitSota (BT-AUTH-V1) and of its
// relay and pool, and says which bytes they sign.
package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/signing"
)

// DefaultWindow is how far a timestamp may be off, both ways.
const DefaultWindow = 300 * time.Second

// BitSota is BT-AUTH-V1 (spec/bitsota.md 3). What is hashed is the canonical
// form of the parsed body, not the bytes that travel; a Python server's
// spelling of numbers and the raw bytes are accepted as well, for clients that
// are not Python. A signature of a request that is not a read is taken once.
type BitSota struct {
	Window time.Duration // 0 = DefaultWindow
}

// Name implements Dialect.
func (b BitSota) Name() string { return "bt-auth-v1" }

// Speaks implements Dialect. ORO's headers are these and a nonce.
func (b BitSota) Speaks(r *dialect.Request) bool {
	return r.Any(dialect.HeaderHotkey, dialect.HeaderSignature) && !r.Any(dialect.HeaderNonce)
}

// Check implements Dialect.
func (b BitSota) Check(ctx context.Context, v *dialect.Verifier, r *dialect.Request, need dialect.Need) (dialect.Identity, *dialect.Refusal) {
	hotkey, _ := r.Get(dialect.HeaderHotkey)
	timestamp, _ := r.Get(dialect.HeaderTimestamp)
	signature, _ := r.Get(dialect.HeaderSignature)
	if hotkey == "" || timestamp == "" || signature == "" {
		return dialect.Identity{}, dialect.Plain(401, "missing auth headers", nil)
	}
	return b.check(ctx, v, r, need, hotkey, timestamp, signature, true, bitsotaMessages(r, timestamp))
}

// Sibling forms of BitSota that sign less than the request.
const (
	Relay = "relay" // the timestamp alone
	Pool  = "pool"  // auth:{timestamp}
)

// CheckSibling checks the headers X-Key, X-Timestamp and X-Signature of the
// relay or the pool. Their signatures cover the time only, so Strict takes each once.
func (b BitSota) CheckSibling(ctx context.Context, v *dialect.Verifier, r *dialect.Request, need dialect.Need, form string) (dialect.Identity, *dialect.Refusal) {
	hotkey, _ := r.Get("X-Key")
	timestamp, _ := r.Get(dialect.HeaderTimestamp)
	signature, _ := r.Get(dialect.HeaderSignature)
	if hotkey == "" || timestamp == "" || signature == "" {
		return dialect.Identity{}, dialect.Plain(401, "missing auth headers", nil)
	}
	msg := []byte(timestamp)
	if form == Pool {
		msg = PoolMessage(timestamp)
	}
	return b.check(ctx, v, r, need, hotkey, timestamp, signature, false, [][]byte{msg})
}

// CheckRecipient checks the signed fields of an update of the recipient of rewards.
func (b BitSota) CheckRecipient(ctx context.Context, v *dialect.Verifier, r *dialect.Request, need dialect.Need, hotkey, timestamp, signature, coldkey string) (dialect.Identity, *dialect.Refusal) {
	if _, err := auth.ParseSS58(coldkey); err != nil {
		return dialect.Identity{}, dialect.Plain(400, "invalid recipient coldkey", err)
	}
	return b.check(ctx, v, r, need, hotkey, timestamp, signature, false, [][]byte{RecipientMessage(timestamp, coldkey)})
}

func (b BitSota) check(ctx context.Context, v *dialect.Verifier, r *dialect.Request, need dialect.Need, hotkey, timestamp, signature string, bound bool, msgs [][]byte) (dialect.Identity, *dialect.Refusal) {
	pub, err := auth.ParseSS58(hotkey)
	if err != nil {
		return dialect.Identity{}, dialect.Plain(401, "invalid hotkey", err)
	}
	seconds, ok := dialect.Decimal(timestamp)
	if !ok {
		return dialect.Identity{}, dialect.Plain(401, "invalid timestamp: want Unix seconds", nil)
	}
	window := b.Window
	if window == 0 {
		window = DefaultWindow
	}
	now, at := v.Now(), time.Unix(seconds, 0)
	if whole := time.Unix(now.Unix(), 0); !dialect.Near(whole, at, window) {
		return dialect.Identity{}, dialect.Plain(401, fmt.Sprintf("timestamp is %d s from the server's clock: at most %d s", int64(whole.Sub(at)/time.Second), int64(window/time.Second)), nil)
	}
	sig, err := dialect.Unhex(signature, auth.SignatureSize+1)
	// A leading byte names the scheme in signatures of browser extensions: 1 is sr25519.
	if err == nil && len(sig) == auth.SignatureSize+1 && sig[0] == byte(auth.Sr25519) {
		sig = sig[1:]
	}
	if err != nil || len(sig) != auth.SignatureSize {
		return dialect.Identity{}, dialect.Plain(401, "invalid signature", errors.Join(err, fmt.Errorf("%d bytes", len(sig))))
	}
	if !dialect.Holds(pub, sig, msgs...) {
		return dialect.Identity{}, dialect.Plain(401, "invalid signature", nil)
	}
	if r.Mutates() || v.Strict && !bound {
		fresh, err := v.OnceSigned(ctx, b.Name(), hotkey, sig, now.Add(2*window+time.Second))
		if err != nil {
			return dialect.Identity{}, dialect.PlainBroken(err)
		}
		if !fresh {
			return dialect.Identity{}, dialect.Plain(401, "request was used before: sign it again", nil)
		}
	}
	member, standing, err := v.Standing(ctx, hotkey, need)
	if refusal := dialect.PlainStanding(standing, err); refusal != nil {
		return dialect.Identity{}, refusal
	}
	return dialect.Identity{Hotkey: hotkey, Dialect: b.Name(), At: at, Bound: bound, Member: member}, nil
}

// bitsotaMessages are the forms of which any one may be signed: the canonical
// body, Python's spelling of it, and the raw bytes. All of them bind the body.
func bitsotaMessages(r *dialect.Request, timestamp string) [][]byte {
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	var out [][]byte
	add := func(hash string) {
		out = append(out, Message(method, r.Path, r.Query, timestamp, hash))
	}
	if len(r.Body) > 0 {
		for _, form := range []func([]byte) ([]byte, error){signing.CanonicalJSON, signing.PythonJSON} {
			if b, err := form(r.Body); err == nil {
				add(signing.BodyHash(b))
			}
		}
	}
	add(signing.BodyHash(r.Body))
	return out
}
