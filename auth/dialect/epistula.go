package dialect

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/signing"
)

// epistulaWindow is how far a timestamp may be off. The reference refuses stale
// ones only; one from the future could be used again after it was forgotten.
const epistulaWindow = 8 * time.Second

// Epistula is version 2 of that form (spec/chain.md 7). It covers the body,
// but neither method nor path. Its secret signatures are not looked at: their
// text differs between copies.
type Epistula struct {
	// Self is our own address. A request signed for another is refused; Strict
	// demands that it be signed for this one.
	Self string
}

// Name implements Dialect.
func (e Epistula) Name() string { return "epistula-v2" }

const (
	epistulaVersion   = "Epistula-Version"
	epistulaTimestamp = "Epistula-Timestamp"
	epistulaUUID      = "Epistula-Uuid"
	epistulaSignedBy  = "Epistula-Signed-By"
	epistulaSignedFor = "Epistula-Signed-For"
	epistulaSignature = "Epistula-Request-Signature"
)

// Speaks implements Dialect.
func (e Epistula) Speaks(r *Request) bool {
	return r.any(epistulaVersion, epistulaTimestamp, epistulaUUID, epistulaSignedBy, epistulaSignature)
}

func epistulaRefuse(status int, detail string, err error) *Refusal {
	r := plain(status, detail)
	r.Err = err
	return r
}

// Check implements Dialect.
func (e Epistula) Check(ctx context.Context, v *Verifier, r *Request, need Need) (Identity, *Refusal) {
	version, hasVersion := r.get(epistulaVersion)
	timestamp, _ := r.get(epistulaTimestamp)
	id, _ := r.get(epistulaUUID)
	signedBy, _ := r.get(epistulaSignedBy)
	signedFor, _ := r.get(epistulaSignedFor)
	signature, hasSignature := r.get(epistulaSignature)

	if hasVersion && version != "2" {
		return Identity{}, epistulaRefuse(400, "Unknown Epistula version", nil)
	}
	if !hasSignature {
		return Identity{}, epistulaRefuse(400, "Invalid Signature", errors.New("no signature"))
	}
	sig, err := unhex(signature, auth.SignatureSize)
	if err != nil || len(sig) != auth.SignatureSize {
		return Identity{}, epistulaRefuse(400, "Invalid Signature", err)
	}
	ms, ok := decimal(timestamp)
	if !ok {
		return Identity{}, epistulaRefuse(400, "Invalid Timestamp", nil)
	}
	pub, err := auth.ParseSS58(signedBy)
	if err != nil {
		return Identity{}, epistulaRefuse(400, "Invalid Sender key", err)
	}
	parsed, err := uuid.Parse(id)
	if err != nil || len(id) != 36 {
		return Identity{}, epistulaRefuse(400, "Invalid uuid", err)
	}
	now, at := v.Now(), time.UnixMilli(ms)
	switch age := now.Sub(at); {
	case age > epistulaWindow:
		return Identity{}, epistulaRefuse(400, "Request is too stale", nil)
	case age < -epistulaWindow:
		return Identity{}, epistulaRefuse(400, "Request is from the future", nil)
	}
	if signedFor != e.Self && (signedFor != "" || v.Strict) {
		return Identity{}, epistulaRefuse(400, "Request is signed for another receiver", nil)
	}
	if !holds(pub, sig, signing.Epistula(r.Body, id, timestamp, signedFor)) {
		return Identity{}, epistulaRefuse(400, "Signature Mismatch", nil)
	}
	fresh, err := v.once(ctx, e.Name(), signedBy, parsed.String(), now.Add(2*epistulaWindow+time.Second))
	if err != nil {
		return Identity{}, oroBroken(err)
	}
	if !fresh {
		return Identity{}, epistulaRefuse(400, "Request was used before", nil)
	}
	member, standing, err := v.Standing(ctx, signedBy, need)
	if refusal := plainStanding(standing, err); refusal != nil {
		return Identity{}, refusal
	}
	return Identity{Hotkey: signedBy, Dialect: e.Name(), At: at, Member: member}, nil
}

// plainStanding is the answer of dialects whose errors are {"detail": text}.
func plainStanding(s Standing, err error) *Refusal {
	detail := map[Standing]string{
		StandingUnregistered: "Hotkey is not registered", StandingNoValidator: "Hotkey is not a validator",
		StandingNotOwner: "Hotkey belongs to another coldkey", StandingBanned: "Hotkey is banned",
	}[s]
	switch {
	case s == StandingGood:
		return nil
	case errors.Is(err, ErrStale):
		return epistulaRefuse(http.StatusServiceUnavailable, "Metagraph is too old", err)
	case s == StandingUnknown:
		return oroBroken(err)
	default:
		return plain(http.StatusForbidden, detail)
	}
}
