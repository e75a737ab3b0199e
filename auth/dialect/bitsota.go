package dialect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/signing"
)

// DefaultBitSotaWindow is how far a timestamp may be off, both ways.
const DefaultBitSotaWindow = 300 * time.Second

// BitSota is BT-AUTH-V1 (spec/bitsota.md 3). What is hashed is the canonical
// form of the parsed body, not the bytes that travel; a Python server's
// spelling of numbers and the raw bytes are accepted as well, for clients that
// are not Python. A signature of a request that is no read is taken once.
type BitSota struct {
	Window time.Duration // 0 = DefaultBitSotaWindow
}

// Name implements Dialect.
func (b BitSota) Name() string { return "bt-auth-v1" }

// Speaks implements Dialect. ORO's headers are these and a nonce.
func (b BitSota) Speaks(r *Request) bool {
	return r.any(HeaderHotkey, HeaderSignature) && !r.any(HeaderNonce)
}

// Check implements Dialect.
func (b BitSota) Check(ctx context.Context, v *Verifier, r *Request, need Need) (Identity, *Refusal) {
	hotkey, _ := r.get(HeaderHotkey)
	timestamp, _ := r.get(HeaderTimestamp)
	signature, _ := r.get(HeaderSignature)
	if hotkey == "" || timestamp == "" || signature == "" {
		return Identity{}, plain(401, "missing auth headers")
	}
	return b.check(ctx, v, r, need, hotkey, timestamp, signature, true, bitsotaMessages(r, timestamp))
}

// Sibling forms of BitSota that sign less than the request.
const (
	BitSotaRelay = "relay" // the timestamp alone
	BitSotaPool  = "pool"  // auth:{timestamp}
)

// CheckSibling checks the headers X-Key, X-Timestamp and X-Signature of the
// relay or the pool. Their signatures cover the time only, so Strict takes each once.
func (b BitSota) CheckSibling(ctx context.Context, v *Verifier, r *Request, need Need, form string) (Identity, *Refusal) {
	hotkey, _ := r.get("X-Key")
	timestamp, _ := r.get(HeaderTimestamp)
	signature, _ := r.get(HeaderSignature)
	if hotkey == "" || timestamp == "" || signature == "" {
		return Identity{}, plain(401, "missing auth headers")
	}
	msg := []byte(timestamp)
	if form == BitSotaPool {
		msg = signing.BitSotaPool(timestamp)
	}
	return b.check(ctx, v, r, need, hotkey, timestamp, signature, false, [][]byte{msg})
}

// CheckRecipient checks the signed fields of an update of the recipient of rewards.
func (b BitSota) CheckRecipient(ctx context.Context, v *Verifier, r *Request, need Need, hotkey, timestamp, signature, coldkey string) (Identity, *Refusal) {
	if _, err := auth.ParseSS58(coldkey); err != nil {
		return Identity{}, epistulaRefuse(400, "invalid recipient coldkey", err)
	}
	return b.check(ctx, v, r, need, hotkey, timestamp, signature, false, [][]byte{signing.BitSotaRecipient(timestamp, coldkey)})
}

func (b BitSota) check(ctx context.Context, v *Verifier, r *Request, need Need, hotkey, timestamp, signature string, bound bool, msgs [][]byte) (Identity, *Refusal) {
	pub, err := auth.ParseSS58(hotkey)
	if err != nil {
		return Identity{}, epistulaRefuse(401, "invalid hotkey", err)
	}
	seconds, ok := decimal(timestamp)
	if !ok {
		return Identity{}, plain(401, "invalid timestamp: want Unix seconds")
	}
	window := b.Window
	if window == 0 {
		window = DefaultBitSotaWindow
	}
	now, at := v.Now(), time.Unix(seconds, 0)
	if whole := time.Unix(now.Unix(), 0); !near(whole, at, window) {
		return Identity{}, plain(401, fmt.Sprintf("timestamp is %d s from the server's clock: at most %d s", int64(whole.Sub(at)/time.Second), int64(window/time.Second)))
	}
	sig, err := unhex(signature, auth.SignatureSize+1)
	// A leading byte names the scheme in signatures of browser extensions: 1 is sr25519.
	if err == nil && len(sig) == auth.SignatureSize+1 && sig[0] == byte(auth.Sr25519) {
		sig = sig[1:]
	}
	if err != nil || len(sig) != auth.SignatureSize {
		return Identity{}, epistulaRefuse(401, "invalid signature", errors.Join(err, fmt.Errorf("%d bytes", len(sig))))
	}
	if !holds(pub, sig, msgs...) {
		return Identity{}, plain(401, "invalid signature")
	}
	if r.mutates() || v.Strict && !bound {
		fresh, err := v.onceSigned(ctx, b.Name(), hotkey, sig, now.Add(2*window+time.Second))
		if err != nil {
			return Identity{}, oroBroken(err)
		}
		if !fresh {
			return Identity{}, plain(401, "request was used before: sign it again")
		}
	}
	member, standing, err := v.Standing(ctx, hotkey, need)
	if refusal := plainStanding(standing, err); refusal != nil {
		return Identity{}, refusal
	}
	return Identity{Hotkey: hotkey, Dialect: b.Name(), At: at, Bound: bound, Member: member}, nil
}

// bitsotaMessages are the forms of which any one may be signed: the canonical
// body, Python's spelling of it, and the raw bytes. All of them bind the body.
func bitsotaMessages(r *Request, timestamp string) [][]byte {
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	var out [][]byte
	add := func(hash string) {
		out = append(out, signing.BitSota(method, r.Path, r.Query, timestamp, hash))
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
