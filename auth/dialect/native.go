package dialect

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/signing"
)

// Times of the native form. The sender sets timeout and does not sign it, so it
// widens the window only so far.
const (
	nativeWindow     = 4 * time.Second
	nativeMaxTimeout = 60 * time.Second
)

// Native is the form of the Bittensor SDK between dendrite and axon: headers
// bt_header_* (spec/chain.md 7). It closes the SDK's holes: the signature is
// required, age is checked whatever version the sender names, times from the
// future are refused, a nonce is taken once even if a newer one came before.
type Native struct {
	// Self is our own address, which the sender must have signed for, whatever its headers say.
	Self string
	// Fields returns the required hash fields of the synapse named by the path,
	// in the order of its class. None, the default, leaves the body unsigned,
	// which Strict refuses.
	Fields func(synapse string) []string
}

// Name implements Dialect.
func (n Native) Name() string { return "bittensor" }

const (
	nativeNonce     = "bt_header_dendrite_nonce"
	nativeHotkey    = "bt_header_dendrite_hotkey"
	nativeUUID      = "bt_header_dendrite_uuid"
	nativeSignature = "bt_header_dendrite_signature"
)

// Speaks implements Dialect.
func (n Native) Speaks(r *Request) bool {
	return r.Any(nativeNonce, nativeHotkey, nativeUUID, nativeSignature)
}

func nativeRefuse(status int, why string, err error) *Refusal {
	return &Refusal{Status: status, Code: why, Err: err, Body: map[string]string{"message": "Not Verified with error: " + why}}
}

// Check implements Dialect.
func (n Native) Check(ctx context.Context, v *Verifier, r *Request, need Need) (Identity, *Refusal) {
	hotkey, _ := r.Get(nativeHotkey)
	pub, err := auth.ParseSS58(hotkey)
	if err != nil {
		return Identity{}, nativeRefuse(401, "Invalid dendrite hotkey", err)
	}
	nonceText, _ := r.Get(nativeNonce)
	nonce, err := strconv.ParseInt(nonceText, 10, 64)
	if err != nil || nonce < 0 || nonceText[0] == '+' {
		return Identity{}, nativeRefuse(401, "Missing Nonce", err)
	}
	uuid, _ := r.Get(nativeUUID)
	if len(uuid) > 64 || strings.Contains(uuid, ".") {
		return Identity{}, nativeRefuse(401, "Invalid uuid", nil)
	}
	now, at := v.Now(), time.Unix(0, nonce)
	window := nativeWindow + nativeTimeout(r)
	switch age := now.Sub(at); {
	case age >= window:
		return Identity{}, nativeRefuse(401, "Nonce is too old, a newer one was last processed", nil)
	case age < -window:
		return Identity{}, nativeRefuse(401, "Nonce is from the future", nil)
	}
	hash, covered, err := n.bodyHash(r)
	if err != nil {
		return Identity{}, nativeRefuse(400, "Hash fields are missing from the body", err)
	}
	signature, ok := r.Get(nativeSignature)
	sig, err := Unhex(signature, auth.SignatureSize)
	if !ok || err != nil || !Holds(pub, sig, signing.Native(nonceText, hotkey, n.Self, uuid, hash)) {
		return Identity{}, nativeRefuse(401, "Signature mismatch", err)
	}
	if v.Strict && !covered {
		return Identity{}, nativeRefuse(401, "Body is not covered by the signature", nil)
	}
	fresh, err := v.Once(ctx, n.Name(), hotkey, uuid+":"+strconv.FormatInt(nonce, 10), at.Add(nativeWindow+nativeMaxTimeout+time.Second))
	if err != nil {
		return Identity{}, broken(map[string]string{"message": "Internal Server Error"}, err)
	}
	if !fresh {
		return Identity{}, nativeRefuse(401, "Nonce was used before", nil)
	}
	member, standing, err := v.Standing(ctx, hotkey, need)
	switch {
	case standing == StandingGood:
		return Identity{Hotkey: hotkey, Dialect: n.Name(), At: at, Member: member}, nil
	case errors.Is(err, ErrStale):
		return Identity{}, nativeRefuse(503, "Metagraph is too old", err)
	case standing == StandingUnknown:
		return Identity{}, broken(map[string]string{"message": "Internal Server Error"}, err)
	default:
		return Identity{}, &Refusal{Status: http.StatusForbidden, Code: "Forbidden", Err: err, Body: map[string]string{"message": "Forbidden. Key is blacklisted: hotkey is not allowed here"}}
	}
}

// nativeTimeout is the sender's timeout, within bounds.
func nativeTimeout(r *Request) time.Duration {
	text, _ := r.Get("timeout")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, nativeMaxTimeout.Seconds()) * float64(time.Second))
}

// bodyHash computes the hash that must be signed from the body itself.
func (n Native) bodyHash(r *Request) (hash string, covered bool, err error) {
	var names []string
	if n.Fields != nil {
		names = n.Fields(r.Path[strings.LastIndexByte(r.Path, '/')+1:])
	}
	if len(names) == 0 {
		return signing.NativeBodyHash(), false, nil
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return "", false, err
	}
	values := make([]string, len(names))
	for i, name := range names {
		raw, ok := body[name]
		if !ok {
			return "", false, errors.New("body has no field " + name)
		}
		if values[i], err = signing.PythonText(raw); err != nil {
			return "", false, err
		}
	}
	return signing.NativeBodyHash(values...), true, nil
}
